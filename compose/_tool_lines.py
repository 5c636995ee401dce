"""What a tool streams, as the content of its message."""

from __future__ import annotations

from typing import Any, cast

from ..schema import Message, ToolResult, tool_text
from ..schema._parts import AudioPart, FilePart, ImagePart, Part, ProviderPart, TextPart, VideoPart

_PARTS = (TextPart, ImagePart, AudioPart, VideoPart, FilePart, ProviderPart)


class Lines:
    """Makes contents of chunks: text and parts add up, any other chunk is JSON on a line of its own."""

    __slots__ = ("_after_json", "_in_line")

    def __init__(self) -> None:
        self._in_line = False
        """Whether text has begun a line and not ended it."""
        self._after_json = False
        """Whether the last content was JSON, whose line nothing else may share."""

    def take(self, chunk: Any) -> str | tuple[Part, ...]:
        """Give what a chunk adds to the content."""
        content = tool_text(chunk)
        if not adds_up(chunk):
            content = f"\n{content}" if self._in_line else content
            self._in_line = self._after_json = True
            return content
        if not content:
            return content
        last = content
        if isinstance(content, str):
            if self._after_json and not content.startswith("\n"):
                content = f"\n{content}"
        else:
            first = content[0]
            if self._after_json and isinstance(first, TextPart) and not first.text.startswith("\n"):
                content = (first.model_copy(update={"text": f"\n{first.text}"}), *content[1:])
            end = content[-1]
            last = end.text if isinstance(end, TextPart) else ""
        self._after_json = False
        self._in_line = isinstance(last, str) and last != "" and not last.endswith("\n")
        return content


def adds_up(chunk: Any) -> bool:
    """Tell whether a chunk's contents add up as those of messages do."""
    if isinstance(chunk, (str, ToolResult, Message, *_PARTS)):
        return True
    if not isinstance(chunk, list | tuple) or not chunk:
        return False
    return all(isinstance(item, _PARTS) for item in cast("list[object]", chunk))
