"""Where user code finds itself: the frame of the node that runs, and how a coroutine is run in a context of its own.

Each node runs in a copy of the context in which the run began, so it sees what the caller set, and what it sets is
seen by nobody else. A node that runs in a task of its own has that for free; one that is awaited in place is driven
step by step inside its context by :func:`within`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Hashable
from contextvars import Context, ContextVar
from functools import lru_cache
from types import CoroutineType, coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._plan import NodePlan
    from ._run import Run

Frame = tuple["Run", "NodePlan", int]
"""The run, the node and the attempt in which code runs (a tuple, since one is made for every node that runs)."""

current_frame: ContextVar[Frame | None] = ContextVar("anabranch_frame", default=None)


def enter(frame: Frame, call: Any, value: Any) -> Any:
    """Note the frame and call; this runs inside the node's context."""
    current_frame.set(frame)
    return call(value)


@coroutine
def resume_within(context: Context, work: Coroutine[Any, Any, Any], trap: Any) -> Generator[Any, Any, Any]:
    """Go on driving a coroutine inside a context, after its first step gave a trap to wait for."""
    run = context.run
    while True:
        try:
            sent = yield trap
        except GeneratorExit:
            run(work.close)
            raise
        except BaseException as error:
            try:
                trap = run(work.throw, error)
            except StopIteration as stop:
                return stop.value
        else:
            try:
                trap = run(work.send, sent)
            except StopIteration as stop:
                return stop.value


async def within(context: Context, work: Coroutine[Any, Any, Any]) -> Any:
    """Await a coroutine so that each of its steps runs inside a context."""
    try:
        trap = context.run(work.send, None)
    except StopIteration as stop:
        return stop.value
    return await resume_within(context, work, trap)


def work_in(result: Any) -> Coroutine[Any, Any, Any] | None:
    """Give what is to be awaited in what a call gave, as a coroutine; None if the call gave its result."""
    if type(result) is CoroutineType:
        return result  # pyright: ignore[reportUnknownVariableType]
    return _awaiting(result) if can_await(class_of(result)) else None


def class_of(value: Any) -> Any:
    """Give a value's class."""
    return type(value)  # pyright: ignore[reportUnknownVariableType]


@lru_cache(maxsize=1024)
def can_await(kind: Hashable) -> bool:
    """Tell whether values of a type can be awaited; asked of each type once, since models are slow to say no."""
    return hasattr(kind, "__await__")


async def _awaiting(awaitable: Any) -> Any:
    return await awaitable
