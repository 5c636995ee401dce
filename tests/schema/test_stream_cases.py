"""The numbered cases of streams, by number: what the reference does, or what ours does where that is a bug there.

A is the pipe, B copying, C merging, D converting.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from anabranch.schema import NO_VALUE, SourceEnd, StreamReader, merge, pipe

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


async def test_a1_what_was_sent_is_read_in_order_and_the_end_stays() -> None:
    reader, writer = pipe[int](3)
    await writer.send(1)
    await writer.send(2)
    writer.close()
    assert await reader.receive() == 1
    assert await reader.receive() == 2
    for _ in range(3):
        with pytest.raises(anyio.EndOfStream):
            await reader.receive()


async def test_a2_a_rendezvous_blocks_without_a_reader() -> None:
    reader, writer = pipe[int](0)
    with pytest.raises(anyio.WouldBlock):
        writer.send_nowait(1)
    sent: list[int] = []

    async def send() -> None:
        await writer.send(1)
        sent.append(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        await let_others_run()
        assert sent == []
        assert await reader.receive() == 1
        await let_others_run()
        assert sent == [1]
    await reader.aclose()
    writer.close()


async def test_a4_receiving_after_close_says_closed_and_hands_out_nothing() -> None:
    reader, writer = pipe[int](3)
    await writer.send(1)
    await writer.send(2)
    await reader.aclose()
    for _ in range(2):
        with pytest.raises(anyio.ClosedResourceError):
            await reader.receive()
        with pytest.raises(anyio.ClosedResourceError):
            await anext(reader)


async def test_a5_closing_wakes_a_waiting_receive() -> None:
    reader, writer = pipe[int](0)
    async with anyio.create_task_group() as tasks:

        async def receive() -> None:
            with pytest.raises(anyio.ClosedResourceError):
                await reader.receive()

        tasks.start_soon(receive)
        await let_others_run()
        await reader.aclose()
    writer.close()


async def test_a7_closing_a_writer_twice_is_once() -> None:
    reader, writer = pipe[int](1)
    writer.close()
    writer.close()
    await writer.aclose()
    assert await items_of(reader) == []


async def test_a8_sending_to_a_closed_writer_says_closed_whether_the_reader_is_open_or_not() -> None:
    reader, writer = pipe[int](1)
    writer.close()
    with pytest.raises(anyio.ClosedResourceError):
        await writer.send(1)
    with pytest.raises(anyio.ClosedResourceError):
        writer.send_nowait(1)
    await reader.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await writer.send(1)


@pytest.mark.parametrize("end", [anyio.EndOfStream(), StopAsyncIteration(), StopIteration(), anyio.WouldBlock()])
async def test_a10_the_end_cannot_be_sent_as_an_error(end: BaseException) -> None:
    reader, writer = pipe[int](5)
    await writer.send(1)
    with pytest.raises(TypeError, match=r"close\(\) ends it"):
        await writer.fail(end)
    await writer.send(2)
    writer.close()
    assert await items_of(reader) == [1, 2]


async def test_a10_an_item_may_be_any_object_also_an_exception() -> None:
    reader, writer = pipe[Any](5)
    items = [anyio.EndOfStream(), None, StopAsyncIteration, NO_VALUE, Boom()]
    for item in items:
        await writer.send(item)
    writer.close()
    assert await items_of(reader) == items


async def test_a11_a_negative_capacity_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity"):
        pipe[int](-1)


# B. Copy


async def test_b13_a_copy_read_later_sees_the_same() -> None:
    reader, writer = pipe[int](3)
    for item in (1, 2, 3):
        await writer.send(item)
    writer.close()
    first, second = reader.copy(2)
    assert await items_of(first) == [1, 2, 3]
    assert await items_of(second) == [1, 2, 3]
    with pytest.raises(anyio.EndOfStream):
        await second.receive()


async def test_b14_all_copies_get_the_same_error_object_and_nothing_after_it() -> None:
    boom = Boom()
    reader, writer = pipe[int](3)
    await writer.send(1)
    await writer.fail(boom)
    with pytest.raises(anyio.ClosedResourceError):
        await writer.send(2)
    for copy in reader.copy(2):
        assert await ending_of(copy) == ([1], boom)
        with pytest.raises(Boom) as caught:
            await copy.receive()
        assert caught.value is boom


async def test_b16_the_source_is_closed_with_the_last_copy() -> None:
    reader, writer = pipe[int](3)
    first, second = reader.copy(2)
    await first.aclose()
    await writer.send(1)
    await second.aclose()
    with pytest.raises(anyio.BrokenResourceError):
        await writer.send(2)
    writer.close()


async def test_b17_a_copy_closed_twice_counts_once() -> None:
    reader, writer = pipe[int](3)
    first, second = reader.copy(2)
    await first.aclose()
    await first.aclose()
    await writer.send(1)
    assert await second.receive() == 1
    await second.aclose()
    writer.close()


async def test_b19_receiving_from_a_closed_copy_says_closed() -> None:
    first, second = StreamReader.of(1).copy(2)
    await first.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await first.receive()
    assert await items_of(second) == [1]


async def test_b20_copies_start_where_the_reader_stood_which_is_handed_on() -> None:
    reader = StreamReader.of(1, 2, 3)
    assert await reader.receive() == 1
    first, second = reader.copy(2)
    assert await items_of(first) == [2, 3]
    assert await items_of(second) == [2, 3]
    with pytest.raises(Exception, match="was given to copy"):
        await reader.receive()


async def test_b22_a_hundred_copies_half_of_which_stop_early() -> None:
    reader, writer = pipe[int](250)
    copies = reader.copy(100)
    seen: dict[int, list[int]] = {}
    closed: list[int] = []

    async def read(index: int, copy: StreamReader[int]) -> None:
        seen[index] = []
        async with copy:
            async for item in copy:
                seen[index].append(item)
                if index % 2 == 0 and item == index:
                    break
        closed.append(index)

    async with anyio.create_task_group() as tasks:
        for index, copy in enumerate(copies):
            tasks.start_soon(read, index, copy)
        async with writer:
            for item in range(1000):
                await writer.send(item)
    assert len(closed) == 100
    for index in range(100):
        assert seen[index] == list(range(1000 if index % 2 else index + 1))


async def test_b23_copies_at_the_same_place_share_one_pull_and_one_behind_reads_what_is_stored() -> None:
    pulls: list[int] = []

    async def source() -> AsyncIterator[int]:
        for item in range(3):
            pulls.append(item)
            await checkpoint()
            yield item

    first, second, third = StreamReader.from_iterable(source()).copy(3)
    got: list[int] = []

    async def receive(copy: StreamReader[int]) -> None:
        got.append(await copy.receive())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive, first)
        tasks.start_soon(receive, second)
    assert got == [0, 0]
    assert pulls == [0]
    assert await first.receive() == 1
    assert receive_nowait(third) == 0
    assert receive_nowait(third) == 1
    assert pulls == [0, 1]
    for copy in (first, second, third):
        await copy.aclose()


@pytest.mark.parametrize("after", [0, 1])
async def test_b25_all_copies_see_that_the_source_failed(after: int) -> None:
    closed: list[str] = []
    boom = Boom()
    for copy in StreamReader.from_iterable(counted([*range(after), boom], closed)).copy(2):
        assert await ending_of(copy) == (list(range(after)), boom)
    assert closed == ["source"]


async def test_b26_the_items_of_a_slow_copy_are_kept_until_it_is_closed() -> None:
    class Item:
        pass

    def alive() -> int:
        gc.collect()
        return sum(isinstance(thing, Item) for thing in gc.get_objects())

    fast, lazy = StreamReader.from_iterable(Item() for _ in range(1000)).copy(2)
    assert len([None async for _ in fast]) == 1000
    assert alive() == 1000
    for _ in range(400):
        await lazy.receive()
    assert alive() == 600
    await lazy.aclose()
    assert alive() == 0


# C. Merge


async def test_c28_lists_are_merged_one_after_the_other() -> None:
    assert await items_of(merge([StreamReader.of(1, 2), StreamReader.of(3)])) == [1, 2, 3]


async def test_c29_an_error_of_one_source_ends_the_merge() -> None:
    boom = Boom()
    a, a_writer = pipe[int](3)
    b, b_writer = pipe[int](3)
    await a_writer.send(1)
    await a_writer.fail(boom)
    merged = merge([a, b])
    assert await ending_of(merged) == ([1], boom)
    with pytest.raises(anyio.BrokenResourceError):
        await b_writer.send(1)
    b_writer.close()


async def test_c31_at_most_one_item_per_source_is_read_ahead() -> None:
    pulled: list[str] = []

    async def source(name: str) -> AsyncIterator[str]:
        for index in range(9):
            pulled.append(f"{name}{index}")
            await checkpoint()
            yield f"{name}{index}"

    copy, other = StreamReader.from_iterable(source("a")).copy(2)
    merged = merge([copy, StreamReader.from_iterable(source("b")), StreamReader.of("c")])
    await let_others_run()
    assert pulled == []
    for count in range(1, 6):
        await merged.receive()
        await let_others_run()
        assert len(pulled) <= count + 2
    await merged.aclose()
    await other.aclose()


async def test_c32_a_converter_that_raises_ends_the_merge() -> None:
    def convert(item: int) -> int:
        raise Boom

    merged = merge([StreamReader.of(1).convert(convert), StreamReader.of(5)])
    items, error = await ending_of(merged)
    assert isinstance(error, Boom)
    assert items in ([], [5])


async def test_c34_a_labelled_merge_says_which_source_ended() -> None:
    empty, writer = pipe[int](0)
    writer.close()
    items = await items_of(merge({"empty": empty, "data": StreamReader.of(7)}, labels=True))
    assert sorted(items, key=repr) == [("data", 7), SourceEnd("data"), SourceEnd("empty")]
    assert items.index(("data", 7)) < items.index(SourceEnd("data"))


async def test_c35_labels_survive_merging_again() -> None:
    plain, writer = pipe[int](1)
    writer.close()
    inner = merge({"x": StreamReader.of(1)}, labels=True)
    assert await items_of(merge([inner, plain])) == [("x", 1), SourceEnd("x")]
    inner = merge({"x": StreamReader.of(1)}, labels=True)
    assert await items_of(merge({"outer": inner}, labels=True)) == [
        ("outer", ("x", 1)),
        ("outer", SourceEnd("x")),
        SourceEnd("outer"),
    ]


async def test_c37_copies_of_a_labelled_merge_all_see_the_labels() -> None:
    for copy in merge({"x": StreamReader.of(1)}, labels=True).copy(2):
        assert await items_of(copy) == [("x", 1), SourceEnd("x")]


async def test_c38_closing_a_merge_twice_is_once_and_closes_each_source_once() -> None:
    closed: list[str] = []
    merged = merge([StreamReader.from_iterable(counted([1, 2, 3], closed, name)) for name in "ab"])
    await merged.receive()
    await merged.aclose()
    await merged.aclose()
    assert sorted(closed) in (["a"], ["a", "b"])  # one that was never asked for an item has nothing to close
    with pytest.raises(anyio.ClosedResourceError):
        await merged.receive()


async def test_c_a_merge_of_nothing_is_empty() -> None:
    assert await items_of(merge([])) == []
    assert await items_of(merge({}, labels=True)) == []


# D. Convert
