"""Server-sent events: the pieces in which providers stream.

The clients' own stream objects are nested generators that nobody closes when the reader of a stream leaves early; on
trio each of them then complains. So the events are read here from the client's raw response, whose one generator can
be closed, and that is what :func:`read_events` does however it is left.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, NamedTuple, Protocol

__all__ = ()

_LINE_END = re.compile(rb"\r\n|\n|\r")
DONE = "[DONE]"


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
    decoder = EventDecoder()
    async with aclosing(response.aiter_bytes()) as chunks:
        async for chunk in chunks:
            for event in decoder.feed(chunk):
                if event.data == DONE:
                    return
                if event.data:
                    yield json.loads(event.data)
    for event in decoder.end():
        try:
            value = json.loads(event.data)
        except json.JSONDecodeError:
            return
        yield value
