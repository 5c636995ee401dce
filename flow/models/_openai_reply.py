"""What chat completions answer, whole or streamed, as messages.

Servers differ: reasoning stands under ``reasoning_content`` or ``reasoning``, tool calls may lack index or id or come
whole in one chunk, arguments may be an object, choices may be missing, usage may stand in the choice, and the finish
reason of a message with tool calls may be ``stop``. All of that is read as what it means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from ...schema import AudioPart, Message, Part, ProviderPart, ReasoningPart, TextPart, ToolCall, Usage
from ._provider_errors import Origin, reported
from ._provider_parts import count, other_counts, text_arguments, texts, without

__all__ = ()

JsonObject = Mapping[str, Any]

_FINISH = {"function_call": "tool_calls", "max_tokens": "length", "eos": "stop", "end_turn": "stop"}
_ABOUT = ("id", "model", "system_fingerprint", "service_tier")
_REASONING = ("reasoning_content", "reasoning")
_KNOWN_COUNTS = (
    ("prompt_tokens_details", "cached_tokens"),
    ("prompt_tokens_details", "cache_write_tokens"),
    ("completion_tokens_details", "reasoning_tokens"),
)
# The blocks of an answer that has more than text and thoughts; text itself has none, so that it stays plain.
_REFUSAL_BLOCK, _AUDIO_BLOCK, _TRANSCRIPT_BLOCK = 0, 1, 2


class ChatReader:
    """Reads one answer."""

    def __init__(self, origin: Origin, headers: Mapping[str, str]) -> None:
        self.ended = False
        self._origin = origin
        # What is said of the whole answer goes with the first chunk.
        self._about: dict[str, str] | None = origin.request_id(headers)
        self._calls = False
        self._refused = False

    def read(self, event: JsonObject) -> Iterator[Message]:
        """Give the chunk that an event makes, if it says anything."""
        self._check(event)
        choice = self._choice(event)
        if choice is None:
            self.ended = self.ended or bool(event.get("usage"))
        message = self._message(event, choice or {}, (choice or {}).get("delta") or {})
        if message is not None:
            yield message

    def whole(self, body: JsonObject) -> Message:
        """Give the message of an answer in one piece."""
        self._check(body)
        choice = self._choice(body)
        if choice is None:
            raise KeyError("choices")
        self.ended = True
        said = dict(choice["message"])
        calls = enumerate(cast("list[JsonObject]", said.get("tool_calls") or ()))
        said["tool_calls"] = [{"index": number, **call} for number, call in calls]
        return self._message(body, choice, said) or Message.assistant()

    def _check(self, body: JsonObject) -> None:
        if body.get("error"):
            raise reported(body, self._origin)

    def _choice(self, body: JsonObject) -> JsonObject | None:
        choices = cast("list[JsonObject]", body.get("choices") or ())
        return next((choice for choice in choices if choice.get("index", 0) in (0, None)), None)

    def _message(self, body: JsonObject, choice: JsonObject, said: JsonObject) -> Message | None:
        """Make a message of a delta or of a whole one; they have the same shape."""
        parts = list(self._parts(said))
        text: str = said["content"] if isinstance(said.get("content"), str) else ""
        content = [*parts, TextPart(text)] if parts and text else parts or text
        calls = [_read_call(call) for call in cast("list[JsonObject]", said.get("tool_calls") or ()) if _is_call(call)]
        self._calls = self._calls or bool(calls)
        counts: Any = body.get("usage") or choice.get("usage")
        usage = read_usage(counts) if counts else None
        extra = _also_said(choice, said)
        reason = self._finish(choice, extra)
        self._about = {**self._about, **texts(body, *_ABOUT)} if self._about is not None else None
        if not (content or calls or usage or reason or extra):
            return None
        extra = {**(self._about or {}), **extra}
        self._about = None
        return Message.assistant(content, tool_calls=calls, usage=usage, finish_reason=reason, extra=extra)

    def _finish(self, choice: JsonObject, extra: dict[str, Any]) -> str | None:
        """Read why the model stopped; the provider's own word stays in ``extra`` where ours is another."""
        word = choice.get("finish_reason")
        if not isinstance(word, str) or not word:
            return None
        self.ended = True
        reason = _FINISH.get(word, word)
        if reason == "stop" and self._calls:
            reason = "tool_calls"
        if reason == "stop" and self._refused:
            reason = "content_filter"
        if reason != word:
            extra["finish_reason"] = word
        return reason

    def _parts(self, said: JsonObject) -> Iterator[Part]:
        for field in _REASONING:
            if isinstance(said.get(field), str) and said[field]:
                yield ReasoningPart(said[field], extra={"field": field})
                break  # some servers send the same under both names
        if isinstance(said.get("content"), list):
            yield from _read_blocks(said["content"])
        if said.get("refusal"):
            self._refused = True
            yield TextPart(said["refusal"], index=_REFUSAL_BLOCK, extra={"refusal": True})
        audio = said.get("audio")
        if audio:
            yield AudioPart(data=audio.get("data"), index=_AUDIO_BLOCK, extra=without(audio, "data", "transcript"))
            if audio.get("transcript"):
                yield TextPart(audio["transcript"], index=_TRANSCRIPT_BLOCK, extra={"transcript": True})
        for call in cast("list[JsonObject]", said.get("tool_calls") or ()):
            if not _is_call(call):
                data = without(call, "type", "index")
                yield ProviderPart(provider="openai", type=str(call["type"]), data=data, index=call.get("index"))


def read_usage(counts: JsonObject) -> Usage:
    """Read what a call cost, by the names of several servers."""
    cached = count(counts, "prompt_tokens_details", "cached_tokens") or count(counts, "prompt_cache_hit_tokens")
    return Usage(
        input_tokens=count(counts, "prompt_tokens"),
        output_tokens=count(counts, "completion_tokens"),
        details=other_counts(counts, _KNOWN_COUNTS),
        cached_tokens=cached or count(counts, "cached_tokens"),
        cache_write_tokens=count(counts, "prompt_tokens_details", "cache_write_tokens"),
        reasoning_tokens=count(counts, "completion_tokens_details", "reasoning_tokens"),
    )


def _is_call(call: JsonObject) -> bool:
    return call.get("type") in (None, "", "function")


def _read_call(call: JsonObject) -> ToolCall:
    """Read a tool call or a fragment of one."""
    function: JsonObject = call.get("function") or {}
    index = call.get("index")
    return ToolCall(
        id=call.get("id") or "",
        name=function.get("name") or "",
        arguments=text_arguments(function.get("arguments")),
        index=index if isinstance(index, int) else None,
        extra=without(call, "id", "type", "index", "function"),
    )


def _read_blocks(blocks: list[JsonObject]) -> Iterator[Part]:
    """Read content that comes as blocks, as some servers send it."""
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)}:
                yield TextPart(text)
            case {"type": "thinking", "thinking": list()}:
                pieces = cast("list[JsonObject]", block["thinking"])
                yield ReasoningPart("".join(str(piece.get("text", "")) for piece in pieces))
            case _:
                yield ProviderPart(provider="openai", type=str(block["type"]), data=without(block, "type"))


def _also_said(choice: JsonObject, said: JsonObject) -> dict[str, Any]:
    """Keep what belongs to the text: citations, and how likely each token was."""
    extra: dict[str, Any] = {}
    if said.get("annotations"):
        extra["annotations"] = said["annotations"]
    likely: JsonObject = choice.get("logprobs") or {}
    if likely.get("content"):
        extra["logprobs"] = likely["content"]
    return extra
