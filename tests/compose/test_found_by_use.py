"""Faults that using the engine brought up: each with the test that would have caught its kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from anabranch.compose import END, START, Graph, GraphCompileError, MergeError, NodeError, RunOptions, ValueTypeError
from anabranch.compose.testing import assert_paradigms_agree
from anabranch.schema import Message, StreamReader, TextPart

pytestmark = pytest.mark.anyio


def same(text: str) -> str:
    return text


async def words(text: str) -> AsyncIterator[str]:
    for word in text.split():
        yield word


async def passed_on(reader: StreamReader[dict[str, str]]) -> AsyncIterator[dict[str, str]]:
    async for chunk in reader:
        yield chunk


def count(values: list[str]) -> Any:
    return len(values)


def merging(merge: Callable[..., Any]) -> Graph[str, str]:
    graph = Graph[str, str]()
    for key in ("a", "b"):
        graph.add_edge(START, graph.add_node(key, same))
        graph.add_edge(key, "m")
    graph.add_node("m", same, merge=merge)
    graph.add_edge("m", END)
    return graph


@pytest.mark.parametrize("mode", ["invoke", "collect"])
async def test_what_a_merge_function_gives_is_tested_like_any_input(mode: str) -> None:
    app = merging(count).compile()
    with pytest.raises(ValueTypeError, match="the merge function of node 'm' gave: wanted str, got int"):
        await (app.invoke("x") if mode == "invoke" else app.collect(["x"]))
    assert await merging("".join).compile().invoke("x") == "xx"


async def test_a_merge_function_that_is_async_is_refused() -> None:
    async def later(values: list[str]) -> str:
        return "".join(values)

    with pytest.raises(GraphCompileError, match="node 'm': merge= takes a plain function"):
        merging(later).compile()


@pytest.mark.parametrize("method", ["on_stream_output", "on_stream_input"])
@pytest.mark.parametrize("later", [False, True])
async def test_what_a_callback_for_streams_raises_is_a_located_error(method: str, later: bool) -> None:
    def fail(self: Any, info: Any, reader: Any) -> None:
        raise ValueError("no")

    async def fail_later(self: Any, info: Any, reader: Any) -> None:
        fail(self, info, reader)

    handler = type("Handler", (), {method: fail_later if later else fail})()
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("words", words))
    graph.add_edge("words", END)
    options = RunOptions(callbacks=[handler])
    app = graph.compile()

    async def read_all() -> None:
        async with app.stream("ebb flow", options) as reader:
            async for _ in reader:
                pass

    with pytest.raises(NodeError, match=f"callback Handler.{method}") as caught:
        await read_all()
    assert isinstance(caught.value.__cause__, ValueError)


async def test_a_key_sent_twice_names_its_senders_as_they_were_declared_in_every_mode() -> None:
    graph = Graph[str, dict[str, str]]()
    for key in ("a", "b"):
        graph.add_edge(START, graph.add_node(key, words, output_key="k"))
        graph.add_edge(key, "join")
    graph.add_node("join", passed_on)
    graph.add_edge("join", END)
    app = graph.compile(trigger="all")
    for run in (app.invoke("x y"), app.collect(["x y"])):
        with pytest.raises(MergeError, match="'a' and 'b' both sent the key 'k'"):
            await run


@pytest.mark.parametrize(
    "options",
    [{"retries": -1}, {"retries": "x"}, {"retries": 1.5}, {"timeout": "x"}, {"timeout": 0}, {"timeout": True}],
)
async def test_a_bad_option_of_a_node_is_one_problem_among_the_others(options: dict[str, Any]) -> None:
    graph = Graph[str, str]()
    graph.add_node("a", same, **options)
    graph.add_edge(START, "a")
    graph.add_edge("a", "nowhere")
    graph.add_edge("a", END)
    with pytest.raises(GraphCompileError) as caught:
        graph.compile()
    assert sorted(problem.kind for problem in caught.value.problems) == ["bad-option", "unknown-node"]


async def test_a_message_of_two_texts_is_the_same_in_value_and_in_stream_mode() -> None:
    two = Message.assistant([TextPart("a"), TextPart("b")])

    def answer(question: str) -> Message:
        return two

    graph = Graph[str, Message]()
    graph.add_edge(START, graph.add_node("answer", answer))
    graph.add_edge("answer", END)
    assert await assert_paradigms_agree(graph.compile(), "x") == two
