"""The ReAct agent with trivial parts, against the loop that one writes by hand with the same messages and tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from pydantic import BaseModel

from anabranch.flow.react import ReactAgent
from anabranch.schema import Message, ModelOptions, ToolCall, ToolChoice, ToolInfo, tool

from .harness import Limit, Workload

ROUNDS = 5
CALLS = [
    Message.assistant(tool_calls=[ToolCall(id=f"c{number}", name="add", arguments='{"a": 1, "b": 2}')])
    for number in range(ROUNDS)
]
ANSWER = Message.assistant("3")


class ScriptedByHistory:
    """Calls a tool five times, and answers."""

    def with_tools(self, tools: Sequence[ToolInfo], choice: ToolChoice = "auto") -> ScriptedByHistory:
        """Give a model that knows tools: this one."""
        return self

    async def generate(self, messages: Sequence[Message], options: ModelOptions | None = None) -> Message:
        """Give the next message."""
        number = sum(message.role == "assistant" for message in messages)
        return CALLS[number] if number < ROUNDS else ANSWER

    async def stream(self, messages: Sequence[Message], options: ModelOptions | None = None) -> AsyncIterator[Message]:
        """Give it as one chunk."""
        yield await self.generate(messages)


class Addition(BaseModel):
    """The arguments of the tool."""

    a: int
    b: int


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


MODEL = ScriptedByHistory()
AGENT = ReactAgent(MODEL, tools=[add])


async def answered(call: ToolCall) -> Message:
    """Validate the arguments, call the tool, and answer."""
    try:
        given = Addition.model_validate_json(call.arguments)
        result = given.a + given.b
        return Message.tool(str(result), tool_call_id=call.id, name=call.name)
    except ValueError as error:
        return Message.tool(str(error), tool_call_id=call.id, name=call.name, is_error=True)


async def by_hand(question: str) -> Message:
    """Ask the model and run its tools until it answers."""
    history = [Message.user(question)]
    for _ in range(12):
        message = await MODEL.generate(history)
        history.append(message)
        if not message.tool_calls:
            return message
        history += await asyncio.gather(*[answered(call) for call in message.tool_calls])
    raise AssertionError("the model does not come to an end")


async def ours_in_turn(size: int) -> None:
    """Ask the agent, one question after the other."""
    for _ in range(size):
        await AGENT.generate("1 + 2?")


async def hand_in_turn(size: int) -> None:
    """Ask by hand, one question after the other."""
    for _ in range(size):
        await by_hand("1 + 2?")


async def ours_at_once(size: int) -> None:
    """Ask many agents at once."""
    await asyncio.gather(*[AGENT.generate("1 + 2?") for _ in range(size)])


async def hand_at_once(size: int) -> None:
    """Ask by hand, many at once."""
    await asyncio.gather(*[by_hand("1 + 2?") for _ in range(size)])


WORKLOADS = [
    Workload(
        "ReAct agent, five tool rounds",
        "run",
        {"ours": ours_in_turn, "hand-written": hand_in_turn},
        (20,),
        Limit(ratio=2.0),
        lambda _: 5,
    ),
    Workload(
        "ReAct agents, 200 at once",
        "run",
        {"ours": ours_at_once, "hand-written": hand_at_once},
        (200,),
        Limit(ratio=2.0),
        lambda _: 1,
    ),
]
