"""Entry points for code without an event loop: scripts, notebooks, and code that a running loop called."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from contextvars import copy_context
from typing import Any, TypeVar

import anyio
from anyio.from_thread import start_blocking_portal

from ..schema import StreamReader

T = TypeVar("T")


def run_sync(function: Callable[[], Awaitable[T]]) -> T:
    """Run an async function to its end and return what it returns, with or without a loop running in this thread.

    With a loop running (a notebook, say) a thread with a loop of its own does it, and this thread waits.
    """

    async def call() -> T:
        return await function()

    if not _loop_is_running():
        return anyio.run(call)
    outcome: list[Any] = []
    context = copy_context()

    def in_thread() -> None:
        try:
            outcome.extend((True, context.run(_run_afresh, call)))
        except BaseException as error:
            outcome.extend((False, error))

    thread = threading.Thread(target=in_thread, name="anabranch-sync")
    thread.start()
    thread.join()
    ok, result = outcome
    if not ok:
        raise result
    return result  # type: ignore[no-any-return]


def _run_afresh(call: Callable[[], Awaitable[T]]) -> T:
    """Run a loop in a context that was copied where another one runs, and that says so."""
    with suppress(ImportError):
        from sniffio import current_async_library_cvar

        current_async_library_cvar.set(None)
    return anyio.run(call)


@contextmanager
def stream_sync(
    open_stream: Callable[[], AbstractAsyncContextManager[StreamReader[T]]],
) -> Generator[Iterator[T], None, None]:
    """Open a stream in a thread with a loop of its own, and give its chunks one by one as they come."""
    context = copy_context()
    with (
        context.run(start_blocking_portal) as portal,
        portal.wrap_async_context_manager(_in_context(context, open_stream)) as reader,
    ):
        yield _chunks(portal, reader)


def _in_context(context: Any, open_stream: Callable[[], Any]) -> Any:
    return context.run(open_stream)


def _chunks(portal: Any, reader: StreamReader[T]) -> Iterator[T]:
    while True:
        try:
            chunk = portal.call(reader.receive)
        except anyio.EndOfStream:
            return
        yield chunk


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        return True
    try:
        import trio
    except ImportError:
        return False
    try:
        trio.lowlevel.current_trio_token()
    except RuntimeError:
        return False
    return True
