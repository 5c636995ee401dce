"""The tools that search and read within one folder."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice

from ...schema import FunctionTool, tool
from ._sandbox import Sandbox
from ._search import search
from .errors import FileAccessError

MAX_FILE_BYTES = 1_000_000
"""How much of one file is searched or read."""
MAX_TOTAL_BYTES = 20_000_000
"""How much is searched altogether."""
MAX_FILES = 2_000
"""How many files are searched."""
MAX_LINES = 300
"""How many lines are read at a time."""
_MAX_LINE = 1_000
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MAX_QUOTE = 240
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def file_tools(folder: str | os.PathLike[str], *, hidden: bool = False) -> list[FunctionTool[..., str]]:
    """Make the tools `search_files` and `read_file` for one folder, which they cannot leave.

    Links are not followed, whether they stay inside or not; devices and pipes are refused; binary files are
    left out. What is too much is cut, and the result says so.

    Args:
        folder: An existing folder.
        hidden: Whether hidden files (a leading dot), `__pycache__` and `node_modules` are shown.

    Returns:
        The two tools.

    Raises:
        FileAccessError: If there is no such folder.

    Example:
        >>> [made.info.name for made in file_tools(".")]
        ['search_files', 'read_file']
    """
    sandbox = Sandbox(folder, hidden=hidden)

    @tool
    def search_files(query: str) -> str:
        """Search the text files of the folder and quote the lines that match best.

        Args:
            query: A few words that the wanted passage would contain.

        Returns:
            One line per hit, best first: path:line: text.
        """
        return _search_files(sandbox, query)

    @tool
    def read_file(path: str, start_line: int = 1, end_line: int | None = None) -> str:
        """Read lines of a text file in the folder.

        Args:
            path: The file's path relative to the folder, as search_files gives it.
            start_line: The first line to read, counted from 1.
            end_line: The last line to read; without it, as many as may be read at a time.

        Returns:
            The lines with their numbers.

        Raises:
            FileAccessError: If the file is outside, missing or no text, or has no such line.
        """
        return _read_file(sandbox, path, start_line, end_line)

    return [search_files, read_file]


def _search_files(sandbox: Sandbox, query: str) -> str:
    """Search, and say what was left out."""
    if not query.strip():
        raise ValueError("the query is empty; give a few words to search for")
    reading = _Reading(sandbox)
    hits = search(query, reading)
    lines = [f"{hit.path}:{hit.line}: {_shorten(hit.text, _MAX_QUOTE)}" for hit in hits]
    if not lines:
        lines = [f"No line matches {query!r}."]
    return "\n".join([*lines, f"({reading.summary()})"])


class _Reading:
    """The texts of a folder, one after the other, within limits; afterwards it knows what was left out."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.read = 0
        self.binary = 0
        self.unreadable = 0
        self.cut = 0
        self.stopped = False

    def __iter__(self) -> Iterator[tuple[str, str]]:
        left = MAX_TOTAL_BYTES
        for path in self._sandbox.walk():
            if self.read >= MAX_FILES or left <= 0:
                self.stopped = True
                return
            try:
                content = self._sandbox.read(path, min(MAX_FILE_BYTES, left))
            except FileAccessError:
                self.unreadable += 1
                continue
            left -= len(content.data)
            text = decode(content.data)
            if text is None:
                self.binary += 1
                continue
            self.read += 1
            self.cut += content.size > len(content.data)
            yield path, text

    def summary(self) -> str:
        """Say in one line what was searched and what was not."""
        notes = [f"searched {self.read} text file{'' if self.read == 1 else 's'}"]
        if self.binary:
            notes.append(f"{self.binary} binary left out")
        if self.unreadable:
            notes.append(f"{self.unreadable} not readable")
        if self.cut:
            notes.append(f"of {self.cut} only the first part")
        if self.stopped:
            notes.append("there are more files than can be searched: a smaller folder would be searched whole")
        return "; ".join(notes)


def _read_file(sandbox: Sandbox, path: str, start: int, end: int | None) -> str:
    """Read some lines and number them."""
    try:
        content = sandbox.read(path, MAX_FILE_BYTES)
    except FileAccessError as error:
        if not str(error).startswith("there is no file"):
            raise
        raise FileAccessError(f"{error}{_suggest(sandbox, path)}") from None
    text = decode(content.data)
    if text is None:
        raise FileAccessError(f"{path!r} is a binary file; only text is read")
    is_cut = content.size > len(content.data)
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    if start < 1 or (end is not None and end < start):
        raise FileAccessError(f"lines {start} to {end} make no sense: count from 1, the last not before the first")
    if start > len(lines):
        what = "readable lines" if is_cut else "lines"
        raise FileAccessError(f"{path!r} has {len(lines)} {what}; start_line {start} is beyond the end")
    last = min(len(lines), end if end is not None else len(lines), start + MAX_LINES - 1)
    shown = [f"{n}: {_shorten(lines[n - 1], _MAX_LINE)}" for n in range(start, last + 1)]
    head = f"{path}, lines {start}-{last} of {len(lines)}"
    if is_cut:
        head += f" (only the first {len(content.data)} of {content.size} bytes can be read)"
    wanted = len(lines) if end is None else min(end, len(lines))
    tail = [f"({wanted - last} more lines; go on with start_line={last + 1})"] if last < wanted else []
    return "\n".join([head, *shown, *tail])


def decode(data: bytes) -> str | None:
    """Decode text, with a plain newline between its lines.

    Args:
        data: The beginning of a file.

    Returns:
        The text, or `None` for a binary file. Bytes that are no UTF-8 are replaced.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            text = data.decode(encoding, errors="replace")
            break
    else:
        if b"\0" in data:
            return None
        text = data.decode("utf-8", errors="replace")
        if text.count("\ufffd") > len(text) * 0.1 + 1:
            return None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _shorten(text: str, limit: int) -> str:
    """Cut a long line and say so; control characters could steer a terminal and are replaced."""
    text = _CONTROL.sub("\ufffd", text)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def _suggest(sandbox: Sandbox, path: str) -> str:
    """Name files that were perhaps meant, by their whole path or by their name alone."""
    known = list(islice(sandbox.walk(), MAX_FILES))
    wanted = path.rsplit("/", 1)[-1].casefold()
    near = [candidate for candidate in known if candidate.rsplit("/", 1)[-1].casefold() == wanted]
    near = near or get_close_matches(path, known, n=3)
    if not near:
        return "; search_files finds the paths that exist"
    return f"; did you mean {' or '.join(repr(candidate) for candidate in near[:3])}?"
