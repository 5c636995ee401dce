"""How a valid graph grows: from START on, node by node, by small steps that each keep it valid.

What has been made and leads nowhere yet is *loose*. A step takes loose ends and puts something behind them; in the end
all that is loose is brought together and led to END. Loose ends know by which choices they came about, so two
alternatives may meet without a merge.

Where chance comes from is left open (:class:`Dice`), so the same growth serves Hypothesis and a plain random generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from .._keys import END, START
from ._sketch import BranchSketch, EdgeSketch, GraphSketch, MapSketch, NodeSketch
from .pieces import FORMS, ITEMS, RECORD, TEXT, Choice, Form, Handler, Piece, pieces_from

__all__ = ("Dice", "Growth", "Limits")

T = TypeVar("T")


class Dice(Protocol):
    """Where chance comes from; the first of what may be chosen is the simplest."""

    def pick(self, among: Sequence[T], /) -> T:
        """Choose one."""
        ...

    def several(self, among: Sequence[T], low: int, high: int, /) -> list[T]:
        """Choose some, different ones, in their order."""
        ...

    def rarely(self) -> bool:
        """Say yes once in a while."""
        ...


@dataclass(frozen=True)
class Limits:
    """What a generated graph may consist of."""

    trigger: str | None = None
    nodes: int = 8
    streams: bool = True
    state: bool = True
    branches: bool = True
    loops: bool = True
    nesting: int = 1
    failing: bool = False


@dataclass(frozen=True)
class Loose:
    """An output that leads nowhere yet."""

    key: str
    kind: Any
    path: frozenset[tuple[int, str]] = frozenset()
    """The choices by which it came about: number of the branch, end."""
    keys: tuple[tuple[str, Any], ...] = ()
    """Keys that it certainly has, where it is a dict, and the types of their values."""


def exclusive(one: Loose, other: Loose) -> bool:
    """Tell whether at most one of two comes about, since a branch chooses between them."""
    return any(b == c and end != other_end for b, end in one.path for c, other_end in other.path)


class Growth:
    """A graph that grows."""

    def __init__(self, dice: Dice, limits: Limits, kind: Any, trigger: str) -> None:
        self.dice = dice
        self.limits = limits
        self.trigger = trigger
        self.input = kind
        self.output: Any = None
        self.state = limits.state and dice.rarely()
        self.nodes: dict[str, NodeSketch] = {}
        self.edges: list[EdgeSketch] = []
        self.branches: list[BranchSketch] = []
        self.choices = 0
        start = Loose(START.key, kind, keys=(("x", TEXT), ("y", TEXT)) if kind is RECORD else ())
        self.made: list[Loose] = [start]
        self.loose: list[Loose] = [start]

    def grow(self, steps: int) -> GraphSketch:
        """Take some steps, and finish."""
        for _ in range(steps):
            if len(self.nodes) < self.limits.nodes:
                self.dice.pick(self._possible_steps())()
        self._finish()
        return GraphSketch(
            self.input,
            self.output,
            tuple(self.nodes.values()),
            tuple(self.edges),
            tuple(self.branches),
            self.state,
            self.trigger,
            12 if self.trigger == "any" else None,
        )

    def _possible_steps(self) -> list[Callable[[], None]]:
        steps = [self.extend, self.fork, self.join, self.remote]
        if self.limits.branches:
            steps += [self.choose, self.optional, self.several, self.both]
            if len(self.loose) == 1:
                steps.append(self.leave)
            if self._alternatives():
                steps += [self.meet, self.meet]
            if self.trigger == "any" and self.limits.loops and self._places_to_return():
                steps += [self.loop, self.loop]
        return steps

    # -- steps -------------------------------------------------------------------------------------------------

    def extend(self) -> None:
        """Put a node behind a loose end."""
        end = self._take()
        self._lead(end, self._add([end]))

    def fork(self) -> None:
        """Put two nodes behind one loose end."""
        end = self._take()
        for _ in range(2):
            self._lead(end, self._add([end]))

    def choose(self) -> None:
        """Choose between two nodes, or three."""
        end = self._take()
        data = not self.dice.rarely()
        number = self.dice.pick((2, 2, 3))
        targets = [self._add([end], choice=self.choices, passes=data) for _ in range(number)]
        self._branch(end, self.dice.pick(("by_size", "by_first")), [t.key for t in targets], data=data)
        if not data and self.dice.rarely():
            for target in targets:
                self.edges.append(EdgeSketch(end.key, target.key, control=False))

    def optional(self) -> None:
        """Choose whether to run a node on the way to the next one."""
        end = self._take()
        maybe = self._add([end], choice=self.choices, same=True)
        straight = replace(end, path=end.path | {(self.choices, "")})
        after = self._add([maybe, straight])
        self._branch(end, "by_size", [maybe.key, after.key])
        self._lead(maybe, after)

    def several(self) -> None:
        """Choose none, one or several nodes, and bring them together with one that runs always."""
        end = self._take()
        targets = [self._add([end]) for _ in range(2)]
        self._branch(end, "some", [t.key for t in targets])
        always = self._add([end])
        self._lead(end, always)
        self._join([always, *targets])

    def both(self) -> None:
        """Lead to a node by an edge, and by a branch that need not choose it."""
        end = self._take()
        always, maybe = self._add([end]), self._add([end], choice=self.choices)
        self._branch(end, "by_size", [always.key, maybe.key])
        self._lead(end, always)

    def join(self) -> None:
        """Bring several outputs together, such as have led on already among them."""
        first = self._take()
        others = [end for end in self.made if end.key != first.key]
        sources = [first, *self.dice.several(others, 0, 2)]
        self._join(sources)

    def meet(self) -> None:
        """Bring alternatives together."""
        sources = self._alternatives()
        after = self._add(sources)
        for end in sources:
            self._lead(end, after)

    def remote(self) -> None:
        """Let a node run because of one, with the output of another."""
        end = self._take()
        source = self.dice.pick(self.made[::-1])
        after = self._add([source], path=end.path)
        self.edges.append(EdgeSketch(end.key, after.key, data=False))
        self.edges.append(EdgeSketch(source.key, after.key, control=False))
        self._used(end)

    def loop(self) -> None:
        """Go back until the output is long enough."""
        end = self.dice.pick([e for e in self.loose if self._places_to_return(e)])
        back = self.dice.pick(self._places_to_return(end))
        self._used(end)
        out = self._add([end])
        self._branch(end, "until", [back, out.key])

    def leave(self) -> None:
        """Choose whether to end here."""
        (end,) = self.loose
        if self.output is None:
            self.output = end.kind
        if end.kind != self.output or end.key == START.key:
            return
        self._used(end)
        after = self._add([end], choice=self.choices)
        self._branch(end, self.dice.pick(("by_size", "by_first")), [after.key, END.key])
        self.made = [after]  # whatever reaches END from now on must exclude the way that has just ended

    # -- parts -------------------------------------------------------------------------------------------------

    def _take(self) -> Loose:
        end = self.dice.pick(self.loose)
        self._used(end)
        return end

    def _used(self, end: Loose) -> None:
        self.loose = [e for e in self.loose if e.key != end.key]

    def _lead(self, source: Loose, target: Loose) -> None:
        self.edges.append(EdgeSketch(source.key, target.key))
        self._used(source)

    def _branch(self, source: Loose, name: str, ends: list[str], *, data: bool = True) -> None:
        streams = self.limits.streams and self.dice.rarely()
        if name == "by_first" and source.kind is not TEXT:
            name = "by_size"
        length = self.dice.pick((3, 5, 8)) if name == "until" else 0
        choice = Choice(name, tuple(ends), source.kind, streams, length)
        self.branches.append(BranchSketch(source.key, choice, tuple(ends), data))
        self.choices += 1

    def _alternatives(self) -> list[Loose]:
        """Find loose ends of one type that exclude each other."""
        for first in self.loose:
            found = [first]
            for end in self.loose:
                if end.kind == first.kind and all(exclusive(end, one) for one in found):
                    found.append(end)
            if len(found) > 1:
                return found
        return []

    def _places_to_return(self, end: Loose | None = None) -> list[str]:
        """Find nodes to which a loose end could lead back."""
        ends = self.loose if end is None else [end]
        return [
            node.key
            for node in self.nodes.values()
            for end in ends
            if end.key != START.key and self._input_kind(node) == end.kind and (node.merge or node.trigger is None)
        ]

    def _input_kind(self, node: NodeSketch) -> Any:
        if node.input_key is not None:
            return RECORD
        if isinstance(node.work, Piece):
            return node.work.rule.input
        if isinstance(node.work, MapSketch):
            return ITEMS
        return node.work.input if isinstance(node.work, GraphSketch) else None

    def _join(self, sources: list[Loose]) -> None:
        records = all(end.kind is RECORD for end in sources)
        merge = None if len(sources) == 1 or (records and self.dice.rarely()) else "gather"
        after = self._add(sources, merge=merge, join=len(sources) > 1)
        for end in sources:
            self._lead(end, after)

    def _add(
        self,
        sources: list[Loose],
        *,
        merge: str | None = None,
        join: bool = False,
        choice: int | None = None,
        path: frozenset[tuple[int, str]] | None = None,
        same: bool = False,
        passes: bool = True,
    ) -> Loose:
        """Add a node behind some outputs; ``same``: one that gives the same type; ``passes``: a passthrough too."""
        key = "abcdefghijklmnopqrstuvw"[len(self.nodes)]
        kind = ITEMS if merge else sources[0].kind
        keys = tuple(k for k in sources[0].keys if all(k in s.keys for s in sources))
        node = NodeSketch(key, merge=merge)
        if keys and kind is RECORD and not same and self.dice.rarely():
            input_key, kind = self.dice.pick(keys)
            node = replace(node, input_key=input_key)
            keys = ()
        node, output = self._work(node, kind, same=same, passes=passes and merge is None)
        if output is not RECORD:
            keys = ()
        if not same and self.dice.rarely():
            node = replace(node, output_key=key)
            output, keys = RECORD, ((key, output),)
        if join and self.trigger == "any" and self.dice.pick((True, False)):
            node = replace(node, trigger="all")
        self.nodes[key] = self._with_handlers(node, output)
        if path is None:
            path = sources[0].path.intersection(*(s.path for s in sources))
        if choice is not None:
            path |= {(choice, key)}
        made = Loose(key, output, path, keys)
        self.made.append(made)
        self.loose.append(made)
        return made

    def _work(self, node: NodeSketch, kind: Any, *, same: bool, passes: bool) -> tuple[NodeSketch, Any]:
        """Choose what a node does, and say what it gives."""
        if self.dice.rarely() and self.limits.nesting and not same:
            inner = replace(self.limits, nodes=3, nesting=self.limits.nesting - 1, trigger=None)
            sketch = grown(self.dice, inner, kind, self.dice.pick((1, 2, 3)))
            return replace(node, work=sketch), sketch.output
        if passes and self.dice.rarely():
            return node, kind
        if kind == ITEMS and self.dice.rarely():
            return replace(node, work=self._map(node.key)), ITEMS
        names = [n for n in pieces_from(kind) if self.limits.failing or n != "refuse"]
        made = [Piece(n, node.key if n in ("add", "put", "refuse", "each", "mark") else "") for n in names]
        if same:
            made = [piece for piece in made if piece.rule.output == kind]
        piece = self.dice.pick(made)
        if piece.name == "refuse":
            piece = replace(piece, text=self.dice.pick(("b", "a")))
        forms: Sequence[Form] = FORMS if self.limits.streams else FORMS[:2]
        piece = replace(piece, form=self.dice.pick(forms))
        if piece.form in ("stream", "transform", "lambda"):
            piece = replace(piece, size=self.dice.pick((1, 2, 0)))
        return replace(node, work=piece), piece.rule.output

    def _map(self, key: str) -> MapSketch:
        """Choose what is done to each item of a list."""
        if self.limits.nesting and self.dice.rarely():
            inner = replace(self.limits, nodes=2, nesting=0, trigger=None)
            sketch = grown(self.dice, inner, TEXT, 1)
            if sketch.output is TEXT:
                return MapSketch(sketch)
        forms: Sequence[Form] = FORMS if self.limits.streams else FORMS[:2]
        return MapSketch(Piece("add", key, self.dice.pick(forms)))

    def _with_handlers(self, node: NodeSketch, output: Any) -> NodeSketch:
        if not self.state or node.work is None:
            return node
        taken = self._input_kind(node)
        pre = self._handler(taken) if self.dice.rarely() else None
        post = self._handler(output) if self.dice.rarely() else None
        return replace(node, pre=pre, post=post)

    def _handler(self, kind: Any) -> Handler:
        names = ("remember", "recall") if kind is TEXT and self.trigger == "any" else ("remember",)
        streams = self.limits.streams and self.dice.rarely()
        return Handler(self.dice.pick(names), kind, streams, not streams and self.dice.rarely())

    def _finish(self) -> None:
        """Lead all that is loose to END."""
        if self.trigger == "any" and self.output in (None, RECORD) and all(e.kind is RECORD for e in self.loose):
            self.output = RECORD
        elif len(self.loose) > 1:
            (self.meet if len(self._alternatives()) == len(self.loose) else lambda: self._join(list(self.loose)))()
        if self.output is None:
            self.output = self.loose[0].kind
        for end in tuple(self.loose):
            while end.kind != self.output:
                end = self._converted(end)
            self.edges.append(EdgeSketch(end.key, END.key))

    def _converted(self, end: Loose) -> Loose:
        """Put a node behind an output that brings it nearer to the type of the graph's output."""
        key = f"to_{len(self.nodes)}"
        name = {str: "letters", list[str]: "glue", dict[str, Any]: "show"}[end.kind]
        if self.output is RECORD:
            self.nodes[key] = NodeSketch(key, None, output_key=key)
            kind: Any = RECORD
        else:
            self.nodes[key] = NodeSketch(key, Piece(name))
            kind = Piece(name).rule.output
        self.edges.append(EdgeSketch(end.key, key))
        return Loose(key, kind)


def grown(dice: Dice, limits: Limits, kind: Any, steps: int) -> GraphSketch:
    """Grow a graph that takes a type."""
    trigger = limits.trigger or dice.pick(("any", "all"))
    return Growth(dice, limits, kind, trigger).grow(steps)
