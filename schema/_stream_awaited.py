"""Sources that have to be awaited, and how they are closed: while another task waits, or in a cancelled one."""

from __future__ import annotations

import math
from collections.abc import Awaitable
from contextvars import Context
from typing import Any

import anyio

from ._stream_backend import Drive, Interrupted, current_backend, other_than
from ._stream_source import EMPTY, PENDING, Signal, Source

__all__ = ()


class AwaitedSource(Source):
    """A source that moves only inside some task's ``anext``."""

    __slots__ = ("_closing", "_drive", "_holds_scope", "_scope_before")

    plain = False

    def __init__(self) -> None:
        super().__init__()
        self._drive: Drive | None = None  # the step that a task waits for
        self._closing: Signal | None = None  # another task broke it off and waits for its end
        self._holds_scope: bool | None = None  # see _closed; None: not started
        self._scope_before: Any = EMPTY  # during the first step

    @property
    def must_await(self) -> bool:
        return True

    def poll(self) -> Any:
        return self.last_word() if self.done else PENDING

    async def _release(self) -> None:
        """Let go of what the source holds; called once, when the stream has ended or is closed."""
        raise NotImplementedError

    async def _resume(self, awaitable: Any, yielded: Any, context: Context | None = None) -> Any:
        """Finish a step that has to wait; when it is broken off, close everything, and raise."""
        try:
            item = await self._begin_wait(awaitable, yielded, context)
        except BaseException as error:  # noqa: BLE001
            failure = await self._end_wait(error)
        else:
            failure = await self._end_wait(None)
            if failure is None:
                return item
        raise failure

    def _begin_wait(self, awaitable: Any, yielded: Any, context: Context | None) -> Drive:
        """Make what finishes a step that has to wait."""
        if self._drive is not None:
            raise anyio.BusyResourceError("reading from")
        self._drive = current_backend().drive(awaitable, yielded, context)
        return self._drive

    async def _end_wait(self, error: BaseException | None) -> Any:
        """After a step that had to wait, close the source if somebody waits for that; give the error to be raised."""
        self._drive = None
        if self._closing is not None:
            try:
                await self._release()
            finally:
                closing, self._closing = self._closing, None
                closing.fire()
            error = error or anyio.ClosedResourceError()
        if isinstance(error, Interrupted):
            return error.error or anyio.ClosedResourceError()
        return error

    async def aclose(self) -> None:
        if self.closed:
            await self._wait_closed()
            return
        is_open = not (self.done and self.settled)
        self.closed = True
        self.finish()
        drive = self._drive
        if drive is None:
            if is_open:
                await self._release()
                self.is_settled()
            return
        self._closing = Signal()
        if drive.task is not current_backend().current_task():  # else it closes itself, from within its own step
            drive.interrupt()
            await self._wait_closed()

    def interrupt(self) -> None:
        if self._drive is not None:
            self._drive.interrupt()

    def _note_scope_before(self) -> None:
        """Before the first step, note in which cancel scope the task is."""
        if self._holds_scope is None:
            self._holds_scope = False
            self._scope_before = current_backend().innermost_scope()

    def _note_scope(self) -> None:
        """After the first step, note whether what is stepped has entered a cancel scope and not left it."""
        self._holds_scope = current_backend().innermost_scope() is not self._scope_before
        self._scope_before = EMPTY

    async def _closed(self, step: Awaitable[Any]) -> None:
        """Close what has been stepped.

        In a cancelled task this is shielded, so that what is done in a ``finally`` there may wait. Not if it holds a
        cancel scope: it would leave that one inside of ours, and the scopes of a task have to be properly nested.
        """
        try:
            if self._holds_scope is False and anyio.current_effective_deadline() == -math.inf:
                with anyio.CancelScope(shield=True):
                    await step
            else:
                await step
        except BaseExceptionGroup as error:  # from a task group that the generator held open
            failure = other_than(error, GeneratorExit)
            if failure is not None:
                raise failure from None

    async def _wait_closed(self) -> None:
        if self._closing is not None:
            await self._closing.wait_shielded(lambda: self._closing is None)
