"""Rows of a database's tables: made of heads and entries, and read back as what anybody may have put there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._store import KINDS, STATUSES, LogEntry, LogHead, to_bytes, to_text
from .errors import DamagedRecordError


def read_head(row: Sequence[Any]) -> LogHead:
    """Make a head of a row whose columns have the order of the head's fields."""
    id, kind, version, status, thread, owner, graph, created, updated, expires = row
    if kind not in KINDS or status not in STATUSES or not isinstance(version, int):
        raise DamagedRecordError(f"log {id!r}", f"its kind is {kind!r}, its status {status!r}, its version {version!r}")
    return LogHead(
        id=id,
        kind=kind,
        version=version,
        status=status,
        thread=thread,
        owner=owner,
        graph=graph,
        created=created,
        updated=updated,
        expires=expires,
    )


def read_entry(id: str, row: Sequence[Any], limit: int) -> LogEntry:
    """Make an entry of its version, whether it is a snapshot, its time, its size, and its data unless too long."""
    version, snapshot, created, size, data = row
    if isinstance(size, int) and size > limit:
        raise DamagedRecordError(f"log {id!r}, version {version}", f"it has {size} bytes, and the store takes {limit}")
    if not isinstance(data, bytes):
        raise DamagedRecordError(f"log {id!r}, version {version}", "it holds no bytes")
    return LogEntry(version, bool(snapshot), data, created)


def bytes_or_none(text: str | None) -> bytes | None:
    """Give a text as databases keep it."""
    return None if text is None else to_bytes(text)


def text_or_none(data: bytes | None) -> str | None:
    """Undo :func:`bytes_or_none`."""
    return None if data is None else to_text(data)
