"""The types of answers, in a form that can be kept: so that an answer is tested before anything runs, in any process.

What stands for a type is plain data. Reading it looks classes up among those that are known here, because a question
was asked with them or the graph declares them; it imports nothing. A type that is not known is tested later, when the
node asks again.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from ._types import checker, type_name, value_type_name
from .errors import AnswerTypeError

if TYPE_CHECKING:
    from ._codec import Json

PLAIN: dict[str, Any] = {
    "any": Any, "none": NoneType, "bool": bool, "int": int, "float": float, "str": str, "bytes": bytes,
    "list": list, "dict": dict, "tuple": tuple, "set": set, "frozenset": frozenset,
}  # fmt: skip
NAMES = {form: name for name, form in PLAIN.items()}
known: dict[str, Any] = {}
"""The classes of answers, and the types that cannot be said otherwise, that were met in this process, by name."""


class UnknownAnswerTypeError(LookupError):
    """What stands for a type names a class that is not known here."""


def remember(forms: Iterable[Any]) -> None:
    """Get to know the classes in types."""
    for form in forms:
        describe(form)


def describe(form: Any) -> Json:
    """Say a type in plain data."""
    if form is None or form is Ellipsis:
        return "none" if form is None else "..."
    try:
        if form in NAMES:
            return NAMES[form]
    except TypeError:
        return ["unknown", type_name(form)]  # it cannot be hashed
    origin, arguments = get_origin(form), get_args(form)
    if origin is Literal:
        return ["literal", *arguments]
    if origin in (Union, UnionType):
        return ["union", *map(describe, arguments)]
    if origin in (list, dict, tuple, set, frozenset):
        return [NAMES[origin], *map(describe, arguments)]
    name = f"{form.__module__}.{form.__qualname__}" if isinstance(form, type) and origin is None else type_name(form)
    known[name] = form
    return ["class", name]


def resolve(tree: Json) -> Any:
    """Give the type that :func:`describe` has said.

    Raises:
        UnknownAnswerTypeError: If that cannot be known here.
    """
    if isinstance(tree, str) and tree in PLAIN:
        return PLAIN[tree]
    if isinstance(tree, list) and tree:
        kind, *rest = tree
        if kind == "literal":
            return Literal[tuple(rest)]  # pyright: ignore[reportInvalidTypeForm]  # one that is made at run time
        if kind == "union":
            return Union[tuple(map(resolve, rest))]  # noqa: UP007  (made at run time)
        if kind in ("list", "dict", "tuple", "set", "frozenset"):
            return PLAIN[kind][tuple(... if part == "..." else resolve(part) for part in rest)]
        if kind == "class" and rest and rest[0] in known:
            return known[rest[0]]
    raise UnknownAnswerTypeError(str(tree))


def _has_limits(form: Any) -> bool:
    """Tell whether a type says more of its values than of which class they are."""
    return get_origin(form) is Annotated or any(map(_has_limits, get_args(form)))


def validated(id: str, form: Any, given: Any) -> Any:
    """Test an answer; a model may also be given as the dict that makes it.

    Raises:
        AnswerTypeError: If it is of another type.
    """
    if not _has_limits(form) and checker(form)(given):
        return given
    try:
        return TypeAdapter(form).validate_python(given, strict=True)
    except ValidationError as error:
        raise AnswerTypeError(id, type_name(form), value_type_name(given)) from error
