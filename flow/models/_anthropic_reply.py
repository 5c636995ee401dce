"""What Anthropic answers, whole or streamed, as messages.

Each block has a place in the answer; that is the ``index`` of the part or call made of it. Blocks of kinds that are
not ours to interpret, such as the provider's own searches and their results, are kept as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ...schema import Message, Part, ProviderPart, ReasoningPart, TextPart, ToolCall, Usage, concat
from ._provider_errors import Origin, reported
from ._provider_parts import count, still_open, texts, without

__all__ = ()

JsonObject = Mapping[str, Any]

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


_NOT_OF_THE_END = ("content", "id", "model", "role", "stop_reason", "type", "usage")


class AnthropicReader:
    """Reads one answer."""

    def __init__(self, origin: Origin, headers: Mapping[str, str]) -> None:
        self.ended = False
        self._origin = origin
        self._about = origin.request_id(headers)
        self._opaque: dict[int, dict[str, Any]] = {}  # blocks that are put together here, since nobody else knows how
        self._inputs: dict[int, str] = {}  # the arguments of such blocks, and of calls that have them at once
        self._unclosed: int | None = None  # such a call, until it is known whether the answer was cut off in it

    def read(self, event: JsonObject) -> Iterator[Message]:
        """Give the chunks that an event makes."""
        match event.get("type"):
            case "message_start":
                message = event["message"]
                extra = {**self._about, **texts(message, "id", "model")}
                yield Message.assistant(extra=extra, usage=_usage(message.get("usage") or {}))
            case "content_block_start":
                yield from self._close()
                yield from self._start(event["index"], event["content_block"])
            case "content_block_delta":
                yield from self._delta(event["index"], event["delta"])
            case "content_block_stop":
                yield from self._stop(event["index"])
            case "message_delta":
                end = _end(event["delta"], event.get("usage") or {})
                if end.finish_reason == "length":
                    self._unclosed = None
                elif end.finish_reason is not None:
                    yield from self._close()
                yield end
            case "message_stop":
                yield from self._close()
                self.ended = True
            case "error":
                raise reported(event, self._origin)
            case _:
                return

    def whole(self, body: JsonObject) -> Message:
        """Give the message of an answer in one piece."""
        if body.get("type") == "error":
            raise reported(body, self._origin)
        chunks = [Message.assistant(extra={**self._about, **texts(body, "id", "model")})]
        blocks = cast("list[JsonObject]", body["content"])
        end = _end(body, body.get("usage") or {})
        for index, block in enumerate(blocks):
            is_cut = end.finish_reason == "length" and index == len(blocks) - 1 and block["type"] == "tool_use"
            chunks.append(_cut_call(index, block) if is_cut else _whole_block(index, block))
        return concat([*chunks, end])

    def _start(self, index: int, block: JsonObject) -> Iterator[Message]:
        match block["type"]:
            case "tool_use":
                yield _call(index, block, arguments="")
                if block.get("input"):  # should come in pieces; some servers give it here
                    self._inputs[index] = json.dumps(block["input"], ensure_ascii=False)
            case "text" | "thinking" | "redacted_thinking":
                yield _whole_block(index, block)
            case _:
                self._opaque[index] = dict(block)

    def _delta(self, index: int, delta: JsonObject) -> Iterator[Message]:
        opaque = self._opaque.get(index)
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                yield _parts(TextPart(text, index=index))
            case {"type": "input_json_delta", "partial_json": str(piece)}:
                if opaque is None:
                    self._inputs.pop(index, None)
                    yield _piece(index, piece)
                else:
                    self._inputs[index] = self._inputs.get(index, "") + piece
            case {"type": "thinking_delta", "thinking": str(text)}:
                yield _parts(ReasoningPart(text, index=index))
            case {"type": "signature_delta", "signature": str(seal)}:
                yield _parts(ReasoningPart(signature=seal, index=index))
            case {"type": "citations_delta", "citation": citation}:
                yield _parts(TextPart("", index=index, extra={"citations": [citation]}))
            case _ if opaque is not None:
                _add_unknown(opaque, delta)
            case _:
                return

    def _stop(self, index: int) -> Iterator[Message]:
        """Give what was put together here."""
        block, arguments = self._opaque.pop(index, None), self._inputs.pop(index, "")
        if block is not None:
            if arguments:
                block["input"] = _read_input(arguments)
            yield _whole_block(index, block)
        elif arguments:
            self._unclosed = index
            yield _piece(index, still_open(arguments))

    def _close(self) -> Iterator[Message]:
        """Give the last brace of a call in which the answer did not end."""
        index, self._unclosed = self._unclosed, None
        if index is not None:
            yield _piece(index, "}")


def _end(last: JsonObject, counts: JsonObject) -> Message:
    """Give the chunk that says how the answer ended and what it cost."""
    word = last.get("stop_reason")
    extra = without(last, *_NOT_OF_THE_END)
    reason = None if word is None else _FINISH.get(word, word)
    if reason != word:
        extra["finish_reason"] = word
    return Message.assistant(usage=_usage(counts), finish_reason=reason, extra=extra)


def _usage(counts: JsonObject) -> Usage:
    """Read what the call cost so far; the provider counts what is cached apart from the rest of the input."""
    read, written = count(counts, "cache_read_input_tokens"), count(counts, "cache_creation_input_tokens")
    tools: JsonObject = counts.get("server_tool_use") or {}
    return Usage(
        input_tokens=count(counts, "input_tokens") + read + written,
        output_tokens=count(counts, "output_tokens"),
        details={f"server_tool_use.{name}": value for name, value in tools.items() if isinstance(value, int) and value},
        cached_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count(counts, "output_tokens_details", "thinking_tokens"),
    )


def _whole_block(index: int, block: JsonObject) -> Message:
    match block:
        case {"type": "text", "text": str(text)}:
            notes = block.get("citations")
            return _parts(TextPart(text, index=index, extra={"citations": notes} if notes else {}))
        case {"type": "thinking", "thinking": str(text)}:
            return _parts(ReasoningPart(text, signature=block.get("signature") or "", index=index))
        case {"type": "redacted_thinking", "data": str(seal)}:
            return _parts(ReasoningPart(signature=seal, index=index, extra={"redacted": True}))
        case {"type": "tool_use"}:
            return _call(index, block, arguments=json.dumps(block["input"], ensure_ascii=False))
        case _:
            return _parts(
                ProviderPart(provider="anthropic", type=block["type"], data=without(block, "type"), index=index)
            )


def _cut_call(index: int, block: JsonObject) -> Message:
    """Give the call in which an answer ended: its object holds what came of the arguments, so it stays open here."""
    return _call(index, block, arguments=still_open(json.dumps(block["input"], ensure_ascii=False)))


def _parts(*parts: Part) -> Message:
    return Message.assistant(parts)


def _call(index: int, block: JsonObject, *, arguments: str) -> Message:
    extra = without(block, "type", "id", "name", "input")
    return Message.assistant(
        tool_calls=[ToolCall(index=index, id=block["id"], name=block["name"], arguments=arguments, extra=extra)]
    )


def _piece(index: int, arguments: str) -> Message:
    return Message.assistant(tool_calls=[ToolCall(index=index, arguments=arguments)])


def _read_input(arguments: str) -> Any:
    """Read the arguments of the provider's own tool; they are cut off when the answer is."""
    try:
        return json.loads(arguments)
    except json.JSONDecodeError:
        return {}


def _add_unknown(block: dict[str, Any], delta: JsonObject) -> None:
    """Add what a delta of an unknown kind says to its block: text to text, else in its place."""
    for key, value in delta.items():
        if key != "type":
            known = block.get(key)
            block[key] = known + value if isinstance(known, str) and isinstance(value, str) else value
