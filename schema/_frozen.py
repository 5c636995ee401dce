"""Read-only JSON containers, so that what hangs on a frozen message can be shared without fear.

A frozen pydantic model freezes its own attributes only; a ``dict`` in one of them would still be open to
everyone. Here such values are copied once, when they are handed over, into containers that compare, print and
serialise as the ``dict`` and ``list`` that they are, can be hashed, and refuse to be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NoReturn, Self, cast

from pydantic import BaseModel
from pydantic_core import core_schema
from typing_extensions import override

__all__ = ()

_Handler = Callable[[Any], core_schema.CoreSchema]

# JSON objects are heterogeneous by nature: this is the one place that says so.
JsonObject = Mapping[str, Any]


def _refuse(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    raise TypeError("this mapping or list belongs to a frozen value; make a new one, such as {**old, key: value}")


class FrozenDict(dict[str, Any]):
    """A ``dict`` that cannot be changed and can be hashed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    @override
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: _Handler) -> core_schema.CoreSchema:
        plain = core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema())
        return core_schema.no_info_after_validator_function(freeze_mapping, plain)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class FrozenList(list[Any]):
    """A ``list`` that cannot be changed and can be hashed."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse  # pyright: ignore[reportAssignmentType]
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse  # pyright: ignore[reportAssignmentType]

    @override
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


EMPTY = FrozenDict()
"""The one empty mapping that values without extras share."""

_SCALARS = (str, int, float, bool, type(None))


def freeze(value: Any, path: str = "") -> Any:
    """Copy a JSON value into read-only containers.

    Args:
        value: Text, a number, a boolean, ``None``, or mappings and sequences of such.
        path: Where the value stands, for the error.

    Returns:
        An equal value that nobody can change. What is frozen already is returned as it is.

    Raises:
        ValueError: The value, or one inside of it, is no JSON value.
    """
    if isinstance(value, (FrozenDict, FrozenList, *_SCALARS)):
        return value
    if isinstance(value, Mapping):
        items = cast("Mapping[object, Any]", value).items()
        return FrozenDict((_key(key, path), freeze(item, f"{path}[{key!r}]")) for key, item in items)
    if isinstance(value, list | tuple):
        items_of = cast("list[Any]", value)
        return FrozenList(freeze(item, f"{path}[{number}]") for number, item in enumerate(items_of))
    raise ValueError(
        f"{path or 'the value'} is of type {type(value).__name__}, which is no JSON value; "
        "use text, numbers, booleans, None, lists and dicts of them"
    )


def freeze_mapping(value: Mapping[str, Any] | None) -> FrozenDict:
    """Copy a mapping of JSON values into a read-only one; ``None`` counts as empty."""
    if not value:
        return EMPTY
    return cast("FrozenDict", freeze(value))


def _key(key: object, path: str) -> str:
    if isinstance(key, str):
        return key
    raise ValueError(f"{path or 'the mapping'} has the key {key!r}; the keys of a JSON object are text")


Extra = Annotated[JsonObject, FrozenDict]
"""A field that holds a read-only JSON object."""


class Value(BaseModel, frozen=True, defer_build=True):
    """The base of our values: frozen for the type checkers too, built when first needed, shown by what it says.

    A subclass has to say ``frozen=True`` again: ``class Note(Value, frozen=True)``.
    """

    @override
    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return _show_fields(self)


def _show_fields(model: BaseModel) -> Iterable[tuple[str, Any]]:
    """Give the fields that are worth showing: those that are not at their default."""
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if name != "kind" and (field.is_required() or value != field.default):
            yield name, value
