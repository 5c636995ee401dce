"""The state of one run: made by the graph's factory, held by one piece of user code at a time.

Handlers and blocks exclude each other. A cell that is held already in the same context is never waited for: entering
again from within would wait for itself, so it is an error.
"""

from __future__ import annotations

import threading
from collections import deque
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, overload

import anyio
from typing_extensions import TypeVar

from ._context import current_frame
from ._crew import on_asyncio
from .errors import StateError

if TYPE_CHECKING:
    from ._run import Run

StateT = TypeVar("StateT")

_held: ContextVar[tuple[int, ...]] = ContextVar("anabranch_held_states", default=())


class StateCell:
    """One run's state and its lock."""

    __slots__ = ("_free", "_waiting", "looked_at", "thread", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.thread = threading.get_ident()
        """The thread of the event loop; others have to ask it."""
        self._free = True
        self._waiting: deque[tuple[anyio.Event, bool]] = deque()
        self.looked_at = False
        """Whether it is held by one who changes nothing, and does not await while he looks at it."""

    @property
    def free(self) -> bool:
        """Whether nobody holds or waits for the state."""
        return self._free

    def held_here(self) -> bool:
        """Whether the code that asks holds the state itself."""
        return id(self) in _held.get()

    def take(self) -> None:
        """Hold a free state; only in the event loop's thread, and nothing may be awaited before :meth:`give_back`."""
        self._free = False

    async def acquire(self, *, to_look: bool = False) -> None:
        """Wait until the state is free, first come first served, and hold it."""
        if self._free:
            self._free, self.looked_at = False, to_look
            return
        turn = anyio.Event()
        self._waiting.append((turn, to_look))
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self.give_back()  # it was our turn at the moment of the cancellation: pass it on
            else:
                self._waiting.remove((turn, to_look))
            raise

    def give_back(self) -> None:
        """Let the next one have the state."""
        if self._waiting:
            turn, self.looked_at = self._waiting.popleft()
            turn.set()  # it stays taken, by the one who waited
        else:
            self._free, self.looked_at = True, False


class StateBlock(Generic[StateT]):
    """A block in which the run's state may be read and changed; see :func:`current_state`."""

    __slots__ = ("_cell", "_kind", "_marker", "_shared", "_token")

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._cell: StateCell | None = None
        self._token: Token[tuple[int, ...]] | None = None
        self._marker: Any = None
        self._shared = False
        """Whether it is held by another one too, who only looks at it when this block is over."""

    def __enter__(self) -> StateT:
        cell = self._find()
        if threading.get_ident() != cell.thread:
            _from_thread(cell.acquire)
        elif cell.free or cell.looked_at:
            self._shared = not cell.free
            cell.take()
            self._marker = _turn_marker()
        else:
            raise StateError(
                "the state is held by an `async with current_state(…)` block of another node, and a plain `with` "
                "cannot wait; use `async with` here too"
            )
        self._hold(cell)
        return cell.value  # type: ignore[no-any-return]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        cell = self._release()
        if threading.get_ident() != cell.thread:
            _from_thread(_as_async(cell.give_back))
            return
        marker, self._marker = self._marker, None
        awaited = _turned_since(marker)
        if not self._shared:
            cell.give_back()
        self._shared = False
        if awaited and error is None:
            raise StateError(
                "something was awaited inside `with current_state(…)`, so other nodes could have run in between; "
                "use `async with current_state(…)` for a block that awaits"
            )

    async def __aenter__(self) -> StateT:
        cell = self._find()
        await cell.acquire()
        self._hold(cell)
        return cell.value  # type: ignore[no-any-return]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._release().give_back()

    def peek(self) -> StateT:
        """Give the state without holding it: for a look at what nobody changes meanwhile, where nothing is awaited.

        Returns:
            The state.

        Raises:
            StateError: If there is no such state.
        """
        return self._find().value  # type: ignore[no-any-return]

    def _find(self) -> StateCell:
        frame = current_frame.get()
        if frame is None:
            raise StateError(
                "current_state() was called outside of a run; call it inside a node, handler, branch or tool"
            )
        cell = find_cell(frame[0], self._kind)
        if id(cell) in _held.get():
            raise StateError(
                "the state was entered again from within (a handler or a current_state block holds it already); "
                "use the state that you have there"
            )
        return cell

    def _hold(self, cell: StateCell) -> None:
        self._cell = cell
        self._token = _held.set((*_held.get(), id(cell)))

    def _release(self) -> StateCell:
        assert self._cell is not None, "left a block that was not entered"
        assert self._token is not None, "left a block that was not entered"
        _held.reset(self._token)
        cell, self._cell, self._token = self._cell, None, None
        return cell


@overload
def current_state(kind: type[StateT]) -> StateBlock[StateT]: ...
@overload
def current_state() -> StateBlock[Any]: ...
def current_state(kind: Any = None) -> StateBlock[Any]:
    """Enter the state of the run that this code is part of.

    Works in nodes, branch conditions, tools and callbacks, and in worker threads. ``with`` is for a block that does
    not await (one that does is an error), ``async with`` for one that does. Only one block or handler holds the state
    at a time.

    Args:
        kind: The type of the state; the innermost graph whose state is one is taken, so a node of a nested graph
            can reach its parents' states. Without it, the innermost state.

    Returns:
        The block; entering it gives the state.

    Raises:
        StateError: On entering, when there is no such state, or when it is held already by the code that enters.

    Example:
        >>> from anabranch.compose import END, START, Graph, current_state
        >>> def count(text: str) -> str:
        ...     with current_state(list) as seen:
        ...         seen.append(text)
        ...         return f"{text} {len(seen)}"
        >>> graph = Graph[str, str](state=list)
        >>> graph.add_edge(START, graph.add_node("count", count))
        >>> graph.add_edge("count", END)
        >>> graph.compile().invoke_sync("tide")
        'tide 1'
    """
    return StateBlock(kind)


def find_cell(run: Run, kind: Any) -> StateCell:
    """Give the innermost state of a type, from a run outwards.

    Raises:
        StateError: If there is none.
    """
    found: list[str] = []
    around: Run | None = run
    while around is not None:
        cell = around.state
        if cell is not None:
            if kind is None or isinstance(cell.value, kind):
                return cell
            found.append(type(cell.value).__name__)
        around = around.parent or caller(around)
    wanted = "a state" if kind is None else f"a state of type {getattr(kind, '__name__', kind)}"
    others = f"there are {', '.join(found)}; ask for one of these, or give a graph around it that state"
    there = others if found else "no graph around has a state (Graph(state=…))"
    raise StateError(f"{wanted} was asked for; {there}")


def caller(run: Run) -> Run | None:
    """Give the run of the node that called this graph by one of its entry points, if a node did."""
    frame = run.base.get(current_frame)
    return None if frame is None else frame[0]


def holding(cell: StateCell) -> Token[tuple[int, ...]]:
    """Note that the code in this context holds a state."""
    return _held.set((*_held.get(), id(cell)))


def not_holding(token: Token[tuple[int, ...]]) -> None:
    """Take the note back."""
    _held.reset(token)


def _from_thread(call: Any) -> None:
    from anyio import from_thread

    try:
        from_thread.run(call)
    except RuntimeError as error:
        raise StateError(
            "current_state() was called in a thread that the run did not start; use blocking=True nodes or "
            "anyio.to_thread.run_sync"
        ) from error


def _as_async(call: Any) -> Any:
    async def run() -> None:
        call()

    return run


class _LoopTurn:
    """Tells whether asyncio's loop has turned: it calls back as soon as the present step ends."""

    __slots__ = ("_handle", "_turned")

    def __init__(self) -> None:
        self._turned = False
        import asyncio

        self._handle = asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turned = True

    def turned(self) -> bool:
        self._handle.cancel()
        return self._turned


def _turn_marker() -> Any:
    """Make a mark that tells later whether the event loop has moved on since."""
    if on_asyncio():
        return _LoopTurn()
    import trio

    current = trio.lowlevel.current_task()
    return current, getattr(current, "_schedule_points", None)  # private, and only a diagnosis hangs on it


def _turned_since(marker: Any) -> bool:
    if isinstance(marker, _LoopTurn):
        return marker.turned()
    task, points = marker
    return bool(getattr(task, "_schedule_points", None) != points)
