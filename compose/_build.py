"""Turn what a user hands to a builder (a function, a component, another graph) into records of :mod:`._spec`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from enum import Enum
from typing import Any, Literal, cast, get_args, get_origin

from ..schema import StreamReader
from ._body import Body, ShapeError, function_body, shape_of
from ._components import component_body
from ._keys import End, Start
from ._lambda import Lambda
from ._spec import BranchSpec, HandlerSpec
from ._types import resolve_hints


def body_of(what: Any, *, blocking: bool = False) -> Body:
    """Make a node's body of anything that can be a node.

    Raises:
        ShapeError: If it cannot be one; the text says why and what to do.
    """
    if isinstance(what, Lambda):
        return what.body()  # pyright: ignore[reportUnknownMemberType]
    spec = getattr(what, "_spec", None)
    if spec is not None and not isinstance(what, type):
        given = spec()
        return Body(given.input, given.output, given.kind, given.name or given.kind, target=what)
    as_node = getattr(what, "as_node", None)
    if as_node is not None and not isinstance(what, type):
        body: Body = as_node()
        return body
    component = component_body(what)
    if component is not None:
        return component
    if not callable(what):
        raise ShapeError(
            f"{type(what).__name__} is neither a function nor a component nor a graph; it cannot be a node"
        )
    return function_body(what, blocking=blocking)


def key_of(node: Any) -> str:
    """Give the key of a handle, of START or END, or of a key itself."""
    if isinstance(node, str):
        return node
    key = getattr(node, "key", None)
    if isinstance(key, str):
        return key
    raise TypeError(f"wanted a node's handle or key, START or END, got {type(node).__name__}: {node!r}")


def handler_spec(function: Callable[..., Any]) -> HandlerSpec:
    """Read a handler's types: ``(value, state) -> value``, or with a :class:`StreamReader` in place of the value.

    Raises:
        ShapeError: If it does not take two arguments, or an annotation cannot be resolved.
    """
    try:
        hints = resolve_hints(function)
    except (NameError, TypeError, AttributeError) as error:
        raise ShapeError(f"its annotations cannot be resolved ({error})") from error
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is not None:
        bound = 1 if hasattr(function, "__self__") else 0
        if code.co_argcount - bound != 2:
            count = code.co_argcount - bound
            raise ShapeError(f"it takes {count} arguments; a handler takes two: the value and the state")
        value, state = code.co_varnames[bound : bound + 2]
    else:
        value, state = "value", "state"
    value_type = hints.get(value, Any)
    streams = StreamReader in (get_origin(value_type), value_type)
    result = hints.get("return", Any)
    if streams:
        value_type = next(iter(get_args(value_type)), Any)
        result = next(iter(get_args(result)), Any)
    return HandlerSpec(function, value_type, result, hints.get(state, Any), streams)


def _body_of_lambda(what: Lambda[Any, Any]) -> Body:
    return what.body()


def branch_spec(
    source: str, condition: Callable[..., Any] | Lambda[Any, Any], ends: Any, *, data: bool, name: str | None
) -> BranchSpec:
    """Read a condition: what it takes, and where it may lead.

    Raises:
        ShapeError: If it says nowhere what its ends are, or is a Lambda that makes streams.
    """
    on_value: Callable[[Any], Any] | None = None
    if isinstance(condition, Lambda):
        body = _body_of_lambda(condition)  # pyright: ignore[reportUnknownArgumentType]
        if body.invoke is None and body.collect is None:
            raise ShapeError("a condition returns its choice; give the Lambda invoke=, collect= or both")
        label_of = body.collect or body.invoke
        on_value = None if body.collect is None else body.invoke
        name = name or body.name
        condition = cast("Callable[[Any], Any]", label_of)
    shape = shape_of(condition)
    if shape.paradigm in ("stream", "transform"):
        raise ShapeError("a condition returns its choice; it cannot stream")
    label = name or str(getattr(condition, "__name__", type(condition).__name__))
    declared, many = _declared_ends(shape.output)
    if ends is not None:
        declared = _given_ends(ends)
    if not declared:
        raise ShapeError(
            'its ends are unknown; annotate what it returns (-> Literal["a", "end"]) or give ends=["a", END]'
        )
    streams = shape.paradigm == "collect"
    return BranchSpec(source, label, condition, shape.input, streams, declared, many, data, on_value)


def _given_ends(ends: Any) -> dict[Any, str]:
    if isinstance(ends, Mapping):
        return {label: key_of(end) for label, end in ends.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(ends, (str, Start, End)) or not isinstance(ends, Iterable):
        return {key_of(ends): key_of(ends)}
    return {key_of(end): key_of(end) for end in ends}  # pyright: ignore[reportUnknownVariableType]


def _declared_ends(annotation: Any) -> tuple[dict[Any, str], bool]:
    """Read the ends from ``Literal[...]``, and from a list, set, tuple or sequence of it."""
    origin = get_origin(annotation)
    if origin is Literal:
        return {label: _as_key(label) for label in get_args(annotation)}, False
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return {label: _as_key(label) for label in annotation}, False
    if isinstance(origin, type) and (issubclass(origin, Iterable) or issubclass(origin, Set)):
        found: dict[Any, str] = {}
        for argument in get_args(annotation):
            found.update(_declared_ends(argument)[0])
        return found, True
    if isinstance(annotation, type) and issubclass(annotation, (list, set, frozenset, tuple)):
        return {}, True
    merged: dict[Any, str] = {}
    for argument in get_args(annotation):  # a union of literals
        merged.update(_declared_ends(argument)[0])
    return merged, False


def _as_key(label: Any) -> str:
    if isinstance(label, Enum):
        label = label.value
    return label if isinstance(label, str) else repr(label)
