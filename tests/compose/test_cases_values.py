"""The numbered cases of branches (49–56), keys (100–103), merging and concatenation (104–113)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    Graph,
    MergeError,
    MissingKeyError,
    NodeError,
    Runnable,
    RunOptions,
    UnknownTargetError,
    ValueTypeError,
    current_state,
    register_merge,
)
from anabranch.compose.testing import assert_paradigms_agree
from anabranch.schema import ConcatError, EmptyStreamError, SourceEnd, StreamReader

pytestmark = pytest.mark.anyio


class Lines(list[str]):
    """A state."""


def as_it_is(got: Any) -> Any:
    return got


def giving(value: Any) -> Callable[[Any], Any]:
    def give(_: Any) -> Any:
        return value

    return give


async def chunks_of(app: Runnable[Any, Any], *chunks: Any) -> list[Any]:
    async with app.transform(chunks) as reader:
        return [chunk async for chunk in reader]


def line(node: Any, *, input: Any = str, output: Any = str, **options: Any) -> Graph[Any, Any]:
    graph = Graph[Any, Any](input=input, output=output, state=Lines)
    graph.add_node("a", node, **options)
    graph.add_edge(START, "a")
    graph.add_edge("a", END)
    return graph


def same(text: str) -> str:
    return text


async def as_they_come(reader: StreamReader[str]) -> AsyncIterator[str]:
    async for chunk in reader:
        yield chunk


async def how_many(reader: StreamReader[str]) -> str:
    return str(len([chunk async for chunk in reader]))


# -- branches ------------------------------------------------------------------------------------------------------


async def test_49_a_condition_on_values_sees_the_whole_and_the_chosen_node_still_gets_the_chunks() -> None:
    asked: list[str] = []

    def choose(text: str) -> Literal["a"]:
        asked.append(text)
        return "a"

    graph = Graph[str, str]()
    graph.add_node("a", as_they_come)
    graph.add_branch(START, choose)
    graph.add_edge("a", END)
    assert await chunks_of(graph.compile(), "x", "y") == ["x", "y"]
    assert asked == ["xy"]


async def test_50_a_condition_on_a_stream_may_read_as_little_as_it_needs() -> None:
    async def choose(reader: StreamReader[str]) -> Literal["a", "end"]:
        return "a" if await reader.receive() == "one " else "end"

    graph = Graph[str, str]()
    graph.add_node("a", how_many)
    graph.add_branch(START, choose)
    graph.add_edge("a", END)
    assert await chunks_of(graph.compile(), "one ", "size ", "fit ", "all") == ["4"]


def branching(condition: Callable[[str], Any]) -> Runnable[str, str]:
    graph = Graph[str, str](state=Lines)
    for key in ("a", "b"):
        graph.add_node(key, same)
        graph.add_edge(key, END)
    graph.add_branch(START, condition, ["a", "b"], name="which")
    return graph.compile()


async def test_52_a_choice_that_is_no_end_is_an_error_that_lists_the_ends() -> None:
    with pytest.raises(UnknownTargetError) as caught:
        await branching(lambda _: "nowhere").invoke("x")
    assert str(caught.value) == (
        "branch 'which' of node 'start' chose 'nowhere', which is not one of its ends: 'a', 'b'"
    )


@pytest.mark.parametrize("streaming", [False, True])
async def test_52_56_what_a_condition_raises_is_located_and_told_as_an_error_not_as_an_end(streaming: bool) -> None:
    told: list[str] = []

    class Log:
        def on_end(self, info: Any, output: Any) -> None:
            told.append(f"end {info.path!r}")

        def on_error(self, info: Any, error: Any) -> None:
            told.append(f"error {info.path!r}")

    def condition(_: str) -> str:
        raise ZeroDivisionError("oops")

    app = branching(condition)
    options = RunOptions(callbacks=[Log()])
    with pytest.raises(NodeError, match="branch 'which' of node 'start' failed: ZeroDivisionError: oops") as caught:
        await (app.collect(["x"], options) if streaming else app.invoke("x", options))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert (caught.value.path, caught.value.where, told) == ("start", "branch 'which'", ["error ''"])


async def test_53_the_keys_of_a_dict_are_the_choice() -> None:
    assert await branching(lambda _: {"b": False}).invoke("x") == "x"


async def test_55_a_condition_gets_the_state() -> None:
    def condition(text: str) -> str:
        with current_state(Lines) as lines:
            lines.append(text)
        return "b" if lines == ["x"] else "a"

    assert await branching(condition).invoke("x") == "x"


# -- keys ----------------------------------------------------------------------------------------------------------


async def test_100_handlers_see_the_dict_and_callbacks_what_is_in_it() -> None:
    seen: list[Any] = []

    def note(record: dict[str, Any], lines: list[str]) -> dict[str, Any]:
        seen.append(record)
        return record

    class Log:
        def on_start(self, info: Any, input: Any) -> None:
            if info.path == "a":
                seen.append(input)

    graph = line(same, input=dict[str, Any], output=dict[str, Any], input_key="k", output_key="o", pre=note, post=note)
    app = graph.compile()
    assert await app.invoke({"k": "1", "z": 2}, RunOptions(callbacks=[Log()])) == {"o": "1"}
    assert seen == [{"k": "1", "z": 2}, "1", {"o": "1"}]


async def test_101_a_missing_key_is_the_same_error_for_a_value_and_for_a_stream() -> None:
    app = line(same, input=dict[str, Any], input_key="k").compile()
    for paradigm in (app.invoke({"u": 1}), app.collect([{"u": 1}]), chunks_of(app, {"u": 1})):
        with pytest.raises(MissingKeyError, match="node 'a' takes the key 'k', and its input has 'u'"):
            await paradigm


async def test_103_a_value_of_another_type_under_the_key_is_refused_in_both_modes() -> None:
    app = line(same, input=dict[str, Any], input_key="k").compile()
    for paradigm in (app.invoke({"k": 1}), chunks_of(app, {"k": 1})):
        with pytest.raises(ValueTypeError, match="the value under the key 'k' in the input of node 'a': wanted str"):
            await paradigm


# -- merging -------------------------------------------------------------------------------------------------------


def both(first: Any, second: Any, form: Any, take: Any = None, **options: Any) -> Runnable[Any, Any]:
    """Let two nodes send a value each to one that takes them together."""
    graph = Graph[Any, Any](input=Any, output=Any)
    for key, value in (("one", first), ("two", second)):
        graph.add_node(key, giving(value), input=Any, output=form)
        graph.add_edge(START, key)
        graph.add_edge(key, "j")
    graph.add_node("j", take or as_it_is, input=form, output=Any, **options)
    graph.add_edge("j", END)
    return graph.compile()


async def test_104_a_key_from_two_senders_is_an_error_that_names_them_in_both_modes() -> None:
    app = both({"k": 1}, {"k": 2}, dict[str, int])
    for paradigm in (app.invoke(None), chunks_of(app, None)):
        with pytest.raises(MergeError, match="node 'j': 'one' and 'two' both sent the key 'k'"):
            await paradigm


async def test_106_dicts_are_joined_whatever_their_values_are() -> None:
    graph = Graph[str, dict[str, Any]]()
    graph.add_node("n", giving({"n": 1}), input=str, output=dict[str, int])
    graph.add_node("t", giving({"t": "x"}), input=str, output=dict[str, str])
    for key in ("n", "t"):
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    assert await assert_paradigms_agree(graph.compile(), "x") == {"n": 1, "t": "x"}


class Tally(int):
    """A number that adds up."""


register_merge(Tally, lambda numbers: Tally(sum(numbers)))


async def test_107_a_registered_merge_counts_for_values_and_for_streams() -> None:
    assert await assert_paradigms_agree(both(Tally(1), Tally(2), Tally), "x") == 3


class Pair(BaseModel):
    a: str | None = None
    b: str | None = None


def streamed(*chunks: Any, form: Any) -> Runnable[Any, Any]:
    """Let a node give these chunks to one that takes the whole."""

    async def give(_: Any) -> AsyncIterator[Any]:
        for chunk in chunks:
            yield chunk

    graph = Graph[Any, Any](input=Any, output=Any)
    graph.add_node("give", give, output=form)
    graph.add_node("take", as_it_is, input=form, output=Any)
    graph.add_edge(START, "give")
    graph.add_edge("give", "take")
    graph.add_edge("take", END)
    return graph.compile()


WHOLES: list[tuple[tuple[Any, ...], Any, Any]] = [
    ((Pair(), Pair(b="2"), Pair()), Pair, Pair(b="2")),
    ((Pair(a="1"), Pair(b="2")), Pair, Pair(a="1", b="2")),
    (([], ["b"]), list[str], ["b"]),
    ((["a"], ["b"]), list[str], ["a", "b"]),
    (({"a": {"b": "1"}}, {"a": {"b": "2", "c": 3}}), dict[str, Any], {"a": {"b": "12", "c": 3}}),
    (({"a": "x"}, {"a": None}), dict[str, Any], {"a": "x"}),
    (({"a": None}, {"a": "x"}), dict[str, Any], {"a": "x"}),
    ((), str, ""),
]


@pytest.mark.parametrize(("chunks", "form", "whole"), WHOLES)
async def test_109_110_chunks_become_the_value_of_their_type(chunks: Any, form: Any, whole: Any) -> None:
    assert await assert_paradigms_agree(streamed(*chunks, form=form), "x") == whole


async def test_110_chunks_of_different_kinds_make_no_value() -> None:
    with pytest.raises(NodeError, match="the stream of node 'give' failed: ConcatError") as caught:
        await streamed({"a": 1}, {"a": "s"}, form=dict[str, Any]).invoke("x")
    assert isinstance(caught.value.__cause__, ConcatError)


async def test_112_a_stream_without_chunks_is_an_error_where_its_type_has_no_empty_value() -> None:
    with pytest.raises(NodeError) as caught:
        await streamed(form=int).invoke("x")
    assert isinstance(caught.value.__cause__, EmptyStreamError)


async def test_113_labelled_sources_say_which_chunk_is_whose_and_when_a_source_has_ended() -> None:
    items: list[Any] = []

    async def take(reader: StreamReader[Any]) -> AsyncIterator[Any]:
        async for item in reader:
            items.append(item)
            yield {} if isinstance(item, SourceEnd) else item[1]

    app = both({"a": 1}, {"b": 2}, dict[str, int], take, label_sources=True)
    assert {k: v for chunk in await chunks_of(app, None) for k, v in chunk.items()} == {"a": 1, "b": 2}
    assert items.index(("one", {"a": 1})) < items.index(SourceEnd("one"))
    assert items.index(("two", {"b": 2})) < items.index(SourceEnd("two"))
    assert await both({"a": 1}, {"b": 2}, dict[str, int], label_sources=True).invoke(None) == {"a": 1, "b": 2}
