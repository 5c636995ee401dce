"""What a tool gives back, and how that becomes the content of a message."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_jsonable_python

from ._frozen import EMPTY, Extra, Value
from ._message import Message
from ._parts import AudioPart, FilePart, ImagePart, Part, ProviderPart, ResultPart, TextPart, VideoPart
from .errors import ToolResultError

__all__ = ("ToolOutput", "ToolResult", "tool_text")

_PARTS = (TextPart, ImagePart, AudioPart, VideoPart, FilePart, ProviderPart)

ToolOutput = Any | AsyncIterator[Any]
"""What running a tool gives: a value that JSON can say, a :class:`ToolResult`, or a stream of chunks of either."""


class ToolResult(Value, frozen=True):
    """A tool's result that is more than a value: pictures, files, several parts, or a failure.

    Example:
        >>> ToolResult("no such file", is_error=True).parts[0].text
        'no such file'
        >>> len(ToolResult(["The chart:", ImagePart(url="https://example.org/chart.png")]).parts)
        2
    """

    parts: tuple[ResultPart, ...] = ()
    """What the model gets to see, in order."""
    is_error: bool = False
    """Whether the tool failed, and the parts say how."""
    extra: Extra = EMPTY
    """What the program gets and the model does not: a read-only JSON object."""

    if TYPE_CHECKING:

        def __init__(
            self,
            parts: str | ResultPart | Iterable[str | ResultPart] = (),
            *,
            is_error: bool = False,
            extra: Any = EMPTY,
        ) -> None: ...

    else:

        def __init__(self, parts=(), **data):
            super().__init__(parts=_parts(parts), **data)


def _parts(parts: Any) -> Any:
    if isinstance(parts, (str, *_PARTS)):
        parts = (parts,)
    if isinstance(parts, Iterable):
        given = cast("Iterable[object]", parts)
        return tuple(TextPart(part) if isinstance(part, str) else part for part in given)
    return parts


def tool_text(result: object) -> str | tuple[Part, ...]:
    """Turn a tool's result into the content of the message that answers the call.

    A text stays as it is. A :class:`ToolResult`, a part, or a list of parts gives parts, and a single part that
    is text gives the text. Everything else becomes JSON: pydantic models, dataclasses, dates, enums, sets (sorted);
    ``None`` becomes ``null``. Lone surrogates, which no client can send, become U+FFFD.

    Args:
        result: One value; chunks of a stream are concatenated first.

    Returns:
        The content: text, or parts.

    Raises:
        ToolResultError: JSON cannot say the value; the text names the type.

    Example:
        >>> tool_text({"tide": "high", "metres": 4.2})
        '{"tide": "high", "metres": 4.2}'
        >>> tool_text("plain"), tool_text(None), tool_text(42)
        ('plain', 'null', '42')
    """
    if isinstance(result, str):
        return result if result.isascii() else sendable(result)
    if isinstance(result, ToolResult):
        return _content(result.parts)
    if isinstance(result, _PARTS):
        return _content((result,))
    if isinstance(result, Message):
        content = result.content
        return sendable(content) if isinstance(content, str) else tuple(map(_sendable_part, content))
    if isinstance(result, list | tuple):
        items: tuple[Any, ...] = tuple(cast("Iterable[object]", result))
        if items and all(isinstance(item, _PARTS) for item in items):
            return _content(items)
        return sendable(_to_json(cast("object", result)))
    text = _to_json(result)
    return text if text.isascii() else sendable(text)


def sendable(text: str) -> str:
    """Replace lone surrogates, which are no text that can be encoded; two that make a character become that."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _content(parts: tuple[Part, ...]) -> str | tuple[Part, ...]:
    if len(parts) == 1 and type(parts[0]) is TextPart and parts[0].index is None and not parts[0].extra:
        return sendable(parts[0].text)
    return tuple(map(_sendable_part, parts)) or ""


def _sendable_part(part: Part) -> Part:
    if not isinstance(part, TextPart) or (text := sendable(part.text)) is part.text:
        return part
    return part.model_copy(update={"text": text})


def _to_json(value: object) -> str:
    try:
        try:
            # The standard encoder asks `_plain` for what it does not know, so that sets are found at any depth.
            return _encode(value)
        except TypeError:  # keys that are no text, such as dates
            return json.dumps(_plain(value), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:  # pydantic's own are ValueErrors
        raise ToolResultError(
            f"a tool gave a value of type {type(value).__name__}, which cannot be written as JSON: {error}; "
            "return text, JSON values, models or dataclasses, or a ToolResult"
        ) from error


def _plain(value: object) -> object:
    if isinstance(value, set | frozenset):
        items = cast("frozenset[Any]", value)
        # The order of a set differs from run to run; what a model reads must not.
        return sorted(items, key=lambda item: (type(item).__name__, json.dumps(item, default=_plain)))
    if hasattr(value, "__anext__"):
        raise TypeError("it is a stream; concatenate its chunks first")
    return to_jsonable_python(value)


_encode = json.JSONEncoder(ensure_ascii=False, default=_plain).encode
