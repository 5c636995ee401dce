"""Writing to the standard output, which may be a terminal, a file, a pipe that breaks, or not there at all."""

from __future__ import annotations

import os
import sys

from .errors import OutputClosed


def write(text: str) -> None:
    """Write to stdout at once.

    Args:
        text: What to write; characters that the output cannot show are escaped.

    Raises:
        OutputClosed: If whoever read the output has gone.
    """
    stream = sys.stdout
    if stream is None or not text:  # pyright: ignore[reportUnnecessaryComparison]  (None when it was closed)
        return
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        _silence()
        raise OutputClosed from None


class Line:
    """Text that is written piece by piece and ended with a newline."""

    def __init__(self) -> None:
        self._last = ""

    def write(self, text: str) -> None:
        """Write a piece."""
        if text:
            write(text)
            self._last = text[-1]

    def end(self) -> None:
        """End the line, unless it is ended."""
        if self._last != "\n":
            write("\n")
        self._last = ""


def _silence() -> None:
    """Let what the interpreter still flushes at its end go nowhere instead of failing."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return
