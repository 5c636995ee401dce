"""``ToolsNode``: calls at once and one by one, contexts, threads, cancellation, and readers that stop early."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from anabranch.compose import (
    END,
    START,
    Graph,
    ToolsNode,
    current_tool_call,
)
from anabranch.schema import (
    Message,
    ToolCall,
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


def in_graph(node: ToolsNode) -> Any:
    graph = Graph[Message, list[Message]]()
    graph.add_edge(START, graph.add_node("tools", node))
    graph.add_edge("tools", END)
    return graph.compile()


async def test_calls_run_at_once() -> None:
    started = 0
    all_started = anyio.Event()

    @tool
    async def together(n: int) -> int:
        nonlocal started
        started += 1
        if started == 3:
            all_started.set()
        await all_started.wait()
        return n

    message = calls(*(call(str(n), "together", f'{{"n": {n}}}') for n in range(3)))

    assert [answer.text for answer in await ToolsNode([together]).invoke(message)] == ["0", "1", "2"]
    started, all_started = 0, anyio.Event()
    assert len(await streamed(ToolsNode([together]), message)) == 3


@pytest.mark.parametrize("node_says", [True, False])
async def test_t9_calls_of_tools_that_may_not_run_beside_others_run_alone(node_says: bool) -> None:
    running: set[str] = set()
    alone: dict[str, bool] = {}

    def noting(name: str, **options: Any) -> Any:
        async def note() -> str:
            running.add(name)
            await anyio.lowlevel.checkpoint()
            alone[name] = running == {name}
            running.discard(name)
            return name

        return tool(note, name=name, **options)

    names = ["a", "b", "only", "c", "d"]
    tools = [noting(name, parallel=name != "only") for name in names]
    message = calls(*(call(name, name) for name in names))

    for way in ("invoke", "stream"):
        alone.clear()
        node = ToolsNode(tools, sequential=node_says)
        await (node.invoke(message) if way == "invoke" else streamed(node, message))
        assert alone["only"]
        assert all(alone.values()) is node_says


async def test_what_a_tool_sets_in_its_context_is_not_seen_by_others() -> None:
    from contextvars import ContextVar

    variable: ContextVar[str] = ContextVar("variable", default="unset")

    @tool
    async def sets() -> str:
        seen = variable.get()
        variable.set("set")
        return seen

    variable.set("outer")
    message = calls(call("1", "sets"), call("2", "sets"))

    for sequential in (False, True):
        answers = await both_ways(ToolsNode([sets], sequential=sequential), message)
        assert [answer.text for answer in answers] == ["outer", "outer"]
    assert variable.get() == "outer"


async def test_plain_functions_run_in_threads_that_know_their_call() -> None:
    @tool
    def threaded() -> str:
        return current_tool_call().id

    answers = await both_ways(ToolsNode([threaded]), calls(call("1", "threaded"), call("2", "threaded")))

    assert [answer.text for answer in answers] == ["1", "2"]
    with pytest.raises(RuntimeError, match="outside of a tool call"):
        current_tool_call()


async def test_a_cancelled_run_ends_its_tools() -> None:
    ended: list[str] = []
    started = anyio.Event()

    @tool
    async def endless(name: str) -> str:
        try:
            started.set()
            await anyio.sleep_forever()
        finally:
            ended.append(name)
        return name

    message = calls(call("1", "endless", '{"name": "a"}'), call("2", "endless", '{"name": "b"}'))
    for way in (lambda: ToolsNode([endless]).invoke(message), lambda: streamed(ToolsNode([endless]), message)):
        ended.clear()
        async with anyio.create_task_group() as group:
            group.start_soon(way)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        assert sorted(ended) == ["a", "b"]


async def test_a_reader_that_stops_early_closes_the_tools_streams() -> None:
    opened: list[str] = []
    closed: list[str] = []

    @tool
    async def endless() -> AsyncIterator[str]:
        opened.append("x")
        try:
            while True:
                yield "x"
        finally:
            closed.append("x")

    app = in_graph(ToolsNode([endless]))
    async with app.stream(calls(call("1", "endless"), call("2", "endless"))) as reader:
        for _ in range(5):
            await reader.receive()
    assert closed == opened == ["x", "x"]
