"""Rows of a database's tables: made of heads and entries, and read back as what anybody may have put there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._store import KINDS, STATUSES, LogEntry, LogHead, to_bytes, to_text
from .errors import DamagedRecordError


def read_head(row: Sequence[Any]) -> LogHead:
    """Make a head of a row whose columns have the order of the head's fields."""
    id, kind, version, status, thread, owner, graph, created, updated, expires = row
    damage = ""
    if kind not in KINDS or status not in STATUSES or not isinstance(version, int):
        damage = f"its kind is {kind!r}, its status {status!r}, its version {version!r}"
    elif not (_is_text(id, graph) and _is_text(*(text for text in (thread, owner) if text is not None))):
        damage = f"its thread is {thread!r}, its owner is {owner!r}, its graph is {graph!r}"
    elif not _is_time(created, updated, *([] if expires is None else [expires])):
        damage = f"its times are {created!r}, {updated!r}, {expires!r}"
    if damage:
        raise DamagedRecordError(f"log {id!r}", damage)
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
    if not isinstance(version, int):
        raise DamagedRecordError(f"an entry of log {id!r}", f"its version is {version!r}")
    if isinstance(size, int) and size > limit:
        raise DamagedRecordError(f"log {id!r}, version {version}", f"it has {size} bytes, and the store takes {limit}")
    if not isinstance(data, bytes):
        raise DamagedRecordError(f"log {id!r}, version {version}", "it holds no bytes")
    if not _is_time(created):
        raise DamagedRecordError(f"log {id!r}, version {version}", f"it was made at {created!r}")
    return LogEntry(version, bool(snapshot), data, created)


def bytes_or_none(text: str | None) -> bytes | None:
    """Give a text as databases keep it."""
    return None if text is None else to_bytes(text)


def text_or_none(data: bytes | None) -> str | None:
    """Undo :func:`bytes_or_none`."""
    return None if data is None else to_text(data)


def _is_text(*values: object) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_time(*values: object) -> bool:
    return all(isinstance(value, float) for value in values)
