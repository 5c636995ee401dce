"""What streams are made of, what the engine asks of them, and what they become."""

from __future__ import annotations

import gc
import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from anabranch.schema import EmptyStreamError, StreamError, StreamReader, merge, pipe

pytestmark = pytest.mark.anyio


class Boom(Exception):
    pass


async def asynchronous(*items: int) -> AsyncGenerator[int]:
    for item in items:
        await checkpoint()
        yield item


class Iterating:
    """An iterable that is no sequence."""

    def __iter__(self) -> Iterator[int]:
        return iter([1, 2])


class OldSequence:
    """Iterable as Python once was."""

    def __getitem__(self, index: int) -> int:
        if index == 2:
            raise IndexError
        return index + 1


class AsyncIterating:
    """An async iterable that is no iterator."""

    def __aiter__(self) -> AsyncIterator[int]:
        return asynchronous(1, 2)


class AsyncIteratorOnly:
    """An async iterator that cannot be closed."""

    def __init__(self) -> None:
        self.items = [1, 2]

    def __aiter__(self) -> AsyncIteratorOnly:
        return self

    async def __anext__(self) -> int:
        if not self.items:
            raise StopAsyncIteration
        return self.items.pop(0)


def receive_stream() -> Any:
    send, receive = anyio.create_memory_object_stream[int](2)
    send.send_nowait(1)
    send.send_nowait(2)
    send.close()
    return receive


MAKES: dict[str, Any] = {
    "list": lambda: [1, 2],
    "tuple": lambda: (1, 2),
    "range": lambda: range(1, 3),
    "dict": lambda: {1: "a", 2: "b"},
    "iterator": lambda: iter([1, 2]),
    "generator": lambda: (item for item in (1, 2)),
    "iterable": Iterating,
    "old sequence": OldSequence,
    "async generator": lambda: asynchronous(1, 2),
    "async iterable": AsyncIterating,
    "async iterator": AsyncIteratorOnly,
    "receive stream": receive_stream,
    "reader": lambda: StreamReader.of(1, 2),
}


@pytest.mark.parametrize("kind", list(MAKES))
async def test_a_stream_is_made_of_anything_that_can_be_iterated_over(kind: str) -> None:
    reader = StreamReader.from_iterable(MAKES[kind]())
    assert [item async for item in reader] == [1, 2]
    with pytest.raises(anyio.EndOfStream):
        await reader.receive()
    copies = StreamReader.from_iterable(MAKES[kind]()).copy(2)
    assert [[item async for item in copy] for copy in copies] == [[1, 2]] * 2
    merged = merge([StreamReader.from_iterable(MAKES[kind]()), StreamReader.from_iterable(MAKES[kind]())])
    assert sorted([item async for item in merged]) == [1, 1, 2, 2]
    await StreamReader.from_iterable(MAKES[kind]()).aclose()


async def test_a_reader_is_returned_as_it_is_and_a_list_is_left_alone() -> None:
    reader = StreamReader.of(1)
    assert StreamReader.from_iterable(reader) is reader
    await reader.aclose()
    items = [1, 2]
    assert [item async for item in StreamReader.from_iterable(items)] == items == [1, 2]


@pytest.mark.parametrize("thing", [1, None, object(), math.sin])
async def test_what_cannot_be_iterated_over_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="iterable"):
        StreamReader.from_iterable(thing)


def raising(error: BaseException) -> Iterable[int]:
    yield 1
    raise error


async def raising_later(error: BaseException) -> AsyncGenerator[int]:
    yield 1
    await checkpoint()
    raise error


class RaisingForeign:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __aiter__(self) -> RaisingForeign:
        return self

    async def __anext__(self) -> int:
        raise self.error


@pytest.mark.parametrize("make", [raising, raising_later])
async def test_what_the_iterable_raises_is_the_stream_s_error_and_nothing_follows(make: Any) -> None:
    boom = Boom()
    reader = StreamReader.from_iterable(make(boom))
    assert await reader.receive() == 1
    for _ in range(3):
        with pytest.raises(Boom) as caught:
            await reader.receive()
        assert caught.value is boom
        assert any(entry.name.startswith("raising") for entry in caught.traceback)


@pytest.mark.parametrize("end", [anyio.EndOfStream, anyio.WouldBlock])
@pytest.mark.parametrize("make", [raising, raising_later, RaisingForeign])
@pytest.mark.parametrize("shared", [False, True])
async def test_an_end_that_an_iterable_raises_is_an_error_and_not_the_end(make: Any, end: Any, shared: bool) -> None:
    reader: StreamReader[int] = StreamReader.from_iterable(make(end()))
    if shared:
        (reader,) = reader.copy(1)
    if make is not RaisingForeign:
        assert await reader.receive() == 1
    for _ in range(2):
        with pytest.raises(StreamError, match="would read as the end") as caught:
            await reader.receive()
        assert isinstance(caught.value.__cause__, end)


# What the engine asks.


async def test_receive_nowait_gives_what_is_there() -> None:
    async def check(reader: StreamReader[int], *expected: Any) -> None:
        for item in expected:
            if isinstance(item, type):
                with pytest.raises(item):
                    reader._receive_nowait()  # pyright: ignore[reportPrivateUsage]
            else:
                assert reader._receive_nowait() == item  # pyright: ignore[reportPrivateUsage]
        await reader.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            reader._receive_nowait()  # pyright: ignore[reportPrivateUsage]

    await check(StreamReader.of(1, 2), 1, 2, anyio.EndOfStream, anyio.EndOfStream)
    await check(StreamReader.of(1).convert(lambda item: item + 1, on_end=lambda: 7), 2, 7, anyio.EndOfStream)
    await check(StreamReader.from_iterable(raising(Boom())), 1, Boom, Boom)
    await check(StreamReader.from_iterable(asynchronous(1)), anyio.WouldBlock)
    await check(StreamReader.from_iterable(asynchronous(1)).convert(abs), anyio.WouldBlock)
    await check(merge([StreamReader.of(1), StreamReader.of(2)]), 1, 2, anyio.EndOfStream)
    await check(StreamReader.of(1).copy(1)[0], 1, anyio.EndOfStream)
    reader, writer = pipe[int](1)
    writer.send_nowait(1)
    await check(reader, 1, anyio.WouldBlock)
    writer.close()


async def test_what_failed_without_waiting_is_closed_with_the_reader_or_when_it_is_dropped() -> None:
    def fail(item: int) -> int:
        raise Boom

    for drop in (False, True):
        source, writer = pipe[int](5)
        writer.send_nowait(1)
        readers = [source.convert(fail)]
        del source
        with pytest.raises(Boom):
            readers[0]._receive_nowait()  # pyright: ignore[reportPrivateUsage]
        if drop:
            readers.clear()
            gc.collect()  # the traceback of its error holds on to it
        else:
            await readers[0].aclose()
        await checkpoint()
        await checkpoint()
        with pytest.raises(anyio.BrokenResourceError):
            writer.send_nowait(2)
        writer.close()


async def test_an_error_of_a_generator_is_translated() -> None:
    def translate(error: BaseException) -> BaseException:
        located = KeyError("node")
        located.__cause__ = error
        return located

    boom = Boom()
    for make in (raising_later(boom), raising_later(boom)):
        reader = StreamReader._from_generator(make, translate=translate)  # pyright: ignore[reportPrivateUsage]
        assert await reader.receive() == 1
        errors: list[BaseException] = []
        for copy in reader.copy(2):
            with pytest.raises(KeyError) as caught:
                await copy.receive()
            errors.append(caught.value)
        assert errors[0] is errors[1]
        assert errors[0].__cause__ is boom


@pytest.mark.parametrize("how", ["end", "fail", "close", "close early", "drop early"])
async def test_what_a_generator_reads_is_closed_with_it(how: str) -> None:
    source, writer = pipe[int](5)

    async def node() -> AsyncGenerator[int]:
        yield await source.receive()
        if how == "fail":
            raise Boom

    writer.send_nowait(1)
    readers = [StreamReader._from_generator(node(), feeds=(source,))]  # pyright: ignore[reportPrivateUsage]
    if "early" not in how:
        assert await readers[0].receive() == 1
    if how == "end":
        with pytest.raises(anyio.EndOfStream):
            await readers[0].receive()
    elif how == "fail":
        with pytest.raises(Boom):
            await readers[0].receive()
    elif how == "drop early":
        with pytest.warns(ResourceWarning, match="StreamReader"):
            readers.clear()
        await checkpoint()
    else:
        await readers[0].aclose()
    with pytest.raises(anyio.BrokenResourceError):
        writer.send_nowait(2)
    writer.close()
    await checkpoint()


async def test_concat_makes_one_value_and_closes_the_stream() -> None:
    assert await StreamReader.of("ti", "des").concat() == "tides"
    assert await StreamReader.from_iterable(asynchronous(1, 2)).convert(lambda item: [item]).concat() == [1, 2]
    nothing: list[str] = []
    with pytest.raises(EmptyStreamError):
        await StreamReader.of(*nothing).concat()
    assert await StreamReader.of(*nothing).concat(of=str) == ""
    with pytest.raises(Boom):
        await StreamReader.from_iterable(raising_later(Boom())).concat()
