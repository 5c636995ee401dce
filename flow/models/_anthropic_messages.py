"""A history as Anthropic's messages.

The provider has no tool messages: the answers to the calls of one message are blocks of one message of the user. What
the model put out is one list of blocks in an order that matters; the ``index`` of a part or call is its place there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ...schema import (
    FilePart,
    ImagePart,
    MediaPart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolInfo,
)
from ._provider_parts import plain_base64, refusal

__all__ = ()

JsonObject = Mapping[str, Any]
Blocks = list[dict[str, Any]]

_NAME = "AnthropicChat"
# What may stand in a part's `extra` for the provider to see, and in a call's.
_KEPT = ("cache_control", "citations", "context", "title", "transformations")
_OF_CALLS = ("cache_control", "caller", "toolset_name")
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")


def split_system(messages: Sequence[Message]) -> tuple[str | Blocks | None, Sequence[Message]]:
    """Take the system messages from the front of a history; the provider has a parameter for them.

    Args:
        messages: The history.

    Returns:
        The value of the parameter, and the other messages. System messages between these stay where they are.
    """
    end = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
    blocks = [block for at, message in enumerate(messages[:end]) for block in _blocks(at, message.parts)]
    if not blocks:
        return None, messages[end:]
    plain = all(block.keys() == {"type", "text"} for block in blocks)
    return "\n\n".join(block["text"] for block in blocks) if plain else blocks, messages[end:]


def anthropic_messages(messages: Sequence[Message], offset: int = 0) -> list[dict[str, Any]]:
    """Write a history that has its system messages taken from its front.

    Neighbours of one role become one message, so all answers to the calls of a message stand together.

    Args:
        messages: The history.
        offset: How many messages were taken from its front.

    Returns:
        The provider's messages.

    Raises:
        MessageError: A part is of a kind that the provider does not have.
    """
    written: list[dict[str, Any]] = []
    for position, message in enumerate(messages, offset):
        role = "user" if message.role == "tool" else message.role
        if message.role == "assistant":
            blocks = _assistant_blocks(message)
        elif message.role == "tool":
            blocks = [_result(position, message)]
        else:
            blocks = list(_blocks(position, message.parts))
        if not blocks:
            continue
        if written and written[-1]["role"] == role and role != "system":
            written[-1]["content"] += blocks
        else:
            written.append({"role": role, "content": blocks})
    if written and written[-1]["role"] == "assistant":
        _trim(written[-1]["content"])
    return written


def anthropic_tool(tool: ToolInfo) -> dict[str, Any]:
    """Write what a model is told about a tool; ``extra["anthropic"]`` of the tool is laid over it."""
    written: dict[str, Any] = {"name": tool.name, "description": tool.description}
    written["input_schema"] = tool.strict_parameters() if tool.strict else tool.parameters
    if tool.strict:
        written["strict"] = True
    return {**written, **tool.extra.get("anthropic", {})}


def _blocks(position: int, parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    """Write the parts of a message that is not the model's; text that is all blank is not allowed."""
    for part in parts:
        if isinstance(part, ProviderPart):
            if part.provider == "anthropic":
                yield {"type": part.type, **part.data}
        elif not isinstance(part, ReasoningPart) and not (isinstance(part, TextPart) and not part.text.strip()):
            yield {**_block(position, part), **{key: part.extra[key] for key in _KEPT if key in part.extra}}


def _block(position: int, part: Part) -> dict[str, Any]:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart():
            return {"type": "image", "source": _source(part, "image/png", part.extra.get("file_id"))}
        case FilePart():
            title = {"title": part.name} if part.name else {}
            if part.data is not None and part.mime_type.startswith("text/"):
                text = part.to_bytes().decode("utf-8", errors="replace")
                return {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": text},
                    **title,
                }
            return {"type": "document", "source": _source(part, "application/pdf", part.file_id), **title}
        case _:
            raise refusal(_NAME, position, part, "give text, a picture or a file")


def _source(part: MediaPart, mime_type: str, file_id: str | None) -> dict[str, Any]:
    if file_id is not None:
        return {"type": "file", "file_id": file_id}
    if part.url is not None and not part.url.startswith("data:"):
        return {"type": "url", "url": part.url}
    if part.url is not None:
        kind, _, data = part.url.removeprefix("data:").partition(";base64,")
        return {"type": "base64", "media_type": kind or mime_type, "data": data}
    return {"type": "base64", "media_type": part.mime_type or mime_type, "data": plain_base64(part)}


def _assistant_blocks(message: Message) -> Blocks:
    """Write what the model put out, in its order."""
    found: list[tuple[int | None, dict[str, Any]]] = []
    for part in message.parts:
        if isinstance(part, ReasoningPart):
            found += [(part.index, block) for block in _thought(part)]
        elif isinstance(part, TextPart | ProviderPart):
            found += [(part.index, block) for block in _blocks(0, (part,))]
    found += [(call.index, _call(call)) for call in message.tool_calls]
    if all(index is not None for index, _ in found):
        found.sort(key=lambda numbered: numbered[0] or 0)
    return [block for _, block in found]


def _thought(part: ReasoningPart) -> Iterator[dict[str, Any]]:
    """Write a sealed thought unchanged; what is not sealed, or sealed by another provider, is not accepted."""
    if part.signature and "item" not in part.extra:
        if part.extra.get("redacted"):
            yield {"type": "redacted_thinking", "data": part.signature}
        else:
            yield {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _call(call: ToolCall) -> dict[str, Any]:
    about = {key: call.extra[key] for key in _OF_CALLS if key in call.extra}
    return {"type": "tool_use", "id": _id(call.id), "name": call.name, "input": _input(call.arguments), **about}


def _input(arguments: str) -> JsonObject:
    """Give the arguments as an object; those that are none are shown to the model as it wrote them."""
    if not arguments.strip():
        return {}
    try:
        value = json.loads(arguments)
    except json.JSONDecodeError:
        value = None
    return cast("JsonObject", value) if isinstance(value, dict) else {"malformed_arguments": arguments}


def _result(position: int, message: Message) -> dict[str, Any]:
    """Write the answer to a call."""
    written: dict[str, Any] = {"type": "tool_result", "tool_use_id": _id(message.tool_call_id or "")}
    if isinstance(message.content, str):
        content: str | Blocks = message.content
    else:
        content = list(_blocks(position, message.content))
    if content:
        written["content"] = content
    if message.is_error:
        written["is_error"] = True
    return {**written, **{key: message.extra[key] for key in ("cache_control",) if key in message.extra}}


def _id(call_id: str) -> str:
    """Write an id with the characters that the provider allows; others' ids may have more."""
    return _NOT_IN_IDS.sub("_", call_id)


def _trim(blocks: Blocks) -> None:
    """Take the blank end from the last text of a history that ends with the model's words: it is not allowed there."""
    if blocks[-1]["type"] == "text":
        blocks[-1]["text"] = blocks[-1]["text"].rstrip()
