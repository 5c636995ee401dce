"""``interpret(graph, input)``: what a graph does, by the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from inspect import isasyncgenfunction, iscoroutinefunction
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType
from typing import Any

from .._graph import GraphLike
from .._keys import Trigger
from .._plan import Plan
from .._runnable import Runnable
from .._spec import GraphSpec
from .._sync import run_sync
from . import pieces
from ._interpret_node import Wrong
from ._interpretation import Interpretation
from ._interpreter import Interpreter, nested_graph
from ._sketch import compiled

__all__ = ("interpret",)


def interpret(
    graph: GraphLike[Any, Any] | Runnable[Any, Any],
    input: Any,
    *,
    trigger: Trigger | None = None,
    max_steps: int | None = None,
) -> Interpretation:
    """Say what a graph does with an input, without the engine: slowly, one node after the other.

    The interpreter is written apart from the engine and shares no scheduling with it, so the two check each other. It
    calls the graph's own functions, once for each time that a node runs, and knows nothing of time: time-outs never
    come, and retries do not wait.

    Args:
        graph: A builder, or a compiled graph.
        input: The graph's input.
        trigger: As for ``compile``; by default the builder's own, and of a compiled graph what it was compiled with.
        max_steps: As for ``compile``.

    Returns:
        The output or the ways to fail, how often each node ran and with what, and in which steps.

    Example:
        >>> from anabranch.compose import END, START, Graph
        >>> graph = Graph[str, str]()
        >>> graph.add_edge(START, graph.add_node("shout", str.upper, input=str, output=str))
        >>> graph.add_edge("shout", END)
        >>> found = interpret(graph, "tides")
        >>> found.output, found.runs
        ('TIDES', {'shout': ['tides']})
    """
    plan: Plan | None = None
    if isinstance(graph, GraphLike) and _assembles(graph._spec()):  # pyright: ignore[reportPrivateUsage]
        graph = compiled(graph, {"trigger": trigger, "max_steps": max_steps})  # mappings are made ready by compiling
    if isinstance(graph, Runnable):
        plan = graph.plan
        spec, trigger, max_steps = plan.spec, trigger or plan.trigger, max_steps or plan.max_steps
    else:
        spec = graph._spec()  # pyright: ignore[reportPrivateUsage]
        trigger = trigger or graph._default_trigger  # pyright: ignore[reportPrivateUsage]
    found = Interpretation()

    async def run() -> Interpretation:
        try:
            found._output = await Interpreter(spec, trigger, max_steps, found, plan=plan).run(input)  # pyright: ignore[reportPrivateUsage]
        except Wrong as wrong:
            found.failures = wrong.failures
        return found

    if all(map(_needs_no_loop, _functions(spec))):
        return _by_hand(run())
    return run_sync(run)


def _assembles(spec: GraphSpec) -> bool:
    """Tell whether a graph, or one in it, is a workflow with field mappings."""
    own = spec.end_assembler is not None or any(node.assembler is not None for node in spec.nodes.values())
    nested = (nested_graph(node.body) for node in spec.nodes.values())
    return own or any(found is not None and _assembles(found[0]) for found in nested)


def _functions(spec: GraphSpec, state: bool = False) -> Iterator[tuple[Callable[..., Any], bool]]:
    """List all functions of the user's, each with whether it may ask for a state."""
    state = state or spec.state is not None
    for node in spec.nodes.values():
        nested = nested_graph(node.body)
        if nested is not None:
            yield from _functions(nested[0], state)
        body = node.body
        calls = (body.invoke, body.stream, body.collect, body.transform)
        yield from ((call, state) for call in calls if call is not None)
        yield from ((handler.call, state) for handler in (node.pre, node.post) if handler is not None)
    yield from ((branch.condition, state) for branch in spec.branches)


def _needs_no_loop(function_and_state: tuple[Any, bool]) -> bool:
    """Tell whether a function certainly runs without an event loop; what waits, or enters a state, gets one."""
    function, state = function_and_state
    if getattr(function, "__module__", None) == pieces.__name__:
        return True
    plain = isinstance(function, FunctionType | MethodType | BuiltinFunctionType | MethodDescriptorType)
    return plain and not state and not iscoroutinefunction(function) and not isasyncgenfunction(function)


def _by_hand(work: Coroutine[Any, Any, Interpretation]) -> Interpretation:
    """Run a coroutine that never waits, without an event loop."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    work.close()
    raise RuntimeError("a plain function gave something to wait for; make it an async def")
