"""Showing what an agent does on stderr, as it happens: a live tree on a terminal, else one step after the other."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self, cast

from rich.console import Console as Terminal
from rich.text import Text

from ...compose import Event, NodeEnded, RunOptions, ToolEnded, ToolFailed, ToolStarted
from ...schema import Message, tool_text
from ..console import Console

_MOST_LINES = 12
_STYLES = {"thought": "italic cyan", "action": "bold yellow", "observation": "green", "failed": "bold red"}


class Trace:
    """Shows the steps of a run: as a tree on a terminal, from its events as plain lines elsewhere.

    In a ``with`` block the tree stays as it is at the end, however that comes.
    """

    def __init__(self) -> None:
        self._console = Terminal(stderr=True, highlight=False, soft_wrap=True)
        on_terminal = sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison]
        self._tree = Console() if on_terminal and not self._console.is_dumb_terminal else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._tree is not None:
            self._tree.close()

    def added_to(self, options: RunOptions | None) -> RunOptions | None:
        """Give options with which a run draws its tree, if there is one to draw.

        Args:
            options: The options of the run.

        Returns:
            The options.
        """
        if self._tree is None:
            return options
        options = options or RunOptions()
        return replace(options, callbacks=[*options.callbacks, self._tree])

    def show(self, event: Event) -> None:
        """Show an event, if it is a step; the final answer is shown by others.

        Args:
            event: What happened.
        """
        if self._tree is not None:
            return
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
