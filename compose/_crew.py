"""The tasks of one run: started together, awaited together, gone when the run is.

On trio a crew is a nursery; on asyncio it is what :mod:`._crew_asyncio` makes, and why.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Sequence
from contextvars import Context
from types import TracebackType
from typing import Any

import anyio
from anyio.abc import TaskGroup

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
    """Tell whether the code that asks runs in a task of asyncio, which takes its time to import and may not be."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.current_task() is not None
    except RuntimeError:
        return False


def make_crew() -> Crew:
    """Make the crew for the event loop that runs."""
    if not on_asyncio():
        return NurseryCrew()
    from ._crew_asyncio import AsyncioCrew

    return AsyncioCrew()
