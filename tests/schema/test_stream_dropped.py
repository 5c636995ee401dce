"""Readers and writers that are dropped (S8): a warning that says where they were made, and nothing stays behind."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
import trio
from anyio.lowlevel import checkpoint

from anabranch.schema import StreamReader, merge, pipe, stream_scope

pytestmark = pytest.mark.anyio


async def settle() -> None:
    for _ in range(14):
        await checkpoint()


async def numbers() -> AsyncGenerator[int]:
    for item in range(5):
        await checkpoint()
        yield item


def dropped(make: Callable[[], Any]) -> list[str]:
    """Make something, drop it, and give the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        thing = make()
        del thing
        gc.collect()
    return [str(warning.message) for warning in caught if issubclass(warning.category, ResourceWarning)]


def from_a_pipe() -> StreamReader[int]:
    reader, writer = pipe[int](1)
    writer.close()
    return reader


MADE: dict[str, Callable[[], StreamReader[Any]]] = {
    "of": lambda: StreamReader.of(1),
    "from_iterable": lambda: StreamReader.from_iterable([1]),
    "from_iterable of a generator": lambda: StreamReader.from_iterable(numbers()),
    "pipe": from_a_pipe,
    "convert": lambda: StreamReader.of(1).convert(abs),
    "copy": lambda: StreamReader.of(1).copy(1)[0],
    "merge": lambda: merge([StreamReader.of(1), StreamReader.of(2)]),
}


@pytest.mark.parametrize("kind", list(MADE))
async def test_a_dropped_reader_warns_and_says_where_it_was_made(kind: str) -> None:
    (message,) = dropped(MADE[kind])
    function = MADE[kind].__code__
    line = function.co_firstlineno + (1 if kind == "pipe" else 0)
    assert f"{__file__}:{line}" in message
    assert "neither read to its end nor closed" in message


@pytest.mark.parametrize("kind", list(MADE))
async def test_a_reader_that_ended_or_was_closed_is_dropped_quietly(kind: str) -> None:
    ended, closed = MADE[kind](), MADE[kind]()
    async for _ in ended:
        pass
    await closed.aclose()
    readers = [ended, closed]
    assert dropped(readers.clear) == []


async def test_a_reader_that_failed_is_dropped_quietly() -> None:
    def fail() -> Any:
        raise ValueError("lost")
        yield

    readers = [StreamReader.from_iterable(fail()), StreamReader.from_iterable(fail()).convert(abs)]
    for index in range(2):
        with pytest.raises(ValueError, match="lost"):
            await readers[index].receive()
    assert dropped(readers.clear) == []


async def test_a_dropped_writer_warns_and_its_reader_does_not_wait_for_ever() -> None:
    ends = [*pipe[int](1)]
    reader: StreamReader[int] = ends[0]  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    messages: list[str] = []
    async with anyio.create_task_group() as tasks:

        async def receive() -> None:
            with pytest.raises(anyio.BrokenResourceError, match="dropped"):
                await reader.receive()

        tasks.start_soon(receive)
        await settle()
        messages = dropped(ends.clear)
    assert len(messages) == 1
    assert "StreamWriter was never closed" in messages[0]
    assert __file__ in messages[0]


async def test_a_dropped_reader_ends_the_waits_of_its_writer() -> None:
    ends = [*pipe[int](0)]
    writer: Any = ends.pop()
    async with anyio.create_task_group() as tasks:

        async def send() -> None:
            with pytest.raises(anyio.BrokenResourceError):
                await writer.send(1)

        tasks.start_soon(send)
        await settle()
        assert len(dropped(ends.clear)) == 1
    writer.close()


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize("steps", [1, 2])
async def test_the_last_dropped_copy_ends_the_owner_and_closes_the_generator(steps: int, thread: bool) -> None:
    closed: list[int] = []

    async def source() -> AsyncGenerator[int]:
        try:
            for item in range(5):
                await checkpoint()
                yield item
        finally:
            await checkpoint()
            closed.append(1)

    copies = list(StreamReader.from_iterable(source()).copy(2))
    for step in range(steps):
        assert [await copy.receive() for copy in copies] == [step, step]
    counts: list[int] = []

    def drop() -> None:
        counts.append(len(dropped(copies.clear)))

    if thread:  # the collector runs in whichever thread happens to be running
        worker = threading.Thread(target=drop)
        worker.start()
        worker.join()
    else:
        drop()
    assert counts == [2]
    await settle()
    assert closed == [1]


async def test_a_copy_that_is_dropped_lets_the_fastest_one_go_on() -> None:
    copies = list(StreamReader.of(1, 2, 3).copy(2, max_lag=1))
    fast = copies.pop()
    assert await fast.receive() == 1
    got: list[int] = []

    async def receive() -> None:
        got.append(await fast.receive())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        await settle()
        assert got == []
        assert len(dropped(copies.clear)) == 1
    assert got == [2]
    await fast.aclose()


async def test_what_is_dropped_in_a_scope_is_closed_with_the_scope() -> None:
    closed: list[int] = []

    async def source() -> AsyncGenerator[int]:
        try:
            yield 1
            yield 2
        finally:
            await checkpoint()
            closed.append(1)

    async with stream_scope():
        readers = [StreamReader.from_iterable(source())]
        await readers[0].receive()
        assert len(dropped(readers.clear)) == 1
    assert closed == [1]


def living_tasks() -> int:
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        return trio.lowlevel.current_statistics().tasks_living


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_ten_thousand_abandoned_readers_leave_no_task_and_no_open_generator() -> None:
    before = living_tasks()
    opened = closed = 0

    async def source(items: int) -> AsyncGenerator[int]:
        nonlocal opened, closed
        opened += 1
        try:
            with anyio.CancelScope():
                for item in range(items):
                    if item % 2:
                        await checkpoint()
                    yield item
        finally:
            closed += 1

    async def abandon(number: int) -> None:
        readers = list(StreamReader.from_iterable(source(number % 7)).copy(1 + number % 3))
        if number % 5 == 0:
            readers = [merge([reader.convert(abs) for reader in readers])]
        with anyio.move_on_after(0) if number % 11 == 0 else anyio.CancelScope():
            for reader in readers:
                with suppress(anyio.EndOfStream):
                    for _ in range(number % 4):
                        await reader.receive()

    for start in range(0, 10_000, 100):
        async with anyio.create_task_group() as tasks:
            for number in range(start, start + 100):
                tasks.start_soon(abandon, number)
    gc.collect()
    await settle()
    gc.collect()
    await settle()
    assert living_tasks() == before
    assert opened == closed
    assert opened > 5_000


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("anyio_backend", "count"), [(("asyncio", {"debug": False}), 1_000_000), ("trio", 200_000)])
async def test_a_million_items_through_everything_hold_steady_memory(count: int) -> None:
    reader, writer = pipe[int](64)

    async def write() -> None:
        async with writer:
            for item in range(count):
                await writer.send(item)

    async def convert(item: int) -> int:
        return item + 1

    blocks: list[int] = []
    merged = merge(list(reader.convert(abs).convert(convert).copy(3, max_lag=100)))
    total = seen = 0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        async for item in merged:
            total += item
            seen += 1
            if seen % (count // 2) == 0:
                gc.collect()
                blocks.append(sys.getallocatedblocks())
    assert seen == 3 * count
    assert total == 3 * count * (count + 1) // 2
    assert len(blocks) == 6
    assert max(blocks) < min(blocks) + 2_000
