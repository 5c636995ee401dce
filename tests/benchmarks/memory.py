"""What stays in memory: for a run that waits, for a chunk in a pipe, and after many runs; and what an import loads."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Sequence

import anyio

from anabranch.flow.react import ReactAgent
from anabranch.schema import Message, ModelOptions, ToolChoice, ToolInfo, pipe

from .graphs import chain, plain_step
from .harness import Verdict

IDLE = 200
CHUNKS = 10_000
RUNS = 100_000


class Waiting:
    """A model that answers when it is told to."""

    def __init__(self) -> None:
        self.go = anyio.Event()

    async def generate(self, messages: Sequence[Message], options: ModelOptions | None = None) -> Message:
        """Wait, and answer."""
        await self.go.wait()
        return Message.assistant("done")

    async def stream(self, messages: Sequence[Message], options: ModelOptions | None = None) -> AsyncIterator[Message]:
        """Do so in one chunk."""
        yield await self.generate(messages, options)

    def with_tools(self, tools: Sequence[ToolInfo], choice: ToolChoice = "auto") -> Waiting:
        """Give a model that knows tools: this one."""
        return self


def kept() -> int:
    """Give the bytes that are allocated, once rubbish is collected."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def bytes_per_idle_run() -> float:
    """Let many agents wait for their model."""
    model = Waiting()
    agent, used = ReactAgent(model), 0
    async with anyio.create_task_group() as tasks:
        tracemalloc.start()
        before = kept()
        for _ in range(IDLE):
            tasks.start_soon(agent.generate, "?")
        await anyio.wait_all_tasks_blocked()
        used = kept() - before
        tracemalloc.stop()
        model.go.set()
    return used / IDLE


async def bytes_per_chunk() -> float:
    """Fill a pipe with one and the same chunk."""
    reader, writer = pipe[int](capacity=CHUNKS)
    async with reader, writer:
        tracemalloc.start()
        before = kept()
        for _ in range(CHUNKS):
            writer.send_nowait(0)
        used = kept() - before
        tracemalloc.stop()
    return used / CHUNKS


async def bytes_after_runs(runs: int) -> float:
    """Run one compiled graph very often."""
    app = chain(3, plain_step, "any")
    await app.invoke("x")
    tracemalloc.start()
    before = kept()
    tracemalloc.stop()
    for _ in range(runs):
        await app.invoke("x")
    tracemalloc.start()
    after = kept()
    tracemalloc.stop()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(runs):
        await app.invoke("x")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024
    return max(grown, after - before) / runs


def modules_of(statement: str) -> int:
    """Count the modules that an import loads."""
    code = f"import sys; before = len(sys.modules); {statement}; print(len(sys.modules) - before)"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def verdicts(*, quick: bool) -> list[Verdict]:
    """Measure, and compare with the limits."""
    foundation = modules_of("import pydantic, anyio; from pydantic import BaseModel, TypeAdapter")
    return [
        Verdict("memory", "kB kept per agent that waits", 15.0, anyio.run(bytes_per_idle_run) / 1000),
        Verdict("memory", "bytes per chunk in a pipe", 64.0, anyio.run(bytes_per_chunk)),
        Verdict("memory", "bytes kept per run, of many", 1.0, anyio.run(bytes_after_runs, 1000 if quick else RUNS)),
        Verdict(
            "import", "modules, x those of pydantic and anyio", 1.3, modules_of("import anabranch.compose") / foundation
        ),
    ]
