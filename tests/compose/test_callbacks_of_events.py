"""What handlers see beyond starts, ends and errors: every event, and what stops before its end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from anabranch.compose import (
    END,
    START,
    Event,
    Graph,
    Interrupted,
    MemoryStore,
    NodeError,
    RunInfo,
    RunOptions,
    interrupt,
)

pytestmark = pytest.mark.anyio


class Watcher:
    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.stops: list[tuple[str, str]] = []
        self.targets: dict[str, Any] = {}

    def on_event(self, info: RunInfo, event: Event) -> None:
        self.events.append((type(event).__name__, info.path, info.component))
        self.targets[info.path] = info.target

    def on_stop(self, info: RunInfo, reason: str) -> None:
        self.stops.append((info.path, reason))


def graph_of(node: Any, **options: Any) -> Graph[str, str]:
    graph = Graph[str, str]()
    graph.add_node("work", node, **options)
    graph.add_edge(START, "work")
    graph.add_edge("work", END)
    return graph


async def shout(text: str) -> str:
    return text.upper()


async def words(text: str) -> AsyncIterator[str]:
    for word in text.split():
        yield word


async def test_a_handler_sees_the_events_and_whose_they_are() -> None:
    watcher = Watcher()
    await graph_of(shout).compile().invoke("x", RunOptions(callbacks=[watcher]))
    assert watcher.events == [
        ("RunStarted", "", "graph"),
        ("NodeStarted", "work", "function"),
        ("NodeEnded", "work", "function"),
        ("RunEnded", "", "graph"),
    ]
    assert watcher.targets["work"] is shout


async def test_it_sees_what_the_event_stream_gives_in_the_same_order() -> None:
    watcher = Watcher()
    async with graph_of(words).compile().events("a b", RunOptions(callbacks=[watcher])) as events:
        seen = [type(event).__name__ async for event in events]
    assert [kind for kind, _, _ in watcher.events] == seen


async def test_a_handler_of_one_node_sees_its_events_only() -> None:
    watcher = Watcher()
    await graph_of(shout).compile().invoke("x", RunOptions(at={"work": RunOptions(callbacks=[watcher])}))
    assert [kind for kind, _, _ in watcher.events] == ["NodeStarted", "NodeEnded"]


async def test_what_it_raises_fails_the_run_with_its_name() -> None:
    class Bad:
        def on_event(self, info: RunInfo, event: Event) -> None:
            raise ValueError("no")

    with pytest.raises(NodeError, match=r"callback Bad\.on_event.*no"):
        await graph_of(shout).compile().invoke("x", RunOptions(callbacks=[Bad()]))


async def test_an_async_one_is_refused() -> None:
    class Late:
        async def on_event(self, info: RunInfo, event: Event) -> None:
            raise AssertionError

    with pytest.raises(NodeError, match="make it a plain def"):
        await graph_of(shout).compile().invoke("x", RunOptions(callbacks=[Late()]))


async def test_a_pause_stops_the_node_and_the_graph() -> None:
    async def ask(text: str) -> str:
        return await interrupt(text, answer=str)

    watcher = Watcher()
    app = graph_of(ask).compile(store=MemoryStore())
    with pytest.raises(Interrupted):
        await app.invoke("x", RunOptions(callbacks=[watcher]), run="r1")
    assert watcher.stops == [("work", "paused"), ("", "paused")]


async def test_cancelling_stops_the_node_and_the_graph() -> None:
    watcher = Watcher()

    async def forever(text: str) -> str:
        scope.cancel()
        await anyio.sleep_forever()
        return text

    with anyio.CancelScope() as scope:
        await graph_of(forever).compile().invoke("x", RunOptions(callbacks=[watcher]))
    assert watcher.stops == [("work", "cancelled"), ("", "cancelled")]


async def test_a_sibling_of_what_failed_is_stopped() -> None:
    watcher = Watcher()
    begun = anyio.Event()

    async def forever(text: str) -> str:
        begun.set()
        await anyio.sleep_forever()
        return text

    async def fail(text: str) -> str:
        await begun.wait()
        raise ValueError(text)

    graph = Graph[str, str]()
    for key, node in (("a", forever), ("b", fail)):
        graph.add_edge(START, graph.add_node(key, node, output_key=key))
        graph.add_edge(key, "join")
    graph.add_node("join", str, input=dict[str, Any], output=str, trigger="all")
    graph.add_edge("join", END)
    with pytest.raises(NodeError):
        await graph.compile().invoke("x", RunOptions(callbacks=[watcher]))
    assert watcher.stops == [("a", "cancelled")]


async def test_a_stream_that_is_not_read_to_its_end_stops_the_graph() -> None:
    watcher = Watcher()
    async with graph_of(words).compile().stream("a b", RunOptions(callbacks=[watcher])) as reader:
        await anext(reader)
    assert watcher.stops == [("", "closed")]
