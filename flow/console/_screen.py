"""The live tree on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TextIO

from rich.console import Console as Terminal
from rich.console import Group
from rich.live import Live
from rich.text import Text

from ._entries import Entry, Tree
from ._lines import MARKS, PLAIN_MARKS, Writer, label, shown_children

STYLES = {
    "done": "green", "failed": "bold red", "retried": "yellow", "paused": "magenta", "stopped": "dim",
    "waiting": "bold magenta", "running": "cyan",
}  # fmt: skip
ROUND = ("├─ ", "└─ ", "│  ", "   ")
PLAIN = ("|- ", "`- ", "|  ", "   ")


class Screen:
    """Shows the tree while something runs, but for the time in which a person is asked; at the end it stays.

    The picture is drawn again a few times a second by a thread of the terminal library, so times go on while nothing
    happens.
    """

    def __init__(self, tree: Tree, writer: Writer, clock: Callable[[], float], file: TextIO, per_second: float) -> None:
        self._tree = tree
        self._writer = writer
        self._clock = clock
        self._per_second = per_second
        self._terminal = Terminal(file=file, force_terminal=True, highlight=False)
        simple = self._terminal.options.ascii_only
        self._marks = PLAIN_MARKS if simple else MARKS
        self._guides = PLAIN if simple else ROUND
        self._live: Live | None = None

    def update(self) -> None:
        """Show what has changed: begin when something runs, end when nothing does."""
        if self._tree.is_over:
            self.close()
        elif self._tree.is_waiting:
            self._hide()
        elif self._live is None:
            self._live = Live(
                console=self._terminal,
                get_renderable=self._picture,
                refresh_per_second=self._per_second,
                transient=True,
            )
            self._live.start()

    def close(self) -> None:
        """End, and leave the whole tree on the terminal."""
        self._hide()
        with self._tree.lock:
            if self._tree.roots:
                self._terminal.print(Group(*self._lines()))
                self._tree.roots.clear()

    def _hide(self) -> None:
        """Take the tree away: it is over, or somebody is asked on the same terminal."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _picture(self) -> Group:
        """Give the last lines that fit on the terminal."""
        with self._tree.lock:
            lines = list(self._lines())
        return Group(*lines[-max(self._terminal.height - 2, 1) :])

    def _lines(self) -> Iterator[Text]:
        for root in self._tree.roots:
            yield from self._branch(root, "", "")

    def _branch(self, entry: Entry, first: str, rest: str) -> Iterator[Text]:
        style = STYLES[entry.status]
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(first, "dim").append(f"{self._marks[entry.status]} {label(entry)}", style)
        line.append("  " + "  ".join(self._writer.facts(entry, self._clock())), "dim")
        if entry.note:
            line.append(f"  {entry.note}", "" if entry.status != "failed" else "red")
        yield line
        children = list(shown_children(entry))
        fork, last, bar, gap = self._guides
        for child in children:
            ending = child is children[-1]
            yield from self._branch(child, rest + (last if ending else fork), rest + (gap if ending else bar))
