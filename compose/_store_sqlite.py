"""The embedded store: one SQLite file, in write-ahead mode, worked on by a thread of its own.

The file keeps ids and other texts as TEXT, whatever characters they hold; where SQLite's driver cannot bind a text
(a lone surrogate), its bytes are bound and cast. What a save does is one ``BEGIN IMMEDIATE`` transaction, so that two
processes take turns instead of failing on each other.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Literal

from typing_extensions import override

from ._store import (
    RECORD_LIMIT,
    CheckpointStore,
    LogHead,
    LogKind,
    LogStatus,
    LogVersion,
    StoredLog,
    check_limit,
    check_save,
)
from ._store_sqlite_file import SqliteFile, SqliteSettings
from ._store_worker import Worker


class SqliteStore(CheckpointStore):
    """Keeps logs in an SQLite file, which several tasks, threads, event loops and processes may use at once.

    The file is made when it is first used; its folder must exist and be on a local disk. Closing the store, at best by
    ``async with``, ends its thread and its connection.

    Args:
        path: The file. Nothing but one or more stores should use it.
        synchronous: With ``"full"`` a save that has returned survives a power cut. With ``"normal"`` it survives the
            end of the process only, and a save takes a small part of the time.
        busy_timeout: How many seconds to wait for another process that writes to the file.
        max_record_bytes: How long an entry may be, written or read.

    Raises:
        ValueError: If the arguments are none.

    Example:
        >>> import tempfile, os
        >>> folder = tempfile.TemporaryDirectory()
        >>> head = LogHead(id="run-7", kind="run", version=1, status="running", thread=None, owner=None, graph="g",
        ...                created=0.0, updated=0.0, expires=None)
        >>> async with SqliteStore(os.path.join(folder.name, "runs.db")) as store:
        ...     await store.save(head, b"{}", snapshot=True, expected=0)
        ...     print((await store.load("run-7")).entries)
        (LogEntry(version=1, snapshot=True, data=b'{}', created=0.0),)
        >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["full", "normal"] = "full",
        busy_timeout: float = 10.0,
        max_record_bytes: int = RECORD_LIMIT,
    ) -> None:
        name = os.fspath(path)
        if name in {"", ":memory:"}:
            raise ValueError("SqliteStore needs the path of a file; MemoryStore keeps runs in memory")
        if synchronous not in {"full", "normal"}:
            raise ValueError(f"synchronous is 'full' or 'normal', not {synchronous!r}")
        self._name = f"SqliteStore({name!r})"
        self._max_record_bytes = max_record_bytes
        settings = SqliteSettings(self._name, os.path.abspath(name), synchronous, busy_timeout, max_record_bytes)
        self._worker = Worker("anabranch-sqlite", partial(SqliteFile, settings))

    @override
    def __repr__(self) -> str:
        return self._name

    @override
    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        check_save(head, data, snapshot, expected, self._max_record_bytes)
        await self._worker.do(lambda file: file.save(head, data, snapshot, expected))

    @override
    async def load(self, id: str, *, version: int | None = None) -> StoredLog | None:
        return await self._worker.do(lambda file: file.load(id, version))

    @override
    async def versions(self, id: str) -> Sequence[LogVersion]:
        return await self._worker.do(lambda file: file.versions(id))

    @override
    async def heads(
        self,
        *,
        kind: LogKind | None = None,
        thread: str | None = None,
        status: LogStatus | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Sequence[LogHead]:
        check_limit(limit)
        return await self._worker.do(lambda file: file.heads(kind, thread, status, limit, after))

    @override
    async def delete(self, id: str) -> bool:
        return await self._worker.do(lambda file: file.delete(id))

    @override
    async def expire(self, now: float) -> int:
        return await self._worker.do(lambda file: file.expire(now))

    @override
    async def aclose(self) -> None:
        await self._worker.aclose()
