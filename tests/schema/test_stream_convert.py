"""Conversion (S6): a plain model of it, its law of composition, and its hooks; linear pipes (S7)."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from anabranch.schema import NO_VALUE, StreamError, StreamReader, merge, pipe, stream_scope

pytestmark = pytest.mark.anyio

Ending = type[BaseException] | None


class Boom(Exception):
    pass


class Bang(Exception):
    pass


DROP = "drop"
FAIL = "fail"
# What a function does with an item: a number is added to it, DROP drops it, FAIL raises.
actions = st.one_of(st.integers(1, 3), st.sampled_from([DROP, FAIL, 5]))
tables = st.lists(actions, min_size=1, max_size=4)
hooks = st.sampled_from([None, 100, DROP, FAIL])


def act(action: Any, item: Any, error: type[Exception]) -> Any:
    if action == DROP:
        return NO_VALUE
    if action == FAIL:
        raise error
    return item + action if isinstance(item, int) else action


class Function:
    """A function made of a table, plain or async, with or without really waiting."""

    def __init__(self, table: list[Any], way: str, error: type[Exception] = Boom) -> None:
        self.table = table
        self.way = way
        self.error = error

    def apply(self, item: int) -> Any:
        return act(self.table[item % len(self.table)], item, self.error)

    def given(self) -> Callable[[int], Any]:
        async def asynchronous(item: int) -> Any:
            if self.way == "waits":
                await checkpoint()
            return self.apply(item)

        def returns_a_coroutine(item: int) -> Any:
            return asynchronous(item)

        return {"plain": self.apply, "returns a coroutine": returns_a_coroutine}.get(self.way, asynchronous)


def hook(action: Any, way: str) -> Callable[..., Any] | None:
    if action is None:
        return None

    async def asynchronous(*_: Any) -> Any:
        if way == "waits":
            await checkpoint()
        return act(action, None, Bang)

    return (lambda *_: act(action, None, Bang)) if way == "plain" else asynchronous


ways = st.sampled_from(["plain", "waits", "does not wait", "returns a coroutine"])


def model(items: list[int], ending: Ending, function: Function, on_end: Any, on_error: Any) -> tuple[list[int], Ending]:
    """Say what a conversion gives."""
    got: list[int] = []
    try:
        for item in items:
            value = function.apply(item)
            if value is not NO_VALUE:
                got.append(value)
    except Exception as error:  # noqa: BLE001
        return got, type(error)
    action = on_end if ending is None else on_error
    if action is None:
        return got, ending
    if action == FAIL:
        return got, Bang
    return (got if action == DROP else [*got, action]), None


async def read(reader: StreamReader[Any]) -> tuple[list[Any], Ending]:
    got: list[Any] = []
    try:
        async for item in reader:
            got.append(item)
    except Exception as error:  # noqa: BLE001
        return got, type(error)
    return got, None


def source(kind: str, items: list[int], ending: Ending) -> StreamReader[int]:
    """Make a stream of one of several kinds with these items and this ending."""

    def sync() -> Any:
        yield from items
        if ending is not None:
            raise ending

    async def asynchronous() -> AsyncGenerator[int]:
        for item in items:
            if kind == "waiting generator":
                await checkpoint()
            yield item
        if ending is not None:
            raise ending

    if kind == "iterator":
        return StreamReader.from_iterable(sync())
    return StreamReader.from_iterable(asynchronous())


KINDS = ["iterator", "generator", "waiting generator"]
READINGS: dict[str, Callable[[StreamReader[Any]], StreamReader[Any]]] = {
    "directly": lambda reader: reader,
    "through a copy": lambda reader: reader.copy(1)[0],
    "through a merge": lambda reader: merge([reader]),
}


@pytest.mark.parametrize("reading", list(READINGS))
@given(
    items=st.lists(st.integers(0, 9), max_size=5),
    kind=st.sampled_from(KINDS),
    ending=st.sampled_from([None, Boom]),
    table=tables,
    way=ways,
    on_end=hooks,
    on_error=hooks,
)
async def test_a_conversion_does_what_its_model_does(
    reading: str, items: list[int], kind: str, ending: Ending, table: list[Any], way: str, on_end: Any, on_error: Any
) -> None:
    function = Function(table, way)
    converted = source(kind, items, ending).convert(
        function.given(), on_end=hook(on_end, way), on_error=hook(on_error, way)
    )
    expected = model(items, ending, function, on_end, on_error)
    reader = READINGS[reading](converted)
    assert await read(reader) == expected
    assert await read(reader) == ([], expected[1])


@pytest.mark.parametrize("reading", list(READINGS))
@given(
    items=st.lists(st.integers(0, 9), max_size=5),
    kind=st.sampled_from(KINDS),
    first=tables,
    second=tables,
    way=st.tuples(ways, ways),
)
async def test_two_conversions_are_one_by_their_composition(
    reading: str, items: list[int], kind: str, first: list[Any], second: list[Any], way: tuple[str, str]
) -> None:
    f, g = Function(first, way[0], Boom), Function(second, way[1], Bang)

    def composed(item: int) -> Any:
        value = f.apply(item)
        return value if value is NO_VALUE else g.apply(value)

    twice = source(kind, items, None).convert(f.given()).convert(g.given())
    once = source(kind, items, None).convert(composed)
    assert await read(READINGS[reading](twice)) == await read(READINGS[reading](once))


@pytest.mark.parametrize("ending", [StopIteration, StopAsyncIteration, anyio.EndOfStream, anyio.WouldBlock])
async def test_a_function_cannot_end_its_stream_by_raising_an_end(ending: type[Exception]) -> None:
    def end(item: int = 0) -> int:
        raise ending

    async def end_later(item: int = 0) -> int:
        await checkpoint()
        if ending in (StopIteration, StopAsyncIteration):
            return end()  # Python makes it a RuntimeError
        raise ending

    def fail() -> Any:
        raise Boom
        yield

    for converted in (
        StreamReader.of(1).convert(end),
        StreamReader.of(1).convert(abs, on_end=end),
        StreamReader.from_iterable(fail()).convert(abs, on_error=lambda _: end()),
        StreamReader.of(1).convert(end_later),
    ):
        items, error = await read(converted)
        assert items in ([], [1])
        assert error in (StreamError, RuntimeError)


async def test_partials_and_objects_with_an_async_call_are_async_functions() -> None:
    async def add(number: int, item: int) -> int:
        await checkpoint()
        return item + number

    class Adder:
        async def __call__(self, item: int) -> int:
            await checkpoint()
            return item + 1

    functions: list[Callable[[int], Any]] = [functools.partial(add, 1), Adder(), lambda item: add(1, item)]
    for function in functions:
        (reader,) = StreamReader.of(1, 2).convert(function).copy(1)
        assert await read(reader) == ([2, 3], None)


# S7: a linear pipe of conversions runs where it is read.


@pytest.mark.parametrize("kind", ["of", "iterator", "generator", "filled pipe"])
async def test_a_linear_pipe_costs_no_turn_of_the_event_loop(kind: str) -> None:
    others: list[str] = []

    async def other() -> None:
        others.append("ran")

    async def asynchronous(item: int) -> int:
        return item + 1

    if kind == "of":
        reader = StreamReader.of(*range(100))
    elif kind == "filled pipe":
        reader, writer = pipe[int](100)
        for item in range(100):
            await writer.send(item)
        writer.close()
    else:
        reader = source(kind, list(range(100)), None)
    reader = (
        reader.convert(lambda item: item + 1).convert(asynchronous).convert(lambda item: item if item % 2 else NO_VALUE)
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        assert [item async for item in reader] == [item for item in range(2, 102) if item % 2]
        assert others == []


@pytest.mark.parametrize("scoped", [False, True])
async def test_a_linear_pipe_runs_in_the_task_that_reads_it(scoped: bool) -> None:
    seen: set[int] = set()

    async def generator() -> AsyncGenerator[int]:
        for item in range(4):
            seen.add(anyio.get_current_task().id)
            await checkpoint()
            yield item

    async def read_it() -> None:
        reader = StreamReader.from_iterable(generator()).convert(abs)
        assert [item async for item in reader] == [0, 1, 2, 3]

    if scoped:
        async with stream_scope():
            await read_it()
    else:
        await read_it()
    assert seen == {anyio.get_current_task().id}
