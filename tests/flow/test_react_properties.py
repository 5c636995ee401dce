"""Laws of the ReAct agent, for any script of its model: text and calls in any mix and in any pieces, good and bad."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.compose import (
    Event,
    MessageDelta,
    NodeStarted,
    ToolDelta,
    ToolEnded,
    ToolEvent,
    ToolFailed,
    ToolsNode,
    with_call_ids,
)
from anabranch.compose.testing import ScriptedModel
from anabranch.flow.react import AgentResult, ReactAgent, RoundLimitExceeded, set_return_directly
from anabranch.schema import Message, Tool, ToolCall, ToolResult, check_history, concat, tool, tool_text

pytestmark = pytest.mark.anyio


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
async def spell(text: str) -> AsyncIterator[str]:
    """Say it letter by letter."""
    for letter in text:
        yield letter


@tool
async def count(text: str) -> AsyncIterator[dict[str, Any]]:
    """Count, in pieces."""
    yield {"text": text}
    yield {"length": len(text)}


@tool
async def fails(text: str = "") -> str:
    """Fail."""
    raise ValueError(f"no {text}")


@tool
async def half(text: str = "") -> AsyncIterator[str]:
    """Fail half way."""
    yield text
    raise OSError("gone")


@tool
async def polite(text: str = "") -> ToolResult:
    """Say that it failed."""
    return ToolResult(f"sorry {text}", is_error=True)


@tool(parallel=False)
async def asks(text: str = "") -> str:
    """Ask to be the answer, now and then."""
    if "!" in text:
        set_return_directly()
    return text


TOOLS: list[Tool] = [echo, spell, count, fails, half, polite, asks]
NAMES = [t.info.name for t in TOOLS]

arguments = st.one_of(
    st.sampled_from(['{"text": "a"}', '{"text": "b!"}', '{"text": ""}', '{"text": "ü x"}']),
    st.sampled_from(["", "{}", '{"text": ', "[1]", '{"wrong": 1}', '{"text": 1}', "null"]),
)
names = st.one_of(st.sampled_from(NAMES), st.sampled_from(["repeat", "nobody", ""]))
ids = st.one_of(st.uuids(version=4).map(str), st.sampled_from(["x", "y", ""]))
words = st.text("ab \n", max_size=4)


@st.composite
def whole_messages(draw: st.DrawFn) -> Message:
    """A message as a model without streaming gives it."""
    made = draw(st.lists(st.tuples(ids, names, arguments), max_size=4))
    # A call that names no tool is taken for a fragment unless its id says otherwise.
    calls = [ToolCall(id=i if n else f"z{at}", name=n, arguments=a) for at, (i, n, a) in enumerate(made)]
    reason = draw(st.sampled_from([None, "stop", "tool_calls", "length"]))
    return Message.assistant(draw(words), tool_calls=calls, finish_reason=reason)


@st.composite
def chunked_messages(draw: st.DrawFn) -> list[Message]:
    """The same in pieces: text before, between and after the calls, and calls in fragments."""
    chunks: list[Message] = []
    for index in range(draw(st.integers(0, 3))):
        chunks += [Message.assistant(word) for word in draw(st.lists(words, max_size=2))]
        text, call_id = draw(arguments), draw(ids)
        cut = draw(st.integers(0, len(text)))
        head = ToolCall(id=call_id, name=draw(names) or "nobody", arguments=text[:cut], index=index)
        chunks.append(Message.assistant(tool_calls=[head]))
        chunks.append(Message.assistant(tool_calls=[ToolCall(arguments=text[cut:], index=index)]))
    chunks += [Message.assistant(word) for word in draw(st.lists(words, min_size=1, max_size=3))]
    chunks.append(Message.assistant(finish_reason=draw(st.sampled_from([None, "stop", "length"]))))
    return chunks


answers = st.one_of(whole_messages(), chunked_messages())
scripts = st.lists(answers, max_size=4).map(lambda script: [*script, Message.assistant("the end")])


class Settings:
    """How an agent is set up in one example."""

    def __init__(self, names: frozenset[str], promise: bool, rounds: int, sequential: bool) -> None:
        self.names = names
        self.promise = promise
        self.rounds = rounds
        self.sequential = sequential

    def __repr__(self) -> str:
        return str(self.__dict__)

    def agent(self, model: ScriptedModel) -> ReactAgent:
        node = ToolsNode(TOOLS, aliases={"echo": ["repeat"]}, sequential=self.sequential)
        return ReactAgent(model, tools=node, return_directly=self.names, max_rounds=self.rounds)


setups = st.builds(
    Settings, st.frozensets(st.sampled_from(NAMES), max_size=2), st.just(False), st.integers(1, 5), st.booleans()
)
QUESTION = (Message.system("Be good."), Message.user("q"))


async def run(setup: Settings, script: Sequence[Any]) -> tuple[AgentResult | RoundLimitExceeded, ScriptedModel]:
    model = ScriptedModel(script)
    try:
        return await setup.agent(model).run(QUESTION), model
    except RoundLimitExceeded as error:
        return error, model


async def stream(setup: Settings, script: Sequence[Any]) -> tuple[Message | RoundLimitExceeded, ScriptedModel]:
    model = ScriptedModel(script)
    try:
        async with setup.agent(model).stream(QUESTION) as reader:
            return await reader.concat(), model
    except RoundLimitExceeded as error:
        return error, model


async def events(setup: Settings, script: Sequence[Any]) -> list[Event]:
    seen: list[Event] = []
    async with setup.agent(ScriptedModel(script)).events(QUESTION) as reader:
        try:
            async for event in reader:
                seen.append(event)
        except RoundLimitExceeded:
            pass
    return seen


def turns_of(messages: Sequence[Message]) -> list[tuple[Message, list[Message]]]:
    turns: list[tuple[Message, list[Message]]] = []
    for message in messages:
        if message.role == "tool":
            turns[-1][1].append(message)
        else:
            turns.append((message, []))
    return turns


lawful = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@lawful
@given(setups, scripts)
async def test_the_history_is_valid_and_each_call_has_one_answer_in_order(setup: Settings, script: list[Any]) -> None:
    result, model = await run(setup, script)

    assert check_history(result.messages) == []
    for message, results in turns_of(result.messages):
        assert [r.tool_call_id for r in results] == [call.id for call in message.tool_calls]
    if isinstance(result, AgentResult):
        assert result.messages[:2] == list(QUESTION)
        assert result.message in result.messages
        assert result.rounds == len(model.calls)
        if result.message.role == "assistant":
            assert result.message == result.messages[-1]
    for asked in model.calls:
        assert check_history(asked) == []


@lawful
@given(setups, scripts)
async def test_generate_is_the_concatenation_of_stream(setup: Settings, script: list[Any]) -> None:
    result, asked = await run(setup, script)
    streamed, asked_streaming = await stream(setup, script)

    assert asked.calls == asked_streaming.calls
    if isinstance(result, RoundLimitExceeded):
        assert isinstance(streamed, RoundLimitExceeded)
        assert streamed.messages == result.messages
    else:
        assert streamed == result.message


@lawful
@given(setups, scripts)
async def test_the_events_tell_the_whole_history(setup: Settings, script: list[Any]) -> None:
    result, _ = await run(setup, script)

    assert replayed(await events(setup, script)) == list(result.messages)


@lawful
@given(setups, scripts)
async def test_nothing_that_was_passed_in_is_changed(setup: Settings, script: list[Any]) -> None:
    before = repr((script, QUESTION, setup))

    await run(setup, script)
    await stream(setup, script)

    assert repr((script, QUESTION, setup)) == before


def replayed(seen: Sequence[Event]) -> list[Message]:
    """Make the history of the events alone."""
    history = list(QUESTION)
    deltas: list[Message] = []
    answers: dict[int, list[Message]] = {}
    tools: dict[int, ToolCall] = {}

    def flush() -> None:
        if deltas:
            message = with_call_ids(concat(deltas), f"call_{len(history)}")
            history.append(message)
            tools.update(enumerate(message.tool_calls))
            deltas.clear()
        elif answers:
            history.extend(concat(answers[position]) for position in sorted(answers))
            answers.clear()

    for event in seen:
        match event:
            case NodeStarted():
                flush()
            case MessageDelta(path="chat", delta=delta):
                deltas.append(delta)
            case ToolEvent():
                answers.setdefault(event.position, [])
                _take(event, answers[event.position])
            case _:
                pass
    flush()
    return history


def _take(event: ToolEvent, pieces: list[Message]) -> None:
    def piece(content: Any, *, is_error: bool = False) -> Message:
        return Message.tool(content, tool_call_id=event.call_id, name=event.tool, is_error=is_error)

    match event:
        case ToolDelta(chunk=str(text)):
            pieces.append(piece(text))
        case ToolEnded(result=ToolResult() as result):
            pieces.append(piece(tool_text(result), is_error=result.is_error))
        case ToolEnded(result=result) if not pieces:
            pieces.append(piece(tool_text(result)))
        case ToolFailed(told=str(told)):
            pieces.append(piece(f"\n{told}" if any(p.text for p in pieces) else told, is_error=True))
        case _:
            pass
