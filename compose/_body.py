"""What a node does, apart from any graph: up to four callables, one for each paradigm, and their types.

A function's *shape* decides which paradigm it is: a :class:`~anabranch.schema.StreamReader` parameter takes a stream
in, an async generator (or a return annotation of ``AsyncIterator`` or ``StreamReader``) gives a stream out.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from types import FunctionType
from typing import Any, Literal, get_args, get_origin
from weakref import WeakKeyDictionary

from ..schema import StreamReader
from ._types import resolve_hints

Paradigm = Literal["invoke", "stream", "collect", "transform"]
PARADIGMS: tuple[Paradigm, ...] = ("invoke", "stream", "collect", "transform")

_STREAMS_IN = (StreamReader, AsyncIterator, AsyncIterable, AsyncGenerator)
_STREAMS_OUT = (StreamReader, AsyncIterator, AsyncIterable, AsyncGenerator)
_SYNC_GENERATORS = (Iterator, Iterable, Generator)


class ShapeError(TypeError):
    """A callable cannot be a node; the compiler turns this into a problem of the graph."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The paradigm and the types of one function."""

    paradigm: Paradigm
    input: Any
    output: Any
    takes_input: bool = True
    takes_options: Any = None


@dataclass(frozen=True, slots=True)
class Body:
    """The callables of a node, each taking one value or reader; those that are None are adapted by the engine."""

    input: Any
    output: Any
    component: str
    name: str
    invoke: Callable[[Any], Any] | None = None
    stream: Callable[[Any], Any] | None = None
    collect: Callable[[Any], Any] | None = None
    transform: Callable[[Any], Any] | None = None
    bind: Callable[[Any], Body] | None = None
    """Makes this body again with the given options in force; None where it takes none."""
    options: Any = None
    """The type of the options that :attr:`bind` takes."""
    blocking: bool = False
    nested: Any = None
    """The compiled graph, where the node is one."""
    inside: Any = None
    """The compiled graph that the body runs by itself, if there is one: that of each item of a Map."""
    builder: Any = None
    """The builder of that graph, as long as it is not compiled."""
    around: Callable[[Any], Body] | None = None
    """Makes this body again around the compiled graph."""
    target: Any = None
    """The user's object, for introspection and drawing."""

    @property
    def to_compile(self) -> Any:
        """The builder of a graph that has to be compiled before this body can run, or None."""
        if self.builder is not None:
            return self.builder
        return self.target if self.nested is None and hasattr(self.target, "_spec") else None

    def with_compiled(self, plan: Any) -> Body:
        """Give this body with what :attr:`to_compile` gave, compiled."""
        return replace(self, nested=plan) if self.around is None else self.around(plan)


def with_paradigm(body: Body, paradigm: Paradigm, call: Callable[[Any], Any]) -> Body:
    """Give a body one more callable."""
    match paradigm:
        case "invoke":
            return replace(body, invoke=call)
        case "stream":
            return replace(body, stream=call)
        case "collect":
            return replace(body, collect=call)
        case "transform":
            return replace(body, transform=call)


def is_async_callable(function: Any) -> bool:
    """Tell whether calling gives a coroutine, as far as can be known without calling."""
    while isinstance(function, partial):
        function = function.func  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if inspect.iscoroutinefunction(function):  # pyright: ignore[reportUnknownArgumentType]
        return True
    call: Any = getattr(type(function), "__call__", None)  # noqa: B004  # pyright: ignore[reportUnknownArgumentType]
    return not isinstance(function, FunctionType) and inspect.iscoroutinefunction(call)


_shapes: WeakKeyDictionary[FunctionType, Shape] = WeakKeyDictionary()


def shape_of(function: Any) -> Shape:
    """Read a callable's paradigm and types from its signature.

    Raises:
        ShapeError: If it cannot be called with one argument, or an annotation cannot be resolved.
    """
    if isinstance(function, FunctionType):
        known = _shapes.get(function)
        if known is None:
            known = _shapes[function] = _read_shape(function)
        return known
    return _read_shape(function)


def _read_shape(function: Any) -> Shape:
    if not callable(function):
        raise ShapeError(f"{function!r} is neither a function nor a component; it cannot be a node")
    hints = _hints(function)
    first, second = _parameters(function)
    input_type = hints.get(first, Any) if first else Any
    output_type = hints.get("return", Any)
    streams_in = get_origin(input_type) in _STREAMS_IN or input_type in _STREAMS_IN
    streams_out, output_type = _output(function, output_type)
    if streams_in:
        input_type = next(iter(get_args(input_type)), Any)
    paradigm = PARADIGMS[2 * streams_in + streams_out]
    return Shape(paradigm, input_type, output_type, first is not None, hints.get(second) if second else None)


def _hints(function: Any) -> dict[str, Any]:
    annotations: dict[str, Any] | None = getattr(function, "__annotations__", None)
    if isinstance(function, FunctionType) and annotations is not None and not _has_strings(annotations):
        return {k: type(None) if v is None else v for k, v in annotations.items()}
    try:
        return resolve_hints(function)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise ShapeError(f"its annotations cannot be resolved ({error}); give input= and output=") from error


def _has_strings(annotations: dict[str, Any]) -> bool:
    return any(isinstance(v, str) or not isinstance(v, type) for v in annotations.values())


def _parameters(function: Any) -> tuple[str | None, str | None]:
    """Name the parameter that takes the input (None: it takes none) and a second one called ``options``."""
    if isinstance(function, FunctionType):
        code = function.__code__
        plain = not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) and not code.co_kwonlyargcount
        if plain and code.co_argcount == 1:
            return code.co_varnames[0], None
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return "input", None  # a builtin that tells nothing of itself: str.upper and the like take one argument
    positional = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keyword_only = [p.name for p in signature.parameters.values() if p.kind == p.KEYWORD_ONLY and p.default is p.empty]
    if keyword_only:
        raise ShapeError(f"it needs the keyword argument {keyword_only[0]!r}; a node is called with its input alone")
    options = next((p.name for p in positional[1:2] if p.name == "options"), None)
    needed = [p.name for p in positional[1:] if p.default is p.empty and p.name != options]
    if needed:
        raise ShapeError(
            f"it needs {len(needed) + 1} arguments ({positional[0].name!r}, {', '.join(map(repr, needed))}); "
            "a node is called with its input alone: take a dict or a model, or bind the others with functools.partial"
        )
    if positional:
        return positional[0].name, options
    variadic = any(p.kind == p.VAR_POSITIONAL for p in signature.parameters.values())
    return ("input" if variadic else None), None


def _output(function: Any, annotation: Any) -> tuple[bool, Any]:
    while isinstance(function, partial):
        function = function.func  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    call = function if inspect.isroutine(function) else getattr(type(function), "__call__", function)  # noqa: B004  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    origin = get_origin(annotation) or annotation
    generates = inspect.isasyncgenfunction(call) or inspect.isgeneratorfunction(call)
    if origin in _STREAMS_OUT or (generates and origin in _SYNC_GENERATORS):
        return True, next(iter(get_args(annotation)), Any)
    if generates:
        return True, Any
    if getattr(origin, "__name__", "") in ("Awaitable", "Coroutine") and not inspect.iscoroutinefunction(call):
        return _awaited(annotation)
    return False, annotation


def _awaited(annotation: Any) -> tuple[bool, Any]:
    inner = get_args(annotation)[-1] if get_args(annotation) else Any
    if (get_origin(inner) or inner) in _STREAMS_OUT:
        return True, next(iter(get_args(inner)), Any)
    return False, inner


def _call_name(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return str(getattr(function, "__name__", type(function).__name__))  # pyright: ignore[reportUnknownArgumentType]


def function_body(function: Any, *, blocking: bool = False) -> Body:
    """Make the body of a node from one callable.

    Raises:
        ShapeError: If the callable cannot be a node.
    """
    shape = shape_of(function)
    call = function if shape.takes_input else _ignoring_input(function)
    body = Body(
        input=shape.input,
        output=shape.output,
        component="function",
        name=_call_name(function),
        invoke=call if shape.paradigm == "invoke" else None,
        stream=call if shape.paradigm == "stream" else None,
        collect=call if shape.paradigm == "collect" else None,
        transform=call if shape.paradigm == "transform" else None,
        blocking=blocking,
        target=function,
    )
    if shape.takes_options is None:
        return body

    def bind(options: Any) -> Body:
        return with_paradigm(body, shape.paradigm, lambda value: function(value, options))

    return replace(body, options=shape.takes_options, bind=bind)


def _ignoring_input(function: Callable[[], Any]) -> Callable[[Any], Any]:
    if is_async_callable(function):

        async def call_async(_: Any) -> Any:
            return await function()

        return call_async
    return lambda _: function()
