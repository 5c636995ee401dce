"""The numbered cases of callbacks (133–139), errors (140–143), and of the paradigms of a node (206–211)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from anabranch.compose import (
    END,
    START,
    Graph,
    GraphRunError,
    Lambda,
    NodeError,
    Runnable,
    RunOptions,
    RunOptionsError,
    ValueTypeError,
)
from anabranch.schema import StreamReader

pytestmark = pytest.mark.anyio


def same(text: str) -> str:
    return text


def line(node: Any, key: str = "a", *, state: Any = None, **options: Any) -> Graph[Any, Any]:
    graph = Graph[Any, Any](input=Any, output=Any, state=state)
    graph.add_node(key, node, **options)
    graph.add_edge(START, key)
    graph.add_edge(key, END)
    return graph


class Log:
    """Writes down what it is told, with its own name in front."""

    def __init__(self, lines: list[str], name: str = "") -> None:
        self.lines = lines
        self.name = name

    def on_start(self, info: Any, input: Any) -> None:
        self.lines.append(f"{self.name}start {info.path}".strip())

    def on_end(self, info: Any, output: Any) -> None:
        self.lines.append(f"{self.name}end {info.path}".strip())

    def on_error(self, info: Any, error: Any) -> None:
        self.lines.append(f"{self.name}error {info.path} {error}".strip())


# -- callbacks -----------------------------------------------------------------------------------------------------


async def test_133_handlers_are_called_in_the_order_in_which_they_are_given_at_starts_and_at_ends() -> None:
    lines: list[str] = []
    options = RunOptions(
        callbacks=[Log(lines, "A "), Log(lines, "B ")], at={"a": RunOptions(callbacks=[Log(lines, "N ")])}
    )
    await line(same).compile().invoke("x", options)
    assert lines == [
        "A start",
        "B start",
        "A start a",
        "B start a",
        "N start a",
        "A end a",
        "B end a",
        "N end a",
        "A end",
        "B end",
    ]


async def test_134_an_error_in_a_stream_is_the_error_of_the_node_that_made_the_stream() -> None:
    async def break_off(text: str) -> AsyncIterator[str]:
        yield text
        raise ValueError("in the middle")

    lines: list[str] = []
    app = line(break_off).compile()
    with pytest.raises(NodeError, match="node 'a' failed: ValueError: in the middle"):
        await app.invoke("x", RunOptions(callbacks=[Log(lines)]))
    told = ["start", "start a", "error a in the middle", "error  node 'a' failed: ValueError: in the middle"]
    assert lines == told
    lines.clear()
    with pytest.raises(NodeError, match="node 'a' failed: ValueError: in the middle"):
        async with app.stream("x", RunOptions(callbacks=[Log(lines)])) as reader:
            await reader.concat()
    assert lines == told


async def test_136_options_that_do_not_fit_are_refused_before_anybody_is_told_anything() -> None:
    lines: list[str] = []
    with pytest.raises(RunOptionsError, match="there is no node 'b'"):
        await line(same).compile().invoke("x", RunOptions(callbacks=[Log(lines)], at={"b": 1}))
    assert lines == []


@pytest.mark.parametrize("method", ["on_stream_input", "on_stream_output"])
async def test_139_handlers_that_close_their_copy_unread_take_nothing_from_anybody(method: str) -> None:
    closed: list[str] = []

    class Closes:
        pass

    async def close(self: Closes, info: Any, reader: StreamReader[str]) -> None:
        await reader.aclose()
        closed.append(info.path)

    setattr(Closes, method, close)

    async def chunks(reader: StreamReader[str]) -> AsyncIterator[str]:
        async for chunk in reader:
            yield chunk

    app = line(chunks).compile()
    async with app.transform(["x", "y", "z"], RunOptions(callbacks=[Closes(), Closes()])) as reader:
        assert [chunk async for chunk in reader] == ["x", "y", "z"]
    assert sorted(closed) == ["", "", "a", "a"]


# -- errors --------------------------------------------------------------------------------------------------------


def fail(_: str) -> str:
    raise KeyError("base")


async def test_140_an_error_names_the_path_of_its_node_and_carries_what_was_raised() -> None:
    app = line(line(fail, "1")).compile()
    with pytest.raises(NodeError) as caught:
        await app.invoke("x")
    assert (caught.value.path, caught.value.where) == ("a/1", "node")
    assert str(caught.value) == "node 'a/1' failed: KeyError: 'base'"
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.__cause__.__traceback__ is not None


async def test_142_what_a_node_says_about_the_error_of_a_graph_that_it_called_is_kept() -> None:
    standalone = line(fail, "i").compile()

    async def wrap(text: str) -> str:
        try:
            return str(await standalone.invoke(text))
        except GraphRunError as error:
            raise RuntimeError("MYCTX") from error

    with pytest.raises(NodeError, match="node 'a' failed: RuntimeError: MYCTX") as caught:
        await line(wrap).compile().invoke("x")
    inner = caught.value.__cause__
    assert inner is not None
    assert isinstance(inner.__cause__, NodeError)
    assert inner.__cause__.path == "i"


async def test_142_an_error_that_a_node_lets_through_names_the_whole_path() -> None:
    standalone = line(fail, "i").compile()

    async def call(text: str) -> str:
        return str(await standalone.invoke(text))

    with pytest.raises(NodeError, match="node 'a/i' failed: KeyError: 'base'") as caught:
        await line(call).compile().invoke("x")
    assert isinstance(caught.value.__cause__, KeyError)


def refuse(text: str, state: list[str]) -> str:
    raise KeyError("base")


@pytest.mark.parametrize(
    ("node", "options", "where"),
    [(fail, {}, "node"), (same, {"pre": refuse}, "pre-handler"), (same, {"post": refuse}, "post-handler")],
)
@pytest.mark.parametrize("streaming", [False, True])
async def test_143_whatever_raises_is_located(node: Any, options: Any, where: str, streaming: bool) -> None:
    app = line(node, state=list, **options).compile()
    with pytest.raises(NodeError) as caught:
        await (app.collect(["x"]) if streaming else app.invoke("x"))
    assert (caught.value.path, caught.value.where) == ("a", where)
    assert isinstance(caught.value.__cause__, KeyError)


# -- paradigms -----------------------------------------------------------------------------------------------------


async def stream_of(app: Runnable[Any, Any], *chunks: str) -> list[Any]:
    async with app.transform(chunks) as reader:
        return [chunk async for chunk in reader]


def bang(text: str) -> str:
    return text + "!"


async def plus(text: str) -> AsyncIterator[str]:
    yield text
    yield "+"


async def how_many(reader: StreamReader[str]) -> str:
    return str(len([chunk async for chunk in reader]))


async def tilde(reader: StreamReader[str]) -> AsyncIterator[str]:
    async for chunk in reader:
        yield chunk + "~"


@pytest.mark.parametrize(
    ("node", "invoked", "streamed", "collected", "transformed"),
    [
        (bang, "x!", ["x!"], "xy!", ["xy!"]),
        (plus, "x+", ["x", "+"], "xy+", ["xy", "+"]),
        (how_many, "1", ["1"], "2", ["2"]),
        (tilde, "x~", ["x~"], "x~y~", ["x~", "y~"]),
        (Lambda(invoke=bang, transform=tilde), "x!", ["x~"], "x~y~", ["x~", "y~"]),
    ],
)
async def test_206_what_a_node_lacks_is_made_of_what_it_has(
    node: Any, invoked: str, streamed: list[str], collected: str, transformed: list[str]
) -> None:
    app = line(node).compile()
    assert await app.invoke("x") == invoked
    async with app.stream("x") as reader:
        assert [chunk async for chunk in reader] == streamed
    assert await app.collect(["x", "y"]) == collected
    assert await stream_of(app, "x", "y") == transformed


async def test_208_the_first_chunk_is_there_before_the_second_one_is_made() -> None:
    go_on = anyio.Event()

    async def slowly(text: str) -> AsyncIterator[str]:
        yield text + "1"
        await go_on.wait()
        yield text + "2"

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("slowly", slowly))
    graph.add_edge("slowly", graph.add_node("tilde", tilde))
    graph.add_edge("tilde", END)
    async with graph.compile().stream("x") as reader:
        assert await reader.receive() == "x1~"
        go_on.set()
        assert await reader.receive() == "x2~"


async def test_209_a_chunk_of_the_wrong_type_is_refused_at_the_edge_like_a_value() -> None:
    graph = Graph[Any, str]()
    graph.add_edge(START, graph.add_node("a", same))
    graph.add_edge("a", END)
    app = graph.compile()
    for paradigm in (app.invoke(1), app.collect(["x", 1])):
        with pytest.raises(ValueTypeError, match="edge 'start' -> 'a': wanted str, got int"):
            await paradigm


def record(first: Any, second: Any) -> Graph[Any, Any]:
    graph = Graph[dict[str, Any], dict[str, Any]]()
    for key, node in (("first", first), ("second", second)):
        graph.add_node(key, node, output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    return graph


def change(got: dict[str, Any]) -> int:
    got["x"].append(2)
    got["new"] = True
    return len(got)


def look(got: dict[str, Any]) -> dict[str, Any]:
    return got


@pytest.mark.parametrize("streaming", [False, True])
async def test_211_what_a_node_does_to_its_input_is_seen_by_nobody_else(streaming: bool) -> None:
    app = record(change, look).compile()
    given = {"x": [1]}
    output = await (app.collect([given]) if streaming else app.invoke(given))
    assert output == {"first": 2, "second": {"x": [1]}}
    assert given == {"x": [1]}
