"""Showing what an agent does: each thought, action and observation on stderr, as it happens."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, cast

from rich.console import Console
from rich.text import Text

from ...compose import Event, NodeEnded, ToolEnded, ToolFailed, ToolStarted
from ...schema import Message, tool_text

_MOST_LINES = 12
_STYLES = {"thought": "italic cyan", "action": "bold yellow", "observation": "green", "failed": "bold red"}


class Trace:
    """Prints the steps of a run from its events: in colours on a terminal, as plain lines elsewhere."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)

    def show(self, event: Event) -> None:
        """Show an event, if it is a step; the final answer is shown by others.

        Args:
            event: What happened.
        """
        match event:
            case NodeEnded(component="model", output=Message(tool_calls=(_, *_)) as message):
                self._print("thought", "", _thought(message))
            case ToolStarted(tool=name, arguments=arguments):
                self._print("action", "", f"{name}({_written_arguments(arguments)})")
            case ToolEnded(tool=name, result=result):
                text = Message.tool(tool_text(result), tool_call_id=event.call_id).text
                self._print("observation", name, _shortened(text))
            case ToolFailed(tool=name, error=error, told=told):
                self._print("failed", name, _shortened(told or str(error)))
            case _:
                return

    def _print(self, label: str, source: str, text: str) -> None:
        """Print one step; further lines are indented."""
        if not text:
            return
        head, body = f"{label} ({source}): " if source else f"{label}: ", text.replace("\n", "\n  ")
        if self._console.is_terminal:
            self._console.print(Text.assemble((head, _STYLES[label]), body))
        elif sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]  (None when it was closed)
            sys.stderr.write(f"{head}{body}\n")
            sys.stderr.flush()


def _thought(message: Message) -> str:
    """Give what a model thought and said before it called tools."""
    return "\n".join(part for part in (message.reasoning, message.text) if part).strip()


def _written_arguments(arguments: Any) -> str:
    """Write the arguments of a tool call as those of a function call are written."""
    if not isinstance(arguments, Mapping):
        return str(arguments)
    named = cast("Mapping[str, object]", arguments)
    return ", ".join(f"{key}={json.dumps(value, ensure_ascii=False, default=str)}" for key, value in named.items())


def _shortened(text: str) -> str:
    """Keep the first lines of a long text."""
    lines = text.strip().split("\n")
    left = len(lines) - _MOST_LINES
    return "\n".join([*lines[:_MOST_LINES], f"… {left} more lines"] if left > 1 else lines)
