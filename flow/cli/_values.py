"""Inputs from text, outputs to text, by the types of the graph."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from .errors import UsageError

_LONGEST_SHOWN = 60


def read_input(given: str | None, wanted: Any) -> Any:
    """Make the graph's input of what stands behind `--input`.

    Args:
        given: JSON, or `@FILE` for what is in a file (`@-`: standard input); a text is taken as it is where the
            graph takes text.
        wanted: The graph's input type.

    Returns:
        The value.

    Raises:
        UsageError: If there is no such file, or the value is not of the type; the text says expected and got.
    """
    if given is None:
        if wanted in {None, type(None)}:
            return None
        raise UsageError(f"the graph takes {type_name(wanted)}: give it with --input JSON or --input @FILE")
    text = _read_file(given[1:]) if given.startswith("@") else given
    if wanted is str:
        return text
    try:
        value, as_json = from_json(text), text
    except ValueError:
        value, as_json = text, to_json(text).decode()
    return value if wanted is Any else _validate(value, as_json, text, wanted)


def write_value(value: Any, *, indent: int | None = 2) -> str:
    """Write an output: text as it is, everything else as JSON; what is no number there becomes a text, ``"NaN"``.

    Args:
        value: The output, or a chunk of it.
        indent: How far to indent JSON; `None` for one line.

    Returns:
        The text.
    """
    if isinstance(value, str):
        return value
    return to_json(value, indent=indent, fallback=repr, inf_nan_mode="strings").decode()


def type_name(wanted: Any) -> str:
    """Write a type as a person would.

    Args:
        wanted: The type.

    Returns:
        For example `list[int]`.
    """
    if wanted is None:
        return "None"
    if isinstance(wanted, type) and not getattr(wanted, "__args__", None):
        return wanted.__name__
    return str(wanted).replace("typing.", "")


def _validate(value: Any, as_json: str, text: str, wanted: Any) -> Any:
    """Check a value against a type, strictly as far as JSON has the type; text may stand for itself."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(wanted)
    except PydanticUserError:
        return value  # a type that cannot be checked here: the graph itself will
    try:
        return adapter.validate_json(as_json, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    with suppress(ValidationError):
        return adapter.validate_python(text, strict=True)
    where = ".".join(str(step) for step in first["loc"])
    shown = text.strip() if len(text.strip()) <= _LONGEST_SHOWN else text.strip()[:_LONGEST_SHOWN] + "…"
    detail = f"{where + ': ' if where else ''}{first['msg']}"
    raise UsageError(
        f"--input: expected {type_name(wanted)}, got {_kind(value)} {' '.join(shown.split())!r} ({detail})"
    )


def _kind(value: Any) -> str:
    """Name the JSON type of a value."""
    names = {"dict": "an object", "list": "a list", "str": "text", "bool": "a boolean", "NoneType": "null"}
    return names.get(type(value).__name__, "a number")


def _read_file(name: str) -> str:
    """Read a file, or standard input."""
    try:
        if name == "-":
            return sys.stdin.read()
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--input: cannot read {name!r}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--input: {name!r} is not text in UTF-8") from error
