# Type forms are values here, and type checkers do not take them for that.
# mypy: disable-error-code="arg-type, assignment, empty-body, misc, unused-ignore, valid-type"
# pyright: basic, reportGeneralTypeIssues=false, reportInvalidTypeForm=false, reportArgumentType=false
"""The laws of fitting and checking, over made-up types and values of them."""

from __future__ import annotations

import enum
import typing as t
from collections import abc
from dataclasses import dataclass

import pytest
import typing_extensions as te
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from anabranch.compose._types import Fit, checker, fits

pytestmark = pytest.mark.timeout(600)  # for the thousands of examples of the nightly profile

T = t.TypeVar("T")
Typed = tuple[t.Any, list[t.Any]]
"""A type and some values of it, none of them an empty container or with one inside."""


class Animal:
    def __init__(self) -> None:
        self.name = "ann"


class Dog(Animal):
    def swim(self) -> int:
        return 1


class Rock:
    pass


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Point(t.NamedTuple):
    x: int
    y: int


class Message(BaseModel):
    text: str = ""


class Page(BaseModel, t.Generic[T]):
    first: T


@dataclass
class Pair(t.Generic[T]):
    left: T
    right: T


class Named(t.Protocol):
    name: str


class Swims(t.Protocol):
    def swim(self) -> int: ...


class Movie(t.TypedDict):
    title: str


class Film(Movie):
    year: t.NotRequired[int]


class Row(t.TypedDict, t.Generic[T]):
    cell: T


Words = te.TypeAliasType("Words", "str | bytes")
Tree = te.TypeAliasType("Tree", "int | list[Tree]")
UserId = t.NewType("UserId", int)

HASHABLE: list[Typed] = [
    (int, [0, 7, True]),
    (bool, [True, False]),
    (float, [0.5, 3]),
    (str, ["a", "long"]),
    (bytes, [b"ab"]),
    (None, [None]),
    (Color, list(Color)),
    (Level, list(Level)),
    (Point, [Point(1, 2)]),
    (UserId, [5]),
    (Words, ["a", b"a"]),
    (t.Literal["a", 1], ["a", 1]),
    (t.Literal[True, Color.RED], [True, Color.RED]),
]
LEAVES: list[Typed] = [
    *HASHABLE,
    (t.Any, [0, "x", None, [1], {"title": "t"}]),
    (object, [0, "x", None, [1], {"title": "t"}]),
    (Animal, [Animal(), Dog()]),
    (Dog, [Dog()]),
    (Rock, [Rock()]),
    (Message, [Message()]),
    (Named, [Animal(), Color.RED]),
    (Swims, [Dog()]),
    (Movie, [{"title": "t"}, {"title": "t", "year": 1}]),
    (Film, [{"title": "t"}, {"title": "t", "year": 1}]),
    (Tree, [1, [1], [[2], 3]]),
    (list, [[1], ["a", None]]),
    (dict, [{1: "a"}, {"title": "t"}]),
    (tuple, [(1,), (1, 2), ("a", None)]),
    (type[int], [int, bool]),
    (type[Animal], [Animal, Dog]),
]


MAKERS: dict[t.Any, t.Callable[[t.Any], object]] = {
    Pair: lambda value: Pair(value, value),
    Page: lambda value: Page.model_construct(first=value),
    Row: lambda value: {"cell": value},
}


def listed(one: Typed, origin: t.Any) -> Typed:
    form, values = one
    return origin[form], [[value] for value in values] + [list(values)]


def gathered(one: Typed, origin: t.Any) -> Typed:
    form, values = one
    make = frozenset if origin is frozenset else set
    return origin[form], [make([value]) for value in values]  # pyright: ignore[reportInvalidTypeArguments]


def mapped(key: Typed, value: Typed, origin: t.Any) -> Typed:
    return origin[key[0], value[0]], [{k: v} for k in key[1] for v in value[1]]


def in_row(parts: list[Typed]) -> Typed:
    values = [tuple(part[1][turn % len(part[1])] for part in parts) for turn in range(3)]
    return tuple[tuple(part[0] for part in parts)], values


def repeated(one: Typed) -> Typed:
    form, values = one
    return tuple[form, ...], [(value,) for value in values] + [tuple(values)]


def either(one: Typed, other: Typed) -> Typed:
    return t.Union[one[0], other[0]], one[1] + other[1]


def in_class(one: Typed, origin: t.Any) -> Typed:
    form, values = one
    return origin[form], [MAKERS[origin](value) for value in values]


def deeper(types: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    keys, plain = st.sampled_from(HASHABLE), st.sampled_from(HASHABLE[:6])
    sequences = st.sampled_from([list, abc.Sequence, abc.Iterable, abc.Collection, abc.Reversible, t.List])
    return st.one_of(
        st.builds(listed, types, sequences),
        st.builds(gathered, keys, st.sampled_from([set, frozenset, abc.Set])),
        st.builds(mapped, keys, types, st.sampled_from([dict, abc.Mapping])),
        st.builds(in_row, st.lists(types, min_size=1, max_size=3)),
        st.builds(repeated, types),
        st.builds(either, types, types),
        st.builds(in_class, types, st.sampled_from([Pair, Row])),
        st.builds(in_class, plain, st.just(Page)),
        st.builds(lambda one: (t.Annotated[one[0], "x"], one[1]), types),
    )


TYPED = st.recursive(st.sampled_from(LEAVES), deeper, max_leaves=4)
FORMS = TYPED.map(lambda typed: typed[0])


def union(*forms: t.Any) -> t.Any:
    """A union, also of what cannot be hashed."""
    return t.Union[tuple(te.TypeAliasType(f"member{place}", form) for place, form in enumerate(forms))]


@given(TYPED, FORMS)
def test_what_always_fits_passes_the_check_and_what_never_fits_fails_it(source: Typed, target: t.Any) -> None:
    form, values = source
    verdict, own, check = fits(form, target), checker(form), checker(target)
    assert all(map(own, values))
    if verdict is Fit.ALWAYS:
        assert all(map(check, values))
    if verdict is Fit.NEVER:
        assert not any(map(check, values))


@given(FORMS, FORMS)
def test_that_two_types_never_fit_does_not_depend_on_the_direction(one: t.Any, other: t.Any) -> None:
    assert (fits(one, other) is Fit.NEVER) == (fits(other, one) is Fit.NEVER)


@given(FORMS, FORMS, FORMS)
def test_a_union_is_wider_than_its_members_and_fits_as_they_do(one: t.Any, other: t.Any, target: t.Any) -> None:
    both = union(one, other)
    assert fits(one, both) is Fit.ALWAYS
    assert fits(both, one) is not Fit.NEVER
    verdicts = {fits(one, target), fits(other, target)}
    assert fits(both, target) is (verdicts.pop() if len(verdicts) == 1 else Fit.MAY)


@given(FORMS, FORMS, FORMS)
def test_always_fitting_is_transitive(one: t.Any, two: t.Any, three: t.Any) -> None:
    related = [one, union(one, two), abc.Sequence[one], list[union(one, two)], list[one], two, three]
    fitting = {i: {j for j, b in enumerate(related) if fits(a, b) is Fit.ALWAYS} for i, a in enumerate(related)}
    for reached in fitting.values():
        assert all(fitting[j] <= reached for j in reached)


@given(FORMS)
def test_a_type_fits_itself_in_every_spelling(form: t.Any) -> None:
    spellings = [form, te.TypeAliasType("alias", form), t.Annotated[form, []], union(form), union(form, t.Never)]
    if form is not None:  # a bound of None is none
        spellings.append(t.TypeVar("variable", bound=form))
    for one in spellings:
        for other in spellings:
            assert fits(one, other) is Fit.ALWAYS


@given(FORMS, FORMS)
def test_containers_fit_as_their_elements_do(one: t.Any, other: t.Any) -> None:
    verdict = fits(one, other)
    assert fits(list[one], abc.Iterable[other]) is verdict
    assert fits(dict[str, one], abc.Mapping[str, other]) is verdict
    assert fits(tuple[one, ...], tuple[other, ...]) is verdict
    assert fits(tuple[one, int], tuple[other, int]) is verdict
    assert fits(Pair[one], Pair[other]) is verdict
    assert fits(Row[one], Row[other]) is verdict


PLAIN = st.recursive(
    st.sampled_from([int, bool, float, str, type(None), Color, t.Literal["a", 1], Movie, Film, bytes, Point]),
    lambda forms: st.one_of(
        st.builds(lambda form: list[form], forms),
        st.builds(lambda form: dict[str, form], forms),
        st.builds(lambda one, other: tuple[one, other], forms, forms),
        st.builds(lambda form: tuple[form, ...], forms),
        st.builds(lambda one, other: t.Union[one, other], forms, forms),
    ),
    max_leaves=4,
)


@given(PLAIN, FORMS, st.data())
def test_the_laws_hold_for_the_values_that_hypothesis_makes(source: t.Any, target: t.Any, data: st.DataObject) -> None:
    value = data.draw(st.from_type(source))
    assert checker(source)(value)
    if fits(source, target) is Fit.ALWAYS:
        assert checker(target)(value)
    if fits(source, target) is Fit.NEVER and not has_empty(value):
        assert not checker(target)(value)


def has_empty(value: t.Any) -> bool:
    if isinstance(value, dict):
        return not value or any(map(has_empty, value.values()))
    return isinstance(value, list | tuple) and (not value or any(map(has_empty, value)))
