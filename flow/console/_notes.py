"""Short texts of one line: what a call, an answer or a question is about. What could steer a terminal is left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from ...compose import Interrupt
from ...schema import Message

MOST = 100
"""How long a text may be."""


def shortened(value: Any, *, tail: bool = False) -> str:
    r"""Write a value on one line, cut if it is long; at its front, if the end is what counts.

    Example:
        >>> shortened("\x1b[31mred\nblue")
        '[31mred blue'
    """
    text = value.text if isinstance(value, Message) else value if isinstance(value, str) else repr(value)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(text) <= MOST:
        return text
    return f"…{text[1 - MOST :]}" if tail else f"{text[: MOST - 1]}…"


def note_of_call(arguments: Any) -> str:
    """Write the arguments of a tool call as those of a function call are written."""
    if not isinstance(arguments, Mapping):
        return f"({shortened(arguments)})"
    named = cast("Mapping[str, object]", arguments)
    written = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False, default=str)}" for key, value in named.items())
    return f"({shortened(written)})"


def note_of_message(message: Message) -> str:
    """Write what a model thought and said, or else what it wants called."""
    said = shortened(" ".join(part for part in (message.reasoning, message.text) if part))
    return said or shortened(
        "calls " + ", ".join(call.name for call in message.tool_calls) if message.tool_calls else ""
    )


def note_of_question(question: Interrupt) -> str:
    """Write a question that waits for an answer."""
    return f"asks {shortened(question.id)}: {shortened(question.payload)}"
