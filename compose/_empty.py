"""The input of a node that control leads to without data: the empty value of its type."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType
from typing import Any, get_args, get_origin

from pydantic import BaseModel


def empty_value(form: Any) -> Callable[[], Any] | None:
    """Give what makes the empty value of a type, or None where there is none.

    ``None`` where the type takes it, an empty ``str``, ``bytes`` or container, and a model or dataclass whose fields
    all have defaults.
    """
    if form is Any or form is object or form is None or form is NoneType or NoneType in get_args(form):
        return _nothing
    origin: Any = get_origin(form) or form
    if not isinstance(origin, type):
        return None
    return _of_class(origin)


def _of_class(origin: type[Any]) -> Callable[[], Any] | None:
    if origin in (str, bytes, list, dict, set, frozenset, tuple):
        return origin
    if issubclass(origin, BaseModel):
        return None if any(f.is_required() for f in origin.model_fields.values()) else origin
    if is_dataclass(origin):
        needed = [f for f in fields(origin) if f.default is MISSING and f.default_factory is MISSING and f.init]
        return None if needed else origin
    if issubclass(origin, Collection) and origin.__module__ == "collections.abc":
        return dict if "Mapping" in origin.__name__ else list
    return None


def _nothing() -> None:
    return None
