"""``ToolsNode`` in a run: events, the run's context, state, and graphs as tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    Event,
    Graph,
    NodeError,
    RunInfo,
    Runnable,
    RunOptions,
    ToolDelta,
    ToolEnded,
    ToolEvent,
    ToolFailed,
    ToolsNode,
    ToolStarted,
    UnknownToolError,
    current_context,
    current_state,
    current_tools,
    emit,
    graph_tool,
)
from anabranch.compose.testing import ScriptedModel
from anabranch.schema import Message, ModelOptions, StreamReader, ToolCall, ToolDefinitionError, ToolResult, tool

pytestmark = pytest.mark.anyio


def calls(*given: tuple[str, str]) -> Message:
    return Message.assistant(
        tool_calls=[ToolCall(id=f"c{n}", name=name, arguments=text) for n, (name, text) in enumerate(given)]
    )


def in_graph(node: ToolsNode, state: Any = None) -> Runnable[Message, list[Message]]:
    graph = Graph[Message, list[Message]](state=state)
    graph.add_edge(START, graph.add_node("tools", node))
    graph.add_edge("tools", END)
    return graph.compile()


async def collect(reader: StreamReader[Event], seen: list[Event]) -> None:
    async for event in reader:
        seen.append(event)


async def events_of(app: Runnable[Message, list[Message]], message: Message) -> list[Event]:
    async with app.events(message) as reader:
        return [event async for event in reader]


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def spell(text: str) -> AsyncIterator[str]:
    """Spell."""
    for letter in text:
        yield letter


@tool
async def half() -> AsyncIterator[str]:
    """Fail half way."""
    yield "half"
    raise OSError("gone")


async def test_s12_events_tell_start_pieces_and_end_of_each_call_with_its_id_and_place() -> None:
    app = in_graph(ToolsNode([add, spell, half], sequential=True, aliases={"add": ["plus"]}))
    message = calls(
        ("plus", '{"a": 1, "b": 2}'), ("spell", '{"text": "ab"}'), ("half", ""), ("add", "{"), ("nobody", "{}")
    )

    seen = [event for event in await events_of(app, message) if isinstance(event, ToolEvent)]

    told: list[tuple[Any, ...]] = []
    for event in seen:
        assert (event.path, event.attempt, event.call_id) == ("tools", 1, f"c{event.position}")
        match event:
            case ToolStarted(arguments=what) | ToolDelta(chunk=what) | ToolEnded(result=what):
                told.append((event.position, event.tool, type(event), what))
            case ToolFailed(error=error, told=text):
                told.append((event.position, event.tool, type(error), text is not None))
            case _:
                raise AssertionError(event)
    assert told[:10] == [
        (0, "plus", ToolStarted, {"a": 1, "b": 2}),
        (0, "plus", ToolEnded, 3),
        (1, "spell", ToolStarted, {"text": "ab"}),
        (1, "spell", ToolDelta, "a"),
        (1, "spell", ToolDelta, "b"),
        (1, "spell", ToolEnded, "ab"),
        (2, "half", ToolStarted, {}),
        (2, "half", ToolDelta, "half"),
        (2, "half", OSError, True),
        (3, "add", ToolStarted, "{"),
    ]
    assert [(position, name) for position, name, *_ in told[10:]] == [(3, "add"), (4, "nobody"), (4, "nobody")]


async def test_events_of_a_failure_that_is_raised_tell_nothing_to_the_model() -> None:
    app = in_graph(ToolsNode([half], on_error="raise"))
    seen: list[Event] = []
    async with app.events(calls(("half", ""))) as reader:
        with pytest.raises(NodeError):
            await collect(reader, seen)

    assert [event.told for event in seen if isinstance(event, ToolFailed)] == [None]


async def test_a_tool_that_says_itself_that_it_failed_has_ended() -> None:
    @tool
    async def polite() -> ToolResult:
        return ToolResult("no", is_error=True)

    ended = [
        event
        for event in await events_of(in_graph(ToolsNode([polite])), calls(("polite", "")))
        if isinstance(event, ToolEnded)
    ]

    assert ended[0].result == ToolResult("no", is_error=True)


# --- the run around a tool -------------------------------------------------------------------------------------------


@dataclass
class User:
    id: int


async def test_the_context_of_a_run_reaches_tools_and_never_goes_through_the_model() -> None:
    @tool
    def whoami() -> int:
        return current_context(User).id

    @tool
    async def whoami_async() -> int:
        return current_context(User).id

    app = in_graph(ToolsNode([whoami, whoami_async]))
    message = calls(("whoami", ""), ("whoami_async", ""))
    options = RunOptions(context=User(7))

    assert [answer.text for answer in await app.invoke(message, options)] == ["7", "7"]
    async with app.stream(message, options) as reader:
        assert [answer.text for answer in await reader.concat()] == ["7", "7"]
    told = await app.invoke(message, RunOptions(context="Ada"))
    assert "a context of type User was asked for and there is str" in told[0].text
    assert "none was given" in (await app.invoke(message))[0].text
    with pytest.raises(LookupError, match="outside of a run"):
        current_context(User)


async def test_a_nested_graph_may_have_a_context_of_its_own_beside_that_of_the_run() -> None:
    @tool
    async def who() -> str:
        return f"{current_context(User).id} {current_context(str)}"

    outer = Graph[Message, list[Message]]()
    inner = Graph[Message, list[Message]]()
    inner.add_edge(START, inner.add_node("tools", ToolsNode([who])))
    inner.add_edge("tools", END)
    outer.add_edge(START, outer.add_node("agent", inner))
    outer.add_edge("agent", END)

    options = RunOptions(context=User(7), at={"agent": RunOptions(context="inner")})
    assert (await outer.compile().invoke(calls(("who", "")), options))[0].text == "7 inner"


async def test_tools_reach_the_state_of_the_graph() -> None:
    class Notes(BaseModel):
        seen: list[str] = []

    @tool
    def note(text: str) -> str:
        with current_state(Notes) as notes:
            notes.seen.append(text)
            return " ".join(sorted(notes.seen))

    answers = await in_graph(ToolsNode([note], sequential=True), Notes).invoke(
        calls(("note", '{"text": "a"}'), ("note", '{"text": "b"}'))
    )
    assert [answer.text for answer in answers] == ["a", "a b"]


async def test_a_node_can_ask_which_tools_its_neighbour_has_in_this_run() -> None:
    seen: list[Any] = []

    async def ask(message: Message) -> Message:
        seen.append((current_tools("tools"), current_tools("ask"), current_tools("nobody")))
        return message

    graph = Graph[Message, list[Message]]()
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", graph.add_node("tools", ToolsNode([add])))
    graph.add_edge("tools", END)
    await graph.compile().invoke(calls(("add", "{}")))

    assert seen == [((add.info,), None, None)]
    assert current_tools("tools") is None


# --- graphs as tools -------------------------------------------------------------------------------------------------


class Question(BaseModel):
    """What to look up."""

    words: list[str]
    limit: int = 3


async def look_up(question: Question) -> AsyncIterator[str]:
    emit({"limit": question.limit})
    for word in question.words[: question.limit]:
        yield word


def looking_up() -> Runnable[Question, str]:
    graph = Graph[Question, str]()
    graph.add_edge(START, graph.add_node("look_up", look_up))
    graph.add_edge("look_up", END)
    return graph.compile()


async def test_a_graph_as_a_tool_takes_the_fields_of_its_input_and_gives_its_output() -> None:
    look = graph_tool(looking_up(), "look", "Look words up.", risk="sensitive", timeout=3)

    assert (look.info.name, look.info.description) == ("look", "Look words up.")
    assert list(look.info.parameters["properties"]) == ["words", "limit"]
    assert (look.risk, look.timeout) == ("sensitive", 3)
    assert await look.run({"words": ["a", "b"], "limit": 1}) == "a"
    app = in_graph(ToolsNode([look]))
    message = calls(("look", '{"words": ["a", "b"]}'), ("look", '{"words": "a"}'))
    answers = await app.invoke(message)
    async with app.stream(message) as reader:
        assert await reader.concat() == answers
    assert answers[0].text == "ab"
    assert "words: should be a valid array" in answers[1].text


async def test_a_graph_as_a_tool_is_a_part_of_the_run_and_streams_with_it() -> None:
    app = in_graph(ToolsNode([graph_tool(looking_up(), "look", "Look words up.")]))

    seen = await events_of(app, calls(("look", '{"words": ["a", "b"]}')))

    assert [(type(e).__name__, e.path) for e in seen if e.path.startswith("tools/0")] == [
        ("RunStarted", "tools/0"),
        ("NodeStarted", "tools/0/look_up"),
        ("Custom", "tools/0/look_up"),
        ("NodeChunk", "tools/0/look_up"),
        ("NodeChunk", "tools/0/look_up"),
        ("NodeEnded", "tools/0/look_up"),
        ("RunEnded", "tools/0"),
    ]
    assert [e.chunk for e in seen if isinstance(e, ToolDelta)] == ["a", "b"]
    assert len({event.run for event in seen}) == 1


async def test_a_graph_of_messages_is_asked_in_words_and_gets_options_that_are_for_all() -> None:
    model = ScriptedModel(["aye", "aye"])
    graph = Graph[list[Message], Message]()
    graph.add_edge(START, graph.add_node("chat", model))
    graph.add_edge("chat", END)
    sailor = graph_tool(graph.compile(), "sailor", "Ask a sailor.")
    app = in_graph(ToolsNode([sailor]))

    answers = await app.invoke(
        calls(("sailor", '{"request": "Set sail!"}')), RunOptions(for_all=[ModelOptions(seed=1)])
    )

    assert answers[0].text == "aye"
    assert model.calls[0] == [Message.user("Set sail!")]
    assert model.calls[0].options.seed == 1


async def test_an_error_inside_a_graph_as_a_tool_has_its_whole_path() -> None:
    async def fail(text: str) -> str:
        raise ValueError(text)

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("fail", fail))
    graph.add_edge("fail", END)
    node = ToolsNode([add, graph_tool(graph.compile(), "try", "Try.")], on_error="raise")

    with pytest.raises(NodeError) as failed:
        await in_graph(node).invoke(calls(("add", '{"a": 1, "b": 1}'), ("try", '{"input": "no"}')))
    cause = failed.value.__cause__
    assert isinstance(cause, NodeError)
    assert (failed.value.path, cause.path) == ("tools", "tools/1/fail")
    assert isinstance(cause.__cause__, ValueError)


async def test_a_builder_is_no_compiled_graph() -> None:
    with pytest.raises(ToolDefinitionError, match="call compile"):
        graph_tool(Graph[str, str](), "x", "x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def test_two_hundred_calls_at_once_leave_nothing_behind() -> None:
    @tool
    async def nap(n: int) -> int:
        await anyio.lowlevel.checkpoint()
        return n

    message = calls(*[("nap", f'{{"n": {n}}}') for n in range(200)])
    app = in_graph(ToolsNode([nap]))

    assert [a.text for a in await app.invoke(message)] == [str(n) for n in range(200)]
    async with app.stream(message) as reader:
        assert [a.text for a in await reader.concat()] == [str(n) for n in range(200)]


# --- callbacks -------------------------------------------------------------------------------------------------------


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str, Any]] = []

    def on_start(self, info: RunInfo, input: Any) -> None:
        if info.component == "tool":
            self.lines.append(("start", info.path, info.name, input))

    async def on_end(self, info: RunInfo, output: Any) -> None:
        if info.component == "tool":
            self.lines.append(("end", info.path, info.name, output))

    def on_error(self, info: RunInfo, error: BaseException) -> None:
        if info.component == "tool":
            self.lines.append(("error", info.path, info.name, type(error)))


@pytest.mark.parametrize("streams", [False, True])
async def test_callback_handlers_see_each_tool_call_as_a_component(streams: bool) -> None:
    log = Log()
    app = in_graph(ToolsNode([add, spell, half], sequential=True))
    message = calls(("add", '{"a": 1, "b": 2}'), ("spell", '{"text": "ab"}'), ("half", ""), ("nobody", "{}"))

    if streams:
        async with app.stream(message, RunOptions(callbacks=[log])) as reader:
            await reader.concat()
    else:
        await app.invoke(message, RunOptions(callbacks=[log]))

    assert log.lines == [
        ("start", "tools/0", "add", {"a": 1, "b": 2}),
        ("end", "tools/0", "add", 3),
        ("start", "tools/1", "spell", {"text": "ab"}),
        ("end", "tools/1", "spell", "ab"),
        ("start", "tools/2", "half", {}),
        ("error", "tools/2", "half", OSError),
        ("start", "tools/3", "nobody", "{}"),
        ("error", "tools/3", "nobody", UnknownToolError),
    ]


@pytest.mark.parametrize("method", ["on_start", "on_end", "on_error"])
async def test_what_a_callback_raises_about_a_tool_fails_the_run_and_is_not_told_to_the_model(method: str) -> None:
    class Breaks:
        def __getattr__(self, name: str) -> Any:
            if name != method:
                raise AttributeError(name)

            def fail(info: RunInfo, what: Any) -> None:
                if info.component == "tool":
                    raise ValueError("the log is full")

            return fail

    app = in_graph(ToolsNode([add, half]))
    made = calls(("half", "")) if method == "on_error" else calls(("add", '{"a": 1, "b": 2}'))

    with pytest.raises(NodeError, match="the log is full"):
        await app.invoke(made, RunOptions(callbacks=[Breaks()]))
