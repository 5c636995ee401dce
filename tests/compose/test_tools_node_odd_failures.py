"""``ToolsNode``: failures that come in groups, without a text, or as the cancellation of something else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from anabranch.compose import (
    END,
    START,
    Graph,
    InterruptError,
    NodeError,
    RunOptions,
    ToolsNode,
    interrupt,
    tell_errors,
)
from anabranch.schema import Message, Tool, ToolCall, concat, stream_scope, tool

pytestmark = pytest.mark.anyio

CALL = Message.assistant(tool_calls=[ToolCall(id="c1", name="fail")])
TWO = Message.assistant(tool_calls=[ToolCall(id="c1", name="fail"), ToolCall(id="c2", name="echo")])


@tool
async def echo(text: str = "well") -> str:
    """Say it again."""
    return text


async def both_ways(node: ToolsNode, message: Message = CALL) -> list[Message]:
    answers = await node.invoke(message)
    async with stream_scope():
        assert concat([chunk async for chunk in node.stream(message)]) == answers
    return answers


async def test_the_model_is_told_each_failure_of_a_group() -> None:
    @tool
    async def fail() -> str:
        """Fail in tasks."""

        async def one() -> None:
            raise ValueError("no disk")

        async def other() -> None:
            async with anyio.create_task_group() as inner:
                inner.start_soon(one)

        async with anyio.create_task_group() as group:
            group.start_soon(other)
        return ""

    for node in (ToolsNode([fail]), ToolsNode([fail], middlewares=[tell_errors()])):
        (answer,) = await both_ways(node)
        assert answer.is_error
        assert answer.text == "The tool 'fail' failed: ValueError: no disk"


class Mute(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise RuntimeError("never")


@pytest.mark.parametrize("wrapped", [False, True])
async def test_an_error_whose_text_fails_is_told_all_the_same(wrapped: bool) -> None:
    @tool
    async def fail() -> str:
        """Fail."""
        raise ExceptionGroup("two", [Mute(), KeyError("b")]) if wrapped else Mute()

    for node in (ToolsNode([fail, echo]), ToolsNode([fail, echo], middlewares=[tell_errors()])):
        failed, well = await both_ways(node, TWO)
        assert failed.text.startswith("The tool 'fail' failed: Mute: (it has no text)")
        assert well.text == "well"


async def test_a_lone_surrogate_in_an_error_can_be_sent() -> None:
    @tool
    async def fail() -> str:
        """Fail."""
        raise ValueError("\udcff.txt")

    (answer,) = await both_ways(ToolsNode([fail]))
    assert answer.text == "The tool 'fail' failed: ValueError: \ufffd.txt"


def awaiting_a_cancelled_future(in_pieces: bool) -> Tool:
    async def wait() -> None:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    if in_pieces:

        @tool(name="fail")
        async def stream() -> AsyncIterator[str]:
            """Fail half way."""
            yield "half"
            await wait()

        return stream

    @tool
    async def fail() -> str:
        """Fail."""
        await wait()
        return ""

    return fail


def graph_of(node: ToolsNode) -> Any:
    graph = Graph[Message, list[Message]]()
    graph.add_edge(START, graph.add_node("tools", node))
    graph.add_edge("tools", END)
    return graph.compile()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("message", [CALL, TWO])
async def test_a_cancellation_of_something_else_is_a_failed_tool(in_pieces: bool, message: Message) -> None:
    node = ToolsNode([awaiting_a_cancelled_future(in_pieces), echo])
    text = "The tool 'fail' failed: StrayCancellation: something that it waited for was cancelled"
    answers = await both_ways(node, message)
    assert answers[0].text == (f"half\n{text}" if in_pieces else text)
    assert answers[0].is_error
    assert [answer.text for answer in answers[1:]] == ["well"][: len(answers) - 1]
    app = graph_of(node)
    assert await app.invoke(message) == answers
    async with app.stream(message) as reader:
        assert await reader.concat() == answers


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("way", ["task", "scope"])
async def test_the_cancellation_of_the_run_goes_through(in_pieces: bool, way: str) -> None:
    begun = anyio.Event()

    if in_pieces:

        @tool(name="fail")
        async def stream() -> AsyncIterator[str]:
            """Wait."""
            yield "half"
            begun.set()
            await anyio.sleep_forever()

        made: Tool = stream
    else:

        @tool
        async def fail() -> str:
            """Wait."""
            begun.set()
            await anyio.sleep_forever()
            return ""

        made = fail
    app = graph_of(ToolsNode([made, echo]))

    async def run(message: Message) -> None:
        if in_pieces:
            async with app.stream(message) as reader:
                await reader.concat()
        else:
            await app.invoke(message)

    for message in (CALL, TWO):
        begun = anyio.Event()
        if way == "task":
            task = asyncio.ensure_future(run(message))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(run, message)
                await begun.wait()
                group.cancel_scope.cancel()


@pytest.mark.parametrize("in_group", [False, True])
async def test_an_on_interrupt_that_raises_is_an_error_of_the_program(in_group: bool) -> None:
    async def ask() -> None:
        await interrupt("sure?", answer=bool)

    @tool
    async def fail() -> str:
        """Ask."""
        if in_group:
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
        else:
            await ask()
        return ""

    def handler(question: Any) -> bool:
        raise OSError("no terminal")

    async def waiting(question: Any) -> bool:
        return handler(question)

    for node in (ToolsNode([fail]), ToolsNode([fail], middlewares=[tell_errors()])):
        for answering in (handler, waiting):
            with pytest.raises(NodeError) as caught:
                await graph_of(node).invoke(CALL, RunOptions(on_interrupt=answering))
            error: Any = caught.value
            while not isinstance(error, InterruptError):
                assert error is not None
                error = error.exceptions[0] if hasattr(error, "exceptions") else error.__cause__
            assert isinstance(error.__cause__, OSError)
            assert "on_interrupt failed at the question 'tools/call 0/0': OSError: no terminal" in str(error)
