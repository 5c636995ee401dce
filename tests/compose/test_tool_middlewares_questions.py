"""A question that a tool asks is nobody's failure: no ready middleware keeps it, tries again or tells the model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from anabranch.compose import (
    END,
    START,
    Graph,
    Interrupted,
    InterruptError,
    MemoryStore,
    Middleware,
    RepairArguments,
    Retry,
    Runnable,
    RunOptions,
    ToolFailedError,
    ToolRecord,
    ToolsNode,
    audit_log,
    cache_results,
    graph_tool,
    interrupt,
    limit_rate,
    limit_time,
    retry_calls,
    tell_errors,
    truncate_results,
)
from anabranch.schema import Message, Tool, ToolCall, concat, tool

pytestmark = pytest.mark.anyio

begun: list[str] = []
log: list[ToolRecord] = []


@tool
async def ask(word: str) -> str:
    """Ask a person."""
    begun.append(word)
    return f"{word}: {await interrupt(word, answer=str)}"


@tool
async def spell(word: str) -> AsyncIterator[str]:
    """Ask a person before anything is said."""
    begun.append(word)
    answer = await interrupt(word, answer=str)
    yield f"{word}: "
    yield answer


@tool
async def talk(word: str) -> AsyncIterator[str]:
    """Ask a person when something has been said."""
    begun.append(word)
    yield f"{word}: "
    yield await interrupt(word, answer=str)


TOOLS = [ask, spell, talk]
NAMES = [made.info.name for made in TOOLS]
MIDDLEWARES: dict[str, Callable[[], list[Any]]] = {
    "retry_calls": lambda: [retry_calls(3)],
    "retry_calls, of everything": lambda: [retry_calls(Retry(attempts=3, on=(Exception,)))],
    "limit_time": lambda: [limit_time(60)],
    "truncate_results": lambda: [truncate_results(100)],
    "tell_errors": lambda: [tell_errors()],
    "tell_errors, of these too": lambda: [tell_errors(on=InterruptError)],
    "limit_rate": lambda: [limit_rate(100, 1)],
    "cache_results": lambda: [cache_results(NAMES)],
    "audit_log": lambda: [audit_log(log.append)],
    "RepairArguments": lambda: [RepairArguments()],
    "all": lambda: [
        tell_errors(),
        retry_calls(3),
        limit_time(60),
        truncate_results(100),
        limit_rate(100, 1),
        cache_results(NAMES),
        audit_log(log.append),
    ],
}

every_middleware = pytest.mark.parametrize("make", MIDDLEWARES.values(), ids=MIDDLEWARES)
every_tool = pytest.mark.parametrize("asking", TOOLS, ids=NAMES)


@pytest.fixture(autouse=True)
def fresh() -> None:
    begun.clear()
    log.clear()


def question(asking: Tool) -> Message:
    return Message.assistant(tool_calls=[ToolCall(id="1", name=asking.info.name, arguments='{"word": "why"}')])


def built(asking: Tool, middlewares: list[Middleware], **settings: Any) -> Runnable[Message, list[Message]]:
    graph = Graph[Message, list[Message]]()
    graph.add_edge(START, graph.add_node("tools", ToolsNode([asking], middlewares=middlewares)))
    graph.add_edge("tools", END)
    return graph.compile(**settings)


async def streamed(app: Runnable[Message, list[Message]], given: Message) -> list[Message]:
    async with app.stream(given) as reader:
        return concat([chunk async for chunk in reader])


@every_middleware
@every_tool
async def test_a_question_that_nobody_can_be_asked_ends_the_run(
    asking: Tool, make: Callable[[], list[Middleware]]
) -> None:
    app = built(asking, make())
    for streams in (False, True):
        begun.clear()
        with pytest.raises(ToolFailedError, match="nobody can be asked") as failed:
            await (streamed(app, question(asking)) if streams else app.invoke(question(asking)))
        assert isinstance(failed.value.__cause__, InterruptError)
        assert begun == ["why"]


@every_middleware
@every_tool
async def test_a_question_that_waits_for_its_answer_passes_and_what_comes_then_is_treated_as_ever(
    asking: Tool, make: Callable[[], list[Middleware]]
) -> None:
    app = built(asking, make(), store=MemoryStore())
    with pytest.raises(Interrupted) as paused:
        await app.invoke(question(asking), run="r")
    assert begun == ["why"]
    assert [pending.payload for pending in paused.value.interrupts] == ["why"]
    assert [record.error for record in log] == []  # it is not over
    answers = await app.resume("r", answer="because")
    assert [(answer.text, answer.is_error) for answer in answers] == [("why: because", False)]
    assert begun == ["why", "why"]
    assert all(record.error is None for record in log)


async def test_what_was_answered_once_is_kept_and_what_was_not_is_asked_again() -> None:
    app = built(ask, [cache_results(["ask"])])
    with pytest.raises(ToolFailedError):
        await app.invoke(question(ask))
    for _ in range(2):
        answers = await app.invoke(question(ask), RunOptions(on_interrupt=lambda _: "because"))
        assert [answer.text for answer in answers] == ["why: because"]
    assert begun == ["why", "why"]


async def test_an_answer_of_another_type_is_not_told_to_the_model() -> None:
    app = built(ask, [tell_errors(), retry_calls(3)])
    with pytest.raises(ToolFailedError):
        await app.invoke(question(ask), RunOptions(on_interrupt=lambda _: 7))
    assert begun == ["why"]


@pytest.mark.parametrize("middlewares", [[tell_errors()], [retry_calls(3)], []], ids=["told", "tried again", "none"])
async def test_a_question_of_a_tool_that_is_a_graph_passes_too(middlewares: list[Middleware]) -> None:
    async def asks(word: str) -> str:
        begun.append(word)
        return await interrupt(word, answer=str)

    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("asks", asks))
    inner.add_edge("asks", END)
    outer = Graph[str, str]()
    outer.add_edge(START, outer.add_node("inner", inner))
    outer.add_edge("inner", END)
    app = built(graph_tool(outer.compile(), "ask", "Ask."), middlewares)
    given = Message.assistant(tool_calls=[ToolCall(id="1", name="ask", arguments='{"input": "why"}')])
    with pytest.raises(ToolFailedError, match="nobody can be asked"):
        await app.invoke(given)
    assert begun == ["why"]
