"""What generated graphs are made of: small pure functions that do the same in every paradigm.

The code that a failing example prints is made of these names, so it can be pasted into a test as it is::

    from anabranch.compose import END, START, Graph, Map
    from anabranch.compose.testing.pieces import *
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from ...schema import StreamReader
from .._body import Body

__all__ = (
    "Choice",
    "Handler",
    "Notes",
    "Piece",
    "add",
    "alone",
    "by_first",
    "by_size",
    "count",
    "counting",
    "each",
    "flip",
    "gather",
    "glue",
    "increment",
    "letters",
    "mark",
    "put",
    "recall",
    "refuse",
    "remember",
    "show",
    "some",
    "strings",
    "swap",
    "until",
)

Form = Literal["invoke", "async", "stream", "collect", "transform", "lambda"]
"""How a piece is written: ``def``, ``async def``, with a stream out, in, or both; or all of these at once."""

FORMS: Final[tuple[Form, ...]] = ("invoke", "async", "stream", "collect", "transform", "lambda")


class Refused(ValueError):
    """Raised by :func:`refuse`."""


@dataclass(frozen=True)
class Rule:
    """What a piece does, and how chunk by chunk, if that is possible."""

    input: Any
    output: Any
    whole: Callable[[Any, str], Any]
    chunk: Callable[[Any], Any] | None = None
    first: Callable[[str], Any] | None = None
    last: Callable[[str], Any] | None = None


def _same(value: Any, _: str = "") -> Any:
    return value


def _refuse(value: str, text: str) -> str:
    if text in value:
        raise Refused(f"{text!r} is in {value!r}")
    return value


TEXT: Final = str
ITEMS: Final = list[str]
RECORD: Final = dict[str, Any]

_RULES: Final[dict[str, Rule]] = {
    "add": Rule(TEXT, TEXT, lambda value, text: value + text, chunk=_same, last=_same),
    "put": Rule(TEXT, TEXT, lambda value, text: text + value, chunk=_same, first=_same),
    "swap": Rule(TEXT, TEXT, lambda value, _: value.swapcase(), chunk=lambda chunk: chunk.swapcase()),
    "flip": Rule(TEXT, TEXT, lambda value, _: value[::-1]),
    "count": Rule(TEXT, TEXT, lambda value, _: str(len(value))),
    "refuse": Rule(TEXT, TEXT, _refuse),
    "letters": Rule(TEXT, ITEMS, lambda value, _: list(value), chunk=list),
    "each": Rule(ITEMS, ITEMS, lambda value, text: [i + text for i in value]),
    "glue": Rule(ITEMS, TEXT, lambda value, _: "".join(value), chunk="".join),
    "mark": Rule(RECORD, RECORD, lambda value, text: {**value, text: text}),
    "show": Rule(RECORD, TEXT, lambda value, _: shown(value)),
    "strings": Rule(RECORD, ITEMS, lambda value, _: [f"{key}={shown(value[key])}" for key in sorted(value)]),
}


def shown(value: Any) -> str:
    """Write any value of a generated graph as a text that says all of it, whatever the order of keys."""
    if isinstance(value, dict):
        record = cast("dict[str, Any]", value)
        return "{" + ",".join(f"{key}:{shown(record[key])}" for key in sorted(record)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(shown, cast("Iterable[Any]", value))) + "]"
    return str(value)


def size_of(value: Any) -> int:
    """Count the letters in a value, however it is nested."""
    if isinstance(value, str):
        return len(value)
    return sum(map(size_of, cast("dict[str, Any]", value).values() if isinstance(value, dict) else value))


def joined(kind: Any, chunks: Sequence[Any]) -> Any:
    """Make one value of its chunks."""
    if kind is TEXT:
        return "".join(chunks)
    if kind == ITEMS:
        return [item for chunk in chunks for item in chunk]
    whole: dict[str, Any] = {}
    for chunk in chunks:
        for key, item in chunk.items():
            before = whole.get(key)
            if isinstance(before, dict):
                item = joined(RECORD, [before, item])
            elif before is not None:
                item = before + item
            whole[key] = item
    return whole


def split(value: Any, size: int) -> Iterator[Any]:
    """Cut a value into chunks of at most this size; 0 leaves it whole."""
    if size <= 0:
        yield value
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            for piece in list(split(item, size)) or [item]:
                yield {key: piece}
    else:
        yield from (value[start : start + size] for start in range(0, len(value), size))


@dataclass(frozen=True)
class Piece:
    """One small function as a node, in one of the shapes that a node may have.

    Attributes:
        name: What it does; the functions of this module make pieces by name.
        text: What it adds, puts or looks for.
        form: How it is written.
        size: The size of the chunks that it gives, where it streams.
    """

    name: str
    text: str = ""
    form: Form = "invoke"
    size: int = 1

    def __repr__(self) -> str:
        given = [repr(self.text)] if self.text else []
        if self.form != "invoke":
            given.append(f"form={self.form!r}")
        if self.size != 1:
            given.append(f"size={self.size}")
        return f"{self.name}({', '.join(given)})"

    @property
    def rule(self) -> Rule:
        """What it does."""
        return _RULES[self.name]

    def __call__(self, value: Any) -> Any:
        """Do it, from a value to a value."""
        return self.rule.whole(value, self.text)

    async def invoke(self, value: Any) -> Any:
        """Do it in an ``async def``."""
        return self(value)

    async def stream(self, value: Any) -> AsyncIterator[Any]:
        """Give the result in chunks."""
        for chunk in split(self(value), self.size):
            yield chunk

    async def collect(self, reader: StreamReader[Any]) -> Any:
        """Take the input in chunks."""
        return self(joined(self.rule.input, [chunk async for chunk in reader]))

    async def transform(self, reader: StreamReader[Any]) -> AsyncIterator[Any]:
        """Take and give chunks: one for one where the rule allows, else when all have come."""
        rule = self.rule
        if rule.chunk is None:
            for chunk in split(await self.collect(reader), self.size):
                yield chunk
            return
        if rule.first is not None:
            yield rule.first(self.text)
        async for chunk in reader:
            yield rule.chunk(chunk)
        if rule.last is not None:
            yield rule.last(self.text)

    def as_node(self) -> Body:
        """Give the node's body, as the engine takes it."""
        plain = {"invoke": self.__call__, "async": self.invoke}
        if self.form in plain:
            ways: dict[str, Any] = {"invoke": plain[self.form]}
        elif self.form == "lambda":
            ways = {way: getattr(self, way) for way in ("invoke", "stream", "collect", "transform")}
        else:
            ways = {self.form: getattr(self, self.form)}
        rule = self.rule
        return Body(rule.input, rule.output, "function", self.name, target=self, **ways)


def pieces_from(kind: Any) -> list[str]:
    """Name the pieces that take a type."""
    return [name for name, rule in _RULES.items() if rule.input == kind]


def _maker(name: str, does: str, *, text: bool) -> Any:
    def with_text(text: str, form: Form = "invoke", size: int = 1) -> Piece:
        return Piece(name, text, form, size)

    def without(form: Form = "invoke", size: int = 1) -> Piece:
        return Piece(name, "", form, size)

    made = with_text if text else without
    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"{does}\n\nArgs:\n" + ("    text: The text.\n" if text else "")
    made.__doc__ += "    form: How the node is written.\n    size: The size of the chunks, where it streams.\n"
    return made


add: Callable[..., Piece] = _maker("add", "Add a text at the end.", text=True)
put: Callable[..., Piece] = _maker("put", "Put a text in front.", text=True)
swap: Callable[..., Piece] = _maker("swap", "Swap upper and lower case.", text=False)
flip: Callable[..., Piece] = _maker("flip", "Turn a text round.", text=False)
count: Callable[..., Piece] = _maker("count", "Give the number of letters, as a text.", text=False)
refuse: Callable[..., Piece] = _maker("refuse", "Fail if a text is in the input.", text=True)
letters: Callable[..., Piece] = _maker("letters", "Make a list of a text's letters.", text=False)
each: Callable[..., Piece] = _maker("each", "Add a text to every item of a list.", text=True)
glue: Callable[..., Piece] = _maker("glue", "Join the items of a list.", text=False)
mark: Callable[..., Piece] = _maker("mark", "Set a key of a dict.", text=True)
show: Callable[..., Piece] = _maker("show", "Write a dict as a text, in the order of its keys.", text=False)
strings: Callable[..., Piece] = _maker("strings", "Write each key of a dict as an item of a list.", text=False)


@dataclass(frozen=True)
class Choice:
    """A condition of a branch that goes by what the value holds: the same for a value and for any chunks of it."""

    name: str
    ends: tuple[str, ...]
    takes: Any = TEXT
    streams: bool = False
    length: int = 0

    def __repr__(self) -> str:
        given = [repr(end) for end in self.ends]
        if self.length:
            given.append(f"length={self.length}")
        if self.takes is not TEXT:
            given.append(f"takes={code_of_type(self.takes)}")
        if self.streams:
            given.append("streams=True")
        return f"{self.name}({', '.join(given)})"

    def choose(self, value: Any) -> Any:
        """Choose for a value."""
        if self.name == "until":
            return self.ends[1] if size_of(value) >= self.length else self.ends[0]
        if self.name == "some":
            return [end for bit, end in enumerate(self.ends) if (size_of(value) + 1) >> bit & 1]
        number = ord(value[0]) if self.name == "by_first" and value else size_of(value)
        return self.ends[number % len(self.ends)]

    def function(self) -> Callable[[Any], Any]:
        """Make the condition."""

        def of_value(value: Any) -> Any:
            return self.choose(value)

        async def of_stream(reader: StreamReader[Any]) -> Any:
            seen: list[Any] = []
            async for chunk in reader:
                seen.append(chunk)
                if self.name == "by_first" and chunk:
                    break
            return self.choose(joined(self.takes, seen))

        function = of_stream if self.streams else of_value
        function.__name__ = self.name
        takes = _stream_of(self.takes) if self.streams else self.takes
        (parameter,) = function.__code__.co_varnames[: function.__code__.co_argcount]
        function.__annotations__ = {parameter: takes, "return": list[str] if self.name == "some" else str}
        return function


def by_size(*ends: str, takes: Any = TEXT, streams: bool = False) -> Callable[[Any], Any]:
    """Make a condition that chooses an end by the number of letters."""
    return Choice("by_size", ends, takes, streams).function()


def by_first(*ends: str, streams: bool = False) -> Callable[[Any], Any]:
    """Make a condition that chooses an end by the first letter; of a stream it reads no more than it needs."""
    return Choice("by_first", ends, TEXT, streams).function()


def until(back: str, out: str, length: int, takes: Any = TEXT, streams: bool = False) -> Callable[[Any], Any]:
    """Make a condition that leads back until there are so many letters, and then out."""
    return Choice("until", (back, out), takes, streams, length).function()


def some(*ends: str, takes: Any = TEXT, streams: bool = False) -> Callable[[Any], Any]:
    """Make a condition that chooses none, one or several ends by the number of letters."""
    return Choice("some", ends, takes, streams).function()


@dataclass
class Notes:
    """The state of generated graphs."""

    lines: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Handler:
    """A handler before or after a node that works on the state."""

    name: str
    takes: Any = TEXT
    streams: bool = False
    asynchronous: bool = False

    def __repr__(self) -> str:
        given = [code_of_type(self.takes)] if self.takes is not TEXT or self.name == "remember" else []
        given += [f"{flag}=True" for flag in ("streams", "asynchronous") if getattr(self, flag)]
        return f"{self.name}({', '.join(given)})"

    def function(self) -> Callable[[Any, Any], Any]:
        """Make the handler."""

        def of_value(value: Any, notes: Notes) -> Any:
            if self.name == "recall":
                value = f"{value}{len(notes.lines)}"
            notes.lines.append(shown(value))
            return value

        async def of_value_async(value: Any, notes: Notes) -> Any:
            return of_value(value, notes)

        def of_stream(reader: StreamReader[Any], notes: Notes) -> StreamReader[Any]:
            number = str(len(notes.lines))
            notes.lines.append("~")
            if self.name != "recall":
                return reader
            return reader.convert(_same, on_end=lambda: number)

        value_function = of_value_async if self.asynchronous else of_value
        function: Callable[..., Any] = of_stream if self.streams else value_function
        form = _stream_of(self.takes) if self.streams else self.takes
        function.__name__ = self.name
        function.__annotations__ = {function.__code__.co_varnames[0]: form, "notes": Notes, "return": form}
        return function


def remember(takes: Any, *, streams: bool = False, asynchronous: bool = False) -> Callable[[Any, Any], Any]:
    """Make a handler that writes what passes into the state."""
    return Handler("remember", takes, streams, asynchronous).function()


def recall(*, streams: bool = False, asynchronous: bool = False) -> Callable[[Any, Any], Any]:
    """Make a handler that adds the number of lines in the state to the text that passes."""
    return Handler("recall", TEXT, streams, asynchronous).function()


def gather(values: Sequence[Any]) -> list[str]:
    """Merge whatever was sent to a list, one text for each sender."""
    return [shown(value) for value in values]


def _stream_of(form: Any) -> Any:
    return StreamReader[form]


def code_of_type(form: Any) -> str:
    """Write a type of a generated graph as code."""
    return str(form.__name__) if isinstance(form, type) else str(form).replace("typing.", "")


def increment(value: int) -> int:
    """Take a number, which nothing in a generated graph gives."""
    return value + 1


def alone(value: str) -> str:
    """Take one argument, which is one too few for a handler."""
    return value


def counting(value: Any, count: int) -> Any:
    """Take a number as the state, which no generated graph has."""
    return value
