"""Graphs of which the nodes note that they ran, and ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any, Literal

import pytest

from anabranch.compose import Graph, Interrupted, MemoryStore, Runnable, interrupt


@pytest.fixture
def log() -> list[str]:
    """Give the list in which the nodes of a test note that they ran."""
    return []


@pytest.fixture
def say(log: list[str]) -> Callable[[str], Callable[[str], Any]]:
    """Give what makes nodes that add their name."""

    def make(name: str) -> Callable[[str], Any]:
        async def node(text: str) -> str:
            log.append(name)
            return text + name

        return node

    return make


@pytest.fixture
def ask(log: list[str]) -> Callable[..., Callable[[str], Any]]:
    """Give what makes nodes that add the answer to a question."""

    def make(name: str, answer: Any = str) -> Callable[[str], Any]:
        async def node(text: str) -> str:
            log.append(name)
            return f"{text}{await interrupt(name, answer=answer)}"

        return node

    return make


@pytest.fixture
def line() -> Callable[..., Runnable[str, str]]:
    """Give what compiles a graph of which each node follows the one before it."""

    def make(*nodes: tuple[str, Any], store: Any = None, **options: Any) -> Runnable[str, str]:
        graph = Graph[str, str]()
        for name, node in nodes:
            graph.add_node(name, node, input=str, output=str)
        names: list[str] = ["start", *(name for name, _ in nodes), "end"]
        for one, other in pairwise(names):
            graph.add_edge(one, other)
        return graph.compile(store=store or MemoryStore(), **options)

    return make


@pytest.fixture
def fan() -> Callable[..., Runnable[str, dict[str, str]]]:
    """Give what compiles a graph of which all nodes are beside each other."""

    def make(
        nodes: dict[str, Any], trigger: Literal["any", "all"] = "any", **options: Any
    ) -> Runnable[str, dict[str, str]]:
        graph = Graph[str, dict[str, str]]()
        for name, node in nodes.items():
            graph.add_node(name, node, output_key=name)
            graph.add_edge("start", name)
            graph.add_edge(name, "end")
        return graph.compile(store=MemoryStore(), trigger=trigger, **options)

    return make


@pytest.fixture
def stops() -> Callable[[Any], Awaitable[list[str]]]:
    """Give what awaits a run that is to pause, and gives the ids of what it asks."""

    async def wait(work: Any) -> list[str]:
        with pytest.raises(Interrupted) as paused:
            await work
        return [one.id for one in paused.value.interrupts]

    return wait
