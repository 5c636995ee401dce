"""Whatever is wrong with its file, a store says so in one error that tells what to do, and writes all or nothing."""

from __future__ import annotations

import os
import pickle
import random
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from anabranch.compose._store import CheckpointStore, LogHead
from anabranch.compose._store_sqlite import SqliteStore
from anabranch.compose._store_sqlite_file import SqliteFile, SqliteSettings
from anabranch.compose.errors import DamagedRecordError, StoreError, VersionConflict

pytestmark = pytest.mark.anyio


def head(version: int, id: str = "run") -> LogHead:
    return LogHead(
        id=id, kind="run", version=version, status="running", thread=None, owner=None, graph="g", created=1.0,
        updated=float(version), expires=None,
    )  # fmt: skip


def content_of(path: Path) -> bytes:
    return path.read_bytes()


def fill(path: Path, content: bytes | bytearray) -> None:
    path.write_bytes(content)


async def append(store: CheckpointStore, *datas: bytes, at: int = 0) -> None:
    for version, data in enumerate(datas, at + 1):
        await store.save(head(version), data, snapshot=version == 1, expected=version - 1)


async def datas(store: CheckpointStore) -> list[bytes]:
    log = await store.load("run")
    return [] if log is None else [entry.data for entry in log.entries]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


class Faulty(sqlite3.Connection):
    """A connection with a full disk, one that fails at a statement that begins so, or one that others cut in on."""

    pages: int | None = None
    failing: tuple[str, sqlite3.Error] | None = None
    before: tuple[str, Callable[[], None]] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.pages is not None:
            super().execute(f"PRAGMA max_page_count = {self.pages}")

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if self.failing is not None and sql.startswith(self.failing[0]):
            raise self.failing[1]
        if self.before is not None and sql.startswith(self.before[0]):
            self.before[1]()
        return super().execute(sql, *args)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> type[Faulty]:
    class ThisOne(Faulty):
        pass

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=ThisOne))
    return ThisOne


async def test_a_full_disk_stops_a_save_and_the_next_one_goes_on(path: Path, faulty: type[Faulty]) -> None:
    faulty.pages = 30
    async with SqliteStore(path) as store:
        await append(store, b"1")
        with pytest.raises(StoreError, match=r"saving version 2 of log 'run' failed: the disk.* is full; make room"):
            await append(store, b"2" * 500_000, at=1)
        assert await datas(store) == [b"1"]
        await append(store, b"small", at=1)
    faulty.pages = None
    async with SqliteStore(path) as store:
        await append(store, b"3" * 500_000, at=2)
        assert [len(data) for data in await datas(store)] == [1, 5, 500_000]


FIRST_SAVE = ("BEGIN IMMEDIATE", "SELECT key", "INSERT INTO logs", "INSERT INTO entries", "COMMIT")
LATER_SAVE = ("BEGIN IMMEDIATE", "UPDATE logs SET kind", "UPDATE logs SET thread", "INSERT INTO entries", "COMMIT")


@pytest.mark.parametrize(
    ("expected", "statement"),
    [*((0, statement) for statement in FIRST_SAVE), *((1, statement) for statement in LATER_SAVE)],
)
async def test_a_save_that_fails_anywhere_writes_nothing(
    path: Path, faulty: type[Faulty], expected: int, statement: str
) -> None:
    async with SqliteStore(path) as store:
        await append(store, *[b"1"][:expected])
        faulty.failing = statement, sqlite3.OperationalError("disk I/O error")
        with pytest.raises(StoreError) as caught:
            await append(store, b"new", at=expected)
        error = caught.value
        assert (error.store, error.what) == (repr(store), f"saving version {expected + 1} of log 'run'")
        assert isinstance(error.__cause__, sqlite3.OperationalError)
        faulty.failing = None
        assert await datas(store) == [b"1"][:expected]
        assert [entry.version for entry in await store.versions("run")] == [1][:expected]
        await append(store, b"new", at=expected)
        assert (await datas(store))[-1] == b"new"


async def test_a_lock_that_is_given_back_in_time_is_waited_for(path: Path) -> None:
    async with SqliteStore(path, busy_timeout=30) as store:
        await append(store, b"1")
        saved = anyio.Event()

        async def save() -> None:
            await append(store, b"2", at=1)
            saved.set()

        other = sqlite3.connect(path, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            async with anyio.create_task_group() as group:
                group.start_soon(save)
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
                assert not saved.is_set()
                other.execute("COMMIT")
        finally:
            other.close()
        assert await datas(store) == [b"1", b"2"]


async def test_a_lock_that_is_kept_is_an_error_and_reading_goes_on(path: Path) -> None:
    async with SqliteStore(path, busy_timeout=0.05) as store:
        await append(store, b"1")
        other = sqlite3.connect(path, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match=r"another process kept the file locked for 0.05 s"):
                await append(store, b"2", at=1)
            assert await datas(store) == [b"1"]
        finally:
            other.close()
        await append(store, b"2", at=1)


async def test_a_file_whose_making_is_locked_is_an_error(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        async with SqliteStore(path, busy_timeout=0.05) as store:
            with pytest.raises(StoreError, match="locked"):
                await append(store, b"1")
            other.execute("ROLLBACK")
            await append(store, b"1")
    finally:
        other.close()


async def refusing(store: CheckpointStore, match: str) -> None:
    with pytest.raises(StoreError, match=match):
        await append(store, b"1")
    with pytest.raises(StoreError, match=match):
        await store.load("run")
    with pytest.raises(StoreError, match=match):
        await store.heads()
    await store.aclose()


async def test_a_path_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    await refusing(SqliteStore(tmp_path / "missing" / "runs.db"), "cannot be opened or made; its folder must exist")
    await refusing(SqliteStore(tmp_path), "cannot be opened or made")


async def test_what_is_no_database_is_left_alone(path: Path) -> None:
    text = b"These are notes, and they are no database at all.\n" * 100
    fill(path, text)
    await refusing(SqliteStore(path), "this is no SQLite database; give another path")
    assert content_of(path) == text


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE theirs (x)", "PRAGMA user_version = 3", "PRAGMA application_id = 77"]
)
async def test_a_database_of_another_program_is_left_alone(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as theirs:
        theirs.execute(statement)
    theirs.close()
    before = content_of(path)
    await refusing(SqliteStore(path), "it belongs to another program")
    assert content_of(path) == before


async def test_a_file_from_the_future_is_left_alone(path: Path) -> None:
    await written(path, [])
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()
    await refusing(SqliteStore(path), r"a newer anabranch has written it \(format 99, this one knows 1\); upgrade")


async def written(path: Path, statements: list[str], count: int = 4) -> SqliteStore:
    """Write a log, change its file with statements, and open it again."""
    async with SqliteStore(path) as store:
        for version in range(1, count + 1):
            await store.save(head(version), b"data", snapshot=version in {1, 3}, expected=version - 1)
    with sqlite3.connect(path) as other:
        for statement in statements:
            other.execute(statement)
    other.close()
    return SqliteStore(path, max_record_bytes=1000)


DAMAGE = {
    "UPDATE entries SET data = 'text' WHERE version = 4": "version 4 is damaged: it holds no bytes",
    "UPDATE entries SET data = zeroblob(5000000) WHERE version = 4": "5000000 bytes, and the store takes 1000",
    "UPDATE entries SET version = 3.5 WHERE version = 3": "its version is 3.5",
    "DELETE FROM entries WHERE version = 3": "entries are missing between versions 1 and 4",
    "DELETE FROM entries WHERE version = 4": "entries are missing between versions 3 and 4",
    "DELETE FROM entries": "no snapshot at or before version 4",
    "UPDATE entries SET snapshot = 0": "no snapshot at or before version 4",
    "UPDATE logs SET status = 'odd'": "its status 'odd'",
    "UPDATE logs SET kind = x'ff'": "its kind is",
    "UPDATE logs SET version = 'many'": "its version 'many'",
    "UPDATE logs SET graph = CAST(x'ff' AS TEXT)": "no UTF-8",
    "UPDATE logs SET graph = x'07'": "its graph is",
    "UPDATE logs SET owner = x'00'": "its owner is",
    "UPDATE logs SET updated = 'soon'": "its times are",
    "UPDATE entries SET created = 'soon'": "it was made at 'soon'",
}


@pytest.mark.parametrize("statement", DAMAGE)
async def test_a_record_that_somebody_has_changed_is_an_error_that_says_which(path: Path, statement: str) -> None:
    async with await written(path, [statement]) as store:
        with pytest.raises(DamagedRecordError, match=DAMAGE[statement]):
            await store.load("run")


@pytest.mark.parametrize("seed", range(6))
async def test_a_cut_or_damaged_file_gives_typed_errors_only(path: Path, seed: int) -> None:
    await written(path, [], count=30)
    random_ = random.Random(seed)
    content = bytearray(content_of(path))
    if seed % 2:
        del content[random_.randrange(200, len(content)) :]
    else:
        for _ in range(40):
            content[random_.randrange(100, len(content))] = random_.randrange(256)
    fill(path, content)
    async with SqliteStore(path) as store:
        for version in (None, *range(1, 32)):
            try:
                await store.load("run", version=version)
                await store.versions("run")
                await store.heads()
                await append(store, b"more", at=30)
            except (StoreError, DamagedRecordError):
                pass


async def test_stores_that_make_the_file_at_once_agree(path: Path) -> None:
    for attempt in range(10):
        stores = [SqliteStore(path.with_name(f"{attempt}.db"), synchronous="normal") for _ in range(5)]
        async with anyio.create_task_group() as group:
            for number, store in enumerate(stores):
                group.start_soon(partial(store.save, head(1, f"run {number}"), b"", snapshot=True, expected=0))
        assert len(await stores[0].heads()) == 5
        for store in stores:
            await store.aclose()


async def test_a_file_that_another_one_makes_meanwhile_is_ours(path: Path, faulty: type[Faulty]) -> None:
    def make() -> None:
        faulty.before = None
        other = SqliteFile(SqliteSettings("other", str(path), "normal", 0, 1000))
        with suppress(StoreError):  # it may be told to wait
            other.heads(None, None, None, 1, None)
        other.close()

    faulty.before = "SELECT count(*) FROM sqlite_master", make
    async with SqliteStore(path) as store:
        await append(store, b"1")
    assert faulty.before is None


async def test_a_file_that_was_taken_away_is_not_written_to(path: Path) -> None:
    async with SqliteStore(path) as store:
        await append(store, b"1")
        os.rename(path, path.with_suffix(".moved"))
        with pytest.raises(StoreError, match="removed or replaced while it was open"):
            await append(store, b"2", at=1)
        with pytest.raises(VersionConflict):  # what is at the path now is another file, without this log
            await append(store, b"2", at=1)


async def test_a_record_that_is_too_long_is_refused(path: Path) -> None:
    async with SqliteStore(path, max_record_bytes=100) as store:
        with pytest.raises(ValueError, match="has 101 bytes, and the store takes 100"):
            await append(store, b"x" * 101)
        await append(store, b"x" * 100)


@pytest.mark.parametrize("options", [{"path": ""}, {"path": ":memory:"}, {"path": "x", "synchronous": "off"}])
async def test_arguments_that_make_no_store_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"SqliteStore needs|synchronous is"):
        SqliteStore(**options)


async def test_the_file_is_the_one_at_the_path_when_the_store_was_made(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(path.parent)
    async with SqliteStore("runs.db") as store:
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
        await append(store, b"1")
    assert content_of(path)


@pytest.mark.parametrize("error", [StoreError("store", "saving", "no"), VersionConflict("store", "run", 3, 4)])
async def test_the_errors_can_be_copied(error: StoreError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
