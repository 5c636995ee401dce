"""H4: nothing that user code does by accident swallows a pause; what was asked is pending, and the answer goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from anabranch.compose import (
    END,
    START,
    Approval,
    Graph,
    GraphCompileError,
    Interrupted,
    Map,
    MemoryStore,
    NodeError,
    Retry,
    Runnable,
    RunOptions,
    ToolsNode,
    graph_tool,
    interrupt,
    step,
    tell_errors,
)
from anabranch.compose.errors import InterruptError
from anabranch.schema import Message, StreamReader, ToolCall, tool

pytestmark = pytest.mark.anyio

Ask = Callable[[str], Awaitable[Any]]


async def ask(text: str) -> str:
    return text + await interrupt(Approval(action="go on"), answer=str)


async def except_exception(text: str) -> str:
    try:
        return await ask(text)
    except Exception:  # noqa: BLE001
        return "swallowed"


async def suppress_exception(text: str) -> str:
    with contextlib.suppress(Exception):
        return await ask(text)
    return "swallowed"


async def bare_except(text: str) -> str:
    try:
        return await ask(text)
    except:  # noqa: E722
        return "swallowed"


async def in_task_group(text: str) -> str:
    found: list[str] = []

    async def child() -> None:
        found.append(await ask(text))

    async with anyio.create_task_group() as group:
        group.start_soon(child)
    return found[0]


async def in_task_group_swallowed(text: str) -> str:
    try:
        return await in_task_group(text)
    except* Exception:  # noqa: BLE001
        pass
    return "swallowed"


async def in_thread(text: str) -> str:
    return await anyio.to_thread.run_sync(anyio.from_thread.run, ask, text)


async def in_thread_swallowed(text: str) -> str:
    def work() -> str:
        try:
            return anyio.from_thread.run(ask, text)
        except Exception:  # noqa: BLE001
            return "swallowed"

    return await anyio.to_thread.run_sync(work)


async def with_time_limit(text: str) -> str:
    with anyio.fail_after(3600):
        return await ask(text)


async def in_step(text: str) -> str:
    return await step("ask", ask, text)


async def in_generator(text: str) -> AsyncIterator[str]:
    yield text[:1]
    yield (await ask(text))[1:]


async def in_finally(text: str) -> str:
    done = ""
    try:
        done = text
    finally:
        done = await ask(text)
    return done


async def from_reader(reader: StreamReader[str]) -> str:
    return await ask("".join([chunk async for chunk in reader]))


async def of_reader(reader: StreamReader[str]) -> AsyncIterator[str]:
    async for chunk in reader:
        yield chunk
    yield await ask("")


NODES: list[Any] = [
    ask, except_exception, suppress_exception, bare_except, in_task_group, in_task_group_swallowed, in_thread,
    in_thread_swallowed, with_time_limit, in_step, in_generator, in_finally, from_reader, of_reader,
]  # fmt: skip


def around(node: Any, **options: Any) -> Runnable[str, str]:
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("node", node, input=str, output=str, **options))
    graph.add_edge("node", END)
    return graph.compile(store=MemoryStore())


async def pauses_and_goes_on(app: Runnable[Any, Any], given: Any = "x", answer: Any = "!") -> Any:
    with pytest.raises(Interrupted) as paused:
        await app.invoke(given, run="r")
    (question,) = paused.value.interrupts
    assert [one.id for one in await app.pending("r")] == [question.id]
    return await app.resume("r", {question.id: answer})


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.__name__)
async def test_no_code_around_a_question_swallows_the_pause(node: Any) -> None:
    assert await pauses_and_goes_on(around(node)) == "x!"


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.__name__)
async def test_nor_when_the_output_is_read_as_a_stream(node: Any) -> None:
    app = around(node)
    got: list[str] = []
    with pytest.raises(Interrupted) as paused:  # noqa: PT012
        async with app.stream("x", run="r") as reader:
            async for chunk in reader:
                got.append(chunk)
    (question,) = paused.value.interrupts
    async with app.resume_stream("r", {question.id: "!"}) as reader:
        got += [chunk async for chunk in reader]
    assert "".join(got) == ("swallowed" if node is bare_except else "x!")  # that was out before anybody could know
    assert await app.output("r") == "x!"


async def test_policies_of_the_node_do_not_try_a_question_again() -> None:
    runs: list[str] = []

    async def node(text: str) -> str:
        runs.append(text)
        return await ask(text)

    app = around(node, retries=Retry(attempts=5, on=(Exception,)), timeout=60.0)
    assert await pauses_and_goes_on(app) == "x!"
    assert len(runs) == 2


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_task_groups_and_gather_of_asyncio_pass_it_on() -> None:
    async def gathers(text: str) -> str:
        return "".join(await asyncio.gather(ask(text), asyncio.sleep(0, "?")))

    async def groups(text: str) -> str:
        async with asyncio.TaskGroup() as group:
            made = group.create_task(ask(text))
        return made.result() + "?"

    assert await pauses_and_goes_on(around(gathers)) == "x!?"
    assert await pauses_and_goes_on(around(groups)) == "x!?"


async def test_an_error_beside_a_question_counts_and_is_told_where_it_was() -> None:
    async def node(text: str) -> str:
        async def fails() -> None:
            await anyio.lowlevel.checkpoint()
            raise ValueError("no")

        async def asks() -> None:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                await anyio.lowlevel.checkpoint()
                await ask(text)

        async with anyio.create_task_group() as group:
            group.start_soon(fails)
            group.start_soon(asks)
        return text

    with pytest.raises(NodeError) as caught:
        await around(node).invoke("x", run="r")
    assert caught.value.path == "node"


async def test_an_item_of_a_map_passes_it_on_and_the_others_end() -> None:
    ended: list[int] = []

    async def item(number: int) -> str:
        made = await except_exception(str(number)) if number == 1 else str(number)
        ended.append(number)
        return made

    graph = Graph[list[int], Any]()
    graph.add_edge(START, graph.add_node("each", Map(item)))
    graph.add_edge("each", END)
    assert await pauses_and_goes_on(graph.compile(store=MemoryStore()), [0, 1, 2]) == ["0", "1!", "2"]
    assert ended == [0, 2, 1]


def test_a_map_that_collects_errors_cannot_be_kept_since_errors_cannot_be_saved() -> None:
    graph = Graph[list[int], Any]()
    graph.add_edge(START, graph.add_node("each", Map(str, on_error="collect", input=int, output=str)))
    graph.add_edge("each", END)
    with pytest.raises(GraphCompileError, match="what node 'each' gives cannot be saved"):
        graph.compile(store=MemoryStore())


async def test_neither_middlewares_nor_policies_nor_agents_in_tools_tell_a_pause_to_the_model() -> None:
    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("ask", except_exception))
    inner.add_edge("ask", END)

    @tool
    async def delete(path: str) -> str:
        """Delete a file.

        Args:
            path: Which.
        """
        return await bare_except(path)

    ready = [delete, graph_tool(inner.compile(), "inner", "Ask.")]
    graph = Graph[Message, list[Message]]()
    graph.add_edge(START, graph.add_node("tools", ToolsNode(ready, middlewares=[tell_errors()])))
    graph.add_edge("tools", END)
    app = graph.compile(store=MemoryStore())
    calls = [
        ToolCall(id="1", name="delete", arguments='{"path": "a"}'),
        ToolCall(id="2", name="inner", arguments='{"input": "b"}'),
        ToolCall(id="3", name="delete", arguments='{"path": "c"}'),
    ]
    with pytest.raises(Interrupted) as paused:
        await app.invoke(Message.assistant("", tool_calls=calls), run="r")
    ids = [one.id for one in paused.value.interrupts]
    assert ids == ["tools/call 0/0", "tools/call 1/ask/0", "tools/call 2/0"]
    with pytest.raises(Interrupted):
        await app.resume("r", {ids[1]: "2"})
    found = await app.resume("r", {ids[2]: "3", ids[0]: "1"})
    assert [message.text for message in found] == ["a1", "b2", "c3"]


async def test_what_is_left_running_after_a_pause_saves_nothing_any_more() -> None:
    begun, go_on = anyio.Event(), anyio.Event()
    effects: list[str] = []
    store = MemoryStore()

    async with anyio.create_task_group() as outside:

        async def late() -> None:
            begun.set()
            await go_on.wait()
            with contextlib.suppress(BaseException):
                await step("late", effects.append, "late")

        async def node(text: str) -> str:
            outside.start_soon(late)  # it does not belong to the run, although it has its context
            await begun.wait()
            return await ask(text)

        graph = Graph[str, str]()
        graph.add_edge(START, graph.add_node("node", node))
        graph.add_edge("node", END)
        app = graph.compile(store=store)
        with pytest.raises(Interrupted):
            await app.invoke("x", run="r")
        before = len(await store.versions("r"))
        go_on.set()
        await anyio.wait_all_tasks_blocked()
        assert len(await store.versions("r")) == before
    assert not effects


async def test_a_run_of_its_own_that_pauses_inside_a_node_is_an_error_that_says_what_to_do() -> None:
    inner = around(ask)

    async def node(text: str) -> str:
        return await inner.invoke(text, run="inner")

    app = around(node)
    with pytest.raises(NodeError, match="'inner', has paused inside this node") as caught:
        await app.invoke("x", run="outer")
    assert isinstance(caught.value.__cause__, InterruptError)
    assert isinstance(caught.value.__cause__.__cause__, Interrupted)


async def test_a_compiled_graph_called_in_a_node_is_a_part_of_the_run() -> None:
    inner = around(except_exception)
    runs: list[str] = []

    async def node(text: str) -> str:
        runs.append(text)
        return await inner.invoke(text) + await inner.invoke(text)

    app = around(node)
    with pytest.raises(Interrupted) as paused:
        await app.invoke("x", run="r")
    (first,) = paused.value.interrupts
    with pytest.raises(Interrupted) as paused:
        await app.resume("r", {first.id: "1"})
    (second,) = paused.value.interrupts
    assert first.id != second.id
    assert await app.resume("r", {second.id: "2"}) == "x1x2"
    assert len(runs) == 3


async def test_a_called_graph_whose_pause_is_swallowed_still_pauses_the_run() -> None:
    inner = around(ask)

    async def node(text: str) -> str:
        try:
            return await inner.invoke(text)
        except BaseException:  # noqa: BLE001
            return "swallowed"

    assert await pauses_and_goes_on(around(node)) == "x!"


async def test_a_live_handler_answers_also_where_there_is_a_store() -> None:
    store = MemoryStore()
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("node", except_exception))
    graph.add_edge("node", END)
    app = graph.compile(store=store)
    assert await app.invoke("x", RunOptions(on_interrupt=lambda _: "live"), run="r") == "xlive"
    with pytest.raises(Interrupted):
        await app.invoke("x", run="r2")
    assert await app.resume("r2", None, RunOptions(on_interrupt=lambda _: "later")) == "xlater"
