"""A history as the input items of OpenAI's responses.

What the model put out is one list of items: thoughts, texts, calls, searches, in an order that matters to the provider.
In a message they stand apart; the ``index`` of each part and call is the item's place in that list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...schema import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolInfo,
)
from ._provider_parts import data_url, plain_base64, refusal, texts

__all__ = ()

JsonObject = Mapping[str, Any]

_NAME = "OpenAIResponses"
_KEPT = ("prompt_cache_breakpoint",)
_OF_CALLS = ("namespace", "caller")


def input_items(messages: Sequence[Message], *, stored: bool) -> list[dict[str, Any]]:
    """Write a history.

    Args:
        messages: The history.
        stored: Whether the provider keeps what it put out, so that its id is enough.

    Returns:
        The provider's items.

    Raises:
        MessageError: A part is of a kind that responses do not have.
    """
    items: list[dict[str, Any]] = []
    for position, message in enumerate(messages):
        if message.role == "assistant":
            items += _output_items(message, stored=stored)
        elif message.role == "tool":
            output = _content(position, message, items)
            items.append({"type": "function_call_output", "call_id": message.tool_call_id or "", "output": output})
        elif content := _content(position, message, items):
            items.append({"role": message.role, "content": content})
    return items


def response_tool(tool: ToolInfo) -> dict[str, Any]:
    """Write what a model is told about a tool; ``extra["openai"]`` of the tool is laid over it."""
    parameters = tool.strict_parameters() if tool.strict else tool.parameters
    written = {"type": "function", "name": tool.name, "description": tool.description, "parameters": parameters}
    return {**written, "strict": tool.strict, **tool.extra.get("openai", {})}


def _content(position: int, message: Message, items: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Write the content of a message that is not the model's; items of their own go to the others."""
    if isinstance(message.content, str):
        return message.content
    blocks: list[dict[str, Any]] = []
    for part in message.content:
        if isinstance(part, ProviderPart):
            if part.provider == "openai":
                place = blocks if part.type.startswith("input_") else items
                place.append({"type": part.type, **part.data})
        elif not isinstance(part, ReasoningPart):
            blocks.append({**_block(position, part), **{key: part.extra[key] for key in _KEPT if key in part.extra}})
    return blocks


def _block(position: int, part: Part) -> dict[str, Any]:
    match part:
        case TextPart():
            return {"type": "input_text", "text": part.text}
        case ImagePart():
            detail = part.detail or "auto"
            if "file_id" in part.extra:
                return {"type": "input_image", "file_id": part.extra["file_id"], "detail": detail}
            return {"type": "input_image", "image_url": data_url(part, "image/png"), "detail": detail}
        case AudioPart(data=str()):
            kind = part.mime_type.partition("/")[2].partition(";")[0]
            form = "mp3" if kind in ("mpeg", "mp3") else "wav"
            return {"type": "input_audio", "input_audio": {"data": plain_base64(part), "format": form}}
        case FilePart(file_id=str()):
            return {"type": "input_file", "file_id": part.file_id}
        case FilePart(url=str()):
            return {"type": "input_file", "file_url": part.url}
        case FilePart(data=str()):
            data = data_url(part, "application/pdf")
            return {"type": "input_file", "filename": part.name or "file.pdf", "file_data": data}
        case _:
            raise refusal(_NAME, position, part, "give a picture, a file, or sound with its data")


def _output_items(message: Message, *, stored: bool) -> list[dict[str, Any]]:
    """Write what the model put out, in its order."""
    thoughts = any(_is_kept(part, stored=stored) for part in message.parts)
    found: list[tuple[int | None, dict[str, Any]]] = []
    for part in message.parts:
        found += [(part.index, item) for item in _output_item(part, thoughts=thoughts, stored=stored)]
    found += [(call.index, _call(call, thoughts=thoughts)) for call in message.tool_calls]
    if all(index is not None for index, _ in found):
        found.sort(key=lambda numbered: numbered[0] or 0)
    items: list[dict[str, Any]] = []
    for _, item in found:
        if items and "id" in item and items[-1].get("id") == item["id"] and "content" in item:
            items[-1]["content"] += item["content"]  # the texts of one item
        else:
            items.append(item)
    return items


def _output_item(part: Part, *, thoughts: bool, stored: bool) -> Iterator[dict[str, Any]]:
    if isinstance(part, ReasoningPart) and _is_kept(part, stored=stored):
        yield {**part.extra["item"], **({"encrypted_content": part.signature} if part.signature else {})}
    elif isinstance(part, ProviderPart) and part.provider == "openai":
        yield {"type": part.type, **part.data}
    elif isinstance(part, TextPart) and part.text:
        if part.extra.get("refusal"):
            block: dict[str, Any] = {"type": "refusal", "refusal": part.text}
        else:
            block = {"type": "output_text", "text": part.text, "annotations": part.extra.get("annotations", [])}
        # An item's id ties it to the thoughts before it; without these it goes as a text of its own.
        if thoughts and "id" in part.extra:
            about = texts(part.extra, "id", "phase")
            yield {"type": "message", "role": "assistant", "status": "completed", "content": [block], **about}
        else:
            yield {"role": "assistant", "content": part.text, **texts(part.extra, "phase")}


def _is_kept(part: Part, *, stored: bool) -> bool:
    """Whether a part is a thought that the provider can read again."""
    return isinstance(part, ReasoningPart) and "item" in part.extra and bool(stored or part.signature)


def _call(call: ToolCall, *, thoughts: bool) -> dict[str, Any]:
    written = {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments or "{}"}
    about = {key: call.extra[key] for key in _OF_CALLS if key in call.extra}
    return {**written, **about, **(texts(call.extra, "id") if thoughts else {})}
