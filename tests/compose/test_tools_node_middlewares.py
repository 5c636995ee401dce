"""Middlewares around tool calls: their order, what they may do, and the ready ones."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from anabranch.compose import (
    NextCall,
    RepairArguments,
    Retry,
    ToolFailedError,
    ToolRecord,
    ToolsNode,
    audit_log,
    cache_results,
    current_tool_call,
    limit_rate,
    limit_time,
    retry_calls,
    tell_errors,
    truncate_results,
)
from anabranch.schema import ImagePart, Message, TextPart, ToolCall, ToolOutput, ToolResult, concat, stream_scope, tool

pytestmark = pytest.mark.anyio

PICTURE = ImagePart(url="https://example.org/a.png")


def calls(*given: tuple[str, str]) -> Message:
    return Message.assistant(
        tool_calls=[ToolCall(id=str(n), name=name, arguments=text) for n, (name, text) in enumerate(given)]
    )


async def texts(node: ToolsNode, message: Message) -> list[str]:
    return [answer.text for answer in await node.invoke(message)]


async def stream_texts(node: ToolsNode, message: Message) -> list[str]:
    async with stream_scope():
        answers = concat([chunk async for chunk in node.stream(message)])
    return [answer.text for answer in answers if answer is not None]


async def both_ways(node: ToolsNode, message: Message) -> list[str]:
    answers = await texts(node, message)
    assert await stream_texts(node, message) == answers
    return answers


@tool
async def echo(text: str = "") -> str:
    """Say it again."""
    return text


@tool
async def spell(text: str) -> AsyncIterator[str]:
    """Say it letter by letter."""
    for letter in text:
        yield letter


async def test_the_first_middleware_is_outermost_and_each_may_change_call_and_output() -> None:
    def bracket(mark: str) -> Any:
        async def middleware(call: ToolCall, next: NextCall) -> ToolOutput:
            changed = json.loads(call.arguments)["text"] + mark
            output = await next(call.model_copy(update={"arguments": json.dumps({"text": changed})}))
            return f"{mark}{output}{mark}"

        return middleware

    assert await both_ways(
        ToolsNode([echo], middlewares=[bracket("a"), bracket("b")]), calls(("echo", '{"text": "x"}'))
    ) == ["abxabba"]


async def test_changed_arguments_are_validated_again_and_a_changed_name_is_looked_up() -> None:
    async def redirect(call: ToolCall, next: NextCall) -> ToolOutput:
        return await next(call.model_copy(update={"name": "echo", "arguments": call.arguments.replace("a", "b")}))

    node = ToolsNode([echo, spell], middlewares=[redirect])
    answers = await both_ways(node, calls(("spell", '{"text": "cat"}'), ("spell", '{"text": "c"}'), ("nobody", "[a]")))

    assert answers[:2] == ["cbt", "c"]
    assert answers[2].startswith("The arguments of 'echo' are")


async def test_a_middleware_may_answer_without_calling_on_and_is_not_asked_about_arguments_that_do_not_fit() -> None:
    seen: list[Any] = []

    async def refuse(call: ToolCall, next: NextCall) -> ToolOutput:
        seen.append(current_tool_call().arguments)
        return "refused"

    node = ToolsNode([echo], middlewares=[refuse])

    assert (await both_ways(node, calls(("echo", '{"text": "x"}'))))[0] == "refused"
    assert seen == [{"text": "x"}] * 2
    assert "do not fit" in (await both_ways(node, calls(("echo", '{"wrong": "x"}'))))[0]
    assert len(seen) == 2


async def test_one_kind_of_middleware_serves_values_and_streams() -> None:
    async def shout(call: ToolCall, next: NextCall) -> ToolOutput:
        output = await next(call)
        if isinstance(output, str):
            return output.upper()

        async def chunks() -> AsyncIterator[str]:
            async for chunk in output:
                yield chunk.upper()

        return chunks()

    node = ToolsNode([echo, spell], middlewares=[shout])
    assert await both_ways(node, calls(("echo", '{"text": "ab"}'), ("spell", '{"text": "ab"}'))) == ["AB", "AB"]


async def test_middlewares_can_be_added_around_those_of_a_node_that_stays_as_it_is() -> None:
    def marked(mark: str) -> Any:
        async def middleware(call: ToolCall, next: NextCall) -> ToolOutput:
            return f"{mark}{await next(call)}"

        return middleware

    node = ToolsNode([echo], middlewares=[marked("inner ")])
    wrapped = node.with_middlewares(marked("first "), marked("second "))

    assert await texts(wrapped, calls(("echo", '{"text": "x"}'))) == ["first second inner x"]
    assert await texts(node, calls(("echo", '{"text": "x"}'))) == ["inner x"]


# --- trying again ----------------------------------------------------------------------------------------------------


def failing(times: int, error: Exception | None = None, *, streams: bool = False) -> tuple[Any, list[int]]:
    attempts: list[int] = []

    def attempt() -> None:
        attempts.append(1)
        if len(attempts) <= times:
            raise error or OSError(f"attempt {len(attempts)}")

    async def whole() -> str:
        attempt()
        return "done"

    async def in_pieces() -> AsyncIterator[str]:
        attempt()
        yield "do"
        yield "ne"

    return tool(in_pieces if streams else whole, name="flaky"), attempts


@pytest.mark.parametrize("streams", [False, True])
async def test_retry_calls_tries_again(streams: bool) -> None:
    flaky, attempts = failing(2, streams=streams)
    assert await texts(ToolsNode([flaky], middlewares=[retry_calls(2)]), calls(("flaky", ""))) == ["done"]
    assert len(attempts) == 3

    flaky, attempts = failing(2, streams=streams)
    assert await stream_texts(ToolsNode([flaky], middlewares=[retry_calls(1)]), calls(("flaky", ""))) == [
        "The tool 'flaky' failed: OSError: attempt 2"
    ]


async def test_retry_calls_leaves_other_errors_other_tools_and_unknown_names_alone() -> None:
    for middleware in (retry_calls(Retry(attempts=5, on=(KeyError,))), retry_calls(5, tools=["other"])):
        flaky, attempts = failing(1)
        await texts(ToolsNode([flaky], middlewares=[middleware]), calls(("flaky", ""), ("nobody", "")))
        assert len(attempts) == 1


@pytest.mark.virtual_time
async def test_retry_calls_waits_longer_and_longer() -> None:
    flaky, _ = failing(3)
    began = anyio.current_time()

    await texts(ToolsNode([flaky], middlewares=[retry_calls(Retry(attempts=4, delay=1))]), calls(("flaky", "")))

    assert anyio.current_time() - began == pytest.approx(7, abs=0.01)


# --- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_limit_time_ends_values_and_streams_that_take_too_long() -> None:
    @tool
    async def slow(pause: float) -> str:
        await anyio.sleep(pause)
        return "done"

    @tool
    async def slow_pieces(pause: float) -> AsyncIterator[str]:
        for _ in range(3):
            await anyio.sleep(pause)
            yield "x"

    node = ToolsNode([slow, slow_pieces], middlewares=[limit_time(5, tools=["slow", "slow_pieces"])])
    long, short = '{"pause": 6}', '{"pause": 1}'
    answers = await both_ways(
        node, calls(("slow", short), ("slow_pieces", short), ("slow", long), ("slow_pieces", '{"pause": 2}'))
    )

    assert answers[:2] == ["done", "xxx"]
    assert answers[2].startswith("The tool 'slow' took longer than 5 s")
    assert answers[3].startswith("xx\nThe tool 'slow_pieces' took longer")
    with pytest.raises(ValueError, match="positive"):
        limit_time(0)


@pytest.mark.virtual_time
async def test_limit_rate_lets_calls_wait_for_their_turn() -> None:
    began: list[float] = []

    @tool
    async def note() -> str:
        began.append(anyio.current_time())
        return ""

    node = ToolsNode([note, echo], middlewares=[limit_rate(2, 10, tools=["note"])])
    start = anyio.current_time()
    await node.invoke(calls(*[("note", "")] * 5, ("echo", "")))
    await node.invoke(calls(("note", "")))

    assert [round(moment - start) for moment in began] == [0, 0, 10, 10, 20, 20]
    with pytest.raises(ValueError, match="positive"):
        limit_rate(0, 1)


# --- shorter results -------------------------------------------------------------------------------------------------


async def test_truncate_results_cuts_and_says_so() -> None:
    @tool
    async def numbers() -> list[int]:
        return list(range(100))

    @tool
    async def chart() -> ToolResult:
        return ToolResult(["abcdef", PICTURE, "ghi"])

    @tool
    async def parts() -> list[Any]:
        return [TextPart("ab"), PICTURE]

    node = ToolsNode(
        [echo, numbers, chart, parts], middlewares=[truncate_results(5, tools=["echo", "numbers", "chart", "parts"])]
    )
    message = calls(
        ("echo", '{"text": "12345"}'), ("echo", '{"text": "123456"}'), ("numbers", ""), ("chart", ""), ("parts", "")
    )
    answers = await node.invoke(message)

    assert answers[0].text == "12345"
    assert answers[1].text == "12345\n[cut: 5 of 6 characters are shown; ask for less, or for a part]"
    assert answers[2].text.startswith("[0, 1\n[cut: 5 of 390")
    assert answers[3].text == "abcde\n[cut: 5 of 9 characters are shown; ask for less, or for a part]"
    assert answers[3].parts[1] == PICTURE
    assert answers[4].parts == (TextPart("ab"), PICTURE)
    with pytest.raises(ValueError, match="number of characters"):
        truncate_results(-1)


async def test_truncate_results_closes_a_stream_that_is_long_enough() -> None:
    closed: list[str] = []

    @tool
    async def endless() -> AsyncIterator[Any]:
        try:
            yield ToolResult(["ab", PICTURE])
            while True:
                yield "cd"
        finally:
            closed.append("endless")

    node = ToolsNode([endless, spell], middlewares=[truncate_results(5)])

    answers = await both_ways(node, calls(("endless", ""), ("spell", '{"text": "abc"}')))
    assert answers == ["abcdc\n[cut after 5 characters; ask for less, or for a part]", "abc"]
    assert closed == ["endless", "endless"]


# --- errors ----------------------------------------------------------------------------------------------------------


async def test_tell_errors_makes_results_of_exceptions() -> None:
    @tool
    async def half() -> AsyncIterator[str]:
        yield "half "
        raise OSError("gone")

    flaky, _ = failing(9)
    node = ToolsNode([flaky, half], middlewares=[tell_errors(on=OSError)], on_error="raise")
    answers = await node.invoke(calls(("flaky", ""), ("half", "")))

    assert [answer.text for answer in answers] == [
        "The tool 'flaky' failed: OSError: attempt 1",
        "half The tool 'half' failed: OSError: gone",
    ]
    assert all(answer.is_error for answer in answers)
    other, _ = failing(9, ValueError("no"))
    with pytest.raises(ToolFailedError):
        await ToolsNode([other], middlewares=[tell_errors(on=OSError)], on_error="raise").invoke(calls(("flaky", "")))


# --- memory ----------------------------------------------------------------------------------------------------------


async def test_cache_results_gives_what_a_pure_tool_gave_for_the_same_validated_arguments() -> None:
    ran: list[str] = []

    @tool
    async def look(word: str, day: dt.date = dt.date(2024, 1, 1)) -> str:
        ran.append(word)
        return f"{word} {day}"

    @tool
    async def stream(word: str) -> AsyncIterator[str]:
        ran.append(word)
        yield word
        yield "!"

    node = ToolsNode([look, stream], middlewares=[cache_results(["look"]), cache_results("stream")])
    same = [("look", '{"word": "a"}'), ("look", '{"day": "2024-01-01", "word": "a"}'), ("look", '{"word": "b"}')]

    for call in same:
        await texts(node, calls(call))
    assert ran == ["a", "b"]
    for _ in range(2):
        assert await both_ways(node, calls(("stream", '{"word": "c"}'))) == ["c!"]
    assert ran == ["a", "b", "c"]


async def test_cache_results_keeps_no_failures_and_lets_other_tools_through() -> None:
    ran: list[str] = []

    @tool
    async def polite() -> ToolResult:
        ran.append("polite")
        return ToolResult("no", is_error=True)

    @tool
    async def clock() -> str:
        ran.append("clock")
        return "now"

    flaky, attempts = failing(1)
    node = ToolsNode([polite, clock, flaky], middlewares=[cache_results(["polite", "flaky"])])
    for _ in range(3):
        await node.invoke(calls(("polite", ""), ("clock", ""), ("flaky", ""), ("nobody", "")))

    assert sorted(ran) == ["clock"] * 3 + ["polite"] * 3
    assert len(attempts) == 2


@pytest.mark.virtual_time
async def test_cache_results_forgets_what_is_old_and_what_was_not_used_for_longest() -> None:
    ran: list[str] = []

    @tool
    async def look(word: str) -> str:
        ran.append(word)
        return word

    async def look_up(node: ToolsNode, *words: str) -> list[str]:
        ran.clear()
        for word in words:
            await node.invoke(calls(("look", json.dumps({"word": word}))))
        return list(ran)

    small = ToolsNode([look], middlewares=[cache_results(["look"], max_entries=2)])
    assert await look_up(small, "a", "b", "a", "c", "a", "b") == ["a", "b", "c", "b"]

    brief = ToolsNode([look], middlewares=[cache_results(["look"], seconds=10)])
    assert await look_up(brief, "a", "a") == ["a"]
    await anyio.sleep(11)
    assert await look_up(brief, "a", "a") == ["a"]
    with pytest.raises(ValueError, match="positive"):
        cache_results([], max_entries=0)


async def test_audit_log_writes_down_every_call_whatever_became_of_it() -> None:
    records: list[ToolRecord] = []

    async def write(record: ToolRecord) -> None:
        records.append(record)

    @tool
    async def half() -> AsyncIterator[str]:
        yield "half"
        raise OSError("gone")

    flaky, _ = failing(9)
    node = ToolsNode([echo, spell, flaky, half], sequential=True, middlewares=[audit_log(write)])
    await node.invoke(
        calls(("echo", '{"text": "x"}'), ("spell", '{"text": "ab"}'), ("flaky", ""), ("half", ""), ("nobody", ""))
    )

    told = [(r.call_id, r.tool, r.arguments, r.result, type(r.error)) for r in records]
    assert told[:4] == [
        ("0", "echo", {"text": "x"}, "x", type(None)),
        ("1", "spell", {"text": "ab"}, ["a", "b"], type(None)),
        ("2", "flaky", {}, None, OSError),
        ("3", "half", {}, None, OSError),
    ]
    assert (records[4].name, records[4].arguments, type(records[4].error).__name__) == (
        "nobody",
        None,
        "UnknownToolError",
    )
    assert all(record.seconds >= 0 for record in records)

    plain: list[ToolRecord] = []
    await ToolsNode([echo], middlewares=[audit_log(plain.append)]).invoke(calls(("echo", "")))
    assert plain[0].result == ""


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('{"text": "a"}', '{"text": "a"}'),
        ('```json\n{"text": "a"}\n```', '{"text": "a"}'),
        ('Here you are: {"text": "a"} as asked', '{"text": "a"}'),
        ('{"text": "a",}', '{"text": "a"}'),
        ('{"list": [1, 2,],}', '{"list": [1, 2]}'),
        ("{'text': 'it is', 'yes': True, 'no': None}", '{"text": "it is", "yes": true, "no": null}'),
        ('"{\\"text\\": \\"a\\"}"', '{"text": "a"}'),
    ],
)
def test_repair_arguments_reads_what_was_meant(written: str, read: str) -> None:
    assert RepairArguments().handle_arguments("echo", written) == read


@pytest.mark.parametrize("written", ["", "[1]", '{"text": "a', '{"text": ', "text=a"])
def test_repair_arguments_leaves_alone_what_it_cannot_read_and_completes_nothing(written: str) -> None:
    assert RepairArguments().handle_arguments("echo", written) == written


async def test_repair_arguments_stands_among_the_middlewares() -> None:
    node = ToolsNode([echo], middlewares=[RepairArguments(), truncate_results(5)])

    assert await both_ways(node, calls(("echo", "{'text': 'abc'}"), ("echo", '{"text": '))) == [
        "abc",
        (await texts(ToolsNode([echo]), calls(("echo", '{"text": '))))[0],
    ]
    assert await texts(ToolsNode([echo]).with_middlewares(RepairArguments()), calls(("echo", "{'text': 'a'}"))) == ["a"]
