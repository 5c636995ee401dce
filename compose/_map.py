"""One node run for every item of a list, several at once, results in the order of the items."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Literal

import anyio
from typing_extensions import TypeVar

from ..schema import StreamReader, StreamWriter, pipe
from ..schema._stream_scope import current_scope
from ._body import Body, ShapeError
from ._build import body_of
from ._context import Frame, current_frame
from ._crew import Crew, make_crew
from ._execute import execute
from ._packets import VALUES
from ._plan import NodePlan
from ._run import Run
from .errors import GraphRunError

A = TypeVar("A", default=Any)
B = TypeVar("B", default=Any)


class Map(Generic[A, B]):
    """A node from ``list[A]`` to ``list[B]`` made of a node from ``A`` to ``B``.

    Every item is a run of its own with an address of its own (``each/3``). An empty list gives an empty list. In stream
    mode items are taken as they arrive, and results given as they are ready, in the order of the items.

    Args:
        node: Anything that :meth:`Graph.add_node` takes.
        concurrency: How many items may be at work at once.
        on_error: ``"raise"``: the first failure fails the node, and the others are cancelled and awaited;
            ``"collect"``: the error takes the place of the item's result.
        input: The type of an item, where annotations do not say it.
        output: The type of a result.

    Raises:
        ValueError: If ``concurrency`` is less than 1, or ``on_error`` is neither.
        TypeError: If the node cannot be one.

    Example:
        >>> from anabranch.compose import END, START, Graph, Map
        >>> async def size(word: str) -> int:
        ...     return len(word)
        >>> graph = Graph[list[str], list[int]]()
        >>> graph.add_edge(START, graph.add_node("each", Map(size, concurrency=2)))
        >>> graph.add_edge("each", END)
        >>> graph.compile().invoke_sync(["ebb", "flow"])
        [3, 4]
    """

    def __init__(
        self,
        node: Any,
        *,
        concurrency: int = 8,
        on_error: Literal["raise", "collect"] = "raise",
        input: Any = None,
        output: Any = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"Map(concurrency={concurrency}): at least one item has to be at work; give 1 or more")
        if on_error not in ("raise", "collect"):
            raise ValueError(f'Map(on_error={on_error!r}): there are "raise" and "collect"')
        try:
            self._item = body_of(node)
        except ShapeError as error:
            raise ShapeError(f"Map: {error}") from error
        self._node = node
        self._concurrency = concurrency
        self._collect = on_error == "collect"
        self._input = self._item.input if input is None else input
        self._output = self._item.output if output is None else output

    def as_node(self) -> Body:
        """Give the body of the node, as the engine takes it."""
        item = self._item
        if item.nested is None and hasattr(item.target, "_spec"):
            item = item.target.compile().as_node()
        result = self._output | GraphRunError if self._collect and isinstance(self._output, type) else self._output
        return Body(
            input=list[self._input],  # type: ignore[name-defined]  # pyright: ignore[reportInvalidTypeArguments]
            output=list[result if not self._collect or isinstance(self._output, type) else Any],  # type: ignore[misc]  # pyright: ignore[reportInvalidTypeArguments]
            component="map",
            name=item.name,
            invoke=partial(self._all, item),
            transform=partial(self._stream, item),
            target=self,
        )

    async def _all(self, item: Body, values: Iterable[Any]) -> list[Any]:
        async with StreamReader.of(*values) as items, make_crew() as crew:
            return [result async for result in _Ahead(crew, self._concurrency, self._work(item)).results(items)]

    async def _stream(self, item: Body, lists: StreamReader[list[Any]]) -> StreamReader[list[Any]]:
        scope = current_scope()
        assert scope is not None, "a run in stream mode has a scope"
        reader, writer = pipe[list[Any]](capacity=0)
        scope.start_soon(self._pump, item, lists, writer)
        return reader

    async def _pump(self, item: Body, lists: StreamReader[list[Any]], writer: StreamWriter[list[Any]]) -> None:
        try:
            async with lists, make_crew() as crew:
                any_result = False
                async for result in _Ahead(crew, self._concurrency, self._work(item)).results(_items(lists)):
                    any_result = True
                    await writer.send([result])
                if not any_result:
                    await writer.send([])
        except anyio.BrokenResourceError:
            pass  # the reader has what it wanted
        except Exception as error:
            await writer.fail(error)
        finally:
            writer.close()

    def _work(self, item: Body) -> Callable[[int, Any], Coroutine[Any, Any, Any]]:
        frame = current_frame.get()
        assert frame is not None, "a body runs inside a frame"

        async def work(number: int, value: Any) -> Any:
            try:
                return await _run_item(frame, item, number, value)
            except GraphRunError as error:
                if self._collect:
                    return error
                raise

        return work


async def _run_item(frame: Frame, item: Body, number: int, value: Any) -> Any:
    """Run one item as a node with an address of its own; always from a value to a value."""
    run, node, _ = frame
    inner = NodePlan(index=-1, key=f"{node.key}/{number}", body=item, input=item.input, output=item.output)
    if run.observer is not None:
        inner = replace(inner, body=run.observer.decorate(inner, item))
    values = _in_value_mode(run)
    current_frame.set((values, inner, 1))
    return await execute(values, inner, value)


def _in_value_mode(run: Run) -> Run:
    """Give a run that shares everything with another one, and handles values."""
    if not run.packets.streaming:
        return run
    other = Run.__new__(Run)
    for name in Run.__slots__:
        setattr(other, name, getattr(run, name))
    other.packets = VALUES
    return other


async def _items(lists: StreamReader[list[Any]]) -> AsyncIterator[Any]:
    async for items in lists:
        for item in items:
            yield item


class _Ahead:
    """Works on the next items while the results of earlier ones are waited for."""

    def __init__(self, crew: Crew, limit: int, work: Callable[[int, Any], Coroutine[Any, Any, Any]]) -> None:
        self._crew = crew
        self._work = work
        self._room = anyio.Semaphore(limit)
        """Free places: an item has one from before it is taken until its result is given."""

    async def _take(self, items: AsyncIterator[Any]) -> int:
        """Start work on each item as it comes; one task takes them all. Give how many there were."""
        number = 0
        while True:
            await self._room.acquire()
            try:
                item = await anext(items)
            except StopAsyncIteration:
                return number
            self._crew.start(number, self._work(number, item), copy_context())
            number += 1

    async def results(self, items: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Give the results in the order of the items."""
        done: dict[int, Any] = {}
        given = 0
        total = sys.maxsize
        self._crew.start(-1, self._take(items), copy_context())
        while given < total:
            for slot, result, error in await self._crew.news():
                if error is not None:
                    raise error
                if slot < 0:
                    total = result
                else:
                    done[slot] = result
            while given in done:
                yield done.pop(given)
                given += 1
                self._room.release()
