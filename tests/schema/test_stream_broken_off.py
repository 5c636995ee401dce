"""A shared generator that is closed in the middle of a step is closed, whatever it waits for there."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio
import pytest
from anyio.lowlevel import checkpoint

from anabranch.schema import StreamReader, stream_scope

pytestmark = pytest.mark.anyio


async def items(scope: anyio.CancelScope, ended: list[str]) -> AsyncGenerator[int, None]:
    """Cancel the reader, and then wait in a checkpoint: on trio such a wait ends in its own time, with an item."""
    try:
        scope.cancel()
        await checkpoint()
        yield 1
    finally:
        ended.append("closed")


@pytest.mark.parametrize("attempt", range(10))  # trio wakes tasks in an order of its own
async def test_a_generator_that_gives_an_item_after_it_was_broken_off_is_closed(attempt: int) -> None:
    ended: list[str] = []
    with anyio.CancelScope() as scope:
        async with stream_scope():
            first, second = StreamReader.from_iterable(items(scope, ended)).copy(2)
            async with first, second:
                async for _ in first:
                    pass
    assert ended == ["closed"]
