"""One task for all steps of a source that several consumers share.

A step of an async generator runs in the task that asks for it. With one consumer that is the right task; with several,
the generator would find itself in another task at each step, and a cancel scope, a task group or an ``asyncio.timeout`` that it
holds open across a ``yield`` would break. Nor may a consumer that is cancelled while it waits take the generator down.
So a shared source has an *owner*: a task, started with the first item that is asked for, that makes every step
and closes the source. Consumers ask it (``poll`` starts a step) and are woken when the item is there.

Invariants:

* O1 at most one item has been pulled and not been taken.
* O2 every step, and the closing, run in the owner.
* O3 a cancellation that reaches the owner is raised in the source: the scopes that a generator holds live in its owner.
* O4 the owner ends when the source ended or the stream was closed, and it never raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from ._stream_backend import Waiter, current_backend
from ._stream_scope import start_owner
from ._stream_source import EMPTY, END, PENDING, Signal, Source

__all__ = ()


class OwnedSource(Source):
    """Makes of a source that must be awaited one that can be polled, by means of an owner task."""

    __slots__ = (
        "_busy",
        "_closing",
        "_ended",
        "_failure",
        "_inner",
        "_parked",
        "_ready",
        "_slot",
        "_started",
        "_watched",
    )

    def __init__(self, inner: Source) -> None:
        super().__init__()
        self._inner = inner
        self._slot: Any = EMPTY  # an item (or END) that was pulled and not taken; written by the owner
        self._busy = False  # a step is under way or asked for
        self._started = False  # the owner runs
        self._closing = False
        self._parked: Waiter | None = None
        self._ready = Signal()
        self._ended = Signal()
        self._failure: Exception | None = None  # raised while the owner closed the source

    def poll(self) -> Any:
        if self.done:
            return self.last_word()
        item = self._slot
        if item is EMPTY:
            if self._busy:
                return PENDING
            item = self._inner.poll()
            if item is PENDING:
                if self._inner.must_await:
                    self._ask()
                return PENDING
        else:
            self._slot = EMPTY
        if item is END:
            if self._inner.error is not None:
                self.fail(self._inner.error)
                self.traceback = self._inner.traceback
            else:
                self.finish()
            return self.last_word()
        return item

    def watch(self, callback: Callable[[], None]) -> None:
        if self._busy or self.done or self._slot is not EMPTY or self._inner.must_await:
            self._ready.add(callback)
        else:
            self._inner.watch(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._ready.discard(callback)
        if not self._inner.must_await:
            self._inner.unwatch(callback)

    def _ask(self) -> None:
        self._busy = True
        if not self._started:
            self._started = True
            start_owner(self._own)
        elif self._parked is not None:
            self._parked.wake()

    async def _own(self) -> None:
        backend = current_backend()
        try:
            while not (self._closing or self._inner.done):
                if self._busy:
                    await self._step(backend.cancelled)
                    continue
                self._parked = backend.waiter()
                try:
                    await self._parked.wait()
                except backend.cancelled as error:
                    self._hand_in(error)
                finally:
                    self._parked = None
        finally:
            try:
                await self._inner.aclose()
            except Exception as error:  # noqa: BLE001  # for who closes the stream
                self._failure = error
            self._started = False
            self._ended.fire()

    def _hand_in(self, error: BaseException) -> None:
        if self._inner.cancel_next(error):
            self._busy = True
        else:
            self._closing = True

    async def _step(self, cancelled: type[BaseException]) -> None:
        try:
            self._slot = await self._inner.anext()
        except StopAsyncIteration:
            self._slot = END
        except BaseException as error:  # noqa: BLE001  # for those who poll
            if not self._inner.done:
                lost = isinstance(error, cancelled)
                self._inner.fail(anyio.BrokenResourceError("the stream was cancelled") if lost else error)
            self._slot = END
        self._busy = False
        self._ready.fire()

    async def aclose(self) -> None:
        if not self.closed:
            self.closed = True
            self.finish()
            self._ready.fire()
        await self.settle()

    async def settle(self) -> None:
        if not self._started:
            await self._inner.aclose()
        else:
            self.drop()
            with anyio.CancelScope(shield=True):
                while self._started:
                    await self._ended.wait()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def drop(self) -> None:
        self._closing = True
        if self._parked is not None:
            self._parked.wake()
        else:
            self._inner.interrupt()


def shared(source: Source) -> Source:
    """Make a source that several consumers may pull from."""
    return source if source.plain else OwnedSource(source)
