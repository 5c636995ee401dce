"""What every store must do when several use it: objects, tasks, event loops; and when a save is cancelled."""

from __future__ import annotations

from functools import partial
from typing import Final

import anyio
import anyio.lowlevel
import anyio.to_thread

from .._store import CheckpointStore
from ..errors import VersionConflict
from ._store_case import OpenStore, StoreCase, append, case_in, head_of, numbered, read, refused

CASES: Final[list[StoreCase]] = []
rule = case_in(CASES)


@rule
async def what_was_saved_is_there_when_the_store_is_opened_again(open_store: OpenStore, prefix: str) -> None:
    id = prefix + "log"
    store = open_store()
    async with store:
        await append(store, id, b"1")
    async with open_store() as other:
        assert numbered(await read(other, id)) == [(1, True, b"1")]
        await append(other, id, b"2", at=1)
    assert len((await read(store, id)).entries) == 2  # a closed store opens again when it is used
    await store.aclose()
    await store.aclose()


@rule
async def two_open_stores_see_each_other(open_store: OpenStore, prefix: str) -> None:
    id = prefix + "log"
    async with open_store() as one, open_store() as other:
        await append(one, id, b"1")
        await append(other, id, b"2", at=1)
        await refused(one, head_of(id, 2), expected=1, found=2)
        await append(one, id, b"3", at=2)
        assert [entry.data for entry in (await read(other, id)).entries] == [b"1", b"2", b"3"]


@rule
async def of_many_saves_at_once_on_one_version_one_succeeds(open_store: OpenStore, prefix: str) -> None:
    id = prefix + "log"
    async with open_store() as store:
        for expected in range(4):
            outcomes: list[str] = []

            async def save(name: str, expected: int = expected, outcomes: list[str] = outcomes) -> None:
                head = head_of(id, expected + 1, owner=name)
                try:
                    await store.save(head, name.encode(), snapshot=True, expected=expected)
                except VersionConflict:
                    pass
                else:
                    outcomes.append(name)

            async with anyio.create_task_group() as group:
                for number in range(8):
                    group.start_soon(save, f"task {number}")
            assert len(outcomes) == 1, outcomes
            log = await read(store, id)
            assert (log.head.owner, log.entries[-1].data) == (outcomes[0], outcomes[0].encode())


async def increment(store: CheckpointStore, id: str, times: int) -> None:
    """Count up so many times, by reading the last entry and appending the next, until each has succeeded."""
    for _ in range(times):
        while True:
            log = await store.load(id)
            version, value = (log.head.version, int(log.entries[-1].data)) if log is not None else (0, 0)
            try:
                await store.save(head_of(id, version + 1), b"%d" % (value + 1), snapshot=True, expected=version)
            except VersionConflict:
                continue
            break


@rule
async def no_update_is_lost(open_store: OpenStore, prefix: str) -> None:
    id = prefix + "log"
    async with open_store() as one, open_store() as other:
        async with anyio.create_task_group() as group:
            for store in (one, other, one, other):
                group.start_soon(increment, store, id, 5)
        log = await read(one, id)
        assert (log.head.version, log.entries[-1].data) == (20, b"20")


@rule
async def a_store_serves_several_event_loops_at_once(open_store: OpenStore, prefix: str) -> None:
    id = prefix + "log"
    async with open_store() as store:
        await append(store, id, b"0")

        def in_thread() -> None:
            anyio.run(increment, store, id, 5)

        async with anyio.create_task_group() as group:
            group.start_soon(partial(anyio.to_thread.run_sync, in_thread))
            group.start_soon(increment, store, id, 5)
        assert (await read(store, id)).entries[-1].data == b"10"


@rule
async def a_cancelled_save_has_been_decided(open_store: OpenStore, prefix: str) -> None:
    async with open_store() as store:
        for turns in range(6):
            id = f"{prefix}{turns}"
            saved = False

            async def save(scope: anyio.CancelScope, id: str = id) -> None:
                nonlocal saved
                with scope:
                    await store.save(head_of(id), b"1", snapshot=True, expected=0)
                    saved = True

            async with anyio.create_task_group() as group:
                scope = anyio.CancelScope()
                group.start_soon(save, scope)
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
            log = await store.load(id)
            assert log is not None or not saved, "a save has returned, and is not there"
            # Nothing is under way any more: what was found stays so, and the next save goes on from it.
            version = 0 if log is None else 1
            await append(store, id, b"next", snapshots=(1,), at=version)
            assert (await read(store, id)).head.version == version + 1
