"""The tools for testing graphs: they force and explore orders, and they find what is wrong when something is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from hypothesis import find, given, settings

from anabranch.compose import END, START, Graph, Lambda, NodeError, Runnable, current_state
from anabranch.compose.testing import (
    GraphCase,
    InvalidGraph,
    Scripted,
    Sequencer,
    assert_as_interpreted,
    assert_leaves_nothing_behind,
    assert_order_does_not_matter,
    assert_paradigms_agree,
    explore,
    graphs,
    interpret,
    invalid_graphs,
)
from anabranch.schema import MissingExtraError, StreamReader

anyio_test = pytest.mark.anyio


def fan(trigger: Any = "any", **nodes: Any) -> Runnable[str, dict[str, Any]]:
    """Build a graph in which all nodes run at once."""
    graph = Graph[str, dict[str, Any]](state=Lines)
    for key, node in nodes.items():
        graph.add_node(key, node, output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    return graph.compile(trigger=trigger)


class Lines(list[str]):
    """A state."""


def up(text: str) -> str:
    return text.upper()


# -- the explorer --------------------------------------------------------------------------------------------------


@anyio_test
async def test_all_orders_of_a_small_superstep_are_tried() -> None:
    runs = await explore(fan(a=up, b=up, c=up), "x")
    assert [" ".join(run.order) for run in runs] == ["a b c", "a c b", "b a c", "b c a", "c a b", "c b a"]
    assert all(run.output == {"a": "X", "b": "X", "c": "X"} for run in runs)
    assert runs[0].waiting == (("a", "b", "c"), ("b", "c"), ("c",))


@anyio_test
async def test_of_many_orders_some_are_chosen_by_a_seed() -> None:
    app = fan(**dict.fromkeys("abcdefgh", up))
    first = [run.order for run in await explore(app, "x", orders=10, seed=1)]
    again = [run.order for run in await explore(app, "x", orders=10, seed=1)]
    others = [run.order for run in await explore(app, "x", orders=10, seed=2)]
    assert first == again
    assert len(set(first)) == 10
    assert first != others


@anyio_test
async def test_in_stream_mode_every_chunk_is_held_back() -> None:
    async def twice(text: str) -> AsyncIterator[str]:
        yield text
        yield text

    for run in await explore(fan(a=twice), "x", paradigm="stream"):
        assert run.order == ("a", "a", "a")
        assert run.output == {"a": "xx"}


@anyio_test
async def test_nodes_that_wait_for_something_outside_are_waited_for() -> None:
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("thread", up, blocking=True))
    graph.add_edge("thread", END)
    assert [run.output for run in await explore(graph.compile(), "x")] == ["X"]


@anyio_test
async def test_an_error_is_an_outcome_too() -> None:
    def fail(text: str) -> str:
        raise ValueError(text)

    runs = await explore(fan(a=fail, b=up), "x")
    assert {type(run.error) for run in runs} == {NodeError}


@anyio_test
async def test_an_unknown_paradigm_is_refused() -> None:
    with pytest.raises(ValueError, match="there are 'invoke', 'stream', 'collect', 'transform'"):
        await explore(fan(a=up), "x", paradigm="call")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# -- planted bugs --------------------------------------------------------------------------------------------------


@anyio_test
@pytest.mark.parametrize("trigger", ["any", "all"])
async def test_a_graph_that_depends_on_the_order_is_found(trigger: Any) -> None:
    async def number(text: str) -> str:
        async with current_state(Lines) as lines:
            lines.append(text)
            return str(len(lines))

    graph = Graph[str, dict[str, Any]](state=Lines)
    for key in ("a", "b"):
        graph.add_node(key, up)
        graph.add_node(f"{key}_number", number, output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, f"{key}_number")
        graph.add_edge(f"{key}_number", END)
    with pytest.raises(AssertionError, match="the order in which nodes finish matters, on the input 'x'"):
        await assert_order_does_not_matter(graph.compile(trigger=trigger), "x")


@anyio_test
async def test_a_node_whose_paradigms_differ_is_found() -> None:
    async def shout(reader: StreamReader[str]) -> AsyncIterator[str]:
        async for chunk in reader:
            yield chunk.upper() + "!"

    def whole(text: str) -> str:
        return text.upper() + "!"

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("shout", Lambda(invoke=whole, transform=shout)))
    graph.add_edge("shout", END)
    app = graph.compile()
    assert await assert_paradigms_agree(app, "xy") == "XY!"
    with pytest.raises(AssertionError, match="the paradigms do not agree on the input 'xy'") as caught:
        await assert_paradigms_agree(app, "xy", chunks=["x", "y"])
    assert "collect   gave 'X!Y!'" in str(caught.value)


@anyio_test
async def test_a_node_that_is_not_pure_is_found() -> None:
    numbers = iter(range(10))

    def numbered(text: str) -> str:
        return f"{text}{next(numbers)}"

    app = fan(a=numbered)
    with pytest.raises(AssertionError, match=r"the run gave .*; the interpreter says "):
        await assert_as_interpreted(app, "x")


@anyio_test
async def test_a_node_that_runs_more_often_than_it_should_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrongly(*_: Any) -> Any:
        expected = interpret(fan(a=up), "x")
        expected.runs["a"] = ["x", "x"]
        return expected

    monkeypatch.setattr("anabranch.compose.testing._asserts.interpret", wrongly)
    with pytest.raises(AssertionError, match=r"the nodes ran {'a': 1} times; the interpreter says {'a': 2}"):
        await assert_as_interpreted(fan(a=up), "x")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@anyio_test
@pytest.mark.may_leak
async def test_a_node_that_leaves_a_task_is_found(anyio_backend: str) -> None:
    tasks: list[asyncio.Task[bool]] = []

    async def careless(text: str) -> str:
        tasks.append(asyncio.ensure_future(asyncio.Event().wait()))
        return text

    with pytest.raises(AssertionError, match=r"a run by invoke that was made to fail at point 1.* left tasks"):
        await assert_leaves_nothing_behind(fan(a=careless), "x")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@anyio_test
@pytest.mark.may_leak
async def test_a_node_that_leaves_the_state_held_is_found() -> None:
    blocks: list[Any] = []

    async def greedy(text: str) -> str:
        block = current_state(Lines)
        blocks.append(block)
        await block.__aenter__()
        return text

    with pytest.raises(AssertionError, match="left these states held"):
        await assert_leaves_nothing_behind(fan(a=greedy), "x", paradigms=["invoke"])


@anyio_test
async def test_a_clean_graph_is_ended_at_each_of_its_points() -> None:
    assert await assert_leaves_nothing_behind(fan(a=up, b=up), "x", paradigms=["invoke"]) == 8


# -- scripted nodes ------------------------------------------------------------------------------------------------


@anyio_test
async def test_a_scripted_node_finishes_when_it_is_told() -> None:
    node = Scripted(up)
    results: list[Any] = []

    async def run() -> None:
        results.append(await fan(a=node, b=node).invoke("x"))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        assert await node.started(2) == "x"
        assert (node.running, results) == (2, [])
        node.finish()
        node.finish()
    assert results == [{"a": "X", "b": "X"}]
    assert (node.running, node.calls) == (0, ["x", "x"])


@anyio_test
async def test_a_scripted_node_fails_when_it_is_told() -> None:
    node, other = Scripted(up), Scripted(up)

    async def run() -> None:
        with pytest.raises(NodeError, match="node 'a' failed: KeyError: 'gone'"):
            await fan(a=node, b=other).invoke("x")

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await node.started()
        node.fail(KeyError("gone"))
    assert (other.running, other.cancelled) == (0, 1)


def test_a_node_that_does_not_run_cannot_be_told_anything() -> None:
    with pytest.raises(RuntimeError, match="node 'up' was told to finish and does not run"):
        Scripted(up).finish()


@anyio_test
@pytest.mark.parametrize("order", ["a b c", "c b a", "b a c"])
async def test_a_sequencer_makes_nodes_finish_in_its_order(order: str) -> None:
    sequence = Sequencer(*order.split())
    app = fan(**{key: sequence.node(key, up) for key in "abc"}, d=sequence.node("d", up))
    assert await app.invoke("x") == dict.fromkeys("abcd", "X")
    assert sequence.finished == order.split()


# -- generated graphs ----------------------------------------------------------------------------------------------


@given(graphs())
def test_the_code_that_a_generated_graph_prints_makes_the_graph(case: GraphCase) -> None:
    names: dict[str, Any] = {}
    header = """
from typing import Any
import warnings
from anabranch.compose import END, START, Graph, Map
from anabranch.compose.testing.pieces import *
warnings.simplefilter("ignore")
"""
    _, _, code = repr(case).partition("\n")
    exec(header + "\n".join(line.strip() for line in code.splitlines()), names)
    again = interpret(names["app"], names["input"])
    first = interpret(case.compile(), case.input)
    assert (str(again.failures), again.runs) == (str(first.failures), first.runs)
    assert (tuple(names["chunks"]), names["input"]) == (case.chunks, case.input)


@pytest.mark.parametrize("trigger", ["any", "all"])
def test_a_failing_example_shrinks_to_a_small_graph(trigger: Any) -> None:
    few = settings(max_examples=300, database=None)
    case = find(graphs(trigger=trigger), lambda case: any(node.merge for node in case.sketch.nodes), settings=few)
    assert len(case.sketch.nodes) <= 3
    assert case.sketch.state is False


@given(graphs(trigger="all", nodes=4, streams=False, state=False, branches=False, nesting=0))
def test_what_a_graph_may_consist_of_can_be_limited(case: GraphCase) -> None:
    assert case.options == {"trigger": "all"}
    assert not case.sketch.branches
    assert not case.sketch.state
    assert "form='stream'" not in repr(case)


@given(invalid_graphs(faults=["cycle"]))
def test_an_invalid_graph_prints_its_fault_and_its_code(case: InvalidGraph) -> None:
    assert repr(case).startswith("InvalidGraph: cycle at ")
    assert "graph.compile(trigger='all')" in repr(case)


def test_without_hypothesis_the_strategies_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(_: str) -> None:
        return None

    monkeypatch.setattr("anabranch.compose.testing._strategies.find_spec", find_nothing)
    for strategy in (graphs, invalid_graphs):
        with pytest.raises(MissingExtraError, match=r'pip install "anabranch\[testing\]"'):
            strategy()
