"""Generators that several consumers share: one task makes all steps, whatever they hold open across a ``yield``."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from anabranch.schema import StreamReader, merge, pipe, stream_scope

pytestmark = pytest.mark.anyio

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


async def settle() -> None:
    for _ in range(14):
        await checkpoint()


async def read_all(readers: tuple[StreamReader[Any], ...]) -> list[list[Any]]:
    """Read all in tasks of their own."""
    results: list[list[Any]] = [[] for _ in readers]

    async def read(index: int, reader: StreamReader[Any]) -> None:
        async for item in reader:
            results[index].append(item)

    async with anyio.create_task_group() as tasks:
        for index, reader in enumerate(readers):
            tasks.start_soon(read, index, reader)
    return results


@asynccontextmanager
async def a_task_group_with_a_child() -> AsyncGenerator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.sleep_forever)
        yield
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def a_cancel_scope() -> AsyncGenerator[None]:
    with anyio.move_on_after(1000):
        yield


@asynccontextmanager
async def an_asyncio_timeout() -> AsyncGenerator[None]:
    async with asyncio.timeout(1000) if in_asyncio() else a_cancel_scope():
        yield


def in_asyncio() -> bool:
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


HELD = [a_task_group_with_a_child, a_cancel_scope, an_asyncio_timeout]


@pytest.mark.parametrize("how", ["copied", "merged", "copied and converted", "merged copies"])
@pytest.mark.parametrize("waits", ["never", "always", "sometimes"])
@pytest.mark.parametrize("held", HELD)
async def test_a_shared_generator_finds_itself_in_one_task(held: Any, waits: str, how: str) -> None:
    tasks: set[int] = set()

    async def source() -> AsyncGenerator[int]:
        tasks.add(anyio.get_current_task().id)
        try:
            async with held():
                for item in range(9):
                    if waits == "always" or (waits == "sometimes" and item % 3 == 0):
                        await checkpoint()
                    tasks.add(anyio.get_current_task().id)
                    yield item
                    tasks.add(anyio.get_current_task().id)
        finally:
            await checkpoint()
            tasks.add(anyio.get_current_task().id)

    reader = StreamReader.from_iterable(source())
    if how == "copied":
        assert await read_all(reader.copy(3)) == [list(range(9))] * 3
    elif how == "merged":
        assert await read_all((merge([reader]),)) == [list(range(9))]
    elif how == "copied and converted":
        assert await read_all(reader.convert(str).copy(2)) == [[*"012345678"]] * 2
    else:
        assert await read_all((merge([*reader.copy(2)]),)) == [[item for item in range(9) for _ in range(2)]]
    assert len(tasks) == 1
    assert anyio.get_current_task().id not in tasks


@pytest.mark.parametrize("early", [0, 1, 4])
@pytest.mark.parametrize("held", HELD)
async def test_a_shared_generator_is_closed_in_its_task_when_it_is_given_up(held: Any, early: int) -> None:
    tasks: list[int] = []

    async def source() -> AsyncGenerator[int]:
        tasks.append(anyio.get_current_task().id)
        async with held():
            try:
                for item in range(9):
                    await checkpoint()
                    yield item
            finally:
                await checkpoint()
                tasks.append(anyio.get_current_task().id)

    copies = StreamReader.from_iterable(source()).copy(2)
    for copy in copies:
        async with copy:
            for _ in range(early):
                await copy.receive()
    assert tasks in ([], [tasks[0] if tasks else 0] * 2)


async def test_a_context_variable_can_be_set_and_reset_across_a_yield() -> None:
    seen: list[str] = []

    async def source() -> AsyncGenerator[int]:
        token = variable.set("inside")
        try:
            for item in range(4):
                if item % 2:
                    await checkpoint()
                seen.append(variable.get())
                yield item
        finally:
            variable.reset(token)
            seen.append(variable.get())

    variable.set("maker")
    copies = StreamReader.from_iterable(source()).copy(2)
    variable.set("reader")
    assert await read_all(copies) == [[0, 1, 2, 3]] * 2
    assert seen == ["inside"] * 4 + ["maker"]
    assert variable.get() == "reader"


@pytest.mark.parametrize("shared", [False, True])
async def test_a_given_context_is_that_of_every_step(shared: bool) -> None:
    seen: list[str] = []

    async def source() -> AsyncGenerator[int]:
        try:
            for item in range(4):
                seen.append(variable.get())
                variable.set(f"step {item}")
                if item % 2:
                    await checkpoint()
                yield item
        finally:
            await checkpoint()
            seen.append(variable.get())

    context = contextvars.copy_context()
    context.run(variable.set, "given")
    reader: StreamReader[int] = StreamReader._from_generator(source(), context=context)  # pyright: ignore[reportPrivateUsage]
    if shared:
        (reader,) = reader.copy(1)
    variable.set("reader")
    for _ in range(3):
        await reader.receive()
    await reader.aclose()
    assert seen == ["given", "step 0", "step 1", "step 2"]
    assert context[variable] == "step 2"
    assert variable.get() == "reader"


@pytest.mark.parametrize("moment", ["while it waits", "between two steps"])
async def test_a_scope_that_a_shared_generator_holds_can_be_cancelled(moment: str) -> None:
    held = anyio.CancelScope()

    async def source() -> AsyncGenerator[str]:
        with held:
            yield "in the scope"
            await anyio.sleep_forever()
        yield "after the scope"
        await checkpoint()
        yield "the end"

    (reader,) = StreamReader.from_iterable(source()).copy(1)
    assert await reader.receive() == "in the scope"

    async def cancel() -> None:
        await settle()
        held.cancel()

    if moment == "between two steps":
        held.cancel()
        await settle()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel)
        assert [item async for item in reader] == ["after the scope", "the end"]


@pytest.mark.virtual_time
async def test_a_time_limit_that_a_shared_generator_holds_runs_out() -> None:
    async def source() -> AsyncGenerator[str]:
        with anyio.move_on_after(10):
            yield "in time"
            await anyio.sleep(60)
        yield "too late"

    first, second = StreamReader.from_iterable(source()).copy(2)
    assert await read_all((first, second)) == [["in time", "too late"]] * 2


@pytest.mark.virtual_time
@pytest.mark.parametrize("anyio_backend", [("asyncio", {})])
async def test_an_asyncio_timeout_that_a_shared_generator_holds_runs_out_in_it() -> None:
    async def source(log: list[str]) -> AsyncGenerator[str]:
        try:
            async with asyncio.timeout(0.01):
                yield "in time"
                await asyncio.sleep(60)
        except TimeoutError:
            log.append("timed out")
        yield "too late"

    log: list[str] = []
    first, second = StreamReader.from_iterable(source(log)).copy(2)
    assert await read_all((first, second)) == [["in time", "too late"]] * 2
    (third,) = StreamReader.from_iterable(source(log)).copy(1)
    assert await third.receive() == "in time"
    await asyncio.sleep(0.1)  # it runs out while nobody asks
    assert await third.receive() == "too late"
    assert log == ["timed out"] * 2
    await third.aclose()


async def test_a_consumer_that_is_cancelled_does_not_hurt_its_siblings() -> None:
    go = anyio.Event()

    async def source() -> AsyncGenerator[int]:
        with anyio.CancelScope():
            yield 0
            await go.wait()
            yield 1

    first, second = StreamReader.from_iterable(source()).copy(2)
    got: list[int] = []

    async def read(reader: StreamReader[int]) -> None:
        async with reader:
            async for item in reader:
                got.append(item)

    async with anyio.create_task_group() as outer:
        outer.start_soon(read, second)
        async with anyio.create_task_group() as inner:
            inner.start_soon(read, first)
            await settle()
            inner.cancel_scope.cancel()
        go.set()
    assert got == [0, 0, 1]


async def test_an_owner_ends_with_its_source_though_nobody_waits_for_that() -> None:
    async def source() -> AsyncGenerator[int]:
        yield 1

    (copy,) = StreamReader.from_iterable(source()).copy(1)
    got: list[int] = []
    with suppress(anyio.EndOfStream):
        while True:
            with suppress(anyio.WouldBlock):
                got.append(copy._receive_nowait())  # pyright: ignore[reportPrivateUsage]
            await checkpoint()
    assert got == [1]
    await settle()  # the test would fail for a task that is left


async def test_a_generator_can_close_the_copies_of_itself() -> None:
    copies: tuple[StreamReader[int], ...] = ()

    async def source() -> AsyncGenerator[int]:
        yield 1
        for copy in copies:
            await copy.aclose()
        yield 2

    copies = StreamReader.from_iterable(source()).copy(2)
    for copy in copies:
        assert await copy.receive() == 1
    with pytest.raises(anyio.ClosedResourceError):
        await copies[0].receive()
    await settle()


async def test_a_shared_generator_may_read_another_one() -> None:
    async def inner() -> AsyncGenerator[int]:
        with anyio.CancelScope():
            for item in range(5):
                yield item

    async def outer(reader: StreamReader[int]) -> AsyncGenerator[int]:
        with anyio.CancelScope():
            async with reader:
                async for item in reader:
                    yield item

    first, second = StreamReader.from_iterable(inner()).copy(2)
    copies = StreamReader.from_iterable(outer(first)).copy(2)
    assert await read_all((*copies, second)) == [list(range(5))] * 3


async def test_streams_opened_in_a_scope_end_with_it_and_those_opened_outside_do_not() -> None:
    closed: list[str] = []

    async def source(name: str) -> AsyncGenerator[int]:
        try:
            while True:
                await checkpoint()
                yield 1
        finally:
            await checkpoint()
            closed.append(name)

    (outside,) = StreamReader.from_iterable(source("outside")).copy(1)
    async with stream_scope():
        plain = StreamReader.from_iterable(source("plain"))
        first, second = StreamReader.from_iterable(source("copied")).copy(2)
        merged = merge([StreamReader.from_iterable(source("merged"))])
        read, written = pipe[int](1)
        for reader in (plain, first, merged, outside):
            await reader.receive()
        async with stream_scope():
            nested = StreamReader.from_iterable(source("nested")).convert(abs)
            await nested.receive()
        assert closed == ["nested"]
        assert await plain.receive() == 1
    assert sorted(closed) == ["copied", "merged", "nested", "plain"]
    for reader in (plain, first, second, merged, read, nested):
        with pytest.raises(anyio.ClosedResourceError):
            await reader.receive()
    with pytest.raises(anyio.BrokenResourceError):
        await written.send(1)
    written.close()
    assert await outside.receive() == 1
    await outside.aclose()


async def test_a_scope_cancels_and_awaits_what_was_started_in_it() -> None:
    log: list[str] = []

    async def forever(name: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            log.append(name)

    async with stream_scope() as scope:
        scope.start_soon(forever, "a")
        scope.start_soon(forever, "b")
        await settle()
    assert sorted(log) == ["a", "b"]
    with pytest.raises(RuntimeError, match="not open"):
        scope.start_soon(forever, "c")


async def test_a_task_of_a_scope_that_fails_cancels_the_body() -> None:
    async def fail() -> None:
        raise ValueError("task")

    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012
        async with stream_scope() as scope:
            scope.start_soon(fail)
            await anyio.sleep_forever()
    assert isinstance(caught.value.exceptions[0], ValueError)
    await checkpoint()


async def test_what_the_body_of_a_scope_raises_comes_out_as_it_is() -> None:
    with pytest.raises(ValueError, match="body"):  # noqa: PT012
        async with stream_scope() as scope:
            scope.start_soon(anyio.sleep_forever)
            raise ValueError("body")


async def test_a_cancelled_scope_closes_its_streams_and_they_may_wait() -> None:
    log: list[str] = []

    async def source() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            await checkpoint()
            log.append("closed")

    with anyio.CancelScope() as cancel:
        async with stream_scope():
            reader = StreamReader.from_iterable(source())
            (copy,) = StreamReader.from_iterable(source()).copy(1)
            await reader.receive()
            await copy.receive()
            cancel.cancel()
            await checkpoint()
    assert cancel.cancelled_caught
    assert log == ["closed", "closed"]


async def test_a_scope_can_be_entered_once() -> None:
    scope = stream_scope()
    async with scope:
        pass
    with pytest.raises(RuntimeError, match="once"):
        await scope.__aenter__()
