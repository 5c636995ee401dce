"""What a question asks for: the calculations written in it, the time in some places, and its telling words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..tools._arithmetic import CONSTANTS, FUNCTIONS
from ..tools._clock import find_zones_of_city
from ..tools._expression import parse_expression
from ..tools._words import STOP_WORDS, keywords
from ..tools.errors import CalculationError
from ._places import PLACES


class Question(NamedTuple):
    """A question, taken apart."""

    text: str
    expressions: tuple[str, ...]
    """The calculations in it, as a calculator reads them."""
    zones: tuple[str, ...]
    """The time zones whose time it asks for; none if it does not ask for the time."""
    keywords: tuple[str, ...]
    """The words that tell what it is about."""


def read_question(text: str) -> Question:
    """Take a question apart.

    Args:
        text: What the user said.

    Returns:
        What it asks for; the same text always gives the same.
    """
    return Question(text, tuple(find_expressions(text)), tuple(find_zones(text)), tuple(keywords(text)))


# --- calculations ---------------------------------------------------------------------------------------------

_NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)"
_WORDINGS = [
    (rf"({_NUMBER})\s*(?:%|percent)\s+of\s+({_NUMBER})", r"(\1 / 100 * \2)"),
    (rf"(?:the\s+)?square\s+root\s+of\s+({_NUMBER})", r"sqrt(\1)"),
    (rf"(?:the\s+)?cube\s+root\s+of\s+({_NUMBER})", r"cbrt(\1)"),
    (rf"(?:the\s+)?factorial\s+of\s+({_NUMBER})", r"factorial(\1)"),
    (rf"({_NUMBER})!(?!=)(?=\s*(?:[-+*/?.,)]|$))", r"factorial(\1)"),
    (r"(?<=[0-9)])\s+squared\b", " ** 2"),
    (r"(?<=[0-9)])\s+cubed\b", " ** 3"),
    (r"(?<=[0-9)])\s+(?:raised\s+)?to\s+the\s+power\s+of\s+(?=[-0-9(a-z])", " ** "),
    (r"(?<=[0-9)])\s+plus\s+(?=[-0-9(a-z])", " + "),
    (r"(?<=[0-9)])\s+minus\s+(?=[-0-9(a-z])", " - "),
    (r"(?<=[0-9)])\s+(?:times|multiplied\s+by|x)\s+(?=[-0-9(a-z])", " * "),
    (r"(?<=[0-9)])\s+divided\s+by\s+(?=[-0-9(a-z])", " / "),
    (r"(?<=[0-9)])\s+(?:mod|modulo)\s+(?=[-0-9(a-z])", " % "),
]
_REWORDINGS = [(re.compile(pattern, re.IGNORECASE), replacement) for pattern, replacement in _WORDINGS]
_PIECE = re.compile(
    rf"""
    (?P<space>\s+)
  | (?P<number>{_NUMBER}(?![\w]))
  | (?P<word>\w+)
  | (?P<operator>\*\*|//|[-+*/%^×÷−])
  | (?P<open>\()
  | (?P<close>\))
  | (?P<comma>,)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_DATE = re.compile(r"\d{4}\s*[-/]\s*\d{1,2}\s*[-/]\s*\d{1,2}|\d{1,2}\s*[-/]\s*\d{1,2}\s*[-/]\s*\d{2,4}")
_LEAD = re.compile(
    r"(?:\b(?:what(?:['’]?s|\s+is|\s+are|\s+does)|calculate|compute|evaluate|solve|work\s+out|find"
    r"|how\s+(?:much|many)\s+(?:is|are)|(?:result|value|sum|difference|product|quotient)\s+of|equals?|and)"
    r"(?:\s+the\s+(?:value|result)\s+of)?)\s*:?\s*$",
    re.IGNORECASE,
)


class _Piece(NamedTuple):
    kind: str
    start: int
    end: int
    text: str


def find_expressions(text: str) -> Iterator[str]:
    """Find the calculations in a text.

    A range (`3-5`), a date, a version or a `24/7` is one only where the text asks for it ("what is 24/7?").

    Args:
        text: What the user said.

    Yields:
        Each calculation once, in the order of the text; a calculator can read every one of them.
    """
    for pattern, replacement in _REWORDINGS:
        text = pattern.sub(replacement, text)
    seen: set[str] = set()
    for run in _runs(text):
        pieces = _trim(text, run)
        if not pieces:
            continue
        expression = text[pieces[0].start : pieces[-1].end]
        if expression not in seen and _is_meant(text, pieces):
            seen.add(expression)
            yield expression


def _runs(text: str) -> Iterator[list[_Piece]]:
    """Cut the text into runs of pieces that arithmetic could be made of."""
    run: list[_Piece] = []
    calls: list[bool] = []
    for match in _PIECE.finditer(text):
        piece = _Piece(str(match.lastgroup), match.start(), match.end(), match.group())
        if piece.kind == "space":
            continue
        if not _belongs(piece, run, calls, text):
            yield run
            run, calls = [], []
            continue
        if piece.kind == "open":
            calls.append(bool(run) and run[-1].kind == "word" and run[-1].text.lower() in FUNCTIONS)
        elif piece.kind == "close" and calls:
            calls.pop()
        run.append(piece)
    yield run


def _belongs(piece: _Piece, run: list[_Piece], calls: list[bool], text: str) -> bool:
    """Whether a piece can go on with a run of arithmetic."""
    if piece.kind == "word":
        name = piece.text.lower()
        if name in FUNCTIONS:
            return text[piece.end :].lstrip().startswith("(")
        if name == "e":
            return bool(run) and run[-1].kind in {"operator", "open", "comma"}
        return name in CONSTANTS
    if piece.kind == "comma":
        return bool(calls) and calls[-1]
    return piece.kind != "other"


def _trim(text: str, pieces: list[_Piece]) -> list[_Piece]:
    """Drop what is too much at both ends until a calculator can read the rest."""
    while pieces:
        if pieces[-1].kind in {"operator", "comma", "open"}:
            pieces = pieces[:-1]
        elif pieces[0].kind in {"comma", "close"} or (pieces[0].kind == "operator" and pieces[0].text not in "-−"):
            pieces = pieces[1:]
        else:
            try:
                parse_expression(text[pieces[0].start : pieces[-1].end], FUNCTIONS, CONSTANTS)
            except CalculationError:
                opened = sum(piece.kind == "open" for piece in pieces)
                closed = sum(piece.kind == "close" for piece in pieces)
                if closed > opened and pieces[-1].kind == "close":
                    pieces = pieces[:-1]
                elif opened > closed and pieces[0].kind == "open":
                    pieces = pieces[1:]
                else:
                    return []
            else:
                return pieces
    return []


def _is_meant(text: str, pieces: list[_Piece]) -> bool:
    """Whether what could be calculated is meant as a calculation."""
    operators = [piece.text for piece in pieces[1:] if piece.kind == "operator"]
    if any(piece.kind == "word" and piece.text.lower() in FUNCTIONS for piece in pieces):
        return True
    if not operators or _DATE.fullmatch(text[pieces[0].start : pieces[-1].end]):
        return False
    if any(operator not in {"-", "−", "/", "%"} for operator in operators) or len(set(operators)) > 1:
        return True
    before, after = text[: pieces[0].start], text[pieces[-1].end :]
    is_all = not re.search(r"\w", before) and not re.search(r"\w", after)
    return is_all or _LEAD.search(before) is not None


# --- the time -------------------------------------------------------------------------------------------------

_UNIT = r"(?:time|date|day(?:\s+of\s+the\s+week)?|weekday|hour|year|month)"
_FOLLOWS = r"(?=\s*(?:[?.!,;:]|$|(?:in|at|for|now|right|today|here|there|over|please|is|and|or|of\s+today)\b))"
_ASKS_TIME = re.compile(
    rf"""
    \bwhat(?:['’]?s|\s+is)?\s+(?:the\s+)?(?:(?:current|local|exact|present)\s+)*{_UNIT}\b{_FOLLOWS}
  | \b(?:what|which)\s+{_UNIT}\s+(?:is|do\s+we|have\s+we)\b
  | \b(?:current|local|present)\s+(?:date\s+and\s+time|{_UNIT})\b{_FOLLOWS}
  | \btoday['’]?s\s+(?:date|weekday)\b | \b(?:date|day)\s+(?:is\s+)?(?:it\s+)?today\b
  | \bwhat(?:['’]?s|\s+is)\s+today\b
  | \btime\s+(?:is\s+it\s+)?(?:right\s+)?now\b
  | \b(?:tell|give)\s+me\s+the\s+(?:time|date)\b{_FOLLOWS}
  | \bhow\s+late\s+is\s+it\b | \bdo\s+you\s+(?:have|know)\s+(?:the\s+time\b{_FOLLOWS}|what\s+time\s+it\s+is)
  | ^\s*(?:the\s+)?(?:time|date)\s+in\s
    """,
    re.VERBOSE | re.IGNORECASE,
)
_IANA = re.compile(
    r"\b(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc|US)"
    r"/[A-Za-z_]+(?:[-/][A-Za-z_]+)*(?:[+-][0-9]{1,2})?"
)
_PLACE_WORD = re.compile(r"[^\W\d_][\w'’.-]*[\w]|[^\W\d_]")
_IN_PLACE = re.compile(r"\b(?:in|at|for)\s+((?:[A-Z][\w'’.-]*\s*)+)")
_IN_SOMETHING = re.compile(r"\s*(?:right\s+)?(?:now\s+)?\b(?:in|at|for|of)\s+(?:the\s+)?[a-z]")


def find_zones(text: str) -> list[str]:
    """Find the zones whose time a text asks for.

    Args:
        text: What the user said.

    Returns:
        IANA names in the order of the text, `UTC` if no place is named; the place itself where its zone is not
        known, for the tool to judge; nothing if the text does not ask for the time.
    """
    asked = _ASKS_TIME.search(text)
    if asked is None:
        return []
    found = dict(sorted(_named_zones(text)))
    if found:
        return list(dict.fromkeys(found.values()))
    unknown = [match.group(1).strip(" .") for match in _IN_PLACE.finditer(text)]
    if unknown:
        return list(dict.fromkeys(unknown))
    # "the time in the log file" is no question for a clock
    return [] if _IN_SOMETHING.match(text, asked.end()) else ["UTC"]


def _named_zones(text: str) -> Iterator[tuple[int, str]]:
    """Find places and zone names with their positions; longer names first."""
    for match in _IANA.finditer(text):
        yield match.start(), match.group()
    text = _IANA.sub(lambda match: " " * len(match.group()), text)
    words = list(_PLACE_WORD.finditer(text))
    index = 0
    while index < len(words):
        for count in (3, 2, 1):
            group = words[index : index + count]
            zone = _zone_of(text, group) if len(group) == count else None
            if zone is not None:
                yield group[0].start(), zone
                index += count - 1
                break
        index += 1


def _zone_of(text: str, words: list[re.Match[str]]) -> str | None:
    """Give the zone of a place that is named by these words."""
    name = text[words[0].start() : words[-1].end()]
    if name.casefold() in PLACES:
        return PLACES[name.casefold()]
    if name.casefold() in STOP_WORDS:
        return None
    follows_in = re.search(r"\b(?:in|at|for)\s+$", text[: words[0].start()]) is not None
    if not (follows_in or all(word.group()[0].isupper() for word in words)):
        return None
    zones = find_zones_of_city(name)
    return zones[0] if zones else None
