"""The reading end of a stream, and the ways to make one.

``StreamReader`` is the face that users see; what stands behind it is in ``_stream_source`` and the modules named after
each kind. A reader that was given to ``convert``, ``copy`` or ``merge`` has handed its source on: reading it is an
error from then on, and closing it closes what it became.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Protocol, cast, overload

import anyio
from anyio.abc import ObjectReceiveStream
from typing_extensions import TypeVar, override

from ._stream_convert import ConvertSource
from ._stream_copy import Hub
from ._stream_merge import MergeSource, SourceEnd
from ._stream_owner import shared
from ._stream_place import Place, calling_place, drop_later, where
from ._stream_roots import GeneratorSource, IterSource, root_of
from ._stream_scope import current_scope
from ._stream_source import END, PENDING, NoValue, Source
from .errors import StreamError

if TYPE_CHECKING:
    from ._concat import ConcatRegistry

__all__ = ("StreamReader", "merge")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")
LabelT = TypeVar("LabelT")


class _Closable(Protocol):
    async def aclose(self) -> None: ...


class StreamReader(ObjectReceiveStream[T_co], Generic[T_co]):
    """The reading end of a stream: read once, in order, by one consumer.

    A stream ends in one of three ways: it comes to its end, it fails (an error is terminal, nothing follows it), or its
    reader closes it. Leaving ``async with`` closes it; ending counts as closed.

    A reader made of an async generator runs it in the task that reads: no task is started, and an item costs no turn
    of the event loop. So a task that is cancelled while it waits for an item takes the generator down with it, as in
    any ``async for``, and later reads raise ``BrokenResourceError``. Where reads are to be cancelled (a time-out
    around each), read a ``copy(1)``: it runs the generator in a task of its own.

    Example:
        >>> async with StreamReader.from_iterable(["a", "b"]).convert(str.upper) as reader:
        ...     async for item in reader:
        ...         print(item)
        A
        B
    """

    __slots__ = ("_anext", "_heir", "_place", "_source")

    def __init__(self, source: Source, place: Place | None = None) -> None:
        """Wrap a source; use :meth:`of`, :meth:`from_iterable` or :func:`pipe` instead."""
        self._source: Source | None = source  # None: handed on
        self._anext: Callable[[], Coroutine[Any, Any, T_co]] = source.anext
        self._place = place
        self._heir: _Closable | None = None  # what the source was handed on to
        scope = current_scope()
        if scope is not None:
            scope.adopt(source)

    @classmethod
    def of(cls, *items: T) -> StreamReader[T]:
        """Make a stream of these items.

        Args:
            *items: What the stream consists of.

        Returns:
            A reader.
        """
        return StreamReader(IterSource(iter(items), array=True), calling_place())

    @classmethod
    def from_iterable(cls, items: AsyncIterable[T] | Iterable[T]) -> StreamReader[T]:
        """Make a stream of a list, an iterator, a generator, an async iterable, an async generator, a receive stream.

        Nothing is read ahead. The stream owns a generator or a receive stream that it is given: closing one closes
        the other. What the iterable raises is the stream's error.

        Args:
            items: What the stream consists of; a reader is returned as it is.

        Returns:
            A reader.

        Raises:
            TypeError: If ``items`` cannot be iterated over.
        """
        if isinstance(items, StreamReader):
            return items
        return StreamReader(root_of(items), calling_place())

    @classmethod
    def _from_generator(
        cls,
        generator: Any,
        *,
        context: Context | None = None,
        translate: Callable[[BaseException], BaseException] | None = None,
        feeds: Sequence[StreamReader[Any]] = (),
        place: Place | None = None,
    ) -> StreamReader[Any]:
        """Make a stream of an async generator, for the engine.

        Args:
            generator: The async generator.
            context: Every step of the generator runs in it.
            translate: Makes the stream's error of an exception that the generator raised.
            feeds: Readers that the generator reads; closed when this stream is closed or ends.
            place: What a warning says if this reader is dropped.
        """
        return StreamReader(GeneratorSource(generator, context, translate, feeds), place)

    @override
    def __aiter__(self) -> StreamReader[T_co]:
        return self

    @override
    def __anext__(  # pyright: ignore[reportIncompatibleMethodOverride]  # what `async def` gives, in other words
        self,
    ) -> Coroutine[Any, Any, T_co]:
        return self._anext()

    @override
    async def receive(self) -> T_co:
        """Wait for the next item.

        Returns:
            The item.

        Raises:
            anyio.EndOfStream: At the end of the stream, each time it is asked.
            anyio.ClosedResourceError: If this reader was closed, also while this call waits.
            anyio.BrokenResourceError: If the stream was lost, since a task was cancelled in the middle of a step.
            Exception: The stream's error, each time it is asked.
        """
        try:
            return await self._anext()
        except StopAsyncIteration:
            pass
        raise anyio.EndOfStream

    def _receive_nowait(self) -> T_co:
        """Give the next item, or raise ``WouldBlock`` where it has to be waited for."""
        source = self._source
        if source is None:
            self._refuse()
        item = source.poll()
        if item is PENDING:
            raise anyio.WouldBlock
        if item is END:
            raise anyio.EndOfStream
        return cast("T_co", item)

    @override
    async def aclose(self) -> None:
        """Give the stream up; whoever waits for an item gets a ``ClosedResourceError``.

        The source is closed before this returns, also in a cancelled task. Closing twice does nothing.
        """
        if self._heir is not None:
            await self._heir.aclose()
        elif self._source is not None:
            await self._source.aclose()

    @overload
    def convert(
        self,
        function: Callable[[T_co], Coroutine[Any, Any, U | NoValue]],
        *,
        on_end: Callable[[], Any] | None = None,
        on_error: Callable[[Exception], Any] | None = None,
    ) -> StreamReader[U]: ...

    @overload
    def convert(
        self,
        function: Callable[[T_co], U | NoValue],
        *,
        on_end: Callable[[], Any] | None = None,
        on_error: Callable[[Exception], Any] | None = None,
    ) -> StreamReader[U]: ...

    def convert(
        self,
        function: Callable[[T_co], Any],
        *,
        on_end: Callable[[], Any] | None = None,
        on_error: Callable[[Exception], Any] | None = None,
    ) -> StreamReader[Any]:
        """Pass each item through a function.

        All three functions may be plain or ``async``, may return :data:`NO_VALUE` for "no item", and end the stream
        with what they raise.

        Args:
            function: Makes an item of an item.
            on_end: Called when the stream has come to its end; what it returns is the last item.
            on_error: Called with the error of the stream (not with what ``function`` or ``on_end`` raised). What it
                returns is the last item, and the error is forgotten; to keep or to translate the error, raise.

        Returns:
            The converted stream. This reader has been handed on and cannot be read any more.

        Example:
            >>> reader = StreamReader.of(1, 2, 3).convert(lambda n: NO_VALUE if n == 2 else n * 10, on_end=lambda: 0)
            >>> [item async for item in reader]
            [10, 30, 0]
        """
        source = ConvertSource(self._hand_on("convert"), function, on_end, on_error)
        self._heir = source
        return StreamReader(source, calling_place())

    def copy(self, n: int, max_lag: int | None = None) -> tuple[StreamReader[T_co], ...]:
        """Make several streams of one: each copy sees all items, in the same order, and the same ending.

        The items are shared, not copied. A copy that is behind keeps the items that it has not read in memory.

        Args:
            n: How many copies.
            max_lag: How many items the fastest copy may be ahead of the slowest open one; it then waits.

        Returns:
            The copies. This reader has been handed on and cannot be read any more.

        Raises:
            ValueError: If ``n`` or ``max_lag`` is less than 1.

        Example:
            >>> left, right = StreamReader.of("a", "b").copy(2)
            >>> [item async for item in left], [item async for item in right]
            (['a', 'b'], ['a', 'b'])
        """
        if n < 1 or (max_lag is not None and max_lag < 1):
            raise ValueError(f"copy({n}, max_lag={max_lag}): both must be at least 1")
        place = calling_place()
        hub = Hub(shared(self._hand_on("copy")), n, max_lag)
        self._heir = hub
        return tuple([StreamReader[T_co](source, place) for source in hub.open])

    async def concat(self, registry: ConcatRegistry | None = None, *, of: object = None) -> Any:
        """Read the stream to its end and make one value of its chunks.

        Args:
            registry: How chunks become a value; by default the process-wide registry.
            of: The declared type of the value, where the chunks alone do not tell, as for an empty stream.

        Returns:
            The value.

        Raises:
            ConcatError: If the chunks do not make one value.
            EmptyStreamError: If there was none, and their type has no neutral element.
        """
        from ._concat import concat

        async with self:
            chunks = [chunk async for chunk in self]
        return concat(chunks, registry, of=of)

    def _hand_on(self, use: str) -> Source:
        source = self._source
        if source is None:
            self._refuse()
        if source.closed:
            raise anyio.ClosedResourceError
        if source.scope is not None:
            source.scope.forget(source)
        self._source = None
        self._anext = _handed_on(use)
        return source

    def _refuse(self) -> NoReturn:
        raise StreamError("this reader was given to convert(), copy() or merge(): read what that returned")

    def _drop(self) -> None:
        """Give the stream up in a finalizer."""
        source, self._source = self._source, None
        if source is not None and not (source.done and source.settled):
            drop_later(source.find_postbox(), source.drop)

    def __del__(self) -> None:
        source: Source | None = getattr(self, "_source", None)
        if source is not None and not source.done:
            message = f"a StreamReader was neither read to its end nor closed{where(self._place)}"
            try:
                warnings.warn(message, ResourceWarning, stacklevel=2, source=self)
            finally:
                self._drop()
        elif source is not None and not source.settled:
            self._drop()

    @override
    def __repr__(self) -> str:
        source = self._source
        if source is None:
            state = "handed on"
        elif source.closed:
            state = "closed"
        elif source.error is not None:
            state = "failed"
        else:
            state = "ended" if source.done else "open"
        return f"<StreamReader {state}{where(self._place)}>"


def _handed_on(use: str) -> Callable[[], Coroutine[Any, Any, Any]]:
    async def refuse() -> NoReturn:
        raise StreamError(f"this reader was given to {use}(): read what that returned")

    return refuse


@overload
def merge(
    readers: Mapping[LabelT, StreamReader[T]], *, labels: Literal[True]
) -> StreamReader[tuple[LabelT, T] | SourceEnd[LabelT]]: ...


@overload
def merge(
    readers: Sequence[StreamReader[T]], *, labels: Literal[True]
) -> StreamReader[tuple[int, T] | SourceEnd[int]]: ...


@overload
def merge(
    readers: Sequence[StreamReader[T]] | Mapping[Any, StreamReader[T]], *, labels: Literal[False] = False
) -> StreamReader[T]: ...


def merge(
    readers: Sequence[StreamReader[Any]] | Mapping[Any, StreamReader[Any]], *, labels: bool = False
) -> StreamReader[Any]:
    """Read several streams as one: items come as they arrive, those of one stream in their order.

    The merged stream ends when all have ended. It fails when one of them fails, and the others are closed.

    Args:
        readers: The streams; they are handed on and cannot be read any more. Without any, the merged stream is empty.
        labels: Say where each item is from: items are ``(label, item)``, and ``SourceEnd(label)`` when a stream has
            ended. The labels are the keys of a mapping, the positions in a list.

    Returns:
        The merged stream.

    Raises:
        StreamError: If a reader is given twice, or has been handed on before.

    Example:
        >>> merged = merge({"left": StreamReader.of(1), "right": StreamReader.of(2)}, labels=True)
        >>> [item async for item in merged]
        [('left', 1), SourceEnd(label='left'), ('right', 2), SourceEnd(label='right')]
    """
    given: list[Any] = list(readers.values() if isinstance(readers, Mapping) else readers)
    keys: list[Any] = list(readers if isinstance(readers, Mapping) else range(len(given)))
    sources = [shared(reader._hand_on("merge")) for reader in given]
    source = MergeSource(sources, keys if labels else None)
    for reader in given:
        reader._heir = source
    return StreamReader(source, calling_place())
