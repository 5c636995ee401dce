"""How the function of a tool is run: in place or in a worker thread, once or chunk by chunk.

``async def`` functions and async generators run in place. ``def`` functions may block, so they run in a worker
thread that sees the caller's context variables; a generator is advanced there, one item at a time.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, NamedTuple, cast

from anyio import CancelScope, to_thread

__all__ = ("Runner", "make_runner")

_END = object()


class Runner(NamedTuple):
    """A way to run a function."""

    run: Callable[..., Awaitable[Any]]
    """Takes the arguments by name; gives the result, or an async iterator of chunks."""
    is_async: bool
    """Whether the function runs in place by nature."""
    is_generator: bool
    """Whether it makes chunks by nature."""


def make_runner(function: Callable[..., Any], *, in_thread: bool, abandon: bool) -> Runner:
    """Find out how a function runs.

    Args:
        function: Any callable.
        in_thread: Whether a ``def`` function runs in a worker thread.
        abandon: Whether such a thread is left to itself when the caller is cancelled; else it is waited for.
    """
    call = function
    while isinstance(call, functools.partial):
        call = call.func
    if not inspect.isroutine(call):
        call = type(call).__call__
    if inspect.iscoroutinefunction(call):
        return Runner(function, is_async=True, is_generator=False)
    if inspect.isasyncgenfunction(call):
        return Runner(functools.partial(_start, function), is_async=True, is_generator=True)
    if inspect.isgeneratorfunction(call):
        return Runner(functools.partial(_start_generator, function, in_thread), is_async=False, is_generator=True)
    if in_thread:
        run = functools.partial(_run_in_thread, function, abandon)
    else:
        run = functools.partial(_run_in_place, function)
    return Runner(run, is_async=False, is_generator=False)


async def _start(function: Callable[..., Any], /, **arguments: Any) -> Any:
    return function(**arguments)


async def _start_generator(function: Callable[..., Any], in_thread: bool, /, **arguments: Any) -> Any:
    return _chunks(function(**arguments), in_thread)


async def _run_in_place(function: Callable[..., Any], /, **arguments: Any) -> Any:
    return await _settled(function(**arguments), in_thread=False)


async def _run_in_thread(function: Callable[..., Any], abandon: bool, /, **arguments: Any) -> Any:
    def call() -> tuple[Any]:
        return (function(**arguments),)  # trio refuses a thread's result that is bare and can be awaited

    return await _settled((await to_thread.run_sync(call, abandon_on_cancel=abandon))[0], in_thread=True)


async def _settled(result: Any, *, in_thread: bool) -> Any:
    """Await what a ``def`` function gave to be awaited, and make a stream of an iterator."""
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, Iterator):
        return _chunks(cast("Iterator[object]", result), in_thread)
    return result


async def _chunks(items: Iterator[Any], in_thread: bool) -> AsyncIterator[Any]:
    """Iterate over items that may block, and close their source in the end, come what may."""
    close: Callable[[], Any] | None = getattr(items, "close", None)
    try:
        while True:
            item = await to_thread.run_sync(next, items, _END) if in_thread else next(items, _END)
            if item is _END:
                break
            yield item
    finally:
        if close is not None:
            if in_thread:
                with CancelScope(shield=True):
                    await to_thread.run_sync(close)
            else:
                close()
