"""Importing the engine costs little more than importing what it stands on."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

FOUNDATION = "from pydantic import BaseModel, ConfigDict, Field, TypeAdapter; import anyio"
MOST = 1.3


def cpu_seconds(statement: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.benchmark
def test_the_engine_adds_less_than_a_third_to_its_foundation() -> None:
    program_alone = min(cpu_seconds("pass") for _ in range(5))
    rounds = [(cpu_seconds(FOUNDATION), cpu_seconds("import anabranch.compose")) for _ in range(9)]
    foundation, engine = (min(times) - program_alone for times in zip(*rounds, strict=True))
    assert engine / foundation <= MOST
