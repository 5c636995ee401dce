# Types are made at run time here, and type checkers do not take them for that.
# ruff: noqa: UP007, UP045
# mypy: disable-error-code="arg-type, assignment, misc, unused-ignore, valid-type, call-overload"
# pyright: basic, reportGeneralTypeIssues=false, reportInvalidTypeForm=false, reportArgumentType=false
"""The laws of the codec, over made-up types and values of them: all comes back as it was, and damage is told."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import pathlib
import types
import typing as t
import uuid
import zoneinfo
from collections import abc

import pytest
import typing_extensions as te
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, create_model

from anabranch.compose._codec import Codec, Json, codec_for, dump, load
from anabranch.compose.errors import DamagedRecordError
from anabranch.schema import Document, Message, ReasoningPart, TextPart, ToolCall, ToolResultPart, Usage
from anabranch.schema._frozen import freeze

pytestmark = pytest.mark.timeout(600)  # for the thousands of examples of the nightly profile

Typed = tuple[t.Any, "st.SearchStrategy[t.Any]"]
"""A type, and values of it."""

FEW = settings(max_examples=max(60, settings().max_examples // 2))


# -- classes -----------------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = "red"
    BLUE = (1, 2)
    ALSO_RED = "red"  # noqa: PIE796  an alias


class Word(enum.StrEnum):
    ONE = "one"
    TWO = "two"


class Number(enum.IntEnum):
    ONE = 1
    BIG = 1 << 70


class Access(enum.Flag):
    READ = 1
    WRITE = 2
    BOTH = 3


class Bits(enum.IntFlag, boundary=enum.KEEP):
    LOW = 1
    HIGH = 8


class Point(t.NamedTuple):
    x: float
    label: str = ""


class Animal(BaseModel):
    name: str


class Dog(Animal):
    tricks: list[str] = []
    _age: int = PrivateAttr(default=1)


class Puppy(Dog):
    mother: Animal | None = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    size: int = Field(default=1, ge=0)


class Tree(BaseModel):
    value: int | str = 0
    children: list[Tree] = []
    by_name: dict[str, Tree | None] = {}


@dataclasses.dataclass
class Job:
    id: int
    done: bool = dataclasses.field(init=False)
    notes: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class TimedJob(Job):
    at: dt.datetime | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pixel:
    x: int
    y: float = 0.0


T = t.TypeVar("T")


@dataclasses.dataclass
class Box(t.Generic[T]):
    content: T


class Shelf(BaseModel, t.Generic[T]):
    items: list[T]


class Entry(te.TypedDict, total=False):
    key: te.Required[str]
    value: int | None


def puppy(name: str, tricks: list[str], age: int, mother: Animal | None) -> Puppy:
    made = Puppy(name=name, tricks=tricks, mother=mother)
    made._age = age
    return made


def job(cls: type[Job], id: int, done: bool | None, notes: list[str]) -> Job:
    made = cls(id, notes)
    if done is not None:
        made.done = done
    return made


# -- values ------------------------------------------------------------------------------------------------------------

text = st.text(st.characters(codec=None), max_size=6) | st.sampled_from(["\ud83d\ude00", "\ud800", "$is", ""])
integers = st.integers(-5, 5) | st.integers()
floats = st.floats()
zones = st.sampled_from(
    [
        None,
        dt.UTC,
        dt.timezone(dt.timedelta(hours=5, minutes=30)),
        dt.timezone(dt.timedelta(microseconds=-1)),
        dt.timezone(dt.timedelta(0), "UTC"),
        zoneinfo.ZoneInfo("Europe/Paris"),
        zoneinfo.ZoneInfo("UTC"),
    ]
)
times = st.builds(lambda at, zone, fold: at.replace(tzinfo=zone, fold=fold), st.datetimes(), zones, st.integers(0, 1))
paths = st.sampled_from(
    [pathlib.Path("/a/b"), pathlib.PureWindowsPath(r"c:\a\b"), pathlib.PurePosixPath("a/../b/\ud800")]
)

plain: st.SearchStrategy[t.Any] = st.none() | st.booleans() | integers | floats | text
json_values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
extras = st.dictionaries(text.filter(lambda name: name != "size"), json_values, max_size=2)
frozen = extras.map(freeze)
numerals = st.decimals().filter(lambda number: not number.is_snan())  # which cannot be hashed
hashable = plain | st.tuples(plain, plain) | st.binary(max_size=3) | numerals | st.uuids() | times
untyped: st.SearchStrategy[t.Any] = st.recursive(
    hashable | paths | st.timedeltas() | st.complex_numbers() | frozen | st.builds(bytearray, st.binary(max_size=3)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(hashable, inner, max_size=3)
        | st.sets(hashable, max_size=3)
        | st.frozensets(hashable, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.builds(collections.deque, st.lists(inner, max_size=2), st.none() | st.integers(2, 5))
        | st.dictionaries(text, inner, max_size=2).map(types.MappingProxyType)
        | st.dictionaries(text, inner, max_size=2).map(collections.OrderedDict)
        | st.dictionaries(text, inner, max_size=2).map(lambda found: collections.defaultdict(list, found))
        | st.lists(hashable, max_size=3).map(collections.Counter)
    ),
    max_leaves=5,
)

parts = st.builds(TextPart, text) | st.builds(ReasoningPart, text, signature=text)
results = st.builds(
    ToolResultPart, tool_call_id=text, content=st.lists(parts.filter(lambda p: p.kind == "text"), max_size=2)
)
calls = st.builds(ToolCall, id=text, name=text, arguments=text, index=st.none() | integers, extra=extras)
messages = st.one_of(
    st.builds(Message.user, text, extra=st.none() | extras),
    st.builds(
        Message,
        role=st.sampled_from(["assistant", "tool"]),
        content=text | st.lists(parts | results, max_size=2),
        tool_calls=st.lists(calls, max_size=2),
        usage=st.none() | st.builds(Usage, input_tokens=integers, details=st.dictionaries(text, integers, max_size=1)),
    ),
    st.builds(
        lambda message, extra: message.model_copy(update={"extra": extra}),
        st.builds(Message.user, text),
        extras,
    ),
)
documents = st.builds(lambda text, data: Document(id="1", content=text, metadata=data), text, extras)
trees = st.recursive(
    st.builds(Tree, value=integers | text),
    lambda inner: st.builds(
        Tree, children=st.lists(inner, max_size=2), by_name=st.dictionaries(text, st.none() | inner, max_size=2)
    ),
    max_leaves=4,
)
dogs = st.builds(puppy, text, st.lists(text, max_size=2), integers, st.none() | st.builds(Animal, name=text))
animals = st.builds(Animal, name=text) | st.builds(Dog, name=text, tricks=st.lists(text, max_size=1)) | dogs
jobs = st.builds(job, st.sampled_from([Job, TimedJob]), integers, st.none() | st.booleans(), st.lists(text, max_size=2))

# -- types -------------------------------------------------------------------------------------------------------------

SCALARS: list[Typed] = [
    (None, st.none()),
    (bool, st.booleans()),
    (int, integers | st.booleans() | st.sampled_from(Number)),
    (float, floats | integers),
    (str, text | st.sampled_from(Word)),
    (bytes, st.binary(max_size=4)),
    (complex, st.complex_numbers() | integers),
    (decimal.Decimal, numerals),
    (fractions.Fraction, st.fractions()),
    (uuid.UUID, st.uuids()),
    (dt.date, st.dates() | times),
    (dt.datetime, times),
    (dt.time, st.builds(lambda at, zone: at.replace(tzinfo=zone), st.times(), zones)),
    (dt.timedelta, st.timedeltas()),
    (pathlib.PurePath, paths),
    (Color, st.sampled_from(Color)),
    (Word, st.sampled_from(Word)),
    (Number, st.sampled_from(Number)),
    (Access, st.sampled_from([Access.READ, Access.BOTH, Access(0)])),
    (Bits, st.integers(-20, 20).map(Bits)),
    (t.Literal["a", 1, True, None, b"x", Color.RED], st.sampled_from(["a", 1, True, None, b"x", Color.RED])),
    (Point, st.builds(Point, floats | integers, text)),
    (Pixel, st.builds(Pixel, x=integers, y=floats)),
]
CLASSES: list[Typed] = [
    (decimal.Decimal, st.decimals()),
    (bytearray, st.builds(bytearray, st.binary(max_size=4))),
    (object, untyped),
    (t.Any, untyped | messages),
    (Animal, animals),
    (BaseModel, animals | trees),
    (Open, st.builds(lambda size, more: Open.model_construct(None, size=size, **more), st.integers(0, 9), extras)),
    (Tree, trees),
    (Job, jobs),
    (Box[int], st.builds(Box, integers)),
    (Box, st.builds(Box, untyped)),
    (Shelf[dt.date], st.lists(st.dates(), max_size=2).map(lambda items: Shelf[dt.date](items=items))),
    (Shelf, st.lists(untyped, max_size=2).map(lambda items: Shelf.model_construct(items=items))),
    (Entry, st.fixed_dictionaries({"key": text}, optional={"value": st.none() | integers, "$is": json_values})),
    (Message, messages),
    (Document, documents),
    (dict, untyped.filter(lambda value: isinstance(value, dict))),
]


def dicts(key: Typed, value: Typed) -> st.SearchStrategy[dict[t.Any, t.Any]]:
    return st.dictionaries(key[1], value[1], max_size=3)


def sequences(item: Typed) -> list[Typed]:
    form, values = item
    lists = st.lists(values, max_size=3)
    return [
        (list[form], lists),
        (tuple[form, ...], lists.map(tuple)),
        (abc.Sequence[form], lists | lists.map(tuple) | lists.map(collections.deque)),
        (collections.deque[form], lists.map(collections.deque)),
        (t.Optional[form], st.none() | values),
        (t.Annotated[form, "said"], values),
        (t.NewType("New", form), values),
    ]


def mappings(key: Typed, value: Typed) -> list[Typed]:
    found = dicts(key, value)
    return [
        (dict[key[0], value[0]], found),
        (abc.Mapping[key[0], value[0]], found | found.map(types.MappingProxyType) | found.map(collections.OrderedDict)),
        (collections.defaultdict[key[0], value[0]], found.map(lambda held: collections.defaultdict(int, held))),
        (collections.Counter[key[0]], st.lists(key[1], max_size=3).map(collections.Counter)),
        (set[key[0]], st.sets(key[1], max_size=3)),
        (abc.Set[key[0]], st.sets(key[1], max_size=3) | st.frozensets(key[1], max_size=3)),
        (tuple[key[0], value[0]], st.tuples(key[1], value[1])),
        (t.Union[key[0], value[0]], key[1] | value[1]),
        (t.Union[list[key[0]], list[value[0]], None], st.lists(key[1], max_size=2) | st.lists(value[1], max_size=2)),
    ]


def model_of(fields: list[Typed], given: int, frozen: bool) -> Typed:
    forms: dict[str, t.Any] = {f"f{number}": (form, ...) for number, (form, _) in enumerate(fields)}
    cls = create_model(
        "Made", __config__=ConfigDict(frozen=frozen, arbitrary_types_allowed=True, defer_build=True), **forms
    )
    names = {name for number, name in enumerate(forms) if given >> number & 1}
    held = st.fixed_dictionaries({f"f{number}": values for number, (_, values) in enumerate(fields)})
    return cls, held.map(lambda values: cls.model_construct(names, **values))


def dataclass_of(fields: list[Typed], frozen: bool, slots: bool) -> Typed:
    forms = [(f"f{number}", form) for number, (form, _) in enumerate(fields)]
    cls = dataclasses.make_dataclass("Made", forms, frozen=frozen, slots=slots, eq=not frozen)
    return cls, st.builds(cls, *[values for _, values in fields])


def typed_dict_of(fields: list[Typed], total: bool) -> Typed:
    keys = {f"${number}": values for number, (_, values) in enumerate(fields)}
    cls = te.TypedDict("Made", {f"${number}": form for number, (form, _) in enumerate(fields)}, total=total)
    return cls, st.fixed_dictionaries(keys) if total else st.fixed_dictionaries({}, optional=keys)


def larger(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    keys = st.sampled_from(SCALARS)
    fields = st.lists(inner, max_size=3)
    return st.one_of(
        inner.flatmap(lambda item: st.sampled_from(sequences(item))),
        st.tuples(keys, inner).flatmap(lambda found: st.sampled_from(mappings(*found))),
        st.builds(model_of, fields, st.integers(0, 7), st.booleans()),
        st.builds(dataclass_of, fields, st.booleans(), st.booleans()),
        st.builds(typed_dict_of, fields, st.booleans()),
    )


def kinds() -> st.SearchStrategy[Typed]:
    return st.recursive(st.sampled_from(SCALARS) | st.sampled_from(CLASSES), larger, max_leaves=4)


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[t.Any, t.Any]:
    form, values = draw(kinds())
    return form, draw(values)


# -- what "as it was" means --------------------------------------------------------------------------------------------


def picture(value: t.Any) -> t.Any:
    """All there is to see of a value, and of what is in it: two values with one picture cannot be told apart."""
    cls = type(value)
    if isinstance(value, BaseModel):
        private = value.__pydantic_private__
        return cls, inside(value.__dict__), value.model_fields_set, inside(value.model_extra), inside(private)
    if dataclasses.is_dataclass(value):
        return cls, [(f.name, picture(getattr(value, f.name, "unset"))) for f in dataclasses.fields(value)]
    if isinstance(value, set | frozenset):
        return cls, sorted((picture(item) for item in value), key=repr)
    if isinstance(value, abc.Mapping):
        return cls, inside(value), getattr(value, "default_factory", None)
    if isinstance(value, list | tuple | collections.deque):
        return cls, [picture(item) for item in value], getattr(value, "maxlen", None)
    return cls, repr(value), getattr(value, "fold", None)


def inside(value: t.Any) -> t.Any:
    return None if value is None else [(picture(key), picture(item)) for key, item in value.items()]


def there_and_back(codec: Codec, value: t.Any) -> t.Any:
    return codec.decode(load(dump(codec.encode(value)), 1 << 20))


@given(typed_values())
def test_what_is_written_comes_back_equal_and_of_the_same_type_at_every_depth(found: tuple[t.Any, t.Any]) -> None:
    form, value = found
    codec = codec_for(form)
    assert picture(there_and_back(codec, value)) == picture(value)


@FEW
@given(untyped | messages | documents)
def test_untyped_values_come_back_equal_and_of_the_same_type_at_every_depth(value: t.Any) -> None:
    assert picture(there_and_back(codec_for(t.Any), value)) == picture(value)


@FEW
@given(typed_values())
def test_a_type_has_one_encoding_however_its_unions_are_written(found: tuple[t.Any, t.Any]) -> None:
    form, value = found
    one = codec_for(t.Union[form, Color, list[int], Animal])
    other = Codec(one.form, codec_for.__globals__["_new"](t.Union[Animal, list[int], Color, form]).part)
    assert picture(other.decode(one.encode(value))) == picture(value)


# -- damage ------------------------------------------------------------------------------------------------------------

names = st.sampled_from(
    ["$is", "$of", "$dict", "$value", "$path", "$int", "$fields", "$private", "$extra", "f0", "key"]
)
loose = st.recursive(
    st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names | text, inner, max_size=2)
        | st.builds(lambda name, item: {name: item}, names, inner)
    ),
    max_leaves=8,
)


def places(tree: t.Any, at: tuple[t.Any, ...] = ()) -> abc.Iterator[tuple[t.Any, ...]]:
    yield at
    if isinstance(tree, dict | list):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            yield from places(tree[key], (*at, key))


def damaged(tree: t.Any, at: tuple[t.Any, ...], what: Json) -> t.Any:
    if not at:
        return what
    copy = tree.copy()
    copy[at[0]] = damaged(copy[at[0]], at[1:], what)
    return copy


def accepts_or_tells(codec: Codec, tree: Json) -> None:
    """What is accepted is a value of the type: it can be written again."""
    try:
        value = codec.decode(tree)
    except DamagedRecordError:
        return
    assert picture(there_and_back(codec, value)) == picture(value)


@given(typed_values(), st.data())
def test_a_damaged_record_is_told_and_what_is_accepted_is_of_the_type(
    found: tuple[t.Any, t.Any], data: st.DataObject
) -> None:
    codec = codec_for(found[0])
    tree = codec.encode(found[1])
    at = data.draw(st.sampled_from(list(places(tree))))
    accepts_or_tells(codec, damaged(tree, at, data.draw(loose)))


@given(kinds(), loose)
def test_any_json_is_accepted_or_told_to_be_damaged(kind: Typed, tree: Json) -> None:
    accepts_or_tells(codec_for(kind[0]), tree)
    accepts_or_tells(codec_for(t.Any), tree)


@FEW
@given(st.binary(max_size=40) | st.text(max_size=20).map(lambda said: said.encode("utf-8", "replace")))
def test_any_bytes_are_read_or_told_to_be_damaged(data: bytes) -> None:
    try:
        tree = load(data, 100)
    except DamagedRecordError:
        return
    assert load(dump(tree), 1000) == tree
