"""Read arithmetic as people and models write it, and turn it into source that `ast` can parse.

The text is cut into tokens first, so that only numbers, known names, operators, parentheses and commas
ever reach Python's parser. That gives clear messages, keeps every other construct of the language out,
and lets `^`, `×` and `1,000` mean what they mean to a reader.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import NamedTuple

from .errors import CalculationError

MAX_SOURCE = 1000
"""Longest expression, in characters."""
MAX_NESTING = 50
"""Deepest nesting of parentheses, calls, signs and powers."""

_REWRITES = str.maketrans(
    {"×": "*", "·": "*", "⋅": "*", "∙": "*", "÷": "/", "∕": "/", "−": "-", "–": "-", "π": "pi", "τ": "tau"}
)
_DIGIT_SPACE = re.compile(r"(?<=[0-9])[\u00a0\u2009\u202f](?=[0-9]{3})")
_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<based>0[xX][0-9a-fA-F]+ | 0[bB][01]+ | 0[oO][0-7]+)
  | (?P<grouped>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9]|,[0-9])(?:\.[0-9]+)?)
  | (?P<number>(?:[0-9][0-9_]*(?:\.[0-9]*)? | \.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
  | (?P<operator>\*\*|//|[-+*/%^])
  | (?P<open>\()
  | (?P<close>\))
  | (?P<comma>,)
    """,
    re.VERBOSE,
)
_HINTS = {
    "!": "write factorial(n) instead of n!",
    "[": "use round parentheses",
    "]": "use round parentheses",
    "{": "use round parentheses",
    "}": "use round parentheses",
    "=": "only arithmetic is calculated: no comparison and no assignment",
    "<": "only arithmetic is calculated: no comparison",
    ">": "only arithmetic is calculated: no comparison",
    "√": "write sqrt(x)",
    "²": "write x**2",
    "³": "write x**3",
    ".": "names have no dots: write sqrt(x), not math.sqrt(x)",
}


class _Token(NamedTuple):
    kind: str
    text: str


def parse_expression(text: str, functions: Collection[str], constants: Collection[str]) -> ast.expr:
    """Parse arithmetic.

    Args:
        text: The expression, as written by a person or a model.
        functions: The names that may be called.
        constants: The names that stand for a number.

    Returns:
        A tree of numbers, known names, calls, signs and binary operators, and of nothing else.

    Raises:
        CalculationError: If the text is no arithmetic, or too long or too deep.
    """
    source = _DIGIT_SPACE.sub("", text.translate(_REWRITES)).strip().rstrip("=?").strip()
    if not source:
        raise CalculationError("the expression is empty")
    if len(source) > MAX_SOURCE:
        raise CalculationError(f"the expression has {len(source)} characters; at most {MAX_SOURCE} are read")
    tokens = list(_tokenize(source, functions, constants))
    _check_adjacent(tokens)
    clean = " ".join(token.text for token in tokens)
    try:
        return ast.parse(clean, mode="eval").body
    except SyntaxError as error:
        raise CalculationError(_explain(clean, error)) from None
    except (ValueError, MemoryError, RecursionError):
        raise CalculationError(f"the expression is nested deeper than {MAX_NESTING} levels") from None


def _tokenize(source: str, functions: Collection[str], constants: Collection[str]) -> Iterator[_Token]:
    """Cut the source, knowing at each place whether the innermost parenthesis belongs to a call."""
    in_call = [False]
    called = False
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            raise CalculationError(_unexpected(source, position))
        kind, text = str(match.lastgroup), match.group()
        position = match.end()
        if kind == "space":
            continue
        if kind == "open":
            in_call.append(called)
            if len(in_call) > MAX_NESTING:
                raise CalculationError(f"the expression is nested deeper than {MAX_NESTING} levels")
        elif kind == "close" and len(in_call) > 1:
            in_call.pop()
        elif kind == "comma" and not in_call[-1]:
            raise CalculationError("a comma separates arguments, or groups of three digits as in 1,000")
        token = _read(kind, text, in_call=in_call[-1], names=(functions, constants))
        called = token.kind == "function"
        yield token


def _read(kind: str, text: str, *, in_call: bool, names: tuple[Collection[str], Collection[str]]) -> _Token:
    """Bring one token into the form that Python reads."""
    match kind:
        case "grouped":
            if in_call:
                spaced = text.replace(",", ", ")
                raise CalculationError(
                    f"{text!r} inside a call is ambiguous: write {text.replace(',', '')} or {spaced}"
                )
            return _Token("number", text.replace(",", ""))
        case "based":
            return _Token("number", text)
        case "number":
            if "__" in text or re.search(r"_(?![0-9])", text):
                raise CalculationError(f"{text!r} is no number: digits are grouped as in 1_000")
            whole = text.isdigit() or text.replace("_", "").isdigit()
            return _Token("number", (text.lstrip("0_") or "0") if whole else text)
        case "name":
            return _read_name(text, *names)
        case "operator":
            return _Token("operator", "**" if text == "^" else text)
        case _:
            return _Token(kind, text)


def _read_name(text: str, functions: Collection[str], constants: Collection[str]) -> _Token:
    """Tell functions from constants, in any case of letters."""
    name = text.lower()
    if name in functions:
        return _Token("function", name)
    if name in constants:
        return _Token("number", name)
    close = get_close_matches(name, [*functions, *constants], n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    raise CalculationError(f"{text!r} is not known{hint}" if hint else f"{text!r} is not known; there are no variables")


def _check_adjacent(tokens: list[_Token]) -> None:
    """Refuse two values without an operator between them, and functions without arguments."""
    for left, right in zip(tokens, [*tokens[1:], _Token("end", "")], strict=True):
        if left.kind == "function" and right.kind != "open":
            raise CalculationError(f"{left.text} is a function: write {left.text}(...)")
        if left.kind in {"number", "close"} and right.kind in {"number", "function", "open"}:
            raise CalculationError(f"an operator is missing between {left.text!r} and {right.text!r}")


def _unexpected(source: str, position: int) -> str:
    """Say which character cannot be part of arithmetic, and what to write instead."""
    character = source[position]
    hint = _HINTS.get(character)
    return f"unexpected {character!r}" + (f"; {hint}" if hint else " in an arithmetic expression")


def _explain(clean: str, error: SyntaxError) -> str:
    """Name the place where the parser gave up."""
    opened, closed = clean.count("("), clean.count(")")
    if opened != closed:
        return f"parentheses do not match: {opened} opened, {closed} closed"
    if "%" in clean:
        return f"cannot read {clean!r}; % is the remainder of a division: write 20/100 for 20 percent"
    if clean[-1] in "+-*/":
        return f"the expression ends with {clean.rsplit(' ', 1)[-1]!r}: a value is missing"
    rest = clean[max((error.offset or 1) - 1, 0) :].strip()
    return f"cannot read the expression near {rest[:20]!r}"
