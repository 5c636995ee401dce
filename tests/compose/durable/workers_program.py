# ruff: noqa: T201 - it tells its caller
"""A program of eight workers that begin and resume the same runs as those of another process; it counts conflicts.

``workers_program.py sqlite|postgres PLACE BACKEND FOLDER NAME FIRST COUNT``: every worker goes through all runs, in an
order of its own, and tries to begin, to answer and to end each. An effect is a file that must not be there.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from anabranch.compose import (
    END,
    START,
    Graph,
    Interrupted,
    PostgresStore,
    RunConflict,
    Runnable,
    SqliteStore,
    current_step,
    interrupt,
    step,
)
from anabranch.compose._store import CheckpointStore
from anabranch.compose.errors import AnswersMissingError, RunFinishedError, UnknownInterruptError, UnknownRunError


def app_of(store: CheckpointStore, folder: Path) -> Runnable[str, str]:
    """A run that has an effect, asks, has another, in a fan-out with a third, and ends by a file of its own."""

    def effect(label: str) -> str:
        (folder / f"{current_step().key} {label}").open("x").close()  # twice would be an error
        return label

    def node(label: str, *, asks: bool = False) -> Callable[[str], Any]:
        async def work(text: str) -> str:
            made = await step("effect", effect, f"{text.partition(' ')[0]} {label}")
            await anyio.lowlevel.checkpoint()
            return f"{text} {await interrupt('go on?', answer=str)}" if asks else f"{text} {made}"

        return work

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("a", node("a", asks=True)))
    for name in "bc":
        graph.add_edge("a", graph.add_node(name, node(name)))
        graph.add_edge(name, "d")
    graph.add_node("d", node("d"), merge=" | ".join)
    graph.add_edge("d", END)
    return graph.compile(store=store)


async def tried(app: Runnable[str, str], run: str) -> str:
    """Try to bring a run to its end; say what came of it."""
    try:
        try:
            await app.resume(run, {"a/0": "!"})
        except UnknownInterruptError:
            await app.resume(run)
        except UnknownRunError:
            await app.invoke(run, run=run)
    except RunConflict:
        return "conflicts"
    except Interrupted:
        return "paused"
    except AnswersMissingError:
        return "asked again"
    except RunFinishedError:
        return "over"
    return "ended"


async def main(kind: str, place: str, folder: str, name: str, count: int) -> Counter[str]:
    """Work on all runs with eight workers."""
    told: Counter[str] = Counter()

    async def worker(number: int) -> None:
        order = list(range(count))
        random.Random(f"{name} {number}").shuffle(order)
        for one in order:
            for _ in range(400):
                what = await tried(app, f"{prefix}{one}")
                if what == "over":
                    break
                told[what] += 1
                if what == "conflicts":
                    await anyio.sleep(0.002)
            else:
                told["gave up"] += 1

    prefix = f"{Path(folder).parent.name}-"
    store: CheckpointStore
    store = SqliteStore(place, synchronous="normal", busy_timeout=40) if kind == "sqlite" else PostgresStore(place)
    async with store:
        app = app_of(store, Path(folder))
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(worker, number)
    return told


if __name__ == "__main__":
    kind, place, backend, folder, name, count = sys.argv[1:]
    for what, times in anyio.run(main, kind, place, folder, name, int(count), backend=backend).items():
        print(what, times, sep=": ")
