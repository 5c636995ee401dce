"""Waiting for a thread cannot be cancelled half-way, and threads end when they should."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from anabranch.compose._store_worker import Worker


class Resource:
    made: int = 0
    closed: int = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.thread = threading.current_thread()

    def close(self) -> None:
        assert threading.current_thread() is self.thread
        type(self).closed += 1


@pytest.fixture
def resource() -> type[Resource]:
    class Counted(Resource):
        pass

    return Counted


@pytest.mark.anyio
async def test_a_job_is_done_in_a_thread_that_is_always_the_same(resource: type[Resource]) -> None:
    worker = Worker("test-worker", resource)
    threads = {await worker.do(lambda r: (r.thread, threading.current_thread())) for _ in range(3)}
    assert len(threads) == 1
    assert resource.made == 1
    await worker.aclose()
    assert resource.closed == 1
    await worker.aclose()
    assert await worker.do(lambda r: 7) == 7  # opens again
    await worker.aclose()
    assert (resource.made, resource.closed) == (2, 2)


@pytest.mark.anyio
async def test_what_a_job_raises_is_raised(resource: type[Resource]) -> None:
    worker = Worker("test-worker", resource)

    def fail(r: Resource) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await worker.do(fail)
    await worker.aclose()


@pytest.mark.anyio
async def test_a_cancelled_job_is_waited_for(resource: type[Resource]) -> None:
    worker = Worker("test-worker", resource)
    go, done = threading.Event(), list[str]()

    def job(r: Resource) -> None:
        assert go.wait(30)
        done.append("job")

    async def call(scope: anyio.CancelScope) -> None:
        with scope:
            await worker.do(job)
            done.append("went on")
            await anyio.lowlevel.checkpoint()
            done.append("was not cancelled")
        done.append("left")

    scope = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        group.start_soon(call, scope)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert done == []
        go.set()
    assert done[0] == "job"
    assert done[-1] == "left"
    assert "was not cancelled" not in done
    await worker.aclose()


def test_a_task_of_asyncio_that_is_cancelled_waits_for_its_job(resource: type[Resource]) -> None:
    worker = Worker("test-worker", resource)
    go, done = threading.Event(), list[str]()

    def job(r: Resource) -> None:
        assert go.wait(30)
        done.append("job")

    async def main() -> None:
        task = asyncio.create_task(worker.do(job))
        await asyncio.sleep(0)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done == ["job"]
        await worker.aclose()

    asyncio.run(main(), debug=True)


@pytest.mark.anyio
async def test_several_threads_work_at_once_and_no_more_than_allowed(resource: type[Resource]) -> None:
    worker = Worker("test-worker", resource, 3)
    together = threading.Barrier(3)

    def meet(r: Resource) -> None:
        together.wait(30)

    async with anyio.create_task_group() as group:
        for _ in range(9):
            group.start_soon(worker.do, meet)
    assert resource.made == 3
    await worker.aclose()
    assert resource.closed == 3


@pytest.mark.anyio
async def test_closing_waits_for_what_was_begun(resource: type[Resource]) -> None:
    worker = Worker("test-worker", resource)
    go, done = threading.Event(), list[int]()

    def note(number: int, r: Resource) -> None:
        assert go.wait(30)
        done.append(number)

    async def close() -> None:
        await worker.aclose()
        done.append(9)

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(worker.do, partial(note, number))
        await anyio.wait_all_tasks_blocked()
        group.start_soon(close)
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert sorted(done[:3]) == [0, 1, 2]
    assert done[3:] == [9]
    assert resource.closed == 1


def test_a_dropped_worker_ends_its_threads(resource: type[Resource]) -> None:
    def thread_of(r: Resource) -> threading.Thread:
        return r.thread

    worker = Worker("test-dropped", resource, 2)
    thread = anyio.run(worker.do, thread_of)
    del worker
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()
    assert resource.closed == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_store_works_in_a_process_forked_off(tmp_path: Path, backend: str) -> None:
    program = """
import os, sys, anyio
from anabranch.compose._store import LogHead
from anabranch.compose._store_sqlite import SqliteStore

def head(version):
    return LogHead(id="run", kind="run", version=version, status="running", thread=None, owner=None, graph="",
                   created=0.0, updated=0.0, expires=None)

async def save(version):
    await store.save(head(version), b"data", snapshot=True, expected=version - 1)

store = SqliteStore(sys.argv[1], busy_timeout=5)
anyio.run(save, 1, backend=sys.argv[2])
child = os.fork()
if child == 0:
    status = 1
    try:
        anyio.run(save, 2, backend=sys.argv[2])
        anyio.run(store.aclose, backend=sys.argv[2])
        status = 0
    finally:
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0
anyio.run(save, 3, backend=sys.argv[2])
print(len(anyio.run(store.versions, "run", backend=sys.argv[2])))
"""
    command = [sys.executable, "-c", program, str(tmp_path / "runs.db"), backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
