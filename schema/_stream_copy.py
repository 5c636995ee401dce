"""``copy``: one source read by several consumers, each at its own pace.

The copies share a chain of cells. Each has a cursor, the cell that it reads next; all start at one empty cell. Whoever
comes to the empty cell first has it filled by one poll of the source, which hangs a new empty cell behind it; the
others find the item there. Cells point forwards only, so what every open copy has passed is forgotten: memory is the
distance between the slowest and the fastest. (The idea is that of ``asyncstdlib.tee``.)

Invariants:

* C1 the source is polled only to fill the last cell.
* C2 how the source ended stays in the hub; every copy that comes to the last cell is told.
* C3 the source is closed when no copy is open any more. A copy that was told the ending is not open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._stream_source import EMPTY, END, PENDING, Postbox, Signal, Source, close_all

__all__ = ()

Cell = list[Any]
"""An item (or EMPTY), and the next cell."""


class Hub:
    """What the copies of one source share."""

    __slots__ = ("_moved", "_watching", "filled", "max_lag", "open", "source")

    def __init__(self, source: Source, count: int, max_lag: int | None) -> None:
        self.source = source
        self.max_lag = max_lag
        self.filled = 0  # how many cells have been
        self._moved = Signal()  # fired when it is worth polling again
        self._watching = False
        last: Cell = [EMPTY, None]
        self.open: dict[CopySource, None] = {CopySource(self, last): None for _ in range(count)}

    def fill(self, cell: Cell) -> Any:
        """Put the source's next item into the last cell; give it, or ``PENDING``, or ``END``, or raise."""
        if self._is_held():
            return PENDING
        try:
            item = self.source.poll()
        except BaseException:
            self._moved.fire()
            raise
        if item is PENDING:
            return item
        if item is END:
            self._moved.fire()
            return item
        cell[0] = item
        cell[1] = [EMPTY, None]
        self.filled += 1
        if self._moved:
            self._moved.fire()
        return item

    def _is_held(self) -> bool:
        """Whether the fastest has to wait for the slowest."""
        if self.max_lag is None:
            return False
        return self.filled - min((copy.passed for copy in self.open), default=self.filled) >= self.max_lag

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back when a copy that stands at the last cell should poll again."""
        self._moved.add(callback)
        if not self._watching and not self._is_held():
            self._watching = True
            self.source.watch(self._on_source)

    def unwatch(self, callback: Callable[[], None]) -> None:
        """Do not call back after all."""
        self._moved.discard(callback)
        if self._watching and not self._moved:
            self._watching = False
            self.source.unwatch(self._on_source)

    def _on_source(self) -> None:
        self._watching = False
        self._moved.fire()

    def on_advance(self) -> None:
        """Let those who run ahead try again, since another copy has moved."""
        self._moved.fire()

    async def leave(self, copy: CopySource) -> None:
        """Take a copy out; the last one closes the source."""
        self._take_out(copy)
        if not self.open:
            await self.source.aclose()

    def drop(self, copy: CopySource) -> None:
        """Take out a copy that cannot wait."""
        self._take_out(copy)
        if not self.open:
            self.source.drop()

    def _take_out(self, copy: CopySource) -> None:
        self.open.pop(copy, None)
        self._moved.fire()

    async def aclose(self) -> None:
        """Close all copies."""
        await close_all(tuple(self.open))


class CopySource(Source):
    """One copy."""

    __slots__ = ("_cell", "_hub", "passed")

    def __init__(self, hub: Hub, cell: Cell) -> None:
        super().__init__()
        self._hub = hub
        self._cell: Cell = cell
        self.passed = 0  # how many items it has read

    def poll(self) -> Any:
        if self.done:
            return self.last_word()
        cell = self._cell
        item = cell[0]
        if item is EMPTY:
            try:
                item = self._hub.fill(cell)
            except BaseException as error:
                self.settled = self._hub.source.settled
                self.fail(error)
                self._hub.open.pop(self, None)
                raise
            if item is PENDING:
                return PENDING
            if self.closed:  # by the source itself, in this step
                return self.last_word()
            if item is END:
                self.settled = self._hub.source.settled
                self.finish()
                self._hub.open.pop(self, None)
                return END
        self._cell = cell[1]
        if self._hub.max_lag is not None:
            self.passed += 1
            self._hub.on_advance()
        return item

    def watch(self, callback: Callable[[], None]) -> None:
        self._hub.watch(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._hub.unwatch(callback)

    async def settle(self) -> None:
        try:
            await self._hub.source.settle()
        except Exception:
            if self.error is None:
                raise
        self.is_settled()

    async def aclose(self) -> None:
        if not self.closed:
            self.closed = True
            self._cell = [EMPTY, None]
            if not self.done:
                self.finish()
                await self._hub.leave(self)
            elif not self.settled:
                await self.settle()

    def find_postbox(self) -> Postbox | None:
        own = (copy.postbox for copy in self._hub.open)
        return self._hub.source.find_postbox() or next((postbox for postbox in own if postbox is not None), None)

    def drop(self) -> None:
        if not self.done:
            self.finish()
            self._hub.drop(self)
        elif not self.settled:
            self._hub.source.drop()
            self.is_settled()
