"""What a case of the checks of stores is made of."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from .._store import CheckpointStore, LogHead, StoredLog
from ..errors import VersionConflict

OpenStore = Callable[[], CheckpointStore]
Check = Callable[[OpenStore, str], Awaitable[None]]


@dataclass(frozen=True)
class StoreCase:
    """One thing that every store must do. Its text is a sentence, fit for the ``ids`` of a parametrized test."""

    name: str
    """What the store must do."""
    _check: Check

    def __str__(self) -> str:
        return self.name

    async def check(self, open_store: OpenStore) -> None:
        """Check it.

        Args:
            open_store: Opens the store, as in :func:`check_store`.

        Raises:
            AssertionError: If the store does something else.
        """
        prefix = f"check-{uuid.uuid4().hex}-"
        try:
            await self._check(open_store, prefix)
        except BaseException as error:
            error.add_note(f"checking that a store does this: {self.name}")
            raise
        async with open_store() as store:
            while left := [head.id for head in await store.heads(after=prefix[:-1]) if head.id.startswith(prefix)]:
                for id in left:
                    await store.delete(id)


def case_in(cases: list[StoreCase]) -> Callable[[Check], Check]:
    """Make a decorator that adds checks to a list of cases; a function's name is the sentence."""

    def add(check: Check) -> Check:
        cases.append(StoreCase(check.__name__.replace("_", " "), check))
        return check

    return add


def head_of(id: str, version: int = 1, **fields: Any) -> LogHead:
    """Make a head with something in every field that is not given."""
    first = LogHead(
        id=id,
        kind="run",
        version=version,
        status="running",
        thread=None,
        owner=None,
        graph="g",
        created=1764465823.123456,
        updated=1764465823.1 + version,
        expires=None,
    )
    return replace(first, **fields)


async def append(
    store: CheckpointStore, id: str, *datas: bytes, snapshots: tuple[int, ...] = (1,), at: int = 0
) -> None:
    """Append entries to a log that has so many."""
    for version, data in enumerate(datas, at + 1):
        await store.save(head_of(id, version), data, snapshot=version in snapshots, expected=version - 1)


async def read(store: CheckpointStore, id: str, version: int | None = None) -> StoredLog:
    """Read a log that must be there."""
    log = await store.load(id, version=version)
    assert log is not None, f"log {id!r} is not there, or has no version {version}"
    return log


def numbered(log: StoredLog) -> list[tuple[int, bool, bytes]]:
    """Give what is in a log's entries, without their times."""
    return [(entry.version, entry.snapshot, entry.data) for entry in log.entries]


async def refused(store: CheckpointStore, head: LogHead, expected: int, found: int) -> None:
    """Assert that a save is refused with what it found."""
    conflict: VersionConflict | None = None
    try:
        await store.save(head, b"refused", snapshot=True, expected=expected)
    except VersionConflict as error:
        conflict = error
    assert conflict is not None, f"version {head.version} was saved although version {expected} was expected"
    assert (conflict.id, conflict.expected, conflict.found) == (head.id, expected, found), conflict
