"""Concatenation of everything that is no message: the rules by type, policies, and registries."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, NewType, cast

import pytest
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypeAliasType, TypedDict

from anabranch.schema import (
    Append,
    ConcatError,
    ConcatRegistry,
    EmptyStreamError,
    First,
    Join,
    Last,
    Max,
    Merge,
    Message,
    Min,
    Policy,
    Sum,
    TextPart,
    ToolCall,
    Usage,
    concat,
    default_registry,
)


class Colour(str, Enum):  # noqa: UP042  (the older way, whose type is both)
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    label: str
    x: int = 0
    best: Annotated[int, Max] = 0


class Answer(BaseModel):
    text: str = ""
    score: int = 0
    kind: Literal["draft", "final"] = "draft"
    tokens: Annotated[int, Sum] = 0
    title: Annotated[str, First] = ""
    history: Annotated[list[Message], Append] = []
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    log: str = ""
    count: int = 0
    state: Annotated[str, Last] = "new"
    least: Annotated[int, Min] = 0
    tags: list[str] = field(default_factory=list[str])
    inner: Answer | None = None


Names = TypeAliasType("Names", list[str])


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    text: str = ""


class State(TypedDict, total=False):
    status: Annotated[str, Last]
    log: str


MONDAY, TUESDAY = dt.datetime(2026, 1, 5), dt.datetime(2026, 1, 6)
U1, U2 = uuid.UUID(int=1), uuid.UUID(int=2)

RULES: list[tuple[str, list[Any], Any]] = [
    ("text is joined", ["a", "", "b"], "ab"),
    ("bytes are joined", [b"a", b"b"], b"ab"),
    ("of numbers the last counts", [1, 2], 2),
    ("numbers of several types may be mixed", [1, 2.5, Decimal(3)], Decimal(3)),
    ("of booleans the last counts", [True, False], False),
    ("of dates the last counts", [TUESDAY, MONDAY], MONDAY),
    ("of durations the last counts", [dt.timedelta(1), dt.timedelta(2)], dt.timedelta(2)),
    ("of enums the last counts, also when they are text", [Colour.RED, Colour.BLUE], Colour.BLUE),
    ("of UUIDs the last counts", [U1, U2], U2),
    ("lists are appended", [["a"], [], ["b"]], ["a", "b"]),
    ("tuples are appended", [("a",), ("b",)], ("a", "b")),
    ("sets are united", [{1}, {2}], {1, 2}),
    ("frozen sets are united", [frozenset({1}), frozenset({2})], frozenset({1, 2})),
    ("None is neutral", [None, "a", None, "b"], "ab"),
    ("nothing but None is None", [None, None], None),
    ("a single unknown value stays", [range(3)], range(3)),
    (
        "dicts are merged by key",
        [{"a": "x", "n": 1}, {"b": [1]}, {"a": "y", "n": 2, "b": [2]}],
        {"a": "xy", "n": 2, "b": [1, 2]},
    ),
    ("nested dicts too", [{"a": {"x": "1"}}, {"a": {"x": "2", "y": None}}], {"a": {"x": "12", "y": None}}),
    ("a key with None has room for a value", [{"a": None}, {"a": "x"}, {"a": None}], {"a": "x"}),
    ("other mappings give dicts", [MappingProxyType({"a": "x"}), OrderedDict(a="y")], {"a": "xy"}),
    ("named tuples are merged by field", [Point("a", 1), Point("b", best=-2), Point("", 0, -5)], Point("ab", 1, -2)),
    ("parts make a part", [TextPart("a"), TextPart("b")], TextPart("ab")),
    (
        "calls make a call",
        [ToolCall(id="c", name="f"), ToolCall(arguments="{}")],
        ToolCall(id="c", name="f", arguments="{}"),
    ),
    ("usage reports make one", [Usage(input_tokens=2), Usage(input_tokens=3)], Usage(input_tokens=3)),
]


@pytest.mark.parametrize(("chunks", "whole"), [row[1:] for row in RULES], ids=[row[0] for row in RULES])
def test_the_rule_by_type(chunks: list[Any], whole: Any) -> None:
    assert concat(chunks) == whole
    assert type(concat(chunks)) is type(whole)


def test_chunks_may_come_from_any_iterable() -> None:
    assert concat(text for text in "ab") == "ab"


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        ([1, "a"], r"types that do not mix: int \(chunk 0\) and str \(chunk 1\)"),
        ([[1], (2,)], r"do not mix: list \(chunk 0\) and tuple \(chunk 1\)"),
        ([range(1), range(2)], r"2 chunks of type range do not make one: there is no rule for it"),
        ([{"a": {"b": 1}}, {"a": {"b": "x"}}], r"^key 'a': key 'b': the chunks are of types that do not mix"),
        ([Answer(text="a"), Open(text="b")], r"models of two classes, Answer and Open"),
        ([Step(inner=Answer(note="a")), Step(inner=Answer.model_construct(note=1))], r"^field 'inner': field 'note': "),
        ([TextPart("a"), TextPart("b", index=1)], r"make 2 parts \(text, text\), not one"),
        ([ToolCall(id="a", name="f"), ToolCall(id="b", name="g")], r"make 2 tool calls, not one"),
    ],
)
def test_what_does_not_fit_together_is_an_error_that_says_where(chunks: list[Any], text: str) -> None:
    with pytest.raises(ConcatError, match=text):
        concat(chunks)


def test_the_result_is_a_new_container_also_for_one_chunk() -> None:
    chunk = {"a": [1]}
    whole = concat([chunk])
    whole["a"].append(2)
    assert chunk == {"a": [1]}


# --- models and dataclasses ------------------------------------------------------------------------------------------


def test_models_are_merged_over_the_fields_that_were_set() -> None:
    hi, yo = Message.user("hi"), Message.user("yo")
    chunks = [
        Answer(text="a", score=3, tokens=1, title="T", history=[hi]),
        Answer(text="b", tokens=2, title="U", history=[yo], note="n"),
        Answer(kind="final", note=None),
    ]
    assert concat(chunks) == Answer(text="ab", score=3, kind="final", tokens=3, title="T", history=[hi, yo], note="n")


def test_a_field_set_to_its_default_counts_as_set() -> None:
    assert concat([Answer(score=3), Answer(score=0)]).score == 0


def test_extra_fields_of_models_are_merged_by_key() -> None:
    assert concat([Open(text="a", more="x"), Open(more="y")]).model_dump() == {"text": "a", "more": "xy"}  # type: ignore[call-arg]


def test_in_a_dataclass_a_default_does_not_displace_a_value() -> None:
    chunks = [Step("a", 3, "busy", 5, ["x"]), Step("b", least=-1, inner=Answer(text="t")), Step(tags=["y"])]
    assert concat(chunks) == Step("ab", 3, "busy", -1, ["x", "y"], Answer(text="t"))


def test_policies_of_a_dataclass_that_cannot_be_read_are_an_error() -> None:
    class Local:
        pass

    @dataclass
    class Hidden:
        value: Annotated[Local | None, Last] = None

    with pytest.raises(ConcatError, match=r"policies of Hidden cannot be read: name 'Local' is not defined"):
        concat([Hidden(), Hidden()])


def test_typed_dicts_follow_their_annotations_when_the_type_is_declared() -> None:
    chunks: list[State] = [{"status": "a", "log": "1"}, {"status": "b", "log": "2"}]
    assert concat(chunks, of=State) == {"status": "b", "log": "12"}


def test_the_declared_type_may_carry_a_policy() -> None:
    assert concat(["a", "b"], of=Annotated[str, Last]) == "b"
    assert concat([{"a": "x"}, {"a": "y"}], of=dict[str, Annotated[str, Last]]) == {"a": "y"}
    assert concat(["a", "b"], of=Annotated[str | None, Merge]) == "ab"


def test_a_declared_list_of_messages_is_put_together_place_by_place() -> None:
    assert concat([[None], [Message.user("a")]], of=list[Message | None]) == [Message.user("a")]


# --- policies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "values", "whole"),
    [
        (Join, ["a", "b"], "ab"),
        (Join, [b"a", b"b"], b"ab"),
        (Last, [1, 2], 2),
        (First, [1, 2], 1),
        (Sum, [1, 2, 3], 6),
        (Sum, [dt.timedelta(1), dt.timedelta(2)], dt.timedelta(3)),
        (Max, [1, 3, 2], 3),
        (Min, [3, 1, 2], 1),
        (Append, [[1], [2]], [1, 2]),
        (Append, [(1,), (2,)], (1, 2)),
        (Append, [1, [2, 3]], [1, 2, 3]),
        (Append, [{"a": 1}], [{"a": 1}]),
        (Merge, [{"a": "x"}, {"a": "y"}], {"a": "xy"}),
    ],
)
def test_what_a_policy_does(policy: Policy, values: list[Any], whole: Any) -> None:
    assert policy(values) == whole


def test_a_policy_that_cannot_take_the_values_says_which_field() -> None:
    class Counter(BaseModel):
        total: Annotated[Any, Sum] = 0

    with pytest.raises(ConcatError, match=r"^field 'total': the policy Sum cannot take values of type int, str"):
        concat([Counter(total=1), Counter(total="x")])


# --- empty streams ---------------------------------------------------------------------------------------------------


NEUTRAL: list[tuple[Any, Any]] = [
    (str, ""),
    (bytes, b""),
    (list[int], []),
    (list[Message], []),
    (tuple[int, ...], ()),
    (set[int], set()),
    (dict[str, int], {}),
    (State, {}),
    (Message, Message.assistant("")),
    (Annotated[str, Last], ""),
    (str | None, ""),
    (NewType("Name", str), ""),
    (Names, []),
]


@pytest.mark.parametrize(("kind", "neutral"), NEUTRAL)
def test_an_empty_stream_of_a_type_with_a_neutral_element_gives_that(kind: Any, neutral: Any) -> None:
    assert concat([], of=kind) == neutral


@pytest.mark.parametrize("kind", [int, Answer, int | str, Literal["a"], None])
def test_any_other_empty_stream_is_an_error(kind: Any) -> None:
    with pytest.raises(EmptyStreamError, match="ended without a chunk"):
        concat([], of=kind)


# --- registries ------------------------------------------------------------------------------------------------------


class Vector:
    def __init__(self, *items: int) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector) and self.items == other.items

    __hash__ = None  # type: ignore[assignment]


class Column(Vector):
    pass


def add(vectors: Any) -> Vector:
    return Vector(*(sum(column) for column in zip(*(vector.items for vector in vectors), strict=True)))


def test_a_registered_rule_holds_for_the_type_and_its_subclasses_at_any_depth() -> None:
    registry = ConcatRegistry()
    registry.register(Vector, add, neutral=Vector)
    assert concat([Vector(1, 2), Column(3, 4)], registry) == Vector(4, 6)
    assert concat([{"v": Vector(1)}, {"v": Vector(2)}], registry) == {"v": Vector(3)}
    assert concat([], registry, of=Vector) == Vector()
    with pytest.raises(ConcatError, match="no rule"):
        concat([Vector(1), Vector(2)])


def test_registering_twice_is_an_error_but_another_registry_may_differ() -> None:
    registry = ConcatRegistry()
    registry.register(Vector, add)
    registry.declare_key("k", Last)
    with pytest.raises(ConcatError, match="Vector has a rule in this registry already"):
        registry.register(Vector, add)
    with pytest.raises(ConcatError, match="'k' has a policy in this registry already: Last"):
        registry.declare_key("k", Sum)
    with pytest.raises(ConcatError, match="str has a rule"):
        default_registry.register(str, "-".join)
    child = ConcatRegistry(registry)
    child.register(str, "-".join)
    child.register(Vector, lambda vectors: vectors[-1])
    assert concat(["a", "b"], child) == "a-b"
    assert concat([Vector(1), Vector(2)], child) == Vector(2)
    assert concat([Vector(1), Vector(2)], registry) == Vector(3)


def test_what_a_registered_rule_raises_says_which_rule() -> None:
    registry = ConcatRegistry()
    registry.register(Vector, add)
    with pytest.raises(ConcatError, match=r"the rule registered for Vector failed: zip\(\)") as caught:
        concat([Vector(1), Vector(1, 2)], registry)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_rule_is_asked_for_a_single_chunk_too() -> None:
    registry = ConcatRegistry()
    registry.register(str, lambda texts: "".join(texts).strip())
    assert concat([" a "], registry) == "a"


def test_a_type_in_place_of_a_registry_is_refused() -> None:
    with pytest.raises(TypeError, match="of="):
        concat(["a"], cast("Any", str))


def test_an_empty_stream_names_its_type_as_one_writes_it() -> None:
    with pytest.raises(EmptyStreamError, match="int has no neutral element"):
        concat([], of=int)
