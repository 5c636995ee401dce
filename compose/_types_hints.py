"""The types that a function declares, whatever stands between it and its annotations.

With ``from __future__ import annotations`` an annotation is a text, and the names in it may be those of the function
around the annotated one, of a class, or of nowhere at run time. The search goes, in this order: type parameters,
closure, the class of a method, the functions around it as long as they still run, module, builtins. What cannot be
found is an error that names the parameter: a guess (``Any``) would switch the type checks off without a word.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ForwardRef, Literal, cast, get_args, get_origin

import typing_extensions as te

from ..schema.errors import AnabranchError
from ._types_classes import parameters, view
from ._types_forms import SELF, Form, Kind, bindings, evaluate, shape, substitute
from ._types_names import type_name

__all__ = ("AnnotationError", "resolve_hints")

_DEEPEST = 100


class AnnotationError(AnabranchError, NameError):
    """An annotation names something that does not exist when the graph is built."""

    def __init__(self, function: str, parameter: str, annotation: str, reason: str) -> None:
        where = "what it returns" if parameter == "return" else f"its parameter {parameter!r}"
        super().__init__(
            f"function {function!r}: the annotation {annotation!r} of {where} cannot be resolved: {reason}; "
            "import the name at run time (not only under TYPE_CHECKING), define it at module level, "
            "or give the type when adding the node (input=, output=)"
        )
        self.function = function
        self.parameter = parameter
        self.annotation = annotation
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.function, self.parameter, self.annotation, self.reason)


def resolve_hints(function: Any) -> dict[str, Form]:
    """Resolve the annotations of anything that can be called.

    Sees through decorators that keep ``__wrapped__``, partials, bound methods and objects with ``__call__``; the
    type variables and ``Self`` of a method are replaced by what its object's class says they are. A class gives
    the annotations of its ``__init__`` and returns itself.

    Args:
        function: What is called.

    Returns:
        Parameter name to type, and ``"return"``; only what is annotated, ``Annotated`` kept.

    Raises:
        AnnotationError: If a name in an annotation cannot be found.
    """
    inner, receiver = _unwrap(function)
    if isinstance(inner, type):
        return _class_hints(inner)
    origin = get_origin(inner)
    if isinstance(origin, type):  # a generic class with its arguments
        bound = bindings(parameters(origin), get_args(inner))
        hints = {name: substitute(form, bound) for name, form in _class_hints(origin).items()}
        return {**hints, "return": inner}
    if receiver is None:
        return _function_hints(inner, None)
    owner = receiver if isinstance(receiver, type) else type(receiver)
    bound = _arguments(inner, receiver, owner)
    return {
        name: owner if form is SELF else substitute(form, bound) for name, form in _function_hints(inner, owner).items()
    }


def _unwrap(function: Any) -> tuple[Any, Any]:
    """The function that has the annotations, and the object or class that it is bound to, if any."""
    receiver: Any = None
    for _ in range(_DEEPEST):  # a partial of a method of an object of a wrapped function …
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType):
            receiver, function = function.__self__, function.__func__
        elif isinstance(function, type) or isinstance(get_origin(function), type):
            break
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif isinstance(function, types.FunctionType):
            break
        else:
            call = inspect.getattr_static(cast("Any", type(function)), "__call__", None)
            call = getattr(call, "__func__", call)  # of a static method
            if not isinstance(call, types.FunctionType):
                break
            receiver, function = function, call
    return function, receiver


def _arguments(function: Any, receiver: Any, owner: type) -> dict[Any, Form]:
    """What the type variables of the class that defines a method stand for, as far as its object's class says."""
    layer = shape(getattr(receiver, "__orig_class__", owner))
    if layer.kind is not Kind.CLASS:
        return {}
    for base in layer.origin.__mro__:
        found = base.__dict__.get(function.__name__)
        if found is function or getattr(found, "__func__", None) is function:
            return dict(zip(parameters(base), view(layer.origin, layer.args, base) or (), strict=False))
    return {}


def _class_hints(cls: type) -> dict[str, Form]:
    fields: Mapping[str, Any] | None = getattr(cls, "__pydantic_fields__", None)
    if fields is not None:
        hints: dict[str, Form] = {name: field.annotation for name, field in fields.items()}
    else:
        init = inspect.getattr_static(cls, "__init__", None)
        hints = _function_hints(init, cls) if isinstance(init, types.FunctionType) else {}
    return {**hints, "return": cls}


def _function_hints(function: Any, owner: type | None) -> dict[str, Form]:
    cls: type = function.__class__
    if not isinstance(function, types.FunctionType) and hasattr(cls, "__annotations__"):
        return {}  # an object whose __call__ says nothing; what it shows are the annotations of its class
    try:
        written = te.get_annotations(function, format=te.Format.FORWARDREF)
    except TypeError:  # nothing that has annotations, such as a function of C
        return {}
    names: dict[str, Any] | None = None
    hints: dict[str, Form] = {}
    for parameter, annotation in written.items():
        if annotation is None or not _is_quoted(annotation):
            hints[parameter] = types.NoneType if annotation is None else annotation
            continue
        if names is None:
            names = _names_around(function, owner)
        try:
            hints[parameter] = _resolve(annotation, function, owner, names)
        except Exception as error:  # any code can stand in an annotation
            name = getattr(function, "__qualname__", repr(function))
            text = annotation if isinstance(annotation, str) else type_name(annotation)
            raise AnnotationError(name, parameter, text, str(error) or type(error).__name__) from error
    return hints


def _is_quoted(form: Form) -> bool:
    """Whether a form is, or has within it, a text that stands for a type."""
    if isinstance(form, str | ForwardRef):
        return True
    if form.__class__ is list:  # parameters of a callable
        return any(map(_is_quoted, form))
    origin: Any = get_origin(form)
    if origin is None or origin is Literal:
        return False
    args = get_args(form)
    return any(map(_is_quoted, args[:1] if origin is Annotated else args))


def _resolve(annotation: Form, function: Any, owner: type | None, names: dict[str, Any]) -> Form:
    scope: dict[str, Any] = getattr(function, "__globals__", {})
    if isinstance(annotation, str):  # most are the plain name of a class
        for known in (names, scope, vars(builtins)):
            if annotation in known:
                found: object = known[annotation]
                if isinstance(found, type):
                    return found
                break
    try:
        return evaluate(annotation, scope, names)
    except NameError:
        if owner is None:
            raise
    inside = {name: value for base in reversed(owner.__mro__) for name, value in base.__dict__.items()}
    return evaluate(annotation, scope, {**inside, **names})


def _names_around(function: Any, owner: type | None) -> dict[str, Any]:
    """The names that an annotation can use besides those of the module: outermost function to type parameters."""
    names: dict[str, Any] = {}
    if not isinstance(function, types.FunctionType):
        return names
    for scope in reversed(list(_running_around(function))):
        names.update(scope)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # not yet assigned
            names[name] = cell.cell_contents
    for generic in (*(reversed(owner.__mro__) if owner else ()), function):
        names.update({variable.__name__: variable for variable in getattr(generic, "__type_params__", ())})
    return names


def _running_around(function: Any) -> Iterator[dict[str, Any]]:
    """The local names of the functions that a nested function was made in, innermost first, while they run."""
    around = function.__qualname__.split(".<locals>.")[:-1]
    wanted = {".<locals>.".join(around[: count + 1]) for count in range(len(around))}
    frame = inspect.currentframe() if wanted else None
    while frame is not None and wanted:
        if frame.f_globals is function.__globals__ and frame.f_code.co_qualname in wanted:
            wanted.discard(frame.f_code.co_qualname)
            yield dict(frame.f_locals)
        frame = frame.f_back
