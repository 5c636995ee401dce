"""The weak points that the reference names for itself (W-5 … W-50), where no numbered case has them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from anabranch.compose import (
    END,
    START,
    Graph,
    GraphCompileError,
    GraphWarning,
    Lambda,
    RunOptions,
    ValueTypeError,
)
from anabranch.compose.testing import assert_paradigms_agree
from anabranch.schema import StreamReader

pytestmark = pytest.mark.anyio


def same(value: Any) -> Any:
    return value


def up(text: str) -> str:
    return text.upper()


def line(*nodes: tuple[str, Any], input: Any = str, output: Any = str, state: Any = None) -> Graph[Any, Any]:
    graph = Graph[Any, Any](input=input, output=output, state=state)
    last = "start"
    for key, node in nodes:
        graph.add_node(key, node)
        graph.add_edge(last, key)
        last = key
    graph.add_edge(last, END)
    return graph


async def test_w5_a_branch_on_a_passthrough_has_to_fit_the_type_that_it_has() -> None:
    def by_number(number: int) -> str:
        return "end"

    graph = Graph[str, str]()
    graph.add_passthrough("p")
    graph.add_edge(START, "p")
    graph.add_branch("p", by_number, [END])
    with pytest.raises(
        GraphCompileError, match="branch 'by_number' of node 'p': 'p' gives str, the condition takes int"
    ):
        graph.compile()


@pytest.mark.parametrize("streams", [False, True])
async def test_w12_a_handler_on_a_passthrough_leaves_streams_as_they_are(streams: bool) -> None:
    def note(value: Any, lines: list[Any]) -> Any:
        lines.append(value)
        return value

    def note_stream(reader: StreamReader[Any], lines: list[Any]) -> StreamReader[Any]:
        return reader

    async def letters(reader: StreamReader[str]) -> AsyncIterator[str]:
        async for chunk in reader:
            for letter in chunk:
                yield letter

    graph = Graph[str, str](state=list)
    graph.add_passthrough("p", pre=note_stream if streams else note)
    graph.add_node("letters", letters)
    for source, target in (("start", "p"), ("p", "letters"), ("letters", "end")):
        graph.add_edge(source, target)
    assert await assert_paradigms_agree(graph.compile(), "abc", chunks=["a", "bc"]) == "abc"


async def test_w22_one_node_may_be_used_at_two_places() -> None:
    names: list[str] = []

    class Log:
        def on_start(self, info: Any, input: Any) -> None:
            names.append(info.name)

    shared = Lambda(invoke=up, name="shared")
    graph = Graph[str, str]()
    graph.add_node("a", shared, name="the first")
    graph.add_node("b", shared, name="the second")
    for source, target in (("start", "a"), ("a", "b"), ("b", "end")):
        graph.add_edge(source, target)
    first, second = graph.compile(), graph.compile()
    for app in (first, second):
        names.clear()
        await app.invoke("x", RunOptions(callbacks=[Log()]))
        assert names == ["graph", "the first", "the second"]


@pytest.mark.parametrize("wanted", [int | None, None, Any, object])
async def test_w35_none_is_a_value_where_the_type_takes_it(wanted: Any) -> None:
    graph = Graph[Any, Any](input=Any, output=Any)
    graph.add_node("a", same, input=wanted, output=Any)
    graph.add_edge(START, "a")
    graph.add_edge("a", END)
    assert await graph.compile().invoke(None) is None


async def test_w35_and_is_refused_where_it_does_not() -> None:
    graph = Graph[Any, Any](input=Any, output=Any)
    graph.add_node("a", same, input=int, output=Any)
    graph.add_edge(START, "a")
    graph.add_edge("a", END)
    with pytest.raises(ValueTypeError, match="edge 'start' -> 'a': wanted int, got None"):
        await graph.compile().invoke(None)


async def test_w39_nodes_run_in_the_order_in_which_they_were_added() -> None:
    ran: list[str] = []

    def noting(key: str) -> Callable[[str], str]:
        def node(text: str) -> str:
            ran.append(key)
            return text

        return node

    graph = Graph[str, dict[str, str]]()
    keys = ["z", "m", "a", "k"]
    for key in keys:
        graph.add_node(key, noting(key), output_key=key)
    for key in sorted(keys):  # the order of the edges does not decide it
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    for trigger in ("any", "all"):
        ran.clear()
        assert await graph.compile(trigger=trigger).invoke("x") == dict.fromkeys(keys, "x")
        assert ran == keys


async def test_w48_senders_of_unequal_depth_into_one_node_are_warned_of() -> None:
    graph = line(("a", up), ("b", up))
    graph.add_edge("a", END)
    with pytest.warns(GraphWarning, match="node 'end' is reached by senders after different numbers of steps: 'b'"):
        app = graph.compile()
    assert await app.invoke("x") == "X"


async def test_w48_a_join_and_trigger_all_are_the_cures() -> None:
    graph = Graph[str, str]()
    for key in ("a", "b", "c"):
        graph.add_node(key, up)
    graph.add_node("d", "".join, input=list[str], output=str, merge=list, trigger="all")
    for source, target in (("start", "a"), ("a", "d"), ("start", "b"), ("b", "c"), ("c", "d"), ("d", "end")):
        graph.add_edge(source, target)
    assert await graph.compile().invoke("x") == "XX"  # no warning, which would be an error here
