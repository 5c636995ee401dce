"""``Console``: who watches a run on a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from ...compose import Custom, Event, InterruptAnswered, MessageDelta, NodeChunk, RunInfo, ToolDelta
from ...schema.errors import MissingExtraError
from .._watched import model_name
from ._entries import Entry, Tree
from ._lines import Writer, place
from ._prices import Prices, table_of

if TYPE_CHECKING:
    from ._screen import Screen


class Console:
    """Shows runs while they run: as a live tree on a terminal, as plain lines everywhere else.

    Every graph, node, attempt, model call, tool call, error and pause has its line, with its time; model calls have
    their tokens, and their cost if there are prices; a :class:`~anabranch.compose.Map` shows how far it is. One console
    may watch several runs at once. It is a callback handler, and takes the events of :meth:`Runnable.events` too.

    Args:
        file: Where to write; stderr by default, so that what the program prints stays apart.
        prices: What tokens cost, by the model's name: a :class:`Price`, or a pair of what a million tokens of input
            and of output cost. A name stands for all that begin with it.
        currency: Stands in front of sums.
        live: Whether to draw a tree; by default if the file is a terminal.
        refresh_per_second: How often the tree is drawn.
        clock: Gives the time in seconds.

    In a ``with`` block it is closed at the end, which matters only for runs that are left before they have ended.

    Raises:
        MissingExtraError: If a tree is to be drawn and ``rich`` is not installed.
        TypeError: If a price is none.

    Example:
        >>> import sys
        >>> from anabranch.compose import END, START, Graph, RunOptions
        >>> graph = Graph[str, str](name="loud")
        >>> graph.add_edge(START, graph.add_node("shout", str.upper, input=str, output=str))
        >>> graph.add_edge("shout", END)
        >>> options = RunOptions(callbacks=[Console(file=sys.stdout, clock=lambda: 0.0)])
        >>> answer = graph.compile().invoke_sync("tides", options)
        loud: started
        shout: started
        shout: done, 0 ms
        loud: done, 0 ms
    """

    def __init__(
        self,
        *,
        file: TextIO | None = None,
        prices: Prices | None = None,
        currency: str = "$",
        live: bool | None = None,
        refresh_per_second: float = 8,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._file = file
        self._clock = clock
        self._tree = Tree(clock)
        self._writer = Writer(table_of(prices or {}), currency)
        self._screen: Screen | None = None
        out = self._out()
        if out is not None and (_is_terminal(out) if live is None else live):
            try:
                from ._screen import Screen
            except ImportError as error:
                raise MissingExtraError("rich", "cli") from error
            self._screen = Screen(self._tree, self._writer, clock, out, refresh_per_second)

    def on_event(self, info: RunInfo, event: Event) -> None:
        """Show an event of a run; called by the run if the console is among its callbacks.

        Args:
            info: Where it comes from.
            event: What happened.
        """
        self._show(event, info.name if info.component in ("graph", "chain", "workflow") else "", model_name(info))

    def on_stop(self, info: RunInfo, reason: str) -> None:
        """Show that something ended before its end; called by the run.

        Args:
            info: What ended.
            reason: Why.
        """
        with self._tree.lock:
            entry = self._tree.stop(info.run, info.path, reason)
            self._tell(entry)
        self._update()

    def show(self, event: Event) -> None:
        """Show an event that came from :meth:`Runnable.events`.

        Args:
            event: What happened.

        Example:
            >>> import sys
            >>> from anabranch.compose import END, START, Graph
            >>> graph = Graph[str, str]()
            >>> graph.add_edge(START, graph.add_node("shout", str.upper, input=str, output=str))
            >>> graph.add_edge("shout", END)
            >>> console = Console(file=sys.stdout, clock=lambda: 0.0)
            >>> async with graph.compile().events("tides") as events:
            ...     async for event in events:
            ...         console.show(event)
            run: started
            shout: started
            shout: done, 0 ms
            run: done, 0 ms
        """
        self._show(event, "", None)

    def close(self) -> None:
        """Leave what is shown as it is, if runs were left before they ended."""
        if self._screen is not None:
            self._screen.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _show(self, event: Event, name: str, model: str | None) -> None:
        with self._tree.lock:
            entry = self._tree.add(event, name, model)
            if not isinstance(event, MessageDelta | NodeChunk | ToolDelta):
                self._tell(entry, said=isinstance(event, Custom | InterruptAnswered))
        self._update()

    def _update(self) -> None:
        if self._screen is not None:
            self._screen.update()

    def _tell(self, entry: Entry | None, *, said: bool = False) -> None:
        """Write a line, where no tree is drawn; its note alone, if that is what is new."""
        if entry is None or self._screen is not None:
            return
        if entry.is_item and entry.parent is not None and entry.status == "done":
            self._tell_progress(entry.parent)
        elif said:
            self._write(f"{place(entry)}: {entry.note}")
        elif not entry.is_inside_item or entry.status not in ("running", "done"):
            self._write(self._writer.plain(entry, self._clock()))
        if entry.parent is None and entry.ended is not None:
            self._tree.roots.remove(entry)

    def _tell_progress(self, entry: Entry) -> None:
        """Write how far a map is, some ten times in all; without a known number of items at 10, 20, 40 and so on."""
        due = entry.told * 2 if entry.total is None else entry.told + max(entry.total // 10, 1)
        if entry.finished >= max(due, min(10, entry.total or 10)) and entry.finished != entry.total:
            entry.told = entry.finished
            self._write(self._writer.plain(entry, self._clock()))

    def _out(self) -> TextIO | None:
        return sys.stderr if self._file is None else self._file

    def _write(self, line: str) -> None:
        out = self._out()
        if out is None:
            return
        encoding = out.encoding or "utf-8"
        out.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        out.flush()


def _is_terminal(out: TextIO) -> bool:
    return out.isatty() and os.environ.get("TERM") != "dumb"
