"""``pipe``: a stream between two tasks, with backpressure.

The state is one object, seen from two ends. It decides synchronously; only the waiting is async, and nothing is ever
handed to a waiting reader: it is woken, and takes what it finds. So a reader that is cancelled while it is being
woken loses nothing.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, NamedTuple, Self

import anyio
from anyio.abc import ObjectSendStream
from typing_extensions import TypeVar, override

from ._stream import StreamReader
from ._stream_backend import Waiter, current_backend
from ._stream_place import Place, calling_place, drop_later, where
from ._stream_source import PENDING, Postbox, Signal, Source, as_stream_error

__all__ = ("Pipe", "StreamWriter", "pipe")

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class PipeSource(Source):
    """The state of a pipe, and what its reader reads from."""

    __slots__ = ("_capacity", "_failure", "_items", "_ready", "_senders", "writer_closed")

    postbox: Postbox | None

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self._capacity = capacity
        self._items: deque[Any] = deque()  # sent and not yet read
        self._senders: deque[_Sender] = deque()  # tasks that wait in send(), with their items
        self._ready = Signal()
        self.writer_closed: bool = False
        self._failure: BaseException | None = None

    def poll(self) -> Any:
        if self.done:
            return self.last_word()
        if self._items:
            item = self._items.popleft()
            self._admit()
            return item
        if self._senders:
            sender = self._senders.popleft()
            sender.take()
            return sender.item
        if not self.writer_closed:
            return PENDING
        if self._failure is not None:
            self.fail(self._failure)
        else:
            self.finish()
        return self.last_word()

    def _admit(self) -> None:
        while self._senders and len(self._items) < self._capacity:
            sender = self._senders.popleft()
            self._items.append(sender.item)
            sender.take()

    def watch(self, callback: Callable[[], None]) -> None:
        if self.postbox is None:
            self.postbox = current_backend().postbox()  # for the finalizer of the writer
        self._ready.add(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._ready.discard(callback)

    def offer(self, item: Any) -> bool:
        """Take an item if there is room, or a reader that waits."""
        if self.writer_closed:
            raise anyio.ClosedResourceError
        if self.closed:
            raise anyio.BrokenResourceError
        if len(self._items) < self._capacity + bool(self._ready) and not self._senders:
            self._items.append(item)
            self._ready.fire()
            return True
        return False

    async def send(self, item: Any) -> None:
        """Wait until an item is taken."""
        if self.offer(item):
            return
        sender = _Sender(item, current_backend().waiter())
        if self.postbox is None:
            self.postbox = current_backend().postbox()  # for the finalizer of the reader
        self._senders.append(sender)
        self._ready.fire()
        try:
            await sender.waiter.wait()
        except BaseException:
            if not sender.taken and sender in self._senders:
                self._senders.remove(sender)
            raise
        if not sender.taken:
            raise anyio.BrokenResourceError if self.closed else anyio.ClosedResourceError

    def end(self, failure: BaseException | None) -> None:
        """Close the writing end; sends that wait are refused."""
        if not self.writer_closed:
            self.writer_closed = True
            self._failure = failure
            self._refuse_senders()
            self._ready.fire()

    def _refuse_senders(self) -> None:
        senders, self._senders = self._senders, deque()
        for sender in senders:
            sender.waiter.wake()

    async def aclose(self) -> None:
        self.drop()

    def drop(self) -> None:
        if not self.closed:
            self.closed = True
            self._items.clear()
            self.finish()
            self._refuse_senders()
            self._ready.fire()


class _Sender:
    """One task that waits in ``send()``."""

    __slots__ = ("item", "taken", "waiter")

    def __init__(self, item: Any, waiter: Waiter) -> None:
        self.item = item
        self.waiter = waiter
        self.taken = False

    def take(self) -> None:
        self.taken = True
        self.waiter.wake()


class StreamWriter(ObjectSendStream[T_contra], Generic[T_contra]):
    """The writing end of a pipe.

    Leaving ``async with`` closes it: normally the stream then ends, and with an exception the stream fails with that
    exception.
    """

    __slots__ = ("_pipe", "_place")

    def __init__(self, pipe: PipeSource, place: Place | None) -> None:
        """Write to a pipe; made by :class:`pipe`."""
        self._pipe = pipe
        self._place = place

    @override
    async def send(self, item: T_contra) -> None:
        """Send an item; waits while the pipe is full.

        A pipe of capacity 0 is a rendezvous: it waits for a reader. If it is cancelled while it waits, the item is
        not sent.

        Args:
            item: What the reader gets.

        Raises:
            anyio.ClosedResourceError: If this writer was closed.
            anyio.BrokenResourceError: If the reader was closed.
        """
        await self._pipe.send(item)

    def send_nowait(self, item: T_contra) -> None:
        """Send an item if there is room for it, or somebody waiting.

        Args:
            item: What the reader gets.

        Raises:
            anyio.WouldBlock: If the pipe is full.
            anyio.ClosedResourceError: If this writer was closed.
            anyio.BrokenResourceError: If the reader was closed.
        """
        if not self._pipe.offer(item):
            raise anyio.WouldBlock

    async def fail(self, error: BaseException) -> None:
        """End the stream with an error, which the reader gets after what was sent before. Does not wait.

        Args:
            error: The stream's error.

        Raises:
            TypeError: If ``error`` is not an exception, or one of those that mean the end of a stream.
        """
        if not isinstance(error, BaseException):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"fail() takes an exception, not {type(error).__qualname__}")
        if as_stream_error(error, "") is not error:
            raise TypeError(
                f"{type(error).__name__} means the end of a stream and cannot be its error: close() ends it"
            )
        self._pipe.end(error)

    def close(self) -> None:
        """End the stream; the reader gets what was sent before. Closing twice does nothing."""
        self._pipe.end(None)

    @override
    async def aclose(self) -> None:
        """End the stream, as :meth:`close` does."""
        self.close()

    @override
    async def __aexit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is None:
            self.close()
        elif isinstance(error, Exception):
            self._pipe.end(as_stream_error(error, "the writer of a stream"))
        else:
            self._pipe.end(anyio.BrokenResourceError("the writer of this stream was cancelled"))

    def __del__(self) -> None:
        pipe = getattr(self, "_pipe", None)
        if pipe is not None and not pipe.writer_closed and not pipe.closed:
            error = anyio.BrokenResourceError("the writer of this stream was dropped without being closed")
            try:
                message = f"a StreamWriter was never closed{where(self._place)}"
                warnings.warn(message, ResourceWarning, stacklevel=2, source=self)
            finally:
                drop_later(pipe.postbox, partial(pipe.end, error))

    @override
    def __repr__(self) -> str:
        return f"<StreamWriter {'closed' if self._pipe.writer_closed else 'open'}{where(self._place)}>"


class Pipe(NamedTuple, Generic[T]):
    """Both ends of a pipe."""

    reader: StreamReader[T]
    """Reads what was written."""
    writer: StreamWriter[T]
    """Writes what will be read."""


class pipe(Pipe[T]):  # noqa: N801  # a function that can be given a type: pipe[int](capacity=8)
    """Make a stream that one task writes and another one reads.

    Example:
        >>> reader, writer = pipe[int](capacity=8)
        >>> async with writer:
        ...     await writer.send(1)
        >>> [item async for item in reader]
        [1]
    """

    __slots__ = ()

    def __new__(cls, capacity: int = 0) -> Self:
        """Make both ends.

        Args:
            capacity: How many items may have been sent and not yet read; ``send`` waits when there are so many. With
                0, each ``send`` waits for a reader.

        Returns:
            The two ends, as a tuple and by name.

        Raises:
            ValueError: If the capacity is negative.
        """
        if capacity < 0:
            raise ValueError(f"the capacity of a pipe is 0 or more, not {capacity}")
        place = calling_place()
        source = PipeSource(capacity)
        ends: tuple[Any, ...] = (StreamReader[T](source, place), StreamWriter[T](source, place))
        return tuple.__new__(cls, ends)  # pyright: ignore[reportUnknownMemberType]
