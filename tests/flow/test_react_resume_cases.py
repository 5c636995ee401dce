"""The ReAct agent by the numbered reference cases that pause: 146, 148, 149; the agent is a node of a kept graph."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from anabranch.compose import (
    END,
    START,
    Graph,
    Interrupted,
    MemoryStore,
    NodeError,
    Runnable,
    current_tool_call,
    interrupt,
)
from anabranch.compose.testing import ScriptedModel
from anabranch.flow import ReactAgent, RoundLimitExceeded
from anabranch.schema import Message, ToolCall, check_history, tool

pytestmark = pytest.mark.anyio

begun: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    begun.clear()


@tool
async def ok() -> str:
    """Work without asking."""
    begun.append("ok")
    return "done"


@tool
async def ask() -> str:
    """Ask a person."""
    begun.append("ask")
    return f"they said {await interrupt(current_tool_call().name, answer=str)}"


def calling(*names: str) -> Message:
    calls = [ToolCall(id=f"{number}-{name}", name=name, arguments="{}") for number, name in enumerate(names)]
    return Message.assistant(tool_calls=calls)


class Kept(NamedTuple):
    app: Runnable[list[Message], Message]
    model: ScriptedModel


def kept(*script: Any, **settings: Any) -> Kept:
    model = ScriptedModel([*script])
    agent = ReactAgent(model, tools=[ok, ask], **settings)
    graph = Graph[list[Message], Message]()
    graph.add_edge(START, graph.add_node("agent", agent.graph))
    graph.add_edge("agent", END)
    return Kept(graph.compile(store=MemoryStore()), model)


async def paused(app: Runnable[list[Message], Message], *, streams: bool) -> Interrupted:
    async def run() -> None:
        if not streams:
            await app.invoke([Message.user("go")], run="r")
            return
        async with app.stream([Message.user("go")], run="r") as reader:
            await reader.concat()

    with pytest.raises(Interrupted) as caught:
        await run()
    return caught.value


both_modes = pytest.mark.parametrize("streams", [False, True], ids=["value", "stream"])


@both_modes
@pytest.mark.parametrize("names", [("ok", "ask"), ("ask", "ok"), ("ok", "ask", "ok")])
async def test_146_what_was_done_before_the_pause_is_not_done_again(names: tuple[str, ...], streams: bool) -> None:
    app, model = kept(calling(*names), Message.assistant("bye"))
    (question,) = (await paused(app, streams=streams)).interrupts
    assert question.payload == "ask"
    answer = await app.resume("r", {question.id: "yes"})
    assert answer.text == "bye"
    assert begun.count("ok") == names.count("ok")
    assert begun.count("ask") == 2
    history = model.calls[-1].messages
    assert check_history(history) == []
    texts = {"ok": "done", "ask": "they said yes"}
    assert [message.text for message in history if message.role == "tool"] == [texts[name] for name in names]


@both_modes
async def test_146_two_questions_of_one_message_are_answered_one_at_a_time(streams: bool) -> None:
    app, model = kept(calling("ask", "ok", "ask"), Message.assistant("bye"))
    first, second = sorted((await paused(app, streams=streams)).interrupts, key=lambda question: question.id)
    with pytest.raises(Interrupted) as again:
        await app.resume("r", {second.id: "two"})
    assert [left.id for left in again.value.interrupts] == [first.id]
    assert (await app.resume("r", {first.id: "one"})).text == "bye"
    assert begun.count("ok") == 1
    told = [message.text for message in model.calls[-1].messages if message.role == "tool"]
    assert told == ["they said one", "done", "they said two"]


@both_modes
@pytest.mark.parametrize("names", [("ok", "ask"), ("ask", "ok")])
async def test_148_a_result_that_is_returned_directly_is_so_after_a_pause_too(
    names: tuple[str, ...], streams: bool
) -> None:
    app, model = kept(calling(*names), return_directly={"ok"})
    (question,) = (await paused(app, streams=streams)).interrupts
    answer = await app.resume("r", {question.id: "yes"})
    assert (answer.role, answer.text) == ("tool", "done")
    assert begun.count("ok") == 1
    assert len(model.calls) == 1


@both_modes
async def test_149_rounds_go_on_counting_after_a_pause(streams: bool) -> None:
    # Eino allows as many steps again.
    app, model = kept(calling("ok"), calling("ask"), calling("ok"), Message.assistant("never"), max_rounds=3)
    (question,) = (await paused(app, streams=streams)).interrupts
    with pytest.raises((RoundLimitExceeded, NodeError)) as failed:
        await app.resume("r", {question.id: "yes"})
    assert isinstance(failed.value, RoundLimitExceeded) or isinstance(failed.value.__cause__, RoundLimitExceeded)
    assert len(model.calls) == 3
