"""What a codec is made of: one :class:`Part` for each type, and the way in which a part says no.

A part writes and reads exactly the values of its type. That decoding gives back what was encoded is kept by each part
for itself, if it holds for the parts inside of it; so there is no part that knows how others write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from ._codec_json import SCALAR_KINDS, Json
from ._types import value_type_name

T = TypeVar("T")
Encode = Callable[[Any], Json]
Decode = Callable[[Any], Any]

_NAMES = """
is of fields extra private dict plain value literal bits int float complex bytes bytearray decimal uuid path
date time datetime timedelta list tuple set frozenset deque frozenlist frozendict mappingproxy ordereddict defaultdict
counter
"""
TAGS = frozenset(f"${name}" for name in _NAMES.split())
"""All tags that there are."""

EVERY_KIND = frozenset(SCALAR_KINDS.values()) | {"object"} | TAGS
"""What a tree may look like; see :func:`~anabranch.compose._codec_json.kind_of`."""

class_of: Callable[[Any], type[Any]] = type
"""``type``, for the type checkers: what they make of ``type(value)`` is not always known to them."""

MAX_DEPTH = 100
"""So many levels of a type that contains itself, or of untyped containers, are written."""


class Refused(Exception):
    """A part cannot take a value, a tree or a type; who passes it on adds where."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self._steps: list[str] = []

    def at(self, step: str) -> None:
        """Note one step of the way to where it happened, the innermost first."""
        self._steps.append(step)

    @property
    def path(self) -> str:
        """Where it happened, such as ``messages[3].extra['x']``."""
        return "".join(reversed(self._steps)).removeprefix(".")


def wrong_value(value: object, wanted: str) -> Refused:
    """Say that a value is not of the type declared."""
    return Refused(f"it is of type {value_type_name(value)}, not {wanted} as declared")


def wrong_tree(tree: Json, wanted: str) -> Refused:
    """Say that a tree is not what a part writes."""
    shown = repr(tree)
    return Refused(f"{shown if len(shown) <= 60 else shown[:60] + '…'} stands where {wanted} should be")


def at(step: str, function: Callable[[Any], Any], given: Any) -> Any:
    """Call a function of a part, and note the step if it refuses."""
    try:
        return function(given)
    except Refused as refused:
        refused.at(step)
        raise


def never(value: object) -> bool:
    """Tell that values of a type may change."""
    return False


def always(value: object) -> bool:
    """Tell that values of a type never change."""
    return True


@dataclass(frozen=True, slots=True)
class Items:
    """How a tracker sees a list or a tuple: its items, in their order, are those of the tree."""

    cls: type
    item: Part
    fixed: bool = False
    """Whether equal items count as the same one: those of frozen models, whose comparison takes long."""


@dataclass(frozen=True, slots=True)
class Entries:
    """How a tracker sees what is written as an object: by key."""

    plain: Callable[[Any], Mapping[str, Any] | None]
    """Give what stands under each key of the tree; None for a value that is written in another way."""
    part: Callable[[str], Part]
    step: str
    """How a step to a key is shown."""


@dataclass(frozen=True, slots=True)
class Maybe:
    """How a tracker sees a value that may be None."""

    inner: Part


@dataclass(frozen=True, slots=True)
class ByClass:
    """How a tracker sees a value without a declared type."""

    tracks: Mapping[type, Items | Entries]


Track = Items | Entries | Maybe | ByClass


@dataclass(slots=True, eq=False)
class Part:
    """How the values of one type are written and read."""

    name: str
    kinds: frozenset[str]
    """What its trees may look like."""
    classes: tuple[type, ...]
    """The classes that its values have."""
    encode: Encode
    decode: Decode
    heirs: bool = False
    """Whether it takes subclasses of these classes too."""
    solid: Callable[[Any], bool] = always
    """Whether a value is certain never to change, as long as its tree has no loose part."""
    track: Track | None = None
    check: Callable[[Any], None] | None = None
    """What a value must pass besides; raises :class:`Refused`."""
    target: Part | None = field(default=None, repr=False)
    """The part that this one stands for, where a type contains itself."""

    def takes(self, cls: type) -> bool:
        """Tell whether a value of a class may be of this type."""
        if cls in self.classes:
            return True
        return self.heirs and any(issubclass(cls, base) for base in self.classes)


class Build(Protocol):
    """Makes the part of a type; given to those whose types have types inside."""

    def part(self, form: Any, *, checked: bool = False) -> Part:
        """Give the part of a type.

        Args:
            form: The type.
            checked: Whether limits in ``Annotated`` count, as they do in the fields of a model.

        Raises:
            Refused: Its values cannot be saved.
        """
        ...

    def part_at(self, step: str, form: Any, *, checked: bool = False) -> Part:
        """As :meth:`part`, for a type that stands inside of another one."""
        ...

    def heirs(self, base: type, wanted: str) -> tuple[Encode, Decode]:
        """Give how values of subclasses are written and read: with the name of their class."""
        ...

    @property
    def anything(self) -> Part:
        """The part for what has no type."""
        ...


class _Level(threading.local):
    depth = 0


_level = _Level()


def guarded(encode: Callable[[Any], T]) -> Callable[[Any], T]:
    """Refuse what is nested too deeply, or contains itself."""

    def deeper(value: Any) -> T:
        depth = _level.depth
        if depth >= MAX_DEPTH:
            raise Refused(f"it is nested more than {MAX_DEPTH} levels deep, or contains itself")
        _level.depth = depth + 1
        try:
            return encode(value)
        finally:
            _level.depth = depth

    return deeper


def standing_for(part: Part) -> Part:
    """Make a part for a type that is met inside of itself, while its own part is still being made."""
    return Part(
        part.name,
        part.kinds,
        part.classes,
        guarded(lambda value: part.encode(value)),  # noqa: PLW0108  it is not yet there
        lambda tree: part.decode(tree),  # noqa: PLW0108
        part.heirs,
        never,
        target=part,
    )


def payload(tree: Any, tag: str, wanted: str) -> Any:
    """Give what a tag holds."""
    if tree.__class__ is dict and len(tree) == 1 and tag in tree:
        return tree[tag]
    raise wrong_tree(tree, wanted)


def pair(tree: Any, wanted: str) -> tuple[Any, Any]:
    """Give the two items of a list of two."""
    if tree.__class__ is not list or len(tree) != 2:
        raise wrong_tree(tree, wanted)
    return tree[0], tree[1]


def listed(names: Iterable[str]) -> str:
    """List some names for a message."""
    found = sorted(names)
    return ", ".join(map(repr, found[:5])) + (", …" if len(found) > 5 else "")
