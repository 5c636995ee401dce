"""Every store keeps the rules that `check_store` checks: alone, sealed, and through two objects on one file."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anabranch.compose._store import CheckpointStore, LogHead
from anabranch.compose._store_memory import MemoryStore
from anabranch.compose._store_sealed import SealedStore
from anabranch.compose._store_sqlite import SqliteStore
from anabranch.compose.testing import StoreCase, check_store, store_cases

if TYPE_CHECKING:
    from postgres_server import Server

OpenStore = Callable[[], CheckpointStore]


def sealed(store: CheckpointStore) -> SealedStore:
    def seal(data: bytes, id: str) -> bytes:
        return zlib.compress(data + repr(id).encode(), level=1)

    def unseal(data: bytes, id: str) -> bytes:
        opened = zlib.decompress(data)
        if not opened.endswith(repr(id).encode()):
            raise ValueError("this was sealed in another log")
        return opened.removesuffix(repr(id).encode())

    return SealedStore(store, seal, unseal)


@pytest.fixture(params=["memory", "sqlite", "sqlite normal", "sealed memory"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    memory = MemoryStore()
    path = tmp_path / "runs.db"
    return {
        "memory": lambda: memory,
        "sqlite": lambda: SqliteStore(path),
        "sqlite normal": lambda: SqliteStore(path, synchronous="normal"),
        "sealed memory": lambda: sealed(memory),
    }[str(request.param)]


@pytest.mark.anyio
@pytest.mark.parametrize("case", store_cases(), ids=str)
async def test_a_store_does_what_every_store_does(case: StoreCase, open_store: OpenStore) -> None:
    await case.check(open_store)


@pytest.mark.anyio
@pytest.mark.parametrize("case", store_cases(), ids=str)
async def test_a_store_on_postgres_does_what_every_store_does(case: StoreCase, postgres: Server) -> None:
    from anabranch.compose._store_postgres import PostgresStore

    await case.check(lambda: PostgresStore(postgres.dsn))


class Alternating(SqliteStore):
    """Hands each call to another of several stores on one file."""

    def __init__(self, path: Path, count: int = 2) -> None:
        super().__init__(path, synchronous="normal")
        self._turns: Iterator[SqliteStore] = itertools.cycle(
            [SqliteStore(path, synchronous="normal") for _ in range(count)]
        )
        self._count = count

    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        await next(self._turns).save(head, data, snapshot=snapshot, expected=expected)

    async def aclose(self) -> None:
        await super().aclose()  # what reads
        for _ in range(self._count):
            await next(self._turns).aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("case", store_cases(), ids=str)
async def test_several_stores_on_one_file_do_together_what_every_store_does(case: StoreCase, tmp_path: Path) -> None:
    await case.check(lambda: Alternating(tmp_path / "runs.db"))


@pytest.mark.anyio
async def test_a_store_is_checked_in_one_call_beside_what_it_holds() -> None:
    store = MemoryStore()
    head = LogHead(
        id="~ours", kind="run", version=1, status="done", thread=None, owner=None, graph="", created=0.0, updated=0.0,
        expires=2e9,
    )  # fmt: skip
    await store.save(head, b"kept", snapshot=True, expected=0)
    await check_store(lambda: store)
    assert [head.id for head in await store.heads()] == ["~ours"]
