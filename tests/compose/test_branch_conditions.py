"""Branch conditions that are asked in place, and those that have one function for values and one for streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest

from anabranch.compose import (
    END,
    START,
    Graph,
    GraphCompileError,
    Lambda,
    NodeError,
    StepLimitExceeded,
    UnknownTargetError,
    current_state,
)
from anabranch.schema import StreamReader

pytestmark = pytest.mark.anyio


def same(text: str) -> str:
    return text


def longer(text: str) -> str:
    return text + "x"


def again(_: str) -> str:
    return "again"


def nowhere(_: str) -> str:
    return "nowhere"


class Notes:
    def __init__(self) -> None:
        self.asked: list[str] = []


async def on_stream(reader: StreamReader[str]) -> Literal["again", "end"]:
    current_state(Notes).peek().asked.append("stream")
    return "end" if len(await reader.concat()) > 3 else "again"


def on_value(text: str) -> Literal["again", "end"]:
    current_state(Notes).peek().asked.append("value")
    return "end" if len(text) > 3 else "again"


def looping(condition: Any, **options: Any) -> Any:
    seen: list[Notes] = []

    def grow(text: str, notes: Notes) -> str:
        seen.append(notes)
        return text

    graph = Graph[str, str](state=Notes)
    graph.add_node("again", longer, pre=grow)
    graph.add_edge(START, "again")
    graph.add_branch("again", condition, **options)
    return graph.compile(), seen


async def test_a_lambda_is_asked_by_the_function_that_fits_the_run() -> None:
    app, seen = looping(Lambda(invoke=on_value, collect=on_stream))

    assert await app.invoke("a") == "axxx"
    assert seen[-1].asked == ["value"] * 3
    async with app.stream("a") as reader:
        assert await reader.concat() == "axxx"
    assert seen[-1].asked == ["stream"] * 3


@pytest.mark.parametrize("condition", [Lambda(invoke=on_value), Lambda(collect=on_stream), on_value, on_stream])
async def test_one_function_serves_both_kinds_of_run(condition: Any) -> None:
    app, _ = looping(condition)

    assert await app.invoke("a") == "axxx"
    async with app.stream("a") as reader:
        assert await reader.concat() == "axxx"


async def test_a_lambda_that_makes_streams_is_no_condition() -> None:
    async def chunks(text: str) -> AsyncIterator[str]:
        yield text

    with pytest.raises(GraphCompileError, match="invoke=, collect= or both"):
        looping(Lambda(stream=chunks))


async def test_a_condition_may_choose_several_ends_although_it_is_asked_in_place() -> None:
    def many(text: str) -> Any:
        return ["a", "b"]

    def one_of_many(text: str) -> Any:
        return ("a",)

    for condition, result in ((many, {"a": "q", "b": "q"}), (one_of_many, {"a": "q"})):
        graph = Graph[str, dict[str, str]]()
        graph.add_node("ask", same)
        for key in ("a", "b"):
            graph.add_node(key, same, output_key=key)
            graph.add_edge(key, END)
        graph.add_edge(START, "ask")
        graph.add_branch("ask", condition, ["a", "b"])
        assert await graph.compile().invoke("q") == result


async def test_what_goes_wrong_in_a_condition_says_where() -> None:
    def fails(text: str) -> Literal["again", "end"]:
        raise ValueError("no")

    async def fails_later(text: str) -> Literal["again", "end"]:
        raise ValueError("no")

    for condition in (fails, fails_later):
        with pytest.raises(NodeError, match=r"branch '.*' of node 'again' failed: ValueError: no"):
            await looping(condition)[0].invoke("a")
    with pytest.raises(UnknownTargetError, match="chose 'nowhere'"):
        await looping(nowhere, ends=["again", END], name="lost")[0].invoke("a")


async def test_a_loop_that_is_run_in_place_keeps_to_its_steps() -> None:
    app, seen = looping(again, ends=["again", END], name="for ever")

    with pytest.raises(StepLimitExceeded, match="again -> again") as failed:
        await app.invoke("a")
    assert failed.value.limit == 101
    assert len(seen) == 101


async def test_a_pre_handler_that_fails_or_waits_is_treated_like_any_other() -> None:
    async def waits(text: str, notes: Notes) -> str:
        notes.asked.append("pre")
        return text + "!"

    async def fails(text: str, notes: Notes) -> str:
        raise ValueError("no")

    def fails_at_once(text: str, notes: Notes) -> str:
        raise ValueError("no")

    def graph_with(pre: Any) -> Any:
        graph = Graph[str, str](state=Notes)
        graph.add_edge(START, graph.add_node("a", same, pre=pre))
        graph.add_edge("a", END)
        return graph.compile()

    assert await graph_with(waits).invoke("q") == "q!"
    for pre in (fails, fails_at_once):
        with pytest.raises(NodeError, match="pre-handler of node 'a' failed: ValueError: no"):
            await graph_with(pre).invoke("q")
