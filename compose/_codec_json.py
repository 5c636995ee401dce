"""The one format in which records are stored: JSON in UTF-8, and what there is to say of JSON trees.

A tree is an *object*, a list or a plain value. An object with one key that begins with ``$`` is a *tag*: its key says
what its value stands for. Whoever writes objects with free keys has to escape those that look like tags; so a tag is
never mistaken for data, and data never for a tag.
"""

from __future__ import annotations

import json
from math import copysign, isfinite
from typing import Any, NoReturn, TypeAlias, cast

from .errors import DamagedRecordError, UnsavableValueError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A JSON tree: what :func:`dump` writes and :func:`load` gives. Its numbers are finite."""

_CONTAINERS = {list, dict}
SCALAR_KINDS: dict[type, str] = {type(None): "null", bool: "bool", int: "int", float: "float", str: "str", list: "list"}


def is_tag(keys: Any) -> bool:
    """Tell whether an object with these keys would be read as a tag."""
    if len(keys) != 1:
        return False
    (key,) = keys
    return type(key) is str and key[:1] == "$"


def kind_of(tree: Any) -> str:
    """Give what a tree shows of itself: ``"null"``, ``"str"`` …, ``"object"``, or the name of its tag."""
    kind = SCALAR_KINDS.get(tree.__class__)
    if kind is not None:
        return kind
    if tree.__class__ is not dict:
        raise DamagedRecordError("", f"{type(tree).__name__} is no kind of JSON")
    return next(iter(tree)) if is_tag(tree) else "object"


def same(one: Json, other: Json) -> bool:
    """Tell whether two trees are written alike: ``1``, ``1.0`` and ``True`` are three things, and order counts."""
    if type(one) is not type(other):
        return False
    if type(one) is float:
        number = cast("float", other)
        return one == number and copysign(1, one) == copysign(1, number)
    if one == other:
        return one is other or type(one) not in _CONTAINERS or text_of(one) == text_of(other)
    return False


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))


def text_of(tree: Json) -> str:
    """Write a tree as text."""
    return _encoder.encode(tree)


def dump(tree: Json) -> bytes:
    """Write a tree.

    Raises:
        UnsavableValueError: It is too deep, or no JSON tree.
    """
    try:
        return _encoder.encode(tree).encode("utf-8", "surrogatepass")
    except RecursionError:
        raise UnsavableValueError("", "it is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise UnsavableValueError("", f"it is no JSON tree: {error}") from error


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _read_float(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"the number {text:.20} is out of range")
    return number


_decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_read_float)


def load(data: bytes, limit: int) -> Json:
    """Read a tree back.

    Args:
        data: What :func:`dump` gave.
        limit: The most bytes to accept.

    Raises:
        DamagedRecordError: It is too long, no UTF-8, no JSON, or nested too deeply.
    """
    if len(data) > limit:
        raise DamagedRecordError("", f"it has {len(data)} bytes, and {limit} are the most that are read")
    try:
        return cast("Json", _decoder.decode(data.decode("utf-8", "surrogatepass")))
    except RecursionError:
        raise DamagedRecordError("", "it is nested too deeply") from None
    except ValueError as error:  # no UTF-8, no JSON, or a number with too many digits
        raise DamagedRecordError("", f"it is no JSON: {error}") from error
