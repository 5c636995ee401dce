"""``ToolsNode``: what the numbered cases 190–205 say of values, streams, aliases, failures and options.

The numbers are those of the reference cases; where ours is another behaviour on purpose, the test says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import pytest

from anabranch.compose import (
    END,
    START,
    ErrorPolicies,
    Graph,
    NextCall,
    NodeError,
    RunOptions,
    RunOptionsError,
    ToolAlias,
    ToolFailedError,
    ToolsNode,
    ToolsOptions,
    UnknownToolError,
    current_tool_call,
)
from anabranch.schema import (
    ImagePart,
    Message,
    MessageError,
    StreamReader,
    ToolCall,
    ToolDefinitionError,
    ToolInfo,
    ToolOutput,
    ToolResult,
    concat,
    stream_scope,
    tool,
)

pytestmark = pytest.mark.anyio


@tool
async def salary(name: str) -> int:
    """Tell a salary."""
    return len(name) * 1000


@tool
async def company(name: str) -> str:
    """Tell a company."""
    return f"{name} Ltd"


@tool
async def pieces() -> AsyncIterator[str]:
    """Stream two pieces."""
    yield "s1"
    yield "s2"


def call(id: str, name: str, arguments: str = "") -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


def calls(*given: ToolCall, finish_reason: str | None = None) -> Message:
    return Message.assistant(tool_calls=given, finish_reason=finish_reason)


async def streamed(node: ToolsNode, message: Message) -> list[list[Message | None]]:
    async with stream_scope():
        return [chunk async for chunk in node.stream(message)]


async def both_ways(node: ToolsNode, message: Message) -> list[Message]:
    """Answer as values and as a stream, which must agree; also inside of a graph."""
    answers = await node.invoke(message)
    chunks = await streamed(node, message)
    assert all(sum(slot is not None for slot in chunk) == 1 for chunk in chunks)
    assert concat(chunks) == answers
    graph = Graph[Message, list[Message]]()
    graph.add_edge(START, graph.add_node("tools", node))
    graph.add_edge("tools", END)
    app = graph.compile()
    assert await app.invoke(message) == answers
    async with app.stream(message) as reader:
        assert await reader.concat() == answers
    return answers


async def test_190_answers_come_in_the_order_of_the_calls_with_their_ids_and_names() -> None:
    message = calls(call("1", "salary", '{"name": "Ada"}'), call("2", "company", '{"name": "Ada"}'))

    answers = await both_ways(ToolsNode([salary, company]), message)

    assert answers == [
        Message.tool("3000", tool_call_id="1", name="salary"),
        Message.tool("Ada Ltd", tool_call_id="2", name="company"),
    ]


@pytest.mark.parametrize("message", [Message.user("hi"), Message.assistant("hi")])
async def test_191_a_message_that_makes_no_calls_is_an_error(message: Message) -> None:
    with pytest.raises(MessageError, match="with tool calls, got a message of role"):
        await ToolsNode([salary]).invoke(message)
    with pytest.raises(MessageError):
        await streamed(ToolsNode([salary]), message)


async def test_191_where_unknown_names_are_raised_nothing_runs() -> None:
    ran: list[str] = []

    @tool
    async def a() -> str:
        ran.append("a")
        return "a"

    message = calls(call("1", "a"), call("2", "unknown"))

    with pytest.raises(ToolFailedError) as failed:
        await ToolsNode([a], on_error={"unknown": "raise"}).invoke(message)
    assert isinstance(failed.value.__cause__, UnknownToolError)
    assert (failed.value.tool, failed.value.call_id, failed.value.position) == ("unknown", "2", 1)
    assert ran == []


async def test_191_unknown_names_are_told_to_the_model_by_default() -> None:
    answers = await both_ways(
        ToolsNode([company, salary]), calls(call("1", "salry"), call("2", "company", '{"name": "B"}'))
    )

    assert answers[0].is_error
    assert answers[0].text == "There is no tool 'salry'; did you mean 'salary'? the tools are: company, salary."
    assert answers[1].text == "B Ltd"


async def test_193_chunks_have_a_place_for_each_call_and_one_of_them_filled() -> None:
    chunks = await streamed(
        ToolsNode([pieces, company]), calls(call("1", "pieces"), call("2", "company", '{"name": "A"}'))
    )

    assert sorted([slot.text if slot else None for slot in chunk] for chunk in chunks if chunk[0]) == [
        ["s1", None],
        ["s2", None],
    ]
    assert [chunk[1].text for chunk in chunks if chunk[1]] == ["A Ltd"]


async def test_193_chunks_of_tools_that_run_at_once_interleave() -> None:
    go = anyio.Event()

    @tool
    async def waits() -> AsyncIterator[str]:
        yield "first"
        await go.wait()
        yield "last"

    @tool
    async def lets_go() -> str:
        go.set()
        return "between"

    chunks = await streamed(ToolsNode([waits, lets_go]), calls(call("1", "waits"), call("2", "lets_go")))

    said = [slot.text for chunk in chunks for slot in chunk if slot]
    assert sorted(said) == ["between", "first", "last"]
    assert said.index("first") < said.index("last")


@pytest.mark.parametrize("sequential", [False, True])
async def test_194_all_tools_run_and_then_the_first_failure_in_call_order_is_raised(sequential: bool) -> None:
    ran: list[str] = []

    def failing(name: str) -> Any:
        async def fail() -> str:
            ran.append(name)
            raise ValueError(name)

        return tool(fail, name=name)

    node = ToolsNode([company, failing("a"), failing("b")], sequential=sequential, on_error="raise")
    message = calls(call("1", "company", '{"name": "C"}'), call("2", "b"), call("3", "a"))

    for attempt in (node.invoke(message), streamed(node, message)):
        ran.clear()
        with pytest.raises(ToolFailedError, match=r"tool 'b' \(call '2'\)") as failed:
            await attempt
        assert sorted(ran) == ["a", "b"]
        assert isinstance(failed.value.__cause__, ValueError)
        assert failed.value.results == (Message.tool("C Ltd", tool_call_id="1", name="company"), None, None)


async def test_a_raised_failure_has_the_path_of_the_node_and_the_original_as_its_cause() -> None:
    @tool
    async def fail() -> str:
        raise KeyError("gone")

    inner = Graph[Message, list[Message]]()
    inner.add_edge(START, inner.add_node("tools", ToolsNode([fail], on_error="raise")))
    inner.add_edge("tools", END)
    outer = Graph[Message, list[Message]]()
    outer.add_edge(START, outer.add_node("agent", inner))
    outer.add_edge("agent", END)
    app = outer.compile()

    with pytest.raises(NodeError) as failed:
        await app.invoke(calls(call("1", "fail")))
    assert failed.value.path == "agent/tools"
    assert isinstance(failed.value.__cause__, KeyError)
    async with app.stream(calls(call("1", "fail"))) as reader:
        with pytest.raises(ToolFailedError) as failed:
            await reader.concat()
    assert failed.value.path == "agent/tools"


async def test_196_aliases_are_resolved_before_the_handler_and_the_name_stays_as_called() -> None:
    handled: list[tuple[str, str]] = []
    seen: list[tuple[str, str, str]] = []

    @tool
    async def canon(x: int, z: int) -> str:
        current = current_tool_call()
        return f"{x} {z} {current.name} {current.tool}"

    def handler(name: str, arguments: str) -> str:
        handled.append((name, arguments))
        return arguments.replace("2", "3")

    async def watch(made: ToolCall, next: NextCall) -> ToolOutput:
        seen.append((made.id, made.name, made.arguments))
        return await next(made)

    node = ToolsNode(
        [canon],
        aliases={"canon": ToolAlias(names=["al"], arguments={"x": ["y"]})},
        argument_handler=handler,
        middlewares=[watch],
    )
    answers = await node.invoke(calls(call("1", "al", '{"y": 1, "z": 2}')))

    assert handled == [("canon", '{"x": 1, "z": 2}')]
    assert seen == [("1", "al", '{"x": 1, "z": 3}')]
    assert answers == [Message.tool("1 3 al canon", tool_call_id="1", name="al")]


@pytest.mark.parametrize("arguments", ['{"x": 1, "y": 2}', "[1, 2]", '{"y": ', "", "17"])
async def test_197_where_both_names_are_given_or_there_is_no_object_the_arguments_stay(arguments: str) -> None:
    class Foreign:
        info = ToolInfo(name="foreign", parameters={"type": "object", "properties": {"x": {}}})

        async def run(self, arguments: Mapping[str, Any]) -> str:
            return str(dict(arguments))

    handled: list[str] = []

    async def handler(_: str, text: str) -> str:
        handled.append(text)
        return text

    node = ToolsNode([Foreign()], aliases={"foreign": ToolAlias(arguments={"x": ["y"]})}, argument_handler=handler)
    await node.invoke(calls(call("1", "foreign", arguments)))

    assert handled == [arguments]


@pytest.mark.parametrize(
    ("aliases", "problem"),
    [
        ({"company": [" "]}, "must not be blank"),
        ({"company": ["a.b"]}, "must not hold a dot"),
        ({"company": ["salary"]}, "is a name or alias of 'salary' already"),
        ({"company": ["pay"], "salary": ["pay"]}, "is a name or alias of 'company' already"),
        ({"company": ToolAlias(arguments={"name": ["name"]})}, "it is an argument itself"),
        ({"company": ToolAlias(arguments={"name": ["n"], "other": ["n"]})}, "stands for both 'name' and 'other'"),
        ({"company": ToolAlias(arguments={"": ["n"]})}, "must not be blank"),
    ],
)
async def test_197_aliases_that_are_blank_taken_or_ambiguous_are_refused(aliases: Any, problem: str) -> None:
    with pytest.raises(ToolDefinitionError, match=problem):
        ToolsNode([company, salary], aliases=aliases)


async def test_197_an_alias_equal_to_its_own_name_and_one_for_an_absent_tool_are_fine() -> None:
    node = ToolsNode([company], aliases={"company": ["company", "firm"], "salary": ["pay"]})

    assert [node.resolve(name) for name in ("firm", "company", "pay")] == ["company", "company", None]
    assert node.with_options(ToolsOptions(tools=[salary])).resolve("pay") == "salary"


def in_graph(node: ToolsNode) -> Any:
    graph = Graph[Message, list[Message]]()
    graph.add_edge(START, graph.add_node("tools", node))
    graph.add_edge("tools", END)
    return graph.compile()


async def test_199_tools_and_aliases_may_be_others_for_one_run() -> None:
    app = in_graph(ToolsNode([salary], aliases={"salary": ["pay"]}))
    message = calls(
        call("1", "salary", '{"name": "A"}'), call("2", "company", '{"name": "A"}'), call("3", "pay", '{"name": "A"}')
    )

    async def errors(options: ToolsOptions) -> list[bool]:
        given = RunOptions(at={"tools": options})
        answers = await app.invoke(message, given)
        async with app.stream(message, given) as reader:
            assert await reader.concat() == answers
        return [answer.is_error for answer in answers]

    assert await errors(ToolsOptions()) == [False, True, False]
    assert await errors(ToolsOptions(tools=[company])) == [True, False, True]
    assert await errors(ToolsOptions(tools=[])) == [True, True, True]
    assert await errors(ToolsOptions(tools=[salary], aliases={"salary": ["wage"]})) == [False, True, True]
    assert [answer.is_error for answer in await app.invoke(message)] == [False, True, False]


async def test_199_options_add_up_and_options_of_another_kind_are_refused() -> None:
    app = in_graph(ToolsNode([salary]))
    message = calls(call("1", "company", '{"name": "A"}'))

    both = RunOptions(at={"tools": [ToolsOptions(tools=[company]), ToolsOptions(sequential=True)]})
    assert (await app.invoke(message, both))[0].text == "A Ltd"
    with pytest.raises(RunOptionsError, match="takes ToolsOptions"):
        await app.invoke(message, RunOptions(at={"tools": "quick"}))


async def test_203_calls_without_an_id_or_with_a_doubled_one_are_refused_before_anything_runs() -> None:
    """Ours: an error that says what to do, in place of results that are mixed up."""
    node = ToolsNode([pieces])

    with pytest.raises(MessageError, match=r"two calls have the id 'x'.*with_call_ids"):
        await node.invoke(calls(call("x", "pieces"), call("x", "pieces")))
    with pytest.raises(MessageError, match="has no id"):
        await node.invoke(calls(call("", "pieces")))
    with pytest.raises(MessageError, match="has no id"):
        await streamed(node, calls(call("", "pieces")))


async def test_205_a_result_of_several_parts_is_the_content_of_the_message() -> None:
    picture = ImagePart(url="https://example.org/chart.png")

    @tool
    async def chart() -> ToolResult:
        return ToolResult(["The chart:", picture], extra={"rows": 7})

    @tool
    async def chart_in_pieces() -> AsyncIterator[Any]:
        yield "The "
        yield ToolResult("chart:")
        yield ToolResult(picture)

    answers = await both_ways(
        ToolsNode([chart, chart_in_pieces]), calls(call("1", "chart"), call("2", "chart_in_pieces"))
    )

    assert [answer.text for answer in answers] == ["The chart:", "The chart:"]
    assert [answer.parts[-1] for answer in answers] == [picture, picture]
    assert answers[0].extra == {"rows": 7}


async def test_each_value_of_a_stream_is_a_line_and_an_empty_stream_is_an_empty_answer() -> None:
    """Weak point 33: an empty stream leaves no hole in the history."""

    @tool
    async def fields() -> AsyncIterator[dict[str, Any]]:
        yield {"text": "a"}
        yield {"text": "b", "n": 1}

    @tool
    async def nothing() -> AsyncIterator[str]:
        for item in list[str]():
            yield item

    answers = await both_ways(ToolsNode([fields, nothing]), calls(call("1", "fields"), call("2", "nothing")))

    assert [answer.text for answer in answers] == ['{"text": "a"}\n{"text": "b", "n": 1}', ""]


@pytest.mark.parametrize("policies", [{"nonsense": "raise"}, "never", {"json": "ignore"}])
async def test_policies_that_do_not_exist_are_refused(policies: ErrorPolicies) -> None:
    with pytest.raises(ToolDefinitionError, match=r"no failure of kind|the policy is"):
        ToolsNode([], on_error=policies)


async def test_what_is_no_tool_is_refused_with_a_hint() -> None:
    async def bare() -> str:
        return ""

    with pytest.raises(ToolDefinitionError, match="decorate it with @tool"):
        ToolsNode([bare])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ToolDefinitionError, match="`info` and `run`"):
        ToolsNode(["search"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


async def test_a_foreign_tool_that_gives_a_reader_streams() -> None:
    class Foreign:
        info = ToolInfo(name="foreign")

        async def run(self, arguments: Mapping[str, Any]) -> StreamReader[str]:
            return StreamReader.of("a", *arguments)

    answers = await both_ways(
        ToolsNode([Foreign()]), calls(call("1", "foreign", '{"b": 1}'), call("2", "foreign", "null"))
    )

    assert [answer.text for answer in answers] == ["ab", "a"]
