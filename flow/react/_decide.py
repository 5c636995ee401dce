"""Tool or answer: where an agent goes after its model has spoken."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from ...schema import Message, StreamReader
from ._prompt import settled

ToolCallChecker = Callable[[StreamReader[Message]], bool | Awaitable[bool]]
"""Reads a copy of the model's stream as far as it has to, and tells whether the model calls tools."""


def decide_whole(message: Message) -> Literal["tools", "end"]:
    """Go to the tools if a whole message makes calls."""
    return "tools" if message.tool_calls else "end"


async def decide(message: StreamReader[Message]) -> Literal["tools", "end"]:
    """Go to the tools at the first tool call; only at its end is a message known to make none."""
    async for chunk in message:
        if chunk.tool_calls:
            return "tools"
    return "end"


async def decide_at_first(message: StreamReader[Message]) -> Literal["tools", "end"]:
    """Go by the first chunk that says anything, for models whose tool calls come before any text."""
    async for chunk in message:
        if chunk.tool_calls:
            return "tools"
        if chunk.text:
            return "end"
    return "end"


def deciding_by(checker: ToolCallChecker) -> Callable[[StreamReader[Message]], Awaitable[Literal["tools", "end"]]]:
    """Make a decision of the user's function."""

    async def decide_by_checker(message: StreamReader[Message]) -> Literal["tools", "end"]:
        return "tools" if await settled(checker(message)) else "end"

    return decide_by_checker
