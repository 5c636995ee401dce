"""How plain values are written: those that JSON has, and those of the standard library that are like them.

Each is written in its plainest form where its type is declared; where no type is, the same form stands under a tag.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from decimal import Decimal
from math import isfinite
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any, NamedTuple, cast
from uuid import UUID

from ._codec_enums import decode_enum_heir, encode_enum_heir
from ._codec_json import Json
from ._codec_part import Part, Refused, class_of, never, pair, payload, wrong_tree, wrong_value

_LARGEST = (1 << 63) - 1


class Plain(NamedTuple):
    """How values of exactly one class are written, and under which tag where nothing declares them."""

    tag: str
    part: Part


# -- numbers, text, nothing ------------------------------------------------------------------------------------------


def _encode_none(value: Any) -> Json:
    if value is not None:
        raise wrong_value(value, "None")
    return None


def _decode_none(tree: Any) -> None:
    if tree is not None:
        raise wrong_tree(tree, "null")


def _encode_bool(value: Any) -> Json:
    if type(value) is not bool:
        raise wrong_value(value, "bool")
    return value


def _decode_bool(tree: Any) -> bool:
    if type(tree) is not bool:
        raise wrong_tree(tree, "true or false")
    return tree


def encode_int(value: int) -> Json:
    """Write a whole number; a large one in base 16, since others who read JSON make a float of it."""
    return value if -_LARGEST <= value <= _LARGEST else {"$int": hex(value)}


def _encode_int(value: Any) -> Json:
    if type(value) is int:
        return value if -_LARGEST <= value <= _LARGEST else {"$int": hex(value)}
    return value if type(value) is bool else encode_enum_heir(int, value)


def _decode_int(tree: Any) -> int:
    if type(tree) is int or type(tree) is bool:
        return tree
    return cast("int", decode_enum_heir(int, tree)) if tree.__class__ is dict and "$is" in tree else decode_int(tree)


def decode_int(tree: Any) -> int:
    """Read a whole number, or a truth value, which is one too."""
    if type(tree) is int or type(tree) is bool:
        return tree
    text = payload(tree, "$int", "a whole number")
    if type(text) is not str:
        raise wrong_tree(text, "a whole number in base 16")
    number = int(text, 16)
    if hex(number) != text:
        raise wrong_tree(text, "a whole number in base 16")
    return number


def encode_float(value: float) -> Json:
    """Write a number; JSON has no infinite ones."""
    return value if isfinite(value) else {"$float": repr(value)}


_NOT_FINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def decode_float(tree: Any) -> float:
    """Read a number."""
    if type(tree) is float:
        if not isfinite(tree):
            raise wrong_tree(tree, "a finite number")
        return tree
    text = payload(tree, "$float", "a number")
    if type(text) is not str or text not in _NOT_FINITE:
        raise wrong_tree(text, "nan, inf or -inf")
    return _NOT_FINITE[text]


def _encode_just_float(value: Any) -> Json:
    if type(value) is float:
        return value if isfinite(value) else {"$float": repr(value)}
    return encode_enum_heir(float, value)


def _decode_just_float(tree: Any) -> float:
    if tree.__class__ is dict and "$is" in tree:
        return cast("float", decode_enum_heir(float, tree))
    return decode_float(tree)


def _encode_number(value: Any) -> Json:
    if type(value) is float:
        return value if isfinite(value) else {"$float": repr(value)}
    return _encode_int(value) if isinstance(value, int) else encode_enum_heir(float, value)


def _decode_number(tree: Any) -> float:
    if type(tree) is float or (tree.__class__ is dict and "$float" in tree):
        return decode_float(tree)
    return (
        cast("float", decode_enum_heir((float, int), tree))
        if tree.__class__ is dict and "$is" in tree
        else decode_int(tree)
    )


def _encode_complex(value: Any) -> Json:
    if type(value) is not complex:
        raise wrong_value(value, "complex")
    return [encode_float(value.real), encode_float(value.imag)]


def _decode_complex(tree: Any) -> complex:
    real, imaginary = pair(tree, "a complex number")
    return complex(decode_float(real), decode_float(imaginary))


def _encode_str(value: Any) -> Json:
    return value if type(value) is str else encode_enum_heir(str, value)


def _decode_str(tree: Any) -> str:
    if type(tree) is str:
        return tree
    return cast("str", decode_enum_heir(str, tree)) if tree.__class__ is dict else decode_str(tree)


def decode_str(tree: Any) -> str:
    """Read text."""
    if type(tree) is not str:
        raise wrong_tree(tree, "text")
    return tree


def _encode_bytes(value: Any) -> Json:
    if type(value) is not bytes:
        raise wrong_value(value, "bytes")
    return b64encode(value).decode("ascii")


def _encode_bytearray(value: Any) -> Json:
    if type(value) is not bytearray:
        raise wrong_value(value, "bytearray")
    return b64encode(value).decode("ascii")


def decode_bytes(tree: Any) -> bytes:
    """Read bytes."""
    if type(tree) is not str:
        raise wrong_tree(tree, "bytes in base64")
    return b64decode(tree, validate=True)


_STR, _LIST = frozenset({"str"}), frozenset({"list"})
_INT, _FLOAT = frozenset({"int", "bool", "$int", "$is"}), frozenset({"float", "$float", "$is"})

NONE = Part("None", frozenset({"null"}), (type(None),), _encode_none, _decode_none)
BOOL = Part("bool", frozenset({"bool"}), (bool,), _encode_bool, _decode_bool)
INT = Part("int", _INT, (int, bool), _encode_int, _decode_int, heirs=True)
FLOAT = Part("float", _FLOAT, (float,), _encode_just_float, _decode_just_float, heirs=True)
NUMBER = Part("float", _FLOAT | _INT, (float, int, bool), _encode_number, _decode_number, heirs=True)
"""What ``float`` means as a type: whole numbers too."""
STR = Part("str", _STR | {"$is"}, (str,), _encode_str, _decode_str, heirs=True)


# -- what is written as its text -------------------------------------------------------------------------------------


def _textual(cls: Any, read: Callable[[str], Any]) -> Part:
    """Make the part of a class whose values are their text; that a value is, is seen when it is written."""
    name = cls.__name__

    def encode(value: Any) -> Json:
        if type(value) is not cls:
            raise wrong_value(value, name)
        text = str(value)
        again = read(text)
        if type(again) is not cls or str(again) != text or again != value:
            raise Refused(f"its text {text!r} does not give it back")
        return text

    def decode(tree: Any) -> Any:
        value = read(decode_str(tree))
        if type(value) is not cls or str(value) != tree:
            raise wrong_tree(tree, f"the text of a {name}")
        return value

    return Part(name, _STR, (cls,), encode, decode)


def _encode_decimal(value: Any) -> Json:
    if type(value) is not Decimal:
        raise wrong_value(value, "Decimal")
    return str(value)  # exact in both directions, whatever the context says


def _decode_decimal(tree: Any) -> Decimal:
    value = Decimal(decode_str(tree))
    if str(value) != tree:
        raise wrong_tree(tree, "the text of a Decimal")
    return value


def _encode_uuid(value: Any) -> Json:
    if type(value) is not UUID:
        raise wrong_value(value, "UUID")
    return str(value)


def _decode_uuid(tree: Any) -> UUID:
    value = UUID(decode_str(tree))
    if str(value) != tree:
        raise wrong_tree(tree, "the text of a UUID")
    return value


_TEXTUAL = frozenset(
    {("fractions", "Fraction")}
    | {("ipaddress", f"IPv{version}{kind}") for version in "46" for kind in ("Address", "Interface", "Network")}
)
"""Further classes whose values are their text, and may be declared."""


def textual(cls: type) -> Part | None:
    """Give the part of a class of the standard library whose values are their text, or None for any other."""
    return _textual(cls, cls) if (cls.__module__, cls.__qualname__) in _TEXTUAL else None


# -- paths -----------------------------------------------------------------------------------------------------------

_PATHS: dict[str, Any] = {
    cls.__name__: cls for cls in (PurePosixPath, PureWindowsPath, PosixPath, WindowsPath, PurePath, Path)
}


def path_part(declared: type[PurePath]) -> Part:
    """Make the part of a class of paths: text alone stands for the kind of path that this system has."""
    usual = type(declared())
    classes = [cls for cls in _PATHS.values() if issubclass(cls, declared)]

    def encode(value: Any) -> Json:
        cls = class_of(value)
        if cls not in classes:
            raise wrong_value(value, declared.__name__)
        text = str(value)
        if cls(text) != value:
            raise Refused(f"its text {text!r} does not give it back")
        return text if cls is usual else {"$path": [cls.__name__, text]}

    def decode(tree: Any) -> Any:
        if type(tree) is str:
            return usual(tree)
        name, text = pair(payload(tree, "$path", "a path"), "a path")
        cls: Any = _PATHS.get(name) if type(name) is str else None
        if cls not in classes:
            raise wrong_tree(name, "the name of a class of paths")
        return cls(decode_str(text))

    return Part(declared.__name__, frozenset({"str", "$path"}), tuple(classes), encode, decode)


BYTES = Part("bytes", _STR, (bytes,), _encode_bytes, decode_bytes)
BYTEARRAY = Part(
    "bytearray",
    _STR,
    (bytearray,),
    _encode_bytearray,
    lambda tree: bytearray(decode_bytes(tree)),
    solid=never,
)
COMPLEX = Part("complex", _LIST, (complex,), _encode_complex, _decode_complex)
DECIMAL = Part("Decimal", _STR, (Decimal,), _encode_decimal, _decode_decimal)
IDENTIFIER = Part("UUID", _STR, (UUID,), _encode_uuid, _decode_uuid)
SOME_PATH = path_part(PurePath)

SCALARS = (
    Plain("$bytes", BYTES),
    Plain("$bytearray", BYTEARRAY),
    Plain("$complex", COMPLEX),
    Plain("$decimal", DECIMAL),
    Plain("$uuid", IDENTIFIER),
    Plain("$path", SOME_PATH),
)
