"""``merge``: several sources read as one, an item as soon as any of them has one.

Sources that may have an item stand in a queue, and only those are polled; one that answers ``PENDING`` is watched and
comes back when it was called. So an item costs the same with two sources and with a thousand. A source that gave an
item goes to the end of the queue, which makes the merge fair, and nothing is read ahead. Sources that are just lists
stand in line one behind the other, as if they were one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Generic

from typing_extensions import TypeVar

from ._stream_source import END, PENDING, Postbox, Signal, Source, close_all

__all__ = ("SourceEnd",)

LabelT = TypeVar("LabelT", default=str)


@dataclass(frozen=True, slots=True)
class SourceEnd(Generic[LabelT]):
    """An item of a labelled merge: the source with this label has ended."""

    label: LabelT


class MergeSource(Source):
    """Several sources as one; with labels, items are ``(label, item)`` and ``SourceEnd(label)``."""

    __slots__ = ("_labels", "_left", "_line", "_queue", "_ready", "_sources")

    def __init__(self, sources: Sequence[Source], labels: Sequence[Any] | None) -> None:
        super().__init__()
        self._sources = sources
        self._labels = labels
        self._left = len(sources)  # how many have not ended
        self._ready = Signal()
        arrays = [index for index, source in enumerate(sources) if source.array]
        self._line = dict(pairwise(arrays))  # who comes after this list
        self._queue = deque(index for index in range(len(sources)) if index not in self._line.values())

    def poll(self) -> Any:
        if self.done:
            return self.last_word()
        queue, sources = self._queue, self._sources
        while queue:
            index = queue.popleft()
            try:
                item = sources[index].poll()
            except BaseException as error:
                self.settled = False
                self.fail(error)
                raise
            if item is PENDING:
                sources[index].watch(partial(self._on_ready, index))
            elif item is END:
                self._left -= 1
                self.settled = self.settled and sources[index].settled
                if index in self._line:
                    queue.append(self._line[index])
                if self._labels is not None:
                    return SourceEnd(self._labels[index])
            else:
                queue.append(index)
                return item if self._labels is None else (self._labels[index], item)
        if self._left:
            return PENDING
        self.finish()
        return END

    def _on_ready(self, index: int) -> None:
        self._queue.append(index)
        self._ready.fire()

    def watch(self, callback: Callable[[], None]) -> None:
        if self._queue or self.done:
            callback()
        else:
            self._ready.add(callback)

    def unwatch(self, callback: Callable[[], None]) -> None:
        self._ready.discard(callback)

    async def settle(self) -> None:
        await close_all(self._sources, quietly=self.error is not None)
        self.is_settled()

    async def aclose(self) -> None:
        if not self.closed:
            self.closed = True
            self.finish()
            self._ready.fire()
            await close_all(self._sources)

    def find_postbox(self) -> Postbox | None:
        found = (source.find_postbox() for source in self._sources)
        return self.postbox or next((postbox for postbox in found if postbox is not None), None)

    def drop(self) -> None:
        for source in self._sources:
            source.drop()
