"""``ToolsNode``: what becomes of calls that go wrong; the pains T1–T12 of other frameworks, by their numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import pytest

from anabranch.compose import (
    END,
    START,
    ErrorPolicies,
    Graph,
    RunOptions,
    ToolCallCutError,
    ToolFailedError,
    ToolsNode,
    ToolsOptions,
    ToolTimeoutError,
    with_call_ids,
)
from anabranch.schema import (
    Message,
    MessageError,
    Tool,
    ToolArgumentsError,
    ToolCall,
    ToolDefinitionError,
    ToolResult,
    check_history,
    concat,
    stream_scope,
    tool,
)

pytestmark = pytest.mark.anyio


@tool
async def search(query: str, limit: int = 5) -> str:
    """Search for a text."""
    return f"{limit} hits for {query}"


@tool
async def broken() -> str:
    """Fail."""
    raise ValueError("the disk is full")


def call(id: str, name: str, arguments: str = "") -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


def calls(*given: ToolCall, finish_reason: str | None = None) -> Message:
    return Message.assistant(tool_calls=given, finish_reason=finish_reason)


async def stream(node: ToolsNode, message: Message) -> list[Message | None]:
    async with stream_scope():
        return concat([chunk async for chunk in node.stream(message)])


async def both_ways(node: ToolsNode, message: Message) -> list[Message]:
    answers = await node.invoke(message)
    assert await stream(node, message) == answers
    return answers


async def test_t1_a_tool_that_fails_costs_nobody_else_a_result() -> None:
    answers = await both_ways(
        ToolsNode([search, broken]), calls(call("1", "broken"), call("2", "search", '{"query": "tides"}'))
    )

    assert answers == [
        Message.tool(
            "The tool 'broken' failed: ValueError: the disk is full", tool_call_id="1", name="broken", is_error=True
        ),
        Message.tool("5 hits for tides", tool_call_id="2", name="search"),
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"query": ', "are not valid JSON: they are cut off"),
        ('{"query": tides}', "are not valid JSON"),
        ('["tides"]', "are a list"),
        ("{}", "- query: is required"),
        ('{"query": "a", "limit": "many"}', "- limit: should be a valid integer"),
        ('{"qurey": "a"}', "did you mean 'query'?"),
    ],
)
async def test_t2_arguments_that_do_not_fit_are_told_in_words_that_a_model_can_act_on(
    arguments: str, told: str
) -> None:
    answers = await both_ways(ToolsNode([search]), calls(call("1", "search", arguments)))

    assert told in answers[0].text
    assert "'search'" in answers[0].text
    assert (answers[0].is_error, answers[0].tool_call_id) == (True, "1")


async def test_t5_two_tools_of_one_name_are_an_error_when_the_node_is_made() -> None:
    with pytest.raises(ToolDefinitionError, match="two tools are called 'search'"):
        ToolsNode([search, search])
    with pytest.raises(ToolDefinitionError, match="two tools are called 'search'"):
        ToolsNode([search]).with_tools(search)


async def test_t6_doubled_ids_are_refused_and_can_be_mended_once_for_message_and_answers() -> None:
    message = calls(call("x", "search", '{"query": "a"}'), call("x", "search", '{"query": "b"}'), call("", "", "{}"))
    node = ToolsNode([search])

    with pytest.raises(MessageError, match="two calls have the id 'x'"):
        await node.invoke(message)
    mended = with_call_ids(message, "turn4")
    answers = await both_ways(node, mended)

    assert [c.id for c in mended.tool_calls] == ["x", "turn4_1", "turn4_2"]
    assert [a.tool_call_id for a in answers] == ["x", "turn4_1", "turn4_2"]
    assert check_history([mended, *answers]) == []
    assert with_call_ids(mended) is mended
    assert message.tool_calls[1].id == "x"


async def test_ids_that_are_made_up_are_nobody_elses() -> None:
    mended = with_call_ids(calls(call("call_1", "a"), call("call_1", "b"), call("call_1_", "c")))

    assert [c.id for c in mended.tool_calls] == ["call_1", "call_1__", "call_1_"]


async def test_t7_answers_stand_directly_after_their_calls_whatever_happens() -> None:
    message = calls(
        call("1", "broken"), call("2", "nobody"), call("3", "search", "{"), call("4", "search", '{"query": "a"}')
    )

    answers = await both_ways(ToolsNode([search, broken]), message)

    assert check_history([Message.user("q"), message, *answers]) == []


async def test_t12_no_tool_is_called_twice_because_another_one_fails() -> None:
    ran: list[str] = []

    @tool
    async def charge() -> str:
        ran.append("charge")
        return "charged"

    message = calls(call("1", "charge"), call("2", "broken"))
    with pytest.raises(ToolFailedError) as failed:
        await ToolsNode([charge, broken], on_error="raise").invoke(message)

    assert ran == ["charge"]
    assert failed.value.results[0] == Message.tool("charged", tool_call_id="1", name="charge")


# --- kinds of failure, and policies ----------------------------------------------------------------------------------


@tool(timeout=0.01)
async def slow() -> str:
    """Take too long."""
    await anyio.sleep(1000)
    return "late"


FAILURES: dict[str, tuple[ToolCall, type[Exception], str | None]] = {
    "unknown": (call("1", "nobody"), LookupError, None),
    "cut": (call("1", "search", '{"query": "ti'), ToolCallCutError, "length"),
    "json": (call("1", "search", '{"query": "ti'), ToolArgumentsError, None),
    "arguments": (call("1", "search", '{"limit": 1}'), ToolArgumentsError, None),
    "exception": (call("1", "broken"), ValueError, None),
    "timeout": (call("1", "slow"), ToolTimeoutError, None),
}


@pytest.mark.virtual_time
@pytest.mark.parametrize("kind", FAILURES)
async def test_each_kind_of_failure_has_a_policy_of_its_own(kind: Any) -> None:
    made, error, finish_reason = FAILURES[kind]
    message = calls(made, finish_reason=finish_reason)
    tools: list[Tool] = [search, broken, slow]
    others: ErrorPolicies = {k: "raise" for k in FAILURES if k != kind}  # type: ignore[misc]  # pyright: ignore[reportAssignmentType]

    told = await both_ways(ToolsNode(tools, on_error=others), message)
    assert told[0].is_error

    for node in (ToolsNode(tools, on_error={kind: "raise"}), ToolsNode(tools, on_error="raise")):
        with pytest.raises(ToolFailedError) as failed:
            await node.invoke(message)
        assert isinstance(failed.value.__cause__, error)


async def test_a_tool_may_have_a_policy_of_its_own() -> None:
    node = ToolsNode([search, broken], on_error_of={"broken": "raise"})

    assert (await node.invoke(calls(call("1", "search", "{}"))))[0].is_error
    with pytest.raises(ToolFailedError):
        await node.invoke(calls(call("1", "broken")))


async def test_a_failure_whose_tool_says_so_itself_is_marked_and_no_exception() -> None:
    @tool
    async def polite() -> ToolResult:
        return ToolResult("no such file", is_error=True)

    answers = await both_ways(ToolsNode([polite], on_error="raise"), calls(call("1", "polite")))

    assert answers == [Message.tool("no such file", tool_call_id="1", name="polite", is_error=True)]


async def test_a_result_that_cannot_be_told_is_a_failure_of_the_tool() -> None:
    @tool
    async def odd() -> Any:
        return object()

    answers = await both_ways(ToolsNode([odd]), calls(call("1", "odd")))

    assert answers[0].is_error
    assert "cannot be written as JSON" in answers[0].text


# --- the token limit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ["", " ", '{"query": "ti', '{"query"', '{"query": "a", "limit": 1'])
async def test_a_call_that_the_token_limit_cut_off_is_reported_and_never_run(arguments: str) -> None:
    ran: list[str] = []

    @tool
    async def write(query: str = "", limit: int = 1) -> str:
        ran.append(query)
        return "written"

    def complete(_: str, text: str) -> str:
        return text or "{}"

    node = ToolsNode([write], argument_handler=complete)
    message = calls(call("1", "write", "{}"), call("2", "write", arguments), finish_reason="length")
    answers = await both_ways(node, message)

    assert [answer.is_error for answer in answers] == [False, True]
    assert "cut off by the token limit" in answers[1].text
    assert ran == ["", ""]  # the first call, both ways


async def test_a_call_that_was_complete_at_the_token_limit_runs() -> None:
    message = calls(call("1", "search", '{"query": "a"}'), finish_reason="length")

    assert (await both_ways(ToolsNode([search]), message))[0].text == "5 hits for a"


# --- time-outs and retries -------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_a_time_out_ends_the_call_and_says_so() -> None:
    answers = await both_ways(
        ToolsNode([slow, search]), calls(call("1", "slow"), call("2", "search", '{"query": "a"}'))
    )

    assert answers[0].text.startswith("The tool 'slow' took longer than 0.01 s and was stopped; there is no result.")
    assert answers[1].text == "5 hits for a"


@pytest.mark.virtual_time
async def test_the_nodes_time_out_counts_for_tools_that_say_nothing() -> None:
    @tool
    async def sleeps() -> str:
        await anyio.sleep(3)
        return "awake"

    @tool(timeout=10)
    async def sleeps_well() -> str:
        await anyio.sleep(3)
        return "awake"

    message = calls(call("1", "sleeps"), call("2", "sleeps_well"))
    assert [a.is_error for a in await both_ways(ToolsNode([sleeps, sleeps_well], timeout=2), message)] == [True, False]

    graph = Graph[Message, list[Message]]()
    graph.add_edge(START, graph.add_node("tools", ToolsNode([sleeps, sleeps_well])))
    graph.add_edge("tools", END)
    answers = await graph.compile().invoke(message, RunOptions(at={"tools": ToolsOptions(timeout=1)}))
    assert [a.is_error for a in answers] == [True, False]
    with pytest.raises(ToolDefinitionError, match="more than 0"):
        ToolsNode([], timeout=0)


@pytest.mark.virtual_time
async def test_a_stream_has_its_time_for_all_of_its_chunks_and_keeps_those_that_came() -> None:
    closed: list[str] = []

    @tool(timeout=5)
    async def ticks() -> AsyncIterator[str]:
        try:
            for _ in range(100):
                yield "tick "
                await anyio.sleep(2)
        finally:
            closed.append("ticks")

    answers = await both_ways(ToolsNode([ticks]), calls(call("1", "ticks")))

    assert answers[0].is_error
    assert answers[0].text.startswith("tick tick tick \nThe tool 'ticks' took longer than 5 s")
    assert closed == ["ticks", "ticks"]


def flaky(failures: Sequence[Exception | None], **options: Any) -> Any:
    left = list(failures)

    async def attempt() -> str:
        failure = left.pop(0)
        if failure is not None:
            raise failure
        return f"{len(failures) - len(left)} attempts"

    return tool(attempt, **options)


async def test_retries_try_again_after_an_exception_and_then_give_up() -> None:
    message = calls(call("1", "attempt"))

    good = await ToolsNode([flaky([OSError(), OSError(), None], retries=2)]).invoke(message)
    bad = await ToolsNode([flaky([OSError("a"), OSError("b"), None], retries=1)]).invoke(message)

    assert good[0].text == "3 attempts"
    assert bad[0].text == "The tool 'attempt' failed: OSError: b"


async def test_arguments_that_a_tool_refuses_are_not_tried_again() -> None:
    answers = await ToolsNode([flaky([ToolArgumentsError("no"), None], retries=5)]).invoke(calls(call("1", "attempt")))

    assert answers[0].text == "no"


async def test_a_stream_is_tried_again_until_its_first_chunk_is_out() -> None:
    attempts: list[int] = []

    @tool(retries=3)
    async def late(after: int) -> AsyncIterator[str]:
        attempts.append(after)
        for number in range(after):
            yield str(number)
        if len(attempts) < 3:
            raise OSError(f"attempt {len(attempts)}")

    node = ToolsNode([late])

    assert (await node.invoke(calls(call("1", "late", '{"after": 0}'))))[0].text == ""
    assert len(attempts) == 3
    attempts.clear()
    answer = (await node.invoke(calls(call("1", "late", '{"after": 2}'))))[0]
    assert answer.text == "01\nThe tool 'late' failed: OSError: attempt 1"


async def test_142_a_stream_that_fails_keeps_what_came_and_fails_the_node_only_where_that_is_the_policy() -> None:
    @tool
    async def half() -> AsyncIterator[str]:
        yield "half"
        raise OSError("gone")

    message = calls(call("1", "half"), call("2", "search", '{"query": "a"}'))
    answers = await both_ways(ToolsNode([half, search]), message)
    assert [a.text for a in answers] == ["half\nThe tool 'half' failed: OSError: gone", "5 hits for a"]

    node = ToolsNode([half, search], on_error="raise")
    for attempt in (node.invoke(message), stream(node, message)):
        with pytest.raises(ToolFailedError) as failed:
            await attempt
        assert failed.value.results[1] == Message.tool("5 hits for a", tool_call_id="2", name="search")


async def test_an_unknown_name_may_be_answered_by_a_handler_behind_the_middlewares() -> None:
    """Weak point 23: such calls take the way of all others."""
    seen: list[str] = []

    async def watch(made: ToolCall, next: Any) -> Any:
        seen.append(made.name)
        return await next(made)

    def answer(name: str, arguments: str) -> str:
        return f"{name} is not here, {arguments}"

    node = ToolsNode([search], unknown_tool=answer, middlewares=[watch], on_error="raise")
    answers = await both_ways(node, calls(call("1", "nobody", '{"a": 1}')))

    assert answers == [Message.tool('nobody is not here, {"a": 1}', tool_call_id="1", name="nobody")]
    assert seen == ["nobody", "nobody"]


async def test_an_argument_handler_that_fails_fails_its_call_only() -> None:
    async def handler(name: str, arguments: str) -> str:
        if "bad" in arguments:
            raise KeyError("bad")
        return arguments

    message = calls(call("1", "search", '{"query": "bad"}'), call("2", "search", '{"query": "good"}'))
    answers = await both_ways(ToolsNode([search], argument_handler=handler), message)

    assert [a.text for a in answers] == ["The tool 'search' failed: KeyError: 'bad'", "5 hits for good"]
