"""What a run consists of, as a tree that grows with its events; how it is shown is decided elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import RLock
from typing import Literal

from ...compose import (
    Custom,
    Event,
    InterruptAnswered,
    InterruptRequested,
    MessageDelta,
    NodeChunk,
    NodeEnded,
    NodeFailed,
    NodeStarted,
    RunEnded,
    RunFailed,
    RunPaused,
    RunStarted,
    ToolDelta,
    ToolEnded,
    ToolFailed,
    ToolStarted,
)
from ...schema import Message, Usage
from ._notes import note_of_call, note_of_message, note_of_question, shortened

Kind = Literal["graph", "node", "tool"]
Status = Literal["running", "waiting", "done", "failed", "retried", "paused", "stopped"]


@dataclass(eq=False)
class Entry:
    """One thing that a run did: a graph, one attempt of a node, a call of a tool."""

    kind: Kind
    path: str
    label: str
    component: str
    started: float
    attempt: int = 1
    ended: float | None = None
    status: Status = "running"
    note: str = ""
    """What there is to say about it, on one line."""
    model: str | None = None
    usage: Usage | None = None
    parent: Entry | None = None
    children: list[Entry] = field(default_factory=list["Entry"])
    total: int | None = None
    """How many items a map has, as far as that is known."""
    finished: int = 0
    """How many of them are over."""
    told: int = 0
    """How many of them were over when that was last said."""
    said: str = ""
    """What a model has said so far."""
    spent: list[tuple[str | None, Usage]] = field(default_factory=list[tuple[str | None, Usage]])
    """What was spent by items that are done and not kept."""

    @property
    def is_item(self) -> bool:
        """Whether it is one item of a map."""
        return self.parent is not None and self.parent.component == "map"

    @property
    def is_inside_item(self) -> bool:
        """Whether it is an item of a map, or inside one."""
        return self.is_item or (self.parent is not None and self.parent.is_inside_item)

    def everything(self) -> Iterator[Entry]:
        """Give the entry and all that is inside it."""
        yield self
        for child in self.children:
            yield from child.everything()


class Tree:
    """The entries of all runs that are watched; :meth:`add` tells which one an event has changed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.lock = RLock()
        """Held by whoever changes or draws the tree, which may be another thread."""
        self._open: dict[tuple[str, str], list[Entry]] = {}
        self.roots: list[Entry] = []

    @property
    def is_over(self) -> bool:
        """Whether no run is under way."""
        return not self._open

    @property
    def is_waiting(self) -> bool:
        """Whether a person is asked at this moment."""
        return any(entry.status == "waiting" for found in self._open.values() for entry in found)

    def add(self, event: Event, name: str = "", model: str | None = None) -> Entry | None:
        """Note an event; give the entry that it is about, None if there is nothing to show."""
        match event:
            case RunStarted():
                return self._begin(event, "graph", name or _last(event.path), "graph")
            case NodeStarted(component=component):
                entry = self._begin(event, "node", _last(event.path), component)
                entry.model = model
                items = event.input
                entry.total = len(items) if component == "map" and hasattr(items, "__len__") else None
                return entry
            case ToolStarted():
                entry = self._begin(event, "tool", event.tool, "tool", str(event.position))
                entry.note = note_of_call(event.arguments)
                return entry
            case RunPaused():
                return self._pause(event)
            case InterruptRequested() | InterruptAnswered():
                return self._ask(event)
            case RunEnded() | RunFailed() | NodeEnded() | NodeFailed() | ToolEnded() | ToolFailed():
                return self._end(event)
            case _:
                return self._go_on(event)

    def stop(self, run: str, path: str, reason: str) -> Entry | None:
        """Note that something ended before its end."""
        entry = self._find(run, path, None)
        return None if entry is None else self._over(run, entry, "paused" if reason == "paused" else "stopped")

    # -- the kinds of events -----------------------------------------------------------------------------------

    def _begin(self, event: Event, kind: Kind, label: str, component: str, below: str = "") -> Entry:
        path = f"{event.path}/{below}" if below else event.path
        parent = self._parent(event.run, path, itself=kind == "graph")
        entry = Entry(kind, path, label, component, self._clock(), event.attempt, parent=parent)
        (self.roots if parent is None else parent.children).append(entry)
        self._open.setdefault((event.run, path), []).append(entry)
        return entry

    def _end(self, event: Event) -> Entry | None:
        match event:
            case ToolEnded() | ToolFailed():
                entry = self._find(event.run, f"{event.path}/{event.position}", "tool")
            case NodeEnded() | NodeFailed():
                entry = self._find(event.run, event.path, "node", event.attempt)
            case _:
                entry = self._find(event.run, event.path, "graph")
        return None if entry is None else self._over(event.run, entry, _conclude(entry, event))

    def _go_on(self, event: Event) -> Entry | None:
        entry = self._find(event.run, event.path, None)
        if entry is None:
            return None
        match event:
            case MessageDelta(delta=delta):
                entry.said += delta.text
                entry.note = shortened(entry.said[-200:].strip(), tail=True)
            case NodeChunk(chunk=chunk):
                entry.note = shortened(chunk)
            case ToolDelta():
                call = self._find(event.run, f"{event.path}/{event.position}", "tool") or entry
                call.note = shortened(event.chunk)
            case Custom(data=data):
                entry.note = shortened(data)
            case _:
                pass
        return entry

    def _ask(self, event: InterruptRequested | InterruptAnswered) -> Entry | None:
        entry = self._find(event.run, event.path, None)
        if entry is None:
            return None
        if isinstance(event, InterruptRequested):
            entry.status, entry.note = "waiting", note_of_question(event.interrupt)
        else:
            entry.status, entry.note = "running", f"answered: {shortened(event.answer)}"
        return entry

    def _pause(self, event: RunPaused) -> Entry | None:
        entry = self._find(event.run, "", "graph") or next(
            (root for root in reversed(self.roots) if root.status == "paused"), None
        )
        if entry is None:
            return None
        entry.note = ", ".join(note_of_question(one) for one in event.interrupts)
        return self._over(event.run, entry, "paused")

    # -- what is open ------------------------------------------------------------------------------------------

    def _parent(self, run: str, path: str, *, itself: bool) -> Entry | None:
        """Give what is around a path; a graph may also stand for a tool call or an item with its very path."""
        if itself and (found := self._open.get((run, path))):
            return found[-1]
        while path:
            path = path.rpartition("/")[0]
            if found := self._open.get((run, path)):
                return found[-1]
        return None

    def _find(self, run: str, path: str, kind: Kind | None, attempt: int | None = None) -> Entry | None:
        found = self._open.get((run, path), [])
        fitting = (e for e in found if kind in (None, e.kind) and attempt in (None, e.attempt))
        return next(fitting, None)

    def _over(self, run: str, entry: Entry, status: Status) -> Entry:
        now = self._clock()
        for inside in entry.everything():
            if inside.ended is not None:
                continue
            inside.ended = now
            if inside is not entry:
                inside.status = "paused" if status == "paused" else "stopped"
            self._forget(run, inside)
        entry.status = status
        if entry.parent is not None and entry.is_item:
            entry.parent.finished += 1
            if status == "done":
                entry.parent.spent.extend(cost_data(entry))
                entry.parent.children.remove(entry)
        return entry

    def _forget(self, run: str, entry: Entry) -> None:
        found = self._open.get((run, entry.path), [])
        if entry in found:
            found.remove(entry)
        if not found:
            self._open.pop((run, entry.path), None)


def _conclude(entry: Entry, event: Event) -> Status:
    """Note what there is to say about an entry that ends; give how it ended."""
    match event:
        case NodeEnded(output=Message() as message) if entry.component == "model":
            found = message.extra.get("model")
            entry.model = found if isinstance(found, str) else entry.model
            entry.usage = message.usage
            entry.note = note_of_message(message)
        case NodeEnded():
            entry.note, entry.total = "", entry.finished if entry.component == "map" else None
        case ToolEnded(result=result):
            entry.note = f"{entry.note} -> {shortened(result)}"
        case NodeFailed(will_retry=True, error=error):
            entry.note = f"{_error(error)}; trying again"
            return "retried"
        case ToolFailed(error=error, told=told):
            entry.note = f"{entry.note} -> {shortened(told or _error(error))}"
            return "failed"
        case NodeFailed(error=error):
            entry.note = _error(error)
            return "failed"
        case RunFailed(error=error):
            entry.note = "" if _shown_below(entry) else _error(error)
            return "failed"
        case _:
            pass
    return "done"


def _last(path: str) -> str:
    return path.rpartition("/")[2] or "run"


def _error(error: BaseException) -> str:
    return shortened(f"{type(error).__name__}: {error}")


def _shown_below(entry: Entry) -> bool:
    """Tell whether what made a graph fail is told further down."""
    return any(inside.status == "failed" and inside.kind == "node" for inside in entry.everything())


def cost_data(entry: Entry) -> Iterator[tuple[str | None, Usage]]:
    """Give the model and the tokens of each answer inside an entry."""
    for inside in entry.everything():
        yield from inside.spent
        if inside.usage is not None:
            yield inside.model, inside.usage
