"""Who may take a turn of a conversation now: one at a time, the others in the order in which they came."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from anyio import Semaphore, WouldBlock
from anyio.lowlevel import RunVar

from .errors import ThreadConflict

Busy = Literal["conflict", "queue"]
"""What to do while another turn is under way: fail, or wait until it has ended."""


@dataclass(slots=True)
class _Seat:
    taken: Semaphore = field(default_factory=lambda: Semaphore(1, max_value=1))  # a lock without an owner
    users: int = 0


_seats: RunVar[dict[tuple[int, str], _Seat]] = RunVar("anabranch_thread_seats")


@asynccontextmanager
async def seat(store: object, thread: str, busy: Busy) -> AsyncGenerator[None, None]:
    """Have a conversation for oneself, as far as this event loop is concerned.

    Raises:
        ThreadConflict: Somebody has it, and ``busy`` is ``"conflict"``.
    """
    seats = _of_loop()
    key = (id(store), thread)
    mine = seats.setdefault(key, _Seat())
    mine.users += 1
    try:
        if busy == "queue":
            await mine.taken.acquire()
        else:
            try:
                mine.taken.acquire_nowait()
            except WouldBlock:
                raise ThreadConflict(thread, f"thread/{thread}") from None
        try:
            yield
        finally:
            mine.taken.release()
    finally:
        mine.users -= 1
        if not mine.users:
            del seats[key]


def _of_loop() -> dict[tuple[int, str], _Seat]:
    try:
        return _seats.get()
    except LookupError:
        made: dict[tuple[int, str], _Seat] = {}
        _seats.set(made)
        return made
