"""Tools made of functions: what a model is told about them, and how a model's call runs them.

The protocol :class:`Tool` asks for ``info`` and ``run`` only. :func:`tool` gives both to a function: name and
description from its docstring, the JSON schema of its parameters from its annotations, and arguments that are
validated before it runs.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import FrameType, MethodType
from typing import Any, Concatenate, Generic, Literal, NamedTuple, Self, get_args, get_origin, overload

from typing_extensions import ParamSpec, TypedDict, TypeVar, Unpack

from ._docstring import Docstring, parse_docstring
from ._frozen import EMPTY, JsonObject
from ._tool_arguments import Arguments
from ._tool_info import ToolInfo
from ._tool_result import ToolOutput, ToolResult, tool_text
from ._tool_run import make_runner
from ._tool_signature import Parameter, ToolFunction, is_object_type, read_function
from .errors import ToolDefinitionError

__all__ = ("FunctionTool", "Risk", "ToolInfo", "ToolOutput", "ToolResult", "tool", "tool_text")

P = ParamSpec("P")
ParametersT = ParamSpec("ParametersT", default=...)
T = TypeVar("T")
ResultT_co = TypeVar("ResultT_co", covariant=True, default=Any)

Risk = Literal["safe", "sensitive", "destructive"]
"""What a call may do: look only; show what is private or cost something; do what cannot be undone."""

# What all providers accept as a name.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolOptions(TypedDict, total=False):
    """What :func:`tool` takes beside the function."""

    name: str
    description: str
    risk: Risk
    parallel: bool
    timeout: float | None
    retries: int
    strict: bool
    in_thread: bool
    extra: JsonObject


class _Options(NamedTuple):
    name: str = ""
    description: str = ""
    risk: Risk = "safe"
    parallel: bool = True
    timeout: float | None = None
    retries: int = 0
    strict: bool = False
    in_thread: bool | None = None
    extra: JsonObject = EMPTY


class FunctionTool(Generic[ParametersT, ResultT_co]):
    """A function as a tool; :func:`tool` makes it.

    Calling it calls the function, as if it were no tool. :meth:`run` is what a model's call does.
    """

    info: ToolInfo
    """What the model is told."""
    risk: Risk
    """What a call may do."""
    parallel: bool
    """Whether a call may run beside others."""
    timeout: float | None
    """After how many seconds the node that runs it gives up; :meth:`run` itself does not."""
    retries: int
    """How often the node that runs it tries again after an exception; :meth:`run` itself does not."""
    streaming: bool
    """Whether :meth:`run` gives an async iterator of chunks."""

    __name__: str
    __wrapped__: Callable[ParametersT, ResultT_co]

    def __init__(self, function: Callable[ParametersT, ResultT_co], options: _Options, frame: FrameType | None) -> None:
        name = _name_of(function, options.name)
        _check(function, name, options)
        if isinstance(function, type):
            read = ToolFunction((Parameter("value", function, inspect.Parameter.empty),), False, None)
            documented = Docstring("", {})
            self._call: Callable[..., Any] = _value
        else:
            read = read_function(function, name, lambda: frame.f_locals if frame else {})
            documented = parse_docstring(_doc_of(function))
            self._call = function
        self._function, self._needs_self = function, read.needs_self
        self._arguments = Arguments(name, read.parameters, documented.parameters)
        self._streams = _is_stream_type(read.returns)
        self._describe(name, documented.description or self._arguments.description, options)
        wrapped: Callable[..., Any] = function
        functools.update_wrapper(self, wrapped, updated=())

    def _describe(self, name: str, description: str, options: _Options) -> None:
        """Take over options, and find out how the function runs with them."""
        self.info = ToolInfo(
            name=name,
            description=inspect.cleandoc(options.description or description),
            parameters=self._arguments.schema,
            strict=options.strict,
            extra=options.extra,
        )
        if options.strict:
            self.info.strict_parameters()  # raises where it cannot be
        self.risk, self.parallel = options.risk, options.parallel
        self.timeout, self.retries = options.timeout, options.retries
        self._options = options
        self._start()
        if self._runner.is_async and options.in_thread:
            raise ToolDefinitionError(f"tool {name!r} is async and runs in place; leave in_thread out")
        self.streaming = self._runner.is_generator or self._streams

    def _start(self) -> None:
        in_thread = self._options.in_thread is not False and self._call is not _value
        self._runner = make_runner(self._call, in_thread=in_thread, abandon=self.timeout is not None)
        self._run = self._runner.run

    def with_options(self, **options: Unpack[ToolOptions]) -> Self:
        """Give the same tool under other options, such as another name or a time limit.

        Args:
            **options: Those of :func:`tool`; what is not given stays as it is.

        Raises:
            ToolDefinitionError: An option makes no sense for this tool.
        """
        merged: dict[str, Any] = {**self._options._asdict(), **options}
        chosen = _Options(**merged)
        name = chosen.name or self.info.name
        _check(self._function, name, chosen)
        made = self._copy()
        made._arguments = self._arguments.of_tool(name)
        made._describe(name, self.info.description, chosen)
        return made

    def _copy(self) -> Self:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def validate(self, arguments: Mapping[str, Any] | str | bytes | None = None) -> dict[str, Any]:
        """Turn the arguments of a call into the values that the function gets.

        Args:
            arguments: A JSON text as a model writes it, or a mapping. Nothing, ``""`` and ``null`` stand for no
                arguments.

        Returns:
            The values by parameter, defaults included. :meth:`run` takes them as they are.

        Raises:
            ToolArgumentsError: The arguments do not fit. The text is for the model: each problem in a line, with
                the argument, what is wrong with it and what is allowed.
        """
        return self._arguments.validate(arguments)

    async def run(self, arguments: Mapping[str, Any] | str | bytes | None = None, /) -> Any:
        """Validate the arguments, and run the function with them.

        Args:
            arguments: As :meth:`validate` takes them, or what it gave.

        Returns:
            What the function returned; an async iterator of chunks if the tool is :attr:`streaming`, and then
            errors of the function come out of that.

        Raises:
            ToolArgumentsError: The arguments do not fit; the function has not run.
        """
        if self._needs_self:
            raise ToolDefinitionError(f"tool {self.info.name!r} is a method; run it on an instance of its class")
        return await self._run(**self._arguments.validate(arguments))

    def __call__(self, *args: ParametersT.args, **kwargs: ParametersT.kwargs) -> ResultT_co:
        """Call the function itself, without validation."""
        return self._function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: FunctionTool[Concatenate[Any, P], T], instance: object, owner: type | None = None
    ) -> FunctionTool[P, T]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind the tool of a method to its instance, as functions do."""
        if instance is None or not self._needs_self:
            return self
        bound = self._copy()
        bound._function = bound._call = MethodType(self._function, instance)
        bound._needs_self = False
        bound._start()
        return bound

    def __repr__(self) -> str:
        return f"<tool {self.info.name!r}>"


@overload
def tool(function: Callable[P, T], /, **options: Unpack[ToolOptions]) -> FunctionTool[P, T]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, T]], FunctionTool[P, T]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Make a tool of a function, as a decorator or by a call.

    Name and description are those of the function and its docstring (Google, NumPy, reST or Epytext style), the
    JSON schema is made from the annotations: a parameter without a default is required. Texts for parameters come
    from the docstring, from ``Annotated[int, "how many"]`` or from ``Annotated[int, Field(description=...)]``.

    A function with one parameter that is a pydantic model, a dataclass or a ``TypedDict`` takes the arguments as
    that object: the model sees its fields. A class of that sort is a tool too, and gives what it makes of the
    arguments. Bound methods, partials (what is bound by name is hidden from the model) and objects with
    ``__call__`` are functions. A method that is decorated in its class is bound by its instance.

    ``async def`` functions run in place, ``def`` functions in a worker thread that sees the caller's context
    variables. Generators, async or not, and functions that return an iterator stream their results.

    Args:
        function: What to make a tool of.
        name: By what the model calls it; the function's name by default.
        description: What it does; the docstring by default.
        risk: What a call may do; ``confirm_risky`` asks a person before calls that are not safe.
        parallel: Whether a call may run beside others of the same message.
        timeout: After how many seconds to give up. The thread of a ``def`` function is then left to itself, since
            nothing can stop it.
        retries: How often to try again after an exception.
        strict: Whether providers that can hold a model to the schema should do so.
        in_thread: ``False`` runs a ``def`` function in place: for one that computes a little and never waits, as
            a thread costs some 50 µs.
        extra: What else to keep in :attr:`ToolInfo.extra`.

    Returns:
        The tool, or a decorator that makes one.

    Raises:
        ToolDefinitionError: The function cannot be a tool; the text names the parameter and what to do.

    Example:
        >>> @tool
        ... def add(a: int, b: int = 1) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> add.info.description, add.info.parameters["required"]
        ('Add two numbers.', ['a'])
        >>> add.validate('{"a": 2}')
        {'a': 2, 'b': 1}
        >>> add(2, 3)
        5
    """
    chosen = _Options(**options)
    if function is not None:
        return FunctionTool(function, chosen, _caller())

    def decorate(decorated: Callable[..., Any]) -> FunctionTool[..., Any]:
        return FunctionTool(decorated, chosen, _caller())

    return decorate


def _caller() -> FrameType | None:
    """Find the place where a tool is made: two calls up from here."""
    frame = inspect.currentframe()
    maker = frame and frame.f_back
    return maker and maker.f_back


def _name_of(function: Callable[..., Any], given: str) -> str:
    if given:
        return given
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _doc_of(function: Callable[..., Any]) -> str | None:
    """Find the docstring of a function, or of what stands for one."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return function.__doc__
    return type(function).__call__.__doc__ or type(function).__doc__


def _check(function: Callable[..., Any], name: str, options: _Options) -> None:
    """Refuse what cannot be a tool whatever its parameters are."""
    problem = None
    if isinstance(function, FunctionTool):
        problem = "it is a tool already; use that one, or make a new one of its function"
    elif isinstance(function, classmethod):
        problem = "a class method is bound by its class; call tool(TheClass.method) below the class"
    elif not callable(function):
        problem = f"a {type(function).__name__} cannot be called"
    elif isinstance(function, type) and not is_object_type(function):
        problem = "the class is no model, dataclass or TypedDict; make the tool of a function or of an instance"
    elif not _NAME.fullmatch(name):
        problem = "the name is not 1 to 64 of the characters a-z, A-Z, 0-9, _ and -; give it one with name="
    elif options.risk not in get_args(Risk):
        problem = f"risk is one of {', '.join(get_args(Risk))}, not {options.risk!r}"
    elif options.retries < 0:
        problem = f"retries is a count, not {options.retries}"
    elif options.timeout is not None and options.timeout <= 0:
        problem = f"timeout is in seconds and more than 0, or None, not {options.timeout}"
    if problem is not None:
        raise ToolDefinitionError(f"tool {name!r} cannot be made: {problem}")


def _is_stream_type(returns: Any) -> bool:
    kind = get_origin(returns) or returns
    return isinstance(kind, type) and issubclass(kind, (AsyncIterator, Iterator))


def _value(value: Any) -> Any:
    return value
