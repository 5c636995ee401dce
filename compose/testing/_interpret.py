"""``interpret(graph, input)``: what a graph does, by the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from inspect import isasyncgenfunction, iscoroutinefunction
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType
from typing import Any

from .._graph import GraphLike
from .._keys import Trigger
from .._runnable import Runnable
from .._spec import GraphSpec
from .._sync import run_sync
from . import pieces
from ._interpret_node import Wrong
from ._interpretation import Interpretation
from ._interpreter import Interpreter, nested_graph

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
    if isinstance(graph, Runnable):
        plan = graph.plan
        spec, trigger, max_steps = plan.spec, trigger or plan.trigger, max_steps or plan.max_steps
    else:
        spec = graph._spec()  # pyright: ignore[reportPrivateUsage]
        trigger = trigger or graph._default_trigger  # pyright: ignore[reportPrivateUsage]
    found = Interpretation()

    async def run() -> Interpretation:
        try:
            found._output = await Interpreter(spec, trigger, max_steps, found).run(input)  # pyright: ignore[reportPrivateUsage]
        except Wrong as wrong:
            found.failures = wrong.failures
        return found

    if all(map(_never_waits, _functions(spec))):
        return _by_hand(run())
    return run_sync(run)


def _functions(spec: GraphSpec) -> Iterator[Callable[..., Any]]:
    for node in spec.nodes.values():
        nested = nested_graph(node)
        if nested is not None:
            yield from _functions(nested[0])
        body = node.body
        yield from (f for f in (body.invoke, body.stream, body.collect, body.transform) if f is not None)
        yield from (handler.call for handler in (node.pre, node.post) if handler is not None)
    yield from (branch.condition for branch in spec.branches)


def _never_waits(function: Any) -> bool:
    """Tell whether a call certainly needs no event loop; else it gets one."""
    if getattr(function, "__module__", None) == pieces.__name__:
        return True
    plain = isinstance(function, FunctionType | MethodType | BuiltinFunctionType | MethodDescriptorType)
    return plain and not iscoroutinefunction(function) and not isasyncgenfunction(function)


def _by_hand(work: Coroutine[Any, Any, Interpretation]) -> Interpretation:
    """Run a coroutine that never waits, without an event loop."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    work.close()
    raise RuntimeError("a plain function gave something to wait for; make it an async def")
