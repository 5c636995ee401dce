"""Map: order, the limit, errors, streams, and that nothing is left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.compose import (
    END,
    START,
    Chain,
    Graph,
    GraphCompileError,
    GraphRunError,
    Map,
    NodeError,
    Runnable,
)
from anabranch.compose.testing import (
    Scripted,
    Sequencer,
    assert_leaves_nothing_behind,
    assert_paradigms_agree,
)
from anabranch.schema import StreamReader

pytestmark = pytest.mark.anyio

Texts = list[str]


def around(node: Map[Any, Any], *, input: Any = Texts, output: Any = Texts, **options: Any) -> Runnable[Any, Any]:
    graph = Graph[Any, Any](input=input, output=output, **options)
    graph.add_edge(START, graph.add_node("each", node))
    graph.add_edge("each", END)
    return graph.compile()


def upper(text: str) -> str:
    return text.upper()


async def upper_later(text: str) -> str:
    await anyio.lowlevel.checkpoint()
    return text.upper()


async def letters(text: str) -> AsyncIterator[str]:
    for letter in text:
        yield letter.upper()


async def collected(reader: StreamReader[str]) -> str:
    return "".join([chunk.upper() async for chunk in reader])


async def transformed(reader: StreamReader[str]) -> AsyncIterator[str]:
    async for chunk in reader:
        yield chunk.upper()


def line(*nodes: Any, **options: Any) -> Chain[Any, Any]:
    chain = Chain[str, str](**options)
    for node in nodes:
        chain.append(node)
    return chain


# -- results -------------------------------------------------------------------------------------------------------

NODES = [upper, upper_later, letters, collected, transformed, line(upper), line(letters, transformed)]


@pytest.mark.parametrize("node", NODES, ids=lambda node: getattr(node, "__name__", "chain"))
async def test_any_node_runs_for_each_item_and_the_results_keep_their_order(node: Any) -> None:
    app = around(Map(node, concurrency=2))
    chunks: list[Texts] = [["a", "bc"], [], ["", "d"], ["e"]]
    whole = [item for chunk in chunks for item in chunk]
    assert await assert_paradigms_agree(app, whole, chunks=chunks) == ["A", "BC", "", "D", "E"]


@pytest.mark.parametrize("node", NODES, ids=lambda node: getattr(node, "__name__", "chain"))
async def test_an_empty_list_gives_an_empty_list_and_what_comes_next_runs(node: Any) -> None:
    def count(items: Texts) -> str:
        return f"{len(items)} of {items}"

    graph = Graph[Texts, str]()
    graph.add_edge(START, graph.add_node("each", Map(node)))
    graph.add_edge("each", graph.add_node("count", count))
    graph.add_edge("count", END)
    given: list[list[Texts]] = [[], [[]], [[], []]]
    for chunks in given:
        assert await assert_paradigms_agree(graph.compile(), [], chunks=chunks) == "0 of []"


class Gate:
    """Lets each run of a node finish when told, and knows how many have started and finished."""

    def __init__(self) -> None:
        self.at_work: dict[int, anyio.Event] = {}
        self.started = self.finished = 0
        self._news = anyio.Event()

    async def node(self, text: str) -> str:
        number = self.started
        self.started += 1
        self.at_work[number] = anyio.Event()
        self._news.set()
        await self.at_work[number].wait()
        del self.at_work[number]
        self.finished += 1
        self._news.set()
        return f"{number}{text}"

    async def until(self, started: int, finished: int) -> None:
        while (self.started, self.finished) != (started, finished):
            assert self.started <= started, "more are at work than may be"
            self._news = anyio.Event()
            await self._news.wait()


@given(st.lists(st.sampled_from("abc"), max_size=6), st.integers(1, 4), st.data())
async def test_whatever_finishes_first_results_are_in_the_order_of_the_items(
    items: Texts, limit: int, data: st.DataObject
) -> None:
    gate = Gate()
    results: list[Texts] = []
    app = around(Map(gate.node, concurrency=limit))

    async def run() -> None:
        results.append(await app.invoke(items))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        for done in range(len(items)):
            await gate.until(min(len(items), done + limit), done)  # as many as may be at work, and never more
            gate.at_work[data.draw(st.sampled_from(sorted(gate.at_work)))].set()
    assert results == [[f"{number}{text}" for number, text in enumerate(items)]]


async def test_a_slow_item_keeps_its_own_place_and_no_other() -> None:
    node = Scripted(str.upper, input=str, output=str)
    app = around(Map(node, concurrency=2))
    async with anyio.create_task_group() as group:
        group.start_soon(app.invoke, ["slow", "b", "c", "d"])
        await node.started(2)
        assert node.calls == ["slow", "b"]
        for done in (1, 2):  # "slow" waits first in the queue of those that are told to finish
            node._waiting.reverse()  # pyright: ignore[reportPrivateUsage]
            node.finish()
            await node.started(2 + done)
            assert node.running == 2
        assert node.calls == ["slow", "b", "c", "d"]
        node.finish()
        node.finish()


async def test_items_that_are_functions_of_values_take_their_type_from_the_node() -> None:
    def size(text: str) -> int:
        return len(text)

    assert around(Map(size), output=list[int]).graph_info().node("each").output == list[int]
    with pytest.raises(GraphCompileError, match=r"'each' takes list\[str\]"):
        around(Map(size), input=list[int], output=list[int])
    with pytest.raises(GraphCompileError, match=r"'each' gives list\[int\], the graph's output is list\[str\]"):
        around(Map(size))

    def unknown(item: Any) -> Any:
        return item

    assert around(Map(unknown, input=str, output=str)).graph_info().node("each").input == Texts


async def test_a_blocking_function_runs_in_worker_threads() -> None:
    import threading

    def where(_: str) -> int:
        return threading.get_ident()

    found = await around(Map(where, blocking=True), output=list[int]).invoke(["a", "b"])
    assert threading.get_ident() not in found


async def test_what_a_map_cannot_be_made_of_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Map\(concurrency=0\): at least one item has to be at work"):
        Map(upper, concurrency=0)
    with pytest.raises(ValueError, match=r"Map\(on_error='ignore'\)"):
        Map(upper, on_error="ignore")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="Map: NoneType is neither a function nor a component"):
        Map(None)


# -- errors --------------------------------------------------------------------------------------------------------


def picky(text: str) -> str:
    if text == "x":
        raise ValueError("no x")
    return text.upper()


async def test_the_first_failure_fails_the_node_and_names_the_item() -> None:
    app = around(Map(picky, concurrency=2))
    assert await assert_paradigms_agree(app, ["a", "x", "b"]) is None
    with pytest.raises(NodeError, match=r"^node 'each/1' failed: ValueError: no x") as caught:
        await app.invoke(["a", "x", "b"])
    assert caught.value.path == "each/1"
    assert isinstance(caught.value.__cause__, ValueError)
    async with app.stream(["a", "x", "b"]) as reader:
        with pytest.raises(NodeError, match=r"^node 'each/1' failed: ValueError: no x"):
            await reader.concat()


async def test_the_first_failure_cancels_the_other_items_and_awaits_them() -> None:
    node = Scripted(input=str, output=str)
    for paradigm in ("invoke", "collect"):
        app = around(Map(node, concurrency=3))
        async with anyio.create_task_group() as group:

            async def run(app: Runnable[Any, Any] = app, paradigm: str = paradigm) -> None:
                given: Any = ["a", "b", "c", "d"]
                with pytest.raises(NodeError, match=r"node 'each/0' failed: RuntimeError: late"):
                    await getattr(app, paradigm)(given if paradigm == "invoke" else [given])
                assert (node.running, node.cancelled) == (0, 2)

            group.start_soon(run)
            await node.started(3)
            node.fail(RuntimeError("late"))
        assert len(node.calls) == 3
        node.calls.clear()
        node.cancelled = 0


async def test_collected_errors_take_the_place_of_results() -> None:
    app = around(Map(picky, on_error="collect"), output=list[str | GraphRunError])
    whole = await app.invoke(["a", "x", "b"])
    collected = await app.collect([["a"], ["x", "b"]])
    for found in (whole, collected):
        assert [found[0], found[2]] == ["A", "B"]
        assert isinstance(found[1], NodeError)
        assert found[1].path == "each/1"
    assert await assert_paradigms_agree(app, ["a", "b"]) == ["A", "B"]


async def test_errors_inside_a_nested_graph_name_item_and_node() -> None:
    app = around(Map(line(upper, picky, upper)))
    assert await app.invoke(["a"]) == ["A"]
    with pytest.raises(NodeError, match=r"^node 'each/2/node_0' failed: ValueError: no x"):
        await around(Map(line(picky))).invoke(["a", "b", "x"])
    inner = Map(line(picky), on_error="collect")
    found = await around(inner, output=list[str | GraphRunError]).invoke(["a", "x"])
    assert found[1].path == "each/1/node_0"


async def test_an_error_of_the_stream_that_gives_the_items_is_the_senders() -> None:
    async def breaks(text: str) -> AsyncIterator[Texts]:
        yield [text]
        raise ValueError("no more")

    graph = Graph[str, Texts]()
    graph.add_edge(START, graph.add_node("breaks", breaks))
    graph.add_edge("breaks", graph.add_node("each", Map(upper)))
    graph.add_edge("each", END)
    for on_error in ("first", "again"):
        async with graph.compile().stream(on_error) as reader:
            with pytest.raises(NodeError, match=r"^node 'breaks' failed: ValueError: no more"):
                await reader.concat()


async def test_a_stream_that_was_lost_is_no_shorter_list() -> None:
    async def lost(text: str) -> AsyncIterator[Texts]:
        yield [text]
        raise anyio.BrokenResourceError

    graph = Graph[str, Texts]()
    graph.add_edge(START, graph.add_node("lost", lost))
    graph.add_edge("lost", graph.add_node("each", Map(upper)))
    graph.add_edge("each", END)
    async with graph.compile().stream("a") as reader:
        with pytest.raises(NodeError, match=r"^node 'lost' failed: BrokenResourceError"):
            await reader.concat()


# -- streams -------------------------------------------------------------------------------------------------------


async def test_items_are_taken_as_they_come_and_results_given_as_they_are_ready_in_order() -> None:
    sequence = Sequencer("b", "a", "c")
    nodes = {text: sequence.node(text, str.upper) for text in "abc"}
    taken: list[str] = []

    async def node(text: str) -> str:
        result: str = await nodes[text](text)
        return result

    async def source() -> AsyncIterator[Texts]:
        for text in "abcdef":
            taken.append(text)
            nodes.setdefault(text, sequence.node(text, str.upper))
            yield [text]

    async with around(Map(node, concurrency=2)).transform(source()) as reader:
        assert await reader.receive() == ["A"]
        assert sequence.finished[:2] == ["b", "a"]
        assert [chunk async for chunk in reader] == [["B"], ["C"], ["D"], ["E"], ["F"]]
    assert taken == list("abcdef")


async def test_a_first_result_does_not_wait_for_the_last_item() -> None:
    released = anyio.Event()

    async def source() -> AsyncIterator[Texts]:
        yield ["a", "b"]
        await released.wait()
        yield ["c"]

    async with around(Map(upper)).transform(source()) as reader:
        assert [await reader.receive(), await reader.receive()] == [["A"], ["B"]]
        released.set()
        assert [chunk async for chunk in reader] == [["C"]]


async def test_a_reader_that_does_not_read_holds_the_items_up() -> None:
    taken = 0

    async def source() -> AsyncIterator[Texts]:
        nonlocal taken
        while True:
            taken += 1
            yield [str(taken)]

    async with around(Map(upper, concurrency=2)).transform(source()) as reader:
        assert await reader.receive() == ["1"]
        await anyio.wait_all_tasks_blocked()
        assert taken <= 70
        before = taken
        await anyio.wait_all_tasks_blocked()
        assert taken == before
        for _ in range(10):
            await reader.receive()
        await anyio.wait_all_tasks_blocked()
        assert taken == before + 10


# -- nothing is left -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [upper_later, letters, line(upper_later, transformed)], ids=["f", "stream", "chain"])
@pytest.mark.parametrize("on_error", ["raise", "collect"])
async def test_wherever_a_run_ends_nothing_is_left(node: Any, on_error: Any) -> None:
    app = around(Map(node, concurrency=2, on_error=on_error), output=list[Any])
    assert await assert_leaves_nothing_behind(app, ["a", "b", "c"], chunks=[["a"], ["b", "c"]], points=8) > 4


async def test_cancelling_the_caller_cancels_all_items_and_awaits_them() -> None:
    node = Scripted(input=str, output=str)
    for paradigm, given_ in (("invoke", ["a", "b", "c"]), ("collect", [["a", "b", "c"]])):
        app = around(Map(line(node), concurrency=2))
        async with anyio.create_task_group() as group:
            group.start_soon(getattr(app, paradigm), given_)
            await node.started(2)
            group.cancel_scope.cancel()
        assert (node.running, node.cancelled, node.calls) == (0, 2, ["a", "b"])
        node.cancelled = 0
        node.calls.clear()


async def test_leaving_the_stream_early_stops_the_items_at_work() -> None:
    node = Scripted(str.upper, input=str, output=str)
    closed: list[str] = []

    async def source() -> AsyncIterator[Texts]:
        try:
            for text in "abcdef":
                yield [text]
        finally:
            closed.append("source")

    async with around(Map(node, concurrency=2)).transform(source()) as reader:
        await node.started(2)
        node.finish()
        assert await reader.receive() == ["A"]
        await node.started(3)
        assert closed == []
    assert (node.running, node.cancelled, closed) == (0, 2, ["source"])
    assert node.calls == ["a", "b", "c"]
