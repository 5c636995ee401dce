"""What goes wrong for users of other engines, scenario by scenario (1–17), and here does not."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import anyio
import pytest
from hypothesis import given

from anabranch.compose import (
    END,
    START,
    Graph,
    Map,
    NodeError,
    Retry,
    StepLimitExceeded,
    UnknownTargetError,
)
from anabranch.compose.testing import (
    GraphCase,
    Scripted,
    Sequencer,
    assert_as_interpreted,
    graphs,
    interpret,
)
from anabranch.compose.testing.pieces import add, gather, glue

pytestmark = pytest.mark.anyio


def same(text: str) -> str:
    return text


def texts(*lines: str, join: Any = None, **nodes: Any) -> Graph[Any, Any]:
    """Build a graph of texts from lines such as ``"start a b end"``: nodes that are not given add their own key.

    The node d joins what comes; ``join`` is its trigger.
    """
    graph = Graph[str, str]()
    for key in dict.fromkeys(" ".join(lines).split()):
        if key == "d":
            options: Any = {"trigger": join} if join else {}
            graph.add_node(key, glue(), merge=gather, **options)
        elif key not in ("start", "end"):
            graph.add_node(key, nodes.get(key, add(key)))
    for line in lines:
        for source, target in pairwise(line.split()):
            graph.add_edge(source, target)
    return graph


async def test_1_two_ways_of_different_length_into_one_node_run_it_once() -> None:
    sequence = Sequencer("c", "b", "b2")
    nodes = {key: sequence.node(key, add(key)) for key in ("b", "b2", "c")}
    app = texts("start a b b2 d end", "a c d", **nodes).compile(trigger="all")
    assert await app.invoke("") == "abb2ac"
    assert sequence.finished == ["c", "b", "b2"]


async def test_2_a_join_goes_on_without_the_branch_that_was_skipped() -> None:
    graph = texts("a d c end", "b d", c=add("c"))
    graph.add_branch(START, lambda _: "a", ["a", "b"])
    app = graph.compile(trigger="all")
    assert await app.invoke("") == "ac"
    found = interpret(app, "")
    assert (found.counts, found.skipped) == ({"a": 1, "d": 1, "c": 1}, {"b"})


@pytest.mark.filterwarnings("ignore::anabranch.compose.GraphWarning")
async def test_3_a_join_in_supersteps_does_not_wait_for_what_cannot_reach_it() -> None:
    app = texts("start a d end", "start b c d", "start u v w x end", join="all").compile()
    assert await app.invoke("") == "abc"
    assert interpret(app, "").steps == [("a", "b", "u"), ("c", "v"), ("d", "w")]


async def test_4_with_trigger_all_a_quick_way_does_not_wait_for_a_slow_one() -> None:
    slow, quick = Scripted(same), Scripted(same)
    app = texts("start fast fast2 d end", "start slow d", slow=slow, fast2=quick).compile(trigger="all")
    results: list[str] = []

    async def run() -> None:
        results.append(await app.invoke("x"))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await slow.started()
        assert await quick.started() == "xfast"  # the slow one still runs
        quick.finish()
        slow.finish()
    assert results == ["xfastx"]


@pytest.mark.parametrize("trigger", ["any", "all"])
async def test_5_an_edge_and_a_branch_of_one_node_both_do_what_they_say(trigger: Any) -> None:
    graph = Graph[str, dict[str, str]]()
    graph.add_edge(START, graph.add_node("a", same))
    for key in ("b", "c"):
        graph.add_node(key, same, output_key=key)
        graph.add_edge(key, END)
    graph.add_edge("a", "b")
    graph.add_branch("a", lambda _: "c", ["c"])
    assert await graph.compile(trigger=trigger).invoke("x") == {"b": "x", "c": "x"}


@pytest.mark.parametrize("choice", ["nope", ["a", "nope"]])
async def test_7_a_target_that_does_not_exist_is_an_error(choice: Any) -> None:
    graph = texts("a end")
    graph.add_branch(START, lambda _: choice, ["a"], name="router")
    with pytest.raises(UnknownTargetError, match="branch 'router' of node 'start' chose 'nope'"):
        await graph.compile().invoke("x")


@pytest.mark.parametrize("trigger", ["any", "all"])
async def test_8_neither_the_caller_nor_a_sibling_sees_what_a_node_does_to_its_input(trigger: Any) -> None:
    changed = anyio.Event()

    def change(got: dict[str, list[int]]) -> int:
        got["x"].append(2)
        changed.set()
        return len(got["x"])

    async def look(got: dict[str, list[int]]) -> list[int]:
        await changed.wait()
        return got["x"]

    graph = Graph[dict[str, list[int]], dict[str, Any]]()
    for key, node in (("b", look), ("a", change)):
        graph.add_node(key, node, output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    given = {"x": [1]}
    assert await graph.compile(trigger=trigger).invoke(given) == {"a": 2, "b": [1]}
    assert given == {"x": [1]}


async def test_11_nodes_that_wait_for_threads_inside_them_never_starve_each_other() -> None:
    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("child", str.upper, input=str, output=str, blocking=True))
    inner.add_edge("child", END)
    graph = Graph[str, dict[str, str]]()
    for key in map(str, range(60)):
        graph.add_node(key, inner, output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    with anyio.fail_after(20):
        assert await graph.compile().invoke("x") == {str(number): "X" for number in range(60)}


async def test_13_a_map_over_nothing_still_runs_what_comes_after_it() -> None:
    def reduce(items: list[str]) -> str:
        return f"{len(items)} items"

    graph = Graph[list[str], str]()
    graph.add_edge(START, graph.add_node("map", Map(same)))
    graph.add_node("reduce", reduce)
    graph.add_edge("map", "reduce")
    graph.add_edge("reduce", END)
    assert await graph.compile().invoke([]) == "0 items"


async def test_14_one_builder_compiles_twice_to_the_same_graph() -> None:
    graph = texts("start a end")
    first, second = graph.compile(), graph.compile()
    assert first.graph_info() == second.graph_info()
    assert await first.invoke("x") == await second.invoke("x") == "xa"


@dataclass
class Progress:
    rounds: list[str] = field(default_factory=list[str])


async def test_16_a_run_out_of_steps_says_where_it_was_and_what_it_knew() -> None:
    def note(text: str, progress: Progress) -> str:
        progress.rounds.append(text)
        return text

    def enough(text: str) -> Literal["grow", "end"]:
        return "end" if len(text) == 6 else "grow"

    graph = Graph[str, str](state=Progress)
    graph.add_node("grow", add("x"), pre=note)
    graph.add_edge(START, "grow")
    graph.add_branch("grow", enough)
    with pytest.raises(StepLimitExceeded) as caught:
        await graph.compile(max_steps=3).invoke("")
    assert (caught.value.limit, caught.value.next_nodes) == (3, ("grow",))
    assert caught.value.trail == (("grow",), ("grow",), ("grow",))
    assert caught.value.state == Progress(["", "x", "xx"])
    assert await graph.compile(max_steps=6).invoke("") == "xxxxxx"


async def test_e14_what_an_attempt_has_started_ends_before_the_next_attempt() -> None:
    attempts: list[str] = []
    child = Scripted(same)

    async def failing(text: str) -> str:
        await child.started(len(attempts) + 1)
        attempts.append("failed" if not attempts else "fine")
        if attempts == ["failed"]:
            raise ConnectionError(text)
        child.finish()
        return text

    inner = Graph[str, dict[str, str]]()
    for key, node in (("child", child), ("failing", failing)):
        inner.add_node(key, node, output_key=key)
        inner.add_edge(START, key)
        inner.add_edge(key, END)
    graph = Graph[str, dict[str, str]]()
    graph.add_edge(START, graph.add_node("inner", inner, retries=Retry(attempts=2, on=(ConnectionError,))))
    graph.add_edge("inner", END)
    assert await graph.compile().invoke("x") == {"child": "x", "failing": "x"}
    assert (attempts, child.cancelled, child.running) == (["failed", "fine"], 1, 0)


async def test_e21_an_error_that_the_policy_does_not_name_is_not_tried_again() -> None:
    calls: list[str] = []

    def wrong(text: str) -> str:
        calls.append(text)
        raise ValueError(text)

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("a", wrong, retries=Retry(attempts=5, on=(ConnectionError,))))
    graph.add_edge("a", END)
    with pytest.raises(NodeError, match="ValueError"):
        await graph.compile().invoke("x")
    assert calls == ["x"]


@given(graphs(trigger="all", nodes=8, branches=False, streams=False))
async def test_17_joins_that_feed_joins_lose_and_double_nothing(case: GraphCase) -> None:
    await assert_as_interpreted(case.compile(), case.input)
