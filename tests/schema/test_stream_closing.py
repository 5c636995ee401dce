"""Closing (S2, S4, S9) reaches every source, wakes who waits, lets generators clean up, and leaves nothing running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import nullcontext, suppress
from types import AsyncGeneratorType
from typing import Any, cast

import anyio
import pytest
import trio
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from anabranch.schema import StreamReader, merge, stream_scope

pytestmark = pytest.mark.anyio


class Boom(Exception):
    pass


async def settle() -> None:
    for _ in range(14):
        await checkpoint()


def living_tasks() -> int:
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        return trio.lowlevel.current_statistics().tasks_living


class Leaf:
    """A generator of items, and whether it has come to its end properly."""

    def __init__(self, items: int = 3, *, waits: bool = True, fails: bool = False, holds: bool = False) -> None:
        self.waits = waits
        self.fails = fails
        self.holds = holds
        self.started = False
        self.cleaned = self.waited = 0
        self.broken_off = False
        self.generator = self.run(items)
        self.reader = StreamReader.from_iterable(self.generator)

    async def run(self, items: int) -> AsyncGenerator[int]:
        self.started = True
        try:
            with anyio.CancelScope() if self.holds else memoryview(b""):
                for item in range(items):
                    if self.waits:
                        await checkpoint()
                    yield item
                if self.fails:
                    raise Boom
        except anyio.get_cancelled_exc_class():
            self.broken_off = True  # its reader was cancelled in the middle of a step: it is cancelled, not closed
            raise
        finally:
            self.cleaned += 1
            try:
                await checkpoint()
                await checkpoint()
                self.waited += 1
            except BaseException:
                self.broken_off = True  # it was closed when it was about to end
                raise

    def assert_closed(self) -> None:
        assert cast("AsyncGeneratorType[int]", self.generator).ag_frame is None
        assert self.cleaned == self.started
        assert self.waited == self.started or self.broken_off


Build = Callable[[list[Leaf], bool], list[StreamReader[Any]]]


async def slowly(item: Any) -> Any:
    await checkpoint()
    return item


def leaves(waits: bool, fails: bool, items: int) -> Build:
    def build(made: list[Leaf], holds: bool) -> list[StreamReader[Any]]:
        made.append(Leaf(items, waits=waits, fails=fails, holds=holds))
        return [made[-1].reader]

    return build


def converted(inner: Build, asynchronous: bool) -> Build:
    return lambda made, holds: [
        reader.convert(slowly if asynchronous else lambda item: item) for reader in inner(made, holds)
    ]


def copied(inner: Build, count: int) -> Build:
    return lambda made, holds: [copy for reader in inner(made, holds) for copy in reader.copy(count)]


def merged(inners: list[Build]) -> Build:
    return lambda made, holds: [merge([reader for inner in inners for reader in inner(made, holds)])]


pipelines = st.recursive(
    st.builds(leaves, st.booleans(), st.booleans(), st.integers(0, 4)),
    lambda inner: st.one_of(
        st.builds(converted, inner, st.booleans()),
        st.builds(copied, inner, st.integers(1, 3)),
        st.builds(merged, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=4,
)


async def read_some(reader: StreamReader[Any], scope: anyio.CancelScope) -> None:
    endings = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.BusyResourceError, Boom)
    with scope, suppress(*endings):
        await reader.receive()


@given(
    pipeline=pipelines,
    holds=st.booleans(),
    schedule=st.lists(
        st.tuples(st.sampled_from(["read", "read", "read", "cancel", "close"]), st.integers(0, 5)), max_size=15
    ),
    pauses=st.lists(st.integers(0, 3), min_size=15, max_size=15),
    at_last=st.sampled_from(["close", "scope", "drain", "cancelled scope"]),
)
async def test_whatever_is_done_to_a_pipeline_closing_it_closes_all(
    pipeline: Build, holds: bool, schedule: list[tuple[str, int]], pauses: list[int], at_last: str
) -> None:
    tasks_before = living_tasks()
    made: list[Leaf] = []
    with anyio.CancelScope() as outer:
        async with stream_scope() if "scope" in at_last else nullcontext():
            readers = pipeline(made, holds)
            if holds:  # a scope that is held is a matter of one task: see the docstring of StreamReader
                readers = [copy for reader in readers for copy in reader.copy(1)]
            await play(readers, schedule, pauses)
            if at_last == "close":
                for reader in readers:
                    await reader.aclose()
            elif at_last == "drain":
                for reader in readers:
                    await drain(reader)
            elif at_last == "cancelled scope":
                outer.cancel()
    for leaf in made:
        leaf.assert_closed()
    assert living_tasks() == tasks_before


async def play(readers: list[StreamReader[Any]], schedule: list[tuple[str, int]], pauses: list[int]) -> None:
    async with anyio.create_task_group() as tasks:
        scopes: dict[int, anyio.CancelScope] = {}
        for (step, index), pause in zip(schedule, pauses, strict=False):
            index %= len(readers)
            if step == "read":
                scopes[index] = anyio.CancelScope()
                tasks.start_soon(read_some, readers[index], scopes[index])
            elif step == "cancel" and index in scopes:
                scopes[index].cancel()
            elif step == "close":
                await readers[index].aclose()
            for _ in range(pause):
                await checkpoint()


async def drain(reader: StreamReader[Any]) -> None:
    with suppress(Boom, anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for _ in reader:
            pass


# Closing wakes who waits.


async def never() -> AsyncGenerator[int]:
    try:
        yield 0
        await anyio.sleep_forever()
    finally:
        await checkpoint()


class Endless:
    def __aiter__(self) -> Endless:
        return self

    async def __anext__(self) -> int:
        await anyio.sleep_forever()
        return 1


async def wait_for_ever(item: int) -> int:
    await anyio.sleep_forever()
    return item


WAITING: dict[str, Callable[[], StreamReader[int]]] = {
    "generator": lambda: StreamReader.from_iterable(never()),
    "converted generator": lambda: StreamReader.from_iterable(never()).convert(abs),
    "foreign iterator": lambda: StreamReader.from_iterable(Endless()),
    "async function": lambda: StreamReader.of(1).convert(wait_for_ever),
    "async hook": lambda: StreamReader.of(1).convert(abs, on_end=anyio.sleep_forever),
    "copy of a generator": lambda: StreamReader.from_iterable(never()).copy(1)[0],
    "copy of an async function": lambda: StreamReader.of(1).convert(wait_for_ever).copy(1)[0],
    "merged generators": lambda: merge([StreamReader.from_iterable(never()), StreamReader.from_iterable(never())]),
    "converted merge": lambda: merge([StreamReader.from_iterable(Endless())]).convert(abs),
}


@pytest.mark.parametrize("closers", [1, 2])
@pytest.mark.parametrize("kind", list(WAITING))
async def test_closing_wakes_a_waiting_receive(kind: str, closers: int) -> None:
    reader = WAITING[kind]()
    outcomes: list[str] = []

    async def receive() -> None:
        try:
            while True:
                await reader.receive()
        except anyio.ClosedResourceError:
            outcomes.append("closed")

    async def close() -> None:
        await settle()
        await reader.aclose()
        outcomes.append("done")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        for _ in range(closers):
            tasks.start_soon(close)
    assert sorted(outcomes) == ["closed", *["done"] * closers]
    with pytest.raises(anyio.ClosedResourceError):
        await reader.receive()
    await reader.aclose()


async def test_a_generator_that_is_closed_while_it_waits_may_wait_in_its_finally_and_is_done_when_aclose_returns() -> (
    None
):
    log: list[str] = []

    async def generator() -> AsyncGenerator[int]:
        try:
            await anyio.sleep_forever()
            yield 1
        finally:
            for turn in range(5):
                await checkpoint()
                log.append(f"turn {turn}")

    reader = StreamReader.from_iterable(generator())

    async def receive() -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await reader.receive()
        log.append("woken")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        await settle()
        await reader.aclose()
        log.append("closed")
    assert log[:5] == [f"turn {turn}" for turn in range(5)]
    assert sorted(log[5:]) == ["closed", "woken"]


async def test_a_generator_that_will_not_stop_is_closed_after_the_step() -> None:
    async def stubborn() -> AsyncGenerator[int]:
        for item in range(3):
            with suppress(BaseException):
                await anyio.sleep_forever()
            yield item

    reader = StreamReader.from_iterable(stubborn())
    async with anyio.create_task_group() as tasks:

        async def receive() -> None:
            with pytest.raises(anyio.ClosedResourceError):
                await reader.receive()

        tasks.start_soon(receive)
        await settle()
        await reader.aclose()


@pytest.mark.parametrize("wrap", ["plain", "converted", "copied", "merged"])
async def test_a_generator_may_wait_in_its_finally_though_its_reader_is_cancelled(wrap: str) -> None:
    leaf = Leaf()
    reader: StreamReader[Any] = leaf.reader
    if wrap == "converted":
        reader = reader.convert(slowly)
    elif wrap == "copied":
        (reader,) = reader.copy(1)
    elif wrap == "merged":
        reader = merge([reader])
    with anyio.CancelScope() as scope:
        async with reader:
            async for _ in reader:
                scope.cancel()
                await checkpoint()
    assert scope.cancelled_caught
    leaf.assert_closed()
    assert leaf.waited == 1


@pytest.mark.parametrize("leave", ["break", "error", "cancel"])
async def test_a_generator_that_holds_a_scope_can_be_closed_in_a_cancelled_task(leave: str) -> None:
    left: list[bool] = []

    async def holding() -> AsyncGenerator[int]:
        with anyio.CancelScope():
            try:
                while True:
                    yield 1
            finally:
                left.append(True)

    with anyio.CancelScope() as scope:
        try:
            async with StreamReader.from_iterable(holding()) as reader:
                async for _ in reader:
                    if leave == "break":
                        break
                    if leave == "error":
                        raise Boom
                    scope.cancel()
                    await checkpoint()
        except Boom:
            pass
    assert left == [True]
    await checkpoint()


async def test_errors_raised_while_closing_reach_who_closes_after_all_is_closed() -> None:
    async def bad(name: str, closed: list[str]) -> AsyncGenerator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(name)
            raise ValueError(name)

    closed: list[str] = []
    for name, reader in {
        "plain": StreamReader.from_iterable(bad("plain", closed)),
        "converted": StreamReader.from_iterable(bad("converted", closed)).convert(abs),
        "copied": StreamReader.from_iterable(bad("copied", closed)).copy(1)[0],
    }.items():
        await reader.receive()
        with pytest.raises(ValueError, match=name):
            await reader.aclose()
        await reader.aclose()
    both = merge([StreamReader.from_iterable(bad(name, closed)) for name in "ab"])
    for _ in range(2):
        await both.receive()
    with pytest.raises(ExceptionGroup, match="while they were closed"):
        await both.aclose()
    assert sorted(closed[3:]) == ["a", "b"]


async def test_the_error_of_a_stream_comes_before_what_its_closing_raises() -> None:
    async def bad() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            raise ValueError("closing")

    def fail(item: int) -> int:
        raise Boom

    with pytest.raises(Boom):
        await StreamReader.from_iterable(bad()).convert(fail).receive()
    with pytest.raises(Boom):
        await merge([StreamReader.from_iterable(bad()).convert(fail)]).receive()


async def test_closing_what_a_reader_was_before_it_was_handed_on_closes_what_it_became() -> None:
    becomes: list[Callable[[StreamReader[int]], Sequence[StreamReader[int]]]] = [
        lambda reader: [reader.convert(abs)],
        lambda reader: reader.copy(2),
        lambda reader: [merge([reader])],
    ]
    for become in becomes:
        leaf = Leaf()
        async with leaf.reader:
            results = become(leaf.reader)
            await results[0].receive()
        leaf.assert_closed()
        for result in results:
            with pytest.raises(anyio.ClosedResourceError):
                await result.receive()
