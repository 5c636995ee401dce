"""Streams: what a chunk costs on its way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from functools import cache

import anyio

from anabranch.compose import END, START, Graph, Runnable
from anabranch.schema import Message, StreamReader, concat

from .harness import Limit, Workload

PIECE = "chunk"


async def numbers(size: int) -> AsyncGenerator[str, None]:
    """Give so many chunks."""
    for _ in range(size):
        yield PIECE


async def source_alone(size: int) -> None:
    """Read a generator by hand."""
    async for _ in numbers(size):
        pass


async def upper_by_hand(size: int) -> None:
    """Convert in a generator of its own."""

    async def converted() -> AsyncGenerator[str, None]:
        async for chunk in numbers(size):
            yield chunk.upper()

    async for _ in converted():
        pass


async def convert(size: int) -> None:
    """Read through one converter."""
    async with StreamReader.from_iterable(numbers(size)).convert(str.upper) as reader:
        async for _ in reader:
            pass


async def shout(reader: StreamReader[str]) -> AsyncIterator[str]:
    """Convert as a node."""
    async for chunk in reader:
        yield chunk.upper()


async def words(text: str) -> AsyncIterator[str]:
    """Make a stream as a node."""
    for word in text.split():
        yield word


@cache
def one_node() -> Runnable[str, str]:
    """Compile a graph of one converting node."""
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("shout", shout))
    graph.add_edge("shout", END)
    return graph.compile()


@cache
def two_nodes() -> Runnable[str, str]:
    """Compile a graph of two streaming nodes."""
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("words", words))
    graph.add_edge("words", graph.add_node("shout", shout))
    graph.add_edge("shout", END)
    return graph.compile()


async def through_a_node(size: int) -> None:
    """Read what one converting node gives."""
    async with one_node().transform(numbers(size)) as reader:
        async for _ in reader:
            pass


async def first_chunk(size: int) -> None:
    """Open a stream, read one chunk, leave."""
    for _ in range(size):
        async with two_nodes().stream("ebb flow") as reader:
            await reader.receive()


async def read(reader: StreamReader[str]) -> None:
    """Read a stream to its end."""
    async for _ in reader:
        pass


async def three_copies(size: int) -> None:
    """Read three copies, each in a task of its own."""
    copies = StreamReader.from_iterable(numbers(size)).copy(3)
    async with anyio.create_task_group() as tasks:
        for copy in copies:
            tasks.start_soon(read, copy)


async def three_copies_in_turn(size: int) -> None:
    """Read three copies, one after the other."""
    for copy in StreamReader.from_iterable(numbers(size)).copy(3):
        await read(copy)


async def concatenate(size: int) -> None:
    """Join the chunks of a message."""
    concat([Message.assistant("word ") for _ in range(size)])


def _several(size: int) -> int:
    return max(1, 20000 // size)


WORKLOADS = [
    Workload(
        "a chunk through one convert",
        "chunk",
        {"ours": convert, "hand-written": upper_by_hand, "source alone": source_alone},
        (10000,),
        Limit(micros=1.5),
        _several,
    ),
    Workload(
        "a chunk through one converting node",
        "chunk",
        {"ours": through_a_node, "hand-written": upper_by_hand, "source alone": source_alone},
        (10000,),
        Limit(micros=1.5),
        _several,
    ),
    Workload(
        "a chunk through copy(3), read at once",
        "chunk",
        {"ours": three_copies, "source alone": source_alone},
        (10000,),
        Limit(micros=5.0),
        _several,
    ),
    Workload(
        "a chunk through copy(3), read in turn",
        "chunk",
        {"ours": three_copies_in_turn, "source alone": source_alone},
        (10000,),
        Limit(micros=5.0),
        _several,
    ),
    Workload("first chunk of two nodes", "run", {"ours": first_chunk}, (200,), Limit(micros=50.0), lambda _: 5),
    Workload("concat of message chunks", "chunk", {"ours": concatenate}, (10000,), Limit(micros=3.0), lambda _: 3),
]
