"""The numbered cases of building graphs and of their types (1–19), and of what is known of a graph (212).

What the reference refuses at the call, ours refuses in ``compile()``, all of it at once.
"""

from __future__ import annotations

from typing import Any, Literal, NewType, Protocol

import pytest

from anabranch.compose import END, START, Graph, GraphCompileError, Problem, ValueTypeError, draw_mermaid


def problems_of(graph: Graph[Any, Any], **options: Any) -> list[Problem]:
    with pytest.raises(GraphCompileError) as caught:
        graph.compile(**options)
    return list(caught.value.problems)


def kinds_of(graph: Graph[Any, Any], **options: Any) -> list[str]:
    return [problem.kind for problem in problems_of(graph, **options)]


def up(text: str) -> str:
    return text.upper()


def count(text: str) -> int:
    return len(text)


def decimal(number: int) -> str:
    return str(number)


def same(value: Any) -> Any:
    return value


def with_node(function: Any = up) -> Graph[str, str]:
    graph = Graph[str, str]()
    graph.add_node("a", function)
    graph.add_edge(START, "a")
    graph.add_edge("a", END)
    return graph


def test_1_a_reserved_key_is_refused_and_building_goes_on() -> None:
    graph = with_node()
    graph.add_node("end", up)
    graph.add_node("b", up)
    assert kinds_of(graph) == ["reserved-key", "unreachable"]


def test_2_a_key_may_be_used_once() -> None:
    graph = with_node()
    graph.add_node("a", up)
    (problem,) = problems_of(graph)
    assert (problem.kind, problem.node) == ("doubled-key", "a")


@pytest.mark.parametrize(
    ("source", "target", "kind"),
    [
        ("end", "a", "end-as-source"),
        ("a", "start", "start-as-target"),
        ("q", "a", "unknown-node"),
        ("a", "q", "unknown-node"),
    ],
)
def test_4_edges_lead_from_and_to_nodes_that_exist(source: str, target: str, kind: str) -> None:
    graph = with_node()
    graph.add_edge(source, target)
    assert kinds_of(graph) == [kind]


def test_5_types_that_never_fit_are_refused_with_what_each_side_says() -> None:
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("a", up))
    graph.add_node("b", decimal)
    graph.add_edge("a", "b")
    graph.add_edge("b", END)
    (problem,) = problems_of(graph)
    assert problem.text == (
        "edge 'a' -> 'b': 'a' gives str, 'b' takes int; "
        "add a node that turns one into the other, or declare 'b' with input=str"
    )


def test_7_a_passthrough_takes_the_type_of_its_neighbours_in_any_order_of_declaration() -> None:
    graph = Graph[Any, str]()
    graph.add_node("a", same)
    graph.add_passthrough("p")
    graph.add_node("b", decimal)
    for source, target in (("start", "a"), ("p", "b"), ("a", "p"), ("b", "end")):
        graph.add_edge(source, target)
    app = graph.compile()
    assert app.invoke_sync(1) == "1"
    with pytest.raises(ValueTypeError, match="edge 'p' -> 'b': wanted int, got str"):
        app.invoke_sync("1")


def test_8_passthroughs_that_nothing_types_are_refused() -> None:
    graph = Graph[str, str]()
    graph.add_passthrough("p")
    graph.add_passthrough("q")
    graph.add_edge(START, END)
    graph.add_edge("p", "q")
    assert [p.node for p in problems_of(graph) if p.kind == "untyped-passthrough"] == ["p", "q"]


class Settings(dict[str, Any]):
    """A named type of dict."""


Config = NewType("Config", dict[str, Any])


@pytest.mark.parametrize("named", [Settings, Config])
def test_10_a_named_type_goes_where_its_base_is_wanted_and_not_the_other_way_without_a_look(named: Any) -> None:
    graph = Graph[Any, Any](input=named, output=dict[str, Any])
    graph.add_edge(START, graph.add_node("a", same, input=dict[str, Any], output=dict[str, Any]))
    graph.add_edge("a", END)
    assert graph.compile().invoke_sync(Settings(k=1)) == {"k": 1}


class Speaks(Protocol):
    def speak(self) -> str: ...


class Listens(Protocol):
    def listen(self) -> str: ...


class Dog:
    def speak(self) -> str:
        return "woof"


class Person(Dog):
    def listen(self) -> str:
        return "hm"


def edge_check(given: Any, wanted: Any) -> Any:
    graph = Graph[Any, Any](input=given, output=Any)
    graph.add_edge(START, graph.add_node("a", same, input=wanted, output=Any))
    graph.add_edge("a", END)
    return graph.compile()


def test_11_a_class_that_has_the_methods_goes_into_the_protocol_unchecked() -> None:
    (edge,) = edge_check(Dog, Speaks).plan.nodes[-1].edges
    assert edge.check is None


def test_11_an_object_may_be_both_of_two_protocols_so_it_is_looked_at() -> None:
    app = edge_check(Speaks, Listens)
    person = Person()
    assert app.invoke_sync(person) is person
    with pytest.raises(ValueTypeError, match="wanted Listens, got Dog"):
        app.invoke_sync(Dog())


def test_13_a_graph_needs_a_start_and_an_end() -> None:
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("a", up))
    assert kinds_of(graph) == ["no-end"]
    graph = Graph[str, str]()
    graph.add_edge(graph.add_node("a", up), END)
    assert kinds_of(graph) == ["no-start"]


def test_14_a_builder_stays_open_and_what_was_compiled_does_not_change() -> None:
    graph = with_node()
    first = graph.compile()
    graph.add_node("b", up)
    graph.add_branch("b", lambda _: "end", [END])
    graph.add_edge(START, "b")
    assert first.invoke_sync("x") == "X"
    assert [node.key for node in first.graph_info().nodes] == ["a"]
    assert [node.key for node in graph.compile().graph_info().nodes] == ["a", "b"]


def test_16_a_handler_needs_the_state_of_its_graph() -> None:
    def pre(text: str, state: int) -> str:
        return text

    without = Graph[str, str]()
    other = Graph[str, str](state=str)
    for graph in (without, other):
        graph.add_node("a", up, pre=pre)
        graph.add_edge(START, "a")
        graph.add_edge("a", END)
    assert kinds_of(without) == ["no-state"]
    (problem,) = problems_of(other)
    assert problem.text == (
        "the pre-handler of node 'a' takes the state as int, the graph's state is str; make them the same"
    )


def test_17_a_handler_takes_what_passes_there() -> None:
    def on_text(text: str, state: list[str]) -> str:
        return text

    def on_dict(record: dict[str, Any], state: list[str]) -> dict[str, Any]:
        return record

    wrong = Graph[int, str](state=list)
    wrong.add_node("a", decimal, pre=on_text)
    right = Graph[dict[str, Any], str](state=list)
    right.add_node("a", up, pre=on_dict, input_key="k")
    for graph in (wrong, right):
        graph.add_edge(START, "a")
        graph.add_edge("a", END)
    assert kinds_of(wrong) == ["handler-type"]
    assert right.compile().invoke_sync({"k": "x"}) == "X"


def test_19_a_node_key_option_is_known_to_chains_only() -> None:
    with pytest.raises(TypeError, match="unknown option 'key'"):
        Graph[str, str]().add_node("a", up, key="b")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


def choose(text: str) -> Literal["p", "end"]:
    return "p" if text else "end"


def test_212_what_is_known_of_a_graph_lists_inferred_types_nested_graphs_and_both_kinds_of_edges() -> None:
    inner = with_node()
    graph = Graph[str, str](name="outer")
    graph.add_passthrough("p")
    graph.add_node("inner", inner, name="the inner one")
    graph.add_branch(START, choose)
    graph.add_edge("p", "inner")
    graph.add_edge(START, "inner", control=False)
    graph.add_edge("inner", END)
    info = graph.compile(name="compiled").graph_info()
    by_key = {node.key: node for node in info.nodes}
    assert (info.name, by_key["p"].input, by_key["p"].output) == ("compiled", str, str)
    assert by_key["inner"].graph is not None
    assert [node.key for node in by_key["inner"].graph.nodes] == ["a"]
    edges = [(edge.source, edge.target, edge.control, edge.data) for edge in info.edges]
    assert ("start", "inner", False, True) in edges
    assert ("p", "inner", True, True) in edges
    assert "the inner one" in draw_mermaid(graph.compile())
