"""What a sealed store keeps can be read by who has the key only, and nothing in it can be exchanged unnoticed."""

from __future__ import annotations

import hmac

import pytest

from anabranch.compose._store import LogHead
from anabranch.compose._store_memory import MemoryStore
from anabranch.compose._store_sealed import SealedStore
from anabranch.compose.errors import DamagedRecordError, StoreError

pytestmark = pytest.mark.anyio


def head(version: int, id: str = "run") -> LogHead:
    return LogHead(
        id=id, kind="run", version=version, status="running", thread=None, owner=None, graph="g", created=1.0,
        updated=float(version), expires=None,
    )  # fmt: skip


def seal(data: bytes, id: str) -> bytes:
    return hmac.digest(b"key", data + id.encode(), "sha256") + data[::-1]


def unseal(data: bytes, id: str) -> bytes:
    opened = data[32:][::-1]
    if not hmac.compare_digest(data, seal(opened, id)):
        raise ValueError("the signature does not fit")
    return opened


async def stored(store: SealedStore, *datas: bytes, id: str = "run") -> None:
    for version, data in enumerate(datas, 1):
        await store.save(head(version, id), data, snapshot=version == 1, expected=version - 1)


async def put(inner: MemoryStore, *datas: bytes, id: str = "run") -> None:
    await inner.delete(id)
    for version, data in enumerate(datas, 1):
        await inner.save(head(version, id), data, snapshot=version == 1, expected=version - 1)


async def kept(inner: MemoryStore, id: str = "run") -> list[bytes]:
    log = await inner.load(id)
    assert log is not None
    return [entry.data for entry in log.entries]


async def test_what_is_kept_does_not_show_the_data() -> None:
    inner = MemoryStore()
    store = SealedStore(inner, seal, unseal)
    await stored(store, b"secret", b"another")
    assert not any(b"secret" in data or b"another" in data for data in await kept(inner))
    log = await store.load("run")
    assert log is not None
    assert [entry.data for entry in log.entries] == [b"secret", b"another"]
    assert [entry.size for entry in await store.versions("run")] == [len(data) for data in await kept(inner)]


@pytest.mark.parametrize(("length", "more"), [(-1, b""), (None, b"x"), (0, b"")])
async def test_an_entry_that_was_changed_is_an_error(length: int | None, more: bytes) -> None:
    inner = MemoryStore()
    store = SealedStore(inner, seal, unseal)
    await stored(store, b"one", b"two")
    one, two = await kept(inner)
    await put(inner, one, two[:length] + more)
    with pytest.raises(DamagedRecordError, match="log 'run', version 2 is damaged: it cannot be unsealed: ValueError"):
        await store.load("run")


async def test_an_entry_that_was_moved_within_its_log_is_an_error() -> None:
    inner = MemoryStore()
    store = SealedStore(inner, seal, unseal)
    await stored(store, b"one", b"two", b"three")
    one, two, three = await kept(inner)
    await put(inner, one, three, two)
    with pytest.raises(DamagedRecordError, match="version 2 is damaged: what was sealed is another version"):
        await store.load("run")


async def test_an_entry_of_another_log_is_an_error() -> None:
    inner = MemoryStore()
    store = SealedStore(inner, seal, unseal)
    await stored(store, b"one")
    await stored(store, b"other", id="other")
    await put(inner, *await kept(inner, "other"))
    with pytest.raises(DamagedRecordError, match="the signature does not fit"):
        await store.load("run")


async def test_a_seal_that_fails_writes_nothing() -> None:
    def fail(data: bytes, id: str) -> bytes:
        raise KeyError("no key")

    inner = MemoryStore()
    store = SealedStore(inner, fail, unseal)
    with pytest.raises(StoreError, match="sealing version 1 of log 'run' failed: KeyError") as caught:
        await stored(store, b"one")
    assert isinstance(caught.value.__cause__, KeyError)
    assert await inner.load("run") is None
