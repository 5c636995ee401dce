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
    future = Undisturbed(loop=loop)

    def deliver(outcome: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(future.set_result, outcome)

    begin(deliver)
    # The future alone would do, but anyio's scopes would try again in every turn of the loop.
    with CancelScope(shield=True):
        return await future
