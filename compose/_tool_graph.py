"""A compiled graph as a tool: a model calls it, and it runs as a part of the run that the call belongs to."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args, get_origin

from ..schema import FunctionTool, Message, Risk, ToolDefinitionError, tool
from ._context import current_frame
from ._options import resolve_inside
from ._part import current_part
from ._run import Run
from ._schedule import run_plan
from ._streams import boxed
from ._tool_context import current_position

if TYPE_CHECKING:
    from ._context import Frame
    from ._plan import Plan
    from ._runnable import Runnable


def graph_tool(
    app: Runnable[Any, Any],
    name: str,
    description: str,
    *,
    argument: str = "",
    risk: Risk = "safe",
    parallel: bool = True,
    timeout: float | None = None,
) -> FunctionTool[..., Any]:
    """Make a tool of a compiled graph.

    The arguments are the graph's input: the fields of a model, dataclass or ``TypedDict``, one argument for any other
    type. A graph that takes messages is asked in words: the argument is a text, and a user's message is made of it.
    The graph runs as a nested one of the run that calls the tool: in the same mode, so that its output streams where
    that run streams; with its events and context. Its path is the node's path and the position of the call
    (``tools/0``).

    Args:
        app: The compiled graph.
        name: By what a model calls it.
        description: What it does and when to use it.
        argument: The name of the one argument; ``request`` for a graph that takes messages, else ``input``.
        risk: What a call may do.
        parallel: Whether a call may run beside others of the same message.
        timeout: After how many seconds to give up.

    Returns:
        The tool.

    Raises:
        ToolDefinitionError: The graph's input cannot be described as JSON.

    Example:
        >>> from anabranch.compose import END, START, Graph
        >>> graph = Graph[str, str]()
        >>> graph.add_edge(START, graph.add_node("shout", str.upper, input=str, output=str))
        >>> graph.add_edge("shout", END)
        >>> shout = graph_tool(graph.compile(), "shout", "Say it loudly.")
        >>> await shout.run({"input": "tides"})
        'TIDES'
    """
    if not hasattr(app, "plan"):
        raise ToolDefinitionError(f"tool {name!r}: {type(app).__name__} is no compiled graph; call compile() first")
    plan = app.plan
    kind, as_input = _asking(plan.input)
    parameter = argument or ("request" if kind is str and plan.input is not str else "input")

    async def call(**arguments: Any) -> Any:
        value = arguments[parameter]
        value = value if as_input is None else as_input(value)
        frame = current_frame.get()
        return await app.invoke(value) if frame is None else await _run_nested(frame, plan, value)

    place = inspect.Parameter(parameter, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
    call.__signature__ = inspect.Signature([place])  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]
    call.__annotations__ = {parameter: kind}
    call.__name__ = call.__qualname__ = name
    call.__doc__ = description
    made: FunctionTool[..., Any] = tool(
        call, name=name, description=description, risk=risk, parallel=parallel, timeout=timeout
    )
    made.streaming = True  # where the run streams
    return made


async def _run_nested(frame: Frame, plan: Plan, value: Any) -> Any:
    """Run a graph below the node whose call this is."""
    run, node, _ = frame
    position = current_position()
    place = node.key if position is None else f"{node.key}/{position}"
    prefix = f"{run.prefix}{place}/"
    options = resolve_inside(plan, run.observer, prefix, run.root.options.given.for_all)
    part = current_part.get()
    inner = Run(plan, run.packets, options, run, prefix, None if part is None else part.nested(plan))
    return await run_plan(inner, boxed(value) if run.packets.streaming else value)


def _asking(form: Any) -> tuple[Any, Any]:
    """Give the type that a model is asked for, and what makes the graph's input of it."""
    if form is Message:
        return str, Message.user
    if get_origin(form) in (list, Sequence) and get_args(form)[:1] == (Message,):
        return str, _as_history
    return form, None


def _as_history(text: str) -> list[Message]:
    return [Message.user(text)]
