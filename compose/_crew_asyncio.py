"""The tasks of one run on asyncio.

anyio's task groups cost four times what bare asyncio tasks do, which a fan-out of a thousand small nodes feels.
So here the crew makes the tasks itself and keeps the promises of a task group: each task runs in a cancel scope of its
own (anyio's, so shields are respected and cancellation is delivered until it is obeyed), and no task outlives the
crew: closing it cancels and awaits them, whatever happens meanwhile.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import Any

from anyio import CancelScope

from ._crew import Crew, Outcome

EAGER: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}
"""Where Python has it, a task runs at once up to its first wait, and one that never waits costs no turn of the loop."""


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
        factory: Any = self._loop.create_task
        if self._loop.get_task_factory() is None:
            factory = partial(asyncio.Task, loop=self._loop, **EAGER)
        self._new_task: Callable[..., asyncio.Task[None]] = factory

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
