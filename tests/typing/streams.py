# pyright: reportUnnecessaryTypeIgnoreComment=true
"""Streams, checked by mypy and pyright: what a stream consists of is known all along its way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

from anyio.abc import ObjectReceiveStream, ObjectSendStream

from anabranch.schema import NO_VALUE, SourceEnd, StreamReader, StreamWriter, merge, pipe
from anabranch.schema._stream_source import NoValue


async def numbers() -> AsyncIterator[int]:
    yield 1


def letters() -> Iterator[str]:
    yield "a"


async def later(item: int) -> str:
    return str(item)


def evens(item: int) -> int | NoValue:
    return NO_VALUE if item % 2 else item


async def making() -> None:
    assert_type(StreamReader.of(1, 2), StreamReader[int])
    assert_type(StreamReader.from_iterable(numbers()), StreamReader[int])
    assert_type(StreamReader.from_iterable(letters()), StreamReader[str])
    assert_type(StreamReader.from_iterable([b""]), StreamReader[bytes])
    reader, writer = pipe[int](capacity=8)
    assert_type(reader, StreamReader[int])
    assert_type(writer, StreamWriter[int])
    ends = pipe[str](1)
    assert_type(ends.reader, StreamReader[str])
    # M: Argument 1 to "send" of "StreamWriter" has incompatible type "str"; expected "int"
    # P: "Literal['no']" is not assignable to "int"
    await writer.send("no")  # type: ignore[arg-type]


async def reading(reader: StreamReader[int]) -> None:
    assert_type(await reader.receive(), int)
    assert_type(await anext(reader), int)
    async for item in reader:
        assert_type(item, int)
    async with reader as same:
        assert_type(same, StreamReader[int])


async def converting(reader: StreamReader[int]) -> None:
    assert_type(reader.convert(str), StreamReader[str])
    assert_type(reader.convert(later), StreamReader[str])
    assert_type(reader.convert(lambda item: item / 2), StreamReader[float])
    assert_type(reader.convert(lambda item: NO_VALUE if item % 2 else item), StreamReader[int])
    assert_type(reader.convert(evens), StreamReader[int])
    assert_type(StreamReader.of("a").convert(str.upper), StreamReader[str])
    # M: Argument 1 to "convert" of "StreamReader" has incompatible type "Callable[[str], str]"
    # P: "int" is not assignable to "str"
    reader.convert(str.upper)  # type: ignore[arg-type]


async def splitting_and_joining(left: StreamReader[int], right: StreamReader[str]) -> None:
    assert_type(left.copy(2), tuple[StreamReader[int], ...])
    assert_type(merge([left, left]), StreamReader[int])
    assert_type(merge({"a": left}, labels=True), StreamReader[tuple[str, int] | SourceEnd[str]])
    assert_type(merge([left], labels=True), StreamReader[tuple[int, int] | SourceEnd[int]])
    async for item in merge({"a": right}, labels=True):
        if isinstance(item, SourceEnd):
            assert_type(item.label, str)
        else:
            assert_type(item, tuple[str, str])


def ends_are_streams_of_anyio(reader: StreamReader[bool], writer: StreamWriter[int]) -> None:
    wider: StreamReader[int] = reader
    narrower: StreamWriter[bool] = writer
    receive: ObjectReceiveStream[int] = wider
    send: ObjectSendStream[bool] = narrower
    assert receive is not None
    assert send is not None
