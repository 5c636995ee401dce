"""A store in memory: for tests, and for runs that need not outlive the process."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from typing_extensions import override

from ._store import (
    CheckpointStore,
    LogEntry,
    LogHead,
    LogKind,
    LogStatus,
    LogVersion,
    StoredLog,
    check_limit,
    check_save,
    checked_log,
)
from .errors import VersionConflict


class MemoryStore(CheckpointStore):
    """Keeps logs in memory. Threads and event loops may share one; nothing survives the process.

    Example:
        >>> store = MemoryStore()
        >>> head = LogHead(id="run-7", kind="run", version=1, status="running", thread=None, owner=None, graph="g",
        ...                created=0.0, updated=0.0, expires=None)
        >>> await store.save(head, b"{}", snapshot=True, expected=0)
        >>> (await store.load("run-7")).entries[-1].data
        b'{}'
        >>> await store.save(head, b"{}", snapshot=True, expected=0)
        Traceback (most recent call last):
            ...
        anabranch.compose.errors.VersionConflict: MemoryStore(): log 'run-7' is at version 1, not at 0 as expected: ...
    """

    def __init__(self) -> None:
        self._logs: dict[str, tuple[LogHead, list[LogEntry]]] = {}
        self._lock = Lock()

    @override
    def __repr__(self) -> str:
        return "MemoryStore()"

    @override
    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        check_save(head, data, snapshot, expected)
        entry = LogEntry(head.version, snapshot, bytes(data), head.updated)
        with self._lock:
            log = self._logs.get(head.id)
            found = log[0].version if log is not None else 0
            if found != expected:
                raise VersionConflict(repr(self), head.id, expected, found)
            entries = log[1] if log is not None else []
            entries.append(entry)
            self._logs[head.id] = head, entries

    @override
    async def load(self, id: str, *, version: int | None = None) -> StoredLog | None:
        with self._lock:
            log = self._logs.get(id)
            if log is None:
                return None
            head, entries = log
            wanted = head.version if version is None else version
            if not 1 <= wanted <= head.version:
                return None
            first = next(place for place in range(wanted - 1, -1, -1) if entries[place].snapshot)
            return checked_log(head, entries[first:wanted], wanted)

    @override
    async def versions(self, id: str) -> Sequence[LogVersion]:
        with self._lock:
            log = self._logs.get(id)
            entries = log[1] if log is not None else ()
            return [LogVersion(e.version, e.snapshot, len(e.data), e.created) for e in entries]

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
        with self._lock:
            found = [head for head, _ in self._logs.values()]
        fit = [
            head
            for head in found
            if (kind is None or head.kind == kind)
            and (thread is None or head.thread == thread)
            and (status is None or head.status == status)
            and (after is None or head.id > after)
        ]
        return sorted(fit, key=lambda head: head.id)[:limit]

    @override
    async def delete(self, id: str) -> bool:
        with self._lock:
            return self._logs.pop(id, None) is not None

    @override
    async def expire(self, now: float) -> int:
        with self._lock:
            over = [id for id, (head, _) in self._logs.items() if head.expires is not None and head.expires <= now]
            for id in over:
                del self._logs[id]
        return len(over)

    @override
    async def aclose(self) -> None:
        """Do nothing: what is kept stays until the store is gone."""
