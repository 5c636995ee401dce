"""The few things that streams need from the event loop beneath them, and which of the two loops it is.

anyio offers all of this too, at a price that a stream would pay for every item that it has to wait for: an ``Event``
of anyio takes several microseconds, a bare future of asyncio half of one. The two implementations are loaded when the
first stream has to wait, so that importing this package loads neither loop.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Protocol

__all__ = ()

Step = Callable[[], Any]


class Waiter(Protocol):
    """One task's wait for one event."""

    def wake(self) -> None:
        """End the wait; may come early, late and twice."""
        ...

    async def wait(self) -> None:
        """Wait until woken; at most once."""
        ...


def other_than(error: BaseException, *expected: type[BaseException]) -> BaseException | None:
    """Give what is in an error beside the expected ones: a task group wraps all that goes through it."""
    if isinstance(error, expected):
        return None
    if isinstance(error, BaseExceptionGroup):
        return error.split(expected)[1]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return error


def is_cancellation(error: BaseException) -> bool:
    """Tell whether an error is nothing but the cancellation of the current task."""
    return other_than(error, current_backend().cancelled) is None


class Interrupted(BaseException):
    """A driven step was broken off by :meth:`Drive.interrupt`; ``error`` is what it raised beside that, if anything."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__()
        self.error = error


class Drive:
    """Runs the rest of a half-run awaitable in the current task, and lets another task break it off.

    A source takes the first step itself, since most often there is no second one. When that step had to wait, it made a
    ``Drive`` of the rest: what the awaitable yielded goes on to the event loop, as if the task had awaited it.

    It is here for one law: closing a stream wakes who waits for it. A cancel scope around each step would do that too,
    but an async generator may enter scopes of its own in one step and leave them in a later one, and scopes have to be
    properly nested within a task.
    """

    __slots__ = ("_context", "_yielded", "awaitable", "interrupted", "task")

    def __init__(self, awaitable: Any, yielded: Any, context: Context | None, task: Any) -> None:
        self.awaitable = awaitable
        self._yielded = yielded
        self._context = context
        self.task = task
        self.interrupted = False

    def interrupt(self) -> None:
        """Raise an exception where the awaitable waits; its task then gets ``Interrupted``."""
        raise NotImplementedError

    def __await__(self) -> Generator[Any, Any, Any]:
        raise NotImplementedError


class Rest:
    """Runs the rest of a half-run awaitable, after a cancellation that came before anybody awaited it, if one did."""

    __slots__ = ("_awaitable", "_error", "_yielded")

    def __init__(self, awaitable: Any, yielded: Any, error: BaseException | None) -> None:
        self._awaitable = awaitable
        self._yielded = yielded
        self._error = error

    def __await__(self) -> Generator[Any, Any, Any]:
        awaitable, yielded, error = self._awaitable, self._yielded, self._error
        try:
            # As a task does: cancel what is waited for; if that is over already, cancel who waited.
            if error is not None and not (hasattr(yielded, "cancel") and yielded.cancel()):
                yielded = awaitable.throw(error)
            while True:
                try:
                    sent = yield yielded
                except BaseException as error:  # noqa: BLE001  # it goes on into the awaitable
                    yielded = awaitable.throw(error)
                else:
                    yielded = awaitable.send(sent)
        except StopIteration as stop:
            return stop.value


class Identity(Protocol):
    """A task in whose name another one can run code."""

    @property
    def task(self) -> object:
        """The task."""
        ...

    def step(self, awaitable: Any) -> Any:
        """Take the first step of an awaitable in this task's name; give what it yielded, or raise ``StopIteration``."""
        ...


class Group(Protocol):
    """The tasks of one stream scope."""

    async def __aenter__(self) -> Any: ...

    def start(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Start a task."""
        ...

    async def close(self, error: BaseException | None) -> None:
        """Cancel and await all tasks; raise what they raised."""
        ...


class Backend(Protocol):
    """What an event loop offers."""

    cancelled: type[BaseException]

    def waiter(self) -> Waiter:
        """Make a wait for the current task."""
        ...

    def drive(self, awaitable: Any, yielded: Any, context: Context | None) -> Drive:
        """Go on with a half-run awaitable."""
        ...

    def current_task(self) -> object:
        """Give the current task."""
        ...

    def innermost_scope(self) -> object:
        """Give the innermost cancel scope of the current task, or None where that cannot be told."""
        ...

    def spawn(
        self, function: Callable[[BaseException | None], Coroutine[Any, Any, None]], context: Context
    ) -> Identity | None:
        """Start a task that belongs to nobody.

        Args:
            function: What it runs, which never raises. It is given the cancellation that came before it ran.
            context: In which it runs.

        Returns:
            What lets others act in its name while it sleeps, also before it has begun; None where that cannot be done.
        """
        ...

    def postbox(self) -> Callable[[Callable[[], None]], object]:
        """Give a function that has another one called by the running loop; any thread may use it, at any moment."""
        ...

    def group(self) -> Group:
        """Make a group of tasks."""
        ...


_loaded: dict[str, Backend] = {}


def current_backend() -> Backend:
    """Give the backend of the running event loop."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None:
        try:
            # A trio that is a guest of asyncio runs its tasks outside of asyncio's.
            if asyncio.current_task() is not None:
                return _loaded.get("asyncio") or _load("asyncio")
        except RuntimeError:
            pass
    return _loaded.get("trio") or _load("trio")


def _load(name: str) -> Backend:
    if name == "asyncio":
        from ._stream_asyncio import AsyncioBackend

        backend: Backend = AsyncioBackend()
    else:
        if "trio" not in sys.modules:
            raise RuntimeError("a stream has to wait, but no event loop is running")
        from ._stream_trio import TrioBackend

        backend = TrioBackend()
    return _loaded.setdefault(name, backend)
