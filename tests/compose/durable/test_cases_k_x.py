"""The numbered cases of what hurts elsewhere when a run is kept: K6 to K19 and X4.

Where another engine has a defect, the case shows what we do instead. K1 to K5, K17, X1, X2, X7 and X8 are about the
codec and are in test_codec_cases.py, K12 and K13 with the stores; X3, X5 and X6 are about caches of nodes, of which
there are none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import anyio
import pytest

from anabranch.compose import (
    END,
    START,
    AnswersMissingError,
    CheckpointError,
    Graph,
    GraphChangedError,
    Interrupted,
    MemoryStore,
    RunConflict,
    RunFinishedError,
    Runnable,
    StepMismatchError,
    UnknownInterruptError,
    interrupt,
    step,
)
from anabranch.compose._store import LogHead
from anabranch.compose.errors import StoreError

pytestmark = pytest.mark.anyio

Make = Callable[..., Callable[[str], Any]]
Line = Callable[..., Runnable[str, str]]
Stops = Callable[[Any], Awaitable[list[str]]]


class Full(MemoryStore):
    """A store that has room for so many entries."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        if head.version > self.room:
            raise StoreError("the store", "saving", "it is full")
        await super().save(head, data, snapshot=snapshot, expected=expected)


async def test_k6_k7_k8_the_first_save_is_before_the_first_node_and_each_before_the_next(
    say: Make, line: Line, log: list[str]
) -> None:
    nodes = [(name, say(name)) for name in "abcde"]
    for room in range(5):
        log.clear()
        with pytest.raises(CheckpointError):
            await line(*nodes, store=Full(room)).invoke("x", run="r")
        assert log == list("abcde"[:room])


async def test_k9_of_many_who_resume_one_run_one_does(ask: Make, line: Line, stops: Stops, log: list[str]) -> None:
    app = line(("a", ask("a")))
    await stops(app.invoke("x", run="r"))
    outcomes: list[str] = []

    async def resume() -> None:
        try:
            outcomes.append(await app.resume("r", {"a/0": "!"}))
        except (RunConflict, RunFinishedError, UnknownInterruptError) as error:
            outcomes.append(type(error).__name__)

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(resume)
    assert outcomes.count("x!") == 1
    assert log == ["a", "a"]


async def test_k10_what_is_stored_grows_with_what_is_new() -> None:
    async def turn(history: list[str]) -> list[str]:
        return [*history, "x" * 1000]

    async def more(history: list[str]) -> Literal["turn", "count"]:
        return "turn" if len(history) < 160 else "count"

    graph = Graph[list[str], int]()
    graph.add_edge(START, graph.add_node("turn", turn))
    graph.add_branch("turn", more)
    graph.add_edge(graph.add_node("count", len, input=list[str], output=int), END)
    store = MemoryStore()
    await graph.compile(store=store, max_steps=200).invoke([], run="r")
    assert sum(version.size for version in await store.versions("r")) < 3 * 160_000


async def test_k11_a_fork_has_nothing_of_what_came_later_in_the_other(stops: Stops) -> None:
    async def turn(text: str) -> str:
        return text + await interrupt(len(text), answer=str)

    async def more(text: str) -> Literal["turn", "end"]:
        return "turn" if len(text) < 4 else "end"

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("turn", turn))
    graph.add_branch("turn", more)
    app = graph.compile(store=MemoryStore())
    await stops(app.invoke("", run="r"))
    await stops(app.resume("r", answer="a"))
    second = (await app.history("r"))[-1].version
    await stops(app.resume("r", answer="b"))
    copy = await app.fork("r", second)
    await stops(app.resume(copy, answer="c"))
    await stops(app.resume("r", answer="b"))
    await stops(app.resume(copy, answer="c"))
    assert await app.resume("r", answer="b") == "abbb"
    assert await app.resume(copy, answer="c") == "accc"


@pytest.mark.parametrize("durability", ["step", "pause"])
async def test_k14_what_is_saved_is_what_was_there_when_it_was(durability: Any, stops: Stops) -> None:
    kept: list[list[str]] = []

    async def gives(text: str) -> list[str]:
        made = [text]
        kept.append(made)
        return made

    async def changes(items: list[str]) -> str:
        kept[0].append("changed later")
        items.append("changed here")
        await step("now", str, "x")
        return await interrupt("?", answer=str)

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("gives", gives))
    graph.add_edge("gives", graph.add_node("changes", changes))
    graph.add_edge("changes", END)
    seen: list[list[str]] = []
    app = graph.compile(store=MemoryStore(), durability=durability)
    await stops(app.invoke("x", run="r"))

    async def looks(items: list[str]) -> str:
        seen.append(list(items))
        await step("now", str, "x")
        return await interrupt("?", answer=str)

    again = Graph[str, str]()
    again.add_edge(START, again.add_node("gives", gives))
    again.add_edge("gives", again.add_node("changes", looks))
    again.add_edge("changes", END)
    same = again.compile(store=app._kept().store)  # pyright: ignore[reportPrivateUsage]
    assert await same.resume("r", answer="!") == "!"
    assert seen == [["x"]]


async def test_k15_addresses_are_the_same_in_every_version(
    say: Make, ask: Make, line: Line, stops: Stops, log: list[str]
) -> None:
    inner = line(("1", say("1")), ("ask", ask("ask")))
    app = line(("sub", inner), ("b", say("b")))
    ids = await stops(app.invoke("x", run="r"))
    versions = await app.history("r")
    for version in versions:
        copy = await app.fork("r", version.version)
        log.clear()
        with pytest.raises((Interrupted, AnswersMissingError)):
            await app.resume(copy)
        assert [one.id for one in await app.pending(copy)] == ids
        assert await app.resume(copy, answer="!") == "x1!b"
        assert log.count("1") <= 1


async def test_k16_a_renamed_node_is_a_changed_graph(say: Make, ask: Make, line: Line, stops: Stops) -> None:
    store = MemoryStore()
    await stops(line(("a", ask("a")), ("b", say("b")), store=store).invoke("x", run="r"))
    with pytest.raises(GraphChangedError, match="another graph"):
        await line(("a", ask("a")), ("c", say("c")), store=store).resume("r", answer="!")


@pytest.mark.virtual_time
async def test_k18_a_time_out_of_a_resumed_run_is_one_and_does_not_pause(stops: Stops, log: list[str]) -> None:
    async def slow(text: str) -> str:
        answer = await interrupt("?", answer=float)
        await step("effect", log.append, "effect")
        await anyio.sleep(answer)
        return text + "!"

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("slow", slow, timeout=1.0))
    graph.add_edge("slow", END)
    app = graph.compile(store=MemoryStore())
    await stops(app.invoke("x", run="r"))
    with pytest.raises(TimeoutError):
        await app.resume("r", {"slow/0": 5.0})
    with pytest.raises(TimeoutError):
        await app.resume("r")
    assert log == ["effect"]
    assert not await app.pending("r")


async def test_k19_a_step_that_comes_with_other_arguments_is_an_error_that_shows_both(line: Line, stops: Stops) -> None:
    order = ["a", "b"]

    async def works(text: str) -> str:
        for name in order:
            text += await step("work", str.upper, name)
        return text + await interrupt("?", answer=str)

    app = line(("works", works))
    await stops(app.invoke("x", run="r"))
    order.reverse()
    with pytest.raises(StepMismatchError) as caught:
        await app.resume("r", answer="!")
    assert "'a'" in str(caught.value)
    assert "'b'" in str(caught.value)
    order.reverse()
    assert await app.resume("r") == "xAB!"


async def test_x4_ids_and_threads_are_data_for_every_store(tmp_path: Any, say: Make, line: Line) -> None:
    from anabranch.compose import SqliteStore

    evil: Sequence[str] = ["'; DROP TABLE logs; --", '" OR 1=1 --', "%", "_", "\x00", "\ud800", "r' UNION SELECT 1"]
    async with SqliteStore(tmp_path / "runs.db", synchronous="normal") as store:
        app = line(("a", say("a")), store=store)
        for name in evil:
            assert await app.invoke("x", run=name, thread=name) == "xa"
        for name in evil:
            assert [head.id for head in await store.heads(thread=name)] == [name]
            assert await app.output(name) == "xa"
