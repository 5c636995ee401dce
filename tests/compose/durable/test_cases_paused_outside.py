"""The numbered cases of pauses from outside, 181 to 188 of the reference of the engine.

Where another engine has a defect, the case shows what we do instead. More of such pauses are in test_paused_outside.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from anabranch.compose import END, START, Graph, Interrupted, Runnable, RunOptions
from anabranch.schema import StreamReader

pytestmark = pytest.mark.anyio

Make = Callable[..., Callable[[str], Any]]
Line = Callable[..., Runnable[str, str]]
Stops = Callable[[Any], Awaitable[list[str]]]


def controlled() -> Any:
    from anabranch.compose import RunControl

    return RunControl()


@pytest.mark.virtual_time
@pytest.mark.parametrize(("grace", "runs"), [(float("inf"), 1), (3600.0, 1), (0.0, 2), (0.05, 2)])
async def test_181_182_what_ends_in_the_time_given_counts_and_else_runs_again_on_its_input(
    grace: float, runs: int, say: Make, line: Line, stops: Stops, log: list[str]
) -> None:
    control = controlled()

    async def a(text: str) -> str:
        log.append(text)
        control.pause(grace)
        await anyio.sleep(0.2)
        return text + "a"

    app = line(("a", a), ("b", say("b")))
    await stops(app.invoke("x", RunOptions(control=control), run="r"))
    assert await app.resume("r") == "xab"
    assert log == ["x"] * runs + ["b"]


@pytest.mark.virtual_time
async def test_184_a_node_that_reads_a_stream_gets_all_of_it_again(say: Make, line: Line, log: list[str]) -> None:
    control = controlled()

    async def reads(reader: StreamReader[str]) -> str:
        text = "".join([chunk async for chunk in reader])
        log.append(text)
        control.pause()
        await anyio.sleep(1)
        return text

    app = line(("reads", reads), ("b", say("b")))
    with pytest.raises(Interrupted):
        async with app.transform(["c1", "c2", "c3"], RunOptions(control=control), run="r") as reader:
            await reader.concat()
    async with app.resume_stream("r") as reader:
        assert await reader.concat() == "c1c2c3b"
    assert log == ["c1c2c3", "c1c2c3", "b"]


@pytest.mark.virtual_time
async def test_185_a_pause_while_the_last_node_runs_in_time_gives_the_result(line: Line) -> None:
    control = controlled()

    async def a(text: str) -> str:
        control.pause(10)
        await anyio.sleep(1)
        return text + "a"

    assert await line(("a", a)).invoke("x", RunOptions(control=control), run="r") == "xa"


async def test_187_a_node_that_asks_in_a_run_that_can_be_paused_gets_its_input_again(
    ask: Make, line: Line, stops: Stops
) -> None:
    app = line(("a", ask("a")))
    await stops(app.invoke("x", RunOptions(control=controlled()), run="r"))
    assert await app.resume("r", {"a/0": "!"}, RunOptions(control=controlled())) == "x!"


@pytest.mark.virtual_time
async def test_188_a_nested_node_has_the_whole_time(say: Make, line: Line, stops: Stops, log: list[str]) -> None:
    control = controlled()

    async def slow(text: str) -> str:
        log.append("slow")
        control.pause(3600)
        await anyio.sleep(0.4)
        return text + "s"

    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("slow", slow))
    inner.add_edge("slow", END)
    app = line(("sub", inner), ("b", say("b")))
    await stops(app.invoke("x", RunOptions(control=control), run="r"))
    assert await app.resume("r") == "xsb"
    assert log == ["slow", "b"]
