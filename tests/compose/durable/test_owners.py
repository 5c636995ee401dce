"""Who is at work on a run: processes that have ended, and two stores in one process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import anyio
import pytest

from anabranch.compose import END, START, Graph, RunConflict, Runnable, SqliteStore
from anabranch.compose._owner import is_at_work, one_of_me
from anabranch.compose._store import CheckpointStore

pytestmark = pytest.mark.anyio


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_that_has_ended_is_at_work_on_nothing_also_before_anybody_has_asked_how_it_ended() -> None:
    reader, writer = os.pipe()
    ended = subprocess.Popen(
        [sys.executable, "-c", "from anabranch.compose._owner import one_of_me; print(one_of_me())"], stdout=writer
    )
    os.close(writer)
    with open(reader) as told:
        owner = told.read().strip()  # to the end: it has ended, or is about to
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert owner.split()[1] == str(ended.pid)
    assert not is_at_work(owner, 0.0, 0, "r")
    assert ended.wait() == 0
    assert not is_at_work(one_of_me(), 0.0, 0, "r")


async def test_two_stores_in_one_process_know_of_each_other(tmp_path: Any) -> None:
    begun, go_on = anyio.Event(), anyio.Event()
    runs: list[str] = []

    async def wait(text: str) -> str:
        runs.append(text)
        begun.set()
        await go_on.wait()
        return text + "!"

    def app_of(store: CheckpointStore) -> Runnable[str, str]:
        graph = Graph[str, str]()
        graph.add_edge(START, graph.add_node("wait", wait))
        graph.add_edge("wait", END)
        return graph.compile(store=store)

    async with SqliteStore(tmp_path / "runs.db") as one, SqliteStore(tmp_path / "runs.db") as two:
        async with anyio.create_task_group() as group:

            async def first() -> None:
                assert await app_of(one).invoke("x", run="r") == "x!"

            group.start_soon(first)
            await begun.wait()
            with pytest.raises(RunConflict):
                await app_of(two).resume("r")
            with pytest.raises(RunConflict):
                await app_of(two).invoke("x", run="r")
            go_on.set()
        assert await app_of(two).output("r") == "x!"
    assert runs == ["x"]
