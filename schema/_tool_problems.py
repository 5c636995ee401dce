"""What is wrong with a JSON text or with a value, in words that a model (or a person) can act on."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

__all__ = ("list_problems", "quoted", "unknown_name", "where_in")

_SHOWN = 60
_PLACE = re.compile(r" at line (\d+) column (\d+)$")
_OBJECTS = ("model_type", "model_attributes_type", "dataclass_type", "dict_type", "mapping_type")
_PREFIXES = ("Input ", "Value error, ", "Assertion failed, ", "Invalid JSON: ")


def list_problems(error: ValidationError, value: Any, root: str = "the value") -> list[str]:
    """Tell each problem of a validation in one line: where, what was wanted, what came.

    Args:
        error: What pydantic found.
        value: The value that it looked at, to tell keys from the tags of unions.
        root: What to call the value itself.

    Returns:
        One line for each place. What the members of a union wanted is joined by "or".
    """
    lines: dict[str, list[str]] = {}
    inputs: dict[str, str] = {}
    for problem in error.errors(include_url=False, include_context=False):
        place = _place(problem, value) or root
        reason = _reason(problem)
        if reason not in lines.setdefault(place, []):
            lines[place].append(reason)
        if problem["type"] not in ("missing", "extra_forbidden"):
            inputs[place] = f", got {quoted(problem['input'])}"
    return [f"{place}: {' or '.join(reasons)}{inputs.get(place, '')}" for place, reasons in lines.items()]


def _reason(problem: ErrorDetails) -> str:
    if problem["type"] == "missing":
        return "is required"
    if problem["type"] == "extra_forbidden":
        return "is not a known name"
    if problem["type"] in _OBJECTS:
        return "should be an object"
    text = problem["msg"]
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    return text


def _place(problem: ErrorDetails, value: Any) -> str:
    """Write a location as ``filters[0].field``, without the tags that pydantic puts in for unions."""
    place, last = "", len(problem["loc"]) - 1
    for number, step in enumerate(problem["loc"]):
        missing = problem["type"] == "missing" and number == last
        if isinstance(value, Mapping) and (step in value or missing):
            place = f"{place}.{step}" if place else str(step)
            value = cast("Mapping[int | str, Any]", value).get(step)
        elif isinstance(value, list | tuple) and isinstance(step, int) and step < len(cast("list[Any]", value)):
            place = f"{place}[{step}]"
            value = cast("list[Any]", value)[step]
    return place


def quoted(value: Any) -> str:
    """Show a value as JSON, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def unknown_name(name: str, allowed: Iterable[str]) -> str:
    """Tell that a name is not known: which one may be meant, and which there are."""
    names = sorted(allowed)
    close = difflib.get_close_matches(name, names, n=1)
    meant = f", did you mean {close[0]!r}?" if close else ""
    return f"{name}: is not a known name{meant or ';'} allowed: {', '.join(names) or 'none'}"


def where_in(text: str, message: str) -> str:
    """Add to the message of a JSON parser the piece of the text that it speaks of."""
    found = _PLACE.search(message)
    if found is None:
        return message
    line, column = int(found[1]), int(found[2])
    lines = text.split("\n")
    before = "\n".join(lines[: line - 1])
    at = len(before) + bool(before) + column
    start, end = max(0, at - 30), at + 30
    piece = f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
    return f"{message}, near {piece!r}" if piece.strip() else message
