"""The interpreter by cases worked out by hand: it is what the engine is compared with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import anyio.lowlevel
import pytest

from anabranch.compose import (
    END,
    START,
    Chain,
    Graph,
    Lambda,
    Map,
    MergeError,
    MissingKeyError,
    NodeError,
    Retry,
    RunStalledError,
    StepLimitExceeded,
    UnknownTargetError,
    ValueTypeError,
    Workflow,
    current_state,
    field,
)
from anabranch.compose.testing import Failure, ScriptedModel, interpret
from anabranch.compose.testing.pieces import add, by_size, gather, glue, refuse, some, swap, until
from anabranch.flow.react import ReactAgent
from anabranch.schema import Message, StreamReader, ToolCall, tool


def line(*edges: str, **nodes: Any) -> Graph[str, str]:
    """Build a graph of nodes and of edges written as ``"a b c"``: a leads to b, and b to c."""
    graph = Graph[str, str]()
    for key, node in nodes.items():
        graph.add_node(key, node)
    for chain in edges:
        keys = chain.split()
        for source, target in pairwise(keys):
            graph.add_edge(source, target)
    return graph


def test_a_line_hands_on_from_node_to_node() -> None:
    found = interpret(line("start a b end", a=add("a"), b=swap()), "x")
    assert found.output == "XA"
    assert found.runs == {"a": ["x"], "b": ["xa"]}
    assert found.steps == [("a",), ("b",)]
    assert found.counts == {"a": 1, "b": 1}


def test_with_trigger_any_a_node_runs_for_each_arrival_and_end_takes_the_first() -> None:
    graph = line("start a d", "start b c d", "d end", a=add("a"), b=add("b"), c=add("c"), d=add("d"))
    found = interpret(graph, "")
    assert found.output == "ad"
    assert found.steps == [("a", "b"), ("c", "d")]


def test_with_trigger_all_a_node_runs_once_with_what_came() -> None:
    graph = line("start a d", "start b c d", "d end", a=add("a"), b=add("b"), c=add("c"))
    graph.add_node("d", glue(), merge=gather)
    found = interpret(graph, "", trigger="all")
    assert found.output == "abc"
    assert found.runs["d"] == [["a", "bc"]]
    assert found.after["d"] == {"a", "b", "c"}


def test_a_branch_that_is_not_taken_skips_all_that_hangs_on_it() -> None:
    graph = line("a end", "b c end", a=add("a"), b=add("b"), c=add("c"))
    graph.add_branch(START, by_size("a", "b"), ["a", "b"])
    found = interpret(graph, "xy", trigger="all")
    assert (found.output, found.skipped) == ("xya", {"b", "c"})
    assert interpret(graph, "x", trigger="all").output == "xbc"


def test_an_edge_leads_to_a_node_although_a_branch_does_not_choose_it() -> None:
    graph = line("start a", "a end", "b end", a=add("a"), b=add("b"))
    graph.add_branch(START, by_size("a", "b"), ["a", "b"])
    assert interpret(graph, "x").runs == {"a": ["x"], "b": ["x"]}
    assert interpret(graph, "xy").runs == {"a": ["xy"]}


def test_a_loop_goes_round_until_its_branch_leads_out() -> None:
    graph = line("start a", "b end", a=add("a"), b=swap())
    graph.add_branch("a", until("a", "b", length=3), ["a", "b"])
    found = interpret(graph, "")
    assert found.output == "AAA"
    assert found.steps == [("a",), ("a",), ("a",), ("b",)]


def test_a_join_waits_for_whatever_can_still_arrive() -> None:
    graph = line("start a d", "start b c d", "d end", a=add("a"), b=add("b"), c=add("c"))
    graph.add_node("d", glue(), merge=gather, trigger="all")
    found = interpret(graph, "")
    assert found.output == "abc"
    assert found.steps == [("a", "b"), ("c",), ("d",)]


def test_of_joins_that_wait_for_each_other_the_first_one_goes() -> None:
    graph = line("start a", "start b", a=add("a"), b=add("b"))
    graph.add_node("this", glue(), merge=gather, trigger="all")
    graph.add_node("that", glue(), merge=gather, trigger="all")
    for source, target in (("a", "this"), ("b", "that"), ("this", "that"), ("that", END)):
        graph.add_edge(source, target)
    graph.add_branch("that", until("this", "end", length=5), ["this", END])
    found = interpret(graph, "")
    assert found.steps == [("a", "b"), ("this",), ("that",)]
    assert found.output == "ba"


@pytest.mark.anyio
async def test_a_join_that_waits_for_joins_in_a_knot_goes_after_them() -> None:
    graph = line("start a", "start b", "start c", a=add("a"), b=add("b"), c=add("c"))
    for key in ("late", "this", "that"):  # the one that has to wait is the first
        graph.add_node(key, glue(), merge=gather, trigger="all")
    for source, target in (("a", "this"), ("b", "that"), ("c", "late"), ("this", "that"), ("late", END)):
        graph.add_edge(source, target)
    graph.add_branch("that", until("this", "late", length=2), ["this", "late"])
    found = interpret(graph, "")
    assert found.steps == [("a", "b", "c"), ("this",), ("that",), ("late",)]
    assert await graph.compile().invoke("") == found.output


def test_data_alone_waits_in_the_inbox_until_control_comes() -> None:
    graph = line("start a b", "c end", a=add("a"), b=add("b"), c=add("c"))
    graph.add_edge(START, "c", control=False)
    graph.add_edge("b", "c", data=False)
    assert interpret(graph, "x").runs["c"] == ["x"]


def test_control_alone_gives_the_empty_value() -> None:
    graph = line("b end", b=add("b"))
    graph.add_edge(START, "b", data=False)
    assert interpret(graph, "x").output == "b"


def test_values_of_several_senders_come_in_the_order_of_the_edges() -> None:
    graph = line("start a", "start b", a=add("a"), b=add("b"))
    graph.add_node("d", glue(), merge=gather)
    for source, target in (("b", "d"), ("a", "d"), ("d", END)):
        graph.add_edge(source, target)
    assert interpret(graph, "").output == "ba"


def test_a_merge_function_makes_the_input_of_one_value_too() -> None:
    graph = line("a end", b=add("b"))
    graph.add_node("a", glue(), merge=gather)
    graph.add_branch(START, by_size("b", "a"), ["b", "a"])
    graph.add_edge("b", "a")
    assert interpret(graph, "x").runs["a"] == [["x"]]


def test_handlers_go_round_the_node_and_share_the_state() -> None:
    graph = Graph[str, str](state=list)

    def number(text: str, lines: list[str]) -> str:
        lines.append(text)
        return f"{text}{len(lines)}"

    graph.add_node("a", add("a"), pre=number, post=number)
    graph.add_edge(START, "a")
    graph.add_edge("a", END)
    found = interpret(graph, "x")
    assert (found.output, found.state) == ("x1a2", ["x", "x1a"])


def test_keys_pick_and_wrap() -> None:
    graph = Graph[dict[str, Any], dict[str, Any]]()
    graph.add_node("a", add("a"), input_key="in", output_key="out")
    graph.add_edge(START, "a")
    graph.add_edge("a", END)
    assert interpret(graph, {"in": "x", "more": 1}).output == {"out": "xa"}
    assert interpret(graph, {"more": 1}).failures == (Failure(MissingKeyError, "a"),)
    assert interpret(graph, {"in": 1}).failures == (Failure(ValueTypeError, "a"),)


def test_all_four_paradigms_are_run_on_whole_values() -> None:
    async def stream(text: str) -> AsyncIterator[str]:
        for letter in text:
            yield letter

    async def collect(reader: StreamReader[str]) -> str:
        return "+".join([chunk async for chunk in reader])

    async def transform(reader: StreamReader[str]) -> AsyncIterator[str]:
        async for chunk in reader:
            yield chunk
            yield "!"

    assert interpret(line("start a b c end", a=stream, b=collect, c=transform), "xy").output == "xy!"


class Outer(list[str]):
    pass


class Inner(list[str]):
    pass


def test_nested_graphs_have_paths_and_states_of_their_own() -> None:
    def ask(text: str) -> str:
        with current_state(Outer) as outer, current_state(Inner) as inner:
            inner.append(text)
            outer.append(text)
            return f"{text}{len(inner)}{len(outer)}"

    inner = Graph[str, str](state=Inner)
    inner.add_edge(START, inner.add_node("ask", ask))
    inner.add_edge("ask", END)
    outer = Graph[str, str](state=Outer)
    outer.add_edge(START, outer.add_node("one", inner))
    outer.add_edge("one", outer.add_node("two", inner))
    outer.add_edge("two", END)
    found = interpret(outer, "x")
    assert found.output == "x1112"
    assert found.runs == {"one": ["x"], "one/ask": ["x"], "two": ["x11"], "two/ask": ["x11"]}


def test_chains_are_graphs_too() -> None:
    chain = Chain[str, str]().append(add("a")).append(swap())
    assert interpret(chain, "x").output == "XA"
    assert interpret(chain.compile(), "x").output == "XA"


def test_a_workflow_declares_its_inputs() -> None:
    workflow = Workflow[str, dict[str, str]]()
    workflow.add_node("a", add("a")).input(START)
    workflow.add_node("b", add("b")).input("a")
    workflow.end.input("a", field(to="first")).input("b", field(to="second"))
    found = interpret(workflow, "x")
    assert found.output == {"first": "xa", "second": "xab"}
    assert found.after["b"] == {"a"}


def test_a_map_runs_its_node_once_for_each_item() -> None:
    graph = Graph[list[str], list[str]]()
    graph.add_node("each", Map(line("start a end", a=add("a"))))
    graph.add_edge(START, "each")
    graph.add_edge("each", END)
    found = interpret(graph, ["x", "y"])
    assert found.output == ["xa", "ya"]
    assert found.runs == {
        "each": [["x", "y"]],
        "each/0": ["x"],
        "each/0/a": ["x"],
        "each/1": ["y"],
        "each/1/a": ["y"],
    }


def test_of_a_condition_with_two_functions_the_one_for_values_is_asked() -> None:
    async def on_stream(reader: StreamReader[str]) -> str:
        raise AssertionError("this is value mode")

    graph = line("a end", a=add("a"))
    graph.add_branch(START, Lambda(invoke=lambda _: "a", collect=on_stream, input=str, output=str), ["a"])
    assert interpret(graph, "x").output == "xa"


@tool
def double(number: int) -> int:
    """Double a number.

    Args:
        number: The number.
    """
    return 2 * number


def test_an_agent_is_a_graph_like_any_other() -> None:
    call = ToolCall(id="1", name="double", arguments='{"number": 21}')
    model = ScriptedModel([Message.assistant("", tool_calls=[call]), "It is 42."])
    found = interpret(ReactAgent(model, tools=[double]).graph, [Message.user("Twice 21?")])
    assert found.output.text == "It is 42."
    assert found.steps == [("chat",), ("tools",), ("chat",)]
    assert model.calls[1].messages[-1].text == "42"


FAILING: list[tuple[str, Graph[str, str], dict[str, Any], Failure]] = [
    ("a function raises", line("start a end", a=refuse("x")), {}, Failure(NodeError, "a", ValueError())),
    ("no end is chosen", line("a end", a=swap()), {}, Failure(RunStalledError, "")),
    ("too many steps", line("start a", "b end", a=swap(), b=swap()), {"max_steps": 5}, Failure(StepLimitExceeded, "")),
    ("an end that is none", line("start a end", a=swap()), {}, Failure(UnknownTargetError, "a")),
    ("texts do not merge", line("start a end", "start b end", a=swap(), b=swap()), {}, Failure(MergeError, "end")),
]
FAILING[1][1].add_branch(START, some("a", "end"), ["a", END])
FAILING[2][1].add_branch("a", until("a", "b", length=9), ["a", "b"])
FAILING[3][1].add_branch("a", by_size("b"), [END])


@pytest.mark.parametrize(("graph", "options", "failure"), [f[1:] for f in FAILING], ids=[f[0] for f in FAILING])
def test_failures_have_a_class_and_a_path(graph: Graph[str, str], options: dict[str, Any], failure: Failure) -> None:
    found = interpret(graph, "xxx", **options)
    (got,) = found.failures
    assert (got.kind, got.path) == (failure.kind, failure.path)
    assert isinstance(got.cause, type(failure.cause))
    with pytest.raises(LookupError, match=f"it fails: {failure.kind.__name__}"):
        _ = found.output


def test_where_several_nodes_of_a_step_fail_each_may_be_the_one() -> None:
    found = interpret(line("start a end", "start b end", a=refuse("x"), b=refuse("x")), "x")
    assert [failure.path for failure in found.failures] == ["a", "b"]


def test_a_node_is_tried_as_often_as_its_policy_allows() -> None:
    tries: list[str] = []

    def flaky(text: str) -> str:
        tries.append(text)
        if len(tries) < 3:
            raise ConnectionError("not yet")
        return text

    graph = Graph[str, str]()
    graph.add_node("a", flaky, retries=Retry(attempts=3, on=(ConnectionError,)))
    graph.add_edge(START, "a")
    graph.add_edge("a", END)
    assert interpret(graph, "x").runs == {"a": ["x", "x", "x"]}


async def wait(text: str) -> str:
    await anyio.lowlevel.checkpoint()
    return text.upper()


def test_nodes_that_wait_get_an_event_loop() -> None:
    assert interpret(line("start a end", a=wait), "x").output == "X"


@pytest.mark.anyio
async def test_also_inside_of_a_running_one() -> None:
    assert interpret(line("start a end", a=wait), "x").output == "X"


def test_a_condition_may_return_handles_and_labels() -> None:
    graph = Graph[str, str]()
    done = graph.add_node("done", add("!"), input=str, output=str)
    graph.add_branch(START, lambda _: [done], [done])
    graph.add_branch(done, lambda _: "yes", {"yes": END})
    assert interpret(graph, "x").output == "x!"
