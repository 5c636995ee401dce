"""Hypothesis strategies for graphs; Hypothesis is imported when one of them is asked for."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from ...schema import MissingExtraError
from .._graph import Graph
from .._runnable import Runnable
from ..errors import GraphCompileError
from ._faults import FAULTS, plant
from ._growth import Dice, Limits, grown
from ._sketch import EdgeSketch, GraphSketch, NodeSketch, compiled, options_as_code
from .pieces import ITEMS, RECORD, TEXT, Piece, split

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

__all__ = ("GraphCase", "InvalidGraph", "graphs", "invalid_graphs")

T = TypeVar("T")


class AsCode:
    """What Hypothesis prints of a generated graph is its code, too."""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@dataclass(frozen=True, repr=False)
class GraphCase(AsCode):
    """A generated graph with an input; printed as the code that makes it.

    Attributes:
        graph: The builder.
        input: An input for it.
        chunks: The same input in chunks, for ``collect`` and ``transform``.
        options: What to compile it with.
    """

    sketch: GraphSketch
    input: Any
    chunks: tuple[Any, ...]
    graph: Graph[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "graph", self.sketch.build())

    @property
    def options(self) -> dict[str, Any]:
        """What to compile it with: trigger and bound on steps."""
        return self.sketch.compile_options()

    def compile(self, **options: Any) -> Runnable[Any, Any]:
        """Compile the graph, with its own options and the given ones; warnings about its shape are left out."""
        return compiled(self.graph, {**self.options, **options})

    def __repr__(self) -> str:
        lines = [
            *self.sketch.code().splitlines(),
            f"app = graph.compile({options_as_code(self.options)})",
            f"input, chunks = {self.input!r}, {list(self.chunks)!r}",
        ]
        return "GraphCase:\n" + "\n".join(f"    {line}" for line in lines) + "\n"


@dataclass(frozen=True, repr=False)
class InvalidGraph(AsCode):
    """A generated graph with one planted fault; printed as the code that makes it.

    Attributes:
        graph: The builder.
        fault: The name of the fault, as :attr:`Problem.kind` has it.
        where: What the message about it must name: the key of a node, mostly.
        options: What to compile it with.
    """

    sketch: GraphSketch
    fault: str
    where: str
    graph: Graph[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "graph", self.sketch.build())

    @property
    def options(self) -> dict[str, Any]:
        """What to compile it with: trigger and bound on steps."""
        return self.sketch.compile_options()

    def compile(self) -> Runnable[Any, Any]:
        """Try to compile the graph.

        Raises:
            GraphCompileError: Always, if the compiler is right.
        """
        return compiled(self.graph, self.options)

    def is_named_by(self, error: GraphCompileError) -> bool:
        """Tell whether an error reports the planted fault, and names the place."""
        return any(problem.kind == self.fault and self.where in problem.text for problem in error.problems)

    def __repr__(self) -> str:
        lines = [*self.sketch.code().splitlines(), f"graph.compile({options_as_code(self.options)})"]
        return f"InvalidGraph: {self.fault} at {self.where}\n" + "\n".join(f"    {line}" for line in lines) + "\n"


def graphs(
    *,
    trigger: str | None = None,
    nodes: int = 8,
    streams: bool = True,
    state: bool = True,
    branches: bool = True,
    loops: bool = True,
    nesting: int = 1,
    failing: bool = False,
) -> SearchStrategy[GraphCase]:
    """Generate valid typed graphs of small pure functions, each with an input.

    They compile without an error. A run may still fail where what happens depends on values: a loop that takes too many
    steps, a branch that chooses nothing, values that meet and do not merge; then it fails in every paradigm.

    Args:
        trigger: ``"any"`` or ``"all"``; by default both kinds come.
        nodes: About how many nodes a graph has at most.
        streams: Whether nodes, conditions and handlers may work on streams.
        state: Whether graphs may have state and handlers.
        branches: Whether there may be branches.
        loops: Whether there may be loops, with ``trigger="any"``.
        nesting: How deep graphs may stand in graphs.
        failing: Whether there may be nodes that raise an error for some inputs.

    Returns:
        A strategy; it needs the package ``hypothesis``.

    Example:
        >>> from hypothesis import given
        >>> @given(graphs(trigger="all", nodes=3))
        ... def test_every_node_runs_at_most_once(case):
        ...     assert set(interpret(case.compile(), case.input).counts.values()) <= {1}
        >>> test_every_node_runs_at_most_once()
    """
    _require_hypothesis()
    from hypothesis import strategies as st

    limits = Limits(trigger, nodes, streams, state, branches, loops, nesting, failing)

    @st.composite
    def cases(draw: DrawFn) -> GraphCase:
        return random_graph(DrawnDice(draw), limits)

    return cases()


def invalid_graphs(*, faults: Sequence[str] = tuple(FAULTS)) -> SearchStrategy[InvalidGraph]:
    """Generate graphs that ``compile()`` must refuse: valid ones, with one fault planted.

    Args:
        faults: The names of the faults to choose from, as :attr:`Problem.kind` has them; by default all.

    Returns:
        A strategy; it needs the package ``hypothesis``.

    Example:
        >>> from hypothesis import given
        >>> from anabranch.compose import GraphCompileError
        >>> @given(invalid_graphs(faults=["cycle", "unreachable"]))
        ... def test_it_is_refused(case):
        ...     try:
        ...         case.compile()
        ...     except GraphCompileError as error:
        ...         assert case.is_named_by(error)
        ...     else:
        ...         raise AssertionError("it was not refused")
        >>> test_it_is_refused()
    """
    _require_hypothesis()
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: DrawFn) -> InvalidGraph:
        return random_invalid_graph(DrawnDice(draw), faults)

    return cases()


def _require_hypothesis() -> None:
    if find_spec("hypothesis") is None:
        raise MissingExtraError("hypothesis", "testing")


def random_graph(dice: Dice, limits: Limits | None = None) -> GraphCase:
    """Make one graph with an input, by any dice."""
    kind = dice.pick((TEXT, TEXT, TEXT, ITEMS, RECORD))
    sketch = grown(dice, limits or Limits(), kind, dice.pick((1, 2, 3, 4, 5, 6)))
    value = _value(dice, kind)
    return GraphCase(sketch, value, tuple(split(value, dice.pick((0, 1, 2)))))


def random_invalid_graph(dice: Dice, faults: Sequence[str] = tuple(FAULTS)) -> InvalidGraph:
    """Make one graph with a fault, by any dice."""
    fault = dice.pick(faults)
    trigger = {"cycle": "all", "no-exit": "any"}.get(fault)
    kind = dice.pick((TEXT, TEXT, TEXT, ITEMS, RECORD))
    sketch = grown(dice, Limits(trigger, nodes=5), kind, dice.pick((1, 2, 3)))
    planted = plant(dice, sketch, fault) if sketch.nodes else None
    if planted is None:  # it cannot be planted there, but certainly in this one
        node, edges = NodeSketch("a", Piece("swap")), (EdgeSketch("start", "a"), EdgeSketch("a", "end"))
        planted = plant(dice, GraphSketch(TEXT, TEXT, (node,), edges, trigger=trigger or "any"), fault)
        assert planted is not None, fault
    sketch, where = planted
    if sketch.trigger == "any" and fault != "bad-option" and dice.rarely():
        inner = replace(sketch, max_steps=None)
        edges = (EdgeSketch("start", "around"), EdgeSketch("around", "end"))
        sketch = GraphSketch(sketch.input, sketch.output, (NodeSketch("around", inner),), edges)
    return InvalidGraph(sketch, fault, where)


def _value(dice: Dice, kind: Any) -> Any:
    if kind is TEXT:
        return dice.pick(("a", "", "b", "ab", "bAa", "aabb"))
    if kind is RECORD:
        return {key: _value(dice, TEXT) for key in ("x", "y")}
    return [_value(dice, TEXT) for _ in range(dice.pick((1, 0, 2)))]


class DrawnDice:
    """Chance from Hypothesis, so that it can shrink."""

    def __init__(self, draw: DrawFn) -> None:
        from hypothesis import strategies as st

        self._draw = draw
        self._st = st

    def pick(self, among: Sequence[T]) -> T:
        """Choose one."""
        return self._draw(self._st.sampled_from(among))

    def several(self, among: Sequence[T], low: int, high: int) -> list[T]:
        """Choose some, different ones, in their order."""
        places = self._st.sets(self._st.sampled_from(range(len(among))), min_size=low, max_size=high) if among else None
        return [] if places is None else [among[place] for place in sorted(self._draw(places))]

    def rarely(self) -> bool:
        """Say yes once in a while."""
        return self._draw(self._st.sampled_from((False, False, False, True)))


class RandomDice:
    """Chance from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, among: Sequence[T]) -> T:
        """Choose one."""
        return self._random.choice(among)

    def several(self, among: Sequence[T], low: int, high: int) -> list[T]:
        """Choose some, different ones, in their order."""
        count = min(len(among), self._random.randint(low, high))
        return [among[place] for place in sorted(self._random.sample(range(len(among)), count))]

    def rarely(self) -> bool:
        """Say yes once in a while."""
        return self._random.random() < 0.25
