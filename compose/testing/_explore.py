"""One graph under many orders of completion: each node waits before its work until the explorer lets it go.

The explorer is the only one that decides. It waits until nothing in the run can move, looks who stands at the gate,
lets one through, and so on until the run has ended; so a run is determined by the list of its decisions. The first run
always takes the first; from how many there were to choose from, it knows how many orders there may be. If they are
few, it tries all of them, by changing the last decision that can be changed; otherwise it decides by a seed.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from .._crew import on_asyncio
from .._runnable import Runnable
from ._instrument import guarded
from ._paradigms import PARADIGMS, Paradigm, run_paradigm

__all__ = ("Explored", "explore")


@dataclass(frozen=True)
class Explored:
    """One run under one order of completion.

    Attributes:
        order: The paths of the nodes as they did their work and finished (and, in stream mode, gave their chunks).
        output: What the run gave, or None.
        error: What it raised, or None.
        waiting: For each entry of ``order``, the paths of all that could have been the ones at that moment.
    """

    order: tuple[str, ...]
    output: Any
    error: Exception | None
    waiting: tuple[tuple[str, ...], ...]


async def explore(
    app: Runnable[Any, Any],
    input: Any,
    *,
    orders: int = 50,
    seed: int = 0,
    paradigm: Paradigm = "invoke",
    chunks: Sequence[Any] | None = None,
) -> list[Explored]:
    """Run a compiled graph again and again, with its nodes finishing in another order each time.

    All orders are tried if there are no more than ``orders``; otherwise so many, chosen by a seed. Every node is made
    asynchronous for that, and waits before it does anything, as if it were slow, until it is let go. In stream mode
    every chunk waits too. Nodes that wait for something outside (a timer, a thread) are waited for.

    Args:
        app: The compiled graph.
        input: Its input.
        orders: How many orders to try at most.
        seed: Decides which, where there are more; the same seed gives the same orders.
        paradigm: How to run it; streams are read to their end and concatenated.
        chunks: The input in chunks, for ``collect`` and ``transform``; by default it is one chunk.

    Returns:
        The runs, in the order in which they were tried.

    Example:
        >>> from anabranch.compose import END, START, Graph
        >>> graph = Graph[str, dict[str, str]]()
        >>> for key in ("a", "b", "c"):
        ...     node = graph.add_node(key, str.upper, input=str, output=str, output_key=key)
        ...     graph.add_edge(START, node)
        ...     graph.add_edge(key, END)
        >>> [run.order for run in await explore(graph.compile(), "x")][:3]
        [('a', 'b', 'c'), ('a', 'c', 'b'), ('b', 'a', 'c')]
    """
    if paradigm not in PARADIGMS:
        raise ValueError(f"paradigm={paradigm!r}: there are {', '.join(map(repr, PARADIGMS))}")

    async def run(decide: Callable[[int, int], int]) -> Explored:
        gate = Gate(decide)
        return await gate.watch(lambda: run_paradigm(guarded(app, gate), input, paradigm, chunks))

    decisions = Decisions()
    runs = [await run(decisions.decide)]
    if math.prod(map(len, runs[0].waiting)) <= orders:
        while len(runs) < orders and decisions.next():
            runs.append(await run(decisions.decide))
        return runs
    for number in range(orders - 1):
        dice = random.Random(f"{seed}/{number}")
        runs.append(await run(lambda _, count, dice=dice: dice.randrange(count)))  # type: ignore[misc]
    return runs


class Decisions:
    """All lists of decisions, one after the other, like the digits of a counter."""

    def __init__(self) -> None:
        self._made: list[int] = []
        self._counts: list[int] = []

    def decide(self, place: int, count: int) -> int:
        """Decide as planned; what was never decided before, for the first."""
        del self._counts[place:]
        self._counts.append(count)
        if place == len(self._made):
            self._made.append(0)
        return self._made[place]

    def next(self) -> bool:
        """Plan the next list; tell whether there is one."""
        del self._made[len(self._counts) :]
        while self._made and self._made[-1] + 1 >= self._counts[len(self._made) - 1]:
            self._made.pop()
        if self._made:
            self._made[-1] += 1
        return bool(self._made)


Ticket = tuple[str, int]
"""The path of a node that waits, and a number."""


class Gate:
    """Holds back every node that could run, and lets one go at a time."""

    def __init__(self, decide: Callable[[int, int], int]) -> None:
        self._decide = decide
        self._tickets = 0
        self._held: dict[Ticket, anyio.Event] = {}
        self._arrived = anyio.Event()

    async def started(self, path: str) -> None:
        """Hold a node back before it does anything."""
        self._tickets += 1
        ticket = path, self._tickets
        event = self._held[ticket] = anyio.Event()
        self._arrived.set()
        try:
            await event.wait()
        finally:
            self._held.pop(ticket, None)

    async def ended(self, path: str, error: BaseException | None) -> None:
        """Let a node that has done its work finish at once."""

    async def chunk(self, path: str) -> None:
        """Hold a chunk back."""
        await self.started(path)

    def opened(self, generator: Any) -> None:
        """Streams may be opened at once."""

    async def watch(self, work: Callable[[], Awaitable[Any]]) -> Explored:
        """Run something to its end, letting through one node after the other."""
        outcome: list[tuple[Any, Exception | None]] = []
        order: list[str] = []
        waiting: list[tuple[str, ...]] = []

        async def run() -> None:
            try:
                outcome.append((await work(), None))
            except Exception as error:
                outcome.append((None, error))
            self._arrived.set()

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            while True:
                await nothing_moves()
                if outcome:
                    break
                if not self._held:
                    self._arrived = anyio.Event()
                    await self._arrived.wait()
                    continue
                tickets = sorted(self._held)
                chosen = tickets[self._decide(len(order), len(tickets))]
                order.append(chosen[0])
                waiting.append(tuple(path for path, _ in tickets))
                self._held.pop(chosen).set()
        assert not self._held, f"the run has ended, and these nodes still work: {sorted(self._held)}"
        return Explored(tuple(order), *outcome[0], tuple(waiting))


async def nothing_moves() -> None:
    """Wait until every other task waits for something."""
    if not on_asyncio():
        import trio.testing

        await trio.testing.wait_all_tasks_blocked()
        return
    me, quiet = asyncio.current_task(), 0
    while quiet < 3:  # what is called back in the next turn may make somebody move in the one after
        await asyncio.sleep(0)
        waits = [getattr(task, "_fut_waiter", None) for task in asyncio.all_tasks() if task is not me]
        quiet = quiet + 1 if all(future is not None and not future.done() for future in waits) else 0
