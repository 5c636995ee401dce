# Types are made at run time here, and type checkers do not take them for that.
# mypy: disable-error-code="abstract, arg-type, operator, assignment, misc, unused-ignore, valid-type, call-overload"
# pyright: basic, reportGeneralTypeIssues=false, reportInvalidTypeForm=false, reportArgumentType=false
"""What a record of anybody can do: be told to be damaged, and nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import enum
import sys
import threading
import typing as t
from collections.abc import Iterator

import pytest
import typing_extensions as te
from pydantic import (
    BaseModel,
    Field,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from anabranch.compose._codec import Json, codec_for, dump, load
from anabranch.compose.errors import DamagedRecordError, UnsavableValueError
from anabranch.schema import (
    Message,
    TextPart,
)


class Color(enum.StrEnum):
    RED = "r"


class Animal(BaseModel):
    name: str


class Dog(Animal):
    tricks: list[str] = []


class Client:
    pass


# -- models that would not take it, and code that must not run ---------------------------------------------------------


class Limited(BaseModel):
    count: int = Field(ge=0, default=0)
    names: list[t.Annotated[str, Field(max_length=3)]] = Field(default=[], max_length=2)
    share: float | None = Field(default=None, lt=1)


@pydantic_dataclass
class LimitedData:
    count: t.Annotated[int, Field(gt=0)] = 1


@pytest.mark.parametrize(
    ("form", "values", "path"),
    [
        (Limited, {"count": -1}, "count"),
        (Limited, {"names": ["abcd"]}, "names[0]"),
        (Limited, {"names": ["a", "b", "c"]}, "names"),
        (Limited, {"share": 1.0}, "share"),
    ],
)
def test_what_a_model_would_refuse_is_not_saved_and_not_loaded(
    form: t.Any, values: dict[str, t.Any], path: str
) -> None:
    codec = codec_for(form)
    made = Limited.model_construct(**values)
    with pytest.raises(UnsavableValueError, match="not within the limit") as caught:
        codec.encode(made)
    assert caught.value.path == path
    with pytest.raises(DamagedRecordError, match="not within the limit") as told:
        codec.decode({"count": 0, "names": [], "share": None, **values})
    assert told.value.path == path


def test_limits_hold_for_validated_dataclasses_and_not_for_others() -> None:
    with pytest.raises(DamagedRecordError, match="gt=0"):
        codec_for(LimitedData).decode({"count": 0})
    assert codec_for(list[t.Annotated[int, Field(gt=0)]]).decode([0]) == [0]


class Shouting(BaseModel):
    """A model whose validators change what goes through them."""

    text: str
    runs: t.ClassVar[int] = 0

    @field_validator("text")
    @classmethod
    def shout(cls, text: str) -> str:
        cls.runs += 1
        return text + "!"

    @model_validator(mode="after")
    def count(self) -> Shouting:
        type(self).runs += 1
        return self

    def model_post_init(self, context: t.Any, /) -> None:
        type(self).runs += 1


def test_no_validator_and_no_init_runs_when_a_value_is_read() -> None:
    codec = codec_for(Shouting)
    value = Shouting(text="hi")
    tree = codec.encode(value)
    before = Shouting.runs
    assert codec.decode(tree) == value
    assert Shouting.runs == before


@dataclasses.dataclass
class Defaults:
    a: int
    b: list[int] = dataclasses.field(default_factory=list)
    c: str = "c"
    d: object = dataclasses.field(default_factory=lambda: pytest.fail("a factory of the user's was called"))


def test_a_field_that_a_record_does_not_have_gets_its_default_unless_that_needs_code() -> None:
    assert codec_for(Defaults).decode({"a": 1, "d": 2}) == Defaults(1, [], "c", 2)
    with pytest.raises(DamagedRecordError, match="the field 'd' of Defaults is missing"):
        codec_for(Defaults).decode({"a": 1})
    with pytest.raises(DamagedRecordError, match="Defaults has no field 'e'"):
        codec_for(Defaults).decode({"a": 1, "d": 2, "e": 3})
    assert codec_for(Dog).decode({"name": "Rex"}) == Dog(name="Rex")


# -- records of anybody ------------------------------------------------------------------------------------------------

WATCHED = {"import", "exec", "compile", "pickle.find_class", "open", "ctypes.dlopen", "marshal.loads", "code.__new__"}
seen: list[str] = []
watching = threading.local()


def watch(event: str, args: tuple[t.Any, ...]) -> None:
    if getattr(watching, "on", False) and (event in WATCHED or event.startswith(("os.", "subprocess.", "socket."))):
        seen.append(f"{event} {args!r:.200}")


@contextlib.contextmanager
def nothing_runs() -> Iterator[None]:
    """Fail if something is imported, compiled, executed or opened inside."""
    if not hasattr(watching, "on"):
        sys.addaudithook(watch)
    seen.clear()
    watching.on = True
    try:
        yield
    finally:
        watching.on = False
    assert seen == []


Recursive = te.TypeAliasType("Recursive", "list[Recursive] | int")
WRITTEN: list[tuple[t.Any, t.Any]] = [
    (t.Any, [(1, {2}), 1 << 80, b"x", {3: dt.date(2020, 1, 1)}, Message.user("Hi", extra={"a": [1]})]),
    (list[Animal], [Animal(name="Tom"), Dog(name="Rex", tricks=["sit"])]),
    (dict[Color, int | list[Message]], {Color.RED: [Message.assistant([TextPart("x")])]}),
    (dt.datetime, dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
]
HOSTILE: list[Json] = [
    {"$is": ["os:system", "true"]},
    {"$is": ["builtins:eval", "1"]},
    {"$is": ["subprocess:Popen", {"args": "true"}]},
    {"$is": [f"{__name__}:Client", {}]},
    {"$is": [["a"], {}]},
    {"$is": None},
    {"$value": ["os.system", {}]},
    {"$value": ["Message", {"role": "king", "content": ""}]},
    {"$value": ["Message", {"role": "user", "content": "", "extra": 3}]},
    {"$value": ["Message", {"role": "user", "content": "", "$private": {"a": 1}}]},
    {"$value": ["Message", {"role": "user", "content": "", "$extra": {"a": 1}}]},
    {"$datetime": ["2020-01-01T00:00:00", "../../etc/passwd", 0]},
    {"$datetime": ["2020-01-01T00:00:00", "/etc/passwd", 0]},
    {"$datetime": ["2020-01-01T00:00:00", "No/Where", 0]},
    {"$datetime": ["2020-01-01T00:00:00", [10**30], 0]},
    {"$datetime": ["2020-01-01T00:00:00", None, 7]},
    {"$datetime": "yesterday"},
    {"$timedelta": [10**30, 0, 0]},
    {"$defaultdict": ["eval", {}]},
    {"$deque": {"$deque": [-1, []]}},
    {"$deque": {"$deque": [1, [1, 2]]}},
    {"$set": [[1]]},
    {"$set": [1, 1]},
    {"$set": [{"$tuple": [[]]}]},
    {"$dict": [[1, 2], [1, 3]]},
    {"$dict": [[[], 1]]},
    {"$dict": [[1]]},
    {"$int": "1" * 5000},
    {"$int": "0x_1"},
    {"$float": "1e5"},
    {"$decimal": "one"},
    {"$decimal": "1_0"},
    {"$uuid": "1"},
    {"$bytes": "é"},
    {"$bytes": "a"},
    {"$path": {"$path": ["os", "x"]}},
    {"$path": {"$path": [[], "x"]}},
    {"$frozendict": []},
    {"$frozendict": {"$plain": {"$is": []}}},
    {"$frozenlist": {}},
    {"$complex": [1]},
    {"$pickle": "gASVAAAAAAAAAA=="},
    {"py/object": "os.system", "$is": 1, "$of": 2, "lc": 1},
]
FORMS = [
    t.Any,
    Animal,
    BaseModel,
    Message,
    dict[str, t.Any],
    int | str | Animal,
    dt.datetime,
    Color,
    str,
    Defaults,
    tuple[int, ...],
]


@pytest.mark.parametrize("form", FORMS)
def test_a_hostile_record_is_told_and_runs_nothing(form: t.Any) -> None:
    codec = codec_for(form)
    codec_for(t.Any).decode({"$datetime": ["2020-01-01T00:00:00", "UTC", 0]})
    for tree in HOSTILE:
        data = dump(tree)
        with nothing_runs(), contextlib.suppress(DamagedRecordError):
            found = codec.decode(load(data, 10_000))
            assert "py/object" in found


@pytest.mark.parametrize("tree", HOSTILE[:-1])
def test_a_hostile_record_is_no_untyped_value(tree: Json) -> None:
    with pytest.raises(DamagedRecordError):
        codec_for(t.Any).decode(tree)


def test_reading_what_was_written_runs_nothing() -> None:
    for form, value in WRITTEN:
        codec = codec_for(form)
        data = dump(codec.encode(value))
        with nothing_runs():
            assert codec.decode(load(data, 10_000)) == value


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no JSON"),
        (b"nul", "no JSON"),
        (b"[1,]", "no JSON"),
        (b"NaN", "no JSON"),
        (b"-Infinity", "no JSON"),
        (b"1e999", "out of range"),
        (b"9" * 5000, "no JSON"),
        (b"\xff", "no JSON"),
        (b"\xef\xbb\xbf1", "no JSON"),
        (b"1 2", "no JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'"' + b"a" * 200_000 + b'"', "are the most that are read"),
        (b"\x80\x04\x95", "no JSON"),
    ],
)
def test_what_is_no_json_is_told(data: bytes, why: str) -> None:
    with pytest.raises(DamagedRecordError, match=why):
        load(data, 600_000 if data[:1] in b"[{" else 100_000)


def test_a_deep_record_is_told() -> None:
    tree: t.Any = 1
    for _ in range(900):
        tree = [tree]
    for form in (t.Any, Recursive):
        with pytest.raises(DamagedRecordError, match="nested too deeply"):
            codec_for(form).decode(tree)
