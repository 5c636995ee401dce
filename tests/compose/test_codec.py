# Types are made at run time here, and type checkers do not take them for that.
# mypy: disable-error-code="abstract, arg-type, operator, assignment, misc, unused-ignore, valid-type, call-overload"
# pyright: basic, reportGeneralTypeIssues=false, reportInvalidTypeForm=false, reportArgumentType=false
"""How values are written, which types and values are refused and where, and what damage is told."""

from __future__ import annotations

import abc as abc_
import collections
import dataclasses
import datetime as dt
import enum
import functools
import io
import pickle
import re
import sys
import threading
import typing as t
import zoneinfo
from collections import abc

import pytest
import typing_extensions as te
from pydantic import (
    BaseModel,
    ConfigDict,
    JsonValue,
    PrivateAttr,
    RootModel,
    SecretStr,
    create_model,
)

from anabranch.compose._codec import Json, codec_for, dump, load
from anabranch.compose.errors import UnsavableTypeError, UnsavableValueError
from anabranch.schema import (
    Document,
    Message,
    ModelOptions,
    NamedTool,
    StreamReader,
    TextPart,
    ToolCall,
    Usage,
)


class Color(enum.StrEnum):
    RED = "r"


class Animal(BaseModel):
    name: str


class Dog(Animal):
    tricks: list[str] = []


class Locked(Animal):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    lock: t.Any = None


class Cat(Animal):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    lock: threading.Thread | None = None


@dataclasses.dataclass
class Job:
    id: int
    handler: t.Callable[[], int] | None = None


@dataclasses.dataclass
class Loose:
    id: int

    def __post_init__(self) -> None:
        self.seen = True

    @functools.cached_property
    def twice(self) -> int:
        return 2 * self.id


class Failure(Exception):
    pass


@dataclasses.dataclass
class Failed(Exception):
    reason: str


class Slotted:
    __slots__ = ("hidden",)


@dataclasses.dataclass
class OnSlotted(Slotted):
    shown: int = 0


@dataclasses.dataclass
class ListLike(list[int]):
    name: str = ""


class Client:
    pass


class Holder(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    jobs: list[dict[str, tuple[int, Job]]]


class Hiding(BaseModel):
    _client: Client = PrivateAttr()


# -- the format --------------------------------------------------------------------------------------------------------

PARIS = zoneinfo.ZoneInfo("Europe/Paris")
WRITTEN: list[tuple[t.Any, t.Any, Json]] = [
    (int, 1 << 63, {"$int": "0x8000000000000000"}),
    (int, True, True),
    (float, float("nan"), {"$float": "nan"}),
    (float, 3, 3),
    (bytes, b"\x00", "AA=="),
    (str, Color.RED, {"$is": [f"{__name__}:Color", "RED"]}),
    (Color, Color.RED, "RED"),
    (dt.datetime, dt.datetime(2020, 10, 25, 2, 30, tzinfo=PARIS, fold=1), ["2020-10-25T02:30:00", "Europe/Paris", 1]),
    (dt.datetime, dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "2020-01-01T00:00:00+00:00"),
    (set[str], {"b", "a"}, ["a", "b"]),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (dict[int, str], {1: "a"}, {"$dict": [[1, "a"]]}),
    (dict[str, int], {"$is": 1}, {"$dict": [["$is", 1]]}),
    (int | None, None, None),
    (int | str, "1", "1"),
    (Color | str, Color.RED, {"$of": ["Color", "RED"]}),
    (list[int] | list[str], ["a"], {"$of": ["list[str]", ["a"]]}),
    (t.Any, (1, {2}), {"$tuple": [1, {"$set": [2]}]}),
    (t.Any, Message.user("Hi"), {"$value": ["Message", {"role": "user", "content": "Hi"}]}),
    (Message, Message(role="user", content="Hi"), {"role": "user", "content": "Hi", "$fields": ["content", "role"]}),
    (Animal, Animal(name="Tom"), {"name": "Tom"}),
    (Animal, Dog(name="Rex", tricks=["sit"]), {"$is": [f"{__name__}:Dog", {"name": "Rex", "tricks": ["sit"]}]}),
    (Job, Job(1), {"id": 1, "handler": None}),
]


@pytest.mark.parametrize(("form", "value", "tree"), [row for row in WRITTEN if row[0] is not Job])
def test_values_are_written_in_their_plainest_form(form: t.Any, value: t.Any, tree: Json) -> None:
    assert codec_for(form).encode(value) == tree
    again = codec_for(form).decode(load(dump(tree), 1000))
    assert type(again) is type(value)
    assert again == value or repr(again) == repr(value) == "nan"


Recursive = te.TypeAliasType("Recursive", "list[Recursive] | dict[str, Recursive] | int | None")
OneOf = t.NewType("OneOf", t.Union[int, str])  # type: ignore[valid-newtype]  # noqa: UP007
Bound = t.TypeVar("Bound", bound=Animal)
Either = t.TypeVar("Either", int, str)


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (Recursive, [1, {"a": [None]}]),
        (JsonValue, {"a": [1, None, "x"]}),
        (OneOf | None, "x"),
        (Bound, Dog(name="Rex")),
        (list[Either], [1, "x"]),
        (RootModel[list[int]], RootModel[list[int]]([1])),
        (tuple[()], ()),
        (t.Annotated[int, []], 3),
        (dict[str, t.Annotated[Animal, "said"]], {"a": Dog(name="Rex")}),
        (abc.Iterable[int], (1, 2)),
        (ModelOptions, ModelOptions(temperature=0.5, tool_choice=NamedTool(name="add"))),
        (Document, Document(id="1", content="x", metadata={"a": [1, {"b": 2}]})),
        (object, [Usage(input_tokens=1), TextPart("x"), ToolCall(id="1", extra={"a": [1]})]),
    ],
)
def test_what_a_type_is_called_or_made_of_does_not_matter(form: t.Any, value: t.Any) -> None:
    codec = codec_for(form)
    again = codec.decode(load(dump(codec.encode(value)), 10_000))
    assert again == value
    assert type(again) is type(value)


class Shape(abc_.ABC):
    @abc_.abstractmethod
    def area(self) -> float: ...


@dataclasses.dataclass
class Square(Shape):
    side: float

    def area(self) -> float:
        return self.side**2


class Empty(abc_.ABC):  # noqa: B024
    pass


def test_values_of_an_abstract_class_are_those_of_its_subclasses() -> None:
    codec = codec_for(list[Shape])
    assert codec.decode(codec.encode([Square(2)])) == [Square(2)]


@dataclasses.dataclass
class Node:
    next: Node | None = None
    others: list[Node | str] = dataclasses.field(default_factory=list)


class Chained(te.TypedDict):
    next: Chained | list[int] | None


class Linked(t.NamedTuple):
    next: Linked | tuple[int, int] | None


Nested = te.TypeAliasType("Nested", "list[Nested | int | str | tuple[int, ...]]")
RECURSIVE: list[tuple[t.Any, t.Any]] = [
    (Node, Node(Node(), ["x", Node()])),
    (Chained, {"next": {"next": [1]}}),
    (Linked, Linked(Linked((1, 2)))),
    (Linked, Linked(Linked(None))),
    (Nested, [1, [2, ["x"], (1, 2)]]),
]


@pytest.mark.parametrize(("form", "value"), RECURSIVE)
def test_a_type_that_contains_itself_is_written_alike_from_wherever_it_is_reached(form: t.Any, value: t.Any) -> None:
    tree = codec_for(form).encode(value)
    assert codec_for(form).decode(load(dump(tree), 1000)) == value
    assert codec_for(list[form]).encode([value]) == [tree]
    keys = {"one": form | bytes | None, "two": form}
    other = te.TypedDict("Other", keys)  # type: ignore[operator]
    for key, found in t.cast("dict[str, t.Any]", codec_for(other).encode({"one": value, "two": value})).items():
        assert found == tree, key


def test_a_codec_is_made_once() -> None:
    assert codec_for(list[Message]) is codec_for(list[Message])
    assert repr(codec_for(list[Message])) == "<Codec for list[Message]>"


# -- types that are refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "path", "why"),
    [
        (abc.Callable[[], int], "", "are no data"),
        (type[int], "", "are no data"),
        (t.NoReturn, "", "are no data"),
        (Failure, "", "are exceptions"),
        (list[BaseException], "[]", "are exceptions"),
        (Failed, "", "are exceptions"),
        (StreamReader[int], "", "do not say what they hold"),
        (threading.Lock, "", "is not a type" if sys.version_info < (3, 13) else "do not say what they hold"),
        (io.TextIOWrapper, "", "do not say what they hold"),
        (re.Pattern[str], "", "do not say what they hold"),
        (dict[str, Client], "[]", "do not say what they hold"),
        (dict[Client, str], "[key]", "do not say what they hold"),
        (abc.Iterator[int], "", "can be of any class"),
        (abc.AsyncIterator[int], "", "can be of any class"),
        (abc.Generator[int, None, None], "", "can be of any class"),
        (t.SupportsInt, "", "can be of any class"),
        (SecretStr, "", "are secrets"),
        (Empty, "", "do not say what they hold"),
        (int | Client, "", "Client do not say"),
        (Job, "handler", "Callable[[], int] are no data"),
        (Holder, "jobs[][][1].handler", "are no data"),
        (Hiding, "_client", "Client do not say"),
        (list[Holder] | None, "[].jobs[][][1].handler", "are no data"),
        (te.TypedDict("Made", {"x": Client}), "['x']", "Client do not say"),
        (t.NamedTuple("Made", [("x", Client)]), ".x"[1:], "Client do not say"),
        (OnSlotted, "", "the slot 'hidden'"),
        (ListLike, "", "it is a list too"),
        (range, "", "do not say what they hold"),
        (memoryview, "", "do not say what they hold"),
    ],
)
def test_a_type_whose_values_would_not_come_back_is_refused_with_the_path(form: t.Any, path: str, why: str) -> None:
    with pytest.raises(UnsavableTypeError) as caught:
        codec_for(form)
    assert caught.value.path == path
    assert why in caught.value.why
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_a_type_that_was_refused_once_is_refused_again_and_taken_alone_where_it_can_be() -> None:
    for _ in range(2):
        with pytest.raises(UnsavableTypeError):
            codec_for(tuple[Animal, Client])
    assert codec_for(Animal).encode(Animal(name="Tom")) == {"name": "Tom"}


# -- values that are refused -------------------------------------------------------------------------------------------


class MyInt(int):
    pass


class MyList(list[int]):
    pass


def wrong_history() -> list[Message]:
    return [Message.user("x"), Message.user("y").model_copy(update={"extra": {"x": [print]}})]


def local_dog() -> Animal:
    class Local(Dog):
        pass

    return Local(name="Rex")


def unset_job() -> Job:
    made = Job(1)
    del made.__dict__["handler"]
    return made


def cyclic() -> list[t.Any]:
    found: list[t.Any] = []
    found.append(found)
    return found


def deep(levels: int) -> t.Any:
    found: t.Any = 1
    for _ in range(levels):
        found = [found]
    return found


class Zone(dt.tzinfo):
    pass


@pytest.mark.parametrize(
    ("form", "value", "path", "why"),
    [
        (int, "1", "", "it is of type str, not int as declared"),
        (int, MyInt(1), "", "MyInt, not int"),
        (bool, 1, "", "int, not bool"),
        (list[int], (1,), "", "tuple[int], not list[int]"),
        (list[int], MyList([1]), "", "MyList, not list[int]"),
        (list[list[int]], [[1], [2, "x"]], "[1][1]", "str, not int"),
        (dict[str, int], {"a": None}, "['a']", "None, not int"),
        (tuple[int, str], (1, 2), "[1]", "int, not str"),
        (tuple[int, str], (1,), "", "it has 1 items, and tuple[int, str] has 2"),
        (int | list[str], 1.5, "", "float, not int | list[str]"),
        (list[int] | list[str], [None], "", "fits no member of list[int] | list[str]"),
        (t.Literal["a", 1], True, "", "which is not in Literal['a', 1]"),
        (list[Message], wrong_history(), "[1].extra['x'][0]", "no type is declared here"),
        (Animal, local_dog(), "", "was made inside a function"),
        (Animal, Cat(name="Tom"), "", "it is a Cat, which cannot be saved: lock: values of Thread"),
        (Animal, Locked(name="x", lock=threading.Lock()), "lock", "it is of type lock"),
        (Animal, Animal.model_construct(name=1), "name", "int, not str"),
        (Animal, Animal.model_construct(), "", "its field 'name' is not set"),
        (Loose, Loose(1), "", "its attribute 'seen' is no field"),
        (t.Any, Color.RED, "", "declare the type"),
        (t.Any, [1, {"a": object()}], "[1]['a']", "object"),
        (t.Any, {1, (2, Client)}, "[…][1]", "type[Client]"),
        (t.Any, cyclic(), "".join(["[0]"] * 100), "contains itself"),
        (t.Any, deep(101), "".join(["[0]"] * 100), "more than 100 levels deep"),
        (dt.datetime, dt.datetime(2020, 1, 1, tzinfo=Zone()), "", "its time zone is a Zone"),
        (
            dt.datetime,
            dt.datetime(2020, 1, 1, tzinfo=zoneinfo.ZoneInfo.no_cache("UTC")),
            "",
            "its time zone is a ZoneInfo",
        ),
        (abc.Iterable[int], iter([1]), "", "list_iterator"),
        (collections.defaultdict[str, int], collections.defaultdict(lambda: 1), "", "its default factory"),
        (te.TypedDict("Made", {"x": int}), {}, "", "the key 'x' of Made is missing"),
        (te.TypedDict("Made", {"x": int}), {"x": 1, 2: 3}, "", "its key 2 is no text"),
    ],
)
def test_a_value_that_would_not_come_back_is_refused_with_the_path(
    form: t.Any, value: t.Any, path: str, why: str
) -> None:
    with pytest.raises(UnsavableValueError) as caught:
        codec_for(form).encode(value)
    assert caught.value.path == path
    assert why in caught.value.why
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


def test_what_is_just_not_too_deep_is_written_and_read() -> None:
    codec = codec_for(t.Any)
    assert codec.decode(load(dump(codec.encode(deep(100))), 1000)) == deep(100)


def test_two_classes_of_one_name_are_not_confused() -> None:
    made = [create_model("Twin", __base__=Animal, __module__=__name__) for _ in range(2)]
    with pytest.raises(UnsavableValueError, match="there are 2 classes called"):
        codec_for(Animal).encode(made[0](name="x"))


@dataclasses.dataclass(slots=True)
class Slim:
    a: int


class Slimmer(Slim):
    b: int = 2


replaced = Slimmer
Slimmer = dataclasses.dataclass(slots=True)(Slimmer)


def test_the_class_that_a_decorator_has_replaced_is_in_nobodys_way() -> None:
    assert {replaced, Slimmer} <= set(Slim.__subclasses__())
    codec = codec_for(Slim)
    assert codec.decode(codec.encode(Slimmer(1))) == Slimmer(1)


def test_what_a_cached_property_remembers_is_no_field() -> None:
    @dataclasses.dataclass
    class Made:
        id: int

        @functools.cached_property
        def twice(self) -> int:
            return 2 * self.id

    made = Made(1)
    assert made.twice == 2
    assert codec_for(Made).decode(codec_for(Made).encode(made)) == made


@pytest.mark.parametrize("text", ["\ud800", "\udc00\ud800", "\ud83d" + "\ude00", "😀", "\x00", "é\u2028"])
def test_every_text_survives(text: str) -> None:
    assert load(dump({text: [text]}), 1000) == {text: [text]}
