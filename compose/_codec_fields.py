"""What classes with fields have in common: the types of their fields, and values for those that are missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import Format, get_annotations

from ._codec_json import Json
from ._codec_part import Part, Refused
from ._types import substitute
from ._types_classes import class_hints, parameters, view
from ._types_forms import Form, bindings

Default = Callable[[], Any]

_HARMLESS: set[Any] = {list, dict, set, frozenset, tuple, int, float, str, bool, bytes}
MISSING: Any = object()
"""Stands for what is not there."""


def field_forms(cls: type, args: tuple[Form, ...], names: list[str]) -> dict[str, Form]:
    """Give the types of a class's fields, with what its type variables stand for, also those of its bases."""
    hints = class_hints(cls)
    forms: dict[str, Form] = {}
    for name in names:
        form = hints.get(name, Any)
        owner = next((base for base in cls.__mro__ if name in own_hints(base)), cls)
        bound = bindings(parameters(owner), view(cls, args, owner) or ())
        forms[name] = substitute(form, bound)
    return forms


def own_hints(cls: type) -> Mapping[str, Any]:
    """Give the annotations that stand in a class itself."""
    return get_annotations(cls, format=Format.FORWARDREF)


def default_of(part: Part, default: Any, factory: Any) -> Default | None:
    """Give how to make the value of a field that a record does not have; None if it must have it.

    A factory of the user's is not called; a default is written and read, so that nobody shares it.
    """
    if factory in _HARMLESS:
        return factory  # type: ignore[no-any-return]
    if default is MISSING or factory is not None:
        return None
    try:
        tree = part.encode(default)
    except Refused:
        return None
    return lambda: part.decode(tree)


def dataclass_default(part: Part, field: dataclasses.Field[Any]) -> Default | None:
    """As :func:`default_of`, for the field of a dataclass."""
    default = MISSING if field.default is dataclasses.MISSING else field.default
    factory: Any = None if field.default_factory is dataclasses.MISSING else field.default_factory
    return default_of(part, default, factory)


def fill(held: dict[str, Any], defaults: Mapping[str, Default | None], cls: type) -> None:
    """Add the fields that a record does not have.

    Raises:
        Refused: One of them has no default.
    """
    for name, default in defaults.items():
        if name not in held:
            if default is None:
                raise Refused(f"the field {name!r} of {cls.__name__} is missing")
            held[name] = default()


def unknown(tree: Mapping[str, Json], known: Mapping[str, object], cls: type) -> Refused:
    """Say that a record has a field that the class has not."""
    name = next(name for name in tree if name not in known)
    return Refused(f"{cls.__name__} has no field {name!r:.60}")
