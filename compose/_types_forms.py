"""Type forms taken apart, one layer at a time.

An annotation can be spelled in many ways (``Optional[int]``, ``int | None``, a ``type`` alias, ``Annotated``).
:func:`shape` turns any of them into one of ten plain :class:`Shape` s whose arguments are still forms; so recursive
aliases stay finite, and whoever walks a form decides how deep to go. :func:`view` answers what a class is when
seen as one of its bases: ``dict[str, int]`` seen as ``Iterable`` has the arguments ``(str,)``.
"""

from __future__ import annotations

import sys
import types
import typing
from collections import abc
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Literal, NamedTuple, NewType, ParamSpec, TypeVar, Union, cast, get_args, get_origin

import typing_extensions as te

Form = Any
"""A type as it is written in an annotation: a class, an alias, a union, ``None``, ``Any`` …"""

CACHE_SIZE = 4096
_EMPTY: tuple[Form, ...] = ()


class Kind(Enum):
    """What there is to distinguish in a form, once its spelling is out of the way."""

    ANY = "any"
    NEVER = "never"
    UNION = "union"
    LITERAL = "literal"
    NEW_TYPE = "new type"
    TYPED_DICT = "typed dict"
    TUPLE = "tuple"
    CALLABLE = "callable"
    TYPE = "type"
    CLASS = "class"


class Shape(NamedTuple):
    """The outermost layer of a form."""

    kind: Kind
    origin: Any = None
    """The class, the ``TypedDict`` or the ``NewType``; else ``None``."""
    args: tuple[Any, ...] = _EMPTY
    """Members of a union, values of a literal, the supertype of a ``NewType``, arguments of a class; for a
    callable its parameters (a tuple, or ``...``) and its result; for a tuple its items as they are written."""


CALLABLE = cast("type", abc.Callable)
SELF: Form = vars(te)["Self"]  # type checkers do not let it stand outside a class
ANY = Shape(Kind.ANY)
NEVER = Shape(Kind.NEVER)


class OneOf:
    """A union that is made here: unlike ``Union`` it takes forms that cannot be hashed."""

    def __init__(self, members: tuple[Form, ...]) -> None:
        self.members = members

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OneOf) and self.members == other.members

    def __hash__(self) -> int:
        return hash(self.members)


class JustFloat:
    """Stands for ``float`` without the ``int`` that PEP 484 lets pass for one."""


class JustComplex:
    """Stands for ``complex`` without ``float`` and ``int``."""


_SPECIAL: dict[Any, Shape] = {
    None: Shape(Kind.CLASS, types.NoneType),
    Any: ANY,
    te.Any: ANY,
    SELF: ANY,
    typing.ClassVar: ANY,
    typing.Final: ANY,
    typing.Never: NEVER,
    typing.NoReturn: NEVER,
    te.Never: NEVER,
    te.NoReturn: NEVER,
    typing.LiteralString: Shape(Kind.CLASS, str),
    te.LiteralString: Shape(Kind.CLASS, str),
    JustFloat: Shape(Kind.CLASS, float),
    JustComplex: Shape(Kind.CLASS, complex),
    float: Shape(Kind.UNION, None, (JustFloat, int)),
    complex: Shape(Kind.UNION, None, (JustComplex, JustFloat, int)),
    type: Shape(Kind.TYPE, None, (Any,)),
    typing.Type: Shape(Kind.TYPE, None, (Any,)),  # noqa: UP006
    tuple: Shape(Kind.TUPLE, None, (Any, ...)),
    typing.Tuple: Shape(Kind.TUPLE, None, (Any, ...)),  # noqa: UP006
}
_WRAPPERS: set[Any] = {
    typing.Annotated,
    typing.ClassVar,
    typing.Final,
    typing.Required,
    typing.NotRequired,
    te.Required,
    te.NotRequired,
    te.ReadOnly,
}
_KINDS: dict[Any, Kind] = {
    Literal: Kind.LITERAL,
    te.Literal: Kind.LITERAL,
    tuple: Kind.TUPLE,
    type: Kind.TYPE,
}
_BOOLS: set[Any] = {typing.TypeGuard, te.TypeGuard, te.TypeIs}


def shape(form: Form) -> Shape:
    """Take the outermost layer off a form.

    Raises:
        TypeError: If it is no type at all, such as a number or an unresolved name.
    """
    try:
        return _cached_shape(form)
    except TypeError:  # not hashable, such as Annotated[int, []]; or no type, and then this says so again
        return _shape(form)


def is_top(form: Form) -> bool:
    """Whether every value belongs to this form, or, for what stands in the place of a ``ParamSpec``, every call."""
    if isinstance(form, list | tuple):
        return False
    if form is ...:
        return True
    layer = shape(form)
    return layer.kind is Kind.ANY or layer.origin is object


def exactly(cls: type) -> Form:
    """A class without what PEP 484 lets pass for it."""
    return JustFloat if cls is float else JustComplex if cls is complex else cls


def _special(form: Form) -> Shape | None:
    try:
        return _SPECIAL.get(form)
    except TypeError:  # what stands in Annotated, at any depth, need not be hashable
        return None


def _shape(form: Form) -> Shape:
    special = _special(form)
    if special is not None:
        return special
    origin: Any = get_origin(form)
    if origin is not None:
        return _alias_shape(origin, get_args(form))
    if isinstance(form, type):
        return _class_shape(form)
    if is_alias(form):
        return shape(alias_value(form))
    if isinstance(form, TypeVar):
        return _variable_shape(form)
    if isinstance(form, NewType):
        return Shape(Kind.NEW_TYPE, form, (form.__supertype__,))
    return _other_shape(form)


def _other_shape(form: Form) -> Shape:
    if isinstance(form, OneOf):
        return _union_shape(form.members)
    if isinstance(form, str):
        raise TypeError(f"{form!r} is a name that nobody has resolved, not a type")
    if type(form).__name__ == "InitVar" and hasattr(form, "type"):  # of dataclasses
        return shape(form.type)
    if type(form).__module__ in {"typing", "typing_extensions", "annotationlib"}:
        return ANY  # a ParamSpec, a forward reference of a recursive alias, what a later Python brings
    raise TypeError(f"{form!r} is not a type")


_cached_shape = lru_cache(maxsize=CACHE_SIZE)(_shape)


def _alias_shape(origin: Any, args: tuple[Form, ...]) -> Shape:
    """Take apart ``origin[args]``."""
    if origin is Union or origin is types.UnionType:
        return _union_shape(args)
    if origin in _WRAPPERS:
        return shape(args[0])
    if is_alias(origin):
        return shape(substitute(alias_value(origin), bindings(origin.__type_params__, args)))
    if origin is CALLABLE:
        params: Any = args[0] if args else ...
        result: Form = args[1] if args else Any
        taken: Any = tuple(params) if params.__class__ is list else ...
        return Shape(Kind.CALLABLE, None, (taken, result))
    if origin in _KINDS:
        return Shape(_KINDS[origin], None, args)
    if te.is_typeddict(origin):
        return Shape(Kind.TYPED_DICT, origin, args)
    if origin in _BOOLS:
        return Shape(Kind.CLASS, bool)
    return Shape(Kind.CLASS, origin, args) if isinstance(origin, type) else ANY


def _union_shape(args: tuple[Form, ...]) -> Shape:
    members: list[Form] = []
    for arg in args:
        inner = shape(arg)
        if inner.kind is Kind.UNION:
            members.extend(inner.args)
        elif inner.kind is not Kind.NEVER:
            members.append(arg)
    return Shape(Kind.UNION, None, tuple(members)) if members else NEVER


def _variable_shape(variable: TypeVar) -> Shape:
    """A type variable counts as its bound or as any of its constraints."""
    if variable.__constraints__:
        return _union_shape(variable.__constraints__)
    bound = variable.__bound__
    return ANY if bound is None else shape(bound)


def _class_shape(cls: type) -> Shape:
    if te.is_typeddict(cls):
        return Shape(Kind.TYPED_DICT, cls)
    if cls is CALLABLE:
        return Shape(Kind.CALLABLE, None, (..., Any))
    generic = cls.__dict__.get("__pydantic_generic_metadata__")
    if generic and generic["origin"] is not None:
        return Shape(Kind.CLASS, generic["origin"], generic["args"])
    return Shape(Kind.CLASS, cls)


# --- aliases and type variables ----------------------------------------------------------------------------------


def is_wrapped(form: Form) -> bool:
    """Whether a form is another one with something said about it: ``Annotated`` or ``NotRequired``."""
    origin: Any = get_origin(form)
    return origin in _WRAPPERS


def is_unpacked(form: Form) -> bool:
    """Whether this is ``Unpack[...]``, of typing or of typing_extensions."""
    origin: Any = get_origin(form)
    return origin is typing.Unpack or origin is te.Unpack


def is_alias(form: Form) -> bool:
    """Whether this is a ``type`` alias (PEP 695), bare or with arguments; only those can contain themselves."""
    origin: Any = get_origin(form)
    return type(form if origin is None else origin).__name__ == "TypeAliasType"


def alias_value(alias: Any) -> Form:
    """What an alias stands for, with the names in its quotes resolved where it was made."""
    return evaluate(alias.__value__, module_scope(getattr(alias, "__module__", None)), {alias.__name__: alias})


def module_scope(name: str | None) -> dict[str, Any]:
    """The names of a module."""
    return vars(sys.modules[name]) if name in sys.modules else {}


def evaluate(written: Form, scope: dict[str, Any], names: Mapping[str, Any]) -> Form:
    """Resolve an annotation that is quoted, or has quoted parts; ``names`` come before those of ``scope``."""

    def holder() -> None: ...

    holder.__annotations__ = {"value": written}
    return typing.get_type_hints(holder, scope, dict(names), include_extras=True)["value"]


def bindings(variables: tuple[Any, ...], args: tuple[Form, ...]) -> dict[Any, Form]:
    """Which variable stands for what; one that was given nothing stands for ``Any``."""
    if any(isinstance(variable, te.TypeVarTuple) for variable in variables):
        return {}
    bound = dict(zip(variables, args, strict=False))
    for variable in variables[len(args) :]:
        bound[variable] = ... if isinstance(variable, ParamSpec | te.ParamSpec) else Any
    return bound


def substitute(form: Form, bound: Mapping[Any, Form]) -> Form:
    """Put types in the place of type variables, at any depth; variables without a binding stay."""
    if not bound:
        return form
    if isinstance(form, TypeVar):
        return bound.get(form, form)
    generic = getattr(form, "__pydantic_generic_metadata__", None) if isinstance(form, type) else None
    variables = generic["parameters"] if generic else getattr(form, "__parameters__", ())
    if not variables or (isinstance(form, type) and not (generic and generic["origin"])):
        return form
    try:
        generic_form: Any = form
        return generic_form[tuple(bound.get(variable, variable) for variable in variables)]
    except TypeError:  # a TypeVarTuple, or something that Python does not let stand there
        return form


def tuple_items(args: tuple[Form, ...]) -> tuple[tuple[Form, ...], Form | None, tuple[Form, ...]]:
    """A tuple's items: the fixed ones in front, the repeated one if there is any, the fixed ones behind."""
    if len(args) == 2 and args[1] is ...:
        return (), _known(args[0]), ()
    for index, arg in enumerate(args):
        inner = arg
        if is_unpacked(arg):
            inner = get_args(arg)[0]
        elif not getattr(arg, "__unpacked__", False):
            continue
        before, rest, behind = tuple_items(get_args(inner)) if get_origin(inner) is tuple else ((), Any, ())
        return (*args[:index], *before), rest, (*behind, *args[index + 1 :])
    return args, None, ()


def _known(form: Form) -> Form:
    return types.NoneType if form is None else form
