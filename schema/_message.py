"""The one kind of message: what users, models and tools say to each other.

Messages are frozen pydantic models. Sharing them between branches, a state and the caller is safe; a change
makes a new one (``message.model_copy(update={...})``, or build it anew). What hangs on them is read-only too,
so they can be hashed.

A *chunk* of a streamed message is a message itself: :func:`concat` makes the whole of the chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import BaseModel, model_validator
from typing_extensions import override

from ._frozen import EMPTY, Extra, JsonObject, Value, freeze_mapping
from ._parts import Part, ReasoningPart, TextPart
from ._usage import Usage

__all__ = ("Content", "Message", "Role", "ToolCall")

Role = Literal["system", "user", "assistant", "tool"]
"""Who speaks."""

Content = str | Part | Iterable[str | Part]
"""What a message can be made from: text, a part, or several of both."""

_set = object.__setattr__


class ToolCall(Value, frozen=True):
    """A model's wish to have a tool run, or in a stream a fragment of such a call."""

    id: str = ""
    """By what the answer refers to the call; empty where a server gives none."""
    name: str = ""
    """The tool's name."""
    arguments: str = ""
    """A JSON object, as text, exactly as the model wrote it: it may be malformed."""
    index: int | None = None
    """The call's number in a stream: fragments of one index belong together. ``None`` is not 0."""
    extra: Extra = EMPTY
    """What else the provider said of this call (a JSON object)."""

    @override
    def __str__(self) -> str:
        label = self.id or ("" if self.index is None else f"#{self.index}")
        return f"{label + ': ' if label else ''}{self.name or '?'}({self.arguments})"


class Message(Value, frozen=True):
    """A message of a conversation, or a chunk of one that is being streamed.

    Example:
        >>> question = Message.user("What is 6 x 7?")
        >>> answer = Message.assistant("42", reasoning="Easy.")
        >>> answer.text, answer.reasoning
        ('42', 'Easy.')
        >>> print(answer)
        assistant: 42
          [reasoning] Easy.
    """

    role: Role
    """Who speaks."""
    content: str | tuple[Part, ...] = ""
    """What is said: plain text, or parts in their order. Lists, and bare text in them, are converted."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The tools that an assistant wants to have run."""
    tool_call_id: str | None = None
    """In a tool message: the call that this answers."""
    name: str | None = None
    """Who of that role speaks; in a tool message the tool's name."""
    is_error: bool = False
    """In a tool message: the tool failed, and the content says how."""
    usage: Usage | None = None
    """What the message cost; where chunks of a stream report it, :attr:`Usage.mode` says how that adds up."""
    finish_reason: str | None = None
    """Why the model stopped: ``stop``, ``tool_calls``, ``length``, ``content_filter``, or another word."""
    extra: Extra = EMPTY
    """What else the provider said: a read-only JSON object, copied when the message is made."""

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913  (one per field)
            self,
            *,
            role: Role,
            content: Content = "",
            tool_calls: Iterable[ToolCall] = (),
            tool_call_id: str | None = None,
            name: str | None = None,
            reasoning: str | None = None,
            is_error: bool = False,
            usage: Usage | None = None,
            finish_reason: str | None = None,
            extra: JsonObject = EMPTY,
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _accept_shorthands(cls, data: Any) -> Any:
        """Take ``reasoning=``, a bare part, and bare text among the parts."""
        if not isinstance(data, dict):
            return data
        fields = cast("dict[str, Any]", data)
        reasoning = fields.get("reasoning")
        content = fields.get("content", "")
        if reasoning is None and isinstance(content, str) and "reasoning" not in fields:
            return fields
        fields = {key: value for key, value in fields.items() if key != "reasoning"}
        fields["content"] = _spread(content, reasoning)
        return fields

    @property
    def text(self) -> str:
        """The text of the message: its text parts, joined."""
        content = self.content
        if isinstance(content, str):
            return content
        return "".join([part.text for part in content if isinstance(part, TextPart)])

    @property
    def reasoning(self) -> str | None:
        """What the model thought: the text of its reasoning parts, joined; ``None`` when there is none to read."""
        content = self.content
        if isinstance(content, str):
            return None
        return "".join([part.text for part in content if isinstance(part, ReasoningPart)]) or None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts, also when it is plain text; empty text has none."""
        content = self.content
        if isinstance(content, str):
            return (TextPart(content),) if content else ()
        return content

    @classmethod
    def system(cls, content: Content, *, name: str | None = None, extra: JsonObject | None = None) -> Message:
        """Make a system message: what the model should know and obey.

        Args:
            content: Text or parts.
            name: Who speaks.
            extra: What else to keep with it.
        """
        return _make("system", content, name=name, extra=extra)

    @classmethod
    def user(cls, content: Content, *, name: str | None = None, extra: JsonObject | None = None) -> Message:
        """Make a user message.

        Args:
            content: Text, a part, or a list of both.
            name: Which user speaks.
            extra: What else to keep with it.
        """
        return _make("user", content, name=name, extra=extra)

    @classmethod
    def assistant(
        cls,
        content: Content = "",
        *,
        tool_calls: Iterable[ToolCall] = (),
        reasoning: str | None = None,
        name: str | None = None,
        usage: Usage | None = None,
        finish_reason: str | None = None,
        extra: JsonObject | None = None,
    ) -> Message:
        """Make a model's message, or a chunk of one.

        Args:
            content: Text, a part, or a list of both.
            tool_calls: The tools to run.
            reasoning: What the model thought before; a :class:`ReasoningPart` in front of the content.
            name: Which assistant speaks.
            usage: What the call cost.
            finish_reason: Why the model stopped.
            extra: What else to keep with it.
        """
        return _make("assistant", content, reasoning, tool_calls, None, name, False, usage, finish_reason, extra)

    @classmethod
    def tool(
        cls,
        content: Content,
        *,
        tool_call_id: str,
        name: str | None = None,
        is_error: bool = False,
        extra: JsonObject | None = None,
    ) -> Message:
        """Make the answer to a tool call.

        Args:
            content: What the tool gave: text, a part, or a list of both.
            tool_call_id: The id of the call that this answers.
            name: The tool's name.
            is_error: Whether the tool failed.
            extra: What else to keep with it.
        """
        return _make("tool", content, None, (), tool_call_id, name, is_error, None, None, extra)

    @override
    def __str__(self) -> str:
        lines = [f"{self.role}{f' ({self.name})' if self.name else ''}: {self.text}"]
        if not isinstance(self.content, str):
            lines += [_describe(part) for part in self.content if not isinstance(part, TextPart)]
        lines += [f"  [tool call] {call}" for call in self.tool_calls]
        if self.tool_call_id is not None:
            lines.append(f"  [{'error in' if self.is_error else 'answers'} call] {self.tool_call_id}")
        if self.finish_reason:
            lines.append(f"  [finish reason] {self.finish_reason}")
        if self.usage is not None:
            lines.append(f"  [usage] {self.usage.input_tokens} in, {self.usage.output_tokens} out")
        return "\n".join(lines)


_FIELDS = frozenset(
    ("role", "content", "tool_calls", "tool_call_id", "name", "is_error", "usage", "finish_reason", "extra")
)


def build_message(  # noqa: PLR0913, PLR0917  (one per field)
    role: Role,
    content: str | tuple[Part, ...],
    tool_calls: tuple[ToolCall, ...] = (),
    tool_call_id: str | None = None,
    name: str | None = None,
    is_error: bool = False,
    usage: Usage | None = None,
    finish_reason: str | None = None,
    extra: Mapping[str, Any] = EMPTY,
) -> Message:
    """Make a message of values that are known to be right already: no validation, a third of the time."""
    message = Message.__new__(Message)
    fields: dict[str, Any] = {
        "role": role,
        "content": content,
        "tool_calls": tool_calls,
        "tool_call_id": tool_call_id,
        "name": name,
        "is_error": is_error,
        "usage": usage,
        "finish_reason": finish_reason,
        "extra": extra,
    }
    _set(message, "__dict__", fields)
    _set(message, "__pydantic_fields_set__", set(_FIELDS))
    _set(message, "__pydantic_extra__", None)
    _set(message, "__pydantic_private__", None)
    return message


def build_call(
    id: str,
    name: str,
    arguments: str,
    index: int | None,
    extra: Mapping[str, Any],
) -> ToolCall:
    """Make a tool call of values that are known to be right already."""
    call = ToolCall.__new__(ToolCall)
    _set(
        call,
        "__dict__",
        {"id": id, "name": name, "arguments": arguments, "index": index, "extra": extra},
    )
    _set(call, "__pydantic_fields_set__", {"id", "name", "arguments", "index", "extra"})
    _set(call, "__pydantic_extra__", None)
    _set(call, "__pydantic_private__", None)
    return call


def _make(  # noqa: PLR0913, PLR0917  (one per field)
    role: Role,
    content: Content,
    reasoning: str | None = None,
    tool_calls: Iterable[ToolCall] = (),
    tool_call_id: str | None = None,
    name: str | None = None,
    is_error: bool = False,
    usage: Usage | None = None,
    finish_reason: str | None = None,
    extra: JsonObject | None = None,
) -> Message:
    """Make a message the quick way when its values are plainly right, else by full validation."""
    calls = tuple(tool_calls)
    texts = (tool_call_id, name, finish_reason)
    if (
        type(content) is str
        and reasoning is None
        and (texts == (None, None, None) or all(text is None or type(text) is str for text in texts))
        and (not calls or all(type(call) is ToolCall for call in calls))
        and (usage is None or type(usage) is Usage)
        and type(is_error) is bool
    ):
        frozen = freeze_mapping(extra) if extra else EMPTY
        return build_message(role, content, calls, tool_call_id, name, is_error, usage, finish_reason, frozen)
    return Message(
        role=role,
        content=content,
        tool_calls=calls,
        tool_call_id=tool_call_id,
        name=name,
        reasoning=reasoning,
        is_error=is_error,
        usage=usage,
        finish_reason=finish_reason,
        extra=extra or EMPTY,
    )


def _spread(content: Any, reasoning: str | None) -> Any:
    """Write the shorthands for content out; what is no content at all is left to pydantic's judgement."""
    if isinstance(content, BaseModel):
        content = (content,)
    if reasoning:
        content = (
            ReasoningPart(reasoning),
            *(((content,) if content else ()) if isinstance(content, str) else content),
        )
    if isinstance(content, str) or not isinstance(content, Iterable):
        return content
    if isinstance(content, Mapping):
        return (content,)
    items: list[Any] = list(cast("Iterable[object]", content))
    return tuple(TextPart(item) if isinstance(item, str) else item for item in items)


def _describe(part: Part) -> str:
    """Say in one line what a part is; data only by their size."""
    shown: list[str] = []
    for name, value in part:
        if name == "kind" or value in ("", None, (), EMPTY, False):
            continue
        if name == "data" and isinstance(value, str):
            shown.append(f"{len(value)} characters of base64")
        elif name == "text":
            shown.insert(0, str(value))
        else:
            shown.append(f"{name}={value}")
    return f"  [{part.kind}] {' '.join(shown)}"
