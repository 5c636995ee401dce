"""Streams on trio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, NoReturn

import trio
from outcome import capture
from trio.lowlevel import Abort, current_task, current_trio_token, reschedule, spawn_system_task, wait_task_rescheduled

from ._stream_backend import Drive, Interrupted, other_than

__all__ = ()


class TrioWaiter:
    """A task that sleeps until it is rescheduled."""

    __slots__ = ("_parked", "_task", "_woken")

    def __init__(self) -> None:
        self._task = current_task()
        self._woken = False
        self._parked = False

    def wake(self) -> None:
        """End the wait."""
        if not self._woken:
            self._woken = True
            if self._parked:
                reschedule(self._task)

    async def wait(self) -> None:
        """Wait until woken."""
        if not self._woken:
            self._parked = True
            await wait_task_rescheduled(self._abort)

    def _abort(self, _raise_cancel: Any) -> Abort:
        self._woken = True
        return Abort.SUCCEEDED


def _raise_exit() -> NoReturn:
    raise GeneratorExit


class TrioDrive(Drive):
    """Breaks off in the way in which trio itself cancels: by the abort function that goes with each wait.

    What the awaitable yields when it starts to wait is a message with an abort function. It is replaced by one that
    may be used by either side, trio or ``interrupt``, and by only one of them.
    """

    __slots__ = ("_abort_inner", "_pending")

    def __init__(self, awaitable: Any, yielded: Any, context: Context | None) -> None:
        super().__init__(awaitable, yielded, context, current_task())
        self._abort_inner: Callable[[Any], Abort] | None = None
        self._pending = False

    def interrupt(self) -> None:
        """Raise ``GeneratorExit`` where the awaitable waits, now or when it next does."""
        if not self.interrupted:
            self.interrupted = True
            if self._abort_inner is None or self.task.custom_sleep_data is None:
                self._pending = True  # not waiting, or to go on already
            elif self._abort(_raise_exit) is Abort.SUCCEEDED:
                reschedule(self.task, capture(_raise_exit))

    def _abort(self, raise_cancel: Any) -> Abort:
        abort, self._abort_inner = self._abort_inner, None
        return Abort.FAILED if abort is None else abort(raise_cancel)

    def _wait(self, message: Any) -> Generator[Any, Any, Any]:
        abort = getattr(message, "abort_func", None)
        if abort is None:
            return (yield message)
        self._abort_inner = abort
        if self.task.custom_sleep_data is None:
            self.task.custom_sleep_data = self  # trio sets it to None when the task is to go on
        if self._pending:
            self._pending = False
            if self._abort(_raise_exit) is Abort.SUCCEEDED:
                return capture(_raise_exit)
        try:
            return (yield type(message)(self._abort))
        finally:
            self._abort_inner = None

    def __await__(self) -> Generator[Any, Any, Any]:
        yielded, context = self._yielded, self._context
        send, throw = self.awaitable.send, self.awaitable.throw
        failure: BaseException | None = None
        try:
            while True:
                try:
                    sent = yield from self._wait(yielded)
                except BaseException as error:  # noqa: BLE001  # it goes on into the awaitable
                    yielded = throw(error) if context is None else context.run(throw, error)
                else:
                    yielded = send(sent) if context is None else context.run(send, sent)
        except StopIteration as stop:
            if not self.interrupted:
                return stop.value
        except BaseException as error:
            if not self.interrupted or isinstance(error, trio.Cancelled):
                raise
            failure = other_than(error, GeneratorExit, trio.Cancelled)
        raise Interrupted(failure)


class TrioGroup:
    """A nursery."""

    def __init__(self) -> None:
        self._manager = trio.open_nursery()

    async def __aenter__(self) -> TrioGroup:
        self._nursery = await self._manager.__aenter__()
        return self

    def start(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Start a task."""
        self._nursery.start_soon(function, *args)

    async def close(self, error: BaseException | None) -> None:
        """Cancel and await all tasks; raise what they raised."""
        self._nursery.cancel_scope.cancel()
        cancelled = error if isinstance(error, trio.Cancelled) else None  # other errors are not a nursery's to wrap
        await self._manager.__aexit__(type(cancelled) if cancelled else None, cancelled, None)


class TrioBackend:
    """What trio offers."""

    cancelled: type[BaseException] = trio.Cancelled

    def waiter(self) -> TrioWaiter:
        """Make a wait for the current task."""
        return TrioWaiter()

    def drive(self, awaitable: Any, yielded: Any, context: Context | None) -> Drive:
        """Go on with a half-run awaitable."""
        return TrioDrive(awaitable, yielded, context)

    def current_task(self) -> object:
        """Give the current task."""
        return current_task()

    def innermost_scope(self) -> object:
        """Give the innermost cancel scope of the current task; trio has no public way to ask."""
        return getattr(current_task(), "_cancel_status", None)

    def spawn(self, function: Callable[[BaseException | None], Coroutine[Any, Any, None]], context: Context) -> None:
        """Start a task that belongs to nobody; trio has no public way to run code in another task's name."""
        spawn_system_task(function, None, context=context)

    def postbox(self) -> Callable[[Callable[[], None]], object]:
        """Give a function that has another one called by the running loop."""
        return current_trio_token().run_sync_soon

    def group(self) -> TrioGroup:
        """Make a group of tasks."""
        return TrioGroup()
