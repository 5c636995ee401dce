"""H6: a run is paused from outside, in any phase and at any depth, and goes on where it was."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

import anyio
import anyio.to_thread
import pytest
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    Graph,
    Interrupted,
    Map,
    MemoryStore,
    Runnable,
    RunOptions,
    ToolsNode,
    interrupt,
)
from anabranch.compose._control import RunControl
from anabranch.schema import Message, ToolCall, tool

pytestmark = pytest.mark.anyio


class Count(BaseModel):
    """A state."""

    seen: list[str] = []


class Clock:
    """Nodes that take a time, and pauses at a time; what was begun and ended is noted."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.control = RunControl()
        self.store = MemoryStore()

    async def sleep(self, name: str, seconds: float) -> str:
        self.log.append(f"begin {name}")
        await anyio.sleep(seconds)
        self.log.append(f"end {name}")
        return name

    def node(self, name: str, seconds: float) -> Callable[[str], Any]:
        async def node(text: str) -> str:
            return text + await self.sleep(name, seconds)

        return node

    async def pausing_at(self, seconds: float, grace: float, app: Runnable[Any, Any], given: Any) -> Any:
        """Run, and ask for a pause at a time."""
        paused: Interrupted | None = None
        output: Any = None
        async with anyio.create_task_group() as group:

            async def pause() -> None:
                await anyio.sleep(seconds)
                self.control.pause(grace)

            group.start_soon(pause)
            try:
                output = await app.invoke(given, RunOptions(control=self.control), run="r")
            except Interrupted as stopped:
                paused = stopped
            group.cancel_scope.cancel()
        if paused is not None:
            raise paused
        return output


def line(clock: Clock, **nodes: Any) -> Runnable[str, str]:
    graph = Graph[str, str]()
    last: Any = START
    for name, node in nodes.items():
        graph.add_node(name, node, input=str, output=str)
        graph.add_edge(last, name)
        last = name
    graph.add_edge(last, END)
    return graph.compile(store=clock.store)


@pytest.mark.virtual_time
async def test_what_ends_in_time_counts_and_nothing_new_begins() -> None:
    clock = Clock()
    app = line(clock, a=clock.node("a", 2), b=clock.node("b", 2))
    with pytest.raises(Interrupted) as paused:
        await clock.pausing_at(1, 3600, app, "x")
    assert paused.value.interrupts == ()
    assert clock.log == ["begin a", "end a"]
    assert await app.resume("r") == "xab"
    assert clock.log == ["begin a", "end a", "begin b", "end b"]


@pytest.mark.virtual_time
@pytest.mark.parametrize("trigger", ["any", "all"])
async def test_what_does_not_end_in_time_runs_again_and_what_did_does_not(trigger: Any) -> None:
    clock = Clock()
    graph = Graph[str, dict[str, str]]()
    for name, seconds in (("quick", 2.0), ("slow", 9.0)):
        graph.add_edge(START, graph.add_node(name, clock.node(name, seconds), output_key=name))
        graph.add_edge(name, END)
    app = graph.compile(trigger=trigger, store=clock.store)
    with pytest.raises(Interrupted):
        await clock.pausing_at(1, 2, app, "x")
    assert sorted(clock.log) == ["begin quick", "begin slow", "end quick"]
    assert await app.resume("r") == {"quick": "xquick", "slow": "xslow"}
    assert clock.log[3:] == ["begin slow", "end slow"]


@pytest.mark.virtual_time
async def test_the_whole_tree_has_one_deadline() -> None:
    clock = Clock()
    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("first", clock.node("first", 2)))
    inner.add_edge("first", inner.add_node("second", clock.node("second", 9)))
    inner.add_edge("second", END)
    called = line(clock, only=clock.node("called", 20))

    async def calls(text: str) -> str:
        return await called.invoke(text)

    graph = Graph[str, dict[str, str]]()
    for name, node in (("inner", inner), ("calls", calls), ("slow", clock.node("slow", 9))):
        graph.add_edge(START, graph.add_node(name, node, output_key=name))
        graph.add_edge(name, END)
    app = graph.compile(store=clock.store)
    begin = anyio.current_time()
    with pytest.raises(Interrupted):
        await clock.pausing_at(1, 4, app, "x")
    assert anyio.current_time() - begin == pytest.approx(5)
    assert [line for line in clock.log if "first" in line or "second" in line] == ["begin first", "end first"]
    output = await app.resume("r")
    assert output == {"inner": "xfirstsecond", "calls": "xcalled", "slow": "xslow"}
    assert clock.log.count("end first") == 1


@pytest.mark.virtual_time
async def test_a_run_whose_last_node_ends_in_time_has_ended() -> None:
    clock = Clock()
    assert await clock.pausing_at(1, 60, line(clock, a=clock.node("a", 2)), "x") == "xa"


@pytest.mark.virtual_time
@pytest.mark.parametrize("phase", ["pre", "post", "condition"])
@pytest.mark.parametrize("trigger", ["any", "all"])
async def test_handlers_and_conditions_are_cut_off_too(phase: str, trigger: Any) -> None:
    clock = Clock()

    async def pre(text: str, state: Count) -> str:
        return text + (await clock.sleep("pre", 9.0 if phase == "pre" else 0.0))

    async def post(text: str, state: Count) -> str:
        return text + (await clock.sleep("post", 9.0 if phase == "post" else 0.0))

    async def which(text: str) -> Literal["end"]:
        await clock.sleep("condition", 9.0 if phase == "condition" else 0.0)
        return "end"

    graph = Graph[str, str](state=Count)
    graph.add_edge(START, graph.add_node("a", clock.node("a", 0), pre=pre, post=post))
    graph.add_branch("a", which)
    app = graph.compile(trigger=trigger, store=clock.store)
    begin = anyio.current_time()
    with pytest.raises(Interrupted):
        await clock.pausing_at(1, 1, app, "x")
    assert anyio.current_time() - begin == pytest.approx(2)
    assert await app.resume("r") == "xpreapost"
    assert clock.log.count("end a") == 1


@pytest.mark.virtual_time
async def test_items_and_tool_calls_that_have_not_begun_do_not_begin() -> None:
    clock = Clock()

    async def item(number: int) -> str:
        return await clock.sleep(str(number), 2)

    graph = Graph[list[int], list[str]]()
    graph.add_edge(START, graph.add_node("each", Map(item, concurrency=2)))
    graph.add_edge("each", END)
    app = graph.compile(store=clock.store)
    with pytest.raises(Interrupted):
        await clock.pausing_at(1, 3600, app, [0, 1, 2, 3])
    assert sorted(clock.log) == ["begin 0", "begin 1", "end 0", "end 1"]
    assert await app.resume("r") == ["0", "1", "2", "3"]
    assert sorted(clock.log[4:]) == ["begin 2", "begin 3", "end 2", "end 3"]

    other = Clock()

    @tool
    async def wait(name: str) -> str:
        """Wait.

        Args:
            name: For whom.
        """
        return await other.sleep(name, 2)

    tools = Graph[Message, list[Message]]()
    tools.add_edge(START, tools.add_node("tools", ToolsNode([wait], sequential=True)))
    tools.add_edge("tools", END)
    call = tools.compile(store=other.store)
    calls = [ToolCall(id=name, name="wait", arguments=f'{{"name": "{name}"}}') for name in "ab"]
    with pytest.raises(Interrupted):
        await other.pausing_at(1, 3600, call, Message.assistant("", tool_calls=calls))
    assert other.log == ["begin a", "end a"]
    assert [message.text for message in await call.resume("r")] == ["a", "b"]
    assert other.log[2:] == ["begin b", "end b"]


@pytest.mark.virtual_time
async def test_a_stream_that_is_being_read_is_paused_and_goes_on_behind_what_was_read() -> None:
    clock = Clock()

    async def words(text: str) -> AsyncIterator[str]:
        for number in range(6):
            await anyio.sleep(1)
            yield str(number)

    app = line(clock, first=clock.node("first", 0), words=words)
    got: list[str] = []
    with pytest.raises(Interrupted):  # noqa: PT012
        async with app.stream("x", RunOptions(control=clock.control), run="r") as reader:
            async for chunk in reader:
                got.append(chunk)
                if len(got) == 2:
                    clock.control.pause(1.5)
    assert got == ["0", "1", "2"]
    async with app.resume_stream("r") as reader:
        assert [chunk async for chunk in reader] == ["3", "4", "5"]
    assert await app.output("r") == "012345"
    assert clock.log.count("begin first") == 1


@pytest.mark.virtual_time
async def test_a_question_and_a_pause_from_outside_together() -> None:
    clock = Clock()

    async def ask(text: str) -> str:
        clock.log.append("ask")
        return await interrupt("?", answer=str)

    inner = Graph[str, dict[str, str]]()
    for name, node in (("ask", ask), ("slow", clock.node("slow", 9))):
        inner.add_edge(START, inner.add_node(name, node, output_key=name))
        inner.add_edge(name, END)
    graph = Graph[str, dict[str, str]]()
    graph.add_edge(START, graph.add_node("inner", inner))
    graph.add_edge("inner", END)
    app = graph.compile(store=clock.store)
    with pytest.raises(Interrupted) as paused:
        await clock.pausing_at(1, 0, app, "x")
    assert [one.id for one in paused.value.interrupts] == ["inner/ask/0"]
    with pytest.raises(Interrupted) as paused:
        await app.resume("r")  # what was cut off can go on without the answer
    assert clock.log[2:] == ["begin slow", "end slow"]
    assert await app.resume("r", {"inner/ask/0": "yes"}) == {"ask": "yes", "slow": "xslow"}
    assert clock.log[4:] == ["ask"]


async def test_from_another_thread_twice_and_too_late() -> None:
    control, store = RunControl(), MemoryStore()
    begun = threading.Event()
    graph = Graph[str, str]()

    async def wait(text: str) -> str:
        begun.set()
        await anyio.sleep(3600 if control.pausing is False else 0)
        return text + "!"

    graph.add_edge(START, graph.add_node("wait", wait))
    graph.add_edge("wait", END)
    app = graph.compile(store=store)

    def pause() -> None:
        begun.wait()
        control.pause(3600)
        control.pause(0)
        control.pause(5)

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, pause)
        with pytest.raises(Interrupted):
            await app.invoke("x", RunOptions(control=control), run="r")
    await anyio.to_thread.run_sync(control.pause)
    assert await app.resume("r") == "x!"


def test_a_pause_after_the_event_loop_has_ended_is_harmless() -> None:
    control, store = RunControl(), MemoryStore()
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("a", str.upper, input=str, output=str))
    graph.add_edge("a", END)
    app = graph.compile(store=store)
    for backend in ("asyncio", "trio"):

        async def go(name: str = backend) -> str:
            return await app.invoke("x", RunOptions(control=control), run=name)

        assert anyio.run(go, backend=backend) == "X"
    thread = threading.Thread(target=control.pause)
    thread.start()
    thread.join()
