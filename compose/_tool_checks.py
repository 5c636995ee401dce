"""Whether what a tools node is made of can be that, told when it is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..schema import Tool, ToolDefinitionError

if TYPE_CHECKING:
    from ._tool_call import AnyMiddleware


def listed_tools(tools: object) -> tuple[Tool, ...]:
    """Give the tools that are listed.

    Raises:
        ToolDefinitionError: It is no list.
    """
    if hasattr(tools, "info") or isinstance(tools, str) or not isinstance(tools, Iterable):
        raise ToolDefinitionError(f"tools is a list of tools, and this is none: {tools!r}; write tools=[…]")
    return tuple(cast("Iterable[Tool]", tools))


def listed_middlewares(middlewares: Any) -> Sequence[AnyMiddleware]:
    """Give the middlewares that are listed.

    Raises:
        ToolDefinitionError: It is no list, or something in it cannot be a middleware.
    """
    if not hasattr(middlewares, "__iter__"):
        raise ToolDefinitionError(
            f"middlewares is a list of middlewares, and this is none: {middlewares!r}; write middlewares=[…]"
        )
    given: tuple[Any, ...] = tuple(middlewares)
    for place, one in enumerate(given):
        problem = _problem(one)
        if problem:
            raise ToolDefinitionError(f"middlewares[{place}] is {one!r}: {problem}")
    return given


def _problem(one: Any) -> str:
    if isinstance(one, type):
        return f"a class is no middleware; give an instance: {one.__name__}(…)"
    handles = callable(getattr(one, "handle_arguments", None))
    if not callable(one):
        return "" if handles else "it cannot be called with (call, next), and has no handle_arguments(name, text)"
    name = getattr(one, "__name__", type(one).__name__)
    if _makes_one(one):
        return f"it makes a middleware and is none; call it: {name}(…)"
    return "" if _takes_two(one) else "it does not take (call, next)"


def _makes_one(one: Any) -> bool:
    """Tell whether a function says that it returns a middleware."""
    returns = getattr(one, "__annotations__", {}).get("return")
    name = returns if isinstance(returns, str) else getattr(returns, "__name__", "")
    return name.rpartition(".")[2] in ("Middleware", "ArgumentMiddleware", "AnyMiddleware")


def _takes_two(one: Any) -> bool:
    import inspect

    try:
        signature = inspect.signature(one)
    except (TypeError, ValueError):  # it cannot be told
        return True
    try:
        signature.bind(None, None)
    except TypeError:
        return False
    return True
