"""Field mappings in runs: checks of values, static values, and streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar

import pytest
from pydantic import BaseModel, Field, model_validator

from anabranch.compose import START, FieldMapping, NodeError, Workflow, field
from anabranch.compose.testing import assert_paradigms_agree
from anabranch.schema import Message

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


class Settings(TypedDict):
    lang: str
    size: NotRequired[int]


class Pair(NamedTuple):
    left: str
    right: int = 2


class Renamed(BaseModel):
    first: str = Field(alias="FIRST")
    second: str = Field(default="", validation_alias="first")


def mapped(source: Any, target: Any, *mappings: FieldMapping, static: Mapping[str, Any] | None = None) -> Any:
    """Make a workflow whose output is put together from its input."""
    workflow = Workflow[Any, Any](input=source, output=target)
    workflow.end.input(START, *mappings)
    for path, value in (static or {}).items():
        workflow.end.static(path, value)
    return workflow


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


# -- what is found in a run ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "path", "target", "good", "bad", "got"),
    [
        (dict[str, Any], "a", dict[str, int], {"a": 1}, {"a": "x"}, "wanted int, got str"),
        (dict[str, int | str], "a", dict[str, int], {"a": 1}, {"a": "x"}, "wanted int, got str"),
        (Any, "name", dict[str, str], User(name="Ada"), {"name": 1}, "wanted str, got int"),
        (Any, "user.name", dict[str, str], Order(user=User(name="A")), {"user": "B"}, "user is str and has no 'name'"),
        (object, "x", dict[str, int], Point(1), 3, "it is int and has no 'x'"),
        (Any, "shout", Any, {"shout": 1}, User(name="Ada"), "it is User and has no 'shout'"),
        (Any, "_mark", Any, Box(1, "m"), User(name="Ada"), "it is User and has no '_mark'"),
        (User | Pair, "left", dict[str, str], Pair("a"), User(name="Ada"), "it is User and has no 'left'"),
        (Settings, "size", dict[str, int], {"lang": "", "size": 1}, {"lang": "en"}, "it has no 'size'; it has 'lang'"),
        (dict[str, Any], "a", dict[str, Literal["xy"]], {"a": "xy"}, {"a": "yx"}, "wanted Literal['xy'], got str"),
        (dict[str, Any], "a", dict[str, User], {"a": User(name="")}, {"a": {"name": ""}}, "wanted User, got dict"),
    ],
    ids=str,
)
async def test_what_may_fit_is_checked_in_a_run(
    source: Any, path: str, target: Any, good: Any, bad: Any, got: str
) -> None:
    workflow = mapped(source, target, field(path, to="x"))
    assert set(await assert_paradigms_agree(workflow.compile(), good)) == {"x"}
    await fails(workflow, bad, f"MappingError: 'start' ({path} -> x): {got}")


async def test_the_result_of_an_extractor_is_checked_where_it_does_not_say_what_it_is() -> None:
    def unknown(value: Any) -> Any:
        return value

    workflow = mapped(Any, User, field(extract=unknown, to="name"))
    assert await assert_paradigms_agree(workflow.compile(), "Ada") == User(name="Ada")
    await fails(workflow, 3, "MappingError: 'start' (unknown(…) -> name): wanted str, got int")


async def test_what_a_model_itself_refuses_is_located_too() -> None:
    class Even(BaseModel):
        number: int

        @model_validator(mode="after")
        def check(self) -> Even:
            assert self.number % 2 == 0, "it is odd"
            return self

    workflow = mapped(int, Even, field(to="number"))
    assert await assert_paradigms_agree(workflow.compile(), 2) == Even(number=2)
    await fails(workflow, 3, "it is odd")


async def test_aliases_of_a_model_are_not_names_of_its_fields() -> None:
    both = mapped(dict[str, str], Renamed, field("a", to="first"), field("b", to="second")).compile()
    made = await assert_paradigms_agree(both, {"a": "1", "b": "2"})
    assert (made.first, made.second) == ("1", "2")


# -- static values -------------------------------------------------------------------------------------------------


async def test_static_values_fill_models_dataclasses_and_dicts_alone_or_beside_mappings() -> None:
    user = User(name="Ada")
    for target, static, expected in (
        (User, {"name": "Ada", "nick": "A"}, User(name="Ada", nick="A")),
        (Point, {"x": 1}, Point(1)),
        (Order, {"user": user}, Order(user=user)),
        (Settings, {"lang": "en"}, {"lang": "en"}),
        (dict[str, Any], {"a.b": 1, "c.d": 2, "a.d": 3}, {"a": {"b": 1, "d": 3}, "c": {"d": 2}}),
    ):
        workflow = Workflow[str, Any](output=target)
        workflow.end.after(START)
        for path, value in static.items():
            workflow.end.static(path, value)
        assert await assert_paradigms_agree(workflow.compile(), "x") == expected


async def test_a_static_value_may_be_the_whole_input() -> None:
    workflow = Workflow[str, list[int]]()
    workflow.end.after(START).static((), [1, 2])
    assert await assert_paradigms_agree(workflow.compile(), "x") == [1, 2]


async def test_no_run_sees_what_another_one_or_the_caller_did_to_a_static_value() -> None:
    given = {"list": [1], "tuple": ({"a": {1}},)}

    def spoil(taken: dict[str, dict[str, Any]]) -> dict[str, Any]:
        taken["value"]["list"].append(2)
        taken["value"]["tuple"][0]["a"].add(2)
        return taken["value"]

    workflow = Workflow[str, dict[str, Any]]()
    workflow.add_node("spoil", spoil).after(START).static("value", given)
    workflow.end.input("spoil")
    app = workflow.compile()
    given["list"].append(3)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    for _ in range(2):
        assert await assert_paradigms_agree(app, "x") == {"list": [1, 2], "tuple": ({"a": {1, 2}},)}


# -- streams -------------------------------------------------------------------------------------------------------


async def read_first(workflow: Workflow[Any, Any], chunks: list[Any]) -> tuple[Any, int, list[Any]]:
    """Read a chunk of the output: give it, how many chunks of the input it took, and the rest."""
    taken = 0

    async def source() -> AsyncIterator[Any]:
        nonlocal taken
        for chunk in chunks:
            taken += 1
            yield chunk

    async with workflow.compile().transform(source()) as reader:
        first = await reader.receive()
        needed = taken
        return first, needed, [chunk async for chunk in reader]


class Deep(TypedDict):
    a: Settings
    b: str


@pytest.mark.parametrize(
    ("source", "target", "mappings", "chunks", "made"),
    [
        (str, dict[str, Any], [field(to="x")], ["a", "b"], [{"x": "a"}, {"x": "b"}]),
        (str, Any, [field(to="x.y")], ["a", "b"], [{"x": {"y": "a"}}, {"x": {"y": "b"}}]),
        (str, Settings, [field(to="lang")], ["a", "b"], [{"lang": "a"}, {"lang": "b"}]),
        (dict[str, str], str, [field("k")], [{"k": "a"}, {"z": ""}, {"k": "b"}], ["a", "b"]),
        (dict[str, str], dict[str, str], [field("k", to="x")], [{"k": "a"}, {"k": "b"}], [{"x": "a"}, {"x": "b"}]),
        (Deep, dict[str, Any], [field("a.lang", to="x.y")], [{"a": {"lang": "a"}}, {"b": ""}], [{"x": {"y": "a"}}]),
        (dict[str, Any], dict[str, str], [field("k", to="x")], [{"k": "a"}, {"k": "b"}], [{"x": "a"}, {"x": "b"}]),
        (dict[str, Any], Settings, [field("k", to="lang")], [{"k": "a"}, {"k": "b"}], [{"lang": "a"}, {"lang": "b"}]),
    ],
    ids=str,
)
async def test_where_all_is_dicts_the_input_is_made_chunk_by_chunk(
    source: Any, target: Any, mappings: list[FieldMapping], chunks: list[Any], made: list[Any]
) -> None:
    first, needed, rest = await read_first(mapped(source, target, *mappings), chunks)
    assert [first, *rest] == made
    assert needed == 1


async def test_a_static_value_beside_a_live_mapping_comes_once() -> None:
    first, _, rest = await read_first(mapped(str, dict[str, Any], field(to="x"), static={"y": 1}), ["a", "b"])
    assert [first, *rest] == [{"y": 1}, {"x": "a"}, {"x": "b"}]


@pytest.mark.parametrize(
    ("source", "target", "mapping", "chunks", "made"),
    [
        (str, User, field(to="name"), ["a", "b"], User(name="ab")),
        (Message, str, field("text"), [Message.assistant("a"), Message.assistant("b")], "ab"),
        (Message, str, field("role"), [Message.assistant("a"), Message.assistant("b")], "assistant"),
        (str, dict[str, int], field(extract=len, to="x"), ["a", "b"], {"x": 2}),
        (dict[str, Any], str, field("a.b"), [{"a": {"b": "x"}}, {"a": {"b": "y"}}], "xy"),
    ],
    ids=str,
)
async def test_everything_else_is_put_together_when_it_is_whole(
    source: Any, target: Any, mapping: FieldMapping, chunks: list[Any], made: Any
) -> None:
    first, needed, rest = await read_first(mapped(source, target, mapping), chunks)
    assert (first, needed, rest) == (made, 2, [])


async def test_none_in_a_chunk_changes_nothing_of_the_whole() -> None:
    app = mapped(dict[str, Any], dict[str, str], field("k", to="x")).compile()
    assert await app.collect([{"k": None}, {"k": "a"}, {"k": None}]) == {"x": "a"}
    await fails(mapped(dict[str, Any], dict[str, str], field("k", to="x")), {"k": None}, "wanted str, got None")


async def test_a_wrong_chunk_is_found_when_it_comes_and_a_wrong_whole_at_the_end() -> None:
    workflow = mapped(dict[str, Any], dict[str, Literal["ab"]], field("k", to="x"))
    app = workflow.compile()
    assert await app.collect([{"k": "a"}, {"k": "b"}]) == {"x": "ab"}
    async with app.transform([{"k": "a"}, {"k": "c"}]) as reader:
        assert [await reader.receive(), await reader.receive()] == [{"x": "a"}, {"x": "c"}]
        with pytest.raises(NodeError, match=r"the field mapping of node 'end' .* wanted Literal\['ab'\], got str"):
            await reader.receive()
    async with app.transform([{"k": "a"}, {"k": 1}]) as reader:
        assert await reader.receive() == {"x": "a"}
        with pytest.raises(NodeError, match=r"the field mapping of node 'end' .* got int"):
            await reader.receive()


async def test_an_error_in_a_senders_stream_names_the_sender_and_not_the_mapping() -> None:
    async def breaks(text: str) -> AsyncIterator[str]:
        yield text
        raise ValueError("no more")

    workflow = Workflow[str, dict[str, str]]()
    workflow.add_node("breaks", breaks).input(START)
    workflow.end.input("breaks", field(to="x"))
    app = workflow.compile()
    async with app.stream("a") as reader:
        assert await reader.receive() == {"x": "a"}
        with pytest.raises(NodeError, match=r"^node 'breaks' failed: ValueError: no more"):
            await reader.receive()
    with pytest.raises(NodeError, match=r"^node 'breaks' failed: ValueError: no more"):
        await app.invoke("a")


async def test_a_sender_that_streams_nothing_gives_the_empty_value_of_its_type() -> None:
    async def silent(text: str) -> AsyncIterator[str]:
        for letter in "":
            yield letter

    workflow = Workflow[str, dict[str, str]]()
    workflow.add_node("silent", silent).input(START)
    workflow.end.input("silent", field(to="x")).static("y", "z")
    assert await assert_paradigms_agree(workflow.compile(), "a") == {"x": "", "y": "z"}
