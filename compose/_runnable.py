"""The compiled graph: four ways to run it, and what can be asked of it."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from contextvars import copy_context
from typing import Any, Generic

from typing_extensions import TypeVar

from ..schema import StreamReader, StreamScope, StreamWriter, pipe, stream_scope
from ._body import Body
from ._crew import make_crew
from ._events import Event
from ._info import GraphInfo, graph_info
from ._options import RunOptions, resolve
from ._packets import STREAMS, VALUES, Packets
from ._plan import Plan
from ._run import Run
from ._schedule import run_plan
from ._streams import boxed, chunks_to_value
from ._types import value_type_name
from .errors import ValueTypeError

InputT = TypeVar("InputT", default=Any)
OutputT = TypeVar("OutputT", default=Any)


class Runnable(Generic[InputT, OutputT]):
    """A compiled graph: immutable, and good for any number of runs at once.

    ``invoke`` goes from a value to a value, ``stream`` from a value to a stream, ``collect`` from a stream to a value,
    ``transform`` from a stream to a stream. For nodes whose paradigms agree with each other the four agree too.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @property
    def input_type(self) -> Any:
        """The type of the input."""
        return self.plan.input

    @property
    def output_type(self) -> Any:
        """The type of the output."""
        return self.plan.output

    def __repr__(self) -> str:
        name = f" {self.plan.name!r}" if self.plan.name else ""
        return f"<compiled {self.plan.kind}{name} of {len(self.plan.nodes) - 2} nodes>"

    async def invoke(self, value: InputT, options: RunOptions | None = None) -> OutputT:
        """Run the graph from a value to a value.

        Args:
            value: The graph's input.
            options: What to do otherwise in this run.

        Returns:
            The graph's output.

        Raises:
            RunOptionsError: If the options do not fit the graph; nothing has run.
            ValueTypeError: If the input is not of the graph's input type; nothing has run.
            NodeError: If a function of the user's raised; the original is its ``__cause__``.
            GraphRunError: If the run failed otherwise (no progress, too many steps, values that do not merge …).
        """
        run = self._open(VALUES, options)
        self._check_input(run, value)
        if run.observer is None:
            return await run_plan(run, value)  # type: ignore[no-any-return]
        async with stream_scope() as scope:
            run.observer.scope = scope
            output = await run_plan(run, value)
            await run.observer.settled()
            return output  # type: ignore[no-any-return]

    @asynccontextmanager
    async def stream(
        self, value: InputT, options: RunOptions | None = None
    ) -> AsyncGenerator[StreamReader[OutputT], None]:
        """Run the graph from a value to a stream, which is open inside the ``async with``.

        Leaving the block ends the run: whatever it still had open is closed and awaited.

        Args:
            value: The graph's input.
            options: What to do otherwise in this run.

        Yields:
            The reader of the output's chunks.

        Raises:
            GraphRunError: As :meth:`invoke`; an error of a node that streams comes out of the reader.
        """
        async with stream_scope() as scope:
            run = self._open(STREAMS, options, scope)
            self._check_input(run, value)
            reader = await run_plan(run, boxed(value))
            try:
                yield reader
            finally:
                await reader.aclose()
                if run.observer is not None:
                    await run.observer.settled_if_over()

    async def collect(
        self, source: AsyncIterable[InputT] | Iterable[InputT], options: RunOptions | None = None
    ) -> OutputT:
        """Run the graph from a stream to a value.

        Args:
            source: A reader, or any iterable or async iterable of chunks.
            options: What to do otherwise in this run.

        Returns:
            The concatenation of the output's chunks.

        Raises:
            GraphRunError: As :meth:`invoke`.
        """
        async with stream_scope() as scope:
            run = self._open(STREAMS, options, scope)
            run.wants_value = True
            reader = await run_plan(run, StreamReader.from_iterable(source))
            end = run.plan.nodes[run.plan.end]
            output = await chunks_to_value(run, end, reader, run.plan.output)
            if run.observer is not None:
                await run.observer.settled()
            return output  # type: ignore[no-any-return]

    @asynccontextmanager
    async def transform(
        self, source: AsyncIterable[InputT] | Iterable[InputT], options: RunOptions | None = None
    ) -> AsyncGenerator[StreamReader[OutputT], None]:
        """Run the graph from a stream to a stream, which is open inside the ``async with``.

        Args:
            source: A reader, or any iterable or async iterable of chunks.
            options: What to do otherwise in this run.

        Yields:
            The reader of the output's chunks.

        Raises:
            GraphRunError: As :meth:`stream`.
        """
        async with stream_scope() as scope:
            run = self._open(STREAMS, options, scope)
            reader = await run_plan(run, StreamReader.from_iterable(source))
            try:
                yield reader
            finally:
                await reader.aclose()
                if run.observer is not None:
                    await run.observer.settled_if_over()

    def invoke_sync(self, value: InputT, options: RunOptions | None = None) -> OutputT:
        """Do what :meth:`invoke` does from code without ``await``: a script, a notebook, also inside a running loop.

        Args:
            value: The graph's input.
            options: What to do otherwise in this run.

        Returns:
            The graph's output.
        """
        from ._sync import run_sync

        return run_sync(lambda: self.invoke(value, options))

    def stream_sync(
        self, value: InputT, options: RunOptions | None = None
    ) -> AbstractContextManager[Iterator[OutputT]]:
        """Do what :meth:`stream` does from code without ``await``: ``with app.stream_sync(x) as chunks: ...``.

        Args:
            value: The graph's input.
            options: What to do otherwise in this run.

        Returns:
            A context manager that gives an iterator of chunks.
        """
        from ._sync import stream_sync

        return stream_sync(lambda: self.stream(value, options))

    def graph_info(self) -> GraphInfo:
        """Describe the graph as plain data: its nodes, edges, branches and types, nested graphs included.

        Returns:
            The description.
        """
        return graph_info(self.plan)

    def as_node(self) -> Body:
        """Give the body of a node that runs this graph nested in another."""
        plan = self.plan
        return Body(plan.input, plan.output, plan.kind, plan.name or plan.kind, nested=plan, target=self)

    @asynccontextmanager
    async def events(
        self, value: InputT, options: RunOptions | None = None
    ) -> AsyncGenerator[StreamReader[Event], None]:
        """Run the graph in stream mode and watch all that happens, nested graphs included, in one ordered stream.

        The last event of a run that succeeds is its :class:`RunEnded`, with the whole output. A run that fails gives
        its :class:`RunFailed`, and then the reader raises the error. Leaving the block ends the run.

        Args:
            value: The graph's input.
            options: What to do otherwise in this run.

        Yields:
            The reader of the events.

        Raises:
            RunOptionsError: If the options do not fit the graph; nothing has run.
            ValueTypeError: If the input is not of the graph's input type; nothing has run.
        """
        reader, writer = pipe[Event](capacity=sys.maxsize)
        run = self._open(STREAMS, options, sink=writer.send_nowait)
        self._check_input(run, value)
        crew = make_crew()
        await crew.open()
        try:
            crew.start(0, self._fill(run, value, writer), copy_context())
            async with reader:
                yield reader
        finally:
            await crew.close()

    async def _fill(self, run: Run, value: Any, writer: StreamWriter[Event]) -> None:
        try:
            async with stream_scope() as scope:
                assert run.observer is not None, "a run whose events are wanted is watched"
                run.observer.scope = scope
                run.base = copy_context()  # the streams of nodes belong to this scope
                async with await run_plan(run, boxed(value)) as reader:
                    async for _ in reader:
                        pass
                await run.observer.settled()
        except Exception as error:
            await writer.fail(error)
        else:
            writer.close()
        finally:
            writer.close()

    def _open(
        self,
        packets: Packets,
        options: RunOptions | None,
        scope: StreamScope | None = None,
        sink: Callable[[Event], None] | None = None,
    ) -> Run:
        resolved = resolve(self.plan, options, sink)
        if resolved.observer is not None:
            resolved.observer.scope = scope
        return Run(self.plan, packets, resolved, None, "")

    def _check_input(self, run: Run, value: Any) -> None:
        check = self.plan.input_check
        if check is not None and not check.accepts(value):
            raise run.fail(ValueTypeError("", check.edge, check.wanted, value_type_name(value)))
