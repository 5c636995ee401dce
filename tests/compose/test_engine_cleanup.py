"""Whatever way a run ends, and wherever: nothing of it is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings

from anabranch.compose import END, START, Graph, NodeError, NodeTimeoutError, Runnable
from anabranch.compose.testing import GraphCase, Scripted, assert_leaves_nothing_behind, graphs

pytestmark = pytest.mark.anyio

many_runs_each = settings(max_examples=settings.default.max_examples // 10)  # type: ignore[union-attr]


@many_runs_each
@given(graphs(nodes=5))
async def test_a_run_that_ends_at_any_point_leaves_no_task_no_stream_and_no_lock(case: GraphCase) -> None:
    await assert_leaves_nothing_behind(case.compile(), case.input, chunks=case.chunks, points=5)


@many_runs_each
@given(graphs(nodes=6, failing=True, trigger="all"))
async def test_a_run_that_fails_by_itself_leaves_nothing_either(case: GraphCase) -> None:
    await assert_leaves_nothing_behind(case.compile(), case.input, chunks=case.chunks, points=2)


async def forever(text: str) -> str:
    await anyio.sleep_forever()
    return text


def fail(text: str) -> str:
    raise ValueError(text)


def side_by_side(first: Any, second: Any, trigger: Any = "any") -> Runnable[str, dict[str, Any]]:
    graph = Graph[str, dict[str, Any]]()
    for key, node in (("first", first), ("second", second)):
        graph.add_node(key, node, output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    return graph.compile(trigger=trigger)


@pytest.mark.parametrize("trigger", ["any", "all"])
async def test_a_failing_node_cancels_and_awaits_its_siblings(trigger: str) -> None:
    ended: list[str] = []

    async def slow(text: str) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            ended.append("slow")
        return text

    async def failing(text: str) -> str:
        await anyio.lowlevel.checkpoint()
        raise ValueError(text)

    with pytest.raises(NodeError, match="node 'second' failed: ValueError: tides") as caught:
        await side_by_side(slow, failing, trigger).invoke("tides")
    assert ended == ["slow"]
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("trigger", ["any", "all"])
async def test_cancelling_the_caller_cancels_the_nodes_and_waits_for_them(trigger: str) -> None:
    nodes = Scripted(input=str), Scripted(input=str)
    async with anyio.create_task_group() as group:
        group.start_soon(side_by_side(*nodes, trigger).invoke, "tides")
        for node in nodes:
            await node.started()
        group.cancel_scope.cancel()
    assert [node.cancelled for node in nodes] == [1, 1]
    assert [node.running for node in nodes] == [0, 0]


async def test_cancelling_the_caller_cancels_nested_graphs() -> None:
    node = Scripted(input=str, output=str)
    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("deep", node))
    inner.add_edge("deep", END)
    outer = side_by_side(inner, inner)
    async with anyio.create_task_group() as group:
        group.start_soon(outer.invoke, "tides")
        await node.started(2)
        group.cancel_scope.cancel()
    assert node.cancelled == 2


@pytest.mark.virtual_time
@pytest.mark.parametrize("trigger", ["any", "all"])
async def test_a_node_that_takes_too_long_fails_and_its_siblings_are_cancelled(trigger: Any) -> None:
    other = Scripted(input=str)
    graph = Graph[str, dict[str, Any]]()
    graph.add_edge(START, graph.add_node("slow", forever, output_key="slow", timeout=60))
    graph.add_edge(START, graph.add_node("other", other, output_key="other"))
    graph.add_edge("slow", END)
    graph.add_edge("other", END)
    with pytest.raises(NodeTimeoutError, match="node 'slow' took longer than its timeout of 60 s"):
        await graph.compile(trigger=trigger).invoke("tides")
    assert other.cancelled == 1


@pytest.mark.virtual_time
async def test_a_caller_whose_time_is_over_gets_its_time_out_and_nothing_stays() -> None:
    app = side_by_side(forever, forever)
    with pytest.raises(TimeoutError):
        with anyio.fail_after(3600):
            await app.invoke("tides")


async def test_leaving_a_stream_early_stops_the_nodes_that_make_it() -> None:
    closed: list[str] = []

    async def endless(text: str) -> AsyncIterator[str]:
        try:
            while True:
                await anyio.lowlevel.checkpoint()
                yield text
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            closed.append(text)

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("endless", endless))
    graph.add_edge("endless", END)
    async with graph.compile().stream("tick") as reader:
        assert [await reader.receive() for _ in range(3)] == ["tick"] * 3
        assert closed == []
    assert closed == ["tick"]


async def test_a_stream_that_nobody_takes_is_run_to_its_end_before_what_comes_after_it() -> None:
    done: list[str] = []

    async def note(text: str) -> AsyncIterator[str]:
        yield text
        done.append("noted")

    def after(_: str) -> str:
        return " and ".join([*done, "went on"])

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("note", note))
    graph.add_node("after", after)
    graph.add_edge("note", "after", data=False)
    graph.add_edge("after", END)
    app = graph.compile()
    async with app.stream("x") as reader:
        assert await reader.concat() == "noted and went on"
    done.clear()
    assert await app.invoke("x") == "noted and went on"


async def test_a_plain_node_that_fails_starts_none_of_those_behind_it() -> None:
    later = Scripted(input=str)
    with pytest.raises(NodeError, match="node 'first' failed"):
        await side_by_side(fail, later).invoke("tides")
    assert later.running == 0
