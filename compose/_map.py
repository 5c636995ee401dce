"""One node run for every item of a list, several at once, results in the order of the items."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable
from contextlib import aclosing
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Literal, Union

import anyio
from typing_extensions import TypeVar

from ..schema import StreamReader, StreamWriter, pipe
from ..schema._stream_scope import current_scope
from ._body import Body, ShapeError
from ._build import body_of
from ._context import Frame, current_frame
from ._crew import Crew, make_crew
from ._execute import execute
from ._interrupted import Interrupted, is_pause
from ._packets import VALUES
from ._part import Part, current_part
from ._plan import NodePlan, Plan
from ._run import Run
from .errors import GraphRunError

AHEAD = 64
"""In stream mode: how many results may wait, for an earlier one or for the reader, before no new item is begun."""

Work = Callable[[int, Any], Coroutine[Any, Any, Any]]

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
            ``"collect"``: the error, a :class:`GraphRunError`, takes the place of the item's result.
        input: The type of an item, where annotations do not say it.
        output: The type of a result.
        blocking: Run a plain ``def`` in a worker thread.

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
        blocking: bool = False,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"Map(concurrency={concurrency}): at least one item has to be at work; give 1 or more")
        if on_error not in ("raise", "collect"):
            raise ValueError(f'Map(on_error={on_error!r}): there are "raise" and "collect"')
        try:
            self._item = body_of(node, blocking=blocking)
        except ShapeError as error:
            raise ShapeError(f"Map: {error}") from error
        self._concurrency = concurrency
        self._collect = on_error == "collect"
        self._input = self._item.input if input is None else input
        self._output = self._item.output if output is None else output

    def as_node(self) -> Body:
        """Give the body of the node, as the engine takes it."""
        return self._body(self._item)

    def _body(self, item: Body) -> Body:
        result = Union[self._output, GraphRunError] if self._collect else self._output  # noqa: UP007 - at run time
        bind = item.bind
        return Body(
            input=list[self._input],  # type: ignore[name-defined]  # pyright: ignore[reportInvalidTypeArguments]
            output=list[result],  # type: ignore[valid-type]  # pyright: ignore[reportInvalidTypeArguments]
            component="map",
            name=item.name,
            invoke=partial(self._all, item),
            transform=partial(self._stream, item),
            bind=None if bind is None else lambda options: self._body(bind(options)),
            options=item.options,
            inside=item.nested or item.inside,
            builder=item.to_compile,
            around=self._around,
            target=self,
        )

    def _around(self, plan: Plan) -> Body:
        """Give the body again, now that the graph that every item runs is compiled."""
        return self._body(self._item.with_compiled(plan))

    async def _all(self, item: Body, values: Iterable[Any]) -> list[Any]:
        work = self._work(item)
        async with make_crew() as crew, aclosing(_Items(crew, work, self._concurrency).results(_each(values))) as found:
            return [result async for result in found]

    async def _stream(self, item: Body, lists: StreamReader[list[Any]]) -> AsyncIterable[list[Any]]:
        if current_part.get() is not None:
            return self._at_once(item, lists)
        scope = current_scope()
        assert scope is not None, "a run in stream mode has a scope"
        reader, writer = pipe[list[Any]](capacity=0)
        scope.start_soon(self._pump, self._work(item), lists, writer)
        return reader

    async def _at_once(self, item: Body, lists: StreamReader[list[Any]]) -> AsyncGenerator[list[Any], None]:
        """Do it in a run that is kept, where lists come whole."""
        yield await self._all(item, [value async for values in lists for value in values])

    async def _pump(self, work: Work, lists: StreamReader[list[Any]], writer: StreamWriter[list[Any]]) -> None:
        try:
            async with writer, lists, make_crew() as crew:
                items = _Items(crew, work, self._concurrency, AHEAD + self._concurrency)
                async with aclosing(items.results(_all_of(lists))) as found:
                    await _send_each(found, writer)
        except Exception:
            pass  # the writer has passed it on to the reader

    def _work(self, item: Body) -> Work:
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
    part = current_part.get()
    if part is not None:
        return await _run_kept_item(part.child(str(number)), frame, item, number, value)
    return await _run_one(frame, item, number, value)


async def _run_kept_item(part: Part, frame: Frame, item: Body, number: int, value: Any) -> Any:
    """Run one item unless it was done, or waits for an answer, in a run that is kept."""
    from ._codec import codec_for

    found = part.result
    if found is not None:
        return codec_for(item.output).decode(found["value"])
    if part.blocked or part.record.is_pausing:
        raise Interrupted(part.record.id)
    current_part.set(part)  # the context is the item's own
    try:
        result = await _run_one(frame, item, number, value)
    except BaseException as error:
        if is_pause(error):
            part.block()
        raise
    if part.waits:  # the item has swallowed the pause
        part.block()
        raise Interrupted(part.record.id)
    part.finish(codec_for(item.output).encode(result))
    await part.record.step_done(lambda: f"item {'/'.join(part.address)!r}")
    return result


async def _run_one(frame: Frame, item: Body, number: int, value: Any) -> Any:
    run, node, _ = frame
    key = f"{node.key}/{number}"
    given, made = item.input, item.output
    inner = NodePlan(index=-1, key=key, body=item, input=given, output=made, takes=given, gives=made)
    if run.observer is not None:
        inner = replace(inner, body=run.observer.decorate(inner, item))
    values = _for_item(run, node, inner)
    current_frame.set((values, inner, 1))
    return await execute(values, inner, value)


def _for_item(run: Run, node: NodePlan, inner: NodePlan) -> Run:
    """Give a run that shares everything with another one, and handles values; the options of all items are its own."""
    options = run.options.nested.get(node.key)
    if not run.packets.streaming and options is None:
        return run
    other = run.in_mode(VALUES)
    if options is not None:
        other.options = replace(run.options, nested={inner.key: options})
    return other


async def _send_each(results: AsyncIterator[Any], writer: StreamWriter[list[Any]]) -> None:
    """Send results until there are no more, or the reader has what it wanted; no result at all is an empty list."""
    chunk: list[Any] | None = None
    async for result in results:
        chunk = [result]
        try:
            await writer.send(chunk)
        except anyio.BrokenResourceError:
            return
    if chunk is None:
        try:
            await writer.send([])
        except anyio.BrokenResourceError:
            return


async def _each(values: Iterable[Any]) -> AsyncGenerator[Any, None]:
    for item in values:
        yield item


async def _all_of(lists: StreamReader[list[Any]]) -> AsyncGenerator[Any, None]:
    async for items in lists:
        for item in items:
            yield item


class _Items:
    """Items at work, several at once; their results are given in the order of the items.

    A new item is taken when there is a free place, so no more are at work than the limit allows, and a slow one keeps
    none of the others from its start. With a bound on how far it goes ahead, it also waits until results were given.
    """

    def __init__(self, crew: Crew, work: Work, limit: int, ahead: int | None = None) -> None:
        self._crew = crew
        self._work = work
        self._places = anyio.Semaphore(limit)
        """An item has one from before it is taken until its work is done."""
        self._room = None if ahead is None else anyio.Semaphore(ahead)
        """An item has some from before it is taken until its result was given."""
        self._paused: BaseException | None = None
        """What an item has stopped with."""

    async def _take(self, items: AsyncGenerator[Any, None]) -> int:
        """Start work on each item as it comes; one task takes them all. Give how many there were."""
        number = 0
        async with aclosing(items):
            while True:
                if self._room is not None:
                    await self._room.acquire()
                await self._places.acquire()
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    return number
                self._crew.start(number, self._one(number, item), copy_context())
                number += 1

    async def _one(self, number: int, item: Any) -> Any:
        try:
            result = await self._work(number, item)
        except BaseException as error:
            if not is_pause(error):
                raise
            self._paused = error
            result = None  # the others go on
        self._places.release()  # not after a failure: that ends it all, and nothing new begins
        return result

    async def results(self, items: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
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
                result = done.pop(given)
                if self._paused is None:
                    yield result
                given += 1
                if self._room is not None:
                    self._room.release()
        if self._paused is not None:
            raise self._paused
