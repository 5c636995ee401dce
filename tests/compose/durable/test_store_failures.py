"""D5: a store that fails stops the run with an error that names the step; nothing goes on, nothing is had twice."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.to_thread
import pytest

from anabranch.compose import (
    END,
    START,
    CheckpointError,
    Graph,
    Interrupted,
    Map,
    MemoryStore,
    PostgresStore,
    Runnable,
    SqliteStore,
    UnknownRunError,
    current_step,
    interrupt,
    step,
)
from anabranch.compose._store import CheckpointStore, LogHead, LogKind, LogStatus, LogVersion, StoredLog
from anabranch.compose.errors import StoreError

if TYPE_CHECKING:
    from postgres_server import Server

pytestmark = pytest.mark.anyio


class Failing(CheckpointStore):
    """A store whose n-th save fails, and all after it until it is healed."""

    def __init__(self, store: CheckpointStore, fails_at: int = 0) -> None:
        self._store = store
        self.fails_at = fails_at
        self.saves = 0

    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        self.saves += 1
        await anyio.lowlevel.checkpoint()
        if self.fails_at and self.saves >= self.fails_at:
            raise StoreError("the store", "saving", "it is full; make room")
        await self._store.save(head, data, snapshot=snapshot, expected=expected)

    async def load(self, id: str, *, version: int | None = None) -> StoredLog | None:
        return await self._store.load(id, version=version)

    async def versions(self, id: str) -> Sequence[LogVersion]:
        return await self._store.versions(id)

    async def heads(
        self,
        *,
        kind: LogKind | None = None,
        thread: str | None = None,
        status: LogStatus | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Sequence[LogHead]:
        return await self._store.heads(kind=kind, thread=thread, status=status, limit=limit, after=after)

    async def delete(self, id: str) -> bool:
        return await self._store.delete(id)

    async def expire(self, now: float) -> int:
        return await self._store.expire(now)

    async def aclose(self) -> None:
        await self._store.aclose()


class World:
    """What is outside: effects by their keys, and what the nodes did."""

    def __init__(self) -> None:
        self.effects: dict[str, str] = {}
        self.log: list[str] = []
        self.store: CheckpointStore | None = None

    def effect(self, label: str) -> str:
        self.log.append(f"effect {label}")
        self.effects[current_step().key] = label
        return f"<{label}>"

    async def work(self, label: str) -> str:
        self.log.append(f"begin {label}")
        with contextlib.suppress(Exception):  # it swallows what it can; the run stops all the same
            return await step("effect", self.effect, label)
        return "swallowed"


def graph_of(
    world: World, store: CheckpointStore, trigger: Literal["any", "all"], durability: Literal["step", "pause"] = "step"
) -> Runnable[str, str]:
    """A graph with a nested one, a fan-out and a map."""

    async def letter(text: str) -> str:
        return text + await world.work("a")

    async def other(text: str) -> str:
        return await world.work("b")

    async def item(number: int) -> str:
        return await world.work(str(number))

    async def numbers(text: dict[str, str]) -> list[int]:
        world.log.append("begin join")
        return [1, 2]

    async def joined(parts: list[str]) -> str:
        return "".join(parts) + await world.work("last")

    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("a", letter))
    inner.add_edge("a", END)
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("inner", inner, output_key="a"))
    graph.add_edge(START, graph.add_node("b", other, output_key="b"))
    graph.add_edge("inner", graph.add_node("join", numbers))
    graph.add_edge("b", "join")
    graph.add_edge("join", graph.add_node("each", Map(item, concurrency=2)))
    graph.add_edge("each", graph.add_node("last", joined))
    graph.add_edge("last", END)
    return graph.compile(trigger=trigger, store=store, durability=durability)


@pytest.mark.parametrize("durability", ["step", "pause"])
@pytest.mark.parametrize("trigger", ["any", "all"])
async def test_whichever_save_fails_the_run_stops_there_and_goes_on_when_the_store_is_healed(
    trigger: Any, durability: Any
) -> None:
    fails_at, ended = 0, False
    while not ended:
        fails_at += 1
        world, store = World(), Failing(MemoryStore(), fails_at)
        app = graph_of(world, store, trigger, durability)
        error: CheckpointError | None = None
        try:
            output = await app.invoke("x", run="r")
            ended = True
        except CheckpointError as stopped:
            error = stopped
            done = list(world.log)
            await anyio.lowlevel.checkpoint()
            assert world.log == done
            assert store.saves <= fails_at + 1, "it goes on trying"
            store.fails_at = 0
            try:
                output = await app.resume("r")
            except UnknownRunError:
                assert fails_at == 1, "only a run of which nothing was saved is unknown"
                output = await app.invoke("x", run="r")
        assert error is None or (error.run == "r" and error.step and "it is full" in str(error))
        assert output == "<1><2><last>"
        assert sorted(world.effects.values()) == ["1", "2", "a", "b", "last"]
        steps = ["a", "b", "1", "2", "last"]
        assert all(world.log.count(f"effect {label}") <= 2 for label in steps)
        assert sum(world.log.count(f"effect {label}") for label in steps) <= 7, "only what was at work is done again"
    assert fails_at > 5


async def test_the_error_of_a_step_names_it() -> None:
    world = World()
    store = Failing(MemoryStore(), 2)
    graph = Graph[str, str]()

    async def pay(text: str) -> str:
        return await step("charge", world.effect, text)

    graph.add_edge(START, graph.add_node("pay", pay))
    graph.add_edge("pay", END)
    app = graph.compile(store=store)
    with pytest.raises(CheckpointError, match="step 'charge' at 'pay'"):
        await app.invoke("x", run="r")


async def test_a_pause_that_cannot_be_saved_is_an_error_and_no_pause() -> None:
    async def ask(text: str) -> str:
        return await interrupt("?", answer=str)

    store = Failing(MemoryStore(), 2)
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", END)
    app = graph.compile(store=store)
    with pytest.raises(CheckpointError, match="the pause"):
        await app.invoke("x", run="r")
    store.fails_at = 0
    with pytest.raises(Interrupted) as paused:
        await app.resume("r")
    assert await app.resume("r", {paused.value.interrupts[0].id: "yes"}) == "yes"


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    other = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
    yield other
    other.close()


async def test_a_locked_database_stops_the_run_which_goes_on_when_it_is_free(
    tmp_path: Path, locked: sqlite3.Connection
) -> None:
    world = World()
    async with SqliteStore(tmp_path / "runs.db", busy_timeout=0.05) as store:
        graph = Graph[str, str]()

        async def first(text: str) -> str:
            made = await world.work("first")
            locked.execute("BEGIN EXCLUSIVE")
            return made

        async def second(text: str) -> str:
            return text + await world.work("second")

        graph.add_edge(START, graph.add_node("first", first))
        graph.add_edge("first", graph.add_node("second", second))
        graph.add_edge("second", END)
        app = graph.compile(store=store)
        with pytest.raises(CheckpointError, match="the step before 'second'"):
            await app.invoke("x", run="r")
        assert world.log == ["begin first", "effect first"]
        locked.execute("ROLLBACK")
        with pytest.raises(CheckpointError):  # it locks it again
            await app.resume("r")
        locked.execute("ROLLBACK")
        assert list(world.effects.values()) == ["first"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits of files are POSIX")
async def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    world = World()
    path = tmp_path / "runs.db"

    async def grow(text: str) -> str:
        await world.work(f"{len(text)}")
        return text + "x" * 300_000

    async def more(text: str) -> Literal["grow", "end"]:
        return "grow" if len(text) < 1_000_000 else "end"

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("grow", grow))
    graph.add_branch("grow", more)
    async with SqliteStore(path) as store:
        await store.load("nothing")
        full = sqlite3.connect(path)
        full.close()
        app = graph.compile(store=_Limited(store, 700_000))
        with pytest.raises(CheckpointError, match="full"):
            await app.invoke("x", run="r")
        begun = len(world.log)
        whole = graph.compile(store=store)
        assert len(await whole.resume("r")) == 1_200_001
        assert len(world.effects) == 4
        assert len(world.log) - begun <= 6


class _Limited(Failing):
    """A store on a disk that has room for so many bytes."""

    def __init__(self, store: CheckpointStore, room: int) -> None:
        super().__init__(store)
        self._room = room

    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        self._room -= len(data)
        self.fails_at = 1 if self._room < 0 else 0
        await super().save(head, data, snapshot=snapshot, expected=expected)


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere")
async def test_a_file_that_may_not_be_written_is_told_before_anything_runs(tmp_path: Path) -> None:
    world = World()
    async with SqliteStore(tmp_path / "runs.db") as store:
        await store.load("nothing")
    os.chmod(tmp_path / "runs.db", 0o444)
    os.chmod(tmp_path, 0o555)
    try:
        async with SqliteStore(tmp_path / "runs.db") as store:
            with pytest.raises((CheckpointError, StoreError)):
                await graph_of(world, store, "any").invoke("x", run="r")
    finally:
        os.chmod(tmp_path, 0o755)
    assert not world.log


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_server_that_restarts_in_the_middle_of_a_run_is_not_noticed(
    postgres: Server, mode: Literal["fast", "immediate"]
) -> None:
    world = World()
    async with PostgresStore(postgres.dsn) as store:

        async def restart(text: str) -> str:
            await anyio.to_thread.run_sync(postgres.restart, mode)
            return text + await world.work("a")

        async def after(text: str) -> str:
            return text + await world.work("b")

        graph = Graph[str, str]()
        graph.add_edge(START, graph.add_node("restart", restart))
        graph.add_edge("restart", graph.add_node("after", after))
        graph.add_edge("after", END)
        run = f"restart-{mode}-{id(world)}"
        assert await graph.compile(store=store).invoke("x", run=run) == "x<a><b>"
        assert world.log == ["begin a", "effect a", "begin b", "effect b"]


async def test_a_server_that_is_gone_stops_the_run_which_goes_on_when_it_is_back(postgres: Server) -> None:
    world = World()
    run = f"gone-{id(world)}"
    async with PostgresStore(postgres.dsn, reconnect_timeout=0.3, connect_timeout=2.0) as store:
        graph = Graph[str, str]()

        async def first(text: str) -> str:
            made = await world.work("a")
            if "stopped" not in world.log:
                world.log.append("stopped")
                await anyio.to_thread.run_sync(postgres.stop)
            return text + made

        async def second(text: str) -> str:
            return text + await world.work("b")

        graph.add_edge(START, graph.add_node("first", first))
        graph.add_edge("first", graph.add_node("second", second))
        graph.add_edge("second", END)
        app = graph.compile(store=store)
        try:
            with pytest.raises(CheckpointError, match="the step before 'second'"):
                await app.invoke("x", run=run)
        finally:
            await anyio.to_thread.run_sync(postgres.start)
        assert await app.resume(run) == "x<a><b>"
        assert [line for line in world.log if line.startswith("effect")] == ["effect a", "effect b"]
