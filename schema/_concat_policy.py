"""Policies: how the values of one field or key, taken from many chunks, become one value.

A policy is declared for a field by ``Annotated[str, Last]``, and for a key of ``extra`` by
:meth:`ConcatRegistry.declare_key`. Every policy here is associative, and ``None`` never reaches it. One that you make
yourself has to be associative too, or the result depends on how a stream was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from typing_extensions import override

from ._frozen import EMPTY, FrozenDict, freeze_mapping
from .errors import ConcatError

__all__ = ("Append", "First", "Join", "Last", "Max", "Merge", "Min", "Policy", "Sum")


class Policy:
    """A rule for the values of one field or key.

    Args:
        name: What to call it in an error.
        combine: Makes one value of one or more, in the order of the chunks. It must be associative, and it is asked for
            a single value too.

    Example:
        >>> longest = Policy("longest", lambda values: max(values, key=len))
        >>> longest(["a", "abc", "ab"])
        'abc'
    """

    __slots__ = ("_combine", "name")

    def __init__(self, name: str, combine: Callable[[Sequence[Any]], Any]) -> None:
        self.name: str = name
        self._combine = combine

    def __call__(self, values: Sequence[Any]) -> Any:
        """Make one value of these.

        Raises:
            ConcatError: The values are not of a kind that the policy can take.
        """
        try:
            return self._combine(values)
        except ConcatError:
            raise
        except Exception as error:
            kinds = ", ".join(dict.fromkeys(type(value).__name__ for value in values))
            raise ConcatError(f"the policy {self.name} cannot take values of type {kinds}: {error}") from error

    @override
    def __repr__(self) -> str:
        return self.name


def _join(values: Sequence[Any]) -> Any:
    return values[0][:0].join(values)


def _append(values: Sequence[Any]) -> Any:
    items: list[Any] = []
    for value in values:
        if isinstance(value, list | tuple):
            items.extend(cast("list[Any]", value))
        else:
            items.append(value)
    return tuple(items) if all(isinstance(value, tuple) for value in values) else items


def _sum(values: Sequence[Any]) -> Any:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


Join: Policy = Policy("Join", _join)
"""Text or bytes, one after the other."""
Append: Policy = Policy("Append", _append)
"""Lists or tuples, one after the other; a single value counts as a list of one."""
Last: Policy = Policy("Last", lambda values: values[-1])
"""The value that came last."""
First: Policy = Policy("First", lambda values: values[0])
"""The value that came first."""
Sum: Policy = Policy("Sum", _sum)
"""The values added up."""
Max: Policy = Policy("Max", max)
"""The largest value."""
Min: Policy = Policy("Min", min)
"""The smallest value."""


def _needs_registry(values: Sequence[Any]) -> Any:
    from ._concat import concat

    return concat(values)


Merge: Policy = Policy("Merge", _needs_registry)
"""Whatever :func:`concat` does with values of their type: text is joined, lists appended, dicts merged by key."""


Policies = Mapping[str, Policy]
"""The policies declared for keys of ``extra``."""


def merge_extras(extras: Sequence[Mapping[str, Any]], policies: Policies) -> FrozenDict:
    """Bring ``extra`` objects together: a key's last value counts, or what its policy says; ``None`` is neutral."""
    if len(extras) == 1 and isinstance(extras[0], FrozenDict) and policies.keys().isdisjoint(extras[0]):
        return extras[0]
    values: dict[str, list[Any]] = {}
    for extra in extras:
        for key, value in extra.items():
            known = values.setdefault(key, [])
            if value is not None:
                known.append(value)
    if not values:
        return EMPTY
    return freeze_mapping({key: policies.get(key, Last)(known) if known else None for key, known in values.items()})
