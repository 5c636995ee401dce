"""Retries and time limits: how often a node is tried, how long it may take, with values and with streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import anyio
import pytest

from anabranch.compose import (
    END,
    START,
    Event,
    Graph,
    NodeError,
    NodeFailed,
    NodeStarted,
    NodeTimeoutError,
    Retry,
    Runnable,
)
from anabranch.schema import StreamReader

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def line(node: Any, *, state: Any = None, **options: Any) -> Runnable[Any, Any]:
    graph = Graph[str, str](state=state)
    graph.add_node("a", node, **options)
    graph.add_edge(START, "a")
    graph.add_edge("a", END)
    return graph.compile()


async def streamed(app: Runnable[Any, Any], text: str = "x") -> str:
    async with app.stream(text) as reader:
        return str(await reader.concat())


class Flaky:
    """Fails so many times before it does what it should."""

    def __init__(self, failures: int, error: type[Exception] = ConnectionError) -> None:
        self.left = failures
        self.error = error
        self.given: list[str] = []

    async def __call__(self, text: str) -> str:
        self.given.append(text)
        if self.left:
            self.left -= 1
            raise self.error(f"{self.left} left")
        return text.upper()


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_node_is_tried_again_as_often_as_its_policy_says(streaming: bool) -> None:
    node = Flaky(2)
    app = line(node, retries=2)
    assert await (streamed(app) if streaming else app.invoke("x")) == "X"
    assert node.given == ["x", "x", "x"]


async def test_the_last_error_comes_out_when_all_attempts_have_failed() -> None:
    node = Flaky(5)
    with pytest.raises(NodeError, match="node 'a' failed: ConnectionError: 3 left"):
        await line(node, retries=1).invoke("x")
    assert len(node.given) == 2


async def test_an_error_that_the_policy_does_not_name_fails_at_once() -> None:
    node = Flaky(1, ValueError)
    with pytest.raises(NodeError, match="ValueError"):
        await line(node, retries=Retry(attempts=5, on=(ConnectionError, TimeoutError))).invoke("x")
    assert len(node.given) == 1


async def test_between_attempts_the_node_waits_longer_and_longer_up_to_a_limit() -> None:
    times: list[float] = []

    async def fail(_: str) -> str:
        times.append(anyio.current_time())
        raise ConnectionError

    policy = Retry(attempts=5, delay=1.0, factor=3.0, max_delay=5.0)
    with pytest.raises(NodeError):
        await line(fail, retries=policy).invoke("x")
    assert [round(later - earlier, 3) for earlier, later in pairwise(times)] == [1, 3, 5, 5]


async def test_each_attempt_is_told_apart_in_the_events() -> None:
    seen: list[tuple[type[Event], int]] = []
    async with line(Flaky(1), retries=1).events("x") as events:
        async for event in events:
            if isinstance(event, NodeStarted | NodeFailed):
                seen.append((type(event), event.attempt))
    assert seen == [(NodeStarted, 1), (NodeFailed, 1), (NodeStarted, 2)]


async def test_handlers_run_once_however_often_the_node_is_tried() -> None:
    def pre(text: str, lines: list[str]) -> str:
        lines.append("pre")
        return text + str(len(lines))

    node = Flaky(2)
    assert await line(node, retries=2, state=list, pre=pre).invoke("x") == "X1"
    assert node.given == ["x1", "x1", "x1"]


async def test_each_attempt_gets_the_whole_stream() -> None:
    attempts: list[list[str]] = []

    async def count(reader: StreamReader[str]) -> str:
        attempts.append([chunk async for chunk in reader])
        if len(attempts) == 1:
            raise ConnectionError
        return "".join(attempts[-1])

    assert await line(count, retries=1).collect(["x", "y"]) == "xy"
    assert ["".join(chunks) for chunks in attempts] == ["xy", "xy"]


async def test_a_stream_that_fails_before_its_first_chunk_is_tried_again() -> None:
    attempts: list[str] = []

    async def chunks(text: str) -> AsyncIterator[str]:
        attempts.append(text)
        if len(attempts) == 1:
            raise ConnectionError
        yield text
        yield "!"

    app = line(chunks, retries=1)
    assert await streamed(app) == "x!"
    assert len(attempts) == 2


async def test_chunks_that_are_out_stay_out_so_the_error_after_them_does_too() -> None:
    attempts: list[str] = []

    async def chunks(text: str) -> AsyncIterator[str]:
        attempts.append(text)
        yield text
        raise ConnectionError("later")

    async with line(chunks, retries=3).stream("x") as reader:
        assert await reader.receive() == "x"
        with pytest.raises(NodeError, match="node 'a' failed: ConnectionError: later"):
            await reader.receive()
    assert len(attempts) == 1


async def slow(text: str) -> str:
    await anyio.sleep(60)
    return text


async def slow_between(text: str) -> AsyncIterator[str]:
    yield text
    await anyio.sleep(60)
    yield text


@pytest.mark.parametrize("node", [slow, slow_between])
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_node_may_take_so_long_and_no_longer(node: Any, streaming: bool) -> None:
    app = line(node, timeout=30)
    begin = anyio.current_time()
    with pytest.raises(NodeTimeoutError, match="node 'a' took longer than its timeout of 30 s"):
        await (streamed(app) if streaming else app.invoke("x"))
    assert anyio.current_time() - begin == pytest.approx(30)
    patient = line(node, timeout=90)
    assert await (streamed(patient) if streaming else patient.invoke("x")) in ("x", "xx")


async def test_the_time_that_a_reader_takes_is_not_the_node_s() -> None:
    async def chunks(text: str) -> AsyncIterator[str]:
        for _ in range(3):
            await anyio.sleep(5)
            yield text

    async with line(chunks, timeout=20).stream("x") as reader:
        got: list[str] = []
        async for chunk in reader:
            await anyio.sleep(100)
            got.append(chunk)
    assert got == ["x", "x", "x"]


async def test_a_time_out_is_an_error_that_may_be_tried_again() -> None:
    waits = iter([60.0, 1.0])

    async def sometimes_slow(text: str) -> str:
        await anyio.sleep(next(waits))
        return text

    assert await line(sometimes_slow, timeout=30, retries=Retry(attempts=2, on=(TimeoutError,))).invoke("x") == "x"
