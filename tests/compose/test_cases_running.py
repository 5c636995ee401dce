"""The numbered cases of supersteps (20–32) and of graphs in which every node runs once (34–47)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Literal

import anyio
import pytest

from anabranch.compose import (
    END,
    START,
    Graph,
    GraphCompileError,
    NodeError,
    RunOptions,
    RunOptionsError,
    RunStalledError,
    StepLimitExceeded,
)
from anabranch.compose.testing import Scripted
from anabranch.compose.testing._explore import nothing_moves
from anabranch.compose.testing.pieces import add, by_size

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::anabranch.compose.GraphWarning")]

Record = dict[str, int]


def emit(key: str) -> Callable[[Record], Record]:
    def node(_: Record) -> Record:
        return {key: 1}

    return node


def edges(graph: Graph[Any, Any], *lines: str) -> Graph[Any, Any]:
    """Add edges written as ``"a b c"``: a leads to b, and b to c."""
    for line in lines:
        keys = line.split()
        for source, target in pairwise(keys):
            graph.add_edge(source, target)
    return graph


def texts(*lines: str, **nodes: Any) -> Graph[Any, Any]:
    """Build a graph of texts; nodes that are not given add their own key."""
    graph = Graph[str, str]()
    for key in dict.fromkeys(" ".join(lines).split()):
        if key not in ("start", "end"):
            graph.add_node(key, nodes.get(key, add(key)))
    return edges(graph, *lines)


def records(*lines: str) -> Graph[Any, Any]:
    graph = Graph[Record, Record]()
    for key in dict.fromkeys(" ".join(lines).split()):
        if key not in ("start", "end"):
            graph.add_node(key, emit(key))
    return edges(graph, *lines)


def problems_of(graph: Graph[Any, Any], **options: Any) -> list[str]:
    with pytest.raises(GraphCompileError) as caught:
        graph.compile(**options)
    return [problem.text for problem in caught.value.problems]


# -- trigger="any" -------------------------------------------------------------------------------------------------


async def test_20_the_first_value_that_reaches_end_is_the_output_and_the_rest_is_dropped() -> None:
    late = Scripted(input=str, output=str)
    app = texts("start a end", "a b end", b=late).compile()
    assert await app.invoke("x") == "xa"
    assert late.calls == []


async def test_22_dicts_that_reach_end_together_are_joined() -> None:
    assert await records("start a end", "start b end").compile().invoke({}) == {"a": 1, "b": 1}


async def test_23_what_certainly_arrives_together_and_does_not_merge_is_refused() -> None:
    (text,) = problems_of(texts("start a end", "start b end"))
    assert text.startswith("node 'end' gets values from several nodes at once that do not merge: 'a' gives str, 'b'")


async def test_25_the_bound_on_steps_is_exact_and_a_senseless_one_is_refused() -> None:
    app = texts("start a b end").compile()
    assert await app.invoke("x", RunOptions(max_steps=2)) == "xab"
    with pytest.raises(StepLimitExceeded) as caught:
        await app.invoke("x", RunOptions(max_steps=1))
    assert (caught.value.limit, caught.value.trail, caught.value.next_nodes) == (1, (("a",),), ("b",))
    for senseless in (0, -3):
        with pytest.raises(RunOptionsError, match="a run takes at least one step"):
            await app.invoke("x", RunOptions(max_steps=senseless))


async def test_26_a_senseless_bound_is_refused_when_compiling() -> None:
    (text,) = problems_of(texts("start a end"), max_steps=-1)
    assert text == "max_steps=-1: a run takes at least one step; give a positive number"


async def test_28_with_trigger_any_end_wins_over_what_a_branch_chose_beside_it() -> None:
    graph = records("b end")
    graph.add_branch(START, lambda _: ["b", END], ["b", END])
    assert await graph.compile().invoke({"in": 0}) == {"in": 0}


async def test_29_a_node_that_two_branches_choose_runs_once() -> None:
    b = Scripted(add("b"), input=str, output=str)
    graph = texts("start a", "b end", b=b)
    graph.add_branch("a", by_size("b"), ["b"])
    graph.add_branch("a", by_size("b", "b"), ["b"])
    async with anyio.create_task_group() as group:
        group.start_soon(graph.compile().invoke, "x")
        await b.started()
        b.finish()
    assert b.calls == ["xa"]


async def cancelled_by_a_failing_sibling(trigger: Any) -> int:
    """Let one of two nodes fail while the other one works; say how often that was cancelled."""
    slow, failing = Scripted(input=str, output=Record), Scripted(input=str, output=Record)
    graph = Graph[str, Record]()
    graph.add_node("slow", slow)
    graph.add_node("failing", failing)
    app = edges(graph, "start slow end", "start failing end").compile(trigger=trigger)

    async def fail() -> None:
        await slow.started()
        await failing.started()
        failing.fail(ValueError("no"))

    async with anyio.create_task_group() as group:
        group.start_soon(fail)
        with pytest.raises(NodeError, match="node 'failing' failed: ValueError: no"):
            await app.invoke("x")
    assert slow.running == 0
    return slow.cancelled


async def test_31_a_failing_node_ends_the_step_at_once_and_its_siblings_are_cancelled() -> None:
    assert await cancelled_by_a_failing_sibling("any") == 1


async def test_32_a_loop_accumulates_in_order() -> None:
    graph = texts("start a b")

    def enough(text: str) -> Literal["a", "end"]:
        return "end" if text.count("b") == 2 else "a"

    graph.add_branch("b", enough)
    assert await graph.compile().invoke("x") == "xabab"


# -- trigger="all" -------------------------------------------------------------------------------------------------


async def test_34_a_cycle_is_refused_and_printed() -> None:
    assert problems_of(texts("start 1 2 3 2", "3 end"), trigger="all")[0].startswith("cycle 2 -> 3 -> 2: ")
    assert problems_of(texts("start a a", "a end"), trigger="all")[0].startswith("cycle a -> a: ")


async def test_35_a_branch_takes_one_way() -> None:
    graph = texts("1 end", "2 end")
    graph.add_branch(START, by_size("1", "2"), ["1", "2"])
    assert await graph.compile(trigger="all").invoke("hi") == "hi1"


async def test_37_what_hangs_on_a_way_not_taken_is_skipped_all_the_way_down() -> None:
    graph = texts("1 end", "3 end", "4 end", **{"2": add("2")})
    graph.add_node("2", add("2"))
    graph.add_branch(START, by_size("1", "2"), ["1", "2"])
    graph.add_branch("2", by_size("3", "4"), ["3", "4"])
    app = graph.compile(trigger="all")
    assert await app.invoke("hi") == "hi1"
    assert await app.invoke("hello") == "hello23"


async def test_38_a_run_whose_every_way_to_end_is_skipped_is_an_error_that_says_so() -> None:
    graph = texts("start 1", "2 end")
    graph.add_branch("1", lambda _: [], ["2"])
    with pytest.raises(RunStalledError, match=r"stopped after '1' .*every way to END was skipped"):
        await graph.compile(trigger="all").invoke("in")


async def test_38_an_edge_leads_there_all_the_same() -> None:
    graph = texts("start 1", "start 2", "2 end")
    graph.add_branch("1", lambda _: [], ["2"], data=False)
    assert await graph.compile(trigger="all").invoke("in") == "in2"


async def test_40_with_trigger_all_end_waits_for_what_a_branch_chose_beside_it() -> None:
    graph = records("b end")
    graph.add_branch(START, lambda _: ["b", END], ["b", END])
    assert await graph.compile(trigger="all").invoke({"in": 0}) == {"b": 1, "in": 0}


async def test_41_a_node_that_nothing_leads_to_is_refused() -> None:
    (text,) = problems_of(records("start a end", "b end"), trigger="all")
    assert text == "node 'b' cannot be reached from START; lead an edge or a branch to it"


async def test_43_a_node_that_leads_nowhere_is_refused_and_end_waits_for_one_that_is_led_to_it() -> None:
    (text,) = problems_of(texts("start a end", "start side"), trigger="all")
    assert text == "node 'side' leads nowhere: there is no path from it to END; add one"
    side = Scripted(input=str)
    graph = texts("start a end", "start side", side=side)
    graph.add_edge("side", END, data=False)
    results: list[str] = []

    async def run() -> None:
        results.append(await graph.compile(trigger="all").invoke("x"))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await side.started()
        await nothing_moves()
        assert results == []
        side.finish()
    assert results == ["xa"]


async def test_44_with_trigger_all_a_failure_ends_the_run_at_once() -> None:
    assert await cancelled_by_a_failing_sibling("all") == 1


async def test_46_a_bound_on_steps_has_no_sense_where_every_node_runs_once() -> None:
    (text,) = problems_of(texts("start a end"), trigger="all", max_steps=1)
    assert text.startswith('max_steps bounds the loops of a graph with trigger="any"')
    seen: list[str] = []

    class Log:
        def on_start(self, info: Any, input: Any) -> None:
            seen.append(info.path)

    app = texts("start a end").compile(trigger="all")
    with pytest.raises(RunOptionsError, match="no loops to bound"):
        await app.invoke("x", RunOptions(max_steps=1, callbacks=[Log()]))
    assert seen == []  # nothing has run, so nothing is told of it


async def test_47_cancelled_by_one_of_its_nodes_a_run_ends_with_all_of_them() -> None:
    slow = Scripted(input=str, output=Record)
    with anyio.CancelScope() as scope:

        async def cancelling(_: str) -> Record:
            await slow.started()
            scope.cancel()
            return {}

        graph = Graph[str, Record]()
        graph.add_node("slow", slow)
        graph.add_node("cancelling", cancelling)
        await edges(graph, "start slow end", "start cancelling end").compile(trigger="all").invoke("x")
    assert scope.cancelled_caught
    assert slow.cancelled == 1
