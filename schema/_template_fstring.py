"""The format ``"f-string"`` of templates: ``{name}`` in text, and nothing that could reach further than the values.

What is between braces is a field where it starts with a letter, and text where it does not, so that JSON can
stand in a template as it is:

* ``{name}`` is the value of a variable, ``{name:>10}`` with a format specification as in Python;
* ``{user.name}`` and ``{items[0]}`` reach keys of mappings and positions of lists. Attributes of objects cannot be
  reached, and neither can names that start with an underscore;
* ``{"key": 1}``, ``{}`` and ``[{"a": [1]}]`` are text, and a field inside works: ``{"name": "{name}"}``;
* ``{{`` and ``}}`` are single braces everywhere.

Conversions (``!r``), fields in specifications (``{x:{width}}``), numbered fields and wide paddings are refused when
the template is made. A field that is malformed is an error and never silently text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from .errors import TemplateError

__all__ = ("FStringText",)

_FIELD = re.compile(r"\{([^\W\d]\w*)((?:\.\w+|\[[^\[\]{}]*\])*)(?::([^{}]*))?\}")
_STEP = re.compile(r"\.(\w+)|\[([^\[\]]*)\]")
_NUMBERED = re.compile(r"\d+(?:$|\[|!|:\S|\.[^\W\d])")
_BRACE = re.compile(r"[{}]")
_NUMBERS = re.compile(r"\d+")
_WIDEST = 1000
_LONGEST = 60


class _Field(NamedTuple):
    name: str
    steps: tuple[str, ...]
    spec: str
    source: str


class FStringText:
    """One text with fields."""

    __slots__ = ("_pieces", "optional", "required")

    def __init__(self, source: str) -> None:
        """Read a text.

        Raises:
            TemplateError: A brace is malformed; the text shows it.
        """
        self._pieces = _pieces(source)
        names = [piece.name for piece in self._pieces if isinstance(piece, _Field)]
        self.required: tuple[str, ...] = tuple(dict.fromkeys(names))
        self.optional: tuple[str, ...] = ()

    def render(self, values: Mapping[str, Any]) -> str:
        """Fill in the fields.

        Raises:
            TemplateError: A key is missing, or a value does not take its format specification.
        """
        return "".join([p if isinstance(p, str) else _formatted(p, values[p.name]) for p in self._pieces])


def _pieces(source: str) -> list[str | _Field]:
    """Split a text into literal pieces and fields."""
    pieces: list[str | _Field] = []
    literal: list[str] = []
    opened: list[int] = []  # where braces of text are open
    at = 0
    while (found := _BRACE.search(source, at)) is not None:
        here = found.start()
        literal.append(source[at:here])
        brace, at = found[0], here + 1
        if brace == "}":
            if opened:
                opened.pop()
            elif source.startswith("}}", here):
                at += 1
            else:
                raise _malformed(source, here, "it closes nothing; write }} for a brace that is text")
            literal.append("}")
        elif source.startswith("{{", here):
            at += 1
            literal.append("{")
        elif (field := _FIELD.match(source, here)) is not None:
            pieces += ["".join(literal), _checked(source, field)]
            literal, at = [], field.end()
        else:
            _check_text(source, here)
            opened.append(here)
            literal.append("{")
    if opened:
        raise _malformed(source, opened[-1], "it is never closed; write {{ for a brace that is text")
    pieces.append("".join([*literal, source[at:]]))
    return [piece for piece in pieces if piece != ""]


def _check_text(source: str, here: int) -> None:
    """Refuse a brace that looks like a field gone wrong, where it would pass for text."""
    inside = source[here + 1 : here + 1 + _LONGEST].partition("}")[0]
    stripped = inside.strip()
    if _NUMBERED.match(stripped):
        raise _malformed(source, here, "fields have names, not numbers; write {{ for a brace that is text")
    if stripped[:1].isalpha() or stripped[:1] == "_":
        reason = "a field is {name}, {name:spec}, {name.key} or {name[0]}, without blanks, conversions or fields inside"
        raise _malformed(source, here, f"{reason}; write {{{{ for a brace that is text")


def _checked(source: str, field: re.Match[str]) -> _Field:
    steps = tuple(found[1] if found[1] is not None else found[2] for found in _STEP.finditer(field[2]))
    spec = field[3] or ""
    hidden = [step for step in (field[1], *steps) if step.startswith("_") or not step]
    if hidden:
        raise _malformed(source, field.start(), f"{hidden[0]!r} is not a public name")
    if len(spec) > _LONGEST or any(len(n) > 4 or int(n) > _WIDEST for n in _NUMBERS.findall(spec)):
        raise _malformed(source, field.start(), f"its format specification asks for more than {_WIDEST} characters")
    return _Field(field[1], steps, spec, field[0][1:-1])


def _malformed(source: str, here: int, reason: str) -> TemplateError:
    line = source.count("\n", 0, here) + 1
    shown = source[here : here + 30].partition("\n")[0]
    return TemplateError(f"line {line}, at {shown!r}: {reason}")


def _formatted(field: _Field, value: Any) -> str:
    reached = field.name
    for step in field.steps:
        value = _step(field, reached, value, step)
        reached = f"{reached}.{step}"
    if type(value) is str and not field.spec:
        return value
    try:
        return format(value, field.spec)
    except (TypeError, ValueError) as error:
        kind = type(value).__name__
        raise TemplateError(f"field {field.source!r}: a value of type {kind} does not format: {error}") from error


def _step(field: _Field, reached: str, value: Any, step: str) -> Any:
    """Take a key of a mapping or a position of a list, and nothing else."""
    if isinstance(value, Mapping):
        found = cast("Mapping[int | str, Any]", value)
        for key in (step, int(step)) if step.isdecimal() else (step,):
            if key in found:
                return found[key]
        raise TemplateError(f"field {field.source!r}: {reached!r} has no key {step!r}")
    if isinstance(value, list | tuple) and step.isdecimal():
        items = cast("list[Any]", value)
        if int(step) < len(items):
            return items[int(step)]
        raise TemplateError(f"field {field.source!r}: {reached!r} has no position {step}, only {len(items)} items")
    kind = type(cast("object", value)).__name__
    raise TemplateError(
        f"field {field.source!r}: {reached!r} is of type {kind}; only keys of mappings and positions of lists can "
        "be reached"
    )
