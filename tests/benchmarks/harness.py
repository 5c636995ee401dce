"""Measure workloads side by side in one process run, interleaved, in CPU time; report medians and ratios.

A workload has several *contestants* (ours, hand-written, …), each a function that does the work ``size`` times and
returns nothing. They are run in turn, several rounds, so that whatever the machine does meanwhile hits all of them.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import anyio

Contestant = Callable[[int], Awaitable[None]]
"""Does the work for one size: so many nodes, steps, branches or chunks."""


@dataclass(frozen=True)
class Limit:
    """What the design allows: microseconds per unit, or a ratio to another contestant (or both)."""

    micros: float | None = None
    ratio: float | None = None
    to: str = "hand-written"
    growth: float | None = 1.3
    """How much more one unit may cost at the largest size than at the smallest."""


@dataclass(frozen=True)
class Workload:
    """Work of one kind, in several sizes, by several contestants; ``ours`` is the one with a limit."""

    name: str
    unit: str
    contestants: Mapping[str, Contestant]
    sizes: Sequence[int]
    limit: Limit
    repeat: Callable[[int], int] = field(default=lambda size: max(1, 2000 // size))
    """How often the work of one size is done in one measurement."""
    backend: str = "asyncio"
    clock: Literal["cpu", "wall"] = "cpu"
    """What is measured; by the clock where most of the time goes by waiting for a disk."""


@dataclass(frozen=True)
class Result:
    """One contestant at one size."""

    workload: str
    unit: str
    contestant: str
    size: int
    micros: float
    """Time per unit, the median of all rounds."""


CLOCKS: Mapping[str, Callable[[], float]] = {"cpu": time.process_time, "wall": time.perf_counter}


async def _measure(contestant: Contestant, size: int, times: int, now: Callable[[], float]) -> float:
    gc.collect()
    start = now()
    for _ in range(times):
        await contestant(size)
    return (now() - start) / times / size * 1e6


def run(workload: Workload, rounds: int, *, quick: bool = False) -> list[Result]:
    """Run a workload's contestants in turn, and give the median of each at each size."""
    figures: dict[tuple[str, int], list[float]] = {}

    async def all_rounds() -> None:
        for number in range(rounds + 1):
            for size in workload.sizes:
                for name, contestant in workload.contestants.items():
                    times = 1 if quick or number == 0 else workload.repeat(size)
                    micros = await _measure(contestant, size, times, CLOCKS[workload.clock])
                    if number:  # the first round only warms up
                        figures.setdefault((name, size), []).append(micros)

    anyio.run(all_rounds, backend=workload.backend)
    return [
        Result(workload.name, workload.unit, name, size, statistics.median(values))
        for (name, size), values in figures.items()
    ]


@dataclass(frozen=True)
class Verdict:
    """A limit, and whether it is met."""

    workload: str
    what: str
    limit: float
    got: float

    @property
    def met(self) -> bool:
        """Whether it is."""
        return self.got <= self.limit


def judge(workload: Workload, results: Sequence[Result]) -> list[Verdict]:
    """Compare a workload's results with its limit."""
    table = {(r.contestant, r.size): r.micros for r in results}
    limit, sizes = workload.limit, workload.sizes
    largest = max(sizes)
    verdicts: list[Verdict] = []
    if limit.micros is not None:
        got = table["ours", largest]
        verdicts.append(Verdict(workload.name, f"µs per {workload.unit} at {largest}", limit.micros, got))
    if limit.ratio is not None:
        ratio = table["ours", largest] / table[limit.to, largest]
        verdicts.append(Verdict(workload.name, f"x {limit.to} at {largest}", limit.ratio, ratio))
    if limit.growth is not None and len(sizes) > 1:
        growth = table["ours", largest] / table["ours", min(sizes)]
        what = f"growth per {workload.unit} from {min(sizes)} to {largest}"
        verdicts.append(Verdict(workload.name, what, limit.growth, growth))
    return verdicts


def table_of(results: Sequence[Result], verdicts: Sequence[Verdict]) -> str:
    """Write results and verdicts as Markdown."""
    lines = ["| work | size | who | µs per unit |", "| --- | ---: | --- | ---: |"]
    lines += [f"| {r.workload} | {r.size} | {r.contestant} | {r.micros:.2f} |" for r in results]
    lines += ["", "| work | limit | allowed | got | |", "| --- | --- | ---: | ---: | --- |"]
    for v in verdicts:
        mark = "ok" if v.met else "**missed**"
        lines.append(f"| {v.workload} | {v.what} | {v.limit:.2f} | {v.got:.2f} | {mark} |")
    return "\n".join(lines) + f"\n\nPython {sys.version.split()[0]}\n"
