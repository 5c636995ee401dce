"""What a store keeps, and what it promises: append-only logs under compare-and-swap.

A durable run is a log, and so is a conversation. Entry 1 of a log is a snapshot (the whole), each later entry is a
patch or again a snapshot, and a head says what the log is and how far it has come. A store knows nothing of what is
in the entries: they are bytes.

Rules that every store keeps, and that :func:`anabranch.compose.testing.check_store` checks:

S1  A save is one transaction: the new head and the new entry, or nothing.
S2  A save succeeds only on the version that it expects; of several on one version, one succeeds.
S3  When a save returns, what it wrote survives what the store promises to survive; when it raises, it wrote nothing.
    A cancellation during a save is delivered after that has been decided.
S4  Any non-empty text of up to 512 characters is an id; ids, threads and owners come back as they were.
S5  What one log holds never depends on another log.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, NamedTuple, Protocol, Self, get_args, runtime_checkable

from .errors import DamagedRecordError

LogKind = Literal["run", "thread"]
"""What a log is the log of."""

LogStatus = Literal["running", "paused", "done", "failed", "open"]
"""How a log stands: the first four are a run's, a thread is always open."""

ID_LIMIT: Final = 512
RECORD_LIMIT: Final = 64 * 1024 * 1024
"""How many bytes an entry may have, unless a store is told otherwise."""

KINDS: Final = frozenset[str](get_args(LogKind))
STATUSES: Final = frozenset[str](get_args(LogStatus))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """What a log is and how far it has come, without what is in it."""

    id: str
    """Its name, the same in no other log of the store."""
    kind: LogKind
    """What it is the log of."""
    version: int
    """The version of its last entry, from 1."""
    status: LogStatus
    """How it stands."""
    thread: str | None
    """The conversation that a run belongs to."""
    owner: str | None
    """Who is at work on it."""
    graph: str
    """The fingerprint of the graph that wrote it."""
    created: float
    """When it was begun, in seconds since 1970."""
    updated: float
    """When it was last written."""
    expires: float | None
    """When it may be deleted, or None."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a log."""

    version: int
    """Its place in the log, from 1."""
    snapshot: bool
    """Whether it is the whole, or what has changed since the entry before."""
    data: bytes
    """What is in it."""
    created: float
    """When it was written, in seconds since 1970."""


class LogVersion(NamedTuple):
    """An entry of a log without what is in it."""

    version: int
    """Its place in the log, from 1."""
    snapshot: bool
    """Whether it is the whole, or what has changed since the entry before."""
    size: int
    """How many bytes it has."""
    created: float
    """When it was written, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class StoredLog:
    """What it takes to build one version of a log: a snapshot, and every entry after it up to that version."""

    head: LogHead
    """The log's head as it is now, also when an older version was loaded."""
    entries: tuple[LogEntry, ...]
    """The first one is a snapshot, the last one is the version that was asked for."""


@runtime_checkable
class CheckpointStore(Protocol):
    """Where runs and conversations are kept: logs of bytes, each entry appended by compare-and-swap.

    Every method works on asyncio and on trio. Whatever goes wrong below (a full disk, a lost connection) is a
    :class:`~anabranch.compose.errors.StoreError` that says what to do. A subclass has ``async with`` for free.
    """

    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        """Append an entry and replace the head, in one transaction.

        A cancellation is delivered after it has been decided whether the entry is written.

        Args:
            head: The new head; its version is ``expected + 1``.
            data: What is in the entry.
            snapshot: Whether the entry is the whole. The first one is.
            expected: The version that the log has now; 0 if there is no log yet.

        Raises:
            VersionConflict: If the log has another version; nothing is written.
            StoreError: If it could not be written; nothing is.
            ValueError: If the arguments do not fit together.
        """
        ...

    async def load(self, id: str, *, version: int | None = None) -> StoredLog | None:
        """Read what it takes to build a version of a log.

        Args:
            id: The log's id.
            version: The version to build; the last one if None.

        Returns:
            The head, the newest snapshot at or before the version, and the entries after it up to the version; None
            if there is no such log or no such version.

        Raises:
            DamagedRecordError: If what is stored is not a log.
            StoreError: If it could not be read.
        """
        ...

    async def versions(self, id: str) -> Sequence[LogVersion]:
        """List a log's entries, from the first; nothing if there is no such log."""
        ...

    async def heads(
        self,
        *,
        kind: LogKind | None = None,
        thread: str | None = None,
        status: LogStatus | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Sequence[LogHead]:
        """List heads in the order of their ids, those that fit everything that is given.

        Args:
            kind: Only logs of this kind.
            thread: Only runs of this conversation.
            status: Only logs that stand like this.
            limit: At most so many.
            after: Only ids behind this one, for the next page.
        """
        ...

    async def delete(self, id: str) -> bool:
        """Delete a log with all its entries; give whether there was one."""
        ...

    async def expire(self, now: float) -> int:
        """Delete every log whose time is up at ``now`` (``expires <= now``); give how many there were."""
        ...

    async def aclose(self) -> None:
        """Give back files, connections and threads once what has been begun is done. A later call opens again."""
        ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


def check_save(head: LogHead, data: bytes, snapshot: bool, expected: int, limit: int | None = None) -> None:
    """Refuse a save whose arguments do not fit together, before anything is touched."""
    check_id(head.id)
    if head.thread is not None:
        check_id(head.thread)
    if expected < 0 or head.version != expected + 1:
        raise ValueError(f"version {head.version} of log {head.id!r} cannot follow version {expected}")
    if expected == 0 and not snapshot:
        raise ValueError(f"the first entry of log {head.id!r} must be a snapshot")
    if head.kind not in KINDS or head.status not in STATUSES:
        raise ValueError(f"log {head.id!r} has kind {head.kind!r} and status {head.status!r}")
    if not math.isfinite(head.created + head.updated) or (head.expires is not None and not math.isfinite(head.expires)):
        raise ValueError(f"the times of log {head.id!r} must be finite numbers")
    if limit is not None and len(data) > limit:
        raise ValueError(
            f"version {head.version} of log {head.id!r} has {len(data)} bytes, and the store takes {limit}; "
            "keep large values elsewhere and their names in the state, or give the store a higher max_record_bytes"
        )


def check_id(id: str) -> None:
    """Refuse what is no id."""
    if not id or len(id) > ID_LIMIT:
        raise ValueError(f"the id of a log has 1 to {ID_LIMIT} characters, and this one has {len(id)}")


def check_limit(limit: int) -> None:
    """Refuse a page without room."""
    if limit < 1:
        raise ValueError(f"the limit of a list is at least 1, not {limit}")


def checked_log(head: LogHead, entries: Sequence[LogEntry], version: int) -> StoredLog:
    """Give what was read, if it is a snapshot and every entry after it up to the version."""
    if not entries or not entries[0].snapshot:
        raise DamagedRecordError(f"log {head.id!r}", f"there is no snapshot at or before version {version}")
    found = [entry.version for entry in entries]
    if found != list(range(found[0], version + 1)):
        raise DamagedRecordError(f"log {head.id!r}", f"entries are missing between versions {found[0]} and {version}")
    return StoredLog(head, tuple(entries))


def to_bytes(text: str) -> bytes:
    """Give a text as databases keep it: any characters, in the order of :func:`sorted`."""
    return text.encode("utf-8", "surrogatepass")


def to_text(data: bytes) -> str:
    """Undo :func:`to_bytes`."""
    return data.decode("utf-8", "surrogatepass")
