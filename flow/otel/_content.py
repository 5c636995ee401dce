"""Messages in the form in which the conventions record them; used only where content is to be recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from opentelemetry.util.genai.types import (  # pyright: ignore[reportMissingTypeStubs]
    InputMessage,
    MessagePart,
    OutputMessage,
    ReasoningPart,
    TextPart,
    ToolCallRequestPart,
    ToolCallResponsePart,
)
from pydantic_core import to_jsonable_python

from ...schema import Message


def input_messages(given: Any) -> list[InputMessage]:
    """Write what a model was asked; nothing, where it came as a stream."""
    messages = cast("Sequence[object]", given) if isinstance(given, Sequence) else ()
    return [InputMessage(role=m.role, parts=_parts(m)) for m in messages if isinstance(m, Message)]


def output_messages(message: Message) -> list[OutputMessage]:
    """Write what a model has answered."""
    return [OutputMessage(role=message.role, parts=_parts(message), finish_reason=message.finish_reason or "stop")]


def plain_value(value: Any) -> Any:
    """Write arguments or a result as plain data; what is none of it, as text."""
    return to_jsonable_python(value, fallback=str)


def _parts(message: Message) -> list[MessagePart]:
    if message.role == "tool":
        return [ToolCallResponsePart(response=message.text, id=message.tool_call_id)]
    parts: list[MessagePart] = []
    if message.reasoning:
        parts.append(ReasoningPart(content=message.reasoning))
    if message.text:
        parts.append(TextPart(content=message.text))
    parts += [ToolCallRequestPart(arguments=c.arguments, name=c.name, id=c.id) for c in message.tool_calls]
    return parts
