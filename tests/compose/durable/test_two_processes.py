"""D2: two processes with eight workers each go through the same runs; each run ends once, each effect is had once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import anyio
import pytest

from anabranch.compose import PostgresStore, SqliteStore
from anabranch.compose._store import CheckpointStore

PROGRAM = Path(__file__).with_name("workers_program.py")


def store_of(kind: str, place: str) -> CheckpointStore:
    return SqliteStore(place) if kind == "sqlite" else PostgresStore(place)


async def statuses(kind: str, place: str, runs: list[str]) -> Counter[str]:
    """Count how the runs stand."""
    found: Counter[str] = Counter()
    async with store_of(kind, place) as store:
        for run in runs:
            log = await store.load(run)
            found["missing" if log is None else log.head.status] += 1
            await store.delete(run)
    return found


def work(kind: str, place: str, folder: Path, count: int) -> None:
    """Let two processes work on runs, and look at what came out."""
    folder.mkdir()
    running = [
        subprocess.Popen(
            [sys.executable, PROGRAM, kind, place, backend, folder, backend, str(count)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for backend in ("asyncio", "trio")
    ]
    told: Counter[str] = Counter()
    for process in running:
        output, _ = process.communicate(timeout=500)
        assert process.returncode == 0, output
        for line in output.splitlines():
            what, times = line.split(": ")
            told[what] += int(times)
    assert told["ended"] == count, told
    assert told["paused"] >= 1
    assert told["conflicts"] > 10, "they did not get in each other's way"
    assert not told["gave up"]
    effects = Counter(path.name.split(" ", 1)[1] for path in folder.iterdir())
    runs = [f"{folder.parent.name}-{number}" for number in range(count)]
    assert effects == Counter(f"{run} {label}" for run in runs for label in "abcd")
    assert anyio.run(statuses, kind, place, runs) == {"done": count}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_one_of_500_runs_ends_once(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    place = str(tmp_path / "runs.db") if kind == "sqlite" else request.getfixturevalue("postgres").dsn
    work(kind, place, tmp_path / "effects", 500)
