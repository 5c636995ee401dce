"""Showing what an agent does: each thought, action and observation on stderr, as it happens.

What an agent does can be seen at its model: a call's history ends with the observations, and its answer is a
thought with actions, or the final answer. So the trace is a model around the model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

from rich.console import Console
from rich.text import Text

from ...schema import NO_OPTIONS, ChatModel, Message, ModelOptions, StreamReader, ToolCall, ToolChoice, ToolInfo, concat

_MOST_LINES = 12
_STYLES = {"thought": "italic cyan", "action": "bold yellow", "observation": "green", "failed": "bold red"}


class Trace:
    """Prints the steps: in colours on a terminal, as plain lines elsewhere."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._shown = 0

    def show_observations(self, messages: Sequence[Message]) -> None:
        """Show the tool messages of a history that were not shown yet."""
        observed = [message for message in messages if message.role == "tool"]
        for message in observed[self._shown :]:
            self._print("failed" if message.is_error else "observation", _shortened(message.text))
        self._shown = len(observed)

    def show_decision(self, message: Message) -> None:
        """Show a message's thought and actions; a final answer is shown by others."""
        if not message.tool_calls:
            return
        thought = "\n".join(part for part in (message.reasoning, message.text) if part).strip()
        if thought:
            self._print("thought", thought)
        for call in message.tool_calls:
            self._print("action", _written_as_call(call))

    def _print(self, label: str, text: str) -> None:
        """Print one step; further lines are indented."""
        body = text.replace("\n", "\n  ")
        if self._console.is_terminal:
            self._console.print(Text.assemble((f"{label}: ", _STYLES[label]), body))
        elif sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]  (None when it was closed)
            sys.stderr.write(f"{label}: {body}\n")
            sys.stderr.flush()


class TracedModel:
    """A chat model whose calls are shown."""

    def __init__(self, model: ChatModel, trace: Trace) -> None:
        self._model = model
        self._trace = trace

    def with_tools(self, tools: Sequence[ToolInfo], choice: ToolChoice = "auto") -> TracedModel:
        """Make a model that may call these tools."""
        return TracedModel(self._model.with_tools(tools, choice), self._trace)

    async def generate(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS) -> Message:
        """Answer with one message."""
        self._trace.show_observations(messages)
        message = await self._model.generate(messages, options)
        self._trace.show_decision(message)
        return message

    async def stream(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS) -> AsyncIterator[Message]:
        """Answer chunk by chunk."""
        self._trace.show_observations(messages)
        chunks: list[Message] = []
        async with StreamReader.from_iterable(self._model.stream(messages, options)) as reader:
            async for chunk in reader:
                chunks.append(chunk)
                yield chunk
        self._trace.show_decision(concat(chunks))


def _written_as_call(call: ToolCall) -> str:
    """Write a tool call as a function call is written."""
    try:
        arguments: Any = json.loads(call.arguments or "{}")
    except ValueError:
        return f"{call.name}({call.arguments})"
    if not isinstance(arguments, dict):
        return f"{call.name}({call.arguments})"
    named = cast("dict[str, Any]", arguments)
    return f"{call.name}({', '.join(f'{key}={_written(value)}' for key, value in named.items())})"


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shortened(text: str) -> str:
    """Keep the first lines of a long text."""
    lines = text.strip().split("\n")
    left = len(lines) - _MOST_LINES
    return "\n".join([*lines[:_MOST_LINES], f"… {left} more lines"] if left > 1 else lines)
