"""What a reader reads from: the contract that all kinds of streams keep, and the marks that they use.

A :class:`~anabranch.schema.StreamReader` is a thin face; behind it stands a *source*. Sources stack (a converted
source pulls from another one) and nothing is pumped: an item moves when somebody asks for it. There are two ways
to ask.

* ``poll()`` never waits. It gives an item, ``END``, or ``PENDING``; an error is raised.
* ``anext()`` waits, and raises ``StopAsyncIteration`` at the end, so that ``async for`` pays for no translation.

After ``PENDING`` there are two ways to go on, and ``must_await`` says which. Where it is False, something else moves
the stream (a writer, a sibling, an owner task): ``watch`` a callback and poll again when it was called. Where it is
True, only an ``anext()`` in some task does, for example because the next item is a step of an async generator.

Invariants of every source:

* I1 ``done`` is set once, together with how the stream ended: ``closed``, ``error``, or neither of them (its end).
* I2 what was told once is told for ever: the same error object, the end, or ``ClosedResourceError`` after a close.
* I3 a watcher is called at most once, and may be called for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import anyio

from ._stream_backend import current_backend
from .errors import StreamError

if TYPE_CHECKING:
    from ._stream_scope import StreamScope

__all__ = ("NO_VALUE", "NoValue")


class Mark(Enum):
    """Values that cannot be an item of anybody's stream."""

    NO_VALUE = "NO_VALUE"
    PENDING = "PENDING"
    END = "END"
    EMPTY = "EMPTY"

    def __repr__(self) -> str:
        return self.value


NoValue = Literal[Mark.NO_VALUE]
"""The type of :data:`NO_VALUE`: a converter that drops items returns ``T | NoValue``."""

NO_VALUE: Final[NoValue] = Mark.NO_VALUE
"""Returned by a function given to ``convert``: there is no item for this one."""

PENDING: Final = Mark.PENDING
"""``poll()``: nothing yet."""

END: Final = Mark.END
"""``poll()``: the stream has ended."""

EMPTY: Final = Mark.EMPTY
"""In a slot or a cell: nothing has been stored."""

_ENDINGS = (StopAsyncIteration, StopIteration, anyio.EndOfStream, anyio.WouldBlock)


def as_stream_error(error: BaseException, culprit: str) -> BaseException:
    """Replace an error that readers would take for the end of the stream: an end cannot be sent as an error."""
    if not isinstance(error, _ENDINGS):
        return error
    replaced = StreamError(f"{culprit} raised {type(error).__name__}, which would read as the end of the stream")
    replaced.__cause__ = error
    return replaced


Postbox = Callable[[Callable[[], None]], object]
"""Has a function called by an event loop; the one safe way in for finalizers, which run in any thread at any time."""


class Signal:
    """Callbacks that wait for one event; each is called once and forgotten."""

    __slots__ = ("_callbacks",)

    def __init__(self) -> None:
        self._callbacks: dict[Callable[[], None], None] = {}

    def add(self, callback: Callable[[], None]) -> None:
        """Call back at the next event."""
        self._callbacks[callback] = None

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def discard(self, callback: Callable[[], None]) -> None:
        """Do not call back after all."""
        self._callbacks.pop(callback, None)

    def fire(self) -> None:
        """Call everyone who waits."""
        if self._callbacks:
            waiting, self._callbacks = self._callbacks, {}
            for callback in waiting:
                callback()

    async def wait_shielded(self, condition: Callable[[], bool]) -> None:
        """Wait for the event after which a condition holds; a cancellation is heeded afterwards."""
        try:
            while not condition():
                await self.wait()
        except current_backend().cancelled:
            with anyio.CancelScope(shield=True):
                while not condition():
                    await self.wait()
            raise

    async def wait(self) -> None:
        """Wait for the next event."""
        waiter = current_backend().waiter()
        self._callbacks[waiter.wake] = None
        try:
            await waiter.wait()
        finally:
            self._callbacks.pop(waiter.wake, None)


class Source:
    """The base of all sources; see the module for the contract."""

    __slots__ = ("closed", "done", "error", "postbox", "scope", "settled", "traceback")

    plain: bool = True
    """Never answers ``PENDING`` with ``must_await``, and its ``anext()`` may be cancelled without losing an item."""

    array: bool = False
    """All items are there already, as in ``StreamReader.of(...)``."""

    def __init__(self) -> None:
        self.done: bool = False
        self.closed: bool = False
        self.error: BaseException | None = None
        self.traceback: TracebackType | None = None
        self.settled: bool = True  # False: it is done, and something behind it still has to be closed
        self.scope: StreamScope | None = None  # which closes this source at its exit
        self.postbox: Postbox | None = None  # to the loop in which somebody waited, if somebody did

    @property
    def must_await(self) -> bool:
        """After ``PENDING``: whether only ``anext()`` moves this stream."""
        return False

    def poll(self) -> Any:
        """Give the next item, ``PENDING`` or ``END``, or raise the stream's error; never wait."""
        raise NotImplementedError

    async def anext(self) -> Any:
        """Wait for the next item; raise ``StopAsyncIteration`` at the end."""
        while True:
            try:
                item = self.poll()
            except BaseException:
                if not self.settled:
                    await self.settle()
                raise
            if item is END:
                if not self.settled:
                    await self.settle()
                raise StopAsyncIteration
            if item is not PENDING:
                return item
            await wait_ready(self)

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back once when it is worth polling again."""
        raise NotImplementedError

    def unwatch(self, callback: Callable[[], None]) -> None:
        """Do not call back after all."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Give the stream up; idempotent; wakes whoever waits in ``anext``."""
        raise NotImplementedError

    def drop(self) -> None:
        """Give the stream up without being able to wait: its reader was dropped."""

    def find_postbox(self) -> Postbox | None:
        """Give a way to the loop in which somebody may wait for this stream, or None if nobody ever did."""
        return self.postbox

    def interrupt(self) -> None:
        """Break off the step that some task waits for in ``anext``."""

    def cancel_next(self, error: BaseException) -> bool:
        """Raise a cancellation inside the source when it is next asked for an item; tell whether that is possible."""
        del error
        return False

    async def settle(self) -> None:
        """After the end or an error: wait until all that stands behind this stream is closed.

        What fails meanwhile is raised if the stream had ended well, and is forgotten if it had failed: readers get
        the first error.
        """

    def finish(self) -> None:
        """Note that the stream has come to its end, whichever it was."""
        self.done = True
        if self.scope is not None and self.settled:
            self.scope.forget(self)

    def is_settled(self) -> None:
        """Note that nothing is left to be closed."""
        self.settled = True
        if self.scope is not None:
            self.scope.forget(self)

    def fail(self, error: BaseException) -> None:
        """Note the error that ends this stream."""
        self.error = error
        self.traceback = error.__traceback__
        self.finish()

    def end_like(self, inner: Source) -> None:
        """Note that this stream has ended in the way in which the one that it reads from has."""
        self.settled = inner.settled
        if inner.error is None:
            self.finish()
        else:
            self.fail(inner.error)
            self.traceback = inner.traceback

    def last_word(self) -> Any:
        """Say once more how the stream ended."""
        if self.closed:
            raise anyio.ClosedResourceError
        if self.error is not None:
            # Without its first traceback the error would grow by some lines each time it is raised.
            raise self.error.with_traceback(self.traceback)
        return END


class Closable(Protocol):
    """A source, a reader, or what a reader became."""

    async def aclose(self) -> None:
        """Give it up."""
        ...


async def close_all(closables: Iterable[Closable], *, quietly: bool = False) -> None:
    """Close all, whatever some of them raise meanwhile; then raise that, unless another error is on its way already."""
    failures: list[Exception] = []
    cancellation: BaseException | None = None
    for closable in closables:
        try:
            await closable.aclose()
        except Exception as failure:  # noqa: BLE001  # the others are closed first
            failures.append(failure)
        except BaseException as error:  # noqa: BLE001
            cancellation = error
    if cancellation is not None:
        raise cancellation
    if failures and not quietly:
        raise failures[0] if len(failures) == 1 else ExceptionGroup("streams failed while they were closed", failures)


async def wait_ready(source: Source) -> None:
    """Wait until a source that answered ``PENDING`` is worth polling again."""
    backend = current_backend()
    if source.postbox is None:
        source.postbox = backend.postbox()
    waiter = backend.waiter()
    source.watch(waiter.wake)
    try:
        await waiter.wait()
    finally:
        source.unwatch(waiter.wake)
