"""Agents whose runs are kept: pauses in every way of asking, limits that go on counting, events of a resumed run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    Done,
    Graph,
    GraphCompileError,
    Interrupted,
    MemoryStore,
    NodeStarted,
    Paused,
    RunEnded,
    RunFinishedError,
    RunOptions,
    RunOptionsError,
    RunPaused,
    interrupt,
)
from anabranch.compose.testing import ScriptedModel
from anabranch.flow.react import ReactAgent, RoundLimitExceeded
from anabranch.flow.tools import Decision, confirm_risky
from anabranch.schema import Message, ToolCall, Usage, tool

pytestmark = pytest.mark.anyio


@tool(risk="destructive")
async def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


@tool
async def ask(question: str) -> str:
    """Ask."""
    answer: str = await interrupt(question, answer=str)
    return answer


def calls(*given: tuple[str, str], usage: Usage | None = None) -> Message:
    made = [ToolCall(id=f"c{n}", name=name, arguments=arguments) for n, (name, arguments) in enumerate(given)]
    return Message.assistant(tool_calls=made, usage=usage)


ASK = ("ask", '{"question": "which?"}')
DELETE = ("delete", '{"path": "a.txt"}')


def texts(messages: Sequence[Message]) -> list[str]:
    return [f"{message.role}: {message.text}" for message in messages]


@pytest.mark.parametrize("way", ["generate", "run", "start", "stream", "events"])
async def test_a_run_pauses_and_goes_on_however_it_was_begun(way: str) -> None:
    model = ScriptedModel([calls(ASK), "so it is"])
    agent = ReactAgent(model, tools=[ask], store=MemoryStore())
    match way:
        case "start":
            outcome = await agent.start("q", run="r1")
            assert isinstance(outcome, Paused)
            assert outcome.run == "r1"
        case "events":
            async with agent.events("q", run="r1") as events:
                last = [event async for event in events][-1]
            assert isinstance(last, RunPaused)
        case "stream":
            with pytest.raises(Interrupted):
                async with agent.stream("q", run="r1") as reader:
                    await reader.concat()
        case _:
            with pytest.raises(Interrupted):
                await getattr(agent, way)("q", run="r1")
    assert [one.payload for one in await agent.pending("r1")] == ["which?"]
    result = await agent.resume_run("r1", answer="the left one")
    assert texts(result.messages) == ["user: q", "assistant: ", "tool: the left one", "assistant: so it is"]
    assert result.rounds == 2
    assert await agent.output("r1") == result.message
    state = await agent.state("r1")
    assert state is not None
    assert state.messages == result.messages
    with pytest.raises(RunFinishedError):
        await agent.resume("r1", answer="again")


async def test_limits_go_on_counting_after_a_resume() -> None:
    model = ScriptedModel([calls(ASK, usage=Usage(output_tokens=3))] * 5)
    agent = ReactAgent(model, tools=[ask], store=MemoryStore(), max_rounds=3)
    outcome: Any = await agent.start("q", run="r1")
    for _ in range(2):
        outcome = await agent.proceed("r1", answer="go on")
        assert isinstance(outcome, Paused)
    with pytest.raises(RoundLimitExceeded) as caught:
        await agent.proceed("r1", answer="go on")
    assert len(model.calls) == 3
    assert len(caught.value.messages) == 7
    state = await agent.state("r1")
    assert state is not None
    assert state.usage.output_tokens == 9


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_two_calls_of_one_message_ask_and_each_gets_its_own_answer(order: tuple[int, int]) -> None:
    store = MemoryStore()
    model = ScriptedModel([calls(ASK, ASK), "so it is"])
    agent = ReactAgent(model, tools=[ask], store=store)
    outcome = await agent.start("q", run="r1")
    assert isinstance(outcome, Paused)
    ids = sorted(one.id for one in outcome.interrupts)
    first, second = order
    outcome = await agent.proceed("r1", {ids[first]: f"answer {first}"})
    assert isinstance(outcome, Paused)
    assert [one.id for one in outcome.interrupts] == [ids[second]]
    done = await agent.proceed("r1", {ids[second]: f"answer {second}"})
    assert isinstance(done, Done)
    assert [message.text for message in model.calls[-1].messages if message.role == "tool"] == ["answer 0", "answer 1"]


async def test_a_risky_call_is_decided_in_another_process() -> None:
    store = MemoryStore()
    settings: dict[str, Any] = {"tools": [delete], "middlewares": [confirm_risky()], "store": store}
    first = ReactAgent(ScriptedModel([calls(DELETE)]), **settings)
    await first.start("tidy up", run="r1")
    second = ReactAgent(ScriptedModel(["ok"]), **settings, answers=[bool, Decision])
    result = await second.resume_run("r1", answer=Decision(approved=True, arguments={"path": "b.txt"}))
    assert "deleted b.txt" in result.messages[-2].text


async def test_an_agent_stops_before_its_tools() -> None:
    agent = ReactAgent(
        ScriptedModel([calls(DELETE), "ok"]), tools=[delete], store=MemoryStore(), interrupt_before=["tools"]
    )
    outcome = await agent.start("tidy up", run="r1")
    assert isinstance(outcome, Paused)
    assert (await agent.resume("r1")).text == "ok"


async def test_the_events_of_a_resumed_run_are_those_from_there_on() -> None:
    agent = ReactAgent(ScriptedModel([calls(ASK), "so it is"]), tools=[ask], store=MemoryStore())
    await agent.start("q", run="r1")
    async with agent.resume_events("r1", answer="left") as events:
        seen = [event async for event in events]
    assert [event.path for event in seen if isinstance(event, NodeStarted)] == ["tools", "chat"]
    assert isinstance(seen[-1], RunEnded)
    assert seen[-1].output.text == "so it is"


class Verdict(BaseModel):
    ok: bool


async def test_a_typed_answer_is_there_after_a_resume() -> None:
    model = ScriptedModel([calls(ASK), '{"ok": true}'])
    agent = ReactAgent(model, tools=[ask], output=Verdict, output_mode="text", store=MemoryStore())
    await agent.start("q", run="r1")
    assert (await agent.resume_run("r1", answer="x")).output == Verdict(ok=True)


async def test_runs_are_listed_and_forked() -> None:
    agent = ReactAgent(ScriptedModel([calls(ASK), "one", "two"]), tools=[ask], store=MemoryStore())
    await agent.start("q", run="r1")
    assert await agent.fork("r1", new="r2") == "r2"
    assert (await agent.resume("r2", answer="a")).text == "one"
    assert [(one.id, one.status, one.is_ours) for one in await agent.runs()] == [
        ("r1", "paused", True),
        ("r2", "done", True),
    ]
    assert len(await agent.history("r1")) == 3


async def test_the_graph_of_an_agent_with_a_store_nests_without_it() -> None:
    store = MemoryStore()
    agent = ReactAgent(ScriptedModel(["inner"] * 2), store=store)
    outer = Graph[list[Message], Message]()
    outer.add_edge(START, outer.add_node("agent", agent.graph))
    outer.add_edge("agent", END)
    assert (await outer.compile().invoke([Message.user("q")])).text == "inner"
    assert await store.heads() == []
    inner_tool = agent.as_tool("helper", "Helps.")
    around = ReactAgent(ScriptedModel([calls(("helper", '{"request": "q"}')), "outer"]), tools=[inner_tool])
    assert (await around.generate("q")).text == "outer"
    assert await store.heads() == []


async def test_an_inner_agent_asks_and_the_outer_one_is_resumed() -> None:
    inner = ReactAgent(ScriptedModel([calls(ASK), "inner"]), tools=[ask], name="inner")
    model = ScriptedModel([calls(("helper", '{"request": "q"}')), "outer"])
    outer = ReactAgent(model, tools=[inner.as_tool("helper", "Helps.")], store=MemoryStore())
    await outer.start("q", run="r1", thread="c1")
    result = await outer.resume_run("r1", answer="left")
    assert texts(result.messages) == ["user: q", "assistant: ", "tool: inner", "assistant: outer"]
    assert await outer.thread("c1") == result.messages


async def test_a_live_handler_is_asked_and_nothing_pauses() -> None:
    agent = ReactAgent(ScriptedModel([calls(ASK), "so it is"]), tools=[ask], store=MemoryStore())
    reply = await agent.generate("q", RunOptions(on_interrupt=lambda question: "left"), run="r1")
    assert reply.text == "so it is"


async def test_what_needs_a_store_says_so() -> None:
    agent = ReactAgent(ScriptedModel(["a"]))
    with pytest.raises(RunOptionsError, match="store="):
        await agent.generate("q", run="r1")
    with pytest.raises(RunOptionsError, match="store="):
        await agent.resume("r1")
    with pytest.raises(GraphCompileError, match="store="):
        ReactAgent(ScriptedModel([]), durability="step")
    with pytest.raises(ValueError, match="busy='wait'"):
        ReactAgent(ScriptedModel([]), store=MemoryStore(), busy="wait")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
