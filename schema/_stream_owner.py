"""One task for all steps of a source that several consumers share.

A step of an async generator runs in the task that asks for it. With one consumer that is the right task; with several,
the generator would find itself in another task at each step, and a cancel scope, a task group or an
``asyncio.timeout`` that it holds open across a ``yield`` would break. Nor may a consumer that is cancelled while it
waits take the generator down. So a shared source has an *owner*: a task, started with the first item that is asked
for, that makes every step and closes the source. Consumers ask it (``poll`` starts a step) and are woken when the
item is there.

Invariants:

* O1 at most one item has been pulled and not been taken.
* O2 every step, and the closing, run in the owner.
* O3 a cancellation that reaches the owner is raised in the source: the scopes that a generator holds live in its owner.
* O4 the owner ends when the source ended or the stream was closed, and it never raises.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any

import anyio

from ._stream_backend import Backend, Identity, Rest, Waiter, current_backend, is_cancellation
from ._stream_scope import current_scope
from ._stream_source import EMPTY, END, PENDING, Postbox, Signal, Source

__all__ = ()


class OwnedSource(Source):
    """Makes of a source that must be awaited one that can be polled, by means of an owner task."""

    __slots__ = (
        "_busy", "_closing", "_context", "_ended", "_failure", "_identity", "_inner", "_parked", "_ready", "_rest",
        "_scope", "_slot", "_started", "_task",
    )  # fmt: skip

    postbox: Postbox | None

    def __init__(self, inner: Source) -> None:
        super().__init__()
        self._inner = inner
        self._slot: Any = EMPTY  # an item, or END, that was pulled and not yet taken
        self._busy = False  # a step is under way or asked for
        self._rest: tuple[Any, Any] | None = None  # a step that a consumer began, for the owner to finish
        self._started = False  # there is an owner
        self._task: object = None  # it
        self._closing = False  # the owner is to end
        self._context = copy_context()  # in which all steps run
        self._scope = current_scope()  # which awaits the owner
        self._identity: Identity | None = None  # lets consumers make steps in the owner's name
        self._parked: Waiter | None = None  # how to wake the owner, while it sleeps
        self._ready = Signal()
        self._ended = Signal()
        self._failure: BaseException | None = None  # raised while the owner closed the source

    def poll(self) -> Any:
        if self.done:
            return self.last_word()
        item = self._slot
        if item is EMPTY:
            if self._busy:
                return PENDING
            try:
                item = self._inner.poll()
            except BaseException as error:  # noqa: BLE001  # _end raises it
                self._note_ending(error)
                item = END
            if item is PENDING:
                if not self._inner.must_await:
                    return PENDING
                item = self._begin_step()
                if item is PENDING:
                    return PENDING
        else:
            self._slot = EMPTY
        return self._end() if item is END else item

    def _end(self) -> Any:
        self.end_like(self._inner)
        if self._started:
            self.settled = False
            self._wake()  # to end
        return self.last_word()

    def watch(self, callback: Callable[[], None]) -> None:
        if self._busy or self.done or self._slot is not EMPTY or self._inner.must_await:
            self._ready.add(callback)
        else:
            self._inner.watch(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._ready.discard(callback)
        if not self._inner.must_await:
            self._inner.unwatch(callback)

    # What consumers do.

    def _begin_step(self) -> Any:
        """Make a step in the owner's name, where that can be done; otherwise, and if it has to wait, wake the owner."""
        self._busy = True
        if not self._started:
            self._start_owner()
        if self._identity is None:
            self._wake()
            return PENDING
        step = self._inner.anext()
        try:
            yielded = self._identity.step(step)
        except StopIteration as stop:
            self._busy = False
            return stop.value if not self.closed else self.last_word()  # closed in its own step
        except BaseException as error:  # noqa: BLE001  # _end raises it
            self._busy = False
            self._note_ending(error)
            return END
        self._rest = (step, yielded)
        self._wake()
        return PENDING

    def _start_owner(self) -> None:
        backend = current_backend()
        self.postbox = backend.postbox()
        self._identity = backend.spawn(self._own, self._context)
        self._task = self._identity.task if self._identity is not None else None
        self._started = True
        if self._scope is not None:
            self._scope.await_owner(self)

    def _wake(self) -> None:
        if self._parked is not None:
            self._parked.wake()

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
            if self._task is current_backend().current_task():
                return  # closed by the source itself, in one of its steps: the owner ends when that has
            await self._ended.wait_shielded(lambda: not self._started)
        self.is_settled()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def find_postbox(self) -> Postbox | None:
        return self.postbox or self._inner.find_postbox()

    def drop(self) -> None:
        self._closing = True
        if not self._started:
            self._inner.drop()
        else:
            if self._busy:
                self._inner.interrupt()
            self._wake()

    # What the owner does.

    async def _own(self, cancellation: BaseException | None) -> None:
        backend = current_backend()
        self._task = backend.current_task()
        try:
            while self._rest is not None or not (self._closing or self._inner.done):
                if not self._busy and cancellation is None:
                    cancellation = await self._sleep(backend)
                if self._rest is not None:
                    (step, yielded), self._rest = self._rest, None
                    await self._finish_step(Rest(step, yielded, cancellation))
                elif cancellation is not None:
                    await self._pass_on(cancellation)
                elif self._busy:
                    await self._finish_step(self._inner.anext())
                cancellation = None
        finally:
            self._identity = None
            await self._close_inner()

    async def _sleep(self, backend: Backend) -> BaseException | None:
        """Wait for work, and give the cancellation that came instead."""
        self._parked = backend.waiter()
        try:
            await self._parked.wait()
        except backend.cancelled as cancellation:
            return cancellation
        finally:
            self._parked = None
        return None

    async def _finish_step(self, step: Awaitable[Any]) -> None:
        try:
            self._slot = await step
        except BaseException as error:  # noqa: BLE001  # _end raises it
            self._note_ending(error)
            self._slot = END
        self._busy = False
        self._ready.fire()

    async def _pass_on(self, cancellation: BaseException) -> None:
        """Raise a cancellation of the owner in the source: it comes from a scope held there, or from outside."""
        if self._inner.cancel_next(cancellation):
            self._busy = True
            await self._finish_step(self._inner.anext())
        else:
            self._closing = True

    def _note_ending(self, error: BaseException) -> None:
        if not isinstance(error, StopAsyncIteration) and not self._inner.done:
            lost = is_cancellation(error)
            self._inner.fail(anyio.BrokenResourceError("the stream was cancelled") if lost else error)

    async def _close_inner(self) -> None:
        try:
            if not (self._inner.done or self._closing):
                self._inner.fail(anyio.BrokenResourceError("the stream was cancelled"))
            await self._inner.aclose()
        except BaseException as error:  # noqa: BLE001  # for who closes the stream
            self._failure = error
        self._started = False
        if self._scope is not None:
            self._scope.forget_owner(self)
        self._ended.fire()
        self._ready.fire()


def shared(source: Source) -> Source:
    """Make a source that several consumers may pull from."""
    return source if source.plain else OwnedSource(source)
