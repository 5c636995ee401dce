"""What compile() refuses and what it lets through: no fault is missed, no valid graph refused, no promise broken."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NewType, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import TypedDict

from anabranch.compose import END, START, Graph, GraphCompileError, GraphWarning, MergeError, ValueTypeError
from anabranch.compose.testing import GraphCase, InvalidGraph, graphs, interpret, invalid_graphs
from anabranch.compose.testing.pieces import by_size, some, swap

ALONE = ("unknown-node", "end-as-source", "start-as-target", "doubled-key", "reserved-key", "bad-key", "bad-node")


@given(invalid_graphs())
def test_every_fault_is_refused_by_its_name_and_its_place(case: InvalidGraph) -> None:
    with pytest.raises(GraphCompileError) as caught:
        case.compile()
    assert case.is_named_by(caught.value), caught.value


@given(invalid_graphs(faults=ALONE), st.sampled_from(["lost", "stuck"]))
def test_several_faults_are_reported_at_once(case: InvalidGraph, other: str) -> None:
    case.graph.add_node(other, str.upper, input=str, output=str)
    case.graph.add_edge(*((other, END) if other == "lost" else (START, other)))
    with pytest.raises(GraphCompileError) as caught:
        case.compile()
    assert case.is_named_by(caught.value), caught.value
    assert any(problem.node == other for problem in caught.value.problems), caught.value


@given(graphs())
def test_valid_graphs_are_not_refused_and_compiling_changes_nothing(case: GraphCase) -> None:
    before = repr(case.graph._spec())  # pyright: ignore[reportPrivateUsage]
    first, second = case.compile(), case.compile()
    assert first.graph_info() == second.graph_info()
    assert repr(case.graph._spec()) == before  # pyright: ignore[reportPrivateUsage]


# -- fan-ins of what does not merge --------------------------------------------------------------------------------

KEYS = "abcd"
Wiring = tuple[list[tuple[str, str]], list[tuple[str, list[str], bool]]]


@st.composite
def wirings(draw: st.DrawFn) -> Wiring:
    """Draw edges and branches between a few nodes that all take and give a text, forward only."""
    order = [START.key, *KEYS, END.key]
    edges: list[tuple[str, str]] = []
    branches: list[tuple[str, list[str], bool]] = []
    for place, source in enumerate(order[:-1]):
        later = order[place + 1 :]
        targets = sorted(draw(st.sets(st.sampled_from(later), min_size=1, max_size=3)))
        if len(targets) > 1 and draw(st.booleans()):
            branches.append((source, targets, draw(st.booleans())))
        else:
            edges += [(source, target) for target in targets]
    return edges, branches


def texts(wiring: Wiring) -> Graph[str, str]:
    graph = Graph[str, str]()
    for key in KEYS:
        graph.add_node(key, swap())
    for source, target in wiring[0]:
        graph.add_edge(source, target)
    for source, targets, many in wiring[1]:
        graph.add_branch(source, (some if many else by_size)(*targets), targets)
    return graph


def is_refused(graph: Graph[str, str], trigger: Literal["any", "all"]) -> set[str]:
    """Name what is wrong with a graph."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        try:
            graph.compile(trigger=trigger)
        except GraphCompileError as error:
            return {problem.kind for problem in error.problems}
    return set()


@given(wirings(), st.sampled_from(["", "a", "ab", "aba", "abab"]))
def test_with_trigger_all_what_compiles_never_fails_to_merge(wiring: Wiring, text: str) -> None:
    graph = texts(wiring)
    if not is_refused(graph, "all"):
        failures = interpret(graph, text, trigger="all").failures
        assert not [failure for failure in failures if failure.kind is MergeError]


@given(wirings(), st.sampled_from(["", "a", "ab", "aba", "abab"]))
def test_with_trigger_any_what_is_refused_as_unmergeable_would_fail_to_merge(wiring: Wiring, text: str) -> None:
    graph = texts(wiring)
    if is_refused(graph, "any") == {"unmergeable"}:
        assert [failure.kind for failure in interpret(graph, text).failures] == [MergeError]


# -- types ---------------------------------------------------------------------------------------------------------


class Base(BaseModel):
    size: int = 0


class Derived(Base):
    name: str = ""


class Sized(Protocol):
    size: int


class Movie(TypedDict):
    title: str


UserId = NewType("UserId", int)

VALUES: list[tuple[Any, list[Any]]] = [
    (int, [0, 7]),
    (bool, [True]),
    (str, ["", "x"]),
    (Literal["a", "b"], ["a"]),
    (int | str, [1, "y"]),
    (int | None, [None, 3]),
    (None, [None]),
    (list[int], [[1, 2]]),
    (list[str], [["z"]]),
    (list[Any], [[1, "z"]]),
    (Sequence[int], [[1], (2,)]),
    (dict[str, int], [{"k": 1}]),
    (Mapping[str, Any], [{"k": "v"}]),
    (Movie, [{"title": "Tides"}]),
    (tuple[int, str], [(1, "q")]),
    (Base, [Base(), Derived(name="n")]),
    (Derived, [Derived()]),
    (Sized, [Base(size=2)]),
    (UserId, [UserId(5)]),
    (object, [object(), 1, "s"]),
    (Any, [[], "any", 4, Base()]),
]


def handing_over(value: Any, given_type: Any, wanted_type: Any) -> Graph[Any, Any]:
    """Make a graph in which one node gives a value of a type to one that wants another type."""

    def give(_: Any) -> Any:
        return value

    def take(got: Any) -> Any:
        return got

    graph = Graph[Any, Any](input=Any, output=Any)
    graph.add_edge(START, graph.add_node("give", give, output=given_type))
    graph.add_node("take", take, input=wanted_type)
    graph.add_edge("give", "take")
    graph.add_edge("take", END)
    return graph


@pytest.mark.anyio
@given(st.data())
async def test_an_edge_that_compiles_passes_what_fits_and_refuses_what_does_not(data: st.DataObject) -> None:
    given_type, values = data.draw(st.sampled_from(VALUES))
    wanted_type, fitting = data.draw(st.sampled_from(VALUES))
    value = data.draw(st.sampled_from(values))
    graph = handing_over(value, given_type, wanted_type)
    refused = is_refused(graph, "any")
    if refused:
        assert refused == {"type"}
        assert not any(value == fit and type(value) is type(fit) for fit in fitting)
    elif interpret(graph, None).failures:
        with pytest.raises(ValueTypeError, match="'give' -> 'take'"):
            await graph.compile().invoke(None)
    else:
        assert await graph.compile().invoke(None) is value
