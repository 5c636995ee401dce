"""What every store must do with one thing at a time. Each function is a case, and its name says what the store does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from .._store import ID_LIMIT, LogEntry, LogHead, LogVersion
from ._store_case import OpenStore, StoreCase, append, case_in, head_of, numbered, read, refused

CASES: Final[list[StoreCase]] = []
rule = case_in(CASES)


@rule
async def a_log_is_loaded_as_it_was_saved(open_store: OpenStore, prefix: str) -> None:
    id = prefix + "log"
    async with open_store() as store:
        heads = [head_of(id, version, owner=f"worker {version}") for version in (1, 2, 3)]
        for head, data in zip(heads, (b"whole", b"patch", b"another"), strict=True):
            await store.save(head, data, snapshot=head.version == 1, expected=head.version - 1)
        log = await read(store, id)
        assert log.head == heads[-1]
        assert log.entries == (
            LogEntry(1, True, b"whole", heads[0].updated),
            LogEntry(2, False, b"patch", heads[1].updated),
            LogEntry(3, False, b"another", heads[2].updated),
        )


@rule
async def loading_begins_at_the_newest_snapshot(open_store: OpenStore, prefix: str) -> None:
    id = prefix + "log"
    async with open_store() as store:
        await append(store, id, b"S1", b"2", b"S3", b"S4", b"5", b"6", snapshots=(1, 3, 4))
        assert numbered(await read(store, id)) == [(4, True, b"S4"), (5, False, b"5"), (6, False, b"6")]


@rule
async def an_older_version_is_loaded_with_the_head_of_today(open_store: OpenStore, prefix: str) -> None:
    id = prefix + "log"
    async with open_store() as store:
        await append(store, id, b"S1", b"2", b"S3", b"4", snapshots=(1, 3))
        expected = {
            1: [(1, True, b"S1")],
            2: [(1, True, b"S1"), (2, False, b"2")],
            3: [(3, True, b"S3")],
            4: [(3, True, b"S3"), (4, False, b"4")],
        }
        for version, entries in expected.items():
            log = await read(store, id, version)
            assert numbered(log) == entries
            assert log.head == head_of(id, 4)


@rule
async def what_is_not_there_is_none(open_store: OpenStore, prefix: str) -> None:
    id = prefix + "log"
    async with open_store() as store:
        assert await store.load(id) is None
        assert list(await store.versions(id)) == []
        assert not await store.delete(id)
        await append(store, id, b"1", b"2")
        for version in (-1, 0, 3, 2**40):
            assert await store.load(id, version=version) is None, version
        assert await store.load(id.upper()) is None


@rule
async def a_save_on_another_version_is_refused_and_changes_nothing(open_store: OpenStore, prefix: str) -> None:
    id = prefix + "log"
    async with open_store() as store:
        await refused(store, head_of(id, 3), expected=2, found=0)
        assert await store.load(id) is None
        await append(store, id, b"1", b"2")
        for expected in (0, 1, 3, 7):
            await refused(store, head_of(id, expected + 1, status="failed"), expected=expected, found=2)
        log = await read(store, id)
        assert log.head == head_of(id, 2)
        assert numbered(log) == [(1, True, b"1"), (2, False, b"2")]
        assert [entry.version for entry in await store.versions(id)] == [1, 2]


@rule
async def arguments_that_do_not_fit_are_refused(open_store: OpenStore, prefix: str) -> None:
    good = head_of(prefix + "log")
    wrong: list[tuple[LogHead, bool, int]] = [
        (replace(good, version=2), True, 0),
        (replace(good, version=0), True, -1),
        (good, True, 1),
        (good, False, 0),  # the first entry is no snapshot
        (replace(good, id=""), True, 0),
        (replace(good, id="x" * (ID_LIMIT + 1)), True, 0),
        (replace(good, thread=""), True, 0),
        (replace(good, updated=float("nan")), True, 0),
        (replace(good, expires=float("inf")), True, 0),
    ]
    async with open_store() as store:
        for head, snapshot, expected in wrong:
            try:
                await store.save(head, b"", snapshot=snapshot, expected=expected)
            except ValueError:
                pass
            else:
                raise AssertionError(f"this was saved: {head}, snapshot={snapshot}, expected={expected}")
        assert await store.load(good.id) is None


@rule
async def any_text_is_an_id(open_store: OpenStore, prefix: str) -> None:
    endings = [
        *("a", "A", "a ", " a", "a\n", "a\0", "a\0b", "\0", "%", "_", "*", "a%", "'", '"', "\\", "`", "$1", "?", ":x"),
        *("'; DROP TABLE logs; --", "é", "e\u0301", "ß", "ss", "日本", "\ud800", "\udfff", "\uffff", "\U0001f600", "1"),
        *(
            "\ud83d\ude00",
            "01",
            "None",
            "null",
            "../x",
            "a" * (ID_LIMIT - len(prefix)),
            "😀" * (ID_LIMIT - len(prefix)),
        ),
    ]
    ids = [prefix + ending for ending in endings]
    async with open_store() as store:
        for number, id in enumerate(ids):
            await append(store, id, b"%d" % number)
        for number, id in enumerate(ids):
            log = await read(store, id)
            assert (log.head.id, log.entries[0].data) == (id, b"%d" % number)
        listed = [head.id for head in await store.heads(after=prefix, limit=len(ids))]
        assert listed == sorted(ids)
        for id in ids:
            assert await store.delete(id), id


@rule
async def the_whole_head_is_replaced(open_store: OpenStore, prefix: str) -> None:
    id = prefix + "log"
    heads = [
        head_of(id, 1, thread=prefix + "t", owner="o", expires=5e9),
        head_of(id, 2, status="paused", graph="other \ud800\0", created=0.1, updated=0.2),
        head_of(id, 3, kind="thread", status="open", thread=prefix + "\0\ud800", owner="\ud800", expires=1e300),
        head_of(id, 4, status="done", thread=prefix + "t", owner="", graph="", created=-1.5, updated=-0.0),
        head_of(id, 5, status="failed", thread=prefix + "t", expires=6e9),
    ]
    async with open_store() as store:
        for head in heads:
            await store.save(head, b"", snapshot=True, expected=head.version - 1)
            assert (await read(store, id)).head == head
            assert list(await store.heads(after=prefix, limit=1)) == [head]


@rule
async def any_bytes_are_kept(open_store: OpenStore, prefix: str) -> None:
    id = prefix + "log"
    datas = [b"", b"\0", bytes(range(256)), "é\ud800".encode("utf-8", "surrogatepass"), bytes(range(256)) * 4096]
    async with open_store() as store:
        await append(store, id, *datas)
        assert [entry.data for entry in (await read(store, id)).entries] == datas


@rule
async def the_versions_of_a_log_are_listed(open_store: OpenStore, prefix: str) -> None:
    id = prefix + "log"
    async with open_store() as store:
        await append(store, id, b"one", b"", b"three", snapshots=(1, 3))
        versions = [LogVersion(*entry) for entry in await store.versions(id)]
        assert [(entry.version, entry.snapshot) for entry in versions] == [(1, True), (2, False), (3, True)]
        assert [entry.created for entry in versions] == [head_of(id, version).updated for version in (1, 2, 3)]
        sizes = [entry.size for entry in versions]
        assert sizes[0] >= 3, sizes  # a store may keep more than the data
        assert sizes[1] < sizes[2], sizes


@rule
async def heads_are_listed_by_what_they_are(open_store: OpenStore, prefix: str) -> None:
    ours, theirs = prefix + "thread", prefix + "other"
    heads = [
        head_of(prefix + "1", thread=ours),
        head_of(prefix + "2", thread=ours, status="paused"),
        head_of(prefix + "3", thread=theirs, status="paused"),
        head_of(prefix + "4", kind="thread", status="open"),
        head_of(prefix + "5", thread=ours, status="done"),
    ]
    async with open_store() as store:
        for head in reversed(heads):
            await store.save(head, b"", snapshot=True, expected=0)

        async def listed(**wanted: Any) -> list[str]:
            wanted.setdefault("after", prefix)
            return [head.id.removeprefix(prefix) for head in await store.heads(**wanted)]

        assert list(await store.heads(after=prefix, limit=5)) == heads
        assert await listed(thread=ours) == ["1", "2", "5"]
        assert await listed(thread=ours, status="paused") == ["2"]
        assert await listed(thread=ours, kind="thread") == []
        assert await listed(thread=prefix) == []
        assert (await listed(kind="thread", limit=1))[0] == "4"
        assert (await listed(status="paused", limit=2)) == ["2", "3"]
        assert await listed(thread=ours, after=prefix + "1") == ["2", "5"]
        assert await listed(thread=ours, after=prefix + "1", limit=1) == ["2"]


@rule
async def heads_are_listed_page_by_page(open_store: OpenStore, prefix: str) -> None:
    ids = sorted(prefix + ending for ending in ("a", "B", "b", "é", "z", "10", "9", "\U0001f600", "\uffff", ""))
    thread = prefix + "thread"
    async with open_store() as store:
        for id in ids:
            await store.save(head_of(id, thread=thread), b"", snapshot=True, expected=0)
        found: list[str] = []
        while page := await store.heads(thread=thread, limit=3, after=found[-1] if found else None):
            assert len(page) <= 3
            found += [head.id for head in page]
        assert found == ids


@rule
async def a_deleted_log_is_gone_and_may_begin_again(open_store: OpenStore, prefix: str) -> None:
    id, other = prefix + "log", prefix + "other"
    async with open_store() as store:
        await append(store, id, b"1", b"2", b"3")
        await append(store, other, b"other")
        assert await store.delete(id)
        assert await store.load(id) is None
        assert list(await store.versions(id)) == []
        assert not await store.delete(id)
        await refused(store, head_of(id, 4), expected=3, found=0)
        await append(store, id, b"again")
        assert numbered(await read(store, id)) == [(1, True, b"again")]
        assert numbered(await read(store, other)) == [(1, True, b"other")]


@rule
async def a_log_whose_time_is_up_is_deleted(open_store: OpenStore, prefix: str) -> None:
    times = {"never": None, "first": 100.0, "second": 200.0, "third": 300.0}
    async with open_store() as store:
        await store.expire(1000.0)
        for name, expires in times.items():
            await store.save(head_of(prefix + name, expires=expires), b"", snapshot=True, expected=0)
        # What counts is the head of now, not what it was.
        await store.save(head_of(prefix + "third", 2, expires=None), b"", snapshot=False, expected=1)
        assert await store.expire(99.9) == 0
        assert await store.expire(200.0) == 2
        assert await store.expire(1000.0) == 0
        left = [head.id.removeprefix(prefix) for head in await store.heads(after=prefix, limit=2)]
        assert left == ["never", "third"]
        assert list(await store.versions(prefix + "second")) == []


@rule
async def logs_do_not_mix(open_store: OpenStore, prefix: str) -> None:
    ids = [f"{prefix}{number}" for number in range(5)]
    async with open_store() as store:
        for version in range(1, 6):
            for id in ids:
                await append(store, id, f"{id} {version}".encode(), at=version - 1)
        for id in ids:
            assert [entry.data for entry in (await read(store, id)).entries] == [
                f"{id} {version}".encode() for version in range(1, 6)
            ]
