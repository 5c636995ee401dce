"""Whatever is asked of a store on disk, it answers as the store in memory does."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.compose._store import CheckpointStore, LogHead
from anabranch.compose._store_memory import MemoryStore
from anabranch.compose._store_sealed import SealedStore
from anabranch.compose._store_sqlite import SqliteStore
from anabranch.compose.errors import VersionConflict

IDS = st.sampled_from(["a", "b", "ab", "\0", "\ud800", "b\0"])
TIMES = st.floats(allow_nan=False, allow_infinity=False)
ANY_TEXT = st.text(st.characters(), max_size=4)
Step = Callable[[CheckpointStore], Awaitable[Any]]


@st.composite
def saves(draw: st.DrawFn) -> Step:
    expected = draw(st.integers(0, 3))
    snapshot = expected == 0 or draw(st.booleans())
    head = LogHead(
        id=draw(IDS),
        kind=draw(st.sampled_from(["run", "thread"])),
        version=expected + 1,
        status=draw(st.sampled_from(["running", "paused", "done", "failed", "open"])),
        thread=draw(st.none() | IDS),
        owner=draw(st.none() | ANY_TEXT),
        graph=draw(ANY_TEXT),
        created=draw(TIMES),
        updated=draw(st.floats(-1e300, 1e300)),
        expires=draw(st.none() | st.floats(0, 10)),
    )
    data = draw(st.binary(max_size=8))

    async def save(store: CheckpointStore) -> Any:
        try:
            await store.save(head, data, snapshot=snapshot, expected=expected)
        except VersionConflict as error:
            return error.id, error.expected, error.found

    return save


def calls() -> st.SearchStrategy[Step]:
    def load(id: str, version: int | None) -> Step:
        return lambda store: store.load(id, version=version)

    def heads(**wanted: Any) -> Step:
        return lambda store: store.heads(**wanted)

    def versions(id: str) -> Step:
        return lambda store: store.versions(id)

    def delete(id: str) -> Step:
        return lambda store: store.delete(id)

    def expire(now: float) -> Step:
        return lambda store: store.expire(now)

    return st.one_of(
        st.builds(load, IDS, st.none() | st.integers(-1, 4)),
        st.builds(versions, IDS),
        st.builds(delete, IDS),
        st.builds(expire, st.floats(0, 10)),
        st.builds(
            heads,
            kind=st.sampled_from([None, "run", "thread"]),
            thread=st.none() | IDS,
            status=st.sampled_from([None, "paused", "open"]),
            limit=st.integers(1, 4),
            after=st.none() | IDS,
        ),
    )


@pytest.mark.parametrize("sealed", [False, True])
@settings(max_examples=60)
@given(steps=st.lists(saves() | calls(), max_size=30))
def test_a_store_on_disk_answers_as_the_one_in_memory(sealed: bool, steps: list[Step]) -> None:
    def seal(data: bytes, id: str) -> bytes:
        return data[::-1]

    async def main() -> None:
        model = MemoryStore()
        with tempfile.TemporaryDirectory() as folder:
            disk: CheckpointStore = SqliteStore(Path(folder) / "runs.db", synchronous="normal")
            async with SealedStore(disk, seal, seal) if sealed else disk as store:
                for step in steps:
                    found, expected = await step(store), await step(model)
                    if not (sealed and isinstance(found, list)):  # sizes are those of what is stored
                        assert found == expected

    anyio.run(main)
