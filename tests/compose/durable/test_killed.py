"""D1: killed at any point, a run goes on in another process; no finished node runs again, each effect is had once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from postgres_server import Server

PROGRAM = Path(__file__).with_name("kill_program.py")
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.timeout(3600 if NIGHTLY else 120),
]


def killed(kind: str, place: object, backend: str, what: str, count: int, seed: int) -> int:
    """Have runs killed; give how often, if everything came out right."""
    command = [sys.executable, str(PROGRAM), kind, str(place), backend, what, str(count), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr
    faults, _, killed = done.stdout.splitlines()[-1].split(", ")
    assert faults == "0 faults", done.stdout
    return int(killed.split()[0])


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_killed_at_points_spread_over_the_run(tmp_path: Path, backend: str) -> None:
    assert killed("sqlite", tmp_path / "runs.db", backend, "points", 1 if NIGHTLY else 6, 0) > 60


def test_killed_at_random_moments_and_again_while_it_goes_on(tmp_path: Path) -> None:
    assert killed("sqlite", tmp_path / "runs.db", "asyncio", "random", 2000 if NIGHTLY else 30, 1) > 10


@pytest.mark.xdist_group("postgres")
def test_killed_on_a_server(postgres: Server) -> None:
    assert killed("postgres", postgres.dsn, "trio", "points", 1 if NIGHTLY else 12, 0) > 30


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_every_point(tmp_path: Path) -> None:
    assert killed("sqlite", tmp_path / "runs.db", "asyncio", "points", 1, 0) > 400


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("postgres")
def test_killed_at_many_points_on_a_server(postgres: Server) -> None:
    assert killed("postgres", postgres.dsn, "asyncio", "points", 1 if NIGHTLY else 4, 0) > 100
    assert killed("postgres", postgres.dsn, "trio", "random", 150 if NIGHTLY else 30, 2) > 10
