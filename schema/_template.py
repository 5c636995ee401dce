"""Prompt templates: messages with variables in them, and places for whole lists of messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

from typing_extensions import override

from ._frozen import Value
from ._message import Message
from ._parts import FilePart, MediaPart, Part, TextPart
from .errors import TemplateError

__all__ = ("ChatTemplate", "Placeholder", "TemplateFormat")

TemplateFormat = Literal["f-string", "jinja2"]
"""How variables are written: ``{name}`` or ``{{ name }}``."""


class Placeholder(Value, frozen=True):
    """The place of a list of messages in a template, such as the history of a conversation.

    The messages are put in as they are: what stands in them is never taken for a variable.
    """

    name: str
    """The variable that holds the messages."""
    optional: bool = False
    """Whether it may be missing or ``None``: then there are no messages."""

    if TYPE_CHECKING:

        def __init__(self, name: str, *, optional: bool = False) -> None: ...

    else:

        def __init__(self, name, **data):
            super().__init__(name=name, **data)


class _Text(Protocol):
    """A text that has been read in one of the formats."""

    required: tuple[str, ...]
    optional: tuple[str, ...]

    def render(self, values: Mapping[str, Any]) -> str: ...


class _Entry(NamedTuple):
    """One item of a template, read."""

    source: Message | Placeholder
    item: Message | Placeholder
    """The source; where nothing in it varies, the message that it makes."""
    texts: tuple[tuple[int, str, _Text], ...]
    """The texts that vary: the number of the part, the name of the field, the text. -1 is the content itself."""
    required: tuple[str, ...]
    optional: tuple[str, ...]


class ChatTemplate:
    """A list of messages with variables, made by :meth:`of`; it never changes.

    In the format ``"f-string"`` a variable is ``{name}``, and ``{user.name}``, ``{items[0]}`` reach into mappings
    and lists; ``{{`` and ``}}`` are single braces, and JSON may stand as it is, since ``{"`` starts no field. In
    the format ``"jinja2"`` (extra ``jinja2``) the texts are Jinja2 templates in a sandbox. Neither reaches
    attributes, modules or files, whatever template and values say.

    Variables are filled in in the text of every role and in addresses, data and names of media parts; tool calls,
    reasoning and results stay as they are. Values are never read as templates.

    Example:
        >>> template = ChatTemplate.of(
        ...     Message.system("You are {role}."),
        ...     Placeholder("history", optional=True),
        ...     Message.user("{question}"),
        ... )
        >>> template.required, template.optional
        (('role', 'question'), ('history',))
        >>> [message.text for message in template.format(role="a poet", question="Tides?")]
        ['You are a poet.', 'Tides?']
    """

    __slots__ = ("_entries", "_format", "_values", "optional", "required")

    _entries: list[_Entry]
    _format: TemplateFormat
    _values: dict[str, Any]

    required: tuple[str, ...]
    """The variables that have to be given, in the order in which they appear."""
    optional: tuple[str, ...]
    """The variables that may be given."""

    def __init__(
        self, items: Iterable[Message | Placeholder], format: TemplateFormat, values: Mapping[str, Any]
    ) -> None:
        entries = [_read(number, item, format) for number, item in enumerate(items)]
        required = dict.fromkeys(name for entry in entries for name in entry.required)
        optional = dict.fromkeys(name for entry in entries for name in entry.optional if name not in required)
        _check_names(values, [*required, *optional])
        held = {entry.item.name: entry.item for entry in entries if isinstance(entry.item, Placeholder)}
        fixed = {k: _listed(held[k], value) if k in held else value for k, value in values.items()}
        _set(self, "_entries", entries)
        _set(self, "_format", format)
        _set(self, "_values", fixed)
        _set(self, "required", tuple(name for name in required if name not in values))
        _set(self, "optional", tuple(name for name in optional if name not in values))

    @classmethod
    def of(cls, *items: Message | Placeholder, format: TemplateFormat = "f-string") -> ChatTemplate:
        """Make a template.

        Args:
            *items: Messages with variables in their texts, and placeholders for lists of messages.
            format: How variables are written.

        Raises:
            TemplateError: A text is malformed; the error says which message, where and why.
            MissingExtraError: The format's package is not installed.
        """
        return cls(items, format, {})

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables that are still to be filled in: first the required ones."""
        return (*self.required, *self.optional)

    def partial(self, /, **values: Any) -> ChatTemplate:
        """Fill in some variables, and give a template of the others.

        A value that is given again later counts instead.

        Raises:
            TemplateError: The template has no such variable.
        """
        return ChatTemplate(self._items, self._format, {**self._values, **values})

    def format(self, /, **values: Any) -> list[Message]:
        """Make the messages of values that are given by name.

        Args:
            **values: A value for each required variable; a list of messages for a placeholder.

        Returns:
            New messages, and those of the placeholders as they are.

        Raises:
            TemplateError: A variable is missing, the template has no such variable, a placeholder's value is no
                list of messages, or a value cannot be filled in. The text names it.
        """
        _check_names(values, {*self.variables, *self._values})
        return self.render(values)

    def render(self, values: Mapping[str, Any], /) -> list[Message]:
        """Make the messages of a mapping, such as the input of a node; keys that are no variables are ignored.

        Args:
            values: A value for each required variable; a list of messages for a placeholder.

        Returns:
            New messages, and those of the placeholders as they are.

        Raises:
            TemplateError: As for :meth:`format`.
        """
        given = {**self._values, **values}
        missing = [name for name in self.required if name not in given]
        if missing:
            raise TemplateError(self._missing(missing, given))
        messages: list[Message] = []
        for number, entry in enumerate(self._entries):
            try:
                if isinstance(entry.item, Placeholder):
                    messages += _listed(entry.item, given.get(entry.item.name))
                else:
                    messages.append(_filled(entry.item, entry.texts, given))
            except TemplateError as error:
                raise TemplateError(f"{_label(number, entry.item)}: {error}") from error.__cause__
        return messages

    def __call__(self, values: Mapping[str, Any], /) -> list[Message]:
        """Do what :meth:`render` does: a template is a function from values to messages."""
        return self.render(values)

    def _missing(self, missing: list[str], given: Mapping[str, Any]) -> str:
        import difflib

        names = ", ".join(repr(name) for name in missing)
        spare = [str(name) for name in given if name not in self.variables]
        close = [match for name in missing for match in difflib.get_close_matches(name, spare, n=1)]
        meant = f" (there is {', '.join(map(repr, close))})" if close else ""
        optional = f"; {', '.join(self.optional)} may be given too" if self.optional else ""
        return f"no value for {names}{meant}; the template needs {', '.join(self.required)}{optional}"

    @property
    def _items(self) -> tuple[Message | Placeholder, ...]:
        return tuple(entry.source for entry in self._entries)

    @override
    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a template cannot be changed ({name!r}); make a new one with ChatTemplate.of or partial")

    @override
    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChatTemplate):
            return NotImplemented
        return (self._items, self._format, self._values) == (other._items, other._format, other._values)

    @override
    def __hash__(self) -> int:
        return hash((self._items, self._format))

    @override
    def __repr__(self) -> str:
        return f"<ChatTemplate of {len(self._entries)} items, variables: {', '.join(self.variables) or 'none'}>"


_set = object.__setattr__


def _read(number: int, item: Message | Placeholder, format: TemplateFormat) -> _Entry:
    """Read the texts of an item; those in which nothing varies are filled in at once."""
    if isinstance(item, Placeholder):
        names = ((), (item.name,)) if item.optional else ((item.name,), ())
        return _Entry(item, item, (), *names)
    if not isinstance(item, Message):  # pyright: ignore[reportUnnecessaryIsInstance]  (callers may be untyped)
        kind = type(item).__name__
        raise TemplateError(f"item {number} is of type {kind}; a template is made of Message and Placeholder")
    try:
        texts = [(part, field, _compiled(text, format)) for part, field, text in _sources(item)]
        fixed = [entry for entry in texts if not entry[2].required and not entry[2].optional]
        message = _filled(item, fixed, {})
    except TemplateError as error:
        raise TemplateError(f"{_label(number, item)}: {error}") from error.__cause__
    varying = tuple(entry for entry in texts if entry not in fixed)
    required = tuple(name for *_, text in varying for name in text.required)
    optional = tuple(name for *_, text in varying for name in text.optional)
    return _Entry(item, message, varying, required, optional)


def _sources(message: Message) -> Iterable[tuple[int, str, str]]:
    """List the texts of a message that may have variables."""
    if isinstance(message.content, str):
        return [(-1, "content", message.content)] if _may_vary(message.content) else []
    return [
        (number, field, text)
        for number, part in enumerate(message.content)
        for field in _fields(part)
        if isinstance(text := getattr(part, field), str) and _may_vary(text)
    ]


def _fields(part: Part) -> tuple[str, ...]:
    if isinstance(part, TextPart):
        return ("text",)
    if isinstance(part, FilePart):
        return ("url", "data", "name")
    return ("url", "data") if isinstance(part, MediaPart) else ()


def _may_vary(text: str) -> bool:
    return "{" in text or "}" in text


def _compiled(text: str, format: TemplateFormat) -> _Text:
    if format == "f-string":
        from ._template_fstring import FStringText

        return FStringText(text)
    if format == "jinja2":
        from ._template_jinja import JinjaText

        return JinjaText(text)
    raise TemplateError(f"there is no format {format!r}; use 'f-string' or 'jinja2'")


def _filled(message: Message, texts: Iterable[tuple[int, str, _Text]], values: Mapping[str, Any]) -> Message:
    """Copy a message with its texts filled in; without texts it is the message itself."""
    changes: dict[int, dict[str, str]] = {}
    for number, field, text in texts:
        changes.setdefault(number, {})[field] = text.render(values)
    if not changes:
        return message
    if -1 in changes:
        return message.model_copy(update=changes[-1])
    parts = [
        part.model_copy(update=changes[number]) if number in changes else part
        for number, part in enumerate(cast("tuple[Part, ...]", message.content))
    ]
    return message.model_copy(update={"content": tuple(parts)})


def _listed(placeholder: Placeholder, value: Any) -> tuple[Message, ...]:
    """Check what is to stand in a placeholder."""
    if value is None and placeholder.optional:
        return ()
    if not isinstance(value, list | tuple):
        kind = type(value).__name__
        raise TemplateError(f"placeholder {placeholder.name!r} takes a list of messages, not a value of type {kind}")
    items = tuple(cast("list[object]", value))
    for number, item in enumerate(items):
        if not isinstance(item, Message):
            kind = type(item).__name__
            raise TemplateError(f"placeholder {placeholder.name!r} takes messages; item {number} is of type {kind}")
    return cast("tuple[Message, ...]", items)


def _check_names(values: Iterable[str], known: Iterable[str]) -> None:
    names = list(known)
    unknown = [name for name in values if name not in names]
    if unknown:
        import difflib

        close = difflib.get_close_matches(unknown[0], names, n=1)
        meant = f", did you mean {close[0]!r}?" if close else ";"
        raise TemplateError(f"no variable {unknown[0]!r}{meant} there are {', '.join(names) or 'none'}")


def _label(number: int, item: Message | Placeholder) -> str:
    return f"item {number}" if isinstance(item, Placeholder) else f"item {number} ({item.role} message)"
