"""Whether a run that pauses and is resumed says the same as one that does not: tried at every point of the run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from copy import copy
from itertools import count
from typing import Any, Final, Literal

from ...schema import concat
from .._interrupt import Interrupt, interrupt
from .._interrupted import Interrupted
from .._record import Durability, Keeping
from .._runnable import Runnable
from .._store import CheckpointStore
from .._store_memory import MemoryStore
from ..errors import GraphRunError
from ._asserts import Outcome, outcome_of, shown
from ._instrument import guarded

__all__ = ("assert_resumes_anywhere",)

Mode = Literal["value", "stream"]
Point = tuple[str, Literal["started", "ended", "chunk"]]
"""The path of a node, and when it asks: when it begins, when it has its result, when it has a chunk."""

ROUNDS: Final = 500
"""After so many pauses a run is taken to pause for ever."""


async def assert_resumes_anywhere(
    app: Runnable[Any, Any],
    input: Any,
    *,
    store: CheckpointStore | None = None,
    durability: Durability = "step",
    modes: Sequence[Mode] = ("value", "stream"),
    points: int = 40,
    seed: int = 0,
) -> int:
    """Assert that a run that pauses and is resumed gives what it gives without a pause, and does nothing twice.

    The graph is run again and again. Each time it stops elsewhere: before or after a node, by a question that the node
    asks when it begins, when it has its result or at a chunk, and at many places at once; it is resumed in the same
    mode or the other, with all answers or one by one. The output must be the same, and each node must come to its
    end as often as without pauses.

    Args:
        app: The compiled graph; whether it keeps its runs does not matter.
        input: Its input.
        store: Where runs are kept; in memory by default.
        durability: When they are saved.
        modes: The modes to begin and to go on in.
        points: How many ways to stop are tried at most.
        seed: Decides which, where there are more.

    Returns:
        How many runs were tried.

    Raises:
        AssertionError: If a run says something else; it says where it paused.
    """
    guard = _Asker(frozenset())
    wanted = await outcome_of(guarded(app, guard), input, "invoke", None)
    ran, seen = guard.ended_runs, list(guard.seen)
    choice = random.Random(seed)
    ways: list[tuple[frozenset[Point], frozenset[str], frozenset[str]]] = [
        *((frozenset([point]), frozenset[str](), frozenset[str]()) for point in seen),
        *((frozenset[Point](), frozenset([path]), frozenset[str]()) for path in ran),
        *((frozenset[Point](), frozenset[str](), frozenset([path])) for path in ran),
        (frozenset(seen), frozenset(ran), frozenset(ran)),
    ]
    if len(ways) > points:
        ways = [*choice.sample(ways[:-1], points - 1), ways[-1]]
    kept = MemoryStore() if store is None else store
    tried = 0
    for questions, before, after in ways:
        for mode in modes:
            keeping = Keeping(kept, durability, "tested", None, None, None, before, after)
            attempt = _Attempt(app, keeping, _Asker(questions), choice, modes)
            got = await attempt.outcome(input, mode, f"tested-{seed}-{tried}")
            attempt.assert_same(input, wanted, got, ran)
            tried += 1
    return tried


class _Asker:
    """Asks at some points of a run, and notes which points it passes and which nodes come to their end."""

    def __init__(self, points: frozenset[Point]) -> None:
        self.points = points
        self.seen: dict[Point, None] = {}
        self.ended_runs: Counter[str] = Counter()

    async def started(self, path: str) -> None:
        await self._pass((path, "started"))

    async def ended(self, path: str, error: BaseException | None) -> None:
        if error is None:
            await self._pass((path, "ended"))
            self.ended_runs[path] += 1

    async def chunk(self, path: str) -> None:
        await self._pass((path, "chunk"))

    def opened(self, generator: Any) -> None:
        pass

    async def _pass(self, point: Point) -> None:
        self.seen[point] = None
        if point in self.points:
            # A node that makes many chunks asks at the first one only, however often it is run again.
            given = await interrupt(list(point), answer=str, name="chunk" if point[1] == "chunk" else "")
            assert given == f"go on at {point}", f"{point} was given the answer {given!r}"


class _Attempt:
    """One run that pauses at some points."""

    def __init__(
        self, app: Runnable[Any, Any], keeping: Keeping, asker: _Asker, choice: random.Random, modes: Sequence[Mode]
    ) -> None:
        self._app = guarded(copy(app), asker)
        self._app._keeping = keeping  # pyright: ignore[reportPrivateUsage]
        self._keeping = keeping
        self._asker = asker
        self._choice = choice
        self._modes = modes
        self._story: list[str] = []

    async def outcome(self, input: Any, mode: Mode, run: str) -> Outcome:
        """Run, and resume until there is an output or an error."""
        chunks: list[Any] = []
        answers: dict[str, str] | None = None
        for number in count():
            assert number < ROUNDS, f"the run pauses for ever: {self._story[-5:]}"
            self._story.append(f"{mode} with {answers}")
            try:
                return await self._go(input, mode, run, answers, chunks), None
            except Interrupted as paused:
                answers = self._answers(paused.interrupts)
            except GraphRunError as error:
                return None, error
            if len(self._modes) > 1 and self._choice.random() < 0.5:
                mode = self._choice.choice(self._modes)
        raise AssertionError("counting does not end")

    async def _go(self, input: Any, mode: Mode, run: str, answers: dict[str, str] | None, chunks: list[Any]) -> Any:
        app = self._app
        if mode == "value":
            return await (app.invoke(input, run=run) if answers is None else app.resume(run, answers))
        async with app.stream(input, run=run) if answers is None else app.resume_stream(run, answers) as reader:
            async for chunk in reader:
                chunks.append(chunk)
        if await self._keeping.store.load(run) is None:  # it has not paused, and is kept only if it does
            return concat(chunks)
        whole = await app.output(run)
        if chunks:
            assert concat(chunks) == whole, f"the reader got {chunks}, and the output is {whole!r}"
        return whole

    def _answers(self, waiting: Sequence[Interrupt]) -> dict[str, str]:
        """Answer all questions, or one of them."""
        asked = [one for one in waiting if isinstance(one.payload, list)]
        if len(asked) > 1 and self._choice.random() < 0.5:
            asked = [self._choice.choice(asked)]
        assert len({one.id for one in waiting}) == len(waiting), f"two interrupts have one id: {waiting}"
        return {one.id: f"go on at {tuple(one.payload)}" for one in asked}

    def assert_same(self, input: Any, wanted: Outcome, got: Outcome, ran: Counter[str]) -> None:
        """Assert that the run ended as without pauses."""
        same = got[0] == wanted[0] and type(got[1]) is type(wanted[1])
        runs = self._asker.ended_runs
        if same and (wanted[1] is not None or runs == ran):
            return
        keeping = self._keeping
        where = f"asking at {sorted(self._asker.points)}, before {set(keeping.before)}, after {set(keeping.after)}"
        story = "; ".join(self._story)
        both = f"it {shown(got)}, and {shown(wanted)} without pauses; nodes ended {dict(runs)}, {dict(ran)} without"
        raise AssertionError(f"a run on {input!r} that pauses {where} ({story}): {both}") from (got[1] or wanted[1])
