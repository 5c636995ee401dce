"""The compiled graph: four ways to run it, and what can be asked of it."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from contextvars import copy_context
from inspect import isasyncgen
from typing import TYPE_CHECKING, Any, Generic, cast

from typing_extensions import TypeVar

from ..schema import StreamReader, StreamScope, StreamWriter, pipe, stream_scope
from ._body import Body
from ._crew import make_crew
from ._events import Event
from ._info import GraphInfo, graph_info
from ._kept_runs import KeptRuns
from ._options import RunOptions, resolve
from ._packets import STREAMS, VALUES, Packets
from ._part import current_part
from ._plan import Plan
from ._run import Run
from ._schedule import run_plan
from ._streams import boxed, checked_chunks, checked_reader, chunks_to_value
from ._types import value_type_name
from .errors import RunOptionsError, ValueTypeError

if TYPE_CHECKING:
    from ._record import Keeping, Record

InputT = TypeVar("InputT", default=Any)
OutputT = TypeVar("OutputT", default=Any)


class Runnable(KeptRuns[OutputT], Generic[InputT, OutputT]):
    """A compiled graph: immutable, and good for any number of runs at once.

    ``invoke`` goes from a value to a value, ``stream`` from a value to a stream, ``collect`` from a stream to a value,
    ``transform`` from a stream to a stream. For nodes whose paradigms agree with each other the four agree too.

    A graph that was compiled with a store keeps its runs: ``run=`` names one, ``thread=`` the conversation that it
    belongs to, and :meth:`resume` goes on with one that has stopped. What nodes give to each other are values in such
    a run; the output streams to the caller all the same.
    """

    def __init__(self, plan: Plan, keeping: Keeping | None = None) -> None:
        self.plan = plan
        self._keeping = keeping

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

    async def invoke(
        self, value: InputT, options: RunOptions | None = None, *, run: str | None = None, thread: str | None = None
    ) -> OutputT:
        """Run the graph from a value to a value.

        Args:
            value: The graph's input.
            options: What to do otherwise in this run.
            run: The id of the run, in a graph that keeps its runs; made up if it is left out.
            thread: The conversation that the run belongs to.

        Returns:
            The graph's output.

        Raises:
            RunOptionsError: If the options do not fit the graph; nothing has run.
            ValueTypeError: If the input is not of the graph's input type; nothing has run.
            NodeError: If a function of the user's raised; the original is its ``__cause__``.
            GraphRunError: If the run failed otherwise (no progress, too many steps, values that do not merge …).
        """
        if self._keeps(run, thread):
            record = await self._new_record(value, options, run, thread)
            return await self._run_kept(record, value, options)  # type: ignore[no-any-return]
        begun = self._open(VALUES, options)
        self._check_input(begun, value)
        if begun.observer is None:
            return await run_plan(begun, value)  # type: ignore[no-any-return]
        async with stream_scope() as scope:
            begun.observer.scope = scope
            output = await run_plan(begun, value)
            await begun.observer.settled()
            return output  # type: ignore[no-any-return]

    @asynccontextmanager
    async def stream(
        self, value: InputT, options: RunOptions | None = None, *, run: str | None = None, thread: str | None = None
    ) -> AsyncGenerator[StreamReader[OutputT], None]:
        """Run the graph from a value to a stream, which is open inside the ``async with``.

        Leaving the block ends the run: whatever it still had open is closed and awaited.

        Args:
            value: The graph's input.
            options: What to do otherwise in this run.
            run: The id of the run, in a graph that keeps its runs; made up if it is left out.
            thread: The conversation that the run belongs to.

        Yields:
            The reader of the output's chunks.

        Raises:
            GraphRunError: As :meth:`invoke`; an error of a node that streams comes out of the reader.
        """
        if self._keeps(run, thread):
            record = await self._new_record(value, options, run, thread)
            async with self._stream_kept(record, boxed(value), options) as reader:
                yield reader
            return
        async with stream_scope() as scope:
            begun = self._open(STREAMS, options, scope)
            self._check_input(begun, value)
            reader = await run_plan(begun, boxed(value))
            try:
                yield reader
            finally:
                await reader.aclose()
                if begun.observer is not None:
                    await begun.observer.settled_if_over()

    async def collect(
        self,
        source: AsyncIterable[InputT] | Iterable[InputT],
        options: RunOptions | None = None,
        *,
        run: str | None = None,
        thread: str | None = None,
    ) -> OutputT:
        """Run the graph from a stream to a value.

        Args:
            source: A reader, or any iterable or async iterable of chunks.
            options: What to do otherwise in this run.
            run: The id of the run, in a graph that keeps its runs; made up if it is left out.
            thread: The conversation that the run belongs to.

        Returns:
            The concatenation of the output's chunks.

        Raises:
            GraphRunError: As :meth:`invoke`.
        """
        async with stream_scope() as scope:
            if self._keeps(run, thread):
                value = await self._whole_input(source)
                return await self.invoke(value, options, run=run, thread=thread)
            begun = self._open(STREAMS, options, scope)
            begun.wants_value = True
            reader = await run_plan(begun, self._input_reader(begun, source))
            end = begun.plan.nodes[begun.plan.end]
            output = await chunks_to_value(begun, end, reader, begun.plan.output)
            if begun.observer is not None:
                await begun.observer.settled()
            return output  # type: ignore[no-any-return]

    @asynccontextmanager
    async def transform(
        self,
        source: AsyncIterable[InputT] | Iterable[InputT],
        options: RunOptions | None = None,
        *,
        run: str | None = None,
        thread: str | None = None,
    ) -> AsyncGenerator[StreamReader[OutputT], None]:
        """Run the graph from a stream to a stream, which is open inside the ``async with``.

        Args:
            source: A reader, or any iterable or async iterable of chunks.
            options: What to do otherwise in this run.
            run: The id of the run, in a graph that keeps its runs; made up if it is left out.
            thread: The conversation that the run belongs to.

        Yields:
            The reader of the output's chunks.

        Raises:
            GraphRunError: As :meth:`stream`.
        """
        async with stream_scope() as scope:
            if self._keeps(run, thread):
                value = await self._whole_input(source)
                async with self.stream(value, options, run=run, thread=thread) as reader:
                    yield reader
                return
            begun = self._open(STREAMS, options, scope)
            reader = await run_plan(begun, self._input_reader(begun, source))
            try:
                yield reader
            finally:
                await reader.aclose()
                if begun.observer is not None:
                    await begun.observer.settled_if_over()

    def invoke_sync(
        self, value: InputT, options: RunOptions | None = None, *, run: str | None = None, thread: str | None = None
    ) -> OutputT:
        """Do what :meth:`invoke` does from code without ``await``: a script, a notebook, also inside a running loop.

        Args:
            value: The graph's input.
            options: What to do otherwise in this run.
            run: The id of the run, in a graph that keeps its runs; made up if it is left out.
            thread: The conversation that the run belongs to.

        Returns:
            The graph's output.
        """
        from ._sync import run_sync

        return run_sync(lambda: self.invoke(value, options, run=run, thread=thread))

    def stream_sync(
        self, value: InputT, options: RunOptions | None = None, *, run: str | None = None, thread: str | None = None
    ) -> AbstractContextManager[Iterator[OutputT]]:
        """Do what :meth:`stream` does from code without ``await``: ``with app.stream_sync(x) as chunks: ...``.

        Args:
            value: The graph's input.
            options: What to do otherwise in this run.
            run: The id of the run, in a graph that keeps its runs; made up if it is left out.
            thread: The conversation that the run belongs to.

        Returns:
            A context manager that gives an iterator of chunks.
        """
        from ._sync import stream_sync

        return stream_sync(lambda: self.stream(value, options, run=run, thread=thread))

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
        self, value: InputT, options: RunOptions | None = None, *, run: str | None = None, thread: str | None = None
    ) -> AsyncGenerator[StreamReader[Event], None]:
        """Run the graph in stream mode and watch all that happens, nested graphs included, in one ordered stream.

        The last event of a run that succeeds is its :class:`RunEnded`, with the whole output. A run that fails gives
        its :class:`RunFailed`, and then the reader raises the error. Leaving the block ends the run.

        Args:
            value: The graph's input.
            options: What to do otherwise in this run.
            run: The id of the run, in a graph that keeps its runs; made up if it is left out.
            thread: The conversation that the run belongs to.

        Yields:
            The reader of the events.

        Raises:
            RunOptionsError: If the options do not fit the graph; nothing has run.
            ValueTypeError: If the input is not of the graph's input type; nothing has run.
        """
        record = await self._new_record(value, options, run, thread) if self._keeps(run, thread) else None
        if record is None:
            self._check_input(Run(self.plan, STREAMS, resolve(self.plan, options, None), None, ""), value)
        async with self._events(record, boxed(value), options) as reader:
            yield reader

    @asynccontextmanager
    async def _events(
        self, record: Record | None, packet: StreamReader[Any] | None, options: RunOptions | None
    ) -> AsyncGenerator[StreamReader[Event], None]:
        reader, writer = pipe[Event](capacity=sys.maxsize)
        if record is None:
            begun = self._open(STREAMS, options, sink=writer.send_nowait)
        else:
            begun = self._kept_run(record, STREAMS, options, writer.send_nowait)
        crew = make_crew()
        await crew.open()
        try:
            crew.start(0, self._fill(begun, record, packet, writer), copy_context())
            async with reader:
                yield reader
        finally:
            await crew.close()

    async def _fill(
        self, begun: Run, record: Record | None, packet: StreamReader[Any] | None, writer: StreamWriter[Event]
    ) -> None:
        try:
            async with stream_scope() as scope:
                assert begun.observer is not None, "a run whose events are wanted is watched"
                begun.observer.scope = scope
                begun.base = copy_context()  # the streams of nodes belong to this scope
                await self._drain(begun, record, packet)
                await begun.observer.settled()
        except Exception as error:
            await writer.fail(error)
        else:
            writer.close()
        finally:
            writer.close()

    async def _drain(self, begun: Run, record: Record | None, packet: StreamReader[Any] | None) -> None:
        """Run to the end of the output, and tell if the run stops before."""
        if record is None:
            async with await run_plan(begun, packet) as reader:
                async for _ in reader:
                    pass
            return
        from ._events import RunPaused
        from ._interrupted import Interrupted
        from ._keep import AtWork, guarded

        assert begun.observer is not None, "a run whose events are wanted is watched"
        try:
            async with AtWork(record) as work, guarded(work, record, begun, await run_plan(begun, packet)) as reader:
                async for _ in reader:
                    pass
        except Interrupted as paused:
            begun.observer.say(begun, RunPaused, "", interrupts=paused.interrupts)

    # -- runs that are kept ------------------------------------------------------------------------------------

    def _keeps(self, run: str | None, thread: str | None) -> bool:
        """Whether a run is to be kept; one inside a run that is kept is a part of that, unless it is named."""
        if self._keeping is not None:
            return run is not None or current_part.get() is None
        if run is not None or thread is not None:
            raise RunOptionsError("run= and thread= are for a graph that keeps its runs: compile it with store=…")
        return False

    async def _new_record(self, value: Any, options: RunOptions | None, run: str | None, thread: str | None) -> Record:
        from . import _keep

        resolve(self.plan, options, None)
        check = self.plan.input_check
        if check is not None and not check.accepts(value):
            raise ValueTypeError("", check.edge, check.wanted, value_type_name(value))
        return await _keep.new_record(self._kept(), run, thread)

    async def _whole_input(self, source: AsyncIterable[Any] | Iterable[Any]) -> Any:
        reader = StreamReader.from_iterable(source)
        start = self.plan.nodes[self.plan.start]
        return await chunks_to_value(
            Run(self.plan, STREAMS, resolve(self.plan, None, None), None, ""), start, reader, start.gives
        )

    # -- all runs ----------------------------------------------------------------------------------------------

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
        part = current_part.get()
        if part is None:
            if resolved.given.control is not None:
                raise RunOptionsError("control= pauses a run that is kept: compile the graph with store=…")
            return Run(self.plan, packets, resolved, None, "")
        resolved.run_id = part.record.id
        return Run(
            self.plan, packets, resolved, None, "", part.nested(self.plan, f"{part.prefix}run {part.number('run')}")
        )

    def _input_reader(self, run: Run, source: AsyncIterable[Any] | Iterable[Any]) -> StreamReader[Any]:
        """Make the stream of the input's chunks, which are tested as they come."""
        check = self.plan.input_check
        if check is None:
            return StreamReader.from_iterable(source)
        if check.whole or not isasyncgen(source):
            return checked_reader(run, check, StreamReader.from_iterable(source))
        return StreamReader.from_iterable(checked_chunks(run, check, cast("AsyncGenerator[Any, None]", source)))

    def _check_input(self, run: Run, value: Any) -> None:
        check = self.plan.input_check
        if check is not None and not check.accepts(value):
            raise run.fail(ValueTypeError("", check.edge, check.wanted, value_type_name(value)))
