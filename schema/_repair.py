"""Tool calls that a model wrote into its text, turned into tool calls: opt-in.

Some models, most of all when streaming, write a call where only text should be: as a fenced JSON block, between the
marks of their own prompt format, or as content parts that hold name, arguments and id. A server that knows the format
takes them out; where one does not, :func:`repair_tool_calls` does. Only a call of a tool that is on offer counts, so
JSON that a model merely talks about stays text.
"""

from __future__ import annotations

import re
from binascii import crc32
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import from_json, to_json

from ._message import Message, ToolCall
from ._parts import Part, ProviderPart, TextPart

if TYPE_CHECKING:
    from ._tool_info import ToolInfo

__all__ = ("repair_tool_calls",)

_NAME_KEYS = ("name", "tool", "tool_name", "function")
_ARGUMENT_KEYS = ("arguments", "args", "parameters", "input")
_ID_KEYS = ("id", "call_id", "tool_call_id")
_OTHER_KEYS = ("type", "index")
_KEYS = frozenset((*_NAME_KEYS, *_ARGUMENT_KEYS, *_ID_KEYS, *_OTHER_KEYS))

# What may hold calls: the JSON in group "json", and the name in group "name" where the JSON has only the arguments.
_FENCE = r"```[\w-]*[ \t]*\n(?P<json>.*?)\n?[ \t]*```"
_TAGGED = r"<tool_call>\s*(?P<json>.*?)\s*(?:</tool_call>|\Z)"
_DEEPSEEK = (
    r"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?(?P<name>[\w.-]+)(?:<｜tool▁sep｜>)?\s*"
    r"(?:```(?:json)?\s*)?(?P<json>\{.*?\})\s*(?:```)?\s*<｜tool▁call▁end｜>"
)
_MARKS = r"<｜tool▁calls▁(?:begin|end)｜>"

_Found = tuple[str, str, str]
"""A call that was found in the content: its id, name and arguments."""


@cache
def _blocks() -> tuple[re.Pattern[str], ...]:
    """Compile the patterns, once they are needed."""
    return tuple(re.compile(pattern, re.DOTALL) for pattern in (_DEEPSEEK, _TAGGED, _FENCE))


def repair_tool_calls(message: Message, tools: Iterable[str | ToolInfo]) -> Message:
    """Turn tool calls that stand in the content of a message into proper ones.

    Args:
        message: A whole message, not a chunk. One that has tool calls already, and one that is not an assistant's, is
            left alone.
        tools: The tools on offer, or their names; a call of any other stays text.

    Returns:
        A message with the calls in ``tool_calls`` and the rest of the content as it was; the same message if no call
        was found. A call that has no id gets one made of what it says.

    Example:
        >>> wrote = Message.assistant('Let me see. <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>')
        >>> print(repair_tool_calls(wrote, ["add"]))
        assistant: Let me see.
          [tool call] call_6ae45c88: add({"a":1})
          [finish reason] tool_calls
    """
    if message.role != "assistant" or message.tool_calls:
        return message
    known = frozenset(tool if isinstance(tool, str) else tool.name for tool in tools)
    found: list[_Found] = []
    content: str | tuple[Part, ...]
    if isinstance(message.content, str):
        content = _take_from_text(message.content, known, found)
    else:
        content = tuple(rest for part in message.content for rest in _take_from_part(part, known, found))
    if not found:
        return message
    reason = "tool_calls" if message.finish_reason in (None, "stop") else message.finish_reason
    calls = tuple(_build(number, call) for number, call in enumerate(found))
    return message.model_copy(update={"content": content or "", "tool_calls": calls, "finish_reason": reason})


def _build(number: int, call: _Found) -> ToolCall:
    # The made-up id is the same each time, so that a run that is replayed sees the same message.
    call_id, name, arguments = call
    made_up = f"call_{crc32(f'{number} {name} {arguments}'.encode()):08x}"
    return ToolCall(id=call_id or made_up, name=name, arguments=arguments)


def _take_from_part(part: Part, known: frozenset[str], found: list[_Found]) -> Iterable[Part]:
    """Take the calls out of a part; what is left of it stays."""
    if isinstance(part, TextPart):
        before = len(found)
        rest = _take_from_text(part.text, known, found)
        if len(found) == before:
            yield part
        elif rest:
            yield part.model_copy(update={"text": rest})
        return
    if isinstance(part, ProviderPart):
        data = {**part.data}
        if part.text and not any(key in data for key in _ARGUMENT_KEYS):
            data["arguments"] = part.text
        call = _read_call(data, known)
        if call is not None:
            found.append(call)
            return
    yield part


def _take_from_text(text: str, known: frozenset[str], found: list[_Found]) -> str:
    """Take the calls out of a text; without any, it comes back as it is."""
    if not ("{" in text and any(name in text for name in known)):
        return text
    whole = _read_json(text, known)
    if whole:
        found += whole
        return ""
    taken = False
    for pattern in _blocks():
        rest: list[str] = []
        end = 0
        for match in pattern.finditer(text):
            calls = _read_match(match, known)
            if calls:
                found += calls
                rest.append(text[end : match.start()])
                end = match.end()
                taken = True
        text = "".join((*rest, text[end:]))
    return re.sub(_MARKS, "", text).strip() if taken else text


def _read_match(match: re.Match[str], known: frozenset[str]) -> list[_Found]:
    name = match.groupdict().get("name")
    if name is None:
        return _read_json(match["json"], known)
    arguments = _read_arguments(match["json"])
    return [("", name, arguments)] if name in known and arguments is not None else []


def _read_json(text: str, known: frozenset[str]) -> list[_Found]:
    """Read a call, or a list of nothing but calls; anything else gives none."""
    try:
        value = from_json(text.strip())
    except ValueError:
        return []
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    calls = [_read_call(item, known) for item in items]
    whole = [call for call in calls if call is not None]
    return whole if len(whole) == len(calls) else []


def _read_call(value: object, known: frozenset[str]) -> _Found | None:
    """Read an object as a call of a known tool; it must have a name, arguments, and nothing that a call has not."""
    if not isinstance(value, Mapping):
        return None
    fields = {str(key): item for key, item in cast("Mapping[object, Any]", value).items()}
    inner = fields.get("function")
    if isinstance(inner, Mapping):
        fields = {**fields, **cast("Mapping[str, Any]", inner)}
        del fields["function"]
    if not _KEYS.issuperset(fields):
        return None
    name = next((fields[key] for key in _NAME_KEYS if key in fields), None)
    arguments = next((_read_arguments(fields[key]) for key in _ARGUMENT_KEYS if key in fields), None)
    if not isinstance(name, str) or name not in known or arguments is None:
        return None
    call_id = next((fields[key] for key in _ID_KEYS if isinstance(fields.get(key), str)), "")
    return call_id, name, arguments


def _read_arguments(value: object) -> str | None:
    """Read arguments, an object or its JSON text; ``None`` if they are neither."""
    if isinstance(value, Mapping):
        return to_json(dict(cast("Mapping[str, Any]", value))).decode()
    if not isinstance(value, str):
        return None
    try:
        return value if isinstance(from_json(value), dict) else None
    except ValueError:
        return None
