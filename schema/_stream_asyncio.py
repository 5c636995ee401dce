"""Streams on asyncio."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError, Future, Task, current_task
from asyncio.tasks import (  # documented in "Extending asyncio"
    _enter_task,  # pyright: ignore[reportPrivateUsage]
    _leave_task,  # pyright: ignore[reportPrivateUsage]
)
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from importlib import import_module
from types import coroutine
from typing import Any, NoReturn

from ._stream_backend import Drive, Interrupted, other_than

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
    """Breaks off by cancelling the task, and takes the cancellation back where it arrives, like ``asyncio.timeout``."""

    __slots__ = ("_cancelling", "_taken_back")

    def __init__(self, awaitable: Any, yielded: Any, context: Context | None) -> None:
        task = current_task()
        assert task is not None
        super().__init__(awaitable, yielded, context, task)
        self._cancelling = task.cancelling()
        self._taken_back = False

    def interrupt(self) -> None:
        """Cancel the wait."""
        if not self.interrupted:
            self.interrupted = True
            self.task.cancel()

    def __await__(self) -> Generator[Any, Any, Any]:  # one frame less for each of nested generators
        yielded, context = self._yielded, self._context
        send, throw = self.awaitable.send, self.awaitable.throw
        failure: BaseException | None = None
        try:
            while True:
                try:
                    sent = yield yielded
                except BaseException as error:  # noqa: BLE001  # it goes on into the awaitable
                    if self.interrupted and isinstance(error, CancelledError):
                        self._take_back()
                    yielded = throw(error) if context is None else context.run(throw, error)
                else:
                    yielded = send(sent) if context is None else context.run(send, sent)
        except StopIteration as stop:
            if not self.interrupted:
                return stop.value
        except BaseException as error:
            if not self.interrupted:
                raise
            failure = other_than(error, GeneratorExit, CancelledError)
        self._end(failure)

    def _end(self, failure: BaseException | None) -> NoReturn:
        self._take_back()
        if self.task.cancelling() > self._cancelling:
            raise CancelledError  # a cancellation from elsewhere came at the same time
        raise Interrupted(failure)

    def _take_back(self) -> None:
        if not self._taken_back:
            self._taken_back = True
            self.task.uncancel()


class AsyncioIdentity:
    """Makes steps in the name of a task that sleeps.

    To have a task do one step costs two turns of the event loop, there and back, 10 µs or more; most steps do not wait
    and take a tenth of one. So whoever wants the item takes the step, and ``current_task()`` says meanwhile that it
    is the sleeping task: what the step enters (a cancel scope, a time-out, a task group) belongs to that one, and is
    cancelled there. If the step has to wait after all, the sleeping task is woken to do the waiting. The functions
    are those that the documentation of asyncio ("Extending") gives to those who write tasks of their own.
    """

    __slots__ = ("_context", "_loop", "task")

    def __init__(self, task: Task[Any], context: Context) -> None:
        self.task = task
        self._loop = task.get_loop()
        self._context = context

    def step(self, awaitable: Any) -> Any:
        """Take the first step of an awaitable."""
        loop, task = self._loop, self.task
        caller = current_task(loop)
        if caller is not None:
            _leave_task(loop, caller)
        _enter_task(loop, task)
        try:
            return self._context.run(awaitable.send, None)
        finally:
            _leave_task(loop, task)
            if caller is not None:
                _enter_task(loop, caller)


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

try:
    _task_states: Any = import_module("anyio._backends._asyncio")._task_states
except (ImportError, AttributeError):  # it is private; without it, scopes that generators hold are not seen
    _task_states = dict[Any, Any]()


async def _from_the_start_line(function: Callable[[BaseException | None], Coroutine[Any, Any, None]]) -> None:
    early: BaseException | None = None
    try:
        await _start_line()
    except CancelledError as error:
        early = error
    await function(early)


@coroutine
def _start_line() -> Generator[None]:
    yield


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
        return current_task()

    def innermost_scope(self) -> object:
        """Give the innermost cancel scope of the current task; anyio has no public way to ask."""
        return getattr(_task_states.get(current_task()), "cancel_scope", None)

    def spawn(
        self, function: Callable[[BaseException | None], Coroutine[Any, Any, None]], context: Context
    ) -> AsyncioIdentity:
        """Start a task that belongs to nobody."""
        # A task that is cancelled before its first step never runs. This one has made its first step when it becomes a
        # task: so others can act in its name at once, and it hears of each cancellation.
        started = _from_the_start_line(function)
        started.send(None)
        task = asyncio.get_running_loop().create_task(started, context=context)
        _ambient.add(task)  # the loop itself keeps only a weak reference
        task.add_done_callback(_ambient.discard)
        return AsyncioIdentity(task, context)

    def postbox(self) -> Callable[[Callable[[], None]], object]:
        """Give a function that has another one called by the running loop."""
        return asyncio.get_running_loop().call_soon_threadsafe

    def group(self) -> AsyncioGroup:
        """Make a group of tasks."""
        return AsyncioGroup()
