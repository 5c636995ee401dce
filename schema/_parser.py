"""From a message to a typed value: the JSON in its text, or the arguments of its first tool call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from typing_extensions import TypeForm

from ._message import Message
from .errors import MissingExtraError, ParseError

__all__ = ("MessageParser",)

T = TypeVar("T")

_FENCE = re.compile(r"```[ \t]*(?:[\w+-]+)?[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL)
_STEP = re.compile(r"(?:^|(?<=.)\.)([^.\[\]]+)|\[(\d+)\]|\[\"([^\"]*)\"\]")
_OPENING = re.compile(r"[{\[]")
# How many brackets of a text are looked at as the start of JSON.
_TRIES = 50
_NOTHING: Any = object()


class MessageParser(Generic[T]):
    """Reads a value of a type out of a message; a callable, so that it can be a node.

    By default the whole text (or the arguments of the first tool call) has to be one JSON value that fits the
    type. ``lenient`` finds it in a fenced block, between other words, and cut off at its end.

    Example:
        >>> class Answer(BaseModel):
        ...     city: str
        ...     metres: float
        >>> parse = MessageParser(Answer, lenient=True)
        >>> parse(Message.assistant('Here: {"city": "Husum", "metres": 4} as asked.')).metres
        4.0
        >>> MessageParser(float, path="tides[0].metres")(Message.assistant('{"tides": [{"metres": 4.2}]}'))
        4.2
    """

    def __init__(
        self,
        kind: TypeForm[T],
        *,
        source: Literal["content", "tool_call"] = "content",
        path: str = "",
        lenient: bool = False,
        repair: bool = False,
    ) -> None:
        """Make a parser.

        Args:
            kind: What to give: a pydantic model, a dataclass, ``list[int]``, any type that pydantic knows.
            source: Where to look: in the text, or in the arguments of the first tool call.
            path: Where in the JSON the value stands, such as ``answer.items[0].name`` or ``["a.b"].c``.
            lenient: Whether a fenced block, words around the JSON and an end that is cut off are tolerated.
            repair: Whether JSON that is malformed in other ways is repaired, as a last resort, by the package
                ``json-repair`` (extra ``repair``); a repaired value is a guess.

        Raises:
            ValueError: The path is malformed, or the source unknown.
            MissingExtraError: ``repair`` is asked for and its package is not installed.
        """
        if source not in ("content", "tool_call"):
            raise ValueError(f"source is 'content' or 'tool_call', not {source!r}")
        self._adapter: TypeAdapter[T] = TypeAdapter(kind)
        self._source = source
        self._path = path
        self._steps = _steps(path)
        self._lenient = lenient or repair
        self._repair = _repairer() if repair else None

    def __call__(self, message: Message, /) -> T:
        """Do what :meth:`parse` does."""
        return self.parse(message)

    def parse(self, message: Message, /) -> T:
        """Read the value.

        Args:
            message: The message, of whatever role.

        Raises:
            ParseError: There is nothing to read, no JSON, nothing at the path, or what is there does not fit. The
                text says which, where, and quotes the place.
        """
        text, place = self._text(message)
        try:
            return self._parsed(text, place)
        except ParseError as error:
            if not self._lenient:
                raise
            problem = error
        for candidate in self._candidates(text):
            try:
                return self._parsed(candidate, place)
            except ParseError as error:
                # JSON that does not fit says more than text that is no JSON.
                problem = error if _is_misfit(error) and not _is_misfit(problem) else problem
        raise problem

    def _text(self, message: Message) -> tuple[str, str]:
        if self._source == "content":
            if not message.text.strip():
                raise ParseError(f"the {message.role} message has no text to parse")
            return _clean(message.text), f"the text of the {message.role} message"
        if not message.tool_calls:
            raise ParseError(f"the {message.role} message has no tool call to parse")
        call = message.tool_calls[0]
        return _clean(call.arguments).strip() or "{}", f"the arguments of the call of {call.name!r}"

    def _parsed(self, text: str, place: str) -> T:
        try:
            value: Any = from_json(text)
        except ValueError as error:
            from ._tool_problems import where_in

            raise ParseError(f"{place}: no JSON: {where_in(text, str(error))}") from error
        value = self._reached(value, place)
        try:
            return self._adapter.validate_json(to_json(value))
        except ValidationError as error:
            from ._tool_problems import list_problems

            where = f"{place}, at {self._path}" if self._path else place
            problems = "\n- ".join(["", *list_problems(error, value)])
            raise ParseError(f"{where}: the JSON does not fit:{problems}") from error

    def _reached(self, value: Any, place: str) -> Any:
        """Follow the path."""
        for number, step in enumerate(self._steps):
            reached, here = _NOTHING, ""
            if isinstance(step, str) and isinstance(value, Mapping):
                found = cast("Mapping[str, Any]", value)
                reached, here = found.get(step, _NOTHING), f"the keys are {', '.join(found) or 'none'}"
            elif isinstance(step, int) and isinstance(value, list):
                items: list[Any] = [*cast("list[object]", value)]
                reached = items[step] if step < len(items) else _NOTHING
                here = f"the length of the list is {len(items)}"
            if reached is _NOTHING:
                raise self._leads_nowhere(number, place, value, here)
            value = reached
        return value

    def _leads_nowhere(self, number: int, place: str, value: Any, here: str) -> ParseError:
        from ._tool_problems import quoted

        before = _written(self._steps[:number]) or "the top"
        missing = _written(self._steps[: number + 1])
        return ParseError(f"{place}: nothing at {missing}: at {before}, {here or f'there is {quoted(value)}'}")

    def _candidates(self, text: str) -> Iterator[str]:
        """Give the pieces of a text that may be the JSON, the likeliest first."""
        for block in (found[1].strip() for found in _FENCE.finditer(text)):
            yield block
            yield from _completed(block)
        yield from _embedded(text)
        if self._repair is not None:
            yield self._repair(text)


def _is_misfit(error: ParseError) -> bool:
    """Tell whether there was JSON, but not what was asked for."""
    return error.__cause__ is None or isinstance(error.__cause__, ValidationError)


def _steps(path: str) -> tuple[str | int, ...]:
    """Read a path: keys with dots between them, positions in brackets, odd keys in quotes and brackets."""
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise ValueError(f"path {path!r} is malformed at {path[at:]!r}; write it like 'a.b[0].c' or '[\"a.b\"]'")
        steps.append(int(found[2]) if found[2] else found[1] or found[3])
        at = found.end()
    return tuple(steps)


def _clean(text: str) -> str:
    """Replace halves of surrogate pairs, which streams that are cut at the wrong place leave behind."""
    return text.encode(errors="replace").decode()


def _written(steps: tuple[str | int, ...]) -> str:
    """Write a path as users write it."""
    plain = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps]
    return "".join(plain).removeprefix(".")


def _embedded(text: str) -> Iterator[str]:
    """Find JSON objects and lists between other words, and one that is cut off where the text ends."""
    decoder = json.JSONDecoder()
    cut_off: list[str] = []
    at = 0
    for _ in range(_TRIES):
        found = _OPENING.search(text, at)
        if found is None:
            break
        at = found.start()
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            cut_off.append(text[at:])
            at += 1
        else:
            yield text[at:end]
            at = end
    for rest in cut_off:
        yield from _completed(rest)


def _completed(text: str) -> Iterator[str]:
    """Close what is open at the end of a JSON text; one that is wrong before its end is left alone."""
    try:
        from_json(text)
    except ValueError as error:
        if str(error).startswith("EOF"):
            yield to_json(from_json(text, allow_partial="trailing-strings")).decode()


def _repairer() -> Callable[[str], str]:
    try:
        from json_repair import repair_json
    except ModuleNotFoundError as error:
        raise MissingExtraError("json-repair", "repair") from error
    return lambda text: str(repair_json(text))
