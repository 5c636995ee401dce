"""The numbered cases of static interrupts, 146 to 161 of the reference of the engine.

Where another engine has a defect, the case shows what we do instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    Breakpoint,
    Graph,
    GraphChangedError,
    GraphCompileError,
    Interrupted,
    MemoryStore,
    RunConflict,
    RunFinishedError,
    Runnable,
    RunOptions,
    StepLimitExceeded,
)
from anabranch.compose.errors import StoreError

pytestmark = pytest.mark.anyio

Make = Callable[..., Callable[[str], Any]]
Line = Callable[..., Runnable[str, str]]
Stops = Callable[[Any], Awaitable[list[str]]]


class State(BaseModel):
    """A state."""

    a: str = ""


async def test_146_before_and_after_at_the_same_place_are_two_points_and_one_resume(
    say: Make, stops: Stops, log: list[str]
) -> None:
    def note(text: str, state: State) -> str:
        state.a += text
        return text

    graph = Graph[str, str](state=State)
    graph.add_edge(START, graph.add_node("1", say("1")))
    graph.add_edge("1", graph.add_node("2", say("2"), pre=note))
    graph.add_edge("2", END)
    app = graph.compile(store=MemoryStore(), interrupt_before=["2"], interrupt_after=["1"])
    assert await stops(app.invoke("x", run="r")) == ["1/after"]
    assert await app.state("r") == State()
    assert await stops(app.resume("r")) == ["2/before"]
    assert await app.resume("r") == "x12"
    assert log == ["1", "2"]


async def test_148_after_the_last_node_is_a_pause_too(say: Make, line: Line, stops: Stops, log: list[str]) -> None:
    app = line(("a", say("a")), interrupt_after=["a"])
    assert await stops(app.invoke("x", run="r")) == ["a/after"]
    assert await app.resume("r") == "xa"
    assert log == ["a"]


async def test_149_a_point_in_a_loop_stops_every_time(say: Make, stops: Stops) -> None:
    async def go_on(text: str) -> Literal["a", "end"]:
        return "end" if text.count("b") == 2 else "a"

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("a", say("a")))
    graph.add_edge("a", graph.add_node("b", say("b")))
    graph.add_branch("b", go_on)
    app = graph.compile(store=MemoryStore(), interrupt_before=["b"])
    assert await stops(app.invoke("x", run="r")) == ["b/before"]
    assert await stops(app.resume("r")) == ["b#2/before"]
    assert await app.resume("r") == "xabab"


@pytest.mark.parametrize("first", ["value", "stream"])
async def test_151_a_run_goes_on_in_the_other_mode(first: str, say: Make, line: Line, stops: Stops) -> None:
    async def streams(text: str) -> AsyncIterator[str]:
        yield text
        yield "a1"
        yield "a2"

    app = line(("a", streams), ("b", say("b")), interrupt_before=["b"])
    if first == "value":
        await stops(app.invoke("x", run="r"))
        async with app.resume_stream("r") as reader:
            assert await reader.concat() == "xa1a2b"
    else:
        with pytest.raises(Interrupted):
            async with app.stream("x", run="r") as reader:
                await reader.concat()
        assert await app.resume("r") == "xa1a2b"


async def test_152_what_is_kept_is_brought_up_to_date_by_a_migration_and_states_are_read_by_their_graph(
    say: Make, ask: Make, stops: Stops, log: list[str]
) -> None:
    store = MemoryStore()

    def app(name: str, **options: Any) -> Runnable[str, str]:
        graph = Graph[str, str](state=State)
        graph.add_edge(START, graph.add_node("ask", ask("ask")))
        graph.add_edge("ask", graph.add_node(name, say("!")))
        graph.add_edge(name, END)
        return graph.compile(store=store, **options)

    def migrate(doc: dict[str, Any]) -> dict[str, Any]:
        doc["graph"]["state"]["a"] = "changed"
        return doc

    (id,) = await stops(app("old").invoke("x", run="r"))
    with pytest.raises(GraphChangedError):
        await app("new").resume("r", {id: "y"})
    assert log == ["ask"]
    new = app("new", migrate=migrate, interrupt_before=["new"])
    assert await stops(new.resume("r", {id: "y"})) == ["new/before"]
    assert await new.state("r") == State(a="changed")
    assert await app("new").resume("r") == "xy!"


async def test_154_steps_are_counted_over_all_of_a_run_and_more_may_be_allowed(
    say: Make, line: Line, stops: Stops, log: list[str]
) -> None:
    app = line(("a", say("a")), ("b", say("b")), ("c", say("c")), max_steps=2, interrupt_after=["b"])
    await stops(app.invoke("x", run="r"))
    for _ in range(2):
        with pytest.raises(StepLimitExceeded) as caught:
            await app.resume("r")
        assert caught.value.limit == 2
    assert await app.resume("r", None, RunOptions(max_steps=3)) == "xabc"
    assert log == ["a", "b", "c"]


async def test_155_what_a_store_would_be_needed_for_is_refused_without_one_and_its_errors_are_told(
    say: Make, line: Line, log: list[str]
) -> None:
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("a", say("a")))
    graph.add_edge("a", END)
    with pytest.raises(GraphCompileError, match="give store= too"):
        graph.compile(interrupt_before=["a"])
    plain = graph.compile()
    with pytest.raises(Exception, match="compile it with store="):
        await plain.invoke("x", run="r")

    class Broken(MemoryStore):
        async def load(self, id: str, *, version: int | None = None) -> Any:
            raise StoreError("the store", "loading", "it is broken")

    with pytest.raises(StoreError, match="it is broken"):
        await line(("a", say("a")), store=Broken()).resume("r")
    assert not log


async def test_157_a_copy_goes_on_and_leaves_what_it_was_copied_from_alone(
    say: Make, ask: Make, line: Line, stops: Stops, log: list[str]
) -> None:
    app = line(("a", say("a")), ("b", ask("b")))
    (id,) = await stops(app.invoke("x", run="1"))
    before = [version.version for version in await app.history("1")]
    assert await app.fork("1", new="2") == "2"
    assert await app.resume("2", {id: "?"}) == "xa?"
    assert [version.version for version in await app.history("1")] == before
    assert await app.resume("1", {id: "!"}) == "xa!"
    assert log == ["a", "b", "b", "b"]


async def test_158_a_run_that_has_ended_is_not_resumed_and_its_id_is_not_used_again(
    ask: Make, line: Line, stops: Stops, log: list[str]
) -> None:
    app = line(("a", ask("a")))
    (id,) = await stops(app.invoke("x", run="1"))
    assert await app.resume("1", {id: "!"}) == "x!"
    with pytest.raises(RunFinishedError):
        await app.resume("1", {id: "!"})
    with pytest.raises(RunConflict):
        await app.invoke("fresh", run="1")
    assert log == ["a", "a"]


async def test_160_a_graph_without_the_node_or_with_another_trigger_is_another_graph(
    say: Make, ask: Make, line: Line, stops: Stops, log: list[str]
) -> None:
    store = MemoryStore()
    (id,) = await stops(line(("a", ask("a")), store=store).invoke("x", run="r"))
    for other in (
        line(("b", ask("a")), store=store),
        line(("a", ask("a")), store=store, trigger="all"),
        line(("a", ask("a")), ("b", say("b")), store=store),
    ):
        with pytest.raises(GraphChangedError):
            await other.resume("r", {id: "!"})
    assert log == ["a"]


async def test_161_a_state_that_cannot_be_saved_is_told_when_compiling(say: Make) -> None:
    class Odd:
        """Nothing that can be saved."""

    graph = Graph[str, str](state=Odd)
    graph.add_edge(START, graph.add_node("a", say("a")))
    graph.add_edge("a", END)
    graph.compile()
    with pytest.raises(GraphCompileError, match="the state cannot be saved"):
        graph.compile(store=MemoryStore())


async def test_a_breakpoint_says_where_it_is(say: Make, line: Line) -> None:
    app = line(("a", say("a")), interrupt_before=["a"])
    with pytest.raises(Interrupted) as paused:
        await app.invoke("x", run="r")
    assert paused.value.interrupts[0].payload == Breakpoint("a", "before")
