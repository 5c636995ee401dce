"""The checks of stores find stores that do something else."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import anyio
import pytest

from anabranch.compose._store import LogHead, LogKind, LogStatus, LogVersion, StoredLog, check_save
from anabranch.compose._store_memory import MemoryStore
from anabranch.compose.errors import VersionConflict
from anabranch.compose.testing import check_store, store_cases


class OverwritesOthers(MemoryStore):
    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        try:
            await super().save(head, data, snapshot=snapshot, expected=expected)
        except VersionConflict as error:
            if error.found > expected:
                return
            raise


class LooksAndThenWrites(MemoryStore):
    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        check_save(head, data, snapshot, expected)
        found = await self.load(head.id)
        if (version := found.head.version if found is not None else 0) != expected:
            raise VersionConflict("store", head.id, expected, version)
        await anyio.lowlevel.checkpoint()
        with suppress(VersionConflict):
            await super().save(head, data, snapshot=snapshot, expected=expected)


class KeepsNoOwner(MemoryStore):
    async def load(self, id: str, *, version: int | None = None) -> StoredLog | None:
        log = await super().load(id, version=version)
        return log and replace(log, head=replace(log.head, owner=None))


class GivesEverything(MemoryStore):
    async def load(self, id: str, *, version: int | None = None) -> StoredLog | None:
        log = await super().load(id, version=version)
        before = await super().load(id, version=1)
        return log and before and replace(log, entries=(*before.entries, *log.entries))


class GivesTheNewest(MemoryStore):
    async def load(self, id: str, *, version: int | None = None) -> StoredLog | None:
        return await super().load(id)


class KeepsText(MemoryStore):
    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        await super().save(head, data.decode(errors="replace").encode(), snapshot=snapshot, expected=expected)


class TrimsIds(MemoryStore):
    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        await super().save(replace(head, id=head.id.strip("\0 ")), data, snapshot=snapshot, expected=expected)

    async def load(self, id: str, *, version: int | None = None) -> StoredLog | None:
        return await super().load(id.strip("\0 "), version=version)


class SkipsAtPages(MemoryStore):
    async def heads(
        self,
        *,
        kind: LogKind | None = None,
        thread: str | None = None,
        status: LogStatus | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Sequence[LogHead]:
        found = await super().heads(kind=kind, thread=thread, status=status, limit=limit + 1, after=after)
        return found[1:] if len(found) > limit else found


class ListsNewestFirst(MemoryStore):
    async def versions(self, id: str) -> Sequence[LogVersion]:
        return [*await super().versions(id)][::-1]


class ExpiresTooEarly(MemoryStore):
    async def expire(self, now: float) -> int:
        return await super().expire(now + 1)


class DeletesQuietly(MemoryStore):
    async def delete(self, id: str) -> bool:
        await super().delete(id)
        return True


class ForgetsWhenClosed(MemoryStore):
    async def aclose(self) -> None:
        self._logs.clear()


class WritesAfterwards(MemoryStore):
    """Goes on with a save after its caller was cancelled and has looked what became of it."""

    late: tuple[LogHead, bytes] | None = None

    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class():
            self.late = head, data
            raise
        await super().save(head, data, snapshot=snapshot, expected=expected)

    async def load(self, id: str, *, version: int | None = None) -> StoredLog | None:
        found = await super().load(id, version=version)
        if self.late is not None:
            (head, data), self.late = self.late, None
            await super().save(head, data, snapshot=True, expected=head.version - 1)
        return found


FAULTY = {
    OverwritesOthers: "a save on another version is refused and changes nothing",
    LooksAndThenWrites: "of many saves at once on one version one succeeds",
    KeepsNoOwner: "a log is loaded as it was saved",
    GivesEverything: "a log is loaded as it was saved",
    GivesTheNewest: "an older version is loaded with the head of today",
    KeepsText: "any bytes are kept",
    TrimsIds: "any text is an id",
    SkipsAtPages: "heads are listed by what they are",
    ListsNewestFirst: "a save on another version is refused and changes nothing",
    ExpiresTooEarly: "a log whose time is up is deleted",
    DeletesQuietly: "what is not there is none",
    ForgetsWhenClosed: "what was saved is there when the store is opened again",
    WritesAfterwards: "a cancelled save has been decided",
}


@pytest.mark.anyio
@pytest.mark.parametrize(("faulty", "rule"), FAULTY.items())
async def test_a_store_that_does_something_else_is_found(faulty: type[MemoryStore], rule: str) -> None:
    store = faulty()
    with pytest.raises((AssertionError, VersionConflict)) as caught:
        await check_store(lambda: store)
    assert caught.value.__notes__ == [f"checking that a store does this: {rule}"]
    assert rule in map(str, store_cases())
