"""Several processes on one store: no update is lost, no lock error surfaces, and a killed one loses nothing it had."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from anabranch.compose._store import CheckpointStore
from anabranch.compose._store_sqlite import SqliteStore

if TYPE_CHECKING:
    from postgres_server import Server

PROGRAM = """
import sys, anyio
from anabranch.compose._store import LogHead
from anabranch.compose._store_sqlite import SqliteStore
from anabranch.compose._store_postgres import PostgresStore
from anabranch.compose.errors import VersionConflict

kind, place, backend, what, tasks, times = sys.argv[1:]

def make():
    return SqliteStore(place, synchronous="normal", busy_timeout=40) if kind == "sqlite" else PostgresStore(place)

def head(id, version):
    return LogHead(id=id, kind="run", version=version, status="running", thread=None, owner=None, graph="",
                   created=0.0, updated=0.0, expires=None)

async def count(store, id):
    conflicts = 0
    for _ in range(int(times)):
        while True:
            log = await store.load(id)
            version, value = (log.head.version, int(log.entries[-1].data)) if log is not None else (0, 0)
            try:
                await store.save(head(id, version + 1), b"%d" % (value + 1), snapshot=True, expected=version)
            except VersionConflict:
                conflicts += 1
                continue
            break
    print(conflicts, flush=True)

async def fill(store, id):
    for version in range(1, int(times)):
        await store.save(head(id, version), b"%d" % version, snapshot=version == 1, expected=version - 1)
        print(version, flush=True)

async def main():
    async with make() as store, anyio.create_task_group() as group:
        for _ in range(int(tasks)):
            group.start_soon({"count": count, "fill": fill}[what], store, "log")

anyio.run(main, backend=backend)
"""


def program(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    if request.param == "sqlite":
        return "sqlite", str(tmp_path / "runs.db")
    server: Server = request.getfixturevalue("postgres")
    return "postgres", server.dsn


def opened(kind: str, place: str) -> CheckpointStore:
    if kind == "sqlite":
        return SqliteStore(place)
    from anabranch.compose._store_postgres import PostgresStore

    return PostgresStore(place)


@pytest.mark.xdist_group("postgres")
def test_two_processes_with_four_tasks_each_lose_no_update(place: tuple[str, str]) -> None:
    async def begin() -> None:
        async with opened(*place) as store:
            await store.delete("log")

    async def last() -> tuple[int, bytes]:
        async with opened(*place) as store:
            log = await store.load("log")
            assert log is not None
            return log.head.version, log.entries[-1].data

    anyio.run(begin)
    running = [program(*place, backend, "count", 4, 25) for backend in ("asyncio", "trio")]
    outputs = [process.communicate(timeout=50) for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    assert anyio.run(last) == (200, b"200")
    assert sum(int(line) for output, _ in outputs for line in output.split()) > 0  # they did get in each other's way


def test_processes_that_make_the_file_at_once_agree(tmp_path: Path) -> None:
    running = [program("sqlite", tmp_path / "runs.db", "asyncio", "count", 1, 3) for _ in range(3)]
    outputs = [process.communicate(timeout=50) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], outputs


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL here")
def test_what_a_killed_process_had_saved_is_there(tmp_path: Path) -> None:
    random_ = random.Random(1)
    for attempt in range(4):
        path = tmp_path / f"{attempt}.db"
        process = program("sqlite", path, "asyncio", "fill", 1, 100_000)
        assert process.stdout is not None
        assert process.stderr is not None
        with process.stdout, process.stderr:
            wanted, told = random_.randrange(1, 200), 0
            while told < wanted:
                told = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            told = max(
                [told, *(int(line) for line in process.stdout.read().splitlines(keepends=True) if line[-1] == "\n")]
            )
            process.wait(10)

        async def look(path: Path = path, told: int = told) -> None:
            async with SqliteStore(path) as store:
                log = await store.load("log")
                assert log is not None
                assert told <= log.head.version <= told + 1
                assert [entry.data for entry in log.entries] == [b"%d" % n for n in range(1, log.head.version + 1)]

        anyio.run(look)
        check = sqlite3.connect(path)
        assert check.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        check.close()


READ_ONLY = """
import os, sys, anyio, sqlite3, anyio._backends._asyncio, anyio._backends._trio, trio, asyncio, outcome
from anabranch.compose._store import LogHead
from anabranch.compose._store_sqlite import SqliteStore
from anabranch.compose.errors import StoreError
import anabranch.compose._store_worker_asyncio, encodings.idna

async def main():
    head = LogHead(id="log", kind="run", version=1, status="running", thread=None, owner=None, graph="",
                   created=0.0, updated=0.0, expires=None)
    async with SqliteStore(sys.argv[1], busy_timeout=0.1) as store:
        try:
            await store.save(head, b"data", snapshot=True, expected=0)
        except StoreError as error:
            print(error.why)
        else:
            print("saved")

if os.geteuid() == 0:  # whom nothing is forbidden
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for backend in ("asyncio", "trio"):
    anyio.run(main, backend=backend)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Give a folder that every user can walk into, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="anabranch-stores-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there are no such permissions here")
@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o777, 0o444), (0o555, 0o444), (0o555, None), (0o777, 0o000)])
def test_a_file_or_folder_that_cannot_be_written_is_an_error(
    open_folder: Path, folder_mode: int, file_mode: int | None
) -> None:
    path = open_folder / "runs.db"

    async def make() -> None:
        async with SqliteStore(path) as store:
            assert await store.heads() == []

    if file_mode is not None:
        anyio.run(make)
        path.chmod(file_mode)
    open_folder.chmod(folder_mode)
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(path)], capture_output=True, text=True, timeout=50, check=False
    )
    open_folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all("cannot be written" in line or "cannot be opened" in line for line in lines), lines
