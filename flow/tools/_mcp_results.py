"""From what an MCP server answers to what a model and a program get."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from posixpath import basename
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from ...schema import AudioPart, FilePart, ImagePart, MediaPart, TextPart, ToolResult, VideoPart

if TYPE_CHECKING:
    from mcp_types import BlobResourceContents, CallToolResult, EmbeddedResource, ResourceLink, TextResourceContents

__all__ = ()

_MEDIA: dict[str, type[MediaPart]] = {"image": ImagePart, "audio": AudioPart, "video": VideoPart}
_MANY_LEAVES = 500


def tool_result(answer: CallToolResult, max_chars: int) -> ToolResult:
    """Turn an answer into a result.

    Structured content goes to the program, in ``extra``. The model gets it too unless the texts say the same.

    Args:
        answer: What the server sent.
        max_chars: How much text there may be; what is more is cut, with a note.
    """
    parts = [part for block in answer.content for part in _parts(block)]
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    extra: dict[str, Any] = {}
    meta = {key: value for key, value in (answer.meta or {}).items() if not key.startswith("io.modelcontextprotocol/")}
    if meta:
        extra["meta"] = meta
    structured: Any = answer.structured_content
    if structured is not None:
        written = json.dumps(structured, ensure_ascii=False)
        if len(written) <= max_chars:
            extra["structured_content"] = structured
        if not _says(texts, structured, written):
            parts.append(TextPart(written))
    if answer.is_error and not parts:
        parts.append(TextPart("The tool failed and did not say why."))
    return ToolResult(_cut(parts, max_chars), is_error=answer.is_error, extra=extra)


def _parts(block: Any) -> Iterator[Any]:
    """Turn a block of an answer into parts."""
    match block.type:
        case "text":
            yield TextPart(block.text)
        case "image":
            yield ImagePart(data=block.data, mime_type=block.mime_type)
        case "audio":
            yield AudioPart(data=block.data, mime_type=block.mime_type)
        case "resource_link":
            yield _link(block)
        case "resource":
            yield _resource(block)
        case _:  # a kind that a later protocol brings
            yield TextPart(json.dumps(block.model_dump(mode="json", by_alias=True, exclude_none=True)))


def _link(link: ResourceLink) -> TextPart:
    """Describe a link; few providers could follow it, so the model gets words, and the program the fields."""
    kind = f" ({link.mime_type})" if link.mime_type else ""
    about = f": {link.description}" if link.description else ""
    fields = link.model_dump(
        mode="json", exclude_none=True, include={"uri", "name", "title", "description", "mime_type"}
    )
    return TextPart(f"[resource {link.title or link.name}{kind} at {link.uri}{about}]", extra={"resource_link": fields})


def _resource(block: EmbeddedResource) -> Any:
    """Turn an embedded resource into a part of its kind; ``extra`` keeps its address."""
    resource: TextResourceContents | BlobResourceContents = block.resource
    kind = resource.mime_type or ""
    extra = {"resource": {"uri": str(resource.uri), **({"mime_type": kind} if kind else {})}}
    text = getattr(resource, "text", None)
    if text is not None:
        return TextPart(text, extra=extra)
    blob = cast("BlobResourceContents", resource).blob
    sort = kind.partition("/")[0]
    if sort in _MEDIA:
        return _MEDIA[sort](data=blob, mime_type=kind, extra=extra)
    if sort == "text":  # some servers send all that they have as blobs
        with suppress(ValueError):
            return TextPart(b64decode(blob, validate=True).decode(), extra=extra)
    name = basename(urlsplit(str(resource.uri)).path)
    return FilePart(data=blob, mime_type=kind, name=name, extra=extra)


def _says(texts: Sequence[str], structured: Any, written: str) -> bool:
    """Tell whether texts say all that structured content says, as servers repeat it for clients that know only text."""
    for text in texts:
        try:
            if json.loads(text) == structured:
                return True
        except ValueError:
            continue
    leaves = list(_leaves(structured))
    if not texts or len(leaves) > _MANY_LEAVES:
        return False
    whole = "\n".join(texts)
    return len(written) <= 2 * len(whole) + 100 and all(_is_in(leaf, whole) for leaf in leaves)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in cast("dict[str, Any]", value).values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in cast("Any", value):
            yield from _leaves(item)
    else:
        yield value


def _is_in(leaf: Any, text: str) -> bool:
    return json.dumps(leaf, ensure_ascii=False) in text or (isinstance(leaf, str) and leaf in text)


def _cut(parts: Sequence[Any], max_chars: int) -> list[Any]:
    """Keep as much text as may be, and say what was cut; media count nothing."""
    total = sum(len(part.text) for part in parts if isinstance(part, TextPart))
    if total <= max_chars:
        return list(parts)
    room = max_chars
    kept: list[Any] = []
    for part in parts:
        if not isinstance(part, TextPart):
            kept.append(part)
            continue
        if room > 0:
            kept.append(part.model_copy(update={"text": part.text[:room]}))
        room -= len(part.text)
    kept.append(TextPart(f"[cut: {max_chars} of {total} characters are shown; ask for less, or for a part]"))
    return kept
