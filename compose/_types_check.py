"""Does this value belong to a type: the check that runs on *may* edges, compiled once per type.

A check looks as deep as the type says, at every element of a container, since a wrong element would fail far from the
edge that let it in. It looks only at what can be read again: built-in containers and the fields of data classes;
never at iterators, streams or lazy sequences. What a value's own class says about the type is asked of
:func:`~anabranch.compose._types_fits.fits` and remembered per class, so that a check of a value without parts is a
dictionary look-up; elements that are decided by their class alone are checked class by class, not one by one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar, cast

import typing_extensions as te

from ._types_classes import class_hints, is_data, is_protocol, is_subclass, parameters, typed_dict_keys, view
from ._types_fits import Fit, fits
from ._types_forms import (
    CACHE_SIZE,
    Form,
    Kind,
    Shape,
    bindings,
    exactly,
    is_alias,
    is_top,
    shape,
    substitute,
    tuple_items,
)
from ._types_tables import BASES, ELEMENTS

Check = Callable[[Any], bool]

_KNOWN_CLASSES = 256
_MISSING = object()
_DYNAMIC = property()  # stands for an attribute that __getattr__ gives: it is there, and says nothing of its type
_ITEM = TypeVar("_ITEM")


def checker(target: Form) -> Check:
    """Compile the run-time check for a type.

    Args:
        target: The type that is wanted, as in an annotation.

    Returns:
        A function that says whether a value belongs to the type. It never raises and never consumes an iterator;
        a value that cannot be examined does not belong.

    Raises:
        TypeError: If ``target`` is not a type.
    """
    try:
        return _cached_checker(target)
    except TypeError:  # a form that cannot be hashed; if it is no type at all, this raises again
        return _guarded(_compile(target))


@lru_cache(maxsize=CACHE_SIZE)
def _cached_checker(target: Form) -> Check:
    return _guarded(_compile(target))


def _guarded(check: Check) -> Check:
    def guarded(value: Any) -> bool:
        try:
            return check(value)
        except Exception:
            return False

    return guarded


def _yes(value: Any) -> bool:
    return True


def _no(value: Any) -> bool:
    return False


def _compile(form: Form) -> Check:
    classes = _classes_of(form)
    if classes is not None:
        return _yes if object in classes else lambda value: isinstance(value, classes)
    layer = shape(form)
    compiled: Check = _COMPILERS[layer.kind](layer, form)
    return compiled


def _part(form: Form) -> Check:
    """Compile the check of a part; put off where a type may contain itself, until a value has such a part."""
    if not (is_alias(form) or shape(form).kind is Kind.TYPED_DICT):
        return _compile(form)
    compiled: Check | None = None

    def check(value: Any) -> bool:
        nonlocal compiled
        if compiled is None:
            compiled = checker(form)
        return compiled(value)

    return check


def _classes_of(form: Form) -> tuple[type, ...] | None:
    """The classes that decide alone, by ``isinstance``, whether a value belongs; ``None`` if they do not."""
    layer = shape(form)
    if layer.kind is Kind.ANY:
        return (object,)
    if layer.kind is Kind.UNION:
        found = [_classes_of(member) for member in layer.args]
        return None if None in found else tuple(cls for classes in found if classes for cls in classes)
    if layer.kind is Kind.CLASS and not is_protocol(layer.origin) and all(map(is_top, layer.args)):
        return (layer.origin,)
    return None


def _union(layer: Shape, form: Form) -> Check:
    simple = [member for member in layer.args if _classes_of(member) is not None]
    classes = tuple(cls for member in simple for cls in _classes_of(member) or ())
    rest = [_guarded(_part(member)) for member in layer.args if member not in simple]
    return lambda value: isinstance(value, classes) or any(check(value) for check in rest)


def _literal(layer: Shape, form: Form) -> Check:
    kinds: set[Any] = {type(value) for value in layer.args}
    values: set[Any] = {(type(value), value) for value in layer.args}
    return lambda value: type(value) in kinds and (type(value), value) in values


def _new_type(layer: Shape, form: Form) -> Check:
    return _part(layer.args[0])


def _callable(layer: Shape, form: Form) -> Check:
    return callable


def _type(layer: Shape, form: Form) -> Check:
    wanted = layer.args[0]
    return lambda value: isinstance(value, type) and fits(exactly(value), wanted) is Fit.ALWAYS


def _typed_dict(layer: Shape, form: Form) -> Check:
    bound = bindings(parameters(layer.origin), layer.args)
    keys = typed_dict_keys(layer.origin)
    required = frozenset(name for name, (_, needed) in keys.items() if needed)
    checks = {name: _part(substitute(wanted, bound)) for name, (wanted, _) in keys.items()}
    closed = bool(getattr(layer.origin, "__closed__", False))

    def check(value: Any) -> bool:
        if not isinstance(value, dict) or not value.keys() >= required:
            return False
        held = cast("dict[str, Any]", value)
        if not all(issubclass(kind, str) for kind in set(map(type, held))):
            return False
        if closed and not checks.keys() >= held.keys():
            return False
        return all(test(held[name]) for name, test in checks.items() if name in held)

    return check


def _tuple(layer: Shape, form: Form) -> Check:
    prefix, rest, suffix = tuple_items(layer.args)
    before, behind = [_part(item) for item in prefix], [_part(item) for item in suffix]
    least = len(before) + len(behind)
    middle = None if rest is None else _each(rest)

    def check(value: Any) -> bool:
        if not isinstance(value, tuple):
            return False
        items = cast("tuple[Any, ...]", value)  # type: ignore[redundant-cast]
        if len(items) < least or (middle is None and len(items) > least):
            return False
        end = len(items) - len(behind)
        return (
            all(test(item) for test, item in zip(before, items, strict=False))
            and (middle is None or middle(items[len(before) : end]))
            and all(test(item) for test, item in zip(behind, items[end:], strict=True))
        )

    return check


def _class(layer: Shape, form: Form) -> Check:
    """Ask what the value's class says about the type; where it leaves the answer open, look inside."""
    known: dict[type, Check] = {}

    def check(value: object) -> bool:
        cls = type(value)
        test = known.get(cls)
        if test is None:
            if len(known) >= _KNOWN_CLASSES:
                known.clear()
            test = known[cls] = _by_class(cls, layer, form)
        return test(value)

    return check


def _by_class(cls: type, layer: Shape, form: Form) -> Check:
    """The check for values of exactly this class."""
    verdict = fits(exactly(cls), form)
    if verdict is Fit.ALWAYS:
        return _yes
    if is_protocol(layer.origin):
        return _members(layer)
    if not is_subclass(cls, layer.origin):
        return lambda value: isinstance(value, layer.origin)  # a stand-in such as Mock(spec=...)
    if verdict is Fit.NEVER:
        return _no
    if is_data(layer.origin):
        return _fields(layer)
    return _elements(cls, layer)


def _elements(cls: type, layer: Shape) -> Check:
    """A container: see which arguments of the wanted type are those of the built-in one below it."""
    builtin = next((base for base in cls.__mro__ if base in BASES or base is tuple), None)
    if builtin is None or not issubclass(builtin, ELEMENTS):
        return _yes
    variables = BASES[builtin][0] if builtin in BASES else (_ITEM,)
    seen = view(builtin, (_ITEM, ...) if builtin is tuple else variables, layer.origin) or ()
    wanted: dict[Any, Form] = dict(zip(seen, layer.args, strict=False))
    first = _each(wanted.get(variables[0], Any))
    if len(variables) == 1:
        return first
    second = _each(wanted.get(variables[1], Any))
    return lambda value: first(value) and second(value.values())


def _each(form: Form) -> Callable[[Collection[Any]], bool]:
    """The check of all elements of a collection."""
    classes = _classes_of(form)
    if classes is None:
        test = _part(form)
        return lambda items: all(map(test, items))
    if object in classes:
        return _yes

    def check(items: Collection[Any]) -> bool:
        kinds: Iterable[type] = set(map(type, items))
        if all(issubclass(kind, classes) for kind in kinds):
            return True
        return all(isinstance(item, classes) for item in items)  # stand-ins

    return check


def _fields(layer: Shape) -> Check:
    """A generic data class does not know its arguments, but its fields show them."""
    bound = bindings(parameters(layer.origin), layer.args)
    declared: Mapping[str, Any] = getattr(layer.origin, "__pydantic_fields__", None) or getattr(
        layer.origin, "__dataclass_fields__", {}
    )
    hints = class_hints(layer.origin)
    checks = [
        (operator.attrgetter(name), _part(substitute(hints[name], bound)))
        for name in declared
        if name in hints and substitute(hints[name], bound) is not hints[name]
    ]
    return lambda value: all(test(get(value)) for get, test in checks)


def _members(layer: Shape) -> Check:
    """A protocol: the members by name, and by type those that the value itself holds."""
    bound = bindings(parameters(layer.origin), layer.args)
    hints = class_hints(layer.origin)
    names = te.get_protocol_members(layer.origin)
    tests = {name: _part(substitute(hints[name], bound)) for name in names if name in hints}

    def check(value: Any) -> bool:
        for name in names:
            found: object = _find(value, name)
            if found is _MISSING or (found is None and name not in tests):
                return False
            if name in tests and not hasattr(found, "__get__") and not tests[name](found):
                return False
        return True

    return check


def _find(value: object, name: str) -> Any:
    """A member as it is held by a value or its class, without running a property."""
    held: Any = getattr(value, "__dict__", {})
    if name in held:
        return held[name]
    for base in type(value).__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return _DYNAMIC if hasattr(type(value), "__getattr__") and hasattr(value, name) else _MISSING


_COMPILERS: dict[Kind, Callable[[Shape, Form], Check]] = {
    Kind.NEVER: lambda layer, form: _no,
    Kind.UNION: _union,
    Kind.LITERAL: _literal,
    Kind.NEW_TYPE: _new_type,
    Kind.TYPED_DICT: _typed_dict,
    Kind.TUPLE: _tuple,
    Kind.CALLABLE: _callable,
    Kind.TYPE: _type,
    Kind.CLASS: _class,
}
