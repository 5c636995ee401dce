"""How an entry is written: on one line, with its time, tokens and cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ._entries import Entry, cost_data
from ._notes import shortened
from ._prices import Price, find_price

MARKS = {"done": "✓", "failed": "✗", "retried": "↻", "paused": "‖", "stopped": "–", "waiting": "?", "running": "•"}
PLAIN_MARKS = {
    "done": "+", "failed": "x", "retried": "~", "paused": "=", "stopped": "-", "waiting": "?", "running": "*",
}  # fmt: skip
WORDS = {"retried": "failed", "running": "started"}
MOST_ITEMS = 8
"""How many items of a map are shown at once."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes entries; knows what tokens cost."""

    prices: Mapping[str, Price]
    currency: str

    def facts(self, entry: Entry, now: float) -> list[str]:
        """Give the numbers: progress, time, tokens, cost."""
        facts: list[str] = []
        if entry.component == "map":
            facts.append(f"{entry.finished}/{'?' if entry.total is None else entry.total} items")
        facts.append(seconds((now if entry.ended is None else entry.ended) - entry.started))
        found = list(cost_data(entry))
        if found:
            read, written = sum(u.input_tokens for _, u in found), sum(u.output_tokens for _, u in found)
            facts.append(f"{read:,} + {written:,} tokens")
            priced = [price.cost(usage) for model, usage in found if (price := find_price(self.prices, model))]
            if priced:
                more = "" if len(priced) == len(found) else " and more"
                facts.append(f"{self.currency}{sum(priced):.4f}{more}")
        return facts

    def plain(self, entry: Entry, now: float) -> str:
        """Write what happened to an entry, for a file or a pipe."""
        word = "running" if entry.status == "running" and entry.told else WORDS.get(entry.status, entry.status)
        known = [] if entry.status in ("running", "waiting") and entry.component != "map" else self.facts(entry, now)
        note = "" if entry.status == "running" and entry.kind == "node" else entry.note
        text = ", ".join([word, *known]) + (f": {note}" if note else "")
        return f"{place(entry)}: {text}"


def place(entry: Entry) -> str:
    """Say where something is; tools by name, graphs and nodes by path."""
    path = f"{entry.path.rpartition('/')[0]}/{entry.label}" if entry.kind == "tool" else entry.path
    attempt = f" (attempt {entry.attempt})" if entry.attempt > 1 else ""
    return shortened(path or entry.label) + attempt


def label(entry: Entry) -> str:
    """Name an entry in its tree, where what is around it need not be said."""
    own = [entry.label if entry.parent is None else f"item {entry.label}" if entry.is_item else entry.label]
    if entry.model:
        own.append(f"[{entry.model}]")
    if entry.attempt > 1:
        own.append(f"(attempt {entry.attempt})")
    return shortened(" ".join(own))


def seconds(time: float) -> str:
    """Write a time.

    Example:
        >>> seconds(0.0123), seconds(3.21), seconds(125)
        ('12 ms', '3.2 s', '2 min 5 s')
    """
    if time < 1:
        return f"{time * 1000:.0f} ms"
    return f"{time:.1f} s" if time < 60 else f"{time // 60:.0f} min {time % 60:.0f} s"


def shown_children(entry: Entry) -> Iterator[Entry]:
    """Give what is shown inside an entry: of a map, only what is at work or went wrong."""
    if entry.component != "map":
        yield from entry.children
        return
    notable = [child for child in entry.children if child.status != "done"]
    yield from notable[:MOST_ITEMS]
