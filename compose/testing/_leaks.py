"""Whether a run that fails, is cancelled or is left leaves anything behind: tried at every point of the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from types import AsyncGeneratorType
from typing import Any, Final

import anyio
import anyio.lowlevel

from .._context import current_frame
from .._crew import on_asyncio
from .._runnable import Runnable
from ._asserts import outcome_of
from ._instrument import guarded
from ._paradigms import PARADIGMS, Paradigm, run_paradigm

__all__ = ("assert_leaves_nothing_behind",)


class Tripped(Exception):
    """What a node raises where it is made to fail."""


ENDINGS: Final = ("fail", "cancel", "leave")


async def assert_leaves_nothing_behind(
    app: Runnable[Any, Any],
    input: Any,
    *,
    chunks: Sequence[Any] | None = None,
    paradigms: Sequence[Paradigm] = PARADIGMS,
    points: int = 40,
) -> int:
    """Assert that a run leaves nothing behind, wherever it ends.

    The graph is run again and again. Each time, at another point (before a node, after it, at a chunk), the node
    fails, or the caller is cancelled, or, where the output is a stream, the caller stops reading. Afterwards no task
    of the run may live, no stream that a node made may be open, and nobody may hold the state.

    Args:
        app: The compiled graph.
        input: Its input.
        chunks: The input in chunks, for ``collect`` and ``transform``.
        paradigms: How to run it.
        points: At how many points to end it at most, in each paradigm and way.

    Returns:
        How many runs were tried.

    Raises:
        AssertionError: If something was left; it says what, and where the run ended.
    """
    tried = 0
    for paradigm in paradigms:
        trip = Trip(-1, "")
        before = await outcome_of(guarded(app, trip), input, paradigm, chunks)
        trip.assert_nothing_is_left(f"a whole run by {paradigm}")
        step = max(1, trip.passed // points)
        endings = ENDINGS if paradigm in ("stream", "transform") else ENDINGS[:2]
        for ending in endings:
            for point in range(0, trip.passed, step):
                await _end_at(Trip(point, ending), app, input, paradigm, chunks)
                tried += 1
        after = await outcome_of(app, input, paradigm, chunks)
        assert _same(before, after), f"{paradigm} gave {before} first, and {after} after runs that were broken off"
    return tried


def _same(one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    return one[0] == other[0] and type(one[1]) is type(other[1])


async def _end_at(
    trip: Trip, app: Runnable[Any, Any], input: Any, paradigm: Paradigm, chunks: Sequence[Any] | None
) -> None:
    tasks = tasks_now()
    given = _Watched([input] if chunks is None else chunks, trip)
    source = given if paradigm in ("collect", "transform") else None
    with trip.scope:
        try:
            if trip.ending == "leave":
                await _read_until_tripped(trip, guarded(app, trip), input, source)
            else:
                await run_paradigm(guarded(app, trip), input, paradigm, source)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        except Exception:
            pass
    where = f"a run by {paradigm} that was made to {trip.ending} at point {trip.point} ({trip.place})"
    left = tasks_now() - tasks
    assert not left, f"{where} left tasks: {left}"
    trip.assert_nothing_is_left(where)


async def _read_until_tripped(trip: Trip, app: Runnable[Any, Any], input: Any, source: Any) -> None:
    async with app.stream(input) if source is None else app.transform(source) as reader:
        while not trip.place:
            try:
                await reader.receive()
            except anyio.EndOfStream:
                return


class _Watched:
    """The input in chunks, as a generator whose end is watched."""

    def __init__(self, chunks: Sequence[Any], trip: Trip) -> None:
        self._chunks = chunks
        self._trip = trip

    def __aiter__(self) -> AsyncIterator[Any]:
        generator = self._give()
        self._trip.opened(generator)
        return generator

    async def _give(self) -> AsyncIterator[Any]:
        for chunk in self._chunks:
            await anyio.lowlevel.checkpoint()
            yield chunk


@dataclass
class Trip:
    """Ends a run at its nth point."""

    point: int
    ending: str
    passed: int = 0
    place: str = ""
    """Where the run was ended."""
    working: dict[str, int] = field(default_factory=dict[str, int])
    generators: list[Any] = field(default_factory=list[Any])
    cells: dict[int, Any] = field(default_factory=dict[int, Any])
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    async def _pass(self, path: str, where: str) -> None:
        self._note_states()
        here, self.passed = self.passed, self.passed + 1
        if here != self.point:
            await anyio.lowlevel.checkpoint()
            return
        self.place = f"{where} {path!r}"
        if self.ending == "fail":
            raise Tripped(self.place)
        if self.ending == "cancel":
            self.scope.cancel()
        await anyio.lowlevel.checkpoint()

    def _note_states(self) -> None:
        frame = current_frame.get()
        run = frame[0] if frame is not None else None
        while run is not None:
            if run.state is not None:
                self.cells[id(run.state)] = run.state
            run = run.parent

    async def started(self, path: str) -> None:
        """A node begins."""
        self.working[path] = self.working.get(path, 0) + 1
        try:
            await self._pass(path, "before node")
        except BaseException:
            self.working[path] -= 1
            raise

    async def ended(self, path: str, error: BaseException | None) -> None:
        """A node has ended."""
        self.working[path] -= 1
        await self._pass(path, "after node")

    async def chunk(self, path: str) -> None:
        """A node has a chunk."""
        await self._pass(path, "at a chunk of node")

    def opened(self, generator: Any) -> None:
        """A node has made a stream."""
        self.generators.append(generator)

    def assert_nothing_is_left(self, where: str) -> None:
        """Assert that all streams are closed and all states free."""
        alive = [g for g in self.generators if isinstance(g, AsyncGeneratorType) and g.ag_frame is not None]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        assert not alive, f"{where} left open the streams of {alive}"
        held = [cell.value for cell in self.cells.values() if not cell.free]
        assert not held, f"{where} left these states held: {held}"


def tasks_now() -> set[Any]:
    """Give all tasks of the event loop that runs."""
    if on_asyncio():
        return set(asyncio.all_tasks())
    import trio

    found: set[Any] = set()
    more: list[Any] = [trio.lowlevel.current_root_task()]
    while more:
        task = more.pop()
        found.add(task)
        more += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found
