"""Conversations that several processes take part in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio

from anabranch.compose import SqliteStore
from anabranch.compose.testing import ScriptedModel
from anabranch.flow.react import ReactAgent

PROGRAM = """
import sys
import anyio
from anabranch.compose import SqliteStore
from anabranch.compose.testing import ScriptedModel
from anabranch.flow.react import ReactAgent, ThreadConflict

path, number, busy = sys.argv[1:]


async def main():
    async with SqliteStore(path, synchronous="normal") as store:
        agent = ReactAgent(ScriptedModel([f"a{number}"] * 100), store=store, busy=busy)
        print("ready", flush=True)
        sys.stdin.readline()
        done = conflicts = 0
        while done < 12:
            try:
                await agent.generate(f"q{number}", thread="c1", run=f"r{number}-{done}")
                done += 1
            except ThreadConflict:
                conflicts += 1
                await anyio.sleep(0.001)
        print(conflicts)


anyio.run(main, backend="trio" if number == "1" else "asyncio")
"""


def test_processes_take_turns_and_no_turn_is_lost_or_doubled(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path), str(number), busy],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number, busy in enumerate(["queue", "queue", "conflict"])
    ]  # fmt: skip
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors

    async def look() -> tuple[list[str], set[tuple[str, int]]]:
        async with SqliteStore(path) as store:
            agent = ReactAgent(ScriptedModel(["last"]), store=store)
            await agent.generate("last", thread="c1")  # clears away what the last one perhaps could not
            runs: set[tuple[str, int]] = {(one.status, one.version) for one in await agent.runs()}
            return [message.text for message in await agent.thread("c1")][:-2], runs

    said, runs = anyio.run(look)
    assert runs == {("done", 1)}
    assert sorted(said[::2]) == sorted(f"q{number}" for number in range(3) for _ in range(12))
    for question, answer in zip(said[::2], said[1::2], strict=True):
        assert question[1:] == answer[1:]
