"""The entry points without await: in a script, and inside of a running loop (a notebook has one)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from anabranch.compose import END, START, Graph, NodeError, Runnable

who: ContextVar[str] = ContextVar("who", default="nobody")


def line(node: Any) -> Runnable[str, str]:
    graph = Graph[str, str]()
    graph.add_node("a", node)
    graph.add_edge(START, "a")
    graph.add_edge("a", END)
    return graph.compile()


async def greet(text: str) -> str:
    await checkpoint()
    return f"{text} {who.get()}"


async def letters(text: str) -> AsyncIterator[str]:
    for letter in text:
        await checkpoint()
        yield letter


async def fail(text: str) -> str:
    await checkpoint()
    raise KeyError(text)


def invoke() -> None:
    who.set("me")
    assert line(greet).invoke_sync("hello") == "hello me"


def stream() -> None:
    with line(letters).stream_sync("abc") as chunks:
        assert list(chunks) == ["a", "b", "c"]


def leave_early() -> None:
    with line(letters).stream_sync("abc") as chunks:
        assert next(chunks) == "a"


def raises() -> None:
    with pytest.raises(NodeError, match="node 'a' failed: KeyError: 'x'"):
        line(fail).invoke_sync("x")


USES: list[Callable[[], None]] = [invoke, stream, leave_early, raises]


@pytest.mark.parametrize("use", USES)
def test_in_a_script(use: Callable[[], None]) -> None:
    use()


@pytest.mark.anyio
@pytest.mark.parametrize("use", USES)
async def test_inside_of_a_running_loop(use: Callable[[], None]) -> None:
    use()


@pytest.mark.anyio
@pytest.mark.parametrize("use", USES)
async def test_in_a_worker_thread_of_a_running_loop(use: Callable[[], None]) -> None:
    await anyio.to_thread.run_sync(use)


@pytest.mark.anyio
async def test_in_a_node_of_another_graph() -> None:
    def call(text: str) -> str:
        return line(greet).invoke_sync(text).upper()

    who.set("me")
    assert await line(call).invoke("hello") == "HELLO ME"
