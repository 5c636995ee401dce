# pyright: reportUnnecessaryTypeIgnoreComment=true
"""Law E3, checked by mypy and pyright: handles carry types, and an edge whose types do not fit is refused.

Each line that must be refused silences exactly the error that is expected there; both checkers are told to complain of
a silenced error that does not occur. Above such a line stands what mypy (M) and pyright (P) say; a test compares.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, assert_type

from anabranch.compose import END, START, Chain, Graph, Lambda, Node, Runnable
from anabranch.schema import ChatModel, Message, StreamReader


def count(text: str) -> int:
    return len(text)


async def count_later(text: str) -> int:
    return len(text)


async def words(text: str) -> AsyncIterator[str]:
    for word in text.split():
        yield word


async def shout(reader: StreamReader[str]) -> AsyncIterator[str]:
    async for chunk in reader:
        yield chunk.upper()


async def total(reader: StreamReader[str]) -> int:
    return sum([len(chunk) async for chunk in reader])


def report(found: dict[str, object]) -> str:
    return str(found)


def today() -> str:
    return "Monday"


def shapes(model: ChatModel) -> None:
    graph = Graph[str, str]()
    assert_type(graph.add_node("count", count), Node[str, int])
    assert_type(graph.add_node("later", count_later), Node[str, int])
    assert_type(graph.add_node("words", words), Node[str, str])
    assert_type(graph.add_node("shout", shout), Node[str, str])
    assert_type(graph.add_node("total", total), Node[str, int])
    assert_type(graph.add_node("today", today), Node[Any, str])
    assert_type(graph.add_node("model", model), Node[Sequence[Message], Message])
    assert_type(graph.add_node("lambda", Lambda(invoke=count)), Node[str, int])
    assert_type(graph.add_node("keyed", count, output_key="size"), Node[str, dict[str, Any]])
    assert_type(graph.add_node("nested", Graph[int, bytes]()), Node[int, bytes])
    assert_type(graph.compile(), Runnable[str, str])


async def runs(app: Runnable[str, int]) -> None:
    assert_type(await app.invoke("x"), int)
    async with app.stream("x") as reader:
        assert_type(reader, StreamReader[int])
    assert_type(await app.collect(["x"]), int)
    assert_type(app.invoke_sync("x"), int)
    # M: Argument 1 to "invoke" of "Runnable" has incompatible type "int"; expected "str"
    # P: "Literal[1]" is not assignable to "str"
    await app.invoke(1)  # type: ignore[arg-type]


def edges() -> None:
    graph = Graph[str, str]()
    counted = graph.add_node("count", count)
    shouted = graph.add_node("shout", shout)
    reported = graph.add_node("report", report)
    keyed = graph.add_node("keyed", count, output_key="size")
    graph.add_edge(START, counted)
    graph.add_edge(START, shouted)
    graph.add_edge(shouted, END)
    graph.add_edge(keyed, reported)
    graph.add_edge("count", reported)
    # M: Cannot infer value of type parameter "T" of "add_edge" of "Graph"
    # P: "Node[str, str]" is not assignable to "Node[int, Any]"
    graph.add_edge(counted, shouted)  # type: ignore[misc]
    # M: Argument 1 to "add_edge" of "Graph" has incompatible type "Node[str, int]"; expected "Node[Any, str]"
    # P: "End" is not assignable to "Node[int, Any]"
    graph.add_edge(counted, END)  # type: ignore[arg-type]
    # M: incompatible type "Node[dict[str, object], str]"; expected "Node[str, Any]"
    # P: "Node[dict[str, object], str]" is not assignable to "Node[str, Any]"
    graph.add_edge(START, reported)  # type: ignore[arg-type]


def chains() -> None:
    chain = Chain[str, str]() | shout | count_later
    assert_type(chain, Chain[str, int])
    # M: Unsupported operand types for | ("Chain[str, int]" and "Callable[[dict[str, object]], str]")
    # P: Operator "|" not supported for types "Chain[str, int]" and "(found: dict[str, object]) -> str"
    chain | report  # type: ignore[operator]
