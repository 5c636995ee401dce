# Type forms are values here, and type checkers do not take them for that.
# mypy: disable-error-code="arg-type, assignment, empty-body, misc, unused-ignore, valid-type"
# pyright: basic, reportGeneralTypeIssues=false, reportInvalidTypeForm=false, reportArgumentType=false
"""Whether types fit, by a table of cases; the run-time checks agree with it."""

from __future__ import annotations

import collections
import collections.abc as abc
import enum
import numbers
import types
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import typing_extensions as te
from pydantic import BaseModel, Field, JsonValue

from anabranch.compose._types import Fit, checker, fits, type_name

A, N, M = Fit.ALWAYS, Fit.NEVER, Fit.MAY

T = t.TypeVar("T")
T_co = t.TypeVar("T_co", covariant=True)
T_contra = t.TypeVar("T_contra", contravariant=True)


# --- the types of the table --------------------------------------------------------------------------------------


class Animal:
    def __init__(self, name: str = "ann") -> None:
        self.name = name


class Dog(Animal):
    def swim(self) -> int:
        return 1


class Cat(Animal):
    pass


class Rock:
    pass


class Ghost:
    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda: 0


AnimalT = t.TypeVar("AnimalT", bound=Animal)
IntOrStr = t.TypeVar("IntOrStr", int, str)


class Message(BaseModel):
    role: str = "user"
    content: str = ""


class Answer(Message):
    score: int = 0


@dataclass
class Document:
    text: str = ""
    tags: list[str] = field(default_factory=list)


class Point(t.NamedTuple):
    x: int
    y: int


Loose = collections.namedtuple("Loose", ["x", "y"])


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Perm(enum.Flag):
    R = 1
    W = 2


class Kind(enum.StrEnum):
    A = "a"
    B = "b"


class Celsius(float):
    pass


class Box(t.Generic[T]):
    def __init__(self, item: T) -> None:
        self.item = item


class IntBox(Box[int]):
    pass


class Giver(t.Generic[T_co]):
    pass


class Taker(t.Generic[T_contra]):
    pass


class Page(BaseModel, t.Generic[T], arbitrary_types_allowed=True):
    items: list[T] = []
    first: T | None = None


class IntPage(Page[int]):
    pass


class SubPage(Page[T], t.Generic[T]):
    pass


@dataclass
class Pair(t.Generic[T]):
    left: T
    right: T


class IntList(list[int]):
    pass


class Scores(abc.Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> abc.Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class Walks:
    """Behaves like an iterable of something."""

    def __iter__(self) -> abc.Iterator[int]:
        return iter([1])


class Named(t.Protocol):
    name: str


class Numbered(t.Protocol):
    name: int


class HasText(t.Protocol):
    @property
    def text(self) -> str: ...


class Swims(t.Protocol):
    def swim(self) -> int: ...


class Dives(Swims, t.Protocol):
    def dive(self) -> int: ...


@t.runtime_checkable
class Closes(t.Protocol):
    def close(self) -> None: ...


class Holds(t.Protocol[T_co]):
    @property
    def item(self) -> T_co: ...


class Carries(t.Protocol[T]):
    text: T


class Handler(t.Protocol):
    def __call__(self, x: int) -> str: ...


class File:
    name: str = "f"

    def close(self) -> None: ...


class Repo(abc.Sized):
    """Abstract: has no __len__."""


class MemoryRepo(Repo):
    def __len__(self) -> int:
        return 0


class Movie(t.TypedDict):
    title: str


class DatedMovie(Movie):
    year: int


class Film(t.TypedDict):
    title: str
    year: t.NotRequired[int]


class Draft(t.TypedDict, total=False):
    title: str


class Book(t.TypedDict):
    pages: int


class Wrong(t.TypedDict):
    title: int


class Sealed(te.TypedDict, closed=True):  # type: ignore[call-arg]
    title: str


class Row(t.TypedDict, t.Generic[T]):
    cell: T


class Nested(t.TypedDict):
    movie: Movie
    other: list[Nested]


UserId = t.NewType("UserId", int)
AdminId = t.NewType("AdminId", UserId)
OrderId = t.NewType("OrderId", int)
Names = t.NewType("Names", list[str])

Words = te.TypeAliasType("Words", "str | bytes")
Tree = te.TypeAliasType("Tree", "int | list[Tree]")
Forest = te.TypeAliasType("Forest", "int | list[Forest] | None")
Many = te.TypeAliasType("Many", list[T], type_params=(T,))
Ts = te.TypeVarTuple("Ts")
P = t.ParamSpec("P")


class Shape(t.Generic[te.Unpack[Ts]]):
    pass


class Runs(t.Generic[P, T]):
    pass


class Meta(type):
    pass


class Made(metaclass=Meta):
    pass


# --- the table ---------------------------------------------------------------------------------------------------

Case = tuple[t.Any, t.Any, Fit]
FOLDER = Path(__file__).parent
USED = {"numbers": numbers, "collections": collections, "Field": Field, "JsonValue": JsonValue}
NAMES = {**vars(te), **vars(t), **globals(), **USED}


def read_table(text: str) -> dict[str, list[Case]]:
    """Subject to cases, of lines such as ``int -> str  never``."""
    table: dict[str, list[Case]] = {}
    cases: list[Case] = []
    for line in text.splitlines():
        if line.startswith("# "):
            cases = table.setdefault(line.removeprefix("# "), [])
        elif " -> " in line:
            types_of_case, verdict = line.rsplit(maxsplit=1)
            source, target = (eval(form, NAMES) for form in types_of_case.split(" -> "))
            cases.append((source, target, Fit(verdict)))
    return table


CASES, UNMARKED = map(read_table, (FOLDER / "types_table.txt").read_text("utf-8").split("\n## "))
"""What a run-time check can see, and what no value carries."""


def arrow(source: t.Any, target: t.Any) -> str:
    return f"{type_name(source)} -> {type_name(target)}"


# --- values of types ---------------------------------------------------------------------------------------------


def read_values(text: str) -> dict[t.Any, list[t.Any]]:
    """Type to some of its values, of lines such as ``int: [0, 7]``."""
    lines = [line.split(": ", maxsplit=1) for line in text.splitlines()[3:]]
    return {eval(form, NAMES): eval(values, NAMES) for form, values in lines}


VALUES = read_values((FOLDER / "types_values.txt").read_text("utf-8"))
SEQUENCES = (list, abc.Sequence, abc.Iterable, abc.Collection, abc.Reversible)


def examples(form: t.Any) -> list[t.Any]:
    """Some values of a type; of containers never an empty one. None for what is not known here."""
    try:
        if form in VALUES:
            return VALUES[form]
    except TypeError:
        pass
    origin, args = t.get_origin(form), t.get_args(form)
    if isinstance(form, t.NewType):
        return examples(form.__supertype__)
    if isinstance(form, t.TypeVar):
        return [x for c in form.__constraints__ or (form.__bound__,) for x in examples(c)]
    if origin in {t.Annotated, t.Final, t.ClassVar, te.ReadOnly}:
        return examples(args[0])
    if origin is t.Literal:
        return list(args)
    if origin in {t.Union, types.UnionType}:
        return [x for arg in args for x in examples(arg)]
    if origin is type:
        return [arg for arg in args if isinstance(arg, type)]
    return data_classes(form) or containers(origin, args)


def data_classes(form: t.Any) -> list[t.Any]:
    generic = getattr(form, "__pydantic_generic_metadata__", {"origin": None})
    if generic["origin"] is Page:
        return [Page(items=[x], first=x) for x in examples(generic["args"][0])]
    if t.get_origin(form) in {Pair, Row}:
        (arg,) = t.get_args(form)
        return [Pair(x, x) if t.get_origin(form) is Pair else {"cell": x} for x in examples(arg)]
    return []


def containers(origin: t.Any, args: t.Any) -> list[t.Any]:
    if origin is tuple and len(args) == 2 and args[1] is ...:
        return [(x,) for x in examples(args[0])] + [tuple(examples(args[0]))]
    if origin is tuple and not any(t.get_origin(arg) is te.Unpack for arg in args):
        parts = [examples(arg) for arg in args]
        return [tuple(p[i % len(p)] for p in parts) for i in range(3)] if all(parts) else []
    if origin in SEQUENCES and args:
        items = examples(args[0])
        return [[x] for x in items] + ([items] if items else [])
    if origin in {set, frozenset, abc.Set, abc.MutableSet, collections.deque} and args:
        make = frozenset if origin is frozenset else collections.deque if origin is collections.deque else set
        return [make([x]) for x in examples(args[0]) if isinstance(x, abc.Hashable)]
    if origin in {dict, abc.Mapping, collections.defaultdict, collections.OrderedDict} and args:
        keys = [x for x in examples(args[0]) if isinstance(x, abc.Hashable)]
        empty = origin if issubclass(origin, dict) else dict
        return [empty() | {key: value} for key in keys for value in examples(args[1])]
    return []


# --- the table as a test -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("subject", [*CASES, *UNMARKED])
def test_types_fit_as_the_table_says(subject: str) -> None:
    table = (CASES | UNMARKED)[subject]
    found = [(arrow(source, target), fits(source, target)) for source, target, _ in table]
    assert found == [(arrow(source, target), expected) for source, target, expected in table]


@pytest.mark.parametrize("subject", CASES)
def test_the_check_agrees_with_the_table(subject: str) -> None:
    for source, target, expected in CASES[subject]:
        own, check = checker(source), checker(target)
        for value in examples(source):
            assert own(value), f"{value!r} is no example of {type_name(source)}"
            if expected is not M:
                assert check(value) is (expected is A), f"{arrow(source, target)}: {value!r}"


def test_the_table_is_large_and_its_types_have_examples() -> None:
    table = [row for group in CASES.values() for row in group]
    assert len(table) + sum(map(len, UNMARKED.values())) >= 400
    assert sum(bool(examples(source)) for source, _, _ in table) >= 0.9 * len(table)


EVERY_CASE = [case for table in (CASES, UNMARKED) for cases in table.values() for case in cases]
EVERY_FORM = list({type_name(form): form for case in EVERY_CASE for form in case[:2]}.values())
"""Every type in the table, one of each name."""


def test_every_type_fits_itself_in_any_spelling() -> None:
    for form in EVERY_FORM:
        spellings = [form, object]
        if t.get_origin(form) not in {t.Final, t.ClassVar}:
            spellings += [t.Annotated[form, "again"], t.Annotated[form, []]]
            assert fits(list[form], abc.Collection[form]) is A
        assert [fits(form, other) for other in spellings] == [A] * len(spellings), type_name(form)


def test_fitting_is_transitive_over_all_types_of_the_table() -> None:
    fitting = [(a, [b for b in EVERY_FORM if fits(a, b) is A]) for a in EVERY_FORM]
    reached = {id(a): bs for a, bs in fitting}
    for a, bs in fitting:
        for b in bs:
            for c in reached[id(b)]:
                assert fits(a, c) is A, f"{type_name(a)} -> {type_name(b)} -> {type_name(c)}"
