"""Pieces that more than one provider's messages are made of."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ...schema import MediaPart, Message, Part
from ...schema.errors import MessageError

__all__ = ()

JsonObject = Mapping[str, Any]


def refusal(provider: str, position: int, part: Part, instead: str) -> MessageError:
    """Make the error that says which part of which message a provider does not take, and what to do."""
    return MessageError(f"message {position}: {provider} takes no {part.kind} part like this; {instead}")


def plain_base64(part: MediaPart) -> str:
    """Give the data of a part as one base64 text."""
    data = part.data or ""
    return b64encode(part.to_bytes()).decode("ascii") if "=" in data.rstrip("=") else data


def data_url(part: MediaPart, mime_type: str) -> str:
    """Give the address of a medium, or one that holds its data."""
    if part.url is not None:
        return part.url
    return f"data:{part.mime_type or mime_type};base64,{plain_base64(part)}"


def text_arguments(arguments: object) -> str:
    """Give a tool call's arguments as text; some servers send the object itself."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def still_open(arguments: str) -> str:
    """Give the arguments of a call that was cut off, without their last brace where a server has closed them."""
    try:
        json.loads(arguments)
    except json.JSONDecodeError:
        return arguments
    return arguments.rstrip().removesuffix("}")


def without(source: JsonObject, *keys: str) -> dict[str, Any]:
    """Give what else stands in an object: neither under these keys, nor nothing."""
    return {key: value for key, value in source.items() if key not in keys and value is not None}


def texts(source: JsonObject, *keys: str) -> dict[str, Any]:
    """Give what is text under these keys."""
    return {key: value for key in keys if isinstance(value := source.get(key), str) and value}


def count(source: JsonObject, *path: str) -> int:
    """Read a count at a path; 0 where there is none."""
    found: Any = source
    for key in path:
        found = cast("JsonObject", found).get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, int) else 0


def other_counts(source: JsonObject, known: Sequence[tuple[str, ...]]) -> dict[str, int]:
    """Collect the counts that have no field of their own in a report of usage, as ``group.name``."""
    found: dict[str, int] = {}
    for group, counts in source.items():
        if isinstance(counts, Mapping):
            for name, value in cast("JsonObject", counts).items():
                if isinstance(value, int) and value and (group, name) not in known:
                    found[f"{group}.{name}"] = value
    return found


def last_user_position(messages: Sequence[Message]) -> int:
    """Give the position of the last message of the user; -1 if there is none."""
    return max((at for at, message in enumerate(messages) if message.role == "user"), default=-1)
