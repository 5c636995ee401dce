"""What a graph that was compiled with a store can do with its runs: begin and resume them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..schema import StreamReader, stream_scope
from ._kept_looks import KeptLooks
from ._options import RunOptions, resolve
from ._packets import STREAMS, VALUES, Packets
from ._run import Run
from ._schedule import run_plan
from .errors import AnswersMissingError, UnknownInterruptError

if TYPE_CHECKING:
    from ._events import Event
    from ._interrupt import Interrupt
    from ._record import Record

OutputT = TypeVar("OutputT")


@dataclass(frozen=True, slots=True)
class Done(Generic[OutputT]):
    """A run has ended."""

    value: OutputT
    """Its output."""


@dataclass(frozen=True, slots=True)
class Paused:
    """A run was saved and has stopped."""

    run: str
    """Its id."""
    interrupts: tuple[Interrupt, ...]
    """Everything that it waits for."""


class _Missing:
    """Stands for an answer that was not given, since None is one."""

    def __repr__(self) -> str:
        return "<no answer>"


MISSING: Any = _Missing()


class KeptRuns(KeptLooks[OutputT]):
    """The part of a :class:`Runnable` that deals with runs in a store."""

    @abstractmethod
    async def invoke(
        self, value: Any, options: RunOptions | None = None, *, run: str | None = None, thread: str | None = None
    ) -> OutputT:
        """See :meth:`Runnable.invoke`."""

    async def resume(
        self,
        run: str,
        answers: Mapping[str, Any] | None = None,
        options: RunOptions | None = None,
        *,
        answer: Any = MISSING,
        takeover: bool = False,
    ) -> OutputT:
        """Go on with a run that was paused, failed, or lost its process.

        What was done is not done again. Answers are tested before anything runs.

        Args:
            run: The id of the run.
            answers: The answers, by the ids of the interrupts; those that are left out are still waited for.
            options: As for :meth:`Runnable.invoke`.
            answer: The answer, where the run waits for one only.
            takeover: Go on although another process seems to be at work on the run.

        Returns:
            The graph's output.

        Raises:
            ResumeError: If it cannot go on as asked: there is no such run, it has ended, another graph made it, the
                answers do not fit; nothing has run.
            RunConflict: If somebody else is at work on it.
            Interrupted: If it waits for further answers.
            GraphRunError: As :meth:`Runnable.invoke`.

        Example:
            >>> from anabranch.compose import END, START, Graph, Interrupted, MemoryStore, interrupt
            >>> async def delete(path: str) -> str:
            ...     return "deleted" if await interrupt(f"delete {path}?", answer=bool) else "kept"
            >>> graph = Graph[str, str]()
            >>> graph.add_edge(START, graph.add_node("delete", delete))
            >>> graph.add_edge("delete", END)
            >>> app = graph.compile(store=MemoryStore())
            >>> try:
            ...     await app.invoke("notes.txt", run="r1")
            ... except Interrupted as paused:
            ...     print(paused.interrupts[0].payload)
            delete notes.txt?
            >>> await app.resume("r1", answer=True)
            'deleted'
        """
        record = await self._reopened(run, answers, answer, options, takeover)
        output: OutputT = await self._run_kept(record, None, options)
        return output

    @asynccontextmanager
    async def resume_stream(
        self,
        run: str,
        answers: Mapping[str, Any] | None = None,
        options: RunOptions | None = None,
        *,
        answer: Any = MISSING,
        takeover: bool = False,
    ) -> AsyncGenerator[StreamReader[OutputT], None]:
        """Do what :meth:`resume` does, and give the output as a stream; what was read before a pause is left out.

        Args:
            run: The id of the run.
            answers: As for :meth:`resume`.
            options: As for :meth:`resume`.
            answer: As for :meth:`resume`.
            takeover: As for :meth:`resume`.

        Yields:
            The reader of the output's chunks.

        Raises:
            ResumeError: As :meth:`resume`.
        """
        record = await self._reopened(run, answers, answer, options, takeover)
        async with self._stream_kept(record, None, options) as reader:
            yield reader

    @asynccontextmanager
    async def resume_events(
        self,
        run: str,
        answers: Mapping[str, Any] | None = None,
        options: RunOptions | None = None,
        *,
        answer: Any = MISSING,
        takeover: bool = False,
    ) -> AsyncGenerator[StreamReader[Event], None]:
        """Do what :meth:`resume` does, and give all that happens, as :meth:`Runnable.events` does.

        Args:
            run: The id of the run.
            answers: As for :meth:`resume`.
            options: As for :meth:`resume`.
            answer: As for :meth:`resume`.
            takeover: As for :meth:`resume`.

        Yields:
            The reader of the events; of a run that stops again the last one is its :class:`RunPaused`.

        Raises:
            ResumeError: As :meth:`resume`.
        """
        record = await self._reopened(run, answers, answer, options, takeover)
        async with self._events(record, None, options) as reader:
            yield reader

    def resume_sync(
        self,
        run: str,
        answers: Mapping[str, Any] | None = None,
        options: RunOptions | None = None,
        *,
        answer: Any = MISSING,
        takeover: bool = False,
    ) -> OutputT:
        """Do what :meth:`resume` does from code without ``await``.

        Args:
            run: The id of the run.
            answers: As for :meth:`resume`.
            options: As for :meth:`resume`.
            answer: As for :meth:`resume`.
            takeover: As for :meth:`resume`.

        Returns:
            The graph's output.
        """
        from ._sync import run_sync

        return run_sync(lambda: self.resume(run, answers, options, answer=answer, takeover=takeover))

    async def start(
        self, value: Any, options: RunOptions | None = None, *, run: str | None = None, thread: str | None = None
    ) -> Done[OutputT] | Paused:
        """Do what :meth:`Runnable.invoke` does, and give a pause as a result instead of raising it.

        Args:
            value: The graph's input.
            options: As for :meth:`Runnable.invoke`.
            run: The id of the run.
            thread: The conversation that the run belongs to.

        Returns:
            The output, or what the run waits for.

        Raises:
            GraphRunError: As :meth:`Runnable.invoke`.
        """
        return await _outcome(lambda: self.invoke(value, options, run=run, thread=thread))

    async def proceed(
        self,
        run: str,
        answers: Mapping[str, Any] | None = None,
        options: RunOptions | None = None,
        *,
        answer: Any = MISSING,
        takeover: bool = False,
    ) -> Done[OutputT] | Paused:
        """Do what :meth:`resume` does, and give a pause as a result instead of raising it.

        Args:
            run: The id of the run.
            answers: As for :meth:`resume`.
            options: As for :meth:`resume`.
            answer: As for :meth:`resume`.
            takeover: As for :meth:`resume`.

        Returns:
            The output, or what the run waits for.

        Raises:
            ResumeError: As :meth:`resume`.
        """
        return await _outcome(lambda: self.resume(run, answers, options, answer=answer, takeover=takeover))

    # -- what these share --------------------------------------------------------------------------------------

    async def _reopened(
        self, run: str, answers: Mapping[str, Any] | None, answer: Any, options: RunOptions | None, takeover: bool
    ) -> Record:
        """Read a run, test the answers, and note that this process goes on with it."""
        from . import _keep
        from ._kept_check import check_document

        resolve(self.plan, options, None)
        record = await _keep.old_record(self._kept(), run, takeover=takeover)
        check_document(record, self.plan)
        if answer is not MISSING:
            if answers is not None:
                raise TypeError("give answers= by id, or answer= for the only question, not both")
            waiting = [one for one in _keep.pending(record) if not _is_breakpoint(one)]
            if len(waiting) != 1:
                ids = ", ".join(repr(one.id) for one in waiting) or "nothing"
                error = AnswersMissingError if waiting else UnknownInterruptError
                raise error(run, f"answer= is for a run that waits for one answer; it waits for {ids}")
            answers = {waiting[0].id: answer}
        asks = options is not None and options.on_interrupt is not None
        await _keep.go_on_with(record, answers or {}, asks=asks)
        return record

    async def _run_kept(self, record: Record, value: Any, options: RunOptions | None) -> Any:
        """Run a graph from a value to a value."""
        from . import _keep

        async with _keep.AtWork(record) as work:
            run = self._kept_run(record, VALUES, options)
            if run.observer is None:
                output = await run_plan(run, value)
            else:
                async with stream_scope() as scope:
                    run.observer.scope = scope
                    output = await run_plan(run, value)
                    await run.observer.settled()
            await work.done(run, output)
            return output

    @asynccontextmanager
    async def _stream_kept(
        self, record: Record, packet: StreamReader[Any] | None, options: RunOptions | None
    ) -> AsyncGenerator[StreamReader[Any], None]:
        """Run a graph to a stream."""
        from . import _keep

        async with stream_scope() as scope, _keep.AtWork(record) as work:
            run = self._kept_run(record, STREAMS, options)
            if run.observer is not None:
                run.observer.scope = scope
            reader = _keep.guarded(work, record, run, await run_plan(run, packet))
            try:
                yield reader
            finally:
                await reader.aclose()
                if run.observer is not None:
                    await run.observer.settled_if_over()

    @abstractmethod
    def _events(
        self, record: Record | None, packet: StreamReader[Any] | None, options: RunOptions | None
    ) -> AbstractAsyncContextManager[StreamReader[Event]]:
        """See :class:`Runnable`."""

    def _kept_run(
        self,
        record: Record,
        packets: Packets,
        options: RunOptions | None,
        sink: Callable[[Event], None] | None = None,
    ) -> Run:
        from . import _keep

        resolved = resolve(self.plan, options, sink)
        resolved.run_id = record.id
        record.control = resolved.given.control
        return Run(self.plan, packets, resolved, None, "", _keep.scope_of(record, self.plan))


def _is_breakpoint(one: Interrupt) -> bool:
    from ._interrupt import Breakpoint

    return isinstance(one.payload, Breakpoint)


async def _outcome(go: Callable[[], Awaitable[OutputT]]) -> Done[OutputT] | Paused:
    from ._interrupted import Interrupted

    try:
        return Done(await go())
    except Interrupted as paused:
        return Paused(paused.run, paused.interrupts)
