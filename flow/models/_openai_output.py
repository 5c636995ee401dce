"""What OpenAI's responses answer, whole or streamed, as messages.

Each item that the model puts out has a place in its output; that is the ``index`` of the parts and calls made of it.
Items of kinds that are not ours to interpret are kept as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from ...schema import Message, Part, ProviderPart, ReasoningPart, TextPart, ToolCall, Usage, concat
from ._provider_errors import Origin, reported
from ._provider_parts import count, other_counts, still_open, texts, without

__all__ = ()

JsonObject = Mapping[str, Any]

_FINISH = {"max_output_tokens": "length", "max_tokens": "length", "incomplete": "length"}
_KNOWN_COUNTS = (
    ("input_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cache_write_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
)


class ResponseReader:
    """Reads one answer."""

    def __init__(self, origin: Origin, headers: Mapping[str, str]) -> None:
        self.ended = False
        self._origin = origin
        self._about = origin.request_id(headers)
        self._streamed: set[int] = set()  # the items whose content has come in pieces
        self._annotated: set[int] = set()
        self._started: set[int] = set()  # the calls whose head has come
        self._calls = False
        self._refused = False

    def read(self, event: JsonObject) -> Iterator[Message]:
        """Give the chunks that an event makes; most events of the many kinds make none."""
        kind = str(event.get("type"))
        if kind in ("error", "response.failed"):
            raise reported(event.get("response") or event, self._origin)
        if kind == "response.created":
            about = {**self._about, **texts(event["response"], "id", "model", "service_tier")}
            yield Message.assistant(extra=about)
        elif kind == "response.output_item.added":
            yield from self._added(event["output_index"], event["item"])
        elif kind == "response.output_item.done":
            yield from self._done(event["output_index"], event["item"])
        elif kind in ("response.completed", "response.incomplete"):
            yield self._end(event["response"])
        elif kind in _DELTAS:
            index = event["output_index"]
            if kind.endswith(".delta"):
                self._streamed.add(index)
            elif kind == "response.output_text.annotation.added":
                self._annotated.add(index)
            self._refused = self._refused or kind == "response.refusal.delta"
            yield from _DELTAS[kind](index, event)

    def whole(self, body: JsonObject) -> Message:
        """Give the message of an answer in one piece."""
        if body.get("error") or body.get("status") == "failed":
            raise reported(body, self._origin)
        chunks = [Message.assistant(extra={**self._about, **texts(body, "id", "model", "service_tier")})]
        for index, item in enumerate(cast("list[JsonObject]", body["output"])):
            chunks += self._done(index, item)
        return concat([*chunks, self._end(body)])

    def _added(self, index: int, item: JsonObject) -> Iterator[Message]:
        if item["type"] == "function_call":
            self._started.add(index)
            self._calls = True
            yield _call(index, item, arguments=item.get("arguments") or "")
            if item.get("arguments"):
                self._streamed.add(index)

    def _done(self, index: int, item: JsonObject) -> Iterator[Message]:
        """Give what of an item has not come in pieces, and what is known of it only now."""
        said = index in self._streamed
        match item["type"]:
            case "function_call":
                self._calls = True
                arguments = "" if said else item.get("arguments") or ""
                if item.get("status") == "incomplete":
                    arguments = still_open(arguments)
                if index not in self._started:
                    yield _call(index, item, arguments=arguments)
                elif arguments:
                    yield _piece(index, arguments)
            case "message":
                about = texts(item, "id", "phase")
                yield _parts(TextPart("", index=index, extra=about))
                for part in self._texts(index, item):
                    if not said:
                        yield _parts(part)
                    elif index not in self._annotated:
                        yield _parts(TextPart("", index=index, extra=part.extra))
            case "reasoning":
                text = "" if said else _thought(item)
                kept = without(item, "encrypted_content", "status")
                yield _parts(
                    ReasoningPart(
                        text, signature=item.get("encrypted_content") or "", index=index, extra={"item": kept}
                    )
                )
            case kind:
                yield _parts(ProviderPart(provider="openai", type=str(kind), data=without(item, "type"), index=index))

    def _texts(self, index: int, item: JsonObject) -> Iterator[TextPart]:
        for block in cast("list[JsonObject]", item.get("content") or ()):
            if block["type"] == "refusal":
                self._refused = True
                yield TextPart(block["refusal"], index=index, extra={"refusal": True})
            else:
                notes = block.get("annotations")
                yield TextPart(block.get("text") or "", index=index, extra={"annotations": notes} if notes else {})

    def _end(self, response: JsonObject) -> Message:
        """Give the chunk that says how the answer ended and what it cost."""
        self.ended = True
        status = response.get("status")
        extra: dict[str, Any] = {}
        reason = "tool_calls" if self._calls else "content_filter" if self._refused else "stop"
        if status != "completed":
            details: JsonObject = response.get("incomplete_details") or {}
            word = str(details.get("reason") or status)
            reason = _FINISH.get(word, word)
            extra = {"finish_reason": word} if word != reason else {}
        counts = response.get("usage")
        usage = _usage(counts) if counts else None
        return Message.assistant(usage=usage, finish_reason=reason, extra=extra)


def _usage(counts: JsonObject) -> Usage:
    return Usage(
        input_tokens=count(counts, "input_tokens"),
        output_tokens=count(counts, "output_tokens"),
        details=other_counts(counts, _KNOWN_COUNTS),
        cached_tokens=count(counts, "input_tokens_details", "cached_tokens"),
        cache_write_tokens=count(counts, "input_tokens_details", "cache_write_tokens"),
        reasoning_tokens=count(counts, "output_tokens_details", "reasoning_tokens"),
    )


def _parts(*parts: Part) -> Message:
    return Message.assistant(parts)


def _call(index: int, item: JsonObject, *, arguments: str) -> Message:
    extra = without(item, "type", "call_id", "name", "arguments", "status")
    call = ToolCall(index=index, id=item["call_id"], name=item["name"], arguments=arguments, extra=extra)
    return Message.assistant(tool_calls=[call])


def _piece(index: int, arguments: str) -> Message:
    return Message.assistant(tool_calls=[ToolCall(index=index, arguments=arguments)])


def _thought(item: JsonObject) -> str:
    """Give what can be read of a thought: its summary, else itself."""
    pieces = cast("list[JsonObject]", item.get("summary") or item.get("content") or ())
    return "\n\n".join(str(piece.get("text", "")) for piece in pieces)


def _delta_of_text(index: int, event: JsonObject) -> Iterator[Message]:
    yield _parts(TextPart(event["delta"], index=index))


def _delta_of_refusal(index: int, event: JsonObject) -> Iterator[Message]:
    yield _parts(TextPart(event["delta"], index=index, extra={"refusal": True}))


def _delta_of_thought(index: int, event: JsonObject) -> Iterator[Message]:
    yield _parts(ReasoningPart(event["delta"], index=index))


def _next_thought(index: int, event: JsonObject) -> Iterator[Message]:
    if event.get("summary_index"):
        yield _parts(ReasoningPart("\n\n", index=index))


def _annotation(index: int, event: JsonObject) -> Iterator[Message]:
    yield _parts(TextPart("", index=index, extra={"annotations": [event["annotation"]]}))


def _delta_of_call(index: int, event: JsonObject) -> Iterator[Message]:
    yield _piece(index, event["delta"])


_DELTAS: dict[str, Callable[[int, JsonObject], Iterator[Message]]] = {
    "response.output_text.delta": _delta_of_text,
    "response.output_text.annotation.added": _annotation,
    "response.refusal.delta": _delta_of_refusal,
    "response.reasoning_summary_part.added": _next_thought,
    "response.reasoning_summary_text.delta": _delta_of_thought,
    "response.reasoning_text.delta": _delta_of_thought,
    "response.function_call_arguments.delta": _delta_of_call,
}
