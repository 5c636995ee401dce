"""Nodes that finish when a test says so: an order of completion is forced, never waited for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from .._body import Body, shape_of
from ._await import awaited

__all__ = ("Scripted", "Sequencer")


class Scripted:
    """A node that waits until the test tells it to finish, or to fail.

    Args:
        function: What it gives for its input, a plain or an async function; by default the input itself.
        input: The type of the input, where the function's annotations do not say it.
        output: The type of the output.
        name: What errors of the test call it.

    Attributes:
        calls: What it was given, each time it ran.
        cancelled: How often it was cancelled while it waited.

    Example:
        >>> import anyio
        >>> from anabranch.compose import END, START, Graph
        >>> slow = Scripted(str.upper, input=str, output=str)
        >>> graph = Graph[str, str]()
        >>> graph.add_edge(START, graph.add_node("slow", slow))
        >>> graph.add_edge("slow", END)
        >>> async with anyio.create_task_group() as group:
        ...     _ = group.start_soon(graph.compile().invoke, "tides")
        ...     print(await slow.started())
        ...     slow.finish()
        tides
    """

    def __init__(
        self, function: Callable[[Any], Any] | None = None, *, input: Any = None, output: Any = None, name: str = ""
    ) -> None:
        self._function: Callable[[Any], Any] = function or _same
        shape = shape_of(self._function)
        self._input = shape.input if input is None else input
        self._output = shape.output if output is None else output
        self._name = name or getattr(function, "__name__", "scripted")
        self._waiting: list[_Call] = []
        self._news = anyio.Event()
        self.calls: list[Any] = []
        self.cancelled: int = 0

    def as_node(self) -> Body:
        """Give the node's body, as the engine takes it."""
        return Body(self._input, self._output, "function", self._name, invoke=self._run, target=self)

    @property
    def running(self) -> int:
        """How many runs of the node wait at this moment."""
        return len(self._waiting)

    async def started(self, times: int = 1) -> Any:
        """Wait until the node has run so many times, counting those that have finished.

        Args:
            times: How many times.

        Returns:
            What it was given the last of these times.
        """
        while len(self.calls) < times:
            await self._news.wait()
        return self.calls[times - 1]

    def finish(self) -> None:
        """Let the run that has waited longest finish.

        Raises:
            RuntimeError: If none waits.
        """
        self._first("finish").told.set()

    def fail(self, error: Exception) -> None:
        """Let the run that has waited longest fail.

        Args:
            error: What it raises.

        Raises:
            RuntimeError: If none waits.
        """
        call = self._first("fail")
        call.error = error
        call.told.set()

    def _first(self, what: str) -> _Call:
        if not self._waiting:
            raise RuntimeError(f"node {self._name!r} was told to {what} and does not run; await started() first")
        return self._waiting.pop(0)

    async def _run(self, value: Any) -> Any:
        call = _Call()
        self._waiting.append(call)
        self.calls.append(value)
        self._news.set()
        self._news = anyio.Event()
        try:
            await call.told.wait()
        except BaseException:
            self.cancelled += 1
            raise
        finally:
            if call in self._waiting:
                self._waiting.remove(call)
        if call.error is not None:
            raise call.error
        return await awaited(self._function(value))


def _same(value: Any) -> Any:
    return value


class _Call:
    """One run of a scripted node."""

    def __init__(self) -> None:
        self.told = anyio.Event()
        self.error: Exception | None = None


class Sequencer:
    """Makes nodes finish in a given order, whatever order they start in.

    Args:
        *order: The names of the nodes as they shall finish; a node that runs several times stands there several times.
            Nodes that are not named finish at once.

    Attributes:
        finished: The names of the nodes that have finished so far.

    Example:
        >>> import anyio
        >>> from anabranch.compose import END, START, Graph
        >>> sequence = Sequencer("b", "a")
        >>> graph = Graph[str, dict[str, str]]()
        >>> for key in ("a", "b"):
        ...     graph.add_node(key, sequence.node(key, str.upper), input=str, output=str, output_key=key)
        ...     graph.add_edge(START, key)
        ...     graph.add_edge(key, END)
        <node 'a'>
        <node 'b'>
        >>> await graph.compile().invoke("x"), sequence.finished
        ({'a': 'X', 'b': 'X'}, ['b', 'a'])
    """

    def __init__(self, *order: str) -> None:
        self._order = order
        self._moved = anyio.Event()
        self.finished: list[str] = []

    def node(self, name: str, function: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
        """Make a node of a function.

        Args:
            name: Its name in the order.
            function: What it does, when its turn has come; plain or async.

        Returns:
            An async function with the annotations of the given one.
        """

        async def run(value: Any) -> Any:
            while name in self._order[len(self.finished) :] and self._order[len(self.finished)] != name:
                await self._moved.wait()
            result = await awaited(function(value))
            if name in self._order:
                self.finished.append(name)
                self._moved.set()
                self._moved = anyio.Event()
            return result

        shape = shape_of(function)
        run.__name__ = name
        run.__annotations__ = {"value": shape.input, "return": shape.output}
        return run
