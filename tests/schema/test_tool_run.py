"""How a tool runs. Numbers are those of the reference's cases."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Annotated, Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BeforeValidator

from anabranch.schema._tool import tool
from anabranch.schema.errors import ToolArgumentsError

request_id = contextvars.ContextVar("request_id", default="none")


@pytest.mark.anyio
async def test_plain_functions_run_in_a_worker_thread_with_the_callers_context() -> None:
    @tool
    def where() -> tuple[str, int]:
        """Tell."""
        found = request_id.get()
        request_id.set("changed in the tool")
        return found, threading.get_ident()

    request_id.set("r1")
    found, thread = await where.run()
    assert (found, thread != threading.get_ident()) == ("r1", True)
    assert request_id.get() == "r1"


@pytest.mark.anyio
async def test_plain_functions_run_in_place_where_asked() -> None:
    @tool(in_thread=False)
    def where() -> int:
        return threading.get_ident()

    assert await where.run() == threading.get_ident()


@pytest.mark.anyio
async def test_async_functions_run_in_place() -> None:
    @tool
    async def where() -> tuple[str, int]:
        return request_id.get(), threading.get_ident()

    request_id.set("r2")
    assert await where.run() == ("r2", threading.get_ident())


@pytest.mark.anyio
async def test_a_plain_function_may_give_something_to_await() -> None:
    async def inner(n: int) -> int:
        await anyio.lowlevel.checkpoint()
        return n + 1

    @tool
    def outer(n: int) -> Any:
        return inner(n)

    assert await outer.run({"n": 1}) == 2


@pytest.mark.anyio
async def test_an_async_generator_streams() -> None:
    closed: list[str] = []

    @tool
    async def count(n: int) -> AsyncGenerator[int]:
        try:
            for i in range(n):
                yield i
        finally:
            closed.append("closed")

    assert count.streaming
    assert [item async for item in await count.run({"n": 3})] == [0, 1, 2]
    stream = await count.run({"n": 3})
    assert await anext(stream) == 0
    await stream.aclose()
    assert closed == ["closed", "closed"]


@pytest.mark.anyio
@pytest.mark.parametrize("in_thread", [True, False])
async def test_a_plain_generator_streams_from_a_worker_thread(in_thread: bool) -> None:
    threads: list[int] = []

    def count(n: int) -> Iterator[tuple[str, int]]:
        try:
            for i in range(n):
                threads.append(threading.get_ident())
                yield request_id.get(), i
        finally:
            threads.append(threading.get_ident())

    made = tool(count) if in_thread else tool(count, in_thread=False)
    assert made.streaming
    request_id.set("r3")
    assert [item async for item in await made.run({"n": 2})] == [("r3", 0), ("r3", 1)]
    stream = await made.run({"n": 5})
    assert await anext(stream) == ("r3", 0)
    await stream.aclose()
    assert len(threads) == 3 + 2
    assert (threading.get_ident() in threads) is not in_thread


@pytest.mark.anyio
async def test_functions_that_return_an_iterator_stream() -> None:
    @tool
    async def later(n: int) -> AsyncIterator[int]:
        async def chunks() -> AsyncIterator[int]:
            for i in range(n):
                yield i

        return chunks()

    @tool
    def letters(text: str) -> Iterator[str]:
        return iter(text)

    assert later.streaming
    assert letters.streaming
    assert [item async for item in await later.run({"n": 2})] == [0, 1]
    assert [item async for item in await letters.run({"text": "ab"})] == ["a", "b"]


@pytest.mark.anyio
async def test_an_error_of_the_function_comes_out_as_it_is() -> None:
    @tool
    def fail(n: int) -> None:
        raise LookupError(n)

    @tool
    def fail_late(n: int) -> Iterator[int]:
        yield n
        raise LookupError(n)

    with pytest.raises(LookupError, match="7"):
        await fail.run({"n": 7})
    stream = await fail_late.run({"n": 8})
    assert await anext(stream) == 8
    with pytest.raises(LookupError, match="8"):
        await anext(stream)


@pytest.mark.anyio
async def test_case_109_no_arguments_are_an_empty_object() -> None:
    @tool
    async def now() -> str:
        return "noon"

    nothings: list[Any] = ["", "  ", "null", "{}", b"", None, {}]
    for nothing in nothings:
        assert now.validate(nothing) == {}
        assert await now.run(nothing) == "noon"


@pytest.mark.anyio
async def test_bad_arguments_keep_the_function_from_running() -> None:
    ran: list[int] = []

    @tool
    async def act(n: int) -> None:
        ran.append(n)

    with pytest.raises(ToolArgumentsError):
        await act.run('{"n": "x"}')
    assert ran == []


@pytest.mark.anyio
async def test_what_validate_gave_is_not_validated_again() -> None:
    calls: list[Any] = []

    def noted(value: Any) -> Any:
        calls.append(value)
        return value

    @tool
    async def act(n: Annotated[int, BeforeValidator(noted)]) -> int:
        return n

    assert await act.run(act.validate({"n": 3})) == 3
    assert calls == [3]


@pytest.mark.anyio
async def test_a_thread_with_a_timeout_is_left_to_itself() -> None:
    entered, release, done = threading.Event(), threading.Event(), threading.Event()

    @tool(timeout=3)
    def hang() -> None:
        entered.set()
        release.wait(10)
        done.set()

    async with anyio.create_task_group() as group:
        group.start_soon(hang.run)
        await anyio.to_thread.run_sync(entered.wait)
        group.cancel_scope.cancel()
    assert not done.is_set()  # the group is left, and the thread is still at it
    release.set()
    assert await anyio.to_thread.run_sync(done.wait, 10)


@pytest.mark.anyio
async def test_a_thread_without_a_timeout_is_waited_for() -> None:
    entered, release, done = threading.Event(), threading.Event(), threading.Event()

    @tool
    def work() -> None:
        entered.set()
        release.wait(10)
        done.set()

    async with anyio.create_task_group() as group:
        group.start_soon(work.run)
        await anyio.to_thread.run_sync(entered.wait)
        group.cancel_scope.cancel()
        release.set()
    assert done.is_set()
