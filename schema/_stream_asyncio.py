"""Streams on asyncio."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, Future, Task
from collections.abc import Awaitable, Callable, Generator
from contextvars import Context
from typing import Any

from ._stream_backend import Drive, Interrupted

__all__ = ()


class AsyncioWaiter:
    """A bare future."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: Future[None] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        """End the wait."""
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> None:
        """Wait until woken."""
        await self._future


class AsyncioDrive(Drive):
    """Breaks off by cancelling the task, and takes the cancellation back where it arrives, as ``asyncio.timeout`` does."""

    __slots__ = ("_cancelling",)

    def __init__(self, awaitable: Any, yielded: Any, context: Context | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        super().__init__(awaitable, yielded, context, task)
        self._cancelling = task.cancelling()

    def interrupt(self) -> None:
        """Cancel the wait."""
        if not self.interrupted:
            self.interrupted = True
            self.task.cancel()

    def __await__(self) -> Generator[Any, Any, Any]:
        yielded, awaitable = self._yielded, self.awaitable
        send, throw = awaitable.send, awaitable.throw
        requested = False
        try:
            while True:
                try:
                    sent = yield yielded
                except BaseException as error:  # noqa: BLE001  # it goes on into the awaitable
                    if self.interrupted and not requested and isinstance(error, CancelledError):
                        requested = True
                        self.task.uncancel()
                    yielded = self._step(throw, error)
                else:
                    yielded = self._step(send, sent)
        except StopIteration as stop:
            if not self.interrupted:
                return stop.value
            failure = None
        except BaseException as error:
            if not self.interrupted:
                raise
            failure = error if isinstance(error, Exception) else None
        if not requested:
            self.task.uncancel()
        if self.task.cancelling() > self._cancelling:
            raise CancelledError  # a cancellation from elsewhere came at the same time
        raise Interrupted(failure)


class AsyncioGroup:
    """A task group of the standard library: entering it costs next to nothing."""

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()
        self._tasks: set[Task[Any]] = set()

    async def __aenter__(self) -> AsyncioGroup:
        await self._group.__aenter__()
        return self

    def start(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Start a task."""

        async def run() -> None:
            await function(*args)

        task = self._group.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self, error: BaseException | None) -> None:
        """Cancel and await all tasks; raise what they raised."""
        for task in tuple(self._tasks):
            task.cancel()
        cancelled = error if isinstance(error, CancelledError) else None  # other errors are not a group's to wrap
        await self._group.__aexit__(type(cancelled) if cancelled else None, cancelled, None)


_ambient: set[Task[None]] = set()


class AsyncioBackend:
    """What asyncio offers."""

    cancelled: type[BaseException] = CancelledError

    def waiter(self) -> AsyncioWaiter:
        """Make a wait for the current task."""
        return AsyncioWaiter()

    def drive(self, awaitable: Any, yielded: Any, context: Context | None) -> Drive:
        """Go on with a half-run awaitable."""
        return AsyncioDrive(awaitable, yielded, context)

    def current_task(self) -> object:
        """Give the current task."""
        return asyncio.current_task()

    def innermost_scope(self) -> object:
        """Give the innermost cancel scope of the current task; anyio has no public way to ask."""
        try:
            from anyio._backends._asyncio import _task_states  # pyright: ignore[reportPrivateUsage]

            state = _task_states.get(asyncio.current_task())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
            return None if state is None else state.cancel_scope
        except (ImportError, AttributeError):
            return None

    def spawn(self, function: Callable[[], Awaitable[None]]) -> None:
        """Start a task that belongs to nobody."""

        async def run() -> None:
            await function()

        task = asyncio.get_running_loop().create_task(run())
        _ambient.add(task)  # the loop itself keeps only a weak reference
        task.add_done_callback(_ambient.discard)

    def group(self) -> AsyncioGroup:
        """Make a group of tasks."""
        return AsyncioGroup()
