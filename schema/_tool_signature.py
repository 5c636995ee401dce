"""The parameters of a function, read from its signature, or an error that names each that cannot be used."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, cast

import typing_extensions
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from .errors import ToolDefinitionError

__all__ = ("Parameter", "ToolFunction", "is_object_type", "read_function")

_Kind = inspect.Parameter
Namespace = Callable[[], Mapping[str, Any]]
"""Gives the names of the place where a tool is made, for annotations that the module cannot explain."""


class Parameter(NamedTuple):
    """One parameter that a model may fill in."""

    name: str
    annotation: Any
    default: Any
    """``inspect.Parameter.empty`` where there is none."""

    @property
    def is_required(self) -> bool:
        """Whether the parameter has no default; one that is a ``Field`` without a default counts as none."""
        if isinstance(self.default, FieldInfo):
            return self.default.is_required()
        return self.default is _Kind.empty


class ToolFunction(NamedTuple):
    """What is known of a function that becomes a tool."""

    parameters: tuple[Parameter, ...]
    needs_self: bool
    """Whether it is a method that still has to be bound to an instance."""
    returns: Any
    """The return annotation; ``None`` where there is none or its names are unknown."""


def is_object_type(annotation: Any) -> bool:
    """Tell whether a type is a JSON object with named fields: a model, a dataclass, a ``TypedDict``."""
    if typing.get_origin(annotation) is Annotated:
        annotation = annotation.__origin__
    origin: Any = typing.get_origin(annotation) or annotation
    if not isinstance(origin, type):
        return False
    origin = cast("type[Any]", origin)
    if issubclass(origin, BaseModel):
        return not origin.__pydantic_root_model__
    return dataclasses.is_dataclass(origin) or typing_extensions.is_typeddict(origin)


def read_function(function: Callable[..., Any], name: str, namespace: Namespace) -> ToolFunction:
    """Read a function's parameters.

    Args:
        function: A function, a bound method, a partial, or an object with ``__call__``.
        name: The tool's name, for the error.
        namespace: Where to look for names that the function's module does not have.

    Raises:
        ToolDefinitionError: Parameters that a model could not fill in; the text names each and what to do.
    """
    try:
        signature = _signature(function)
    except (TypeError, ValueError) as error:
        message = f"tool {name!r}: its signature cannot be read: {error}; wrap it in a function of your own"
        raise ToolDefinitionError(message) from error
    listed = list(signature.parameters.values())
    needs_self = bool(listed) and _is_self(listed[0])
    bound = _bound_keywords(function)
    problems: list[str] = []
    parameters: list[Parameter] = []
    resolve = functools.partial(_resolved, _globals(function), namespace)
    for parameter in listed[needs_self:]:
        if parameter.name in bound:
            continue
        problem = _problem(parameter)
        if problem is None:
            try:
                annotation = resolve(parameter.annotation)
            except _NOT_EVALUATED as error:
                problem = f"its annotation {parameter.annotation!r} cannot be evaluated: {error}; {_AT_RUN_TIME}"
            else:
                parameters.append(Parameter(parameter.name, annotation, parameter.default))
        if problem is not None:
            problems.append(f"parameter {parameter.name!r}: {problem}")
    if problems:
        raise ToolDefinitionError(_joined(f"tool {name!r} cannot be made of {_place(function)}", problems))
    try:
        returns = resolve(signature.return_annotation)
    except _NOT_EVALUATED:  # all it would tell is whether the tool streams
        returns = None
    return ToolFunction(tuple(parameters), needs_self, returns)


_NOT_EVALUATED = (NameError, AttributeError, LookupError, SyntaxError, TypeError, ValueError)
_AT_RUN_TIME = "import the name at run time too, not only under TYPE_CHECKING"


def _problem(parameter: inspect.Parameter) -> str | None:
    if parameter.kind is _Kind.VAR_KEYWORD:
        return "'**' takes any name, and a model has to know which there are; name each parameter"
    if parameter.kind is _Kind.VAR_POSITIONAL:
        return "'*' takes arguments by position, and a model gives them by name; take a list"
    if parameter.kind is _Kind.POSITIONAL_ONLY:
        return "it can be given by position only, and a model gives arguments by name; remove the '/'"
    if parameter.annotation is _Kind.empty and not isinstance(parameter.default, FieldInfo):
        guess = "str" if parameter.default in (None, _Kind.empty) else type(parameter.default).__name__
        example = f"{parameter.name}: {guess}"
        return f"it has no annotation, and a model has to know its type; write for example '{example}'"
    return None


def _joined(head: str, problems: list[str]) -> str:
    return f"{head}: {problems[0]}" if len(problems) == 1 else "\n- ".join([f"{head}:", *problems])


def _place(function: Callable[..., Any]) -> str:
    inner = inspect.unwrap(_called(function))
    code = getattr(inner, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if isinstance(code, types.CodeType) else ""
    return f"{getattr(inner, '__qualname__', repr(inner))}{where}"


def _is_self(parameter: inspect.Parameter) -> bool:
    return parameter.name in ("self", "cls") and parameter.annotation is _Kind.empty


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def _called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Find the function behind partials, methods and objects that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not isinstance(function, type):
        function = type(function).__call__
    return getattr(function, "__func__", function)


def _bound_keywords(function: Callable[..., Any]) -> set[str]:
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound |= function.keywords.keys()
        function = function.func
    return bound


def _globals(function: Callable[..., Any]) -> dict[str, Any]:
    return getattr(inspect.unwrap(_called(function)), "__globals__", {})


def _resolved(module: dict[str, Any], namespace: Namespace, annotation: Any) -> Any:
    """Evaluate an annotation that is a text, or has texts inside."""
    if annotation is _Kind.empty:
        return Any
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing_extensions.get_type_hints(holder, module, {}, include_extras=True)["it"]
    except NameError:
        return typing_extensions.get_type_hints(holder, module, dict(namespace()), include_extras=True)["it"]
