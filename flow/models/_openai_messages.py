"""A history as the messages of OpenAI's chat completions, and of the many servers that speak the same."""

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
    VideoPart,
)
from ._provider_parts import data_url, last_user_position, plain_base64, refusal

__all__ = ()

JsonObject = Mapping[str, Any]

_NAME = "OpenAIChat"
_AUDIO_FORMATS = {"mpeg": "mp3", "mp3": "mp3", "wav": "wav", "x-wav": "wav", "wave": "wav"}
_KEPT = ("prompt_cache_breakpoint",)


def chat_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Write a history.

    Reasoning goes back under the name under which it came, for the turn that is not finished yet: servers that
    think between tool calls want it, and those that do not send it never see it.

    Args:
        messages: The history.

    Returns:
        The provider's messages.

    Raises:
        MessageError: A part is of a kind that chat completions do not have.
    """
    turn = last_user_position(messages)
    written: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []  # pictures that tools gave: a tool message holds text only
    for position, message in enumerate(messages):
        if message.role != "tool" and shown:
            written.append({"role": "user", "content": shown})
            shown = []
        if message.role == "assistant":
            written.append(_assistant(position, message, think=position > turn))
        elif message.role == "tool":
            written.append(_tool(position, message, shown))
        else:
            written.append(_named(message, {"role": message.role, "content": _content(position, message)}))
    if shown:
        written.append({"role": "user", "content": shown})
    return written


def chat_tool(tool: ToolInfo) -> dict[str, Any]:
    """Write what a model is told about a tool; ``extra["openai"]`` of the tool is laid over it."""
    function: dict[str, Any] = {"name": tool.name, "description": tool.description}
    function["parameters"] = tool.strict_parameters() if tool.strict else tool.parameters
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": {**function, **tool.extra.get("openai", {})}}


def _named(message: Message, written: dict[str, Any]) -> dict[str, Any]:
    return {**written, "name": message.name} if message.name else written


def _content(position: int, message: Message) -> str | list[dict[str, Any]]:
    blocks = [] if isinstance(message.content, str) else list(_blocks(position, message.content))
    if any(block.keys() != {"type", "text"} for block in blocks):
        return blocks
    return message.text  # some servers take nothing but text


def _blocks(position: int, parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    """Write the parts of a user's message."""
    for part in parts:
        if isinstance(part, ProviderPart):
            if part.provider == "openai":
                yield {"type": part.type, **part.data}
        elif not isinstance(part, ReasoningPart):
            kept = {key: part.extra[key] for key in _KEPT if key in part.extra}
            yield {**_block(position, part), **kept}


def _block(position: int, part: Part) -> dict[str, Any]:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart():
            detail = {"detail": part.detail} if part.detail else {}
            return {"type": "image_url", "image_url": {"url": data_url(part, "image/png"), **detail}}
        case AudioPart(data=str()):
            kind = part.mime_type.partition("/")[2].partition(";")[0]
            form = _AUDIO_FORMATS.get(kind, kind or "wav")
            return {"type": "input_audio", "input_audio": {"data": plain_base64(part), "format": form}}
        case FilePart(file_id=str()):
            return {"type": "file", "file": {"file_id": part.file_id}}
        case FilePart(data=str()):
            file = {"filename": part.name or "file.pdf", "file_data": data_url(part, "application/pdf")}
            return {"type": "file", "file": file}
        case VideoPart():  # not OpenAI's, but what Qwen's and vLLM's servers take
            return {"type": "video_url", "video_url": {"url": data_url(part, "video/mp4")}}
        case _:
            raise refusal(_NAME, position, part, "give it with its data, or a file by its file_id")


def _assistant(position: int, message: Message, *, think: bool) -> dict[str, Any]:
    written: dict[str, Any] = _named(message, {"role": "assistant", "content": message.content})
    if not isinstance(message.content, str):
        written["content"] = _said(message.content)
        written |= _audio(message.content)
        if think:
            written |= _thoughts(message.content)
    calls = [_call(call) for call in message.tool_calls] + [
        {"type": part.type, **part.data}
        for part in message.parts
        if isinstance(part, ProviderPart) and part.provider == "openai"
    ]
    if calls:
        written["tool_calls"] = calls
        written["content"] = written["content"] or None
    return written


def _said(parts: Sequence[Part]) -> str | list[dict[str, Any]]:
    """Write what a model said; a refusal is marked as one."""
    said = [part for part in parts if isinstance(part, TextPart) and not part.extra.get("transcript")]
    if not any(part.extra.get("refusal") for part in said):
        return "".join(part.text for part in said)
    return [
        {"type": "refusal", "refusal": part.text} if part.extra.get("refusal") else {"type": "text", "text": part.text}
        for part in said
    ]


def _audio(parts: Sequence[Part]) -> dict[str, Any]:
    """Refer to sound that the model made by the id that it has there."""
    ids = [part.extra["id"] for part in parts if isinstance(part, AudioPart) and "id" in part.extra]
    return {"audio": {"id": ids[-1]}} if ids else {}


def _thoughts(parts: Sequence[Part]) -> dict[str, str]:
    """Write reasoning under the name under which it came; what came from elsewhere is left out."""
    found: dict[str, str] = {}
    for part in parts:
        if isinstance(part, ReasoningPart) and "field" in part.extra:
            field = str(part.extra["field"])
            found[field] = found.get(field, "") + part.text
    return found


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = call.arguments if call.arguments.strip() else "{}"
    extra = {key: value for key, value in call.extra.items() if key == "extra_content"}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}, **extra}


def _tool(position: int, message: Message, shown: list[dict[str, Any]]) -> dict[str, Any]:
    """Write the answer to a call; what is no text goes into a message behind all answers of the turn."""
    content: str | list[dict[str, Any]] = message.text
    media = [part for part in message.parts if not isinstance(part, TextPart)]
    if media:
        label = f"What the tool {message.name!r} gave" if message.name else "What the tool gave"
        shown += [{"type": "text", "text": f"{label} (call {message.tool_call_id}):"}, *_blocks(position, media)]
        content = f"{message.text}\n(What else it gave follows in the next message.)".strip()
    return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": content}
