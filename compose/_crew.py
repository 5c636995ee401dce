"""The tasks of one run: started together, awaited together, gone when the run is.

anyio's task groups cost four times what bare asyncio tasks do, which a fan-out of a thousand small nodes feels.
So on asyncio the crew makes the tasks itself and keeps the promises of a task group: each task runs in a cancel scope
of its own (anyio's, so shields are respected and cancellation is delivered until it is obeyed), and no task outlives
the crew: closing it cancels and awaits them, whatever happens meanwhile. On trio it is a nursery.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from functools import partial
from types import TracebackType
from typing import Any

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup

EAGER: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}
"""Where Python has it, a task runs at once up to its first wait, and one that never waits costs no turn of the loop."""

Outcome = tuple[int, Any, BaseException | None]
"""The slot under which work was started (one at a time), its result, and what it raised instead (or None)."""


class Crew:
    """Runs coroutines at once and hands over their outcomes in the order in which they come about."""

    def __init__(self) -> None:
        self._outcomes: list[Outcome] = []
        self._cancelled = False
        self.active = 0
        """How many are at work; their outcomes still wait to be fetched or to come about."""

    async def open(self) -> None:
        """Get ready to start work; close in the same task."""

    def start(self, slot: int, work: Coroutine[Any, Any, Any], context: Context) -> None:
        """Start work in a task of its own, inside a context."""
        raise NotImplementedError

    async def news(self) -> Sequence[Outcome]:
        """Wait for outcomes, and take all there are, in the order in which they came about."""
        while not self._outcomes:
            await self._wait()
        return self.take_outcomes()

    def take_outcomes(self) -> Sequence[Outcome]:
        """Take the outcomes that are there: after closing, those that nobody waited for any more."""
        taken, self._outcomes = self._outcomes, []
        return taken

    async def _wait(self) -> None:
        """Wait until something has happened."""
        raise NotImplementedError

    async def close(self) -> None:
        """Cancel what is still at work and await its end; safe to call twice."""
        raise NotImplementedError

    async def __aenter__(self) -> Crew:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class AsyncioCrew(Crew):
    """Bare tasks with the promises of a task group."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._scopes: dict[int, CancelScope] = {}
        self._waiter: asyncio.Future[None] | None = None
        # anyio looks up the backend whenever a scope is made; here it is known.
        self._new_scope: Callable[[], CancelScope] = type(CancelScope())
        self._new_task: Callable[..., asyncio.Task[None]] = self._loop.create_task
        if self._loop.get_task_factory() is None:
            self._new_task = partial(asyncio.Task, loop=self._loop, **EAGER)

    def start(self, slot: int, work: Coroutine[Any, Any, Any], context: Context) -> None:
        self.active += 1
        task = self._new_task(self._run(slot, work), context=context)
        if not task.done():
            self._tasks[slot] = task

    async def _run(self, slot: int, work: Coroutine[Any, Any, Any]) -> None:
        outcome: Outcome | None = None
        try:
            if self._cancelled:
                work.close()
                return
            with self._new_scope() as scope:
                self._scopes[slot] = scope
                try:
                    outcome = (slot, await work, None)
                except BaseException as error:
                    if scope.cancel_called and isinstance(error, asyncio.CancelledError):
                        raise  # ours: the scope takes it
                    outcome = (slot, None, error)
            del self._scopes[slot]
        finally:
            self.active -= 1
            self._tasks.pop(slot, None)
            if outcome is not None:
                self._outcomes.append(outcome)
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def close(self) -> None:
        self._cancelled = True
        for scope in tuple(self._scopes.values()):
            scope.cancel()
        interrupted: BaseException | None = None
        if self.active:
            with CancelScope(shield=True):
                while self.active:
                    try:
                        await self._wait()
                    except asyncio.CancelledError as error:  # asked again from outside: the tasks come first
                        interrupted = error
        if interrupted is not None:
            raise interrupted


class NurseryCrew(Crew):
    """A task group; on trio that is the cheapest there is."""

    def __init__(self) -> None:
        super().__init__()
        self._group: TaskGroup = anyio.create_task_group()
        self._news = anyio.Event()
        self._open = False

    async def open(self) -> None:
        await self._group.__aenter__()
        self._open = True

    def start(self, slot: int, work: Coroutine[Any, Any, Any], context: Context) -> None:
        self.active += 1
        context.run(self._group.start_soon, self._run, slot, work)

    async def _run(self, slot: int, work: Coroutine[Any, Any, Any]) -> None:
        outcome: Outcome | None = None
        cancelled = anyio.get_cancelled_exc_class()
        try:
            if self._cancelled:
                work.close()
                return
            outcome = (slot, await work, None)
        except cancelled:
            raise
        except BaseException as error:
            outcome = (slot, None, error)
        finally:
            self.active -= 1
            if outcome is not None:
                self._outcomes.append(outcome)
            self._news.set()

    async def _wait(self) -> None:
        self._news = anyio.Event()
        await self._news.wait()

    async def close(self) -> None:
        self._cancelled = True
        if self._open:
            self._open = False
            self._group.cancel_scope.cancel()
            await self._group.__aexit__(None, None, None)


def on_asyncio() -> bool:
    """Tell whether the code that asks runs in a task of asyncio."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


def make_crew() -> Crew:
    """Make the crew for the event loop that runs."""
    return AsyncioCrew() if on_asyncio() else NurseryCrew()
