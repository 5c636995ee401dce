"""Fan-in: one value of what several senders sent, by type, in the order in which the senders were declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args, get_origin

from typing_extensions import TypeVar

from ._types import Fit, type_name, value_type_name

T = TypeVar("T")
Merge = Callable[[Sequence[Any]], Any]


def as_mapping(value: Any) -> Mapping[Any, Any] | None:
    """Give a value as a mapping, or None if it is none."""
    return value if isinstance(value, Mapping) else None  # pyright: ignore[reportUnknownVariableType]


def class_of(value: Any) -> type[Any]:
    """Give a value's class."""
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    return kind


EACH_ITS_OWN = "give each an output_key= of its own, or the node a merge= function"


class MergeConflictError(ValueError):
    """Values do not merge; the scheduler adds where."""


class MergeRegistry:
    """Which types merge, and how; a process has a default one, :func:`register_merge` adds to it."""

    def __init__(self) -> None:
        self._functions: dict[type, Merge] = {}

    def register(self, kind: type[T], merge: Callable[[Sequence[T]], T]) -> None:
        """Say how values of a type merge.

        Args:
            kind: The type; subclasses count too, unless they have a function of their own.
            merge: Gets the values in the order in which their senders were declared.

        Raises:
            ValueError: If the type has a function already.
        """
        if kind in self._functions:
            raise ValueError(f"{kind.__name__} has a merge function already; a type is registered once")
        self._functions[kind] = merge

    def find(self, kind: type) -> Merge | None:
        """Give the function for a type, or for its nearest base class, or None."""
        for base in kind.__mro__:
            found = self._functions.get(base)
            if found is not None:
                return found
        return None


DEFAULT_MERGES = MergeRegistry()


def register_merge(kind: type[T], merge: Callable[[Sequence[T]], T]) -> None:
    """Say, for the whole process, how values of a type merge that several nodes send to one.

    Args:
        kind: The type; subclasses count too.
        merge: Gets the values in the order in which their senders were declared, and gives one.

    Raises:
        ValueError: If the type has a function already.

    Example:
        >>> class Votes(int): ...
        >>> register_merge(Votes, lambda votes: Votes(sum(votes)))
    """
    DEFAULT_MERGES.register(kind, merge)


def mergeable(form: Any) -> Fit:
    """Say whether values of a declared type always, never or maybe merge."""
    if form is Any:
        return Fit.MAY
    origin = get_origin(form) or form
    if isinstance(origin, type):
        return _class_merges(origin)  # pyright: ignore[reportUnknownArgumentType]
    if get_origin(form) is not None and get_args(form):
        found = {mergeable(a) for a in get_args(form) if isinstance(get_origin(a) or a, type)}
        return Fit.NEVER if found == {Fit.NEVER} else Fit.MAY
    return Fit.MAY


def _class_merges(kind: type[Any]) -> Fit:
    if kind is object:
        return Fit.MAY
    return Fit.ALWAYS if issubclass(kind, Mapping) or DEFAULT_MERGES.find(kind) is not None else Fit.NEVER


def merge_values(senders: Sequence[str], values: Sequence[Any]) -> Any:
    """Merge two or more values.

    Raises:
        MergeConflictError: If they do not merge: the same key from two senders, or types without a rule.
    """
    if all(as_mapping(v) is not None for v in values):
        return union(senders, values)
    first = values[0]
    function = DEFAULT_MERGES.find(class_of(first))
    if function is not None and all(DEFAULT_MERGES.find(class_of(v)) is function for v in values):
        return function(values)
    sent = ", ".join(f"{s!r} sent {value_type_name(v)}" for s, v in zip(senders, values, strict=True))
    raise MergeConflictError(
        f"{sent}; only dicts merge by themselves: give the senders an output_key=, or the node a merge= function"
    )


def union(senders: Sequence[str], values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join dicts that share no key."""
    merged: dict[str, Any] = {}
    owner: dict[str, str] = {}
    for sender, value in zip(senders, values, strict=True):
        for key, item in value.items():
            if key in owner:
                raise MergeConflictError(f"{owner[key]!r} and {sender!r} both sent the key {key!r}; {EACH_ITS_OWN}")
            owner[key] = sender
            merged[key] = item
    return merged


def unmergeable_text(key: str, senders: Sequence[tuple[str, Any]]) -> str:
    """Explain a fan-in that cannot work."""
    given = ", ".join(f"{sender!r} gives {type_name(form)}" for sender, form in senders)
    return (
        f"node {key!r} gets values from several nodes at once that do not merge: {given}; "
        "give the senders an output_key= so that they give dicts, or give the node a merge= function"
    )
