"""The numbered cases of conversions (D): what the reference does, or what ours does where that is a bug there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from anabranch.schema import NO_VALUE, StreamReader, pipe

pytestmark = pytest.mark.anyio


class Boom(Exception):
    pass


async def items_of(reader: StreamReader[Any]) -> list[Any]:
    return [item async for item in reader]


async def ending_of(reader: StreamReader[Any]) -> tuple[list[Any], BaseException | None]:
    """Read to the end: the items, and the error if there is one."""
    items: list[Any] = []
    try:
        async for item in reader:
            items.append(item)
    except Exception as error:  # noqa: BLE001
        return items, error
    return items, None


def receive_nowait(reader: StreamReader[Any]) -> Any:
    return reader._receive_nowait()  # pyright: ignore[reportPrivateUsage]


async def let_others_run() -> None:
    for _ in range(10):
        await checkpoint()


async def counted(items: list[Any], closed: list[str], name: str = "source") -> AsyncIterator[Any]:
    """Yield items, each after a turn of the loop, and count how often it is closed."""
    try:
        for item in items:
            await checkpoint()
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        await checkpoint()
        closed.append(name)


# A. Pipe and writer


async def test_d40_an_item_can_be_dropped() -> None:
    assert await items_of(StreamReader.of(0, 1, 2, 3).convert(lambda item: item or NO_VALUE)) == [1, 2, 3]


async def test_d41_what_is_wrapped_is_not_the_mark() -> None:
    # In Go, an error that wraps the mark is the mark; here the mark is a value, and inside another one it is an item.
    assert await items_of(StreamReader.of(0).convert(lambda item: [NO_VALUE])) == [[NO_VALUE]]


async def test_d43_an_error_can_be_swallowed_and_nothing_follows_it() -> None:
    seen: list[BaseException] = []

    def swallow(error: Exception) -> Any:
        seen.append(error)
        return NO_VALUE

    boom = Boom()
    reader, writer = pipe[int](3)
    await writer.send(1)
    await writer.fail(boom)
    converted = reader.convert(lambda item: item, on_error=swallow)
    assert await items_of(converted) == [1]
    assert seen == [boom]
    with pytest.raises(anyio.EndOfStream):
        await converted.receive()


async def test_d44_the_error_of_a_converter_is_not_given_to_on_error() -> None:
    boom = Boom()

    def convert(item: int) -> int:
        raise boom

    def translate(error: Exception) -> Any:
        raise AssertionError("not called")

    closed: list[str] = []
    source = StreamReader.from_iterable(counted([1, 2], closed))
    converted = source.convert(convert, on_error=translate)
    assert await ending_of(converted) == ([], boom)
    assert await ending_of(converted) == ([], boom)
    assert closed == ["source"]


async def test_d46_on_end_adds_a_last_item_once() -> None:
    calls: list[int] = []

    def on_end() -> str:
        calls.append(1)
        return "x"

    converted = StreamReader.of("a").convert(str, on_end=on_end)
    assert await items_of(converted) == ["a", "x"]
    for _ in range(2):
        with pytest.raises(anyio.EndOfStream):
            await converted.receive()
    assert calls == [1]


async def test_d47_what_on_end_raises_is_the_stream_s_error() -> None:
    boom = Boom()

    def on_end() -> Any:
        raise boom

    nothing: list[int] = []
    converted = StreamReader.of(*nothing).convert(str, on_end=on_end)
    for _ in range(2):
        with pytest.raises(Boom) as caught:
            await converted.receive()
        assert caught.value is boom


async def test_d49_no_value_from_on_end_is_just_the_end() -> None:
    assert await items_of(StreamReader.of(1).convert(str, on_end=lambda: NO_VALUE)) == ["1"]


async def test_d50_on_end_is_not_called_after_an_error_nor_after_a_close() -> None:
    def on_end() -> Any:
        raise AssertionError("not called")

    boom = Boom()
    closed: list[str] = []
    converted = StreamReader.from_iterable(counted([1, boom], closed)).convert(str, on_end=on_end)
    assert await ending_of(converted) == (["1"], boom)
    converted = StreamReader.from_iterable(counted([1, 2], closed)).convert(str, on_end=on_end)
    await converted.receive()
    await converted.aclose()
    assert closed == ["source", "source"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_d_on_error_can_add_a_last_item_or_translate(asynchronous: bool) -> None:
    def hook(answer: Callable[[], Any]) -> Callable[[Exception], Any]:
        async def later(error: Exception) -> Any:
            await checkpoint()
            return answer()

        return later if asynchronous else lambda error: answer()

    def fail() -> Any:
        raise translated

    translated = KeyError("translated")
    closed: list[str] = []
    source = StreamReader.from_iterable(counted([1, Boom()], closed))
    assert await ending_of(source.convert(str, on_error=hook(lambda: "lost"))) == (["1", "lost"], None)
    source = StreamReader.from_iterable(counted([1, Boom()], closed))
    assert await ending_of(source.convert(str, on_error=hook(fail))) == (["1"], translated)
    source = StreamReader.from_iterable(counted([1, Boom()], closed))
    assert await ending_of(source.convert(str, on_error=hook(lambda: NO_VALUE))) == (["1"], None)


async def test_d_none_is_an_item() -> None:
    assert await items_of(StreamReader.of(None, 1).convert(lambda item: item)) == [None, 1]
