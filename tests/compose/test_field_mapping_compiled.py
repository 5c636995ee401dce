"""Field mappings: what compile() finds in paths, types, static values and extractors."""

from __future__ import annotations

from abc import ABC
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Any, Generic, Literal, NamedTuple, NewType, NotRequired, Protocol, TypedDict, TypeVar

import pytest
from pydantic import BaseModel, Field

from anabranch.compose import START, FieldMapping, GraphCompileError, Workflow, field
from anabranch.schema import Message, StreamReader

pytestmark = pytest.mark.anyio

T = TypeVar("T")


class User(BaseModel):
    name: str
    nick: str | None = None

    @property
    def initial(self) -> str:
        return self.name[0]

    @cached_property
    def length(self) -> int:
        return len(self.name)

    def shout(self) -> str:
        return self.name.upper()


class Order(BaseModel):
    user: User | None = None
    amount: int = 0
    extra: dict[str, Any] = {}


@dataclass
class Point:
    x: int
    y: int = 0
    norm: int = dataclass_field(default=7, init=False)


@dataclass(frozen=True)
class Box(Generic[T]):
    inside: T
    _mark: str = ""


class Crate(BaseModel, Generic[T]):
    inside: T


class Settings(TypedDict):
    lang: str
    size: NotRequired[int]


class Pair(NamedTuple):
    left: str
    right: int = 2


class Renamed(BaseModel):
    first: str = Field(alias="FIRST")
    second: str = Field(default="", validation_alias="first")


class Named(Protocol):
    name: str


class Base(ABC):  # noqa: B024
    pass


UserId = NewType("UserId", User)


def mapped(source: Any, target: Any, *mappings: FieldMapping, static: Mapping[str, Any] | None = None) -> Any:
    """Make a workflow whose output is put together from its input."""
    workflow = Workflow[Any, Any](input=source, output=target)
    workflow.end.input(START, *mappings)
    for path, value in (static or {}).items():
        workflow.end.static(path, value)
    return workflow


def problems(workflow: Workflow[Any, Any]) -> list[str]:
    with pytest.raises(GraphCompileError) as caught:
        workflow.compile()
    assert {problem.kind for problem in caught.value.problems} == {"mapping"}
    return [problem.text.removeprefix("node 'end': ") for problem in caught.value.problems]


# -- what is found when compiled -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "path", "text"),
    [
        (User, "nam", "'start' gives User; at nam, User has no field 'nam'; did you mean 'name'?"),
        (Order, "user.age", "'start' gives Order; at user.age, User has no field 'age'"),
        (Order, "amount.x", "'start' gives Order; at amount.x, int has no fields"),
        (str, "x", "'start' gives str; at x, str has no fields"),
        (list[User], "name", "at name, list[User] has no fields"),
        (User, "shout", "User has no field 'shout'"),
        (User, "_private", "User has no field '_private'"),
        (dict[int, str], "a", "the keys of dict[int, str] are int, and 'a' is none"),
        (Settings, "colour", "Settings has no field 'colour'"),
        (User | Pair, "age", "no member of User | Pair has 'age'"),
        (Pair, "middle", "Pair has no field 'middle'; it has 'left', 'right'"),
        (Base, "x", "at x, Base has no fields"),
    ],
    ids=str,
)
def test_a_source_path_that_leads_nowhere_is_found_also_where_the_target_is_any(
    source: Any, path: str, text: str
) -> None:
    for target in (Any, dict[str, Any]):
        (found,) = problems(mapped(source, target, field(path, to="deep.er")))
        assert found.startswith(f"'start' ({path} -> deep.er): ")
        assert text in found


@pytest.mark.parametrize(
    ("source", "path", "gives"),
    [
        (User, "name", "str"),
        (User, "nick", "str | None"),
        (User, "initial", "str"),
        (User, "length", "int"),
        (Order, "user.name", "str"),
        (User | None, "name", "str"),
        (User | Pair, "left", "str"),
        (Point | Pair, "right", "int"),
        (Point, "norm", "int"),
        (Box[int], "inside", "int"),
        (Box[int], "_mark", "str"),
        (Crate[list[int]], "inside", "list[int]"),
        (Settings, "size", "int"),
        (Pair, "right", "int"),
        (UserId, "name", "str"),
        (Named, "name", "str"),
        (dict[str, Settings], "a.lang", "str"),
        (Mapping[Literal["a"], bytes], "a", "bytes"),
        (OrderedDict[str, int], "a", "int"),
        (Message, "text", "str"),
        (Renamed, "first", "str"),
    ],
    ids=str,
)
def test_the_type_at_a_path_is_compared_with_what_is_wanted(source: Any, path: str, gives: str) -> None:
    (found,) = problems(mapped(source, dict[str, frozenset[bool]], field(path, to="x")))
    assert found == f"'start' ({path} -> x): it gives {gives}, and frozenset[bool] is wanted there"


@pytest.mark.parametrize(
    ("target", "mappings", "missing"),
    [
        (User, [field("a", to="nick")], ["name (User)"]),
        (Point, [field("a", to="y")], ["x (Point)"]),
        (Settings, [field("a", to="size")], ["lang (Settings)"]),
        (Pair, [field("a", to="right")], ["left (Pair)"]),
        (Renamed, [field("a", to="second")], ["first (Renamed)"]),
        (Order, [field("a", to="user.nick")], ["user.name (User)"]),
        (dict[str, User], [field("a", to="x.nick"), field("b", to="y.nick")], ["x.name (User)", "y.name (User)"]),
        (Crate[Point], [field("a", to="inside.y")], ["inside.x (Point)"]),
    ],
    ids=str,
)
def test_a_required_field_that_nothing_fills_is_found(
    target: Any, mappings: list[FieldMapping], missing: list[str]
) -> None:
    assert problems(mapped(dict[str, Any], target, *mappings)) == [
        f"nothing fills {where.split(' ')[0]} of the input {where.split(' ')[1]}, which is required"
        for where in missing
    ]


def test_whatever_else_is_wrong_a_missing_field_is_said_too() -> None:
    workflow = mapped(User, Point, field("nam", to="z"), field("nick", to="y"), static={"norm": 1})
    assert sorted(text.split(":")[0] for text in problems(workflow)) == [
        "'start' (nam -> z)",  # there is no z
        "'start' (nam -> z)",  # nor is there a nam
        "'start' (nick -> y)",  # a text is no number
        "nothing fills x of the input (Point), which is required",
        "the static value at norm",
    ]


@pytest.mark.parametrize(
    ("target", "path", "value", "text"),
    [
        (Order, "amount", "3", "the static value at amount is str, and int is wanted there"),
        (Order, "user", {"name": "Ada"}, "the static value at user is dict[str, str], and User | None is wanted there"),
        (dict[str, list[int]], "a", ["x"], "the static value at a is list[str], and list[int] is wanted there"),
        (Order, "amout", 3, "Order has no field 'amout'; did you mean 'amount'?"),
        (str, "a", 3, "the input is str, and at a, str has no fields"),
    ],
    ids=str,
)
def test_a_static_value_that_does_not_fit_is_found(target: Any, path: str, value: Any, text: str) -> None:
    workflow = Workflow[Any, Any](output=target)
    workflow.end.after(START).static(path, value)
    assert any(text in found for found in problems(workflow))


def test_extractors_are_plain_functions_whose_types_count() -> None:
    def size(text: str) -> int:
        return len(text)

    async def later(text: str) -> int:
        return len(text)

    def generated(text: str) -> Any:
        yield text

    def two(one: str, other: str) -> str:
        return one + other

    def collected(reader: StreamReader[str]) -> str:
        return ""

    table: list[tuple[Any, Callable[..., Any], str]] = [
        (int, size, "'start' (size(…) -> x): 'start' gives int, the extractor takes str"),
        (str, size, "'start' (size(…) -> x): it gives int, and bytes is wanted there"),
        (str, later, "an extractor is a plain function that returns a value"),
        (str, generated, "an extractor is a plain function that returns a value"),
        (str, collected, "an extractor is a plain function that returns a value"),
        (str, two, "the extractor cannot be called: it needs 2 arguments"),
    ]
    for source, extract, text in table:
        (found,) = problems(mapped(source, dict[str, bytes], field(extract=extract, to="x")))
        assert text in found


def test_what_is_no_mapping_is_refused_where_it_is_written() -> None:
    wrong: Any = ("a", "b")
    numbers: Any = ["a", 1]
    node = Workflow[Any, Any]().end
    with pytest.raises(TypeError, match=r"input\(\) takes mappings made by field\(\), or names of fields; got tuple"):
        node.input(START, wrong)
    with pytest.raises(ValueError, match="give source or extract, not both"):
        field("a", extract=len)
    for path in ("", "a.", ".a", ["a", ""]):
        with pytest.raises(ValueError, match="has an empty name"):
            field(path)
    with pytest.raises(TypeError, match="the names of a path are strings, got int"):
        field(to=numbers)
    with pytest.raises(TypeError, match="wanted a node's handle or key"):
        node.input(wrong)


def test_a_mapping_is_written_as_it_was_said() -> None:
    assert str(field("user.name", to="name")) == "user.name -> name"
    assert str(field(["a.b", "c"], to=["d"])) == "'a.b'.c -> d"
    assert str(field()) == "(all) -> (all)"
    assert str(field(extract=len, to="size")) == "len(…) -> size"
    assert field("a", to="b") == field(["a"], to=["b"])
    assert field(extract=len) != field(extract=str)
