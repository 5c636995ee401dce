"""What a compiled graph tells of itself: case 212, and what Eino's information lacks (W-43)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Literal

import pytest

from anabranch.compose import (
    END,
    START,
    BranchInfo,
    Chain,
    EdgeInfo,
    Graph,
    GraphInfo,
    Map,
    MappingInfo,
    NodeInfo,
    Retry,
    RunInfo,
    RunOptions,
    Workflow,
    field,
)
from anabranch.compose.testing import ScriptedModel
from anabranch.schema import Message, StreamReader


def shout(text: str) -> str:
    return text.upper()


def first(values: Sequence[str]) -> str:
    return values[0]


def noted(text: str, seen: list[str]) -> str:
    seen.append(text)
    return text


def test_case_212_the_information_has_inferred_types_nested_graphs_and_control_apart_from_data() -> None:
    inner = Graph[str, str](name="inner")
    inner.add_edge(START, inner.add_node("shout", shout))
    inner.add_edge("shout", END)
    graph = Graph[str, str](name="outer")
    through, inside, last = graph.add_passthrough("through"), graph.add_node("inner", inner), graph.add_node("b", shout)
    graph.add_edge(START, through)
    graph.add_edge(through, inside)
    graph.add_edge(inside, last, data=False)
    graph.add_edge(through, last, control=False)
    graph.add_edge(last, END)
    info = graph.compile(trigger="all", name="named").graph_info()
    assert (info.kind, info.name, info.trigger, info.max_steps) == ("graph", "named", "all", None)
    assert (info.input, info.output, info.state) == (str, str, None)
    assert info.node("through") == NodeInfo("through", "through", "passthrough", str, str)
    assert info.edges == (
        EdgeInfo("start", "through"),
        EdgeInfo("through", "inner"),
        EdgeInfo("inner", "b", control=True, data=False),
        EdgeInfo("through", "b", control=False, data=True),
        EdgeInfo("b", "end"),
    )
    nested = info.node("inner").graph
    assert isinstance(nested, GraphInfo)
    assert (nested.name, nested.trigger, nested.max_steps) == ("inner", "any", 101)
    assert [node.key for node in nested.nodes] == ["shout"]
    assert nested.node("shout").target is shout


@pytest.mark.anyio
async def test_case_212_a_callback_of_the_run_sees_the_names_that_the_information_has() -> None:
    inner = Chain[str, str](name="inner").append(shout)
    app = Chain[str, str](name="outer").append(inner).compile()
    seen: list[tuple[str, str, str]] = []

    class Log:
        def on_start(self, info: RunInfo, given: Any) -> None:
            seen.append((info.path, info.name, info.component))

    await app.invoke("x", RunOptions(callbacks=[Log()]))
    assert seen == [
        ("", "outer", "chain"),
        ("node_0", "inner", "chain"),
        ("node_0/node_0", "node_0", "function"),
    ]
    info = app.graph_info()
    assert info.nodes[0].graph is not None
    assert (info.name, info.nodes[0].graph.name, info.nodes[0].graph.nodes[0].name) == ("outer", "inner", "node_0")


def test_everything_that_was_said_about_a_node_is_there() -> None:
    model = ScriptedModel([Message.assistant("yes")])
    graph = Graph[dict[str, Any], dict[str, Any]](state=list)
    node = graph.add_node(
        "work",
        shout,
        input_key="i",
        output_key="o",
        pre=lambda given, state: given,
        timeout=5,
        retries=Retry(attempts=4),
        name="the work",
        trigger="all",
        merge=lambda values: {"i": "x"},
    )
    graph.add_node("chat", model, input_key="messages", output_key="answer", label_sources=True)
    graph.add_edge(START, node)
    graph.add_edge(node, END)
    graph.add_edge(START, "chat")
    graph.add_edge("chat", END)
    info = graph.compile(max_steps=7).graph_info()
    assert (info.max_steps, info.state) == (7, list)
    work = info.node("work")
    assert (work.name, work.component, work.trigger) == ("the work", "function", "all")
    assert (work.input, work.output) == (dict[str, Any], dict[str, str])
    assert (work.input_key, work.output_key, work.timeout, work.attempts) == ("i", "o", 5, 4)
    assert (work.handlers, work.label_sources, work.target) == (("pre",), False, shout)
    assert work.merge is not None
    chat = info.node("chat")
    assert (chat.component, chat.label_sources, chat.target, chat.merge) == ("model", True, model, None)
    with pytest.raises(KeyError, match="there is no node 'chta'; there are 'work', 'chat'"):
        info.node("chta")
    assert str(info) == "graph '' (dict[str, Any] -> dict[str, Any]) of 2 nodes"


def test_branches_say_what_leads_where_in_the_order_of_declaration() -> None:
    class Way(Enum):
        up = "b"
        down = "a"

    def by_enum(text: str) -> Way:
        return Way.up

    async def by_stream(reader: StreamReader[str]) -> list[Literal["b", "end"]]:
        return ["b"]

    graph = Graph[str, str]()
    for key in "ab":
        graph.add_node(key, shout)
    graph.add_branch(START, by_enum)
    graph.add_branch("a", by_stream, name="streaming", data=False)
    graph.add_branch("b", lambda text: "stop", {"go": "a", "stop": END}, name="given")
    info = graph.compile().graph_info()
    assert info.branches == (
        BranchInfo("start", "by_enum", {Way.up: "b", Way.down: "a"}, many=False, streams=False, data=True),
        BranchInfo("a", "streaming", {"b": "b", "end": "end"}, many=True, streams=True, data=False),
        BranchInfo("b", "given", {"go": "a", "stop": "end"}, many=False, streams=False, data=True),
    )
    assert [list(branch.ends.values()) for branch in info.branches] == [["b", "a"], ["b", "end"], ["a", "end"]]


def test_a_workflow_says_what_its_inputs_and_its_output_are_put_together_from() -> None:
    workflow = Workflow[dict[str, str], dict[str, Any]]()
    node = workflow.add_node("n", str, input=dict[str, Any], output=str)
    node.input(START, "a", field("b", to="deep.b")).static("lang", "en").static("deep.c", 1)
    plain = workflow.add_node("plain", shout).input(node)
    workflow.end.input(plain, field(extract=len, to="size")).input(node, field(to="n"), control=False).static("x", 2)
    info = workflow.compile().graph_info()
    assert info.node("n").mappings == (
        MappingInfo("start", ("a",), ("a",)),
        MappingInfo("start", ("b",), ("deep", "b")),
    )
    assert info.node("n").static == {("lang",): "en", ("deep", "c"): 1}
    assert (info.node("plain").mappings, info.node("plain").static) == ((), {})
    assert info.end_mappings == (MappingInfo("plain", (), ("size",), len), MappingInfo("n", (), ("n",)))
    assert info.end_static == {("x",): 2}
    assert list(map(str, (*info.node("n").mappings, *info.end_mappings))) == [
        "start: a -> a",
        "start: b -> deep.b",
        "plain: len(…) -> size",
        "n: (all) -> n",
    ]
    assert info == workflow.compile().graph_info()


def test_a_node_that_runs_a_graph_for_each_item_has_it_inside() -> None:
    graph = Graph[list[str], list[str]]()
    graph.add_edge(START, graph.add_node("each", Map(Chain[str, str](name="one").append(shout))))
    graph.add_edge("each", END)
    info = graph.compile().graph_info().node("each")
    assert info.component == "map"
    assert info.graph is not None
    assert (info.graph.kind, info.graph.name, len(info.graph.nodes)) == ("chain", "one", 1)


def test_what_the_builder_is_told_later_does_not_change_the_information() -> None:
    chain = Chain[str, str](state=list).append(shout, pre=noted)
    app = chain.compile()
    before = app.graph_info()
    chain.append(shout)
    assert app.graph_info() == before
    assert len(chain.compile().graph_info().nodes) == 2


def test_the_information_cannot_be_changed_by_accident() -> None:
    info: Any = Chain[str, str]().append(shout).compile().graph_info()
    for record, name in ((info, "name"), (info.nodes[0], "key"), (info.edges[0], "source")):
        with pytest.raises(AttributeError):
            setattr(record, name, "x")
