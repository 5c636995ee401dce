"""What it costs to keep a run: a step saved in memory, and in SQLite against the bare transaction."""

from __future__ import annotations

import sqlite3
import tempfile
from functools import cache
from pathlib import Path
from typing import Literal

from anabranch.compose import START, CheckpointStore, Graph, MemoryStore, Runnable, SqliteStore

from .graphs import plain_step
from .harness import Limit, Workload

FOLDER = tempfile.TemporaryDirectory(prefix="anabranch-benchmark-")
PAYLOAD = b"x" * 200
"""About what one step of the chain writes."""


@cache
def store(kind: str) -> CheckpointStore:
    """Open a store once."""
    if kind == "memory":
        return MemoryStore()
    full: Literal["full", "normal"] = "full" if kind == "full" else "normal"
    return SqliteStore(Path(FOLDER.name) / f"{kind}.db", synchronous=full)


@cache
def kept_chain(size: int, kind: str) -> Runnable[str, str]:
    """Compile a line of nodes whose runs are kept."""
    graph = Graph[str, str]()
    graph.add_edge(START, "n0")
    for number in range(size):
        graph.add_node(f"n{number}", plain_step)
        graph.add_edge(f"n{number}", f"n{number + 1}" if number + 1 < size else "end")
    return graph.compile(store=store(kind))


@cache
def kept_loop(size: int) -> Runnable[int, int]:
    """Compile a loop whose state grows by an item a step."""

    def step(value: int) -> int:
        return value + 1

    def note(value: int, state: list[str]) -> int:
        state.append(f"step {value}")
        return value

    def more(value: int) -> Literal["step", "end"]:
        return "step" if value < size else "end"

    graph = Graph[int, int](state=list[str])
    graph.add_edge(START, graph.add_node("step", step, pre=note))
    graph.add_branch("step", more)
    return graph.compile(store=store("memory"), max_steps=size + 2)


async def in_memory(size: int) -> None:
    """Run a chain that is kept in memory."""
    await kept_chain(size, "memory").invoke("x")


async def loop_in_memory(size: int) -> None:
    """Run a loop that is kept in memory."""
    await kept_loop(size).invoke(0)


async def in_sqlite(size: int) -> None:
    """Run a chain that is kept in a file."""
    await kept_chain(size, "full").invoke("x")


@cache
def bare() -> sqlite3.Connection:
    """Open a database as the store does."""
    made = sqlite3.connect(Path(FOLDER.name) / "bare.db", isolation_level=None)
    made.execute("pragma journal_mode=wal")
    made.execute("pragma synchronous=full")
    made.execute("create table heads (id text primary key, version integer, data blob)")
    made.execute("create table entries (id text, version integer, data blob, primary key (id, version))")
    made.execute("insert into heads values ('r', 0, x'')")
    return made


async def bare_transactions(size: int) -> None:
    """Write what a step writes, with nothing around it."""
    connection = bare()
    ((version,),) = connection.execute("select version from heads where id = 'r'").fetchall()
    for number in range(version + 1, version + size + 1):
        connection.execute("begin immediate")
        connection.execute("update heads set version = ?, data = ? where id = 'r'", (number, PAYLOAD))
        connection.execute("insert into entries values ('r', ?, ?)", (number, PAYLOAD))
        connection.execute("commit")


WORKLOADS = [
    Workload("a step saved in MemoryStore", "step", {"ours": in_memory}, (10, 100, 1000), Limit(micros=30.0)),
    Workload(
        "a step with a growing state saved in MemoryStore",
        "step",
        {"ours": loop_in_memory},
        (10, 100, 1000),
        Limit(micros=None),
    ),
    Workload(
        "a step saved in SqliteStore, by the clock",
        "step",
        {"ours": in_sqlite, "bare sqlite3": bare_transactions},
        (100,),
        Limit(ratio=1.3, to="bare sqlite3"),
        lambda _: 1,
        clock="wall",
    ),
]
