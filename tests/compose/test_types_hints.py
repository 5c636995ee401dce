# Type forms are values here, and type checkers do not take them for that.
# mypy: disable-error-code="arg-type, assignment, empty-body, misc, unused-ignore, valid-type"
# pyright: basic, reportGeneralTypeIssues=false, reportInvalidTypeForm=false, reportArgumentType=false
"""Reading the annotations of anything that can be called, and the names of types in messages."""

from __future__ import annotations

import enum
import functools
import pickle
import sys
import typing as t
from collections import abc
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import typing_extensions as te
from pydantic import BaseModel

from anabranch.compose._types import (
    AnnotationError,
    Fit,
    checker,
    fits,
    resolve_hints,
    substitute,
    type_name,
    value_type_name,
)

if t.TYPE_CHECKING:
    from decimal import Decimal

T = t.TypeVar("T")
K = t.TypeVar("K")


class Message(BaseModel):
    text: str = ""


def plain(x: list[Message], y: int = 0) -> str | None: ...


def untyped(x, y=0): ...  # type: ignore[no-untyped-def]


class Upper(t.Generic[T]):
    class Inner:
        pass

    def __call__(self, x: T, inner: Inner | None = None) -> list[T]: ...

    def again(self) -> te.Self: ...

    @classmethod
    def make(cls, x: T) -> te.Self: ...

    @staticmethod
    def help(x: Message) -> int: ...


class Ints(Upper[int]):
    pass


class Keyed(Upper[tuple[K, int]], t.Generic[K]):
    pass


@dataclass
class Note:
    text: str
    to: Message | None = None


@dataclass
class Pair(t.Generic[T]):
    left: T
    right: list[T]


def logged(function: Callable[..., t.Any]) -> Callable[..., t.Any]:
    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> t.Any: ...

    return call


class Dynamic:
    value: int = 0

    __call__ = functools.partialmethod(plain, 1)  # type: ignore[arg-type]


PLAIN: dict[str, t.Any] = {"x": list[Message], "y": int, "return": str | None}
UPPER: dict[str, t.Any] = {"inner": Upper.Inner | None}

CALLABLES: list[tuple[str, t.Any, dict[str, t.Any]]] = [
    ("a function", plain, PLAIN),
    ("a function without annotations", untyped, {}),
    ("a decorated function", logged(logged(plain)), PLAIN),
    ("a cached function", functools.lru_cache(plain), PLAIN),
    ("a partial", functools.partial(plain, y=1), PLAIN),
    ("a partial of a partial of a decorated function", functools.partial(functools.partial(logged(plain))), PLAIN),
    ("an object", Ints(), {"x": int, "return": list[int], **UPPER}),
    ("an object of a generic class with arguments", Upper[str](), {"x": str, "return": list[str], **UPPER}),
    ("an object of a generic class without", Upper(), {"x": T, "return": list[T], **UPPER}),
    ("an object of a class between", Keyed[str](), {"x": tuple[str, int], "return": list[tuple[str, int]], **UPPER}),
    ("a bound method", Ints().__call__, {"x": int, "return": list[int], **UPPER}),
    ("a bound method that returns self", Ints().again, {"return": Ints}),
    ("a class method", Ints.make, {"x": int, "return": Ints}),
    ("a static method", Ints.help, {"x": Message, "return": int}),
    ("a partial of a bound method", functools.partial(Ints().again), {"return": Ints}),
    ("a model", Message, {"text": str, "return": Message}),
    ("a data class", Note, {"text": str, "to": Message | None, "return": Note}),
    ("a generic data class", Pair[int], {"left": int, "right": list[int], "return": Pair[int]}),
    ("a built-in class", str, {"return": str}),
    ("a built-in function", len, {}),
    ("a method of a built-in class", str.upper, {}),
    ("an object whose call is no function", Dynamic(), {}),
    ("an object that cannot be called", 5, {}),
]


@pytest.mark.parametrize(("function", "expected"), [pytest.param(*row[1:], id=row[0]) for row in CALLABLES])
def test_the_annotations_of_a_callable_are_found(function: t.Any, expected: dict[str, t.Any]) -> None:
    assert resolve_hints(function) == expected


def test_extras_and_none_are_kept() -> None:
    def node(x: t.Annotated[int, "positive"]) -> None: ...

    assert resolve_hints(node) == {"x": t.Annotated[int, "positive"], "return": type(None)}


def test_names_of_the_functions_around_are_found_while_they_run() -> None:
    class Local:
        pass

    def outer() -> Callable[..., t.Any]:
        class Deeper:
            pass

        def node(x: Local, y: list[Deeper]) -> Message: ...

        assert resolve_hints(node)["y"] == list[Deeper]
        return node

    outer()

    def node(x: dict[str, Local]) -> Local: ...

    assert resolve_hints(node) == {"x": dict[str, Local], "return": Local}


def test_a_local_name_hides_that_of_the_module() -> None:
    class Message:
        pass

    def node(x: Message) -> list[Message]: ...

    assert resolve_hints(node) == {"x": Message, "return": list[Message]}


def make_closed_over() -> tuple[Callable[..., t.Any], type]:
    class Local:
        pass

    def node(x: Local) -> None:
        Local()

    return node, Local


def test_names_of_a_closure_are_found_after_the_function_around_has_returned() -> None:
    node, local = make_closed_over()
    assert resolve_hints(node)["x"] is local


def make_lost() -> Callable[..., t.Any]:
    class Local:
        pass

    def node(x: int, y: list[Local]) -> None: ...

    return node


def test_a_name_that_is_gone_is_an_error_that_names_the_parameter() -> None:
    with pytest.raises(AnnotationError, match=r"'make_lost.<locals>.node'.*'list\[Local\]'.*parameter 'y'") as caught:
        resolve_hints(make_lost())
    assert caught.value.parameter == "y"
    assert caught.value.annotation == "list[Local]"


def test_a_name_that_only_type_checkers_import_is_an_error() -> None:
    def node(x: Decimal) -> int: ...

    with pytest.raises(AnnotationError, match=r"parameter 'x'.*'Decimal' is not defined.*TYPE_CHECKING"):
        resolve_hints(node)


def test_an_unknown_result_is_an_error_that_says_so() -> None:
    def node(x: int) -> Decimal: ...

    with pytest.raises(AnnotationError, match="of what it returns"):
        resolve_hints(functools.partial(node))


def test_an_annotation_that_is_no_type_is_an_error() -> None:
    def node(x: 1 / 0) -> int: ...  # type: ignore[valid-type]

    with pytest.raises(AnnotationError, match="division by zero"):
        resolve_hints(node)


def test_the_error_survives_pickling() -> None:
    error = AnnotationError("f", "x", "Foo", "name 'Foo' is not defined")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.parameter == "x"


def test_quotes_within_an_annotation_are_resolved() -> None:
    def node(x: int) -> int: ...

    node.__annotations__ = {"x": list["Message"], "return": t.Optional["Message"]}
    assert resolve_hints(node) == {"x": list[Message], "return": Message | None}


def test_type_variables_are_replaced_at_any_depth() -> None:
    assert substitute(T, {T: int}) is int
    assert substitute(dict[str, list[T]], {T: int}) == dict[str, list[int]]
    assert substitute(abc.Callable[[T], T | None], {T: int}) == abc.Callable[[int], int | None]
    assert substitute(list[K], {T: int}) == list[K]
    assert substitute(list[int], {T: int}) == list[int]
    assert substitute(int, {T: str}) is int


PEP_695 = """
from __future__ import annotations

type Pairs[K, V] = list[tuple[K, V]]
type Deep = int | list[Deep]

class Box[T]:
    def put(self, x: T, y: list[Deep]) -> Box[T]: ...

class IntBox(Box[int]): ...

def first[T: Message](x: Pairs[str, T], y: list[T]) -> T | None: ...
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is of 3.12")
def test_type_parameters_of_functions_classes_and_aliases_are_understood() -> None:
    names: dict[str, t.Any] = {"Message": Message, "__name__": "made"}
    exec(PEP_695, names)
    hints = resolve_hints(names["first"])
    (variable,) = names["first"].__type_params__
    assert hints["y"] == list[variable]
    assert fits(list[tuple[str, Message]], hints["x"]) is Fit.ALWAYS
    assert fits(list[tuple[str, int]], hints["x"]) is Fit.NEVER
    assert resolve_hints(names["IntBox"]().put)["x"] is int
    assert fits(list[list[int]], names["Deep"]) is Fit.ALWAYS
    assert not checker(names["Deep"])([["x"]])


# --- names -------------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = "red"


class Page(BaseModel, t.Generic[T]):
    items: list[T] = []


UserId = t.NewType("UserId", int)
Alias = te.TypeAliasType("Alias", list[int])

NAMES: list[tuple[t.Any, str]] = [
    (int, "int"),
    (None, "None"),
    (type(None), "None"),
    (t.Any, "Any"),
    (Message, "Message"),
    (Upper.Inner, "Inner"),
    (list[Message], "list[Message]"),
    (t.List[Message], "list[Message]"),
    (list, "list"),
    (t.List, "List"),
    (str | None, "str | None"),
    (t.Optional[str], "str | None"),
    (t.Union[int, str], "int | str"),
    (t.Literal["a", "b"], "Literal['a', 'b']"),
    (t.Literal[Color.RED, 1], "Literal[Color.RED, 1]"),
    (t.Literal[1, 2, 3, 4, 5, 6, 7], "Literal[1, 2, 3, 4, 5, ...]"),
    (t.Annotated[int, "x"], "int"),
    (dict[str, list[int]], "dict[str, list[int]]"),
    (abc.Mapping[str, t.Any], "Mapping[str, Any]"),
    (tuple[int, ...], "tuple[int, ...]"),
    (tuple[()], "tuple[()]"),
    (tuple, "tuple"),
    (tuple[int, te.Unpack[tuple[str, ...]]], "tuple[int, *tuple[str, ...]]"),
    (abc.Callable[[int, str], bool], "Callable[[int, str], bool]"),
    (abc.Callable[..., bool], "Callable[..., bool]"),
    (type[Message], "type[Message]"),
    (Page[int], "Page[int]"),
    (Page[list[Message]], "Page[list[Message]]"),
    (Page, "Page"),
    (UserId, "UserId"),
    (T, "T"),
    (list[T], "list[T]"),
    (Alias, "Alias"),
    (t.Never, "Never"),
    (te.Self, "Self"),
    (list["Message"], "list[Message]"),
    (abc.AsyncIterator[Message], "AsyncIterator[Message]"),
    (int | str | bytes | bool | float | complex | None, "int | str | bytes | bool | float | ... | None"),
]


@pytest.mark.parametrize(("form", "name"), NAMES, ids=[name for _, name in NAMES])
def test_a_type_is_named_as_one_would_write_it(form: t.Any, name: str) -> None:
    assert type_name(form) == name


class Broken:
    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise RuntimeError("no")


VALUES: list[tuple[object, str]] = [
    (1, "int"),
    (None, "None"),
    ("a", "str"),
    (Message(), "Message"),
    (Page[int](), "Page[int]"),
    (Color.RED, "Color"),
    ([], "list"),
    ([1, "a"], "list[int | str]"),
    ([None, 1], "list[None | int]"),
    ([1] * 5000 + ["late"], "list[int]"),
    ({"a": 1, "b": None}, "dict[str, int | None]"),
    ({1}, "set[int]"),
    ((1, "a"), "tuple[int, str]"),
    ((1,) * 9, "tuple[int, int, int, int, int, ...]"),
    ([[1], ["a"]], "list[list[int]]"),
    ([1, "a", b"", 1.0, 1j, (), []], "list[int | str | bytes | float | complex | ...]"),
    ([[[[1]]]], "list[list[list[...]]]"),
    (int, "type[int]"),
    (len, "builtin_function_or_method"),
    (plain, "function"),
    (iter([1]), "list_iterator"),
    (Broken(), "Broken"),
]


@pytest.mark.parametrize(("value", "name"), VALUES, ids=[f"{i} {name}" for i, (_, name) in enumerate(VALUES)])
def test_the_type_of_a_value_is_named_with_what_is_in_it(value: object, name: str) -> None:
    assert value_type_name(value) == name


def test_naming_a_value_does_not_consume_it() -> None:
    iterator = iter([1, 2])
    value_type_name(iterator)
    assert list(iterator) == [1, 2]
