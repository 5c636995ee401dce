"""A stream to a stream: hide addresses and keys in a text while it flows, wherever the chunks happen to end.

Run it with `python docs/examples/redact_stream.py README.md`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from anabranch.compose import Chain, Lambda
from anabranch.schema import StreamReader

SECRET = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\bsk-[\w-]{3,}")
HIDDEN = "[hidden]"


def redact(text: str) -> str:
    """Hide the secrets of a whole text."""
    return SECRET.sub(HIDDEN, text)


async def redact_chunks(chunks: StreamReader[str]) -> AsyncIterator[str]:
    """Hide the secrets of a text in pieces: a word that may go on in the next chunk is held back."""
    held = ""
    async for chunk in chunks:
        held += chunk
        done = max(held.rfind(" "), held.rfind("\n")) + 1  # no secret has a space in it
        if done:
            yield redact(held[:done])
            held = held[done:]
    if held:
        yield redact(held)


graph = Chain[str, str](name="redact").append(Lambda(invoke=redact, transform=redact_chunks)).compile()


async def read_chunks(path: str, size: int = 64) -> AsyncIterator[str]:
    """Read a file piece by piece."""
    async with await anyio.open_file(path, encoding="utf-8") as file:
        while piece := await file.read(size):
            yield piece


async def main(path: str) -> None:
    """Print a file without its secrets; at no time is all of it in memory."""
    async with graph.transform(read_chunks(path)) as redacted:
        async for chunk in redacted:
            sys.stdout.write(chunk)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__)))
