"""Where a run that is kept may ask, and what of its pause is seen from outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

import anyio
import anyio.from_thread
import pytest
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    Callbacks,
    Graph,
    Interrupted,
    InterruptRequested,
    MemoryStore,
    Runnable,
    RunOptions,
    RunPaused,
    current_state,
    interrupt,
    step,
)
from anabranch.schema import StreamReader

pytestmark = pytest.mark.anyio

Make = Callable[..., Callable[[str], Any]]


class State(BaseModel):
    """A state."""

    seen: list[str] = []


@pytest.mark.parametrize("trigger", ["any", "all"])
@pytest.mark.parametrize("mode", ["value", "stream"])
async def test_conditions_may_ask_also_that_of_the_start(trigger: Any, mode: str, say: Make, log: list[str]) -> None:
    async def first(text: str) -> Literal["a"]:
        log.append(await interrupt("first", answer=str))
        return "a"

    async def second(text: str) -> Literal["b", "end"]:
        return "b" if await interrupt("second", answer=bool) else "end"

    graph = Graph[str, str]()
    graph.add_branch(START, first)
    graph.add_node("a", say("a"))
    graph.add_node("b", say("b"))
    graph.add_branch("a", second)
    graph.add_edge("b", END)
    outer = Graph[str, str]()
    outer.add_edge(START, outer.add_node("sub", graph))
    outer.add_edge("sub", END)
    for app in (graph.compile(trigger=trigger, store=MemoryStore()), outer.compile(store=MemoryStore())):
        log.clear()

        async def go(*answers: Any, app: Runnable[str, str] = app) -> str:
            if mode == "value":
                return await (app.resume("r", answer=answers[0]) if answers else app.invoke("x", run="r"))
            async with app.resume_stream("r", answer=answers[0]) if answers else app.stream("x", run="r") as reader:
                whole: str = await reader.concat()
                return whole

        for answers in ((), ("yes",)):
            with pytest.raises(Interrupted) as paused:
                await go(*answers)
            assert len(paused.value.interrupts) == 1
        assert await go(True) == "xab"
        assert log == ["yes", "a", "b"]


async def test_threads_may_ask_take_steps_and_change_the_state(log: list[str]) -> None:
    def blocking(text: str) -> str:
        made = anyio.from_thread.run(pays, text)
        with current_state(State) as state:
            state.seen.append(made)
        return f"{made}{anyio.from_thread.run(ask)}"

    async def ask() -> str:
        return await interrupt("?", answer=str)

    async def pays(text: str) -> str:
        return await step("charge", charge, text)

    def charge(text: str) -> str:
        log.append("charge")
        return text.upper()

    graph = Graph[str, str](state=State)
    graph.add_edge(START, graph.add_node("blocking", blocking, blocking=True))
    graph.add_edge("blocking", END)
    app = graph.compile(store=MemoryStore())
    with pytest.raises(Interrupted):
        await app.invoke("x", run="r")
    assert await app.resume("r", answer="!") == "X!"
    assert log == ["charge"]


async def test_handlers_of_streams_may_ask(say: Make) -> None:
    async def pre(reader: StreamReader[str], state: State) -> StreamReader[str]:
        extra = await interrupt("pre", answer=str)
        return reader.convert(lambda chunk: chunk + extra)

    graph = Graph[str, str](state=State)
    graph.add_edge(START, graph.add_node("a", say("a"), pre=pre))
    graph.add_edge("a", END)
    app = graph.compile(store=MemoryStore())
    with pytest.raises(Interrupted):
        async with app.stream("x", run="r") as reader:
            await reader.concat()
    async with app.resume_stream("r", answer="!") as reader:
        assert await reader.concat() == "x!a"


async def test_a_stream_inside_a_called_graph_that_has_ended_is_not_made_again(log: list[str]) -> None:
    async def words(text: str) -> AsyncIterator[str]:
        log.append("words")
        for word in (text, "a", "b"):
            yield word

    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("words", words))
    inner.add_edge("words", END)
    called = inner.compile()

    async def calls(text: str) -> str:
        async with called.stream(text) as reader:
            made: str = await reader.concat()
        return made + await interrupt("?", answer=str)

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("calls", calls))
    graph.add_edge("calls", END)
    app = graph.compile(store=MemoryStore())
    with pytest.raises(Interrupted):
        await app.invoke("x", run="r")
    assert await app.resume("r", answer="!") == "xab!"
    assert log == ["words"]


async def test_the_events_of_a_run_that_pauses_end_with_its_pause() -> None:
    async def ask(text: str) -> str:
        return text + await interrupt("?", answer=str)

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", END)
    app = graph.compile(store=MemoryStore())
    async with app.events("x", run="r") as events:
        seen = [event async for event in events]
    assert isinstance(seen[-1], RunPaused)
    assert [one.id for one in seen[-1].interrupts] == ["ask/0"]
    assert sum(isinstance(event, InterruptRequested) for event in seen) == 1
    assert await app.resume("r", answer="!") == "x!"


async def test_callbacks_neither_swallow_a_pause_nor_take_it_for_an_error() -> None:
    errors: list[str] = []

    class Watching(Callbacks):
        """Notes what it is told."""

        def on_error(self, info: Any, error: BaseException) -> None:
            errors.append(type(error).__name__)

    async def ask(text: str) -> str:
        return text + await interrupt("?", answer=str)

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", END)
    app = graph.compile(store=MemoryStore())
    options = RunOptions(callbacks=[Watching()])
    with pytest.raises(Interrupted):
        await app.invoke("x", options, run="r")
    assert await app.resume("r", None, RunOptions(callbacks=[Watching()], on_interrupt=lambda _: "!")) == "x!"
    assert not errors
