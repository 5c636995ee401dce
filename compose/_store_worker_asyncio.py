"""Waiting for a thread on asyncio, whose tasks can be cancelled in two ways: by anyio's scopes and by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from anyio import CancelScope
from typing_extensions import override


class Undisturbed(asyncio.Future[Any]):
    """A future that cannot be cancelled: a task that awaits it is cancelled when it is done."""

    @override
    def cancel(self, msg: Any | None = None) -> bool:
        return False


async def delivered(begin: Callable[[Callable[[Any], None]], None]) -> Any:
    """Begin something that delivers its outcome from another thread, and wait for that, whatever is cancelled."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[Any] = loop.create_future()
    is_delivered = False

    def settle(outcome: Any) -> None:
        nonlocal is_delivered
        is_delivered = True
        if not waiting.done():
            waiting.set_result(outcome)

    def deliver(outcome: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, outcome)

    begin(deliver)
    try:
        return await waiting
    except asyncio.CancelledError:
        # From here on nothing gets through, from a scope or from a task. The shield costs too much to have it before.
        if not is_delivered:
            waiting = Undisturbed(loop=loop)
            with CancelScope(shield=True):
                await waiting
        raise
