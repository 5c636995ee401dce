"""``stream_scope()``: whatever streams are opened inside, none of them outlives it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._stream_backend import Group, current_backend
from ._stream_source import Closable, close_all

if TYPE_CHECKING:
    from ._stream_owner import OwnedSource
    from ._stream_source import Source

__all__ = ("StreamScope", "stream_scope")


class StreamScope:
    """Closes at its exit every stream that was opened in it, and ends every task that was started in it.

    Made by :func:`stream_scope`. A stream that ended, or was closed, is no longer known here; so a scope may stay
    open for long. Scopes nest; a stream belongs to the innermost one.
    """

    __slots__ = ("_group", "_open", "_outer", "_owners", "_token")

    def __init__(self) -> None:
        self._open: dict[Source, None] | None = None  # None: not entered, or left
        self._group: Group | None = None
        self._owners: dict[OwnedSource, None] = {}
        self._outer: StreamScope | None = None
        self._token: Token[StreamScope | None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether streams opened now would belong to this scope, or to one inside it."""
        return self._open is not None

    def start_soon(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Start a task that is cancelled and awaited at the exit; what it raises cancels the body and is raised there.

        Args:
            function: What the task calls.
            *args: Its arguments.

        Raises:
            RuntimeError: If the scope is not open.
        """
        if self._open is None or self._group is None:
            raise RuntimeError("this stream scope is not open")
        self._group.start(function, *args)

    def await_owner(self, owner: OwnedSource) -> None:
        """Wait at the exit until the task that owns this source has ended."""
        self._owners[owner] = None

    def forget_owner(self, owner: OwnedSource) -> None:
        """Its task has ended."""
        self._owners.pop(owner, None)

    def adopt(self, source: Source) -> None:
        """Close this source at the exit."""
        if self._open is not None:
            self._open[source] = None
            source.scope = self

    def forget(self, source: Source) -> None:
        """Leave this source to somebody else."""
        source.scope = None
        if self._open is not None:
            self._open.pop(source, None)

    async def __aenter__(self) -> StreamScope:
        if self._token is not None:
            raise RuntimeError("a stream scope can be entered once")
        self._outer = current_scope()
        self._group = current_backend().group()
        await self._group.__aenter__()
        self._open = {}
        self._token = _current.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            try:
                _current.reset(self._token)
            except ValueError:  # left in another context than the one it was entered in, by an async generator
                _current.set(self._outer)
        try:
            await self._close_sources()
        finally:
            self._open = None
            group, self._group = self._group, None
            if group is not None:
                await group.close(error)

    async def _close_sources(self) -> None:
        await close_all(self._all_open())

    def _all_open(self) -> Iterator[Closable]:
        """Give the streams that are open, the last one first; what a generator opens while it is closed counts, too."""
        while self._open:
            source = next(reversed(self._open))
            self.forget(source)
            yield source
        while self._owners:
            yield next(iter(self._owners))


_current: ContextVar[StreamScope | None] = ContextVar("anabranch_stream_scope", default=None)


def current_scope() -> StreamScope | None:
    """Give the innermost open scope."""
    scope = _current.get()
    while scope is not None and not scope.is_open:
        scope = scope._outer  # pyright: ignore[reportPrivateUsage]
    return scope


def stream_scope() -> StreamScope:
    """Make a scope for streams: at its exit all that were opened inside are closed, and their tasks have ended.

    Returns:
        An async context manager.

    Example:
        >>> async with stream_scope():
        ...     left, right = StreamReader.of(1, 2).copy(2)
        ...     print(await left.receive())  # what is not read to its end is closed when the block is left
        1
    """
    return StreamScope()
