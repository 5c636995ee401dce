"""Reads that are cancelled or come from two tasks at once, and closing sources that are not generators."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from anabranch.schema import StreamReader

pytestmark = pytest.mark.anyio


async def settle() -> None:
    for _ in range(14):
        await checkpoint()


async def never() -> AsyncGenerator[int]:
    try:
        yield 0
        await anyio.sleep_forever()
    finally:
        await checkpoint()


async def test_a_reader_that_was_cancelled_in_the_middle_of_a_step_says_that_it_is_broken_not_that_it_ended() -> None:
    reader = StreamReader.from_iterable(never())
    await reader.receive()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_later, scope)
            await reader.receive()
    for _ in range(2):
        with pytest.raises(anyio.BrokenResourceError, match="cancelled"):
            await reader.receive()


async def cancel_later(scope: anyio.CancelScope) -> None:
    await settle()
    scope.cancel()


async def test_a_copy_can_be_cancelled_in_the_middle_of_a_step_and_loses_nothing() -> None:
    go = anyio.Event()

    async def source() -> AsyncGenerator[int]:
        yield 0
        await go.wait()
        yield 1

    (reader,) = StreamReader.from_iterable(source()).copy(1)
    assert await reader.receive() == 0
    for _ in range(3):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_later, scope)
                await reader.receive()
        assert scope.cancelled_caught
    go.set()
    assert [item async for item in reader] == [1]


async def read_until_closed(reader: StreamReader[Any]) -> None:
    with pytest.raises(anyio.ClosedResourceError):
        await reader.receive()


async def test_a_second_task_cannot_read_a_generator_at_the_same_time() -> None:
    reader = StreamReader.from_iterable(never())
    await reader.receive()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_until_closed, reader)
        await settle()
        with pytest.raises(anyio.BusyResourceError):
            await reader.receive()
        await reader.aclose()


async def test_a_receive_stream_of_anyio_is_closed_with_its_reader_and_when_it_has_ended() -> None:
    send, receive = anyio.create_memory_object_stream[int](5)
    reader = StreamReader.from_iterable(receive)
    await send.send(1)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_later, scope)
            assert await reader.receive() == 1
            await reader.receive()
    await send.send(2)
    assert await reader.receive() == 2
    send.close()
    with pytest.raises(anyio.EndOfStream):
        await reader.receive()
    with pytest.raises(anyio.ClosedResourceError):
        receive.receive_nowait()
    send, receive = anyio.create_memory_object_stream[int](5)
    await StreamReader.from_iterable(receive).aclose()
    with pytest.raises(anyio.BrokenResourceError):
        send.send_nowait(1)
    send.close()


async def test_a_sync_generator_is_closed_with_its_reader() -> None:
    closed: list[int] = []

    def generator() -> Any:
        try:
            yield 1
            yield 2
        finally:
            closed.append(1)

    reader = StreamReader.from_iterable(generator())
    await reader.receive()
    await reader.aclose()
    assert closed == [1]


async def test_the_function_of_a_conversion_is_left_in_order_when_its_stream_is_closed_or_never_read() -> None:
    log: list[str] = []

    async def function(item: int) -> int:
        try:
            await anyio.sleep_forever()
        finally:
            log.append("left")
        return item

    reader = StreamReader.of(1).convert(function)
    with pytest.raises(anyio.WouldBlock):
        reader._receive_nowait()  # pyright: ignore[reportPrivateUsage]
    await reader.aclose()
    assert log == []  # it was called and never begun
    (reader,) = StreamReader.of(1).convert(function).copy(1)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_later, scope)
            await reader.receive()
    assert log == []
    await reader.aclose()
    assert log == ["left"]
