# Type forms are values here, and type checkers do not take them for that.
# mypy: disable-error-code="arg-type, assignment, empty-body, misc, unused-ignore, valid-type"
# pyright: basic, reportGeneralTypeIssues=false, reportInvalidTypeForm=false, reportArgumentType=false
"""What the run-time check of a type looks at, and what it leaves alone."""

from __future__ import annotations

import collections
import typing as t
from collections import abc
from dataclasses import dataclass
from unittest import mock

import pytest
import typing_extensions as te
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, JsonValue

from anabranch.compose._types import Fit, checker, fits, type_name

T = t.TypeVar("T")


class Message(BaseModel):
    text: str = ""


class Page(BaseModel, t.Generic[T]):
    items: list[T] = []


@dataclass
class Pair(t.Generic[T]):
    left: T
    right: list[T]


class Base:
    pass


class Runs(t.Protocol):
    name: str

    def run(self) -> int: ...


class Steps(t.Protocol):
    def run(self) -> int: ...


class Runner:
    reads = 0

    def __init__(self, name: object = "r") -> None:
        self.name = name

    def run(self) -> int:
        return 1


class Property:
    @property
    def name(self) -> str:
        raise AssertionError("a check runs no property")

    def run(self) -> int:
        return 1


class ById:
    """Its run comes with the instance."""

    name = "x"

    def __init__(self) -> None:
        self.run = lambda: 1


class LateBase:
    pass


class Movie(t.TypedDict):
    title: str
    year: t.NotRequired[int]


class Chain(t.TypedDict):
    next: Chain | None


class Slow(abc.Sequence[t.Any]):
    """A sequence whose elements cost something."""

    def __getitem__(self, index: t.Any) -> t.Any:
        raise AssertionError("a check reads no lazy sequence")

    def __len__(self) -> int:
        return 3


class Angry:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        raise RuntimeError("no")

    @property
    def __class__(self) -> t.Any:
        raise RuntimeError("no")


CASES: list[tuple[t.Any, object, bool]] = [
    # elements, at any depth and to the last one
    (list[int], [1] * 100 + ["x"], False),
    (list[int], [1] * 100, True),
    (list[int], [], True),
    (list[int | None], [1, None, "x"], False),
    (list[list[int]], [[1], [2, "x"]], False),
    (abc.Sequence[Message], (Message(), Message()), True),
    (abc.Sequence[Message], (Message(), "x"), False),
    (abc.Sequence[Message], "text", False),
    (abc.Sequence[str], "text", True),
    (abc.Iterable[int], {1: "a"}, True),
    (abc.Iterable[int], {"a": 1}, False),
    (dict[str, int], {"a": 1, "b": "x"}, False),
    (dict[str, int], {1: 1}, False),
    (abc.Mapping[str, list[int]], {"a": [1]}, True),
    (abc.Mapping[str, int], collections.Counter("ab"), True),
    (abc.Mapping[str, str], collections.Counter("ab"), False),
    (abc.Mapping[str, int], collections.defaultdict(int, a=1), True),
    (set[int], {1, "x"}, False),
    (collections.deque[int], collections.deque([1, "x"]), False),
    (tuple[int, ...], (1, 2, "x"), False),
    (tuple[int, te.Unpack[tuple[str, ...]], bytes], (1, "a", "b", b"c"), True),
    (tuple[int, te.Unpack[tuple[str, ...]], bytes], (1, b"c"), True),
    (tuple[int, te.Unpack[tuple[str, ...]], bytes], (1,), False),
    (tuple[int, te.Unpack[tuple[str, ...]], bytes], (1, "a", 2, b"c"), False),
    (tuple[()], (), True),
    (tuple[()], (1,), False),
    # numbers as PEP 484 has them
    (float, 1, True),
    (float, True, True),
    (int, 1.0, False),
    (complex, 1, True),
    (list[float], [1, 2.5], True),
    (type[float], int, True),
    # literals by value and class
    (t.Literal[1], True, False),
    (t.Literal[1], 1, True),
    (t.Literal[1], 1.0, False),
    (t.Literal["a"], [], False),
    (t.Literal["a", 1] | list[int], [1], True),
    # typed dicts
    (Movie, {"title": "t"}, True),
    (Movie, {"title": "t", "year": 1}, True),
    (Movie, {"title": "t", "year": "x"}, False),
    (Movie, {"title": 1}, False),
    (Movie, {}, False),
    (Movie, {"title": "t", "more": 1}, True),
    (Movie, {"title": "t", 1: 1}, False),
    (Movie, Message(), False),
    (Chain, {"next": {"next": None}}, True),
    (Chain, {"next": {"next": 1}}, False),
    # generic data classes by their fields
    (Page[int], Page[int](items=[1]), True),
    (Page[int], Page(items=[1]), True),
    (Page[int], Page(items=["x"]), False),
    (Page[int], Page[str](items=[]), False),
    (Page[float], Page[int](items=[1]), True),
    (Pair[int], Pair(1, [2]), True),
    (Pair[int], Pair(1, ["x"]), False),
    # protocols by their members
    (Runs, Runner(), True),
    (Runs, Runner(5), False),
    (Runs, Property(), True),
    (Runs, ById(), True),
    (Runs, Base(), False),
    (Runs, Runner, False),
    # classes and callables
    (type[Base], Base, True),
    (type[Base], Message, False),
    (type[Base], Base(), False),
    (type[Base] | None, None, True),
    (abc.Callable[[int], str], len, True),
    (abc.Callable[[int], str], 5, False),
    # recursive types
    (JsonValue, {"a": [1, {"b": None}]}, True),
    (JsonValue, {"a": [1, {"b": Message()}]}, False),
    # stand-ins
    (Message, mock.Mock(spec=Message), True),
    (list[Message], [mock.Mock(spec=Message)], True),
    (Steps, mock.Mock(spec=Runner), True),
    (Runs, mock.Mock(), True),
    # nothing and everything
    (t.Never, 1, False),
    (t.Any, Angry(), True),
    (None, None, True),
    (None, 0, False),
    (t.Annotated[int, []], 1, True),
    (t.Annotated[list[int], []], ["x"], False),
]


CIRCLE: list[t.Any] = []
CIRCLE.append(CIRCLE)
ODD_VALUES = (Angry(), [Angry()], {"title": Angry(), "next": Angry()}, (Angry(),), CIRCLE, Slow(), Base, mock.Mock())


def test_values_belong_as_the_table_says() -> None:
    found = [(type_name(target), number, checker(target)(value)) for number, (target, value, _) in enumerate(CASES)]
    assert found == [(type_name(target), number, expected) for number, (target, _, expected) in enumerate(CASES)]


def test_a_check_never_raises() -> None:
    for target, _, _ in CASES:
        check = checker(target)
        assert {check(value) for value in ODD_VALUES} <= {True, False}


def test_a_check_consumes_no_iterator() -> None:
    for target in (abc.Iterable[int], abc.Iterator[int], abc.Generator[int, None, None], list[int] | abc.Iterator[int]):
        numbers = (number for number in (1, 2))
        assert checker(target)(numbers)
        assert list(numbers) == [1, 2]


def test_a_check_reads_no_lazy_sequence() -> None:
    assert checker(abc.Sequence[int])(Slow())
    assert not checker(list[int])(Slow())


def test_what_says_that_it_is_a_list_of_something_is_believed() -> None:
    class Ints(list[int]):
        pass

    assert checker(abc.Sequence[int])(Ints())
    assert not checker(abc.Sequence[str])(Ints())


def test_a_check_is_compiled_once() -> None:
    assert checker(list[Message]) is checker(list[Message])


@pytest.mark.parametrize("form", [5, "Message", [int], list["Message"]])
def test_what_is_no_type_is_refused(form: t.Any) -> None:
    with pytest.raises(TypeError, match="not a type"):
        fits(form, list[int])
    with pytest.raises(TypeError, match="not a type"):
        fits(list[int], form)
    with pytest.raises(TypeError, match="not a type"):
        checker(form)


def test_many_classes_of_values_do_not_fill_the_memory() -> None:
    check = checker(abc.Iterable[int])
    for _ in range(1000):
        assert not check(type("One", (), {})())
    assert check([1])


def test_an_heir_that_comes_later_counts() -> None:
    assert fits(LateBase, Runs) is Fit.NEVER
    assert fits(LateBase, Message) is Fit.NEVER

    class Late(LateBase, Runner):
        pass

    assert fits(LateBase, Runs) is Fit.MAY
    assert fits(LateBase, Runner) is Fit.MAY
    assert checker(Runner)(Late())
    assert not checker(Runs)(LateBase())


@given(st.recursive(st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_a_json_value_passes_the_check_of_json_values(value: object) -> None:
    assert checker(JsonValue)(value)
    assert not checker(JsonValue)([value, object()])
