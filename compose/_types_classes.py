"""What a class says about its instances: its bases with their arguments, its members, its heirs."""

from __future__ import annotations

import types
import typing
from abc import ABC, ABCMeta
from collections import abc
from collections.abc import Iterator, Mapping
from enum import Enum, Flag
from functools import lru_cache
from typing import Any, get_args, get_origin

import typing_extensions as te
from pydantic import BaseModel

from ._types_forms import (
    CACHE_SIZE,
    Form,
    Kind,
    OneOf,
    bindings,
    evaluate,
    is_wrapped,
    module_scope,
    shape,
    substitute,
    tuple_items,
)
from ._types_tables import BASES, FAMILIES, TAKES

IS_HEAP_TYPE = 1 << 9
"""The flag of classes that a ``class`` statement made; those written in C mostly lack it."""
_IS_ABSTRACT = 1 << 20


def parameters(cls: type) -> tuple[Any, ...]:
    """The type variables of a generic class."""
    if cls in BASES:
        return BASES[cls][0]
    generic = cls.__dict__.get("__pydantic_generic_metadata__")
    found: tuple[Any, ...] = generic["parameters"] if generic else getattr(cls, "__parameters__", ())
    return found


@lru_cache(maxsize=CACHE_SIZE)
def _declared_bases(cls: type) -> tuple[Form, ...]:
    """The bases of a class as they were written, arguments included."""
    if cls in BASES:
        return BASES[cls][1]
    if tuple in cls.__bases__ and "_fields" in cls.__dict__:
        hints = class_hints(cls)
        return (tuple[tuple(hints.get(name, Any) for name in cls.__dict__["_fields"])],)  # type: ignore[misc]
    written: tuple[Form, ...] = cls.__dict__.get("__orig_bases__", cls.__bases__)
    return written


def view(origin: type, args: tuple[Form, ...], base: type) -> tuple[Form, ...] | None:
    """The arguments of ``origin[args]`` when it is seen as its base.

    Returns:
        ``None`` if they cannot be known: ``origin`` is no declared heir of ``base`` but only behaves like one.
        A ``tuple`` has its items for arguments, however many.
    """
    if origin is base:
        return args
    if origin is tuple:
        return _view_tuple(args, base)
    bound = bindings(parameters(origin), args)
    for written in _declared_bases(origin):
        layer = shape(substitute(written, bound))
        cls: type | None = tuple if layer.kind is Kind.TUPLE else layer.origin if layer.kind is Kind.CLASS else None
        if cls is not None and is_subclass(cls, base):
            found = view(cls, layer.args or _same_variables(cls, bound), base)
            if found is not None:
                return found
    return None


def _same_variables(cls: Any, bound: Mapping[Any, Form]) -> tuple[Form, ...]:
    """The arguments of a pydantic base: ``Model[T]`` with the ``T`` of its own definition is plain ``Model``."""
    variables = parameters(cls) if "__pydantic_generic_metadata__" in cls.__dict__ else ()
    return tuple(bound[variable] for variable in variables) if set(variables) <= bound.keys() else ()


def _view_tuple(items: tuple[Form, ...], base: type) -> tuple[Form, ...] | None:
    prefix, rest, suffix = tuple_items(items)
    members = (*prefix, *([] if rest is None else [rest]), *suffix)
    return view(abc.Sequence, (members[0] if len(members) == 1 else OneOf(members),), base)


def is_subclass(cls: type, base: type) -> bool:
    """``issubclass`` that never raises, and by declaration alone for protocols."""
    if base in cls.__mro__:
        return True
    if is_protocol(base):
        return False
    try:
        return issubclass(cls, base)
    except Exception:
        return False


def is_protocol(cls: type) -> bool:
    """Whether a class is a protocol (and not a class that follows one)."""
    return te.is_protocol(cls)


def is_data(cls: type) -> bool:
    """Whether a class declares all that its instances hold: a pydantic model, a dataclass, a named tuple."""
    return hasattr(cls, "__pydantic_fields__") or hasattr(cls, "__dataclass_fields__") or is_named_tuple(cls)


def is_named_tuple(cls: type) -> bool:
    """Whether a class is a named tuple."""
    return tuple in cls.__mro__ and hasattr(cls, "_fields")


@lru_cache(maxsize=CACHE_SIZE)
def class_hints(cls: type) -> dict[str, Form]:
    """The annotations of a class and its bases; one that cannot be resolved is ``Any``."""
    fields: Mapping[str, Any] = getattr(cls, "__pydantic_fields__", {})  # pydantic also looked at local names
    found = {name: field.annotation for name, field in fields.items()}
    return {**_written_hints(cls), **found}


def _written_hints(cls: type) -> dict[str, Form]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception:
        hints: dict[str, Form] = {}
    for base in reversed(cls.__mro__):
        own = te.get_annotations(base, format=te.Format.FORWARDREF)
        for name, written in own.items():
            try:
                hints[name] = evaluate(written, module_scope(base.__module__), {base.__name__: base})
            except Exception:
                hints[name] = Any
    return hints


@lru_cache(maxsize=CACHE_SIZE)
def typed_dict_keys(cls: type) -> dict[str, tuple[Form, bool]]:
    """The keys of a ``TypedDict``: the type of each, and whether it must be there."""
    required: frozenset[str] = cls.__dict__["__required_keys__"]
    keys: dict[str, tuple[Form, bool]] = {}
    for name, written in class_hints(cls).items():
        form, needed = written, name in required
        while is_wrapped(form):  # a quoted NotRequired is not in __required_keys__
            origin: Any = get_origin(form)
            if origin in {typing.Required, te.Required}:
                needed = True
            elif origin in {typing.NotRequired, te.NotRequired}:
                needed = False
            form = get_args(form)[0]
        keys[name] = (form, needed)
    return keys


def literals_of(cls: Any) -> tuple[Any, ...] | None:
    """All values of a class that has few and fixed ones: ``bool``, ``None``, an enum; else ``None``."""
    if cls is bool:
        return (True, False)
    if cls is types.NoneType:
        return (None,)
    if isinstance(cls, type) and issubclass(cls, Enum) and not issubclass(cls, Flag) and len(cls):
        return tuple(cls)
    return None


def variance(origin: type, place: int) -> int:
    """1 if a class gives out its argument, -1 if it takes it in, 0 if it may do both."""
    if place in TAKES.get(origin, ()):
        return -1
    variables = parameters(origin)
    if origin in BASES or place >= len(variables):
        return 1
    if getattr(variables[place], "__contravariant__", False):
        return -1
    return int(bool(getattr(variables[place], "__covariant__", False)) or is_data(origin))


def may_share_an_heir(one: type, other: type) -> bool:
    """Whether some class may inherit from two unrelated ones: there is one, or both only live by their heirs."""
    for cls, base in ((one, other), (other, one)):
        if any(is_subclass(heir, base) for heir in heirs_of(cls)):
            return True
    if not (is_abstract(one) and is_abstract(other)):
        return False
    families = [next((base for base in FAMILIES if is_subclass(cls, base)), None) for cls in (one, other)]
    return None in families or families[0] is families[1]


def heirs_of(cls: type) -> Iterator[type]:
    """All classes below this one that exist by now.

    Built-in classes and the standard containers are taken at their word: what else some library makes of an ``int``
    or a ``Mapping`` must not change the answer.
    """
    if cls.__flags__ & IS_HEAP_TYPE and cls not in BASES:
        heirs: list[type] = type.__subclasses__(cls)
        for heir in heirs:
            yield heir
            yield from heirs_of(heir)


def is_abstract(cls: type) -> bool:
    """Whether a value that is declared as this class must be of some other class, with more members."""
    if cls.__flags__ & _IS_ABSTRACT or is_protocol(cls) or cls is BaseModel:
        return True
    return type(cls) is ABCMeta and not any(type(base) is ABCMeta and base is not ABC for base in cls.__bases__)


def has_member(cls: type, name: str, hints: dict[str, Form], *, is_attribute: bool) -> bool:
    """Whether a class shows a member; a method that is set to ``None`` is none."""
    if name in hints:
        return True
    for base in cls.__mro__:
        if name in base.__dict__:
            return is_attribute or base.__dict__[name] is not None
    return False
