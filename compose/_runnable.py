"""The compiled graph: four ways to run it, and what can be asked of it."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Generic

from typing_extensions import TypeVar

from ..schema import StreamReader, stream_scope
from ._body import Body
from ._observe import Observer, observer_for
from ._options import RunOptions, resolve
from ._packets import STREAMS, VALUES, Packets
from ._plan import Plan
from ._run import Run
from ._schedule import run_plan
from ._streams import boxed, chunks_to_value
from ._sync import run_sync, stream_sync
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
        async with stream_scope():
            return await run_plan(run, value)  # type: ignore[no-any-return]

    @asynccontextmanager
    async def stream(
        self, value: InputT, options: RunOptions | None = None
    ) -> AsyncIterator[StreamReader[OutputT]]:
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
        async with stream_scope():
            run = self._open(STREAMS, options)
            self._check_input(run, value)
            reader = await run_plan(run, boxed(value))
            try:
                yield reader
            finally:
                await reader.aclose()

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
        async with stream_scope():
            run = self._open(STREAMS, options)
            reader = await run_plan(run, StreamReader.from_iterable(source))
            end = run.plan.nodes[run.plan.end]
            return await chunks_to_value(run, end, reader, run.plan.output)  # type: ignore[no-any-return]

    @asynccontextmanager
    async def transform(
        self, source: AsyncIterable[InputT] | Iterable[InputT], options: RunOptions | None = None
    ) -> AsyncIterator[StreamReader[OutputT]]:
        """Run the graph from a stream to a stream, which is open inside the ``async with``.

        Args:
            source: A reader, or any iterable or async iterable of chunks.
            options: What to do otherwise in this run.

        Yields:
            The reader of the output's chunks.

        Raises:
            GraphRunError: As :meth:`stream`.
        """
        async with stream_scope():
            run = self._open(STREAMS, options)
            reader = await run_plan(run, StreamReader.from_iterable(source))
            try:
                yield reader
            finally:
                await reader.aclose()

    def invoke_sync(self, value: InputT, options: RunOptions | None = None) -> OutputT:
        """Do what :meth:`invoke` does from code without ``await``: a script, a notebook, also inside a running loop.

        Args:
            value: The graph's input.
            options: What to do otherwise in this run.

        Returns:
            The graph's output.
        """
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
        return stream_sync(lambda: self.stream(value, options))

    def as_node(self) -> Body:
        """Give the body of a node that runs this graph nested in another."""
        plan = self.plan
        return Body(plan.input, plan.output, plan.kind, plan.name or plan.kind, nested=plan, target=self)

    def _open(self, packets: Packets, options: RunOptions | None, observer: Observer | None = None) -> Run:
        resolved = resolve(self.plan, options, lambda given: observer or observer_for(given))
        return Run(self.plan, packets, resolved, None, "")

    def _check_input(self, run: Run, value: Any) -> None:
        check = self.plan.input_check
        if check is not None and not check.accepts(value):
            raise run.fail(ValueTypeError("", check.edge, check.wanted, value_type_name(value)))
