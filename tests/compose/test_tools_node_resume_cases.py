"""The numbered cases of ToolsNode that pause: 200 and 202; and case 112 of tools whose errors are told."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from anabranch.compose import (
    END,
    START,
    Graph,
    Interrupted,
    MemoryStore,
    Runnable,
    ToolFailedError,
    ToolsNode,
    interrupt,
    tell_errors,
)
from anabranch.schema import Message, TextPart, ToolCall, ToolResult, tool

pytestmark = pytest.mark.anyio

begun: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    begun.clear()


@tool
async def fine(n: int) -> str:
    """Work without asking."""
    begun.append(f"fine {n}")
    return f"fine {n}"


@tool
async def fine_stream(n: int) -> AsyncIterator[str]:
    """Work without asking, piece by piece."""
    begun.append(f"fine {n}")
    yield "fine"
    yield f" {n}"


@tool
async def asks(n: int) -> str:
    """Ask a person."""
    begun.append(f"asks {n}")
    return f"{n}: {await interrupt(n, answer=str)}"


@tool
async def asks_stream(n: int) -> AsyncIterator[str]:
    """Ask a person between two pieces."""
    begun.append(f"asks {n}")
    yield f"{n}: "
    yield await interrupt(n, answer=str)


@tool
async def fails(n: int) -> str:
    """Fail."""
    begun.append(f"fails {n}")
    raise ValueError("no")


@tool
async def shows(n: int) -> ToolResult:
    """Give parts."""
    return ToolResult([TextPart("a"), TextPart(str(n))])


def calls(*names: str) -> Message:
    made = [ToolCall(id=str(n), name=name, arguments=f'{{"n": {n}}}') for n, name in enumerate(names, 1)]
    return Message.assistant(tool_calls=made)


def kept(node: ToolsNode) -> Runnable[Message, list[Message]]:
    graph = Graph[Message, list[Message]]()
    graph.add_edge(START, graph.add_node("tools", node))
    graph.add_edge("tools", END)
    return graph.compile(store=MemoryStore())


async def start(app: Runnable[Message, list[Message]], given: Message, *, streams: bool) -> list[Message]:
    if not streams:
        return await app.invoke(given, run="r")
    async with app.stream(given, run="r") as reader:
        answers: list[Message] = await reader.concat()
    return answers


both_modes = pytest.mark.parametrize("streams", [False, True], ids=["value", "stream"])


@both_modes
@pytest.mark.parametrize("sequential", [False, True])
async def test_200_only_the_calls_that_asked_run_again_and_the_result_is_complete(
    sequential: bool, streams: bool
) -> None:
    app = kept(ToolsNode([fine, fine_stream, asks, asks_stream], sequential=sequential))
    with pytest.raises(Interrupted) as paused:
        await start(app, calls("asks", "asks_stream", "fine", "fine_stream"), streams=streams)
    one, two = sorted(paused.value.interrupts, key=lambda question: question.id)
    assert [one.payload, two.payload] == [1, 2]
    assert sorted(begun) == ["asks 1", "asks 2", "fine 3", "fine 4"]
    begun.clear()
    answers = await app.resume("r", {one.id: "x", two.id: "y"})
    assert sorted(begun) == ["asks 1", "asks 2"]
    assert [answer.text for answer in answers] == ["1: x", "2: y", "fine 3", "fine 4"]
    assert [answer.tool_call_id for answer in answers] == ["1", "2", "3", "4"]


@both_modes
@pytest.mark.parametrize("names", [("asks", "fails"), ("fails", "asks")])
async def test_202_a_question_beside_a_failure_is_the_failure(names: tuple[str, ...], streams: bool) -> None:
    app = kept(ToolsNode([asks, fails], on_error="raise"))
    with pytest.raises(ToolFailedError, match="'fails'"):
        await start(app, calls(*names), streams=streams)


@both_modes
async def test_case_112_errors_are_told_questions_pass_and_parts_stay_parts(streams: bool) -> None:
    app = kept(ToolsNode([asks, fails, shows], middlewares=[tell_errors()], on_error="raise"))
    with pytest.raises(Interrupted) as paused:
        await start(app, calls("asks", "fails", "shows"), streams=streams)
    (question,) = paused.value.interrupts
    answers = await app.resume("r", {question.id: "x"})
    assert [answer.is_error for answer in answers] == [False, True, False]
    assert answers[0].text == "1: x"
    assert answers[1].text == "The tool 'fails' failed: ValueError: no"
    assert answers[2].content == (TextPart("a"), TextPart("3"))
