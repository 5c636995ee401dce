"""The chunks that a run is given are tested against the graph's input type, as a value is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from anabranch.compose import END, START, Graph, Runnable, ValueTypeError

pytestmark = pytest.mark.anyio


def app_of(form: Any) -> Runnable[Any, Any]:
    graph = Graph[form, Any]()
    graph.add_passthrough("through")
    graph.add_edge(START, "through")
    graph.add_edge("through", END)
    return graph.compile()


async def coming(chunks: list[Any]) -> AsyncGenerator[Any, None]:
    for chunk in chunks:
        yield chunk


WRONG = [(str, ["a", 1]), (list[int], [[1], ["a"]]), (dict[str, int], [{"a": 1}, {"b": "c"}]), (int, ["a"])]
RIGHT = [(str, ["a", "b"]), (list[int], [[1], [2]]), (dict[str, int], [{"a": 1}, {"b": 2}]), (Any, [1, "a"])]
SOURCES: list[Callable[[list[Any]], Any]] = [list, tuple, coming, lambda chunks: (chunk for chunk in chunks)]


@pytest.mark.parametrize("source", SOURCES, ids=["list", "tuple", "async generator", "generator"])
@pytest.mark.parametrize(("form", "chunks"), WRONG, ids=str)
async def test_a_chunk_of_another_type_is_an_error(form: Any, chunks: list[Any], source: Callable[..., Any]) -> None:
    with pytest.raises(ValueTypeError, match="graph's input"):
        await app_of(form).collect(source(chunks))
    with pytest.raises(ValueTypeError, match="graph's input"):
        async with app_of(form).transform(source(chunks)) as reader:
            [chunk async for chunk in reader]


@pytest.mark.parametrize("source", SOURCES, ids=["list", "tuple", "async generator", "generator"])
@pytest.mark.parametrize(("form", "chunks"), RIGHT, ids=str)
async def test_chunks_of_the_type_pass(form: Any, chunks: list[Any], source: Callable[..., Any]) -> None:
    async with app_of(form).transform(source(chunks)) as reader:
        assert [chunk async for chunk in reader] == chunks
