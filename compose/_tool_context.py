"""Where a tool finds itself: which call it answers, and for whom the run is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from ._context import current_frame

if TYPE_CHECKING:
    from ..schema import Risk

T = TypeVar("T")


class CurrentCall:
    """The tool call that the code which asks is part of; :func:`current_tool_call` gives it."""

    __slots__ = ("arguments", "before_next", "id", "name", "position", "risk", "tool")

    def __init__(self, id: str, name: str, tool: str, position: int, risk: Risk = "safe") -> None:
        self.id: str = id
        """The id of the call."""
        self.name: str = name
        """The tool's name as the model called it, which may be an alias."""
        self.tool: str = tool
        """The tool's own name."""
        self.position: int = position
        """The place of the call in its message, from 0."""
        self.risk: Risk = risk
        """What the call may do, as the tool says."""
        self.arguments: Mapping[str, Any] | None = None
        """The validated arguments; None before they are, and where there is no such tool."""
        self.before_next: list[Callable[[], None]] | None = None
        """What to do if the tool is tried again: take back what the attempt did to the run."""

    def begin_again(self) -> None:
        """Take back what the attempt that failed did to the run."""
        undo, self.before_next = self.before_next or (), None
        for take_back in undo:
            take_back()

    def __repr__(self) -> str:
        return f"<call {self.id!r} of {self.name!r}>"


_call: ContextVar[CurrentCall | None] = ContextVar("anabranch_tool_call", default=None)

enter_call = _call.set
"""Note which call the code in this context is part of."""


def current_tool_call() -> CurrentCall:
    """Tell which tool call the code that asks is part of: a tool, what it calls, or a middleware.

    Returns:
        The call's id, name, place and validated arguments.

    Raises:
        RuntimeError: If it is called outside of a tool call.

    Example:
        >>> from anabranch.compose import ToolsNode
        >>> from anabranch.schema import Message, ToolCall, tool
        >>> @tool
        ... async def who() -> str:
        ...     '''Tell who is called.'''
        ...     return f"{current_tool_call().name} answers {current_tool_call().id}"
        >>> calls = Message.assistant(tool_calls=[ToolCall(id="c1", name="who")])
        >>> (await ToolsNode([who]).invoke(calls))[0].text
        'who answers c1'
    """
    call = _call.get()
    if call is None:
        raise RuntimeError(
            "current_tool_call() was called outside of a tool call; call it inside a tool or a middleware"
        )
    return call


def current_position() -> int | None:
    """Give the place of the current tool call in its message, or None outside of one."""
    call = _call.get()
    return None if call is None else call.position


def current_context(kind: type[T]) -> T:
    """Give what the caller of the run passed as ``RunOptions(context=...)``: who and what the run is for.

    It reaches nodes, handlers and tools, those of nested graphs too, and never goes through a model.

    Args:
        kind: Its type; the innermost graph that was given one of this type counts.

    Returns:
        The context.

    Raises:
        LookupError: If none of this type was given, or outside of a run.

    Example:
        >>> from anabranch.compose import END, START, Graph, RunOptions
        >>> def greet(word: str) -> str:
        ...     return f"{word}, {current_context(str)}"
        >>> graph = Graph[str, str]()
        >>> graph.add_edge(START, graph.add_node("greet", greet))
        >>> graph.add_edge("greet", END)
        >>> graph.compile().invoke_sync("Moin", RunOptions(context="Ada"))
        'Moin, Ada'
    """
    frame = current_frame.get()
    if frame is None:
        raise LookupError("current_context() was called outside of a run; call it inside a node, a handler or a tool")
    run = frame[0]
    found: list[str] = []
    while True:
        context = run.options.given.context
        if isinstance(context, kind):
            return context
        if context is not None:
            found.append(type(context).__name__)
        if run.parent is None:
            break
        run = run.parent
    there = f"there is {', '.join(found)}" if found else "none was given"
    raise LookupError(f"a context of type {kind.__name__} was asked for and {there}; run with RunOptions(context=…)")
