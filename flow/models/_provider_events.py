"""Server-sent events: the pieces in which providers stream.

The clients' own stream objects are nested generators that nobody closes when the reader of a stream leaves early, and
some not even at the end; on trio each of them complains. So the events are read here from the client's raw response,
and :func:`read_events` leaves nothing open however it is left.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import anyio

__all__ = ()

_LINE_END = re.compile(rb"\r\n|\n|\r")
DONE = "[DONE]"
_GRACE = 0.1  # seconds, for the last bytes of a body behind the mark of its end


class ServerEvent(NamedTuple):
    """One event."""

    name: str
    """What stands behind ``event:``; empty if nothing does."""
    data: str
    """What stands behind ``data:``, several lines joined."""


class Response(Protocol):
    """What is needed of the client's response."""

    def aiter_bytes(self) -> AsyncGenerator[bytes, None]:
        """Give the body, decoded, in pieces of any size."""
        ...


class EventDecoder:
    """Makes events of bytes that come in pieces of any size."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # the line that is not complete yet
        self._name = ""
        self._data: list[str] = []
        self._is_first = True

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Take some bytes; give the events that they complete."""
        self._pieces.append(chunk)
        if b"\n" not in chunk and b"\r" not in chunk and self._pieces[-2:-1] != [b"\r"]:
            return []
        known = b"".join(self._pieces)
        # A carriage return at the end may be half of a line end.
        held = b"\r" if known.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(known[: len(known) - len(held)])
        self._pieces = [piece for piece in (rest + held,) if piece]
        return [event for line in lines if (event := self._take(line)) is not None]

    def end(self) -> list[ServerEvent]:
        """Give the event that lacks only the blank line behind it."""
        lines = [*_LINE_END.split(b"".join(self._pieces)), b""]
        self._pieces = []
        return [event for line in lines if (event := self._take(line)) is not None]

    def _take(self, raw: bytes) -> ServerEvent | None:
        line = raw.decode("utf-8", errors="replace")
        if self._is_first:
            self._is_first = False
            line = line.removeprefix("\ufeff")
        if not line:
            if not self._data:
                self._name = ""
                return None
            event = ServerEvent(self._name, "\n".join(self._data))
            self._name, self._data = "", []
            return event
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        return None


async def read_events(response: Response) -> AsyncGenerator[Any, None]:
    """Read the JSON values that a provider streams, up to the mark of the end that some send.

    Args:
        response: The response whose body is not read yet.

    Yields:
        Each event's data.

    Raises:
        json.JSONDecodeError: The data of an event are no JSON. What is cut off at the very end is left out instead:
            whoever reads sees that the end is missing.
    """
    decoder, done = EventDecoder(), False
    chunks = response.aiter_bytes()
    try:
        async for chunk in chunks:
            for event in decoder.feed(chunk):
                done = done or event.data == DONE
                if event.data and not done:
                    yield json.loads(event.data)
            if done:
                break
        for event in decoder.end():
            with suppress(json.JSONDecodeError):
                value = json.loads(event.data)
                yield value
    finally:
        await _close(chunks, grace=_GRACE if done else 0.0)


async def _close(chunks: AsyncGenerator[bytes, None], grace: float) -> None:
    """Close the generator of a response's body, and those that it is made of.

    Closing only the outer one would drop the inner ones unfinished. So the body is read on in a scope whose time is
    up, or nearly so: what ends them is either the end of the body (and the connection can be used again), or the
    cancellation, which comes from the innermost one and passes through all.
    """
    with anyio.CancelScope(shield=True, deadline=anyio.current_time() + grace) as scope:
        if not grace:
            scope.cancel()
        with suppress(Exception):
            async for _ in chunks:
                pass
    await chunks.aclose()
