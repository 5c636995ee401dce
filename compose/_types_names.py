"""Short names of types and of values' types, for messages: ``list[Message]``, ``str | None``."""

from __future__ import annotations

import types
import typing
from collections.abc import Collection, Iterable
from enum import Enum
from itertools import islice
from typing import Any, Literal, Union, cast, get_args, get_origin

import typing_extensions as te

from ._types_forms import Form, is_unpacked

_MOST = 5
"""So many members of a union, values of a literal or kinds of elements are named; then come three dots."""
_SAMPLE = 1000
"""So many elements of a container are looked at."""
_DEEPEST = 3


def type_name(form: Form) -> str:
    """Name a type as one would write it, without module paths.

    Example:
        >>> from collections.abc import Sequence
        >>> type_name(Sequence[int] | None)
        'Sequence[int] | None'
    """
    return _name(form, _DEEPEST * 2)


def _name(form: Form, depth: int) -> str:  # noqa: C901  one kind of form per line
    if form is None or form is types.NoneType:
        return "None"
    if form is ...:
        return "..."
    if depth <= 0:
        return "..."
    if isinstance(form, list | tuple):  # what stands for a ParamSpec
        return f"[{_names(cast('Iterable[Form]', form), depth)}]"
    origin: Any = get_origin(form)
    args = get_args(form)
    if origin is te.Annotated:
        return _name(args[0], depth)
    if origin is Union or origin is types.UnionType:
        return " | ".join(_cut([_name(arg, depth) for arg in args]))
    if origin is Literal or origin is te.Literal:
        return f"Literal[{', '.join(_cut([_value_name(arg) for arg in args]))}]"
    if is_unpacked(form):
        return f"*{_name(args[0], depth)}"
    generic = getattr(form, "__pydantic_generic_metadata__", None) if isinstance(form, type) else None
    if generic and generic["origin"] is not None:
        origin, args = generic["origin"], generic["args"]
    if not args:
        return "tuple[()]" if form == tuple[()] or form == typing.Tuple[()] else _plain_name(form)  # noqa: UP006
    return f"{_plain_name(origin)}[{_names(args, depth - 1)}]"


def _names(forms: Iterable[Form], depth: int) -> str:
    return ", ".join(_name(form, depth) for form in forms)


def _plain_name(form: Form) -> str:
    if isinstance(form, str):
        return form
    name = getattr(form, "__name__", None) or getattr(form, "_name", None) or getattr(form, "__forward_arg__", None)
    return str(name or form).removeprefix("typing.")


def _value_name(value: Any) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


def _cut(names: list[str]) -> list[str]:
    """The first few different names, in their order; ``None`` is never among those left out."""
    names = list(dict.fromkeys(names))
    if len(names) <= _MOST:
        return names
    return [*names[:_MOST], "...", *(["None"] if "None" in names[_MOST:] else [])]


def value_type_name(value: object) -> str:
    """Name the type of a value, and of what is in it as far as a look at the first elements tells.

    Example:
        >>> value_type_name([1, "two"])
        'list[int | str]'
    """
    try:
        return _value_type_name(value, _DEEPEST)
    except Exception:
        return type(value).__name__


def _value_type_name(value: Any, depth: int) -> str:
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"type[{_plain_name(value)}]"
    cls = _class_of(value)
    name = _name(cls, depth)
    if depth <= 0 or cls not in _CONTAINERS or not value:
        return name
    if cls is dict:
        return f"{name}[{_kinds(value, depth)}, {_kinds(value.values(), depth)}]"
    if cls is tuple:
        shown = [_value_type_name(item, depth - 1) for item in value[:_MOST]]
        return f"{name}[{', '.join([*shown, '...'] if len(value) > _MOST else shown)}]"
    return f"{name}[{_kinds(value, depth)}]"


_CONTAINERS = {list, dict, set, frozenset, tuple}


def _class_of(value: object) -> type:
    return type(value)


def _kinds(items: Collection[Any], depth: int) -> str:
    """The union of the elements' types; one example of each class is looked into."""
    examples: dict[type, Any] = {}
    for item in islice(items, _SAMPLE):
        examples.setdefault(_class_of(item), item)
    return " | ".join(_cut([_value_type_name(item, depth - 1) for item in islice(examples.values(), _MOST + 1)]))
