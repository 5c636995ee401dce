"""A place in a durable run that has a record of its own: a node's visit, a tool call in it, an item of a map.

A part knows what was asked in it and what was answered, which durable steps it has done, its result if it is done, and
the graph that runs inside it. All of that is in the run's document, so whoever runs the part again finds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._codec import Json
    from ._interrupt import Interrupt
    from ._plan import Plan
    from ._record import Path, Record
    from ._scope import Scope

current_part: ContextVar[Part | None] = ContextVar("anabranch_part", default=None)
"""The part in which code runs; None in a run that nobody keeps."""


inside_step: ContextVar[str] = ContextVar("anabranch_inside_step", default="")
"""The label of the durable step that the code is in, and a slash: what happens in it is numbered apart, since it does
not happen again once the step is done."""


class Part:
    """One place; made anew whenever it is run."""

    __slots__ = ("_children", "_counts", "address", "path", "record", "stage", "unanswered")

    def __init__(self, record: Record, path: Path, address: tuple[str, ...]) -> None:
        self.record = record
        self.path = path
        """Where its record is in the document."""
        self.address = address
        """The keys of the nodes from the outermost graph, and places inside the last."""
        self.unanswered: list[Interrupt] = []
        """What was asked since it was begun, and has no answer."""
        self.stage = ""
        """Where in the part the code runs: in handlers and conditions it stands before the numbers of questions, steps
        and graphs, since what was done before them is not done again and does not count."""
        self._counts: dict[str, int] = {}
        self._children: dict[str, Part] = {}

    @property
    def prefix(self) -> str:
        """What stands before the numbers of questions, steps and graphs: the stage, and the step around the code."""
        return self.stage + inside_step.get()

    def mark(self) -> Mapping[str, int]:
        """Note how far it is, to begin again from here."""
        return dict(self._counts)

    def rewind(self, to: Mapping[str, int] | None = None) -> None:
        """Get ready for another attempt, which asks the same questions and does the same steps again.

        Args:
            to: How far it was when the first attempt began; without it that was at its beginning.
        """
        self._counts = dict(to or {})
        self.unanswered.clear()
        for child in self._children.values():
            child.rewind()

    def number(self, kind: str) -> int:
        """Count how often something of a kind has come up in this run of the part; give its number, from 0."""
        counted = self.prefix + kind
        number = self._counts.get(counted, 0)
        self._counts[counted] = number + 1
        return number

    def child(self, name: str) -> Part:
        """Give a part of this part."""
        found = self._children.get(name)
        if found is None:
            found = Part(self.record, (*self.path, "parts", name), (*self.address, name))
            self._children[name] = found
        return found

    def nested(self, plan: Plan, name: str = "") -> Scope:
        """Give the record of a graph that runs inside this part."""
        from ._scope import Scope

        key = f"graph {name}" if name else "graph"
        address = (*self.address, name) if name else self.address
        return Scope(self.record, (*self.path, key), address, plan)

    # -- what is in the document -------------------------------------------------------------------------------

    def get(self, kind: str, name: str) -> Json:
        """Give what is recorded here under a name, or None."""
        found: Json = self.record.at((*self.path, kind, name))
        return found

    def put(self, kind: str, name: str, tree: Json) -> None:
        """Record something here under a name."""
        self.record.put((*self.path, kind, name), tree)

    @property
    def result(self) -> dict[str, Any] | None:
        """The recorded result, in a box since None is one too."""
        found: dict[str, Any] | None = self.record.at((*self.path, "result"))
        return found

    def finish(self, tree: Json) -> None:
        """Record the result; what led to it is not needed any more."""
        self.record.put(self.path, {"result": {"value": tree}})

    # -- waiting for answers -----------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether something was asked in it and has no answer; at its end that means that it swallowed the pause."""
        if self.unanswered:
            return True
        return self.record.asks and any(True for _ in open_questions(self.record.at(self.path), ()))

    @property
    def blocked(self) -> bool:
        """Whether it stopped at a question, and no question of it was answered since."""
        return self.record.at((*self.path, "blocked")) is True

    def block(self) -> None:
        """Note that it stopped at a question: it is not run again before something in it was answered."""
        waits = self.unanswered or not self.record.is_pausing  # what was cut off beside a question can go on
        if waits and any(True for _ in open_questions(self.record.at(self.path), ())):
            self.record.put((*self.path, "blocked"), True)

    def hold(self, kind: str) -> None:
        """Stop here until the run is resumed."""
        address = [*self.address, kind]
        self.put("asked", kind, {"id": "/".join(address), "address": list(address), "kind": kind})
        self.record.put((*self.path, "blocked"), True)


def numbered(name: str, number: int) -> str:
    """Name the n-th of those with one name: the first like itself, unless it could be taken for a later one."""
    return name if number == 1 and "#" not in name else f"{name}#{number}"


def open_questions(tree: Json, path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Find the questions without an answer in a part of a document, with their paths, in the order of places."""
    if not isinstance(tree, dict):
        return
    asked = tree.get("asked")
    if isinstance(asked, dict):
        for name, question in sorted(asked.items(), key=_in_order):
            if isinstance(question, dict) and "answer" not in question and "raw" not in question:
                yield (*path, "asked", name), question
    for key, inner in tree.items():
        if key in ("tasks", "parts") and isinstance(inner, dict):
            for name, one in sorted(inner.items(), key=_in_order):
                yield from open_questions(one, (*path, key, name))
        elif key == "graph" or key.startswith("graph "):
            yield from open_questions(inner, (*path, key))


def _in_order(item: tuple[str, Any]) -> tuple[str, int, str]:
    """Sort places by their numbers, whichever came first."""
    name = item[0]
    words = name.rstrip("0123456789")
    digits = name[len(words) :]
    return words, int(digits[:18] or -1), name


def unblock(record: Record, path: Path) -> None:
    """Let everything around a question that was answered run again."""
    for depth in range(len(path)):
        if record.at((*path[:depth], "blocked")) is not None:
            record.remove((*path[:depth], "blocked"))
