"""Field mappings: the numbered cases, and that the order of declaration changes nothing."""

from __future__ import annotations

from abc import ABC
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Any, Generic, Literal, NamedTuple, NewType, NotRequired, Protocol, TypedDict, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel

from anabranch.compose import START, FieldMapping, GraphCompileError, NodeError, Workflow, field
from anabranch.compose.testing import assert_paradigms_agree
from anabranch.compose.testing.pieces import split

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


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    known: int = 0


class Word(RootModel[str]):
    pass


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


async def fails(workflow: Workflow[Any, Any], value: Any, text: str, chunks: list[Any] | None = None) -> None:
    """Assert that a run fails in all paradigms, located at the node whose input cannot be put together."""
    app = workflow.compile()
    assert await assert_paradigms_agree(app, value, chunks=chunks) is None
    with pytest.raises(NodeError) as caught:
        await app.invoke(value)
    assert (caught.value.path, caught.value.where) == ("end", "the field mapping")
    assert text in str(caught.value)
    with pytest.raises(NodeError) as caught:
        async with app.transform([value] if chunks is None else chunks) as reader:
            await reader.concat()
    assert (caught.value.path, caught.value.where) == ("end", "the field mapping")
    assert text in str(caught.value)


# -- the numbered cases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "to", "expected"),
    [
        (Order, "user.name", Order(user=User(name="hello"))),
        (dict[str, User], "key.name", {"key": User(name="hello")}),
        (dict[str, User | None], "key.name", {"key": User(name="hello")}),
        (Box[Order], "inside.user.name", Box(Order(user=User(name="hello")))),
        (Crate[Box[Pair]], "inside.inside.left", Crate[Box[Pair]](inside=Box(Pair("hello")))),
        (Settings, "lang", {"lang": "hello"}),
        (Mapping[str, Settings], "a.lang", {"a": {"lang": "hello"}}),
        (UserId, "name", User(name="hello")),
        (User | None, "name", User(name="hello")),
        (User | Point, "name", User(name="hello")),
        (int | User | str, "name", User(name="hello")),
        (Open, "unknown", Open.model_validate({"unknown": "hello"})),
        (Renamed, "first", Renamed.model_validate({"FIRST": "hello"})),
    ],
    ids=str,
)
async def test_case_70_what_is_on_the_way_is_made(target: Any, to: str, expected: Any) -> None:
    app = mapped(str, target, field(to=to)).compile()
    made = await assert_paradigms_agree(app, "hello", chunks=["he", "llo"])
    assert made == expected
    assert type(made) is type(expected)


async def test_case_71_any_on_the_way_becomes_nested_dicts() -> None:
    for target, path in ((dict[str, Any], "f4.f1.f2"), (Any, "f4.f1.f2"), (object, "f4.f1.f2")):
        app = mapped(str, target, field(to=path)).compile()
        assert await assert_paradigms_agree(app, "x", chunks=["", "x"]) == {"f4": {"f1": {"f2": "x"}}}
    app = mapped(str, Order, field(to="extra.deep.er")).compile()
    assert await assert_paradigms_agree(app, "x") == Order(extra={"deep": {"er": "x"}})


@pytest.mark.parametrize(
    ("target", "to", "text"),
    [
        (Order, "amount.x", "the input at amount is int, and at amount.x, int has no fields"),
        (dict[str, int], "a.b", "the input at a is int, and at a.b, int has no fields"),
        (Named, "name.x", "the input is Named, and at name, Named has no fields"),
        (Base, "x", "the input is Base, and at x, Base has no fields"),
        (str, "x", "the input is str, and at x, str has no fields"),
        (list[str], "x", "the input is list[str], and at x, list[str] has no fields"),
        (Literal["a"], "x", "the input is Literal['a'], and at x, Literal['a'] has no fields"),
        (BaseModel, "x", "the input is BaseModel, and at x, BaseModel has no fields"),
        (Word, "root", "the input is Word, and at root, Word has no fields"),
        (Order, "users", "the input is Order, and at users, Order has no field 'users'; did you mean 'user'?"),
        (Point, "norm", "the input is Point, and at norm, the field 'norm' of Point sets itself (init=False)"),
        (Point, "z", "the input is Point, and at z, Point has no field 'z'; it has 'x', 'y'"),
        (Settings, "x", "the input is Settings, and at x, Settings has no field 'x'; it has 'lang', 'size'"),
        (dict[int, str], "a", "the input is dict[int, str], and at a, the keys of dict[int, str] are int"),
        (dict[Literal["a"], str], "b", "the keys of dict[Literal['a'], str] are Literal['a'], and 'b' is none"),
        (OrderedDict[str, str], "a", "OrderedDict[str, str] is not made of parts; take a dict"),
        (User | Renamed, "x", "none of User | Renamed has 'x', so it is not known what to make"),
        (User | Pair | Box[str], "inside.x", "the input at inside is str, and at inside.x, str has no fields"),
        (Open | dict[str, str], "a", "more than one of Open | dict[str, str] has 'a', so it is not known what to make"),
    ],
    ids=str,
)
def test_case_71_a_target_that_cannot_be_filled_is_found_when_compiled(target: Any, to: str, text: str) -> None:
    found = problems(mapped(Any, target, field(to=to)))
    assert found[0].startswith(f"'start' ((all) -> {to}): ")
    assert text in found[0]


async def test_case_73_a_missing_key_is_an_error_in_value_and_in_stream_mode() -> None:
    workflow = mapped(dict[str, int], dict[str, int], field("a", to="a"), field("b", to="b"))
    await fails(workflow, {"a": 1}, "'start' (b -> b): it has no 'b'; it has 'a'")
    app = workflow.compile()
    assert await assert_paradigms_agree(app, {"a": 1, "b": 2}, chunks=[{"a": 1}, {"b": 2}]) == {"a": 1, "b": 2}


async def test_case_74_none_fits_where_the_target_takes_it_and_nowhere_else() -> None:
    source = dict[str, Any]
    await fails(
        mapped(source, dict[str, int], field("a", to="b")), {"a": None}, "'start' (a -> b): wanted int, got None"
    )
    for target in (dict[str, int | None], dict[str, Any]):
        app = mapped(source, target, field("a", to="b")).compile()
        assert await assert_paradigms_agree(app, {"a": None}) == {"b": None}
    app = mapped(source, User, field("a", to="nick"), field("n", to="name")).compile()
    assert await assert_paradigms_agree(app, {"a": None, "n": "Ada"}) == User(name="Ada")


async def test_case_74_none_in_the_middle_of_a_path_is_an_error_that_says_where() -> None:
    workflow = mapped(Order, dict[str, str], field("user.name", to="name"))
    assert await assert_paradigms_agree(workflow.compile(), Order(user=User(name="Ada"))) == {"name": "Ada"}
    await fails(workflow, Order(), "'start' (user.name -> name): user is None and has no 'name'")
    deep = mapped(dict[str, dict[str, Any] | None], Any, field("a.b", to="c"))
    await fails(deep, {"a": None}, "'start' (a.b -> c): a is None and has no 'b'")


CONFLICTS: list[tuple[list[FieldMapping], list[str], list[str]]] = [
    ([field(to="a"), field(to="a.b")], [], ["'start' ((all) -> a)", "'start' ((all) -> a.b)", "a"]),
    ([field(to="a.b"), field(to="a")], [], ["'start' ((all) -> a)", "'start' ((all) -> a.b)", "a"]),
    ([field("x", to="a"), field(to="a")], [], ["'start' ((all) -> a)", "'start' (x -> a)", "a"]),
    ([field(), field(to="a")], [], ["'start' ((all) -> (all))", "'start' ((all) -> a)", "(all)"]),
    ([field(to="a.b.c"), field()], [], ["'start' ((all) -> (all))", "'start' ((all) -> a.b.c)", "(all)"]),
    ([field("x"), field("y")], [], ["'start' (x -> (all))", "'start' (y -> (all))", "(all)"]),
    ([field(to="a")], ["a"], ["'start' ((all) -> a)", "the static value at a", "a"]),
    ([field(to="a")], ["a.b"], ["'start' ((all) -> a)", "the static value at a.b", "a"]),
    ([field(to="a.b.c")], ["a.b"], ["'start' ((all) -> a.b.c)", "the static value at a.b", "a.b"]),
    ([field()], ["a"], ["'start' ((all) -> (all))", "the static value at a", "(all)"]),
    ([field(to="z")], ["a", "a"], ["the static value at a", "the static value at a", "a"]),
]


@pytest.mark.parametrize(("mappings", "static", "words"), CONFLICTS, ids=str)
def test_case_76_and_77_what_touches_is_found_in_any_order_and_with_the_same_words(
    mappings: list[FieldMapping], static: list[str], words: list[str]
) -> None:
    one, other, where = words
    expected = f"{one} and {other} both fill {where} of the input; map them to different fields"
    for order in (1, -1):
        workflow = Workflow[Any, Any]()
        for path in static:
            workflow.end.static(path, 1)
        for mapping in mappings[::order]:  # each in a call of its own
            workflow.end.input(START, mapping)
        assert problems(workflow) == [expected]
        together = Workflow[Any, Any]()
        together.end.input(START, *mappings[::order])
        for path in static:
            together.end.static(path, 1)
        assert problems(together) == [expected]


def test_case_76_a_whole_output_beside_a_part_of_the_same_sender_is_never_lost() -> None:
    for first, second in (((), ("a",)), (("a",), ())):
        workflow = Workflow[Any, Any]()
        workflow.end.input(START, *first).input(START, *second)
        assert problems(workflow) == [
            "'start' ((all) -> (all)) and 'start' (a -> a) both fill (all) of the input; map them to different fields"
        ]


def test_case_76_three_in_one_place_are_one_problem() -> None:
    workflow = mapped(Any, Any, field("x", to="a"), field("y", to="a.b"), static={"a.c": 1})
    (text,) = problems(workflow)
    assert text.startswith("'start' (x -> a) and 'start' (y -> a.b) and the static value at a.c all fill a of the")


async def test_case_79_several_inputs_from_one_sender_count_together() -> None:
    workflow = Workflow[dict[str, int], dict[str, int]]()
    workflow.end.input(START, field("a", to="a")).input(START, field("a", to="b"))
    app = workflow.compile()
    assert await assert_paradigms_agree(app, {"a": 1}) == {"a": 1, "b": 1}
    (edge,) = app.graph_info().edges
    assert (edge.source, edge.target, edge.control, edge.data) == ("start", "end", True, True)


async def test_case_80_an_extractor_takes_what_no_path_can() -> None:
    def first(items: list[int]) -> int:
        return items[0]

    workflow = mapped(list[int], dict[str, int], field(extract=first, to="a"))
    assert await assert_paradigms_agree(workflow.compile(), [1, 2], chunks=[[1], [2]]) == {"a": 1}
    await fails(workflow, [], "the field mapping of node 'end' failed: IndexError: list index out of range")


# -- any order of declaration --------------------------------------------------------------------------------------

PATHS = ["a", "b", "a.b", "a.c", "b.d", "b.d.e"]


class Inner(TypedDict):
    y: str
    z: str


class Outer(TypedDict):
    w: str
    x: Inner


INPUT: Outer = {"w": "www", "x": {"y": "yy", "z": "zz"}}
Statement = tuple[str, str, str]
"""The sender (or "static"), the path of its output (or the static value), the path of the input."""

statements = st.one_of(
    st.tuples(st.just("start"), st.sampled_from(["w", "x", "x.y", "x.z", "x.v"]), st.sampled_from(PATHS)),
    st.tuples(st.just("node"), st.sampled_from(["s", "t.u", "q"]), st.sampled_from(PATHS)),
    st.tuples(st.just("static"), st.sampled_from("12"), st.sampled_from(PATHS)),
)


async def node(_: str) -> AsyncIterator[dict[str, Any]]:
    for chunk in ({"s": "s1"}, {"t": {"u": "u1"}}, {"s": "s2"}, {"t": {"u": "u2"}}):
        yield chunk


OUTPUT = {"s": "s1s2", "t": {"u": "u1u2"}}


async def outcome(said: list[Statement], source: Any) -> Any:
    workflow = Workflow[Any, dict[str, Any]](input=source)
    workflow.add_node("node", node).input(START, field("w"))
    workflow.end.after("node")
    for sender, source_path, to in said:
        if sender == "static":
            workflow.end.static(to, source_path)
        else:
            workflow.end.input(sender, field(source_path, to=to))
    try:
        app = workflow.compile()
    except GraphCompileError as error:
        return sorted(problem.text for problem in error.problems)
    return await assert_paradigms_agree(app, INPUT, chunks=list(split(INPUT, 1)))


def expected(said: list[Statement]) -> Any:
    """Do the same by hand; None where it is an error."""
    made: dict[str, Any] = {}
    for sender, source_path, to in said:
        value: Any = source_path
        if sender != "static":
            value = INPUT if sender == "start" else OUTPUT
            for name in source_path.split("."):
                if name not in value:
                    return None
                value = value[name]
        inside = made
        *way, last = to.split(".")
        for name in way:
            inside = inside.setdefault(name, {})
        inside[last] = value
    return made


def touching(said: list[Statement]) -> bool:
    paths = [to.split(".") for *_, to in said]
    return any(a[: len(b)] == b for i, a in enumerate(paths) for j, b in enumerate(paths) if i != j)


@given(st.lists(statements, max_size=5).flatmap(lambda s: st.tuples(st.just(s), st.permutations(s))), st.booleans())
async def test_any_order_of_declaration_gives_the_same_problems_or_the_same_result(
    orders: tuple[list[Statement], list[Statement]], typed: bool
) -> None:
    source: Any = Outer if typed else dict[str, Any]
    one, other = [await outcome(order, source) for order in orders]
    assert one == other
    if isinstance(one, list):
        assert touching(orders[0]) or (typed and any(path == "x.v" for _, path, _ in orders[0])), one
    elif orders[0]:
        assert not touching(orders[0])
        assert one == expected(orders[0])
