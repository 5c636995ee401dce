"""What a graph that was compiled with a store can do with its runs: begin, resume, look at and copy them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..schema import StreamReader, stream_scope
from ._options import RunOptions, resolve
from ._packets import STREAMS, VALUES, Packets
from ._plan import Plan
from ._run import Run
from ._schedule import run_plan
from .errors import AnswersMissingError, UnknownInterruptError

if TYPE_CHECKING:
    from ._events import Event
    from ._interrupt import Interrupt
    from ._record import Keeping, Record

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


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One version of a run."""

    version: int
    """From 1."""
    created: float
    """When it was written, in seconds since 1970."""
    size: int
    """How many bytes it took."""
    steps: int
    """How many steps the outermost graph had begun, while it had not ended."""
    next: tuple[str, ...]
    """The nodes of the outermost graph that were to run next, or were at work."""
    interrupts: tuple[Interrupt, ...]
    """What the run waited for."""


class _Missing:
    """Stands for an answer that was not given, since None is one."""

    def __repr__(self) -> str:
        return "<no answer>"


MISSING: Any = _Missing()


class KeptRuns(Generic[OutputT]):
    """The part of a :class:`Runnable` that deals with runs in a store."""

    plan: Plan
    _keeping: Keeping | None

    async def invoke(
        self, value: Any, options: RunOptions | None = None, *, run: str | None = None, thread: str | None = None
    ) -> OutputT:
        """See :meth:`Runnable.invoke`."""
        raise NotImplementedError

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
        """Do what :meth:`resume` does, and give the output as a stream; what was read of it before is left out.

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

    # -- looking at runs ---------------------------------------------------------------------------------------

    async def pending(self, run: str) -> tuple[Interrupt, ...]:
        """Give everything that a run waits for.

        Args:
            run: The id of the run.

        Returns:
            The interrupts. Of a question that another process asked with a model of its own as the payload, the
            payload is the dict of its fields.

        Raises:
            UnknownRunError: If there is no such run.
        """
        from . import _keep

        record = await self._looked_up(run)
        return tuple(_keep.pending(record))

    async def output(self, run: str) -> OutputT:
        """Give the output of a run that has ended.

        Args:
            run: The id of the run.

        Returns:
            The output.

        Raises:
            UnknownRunError: If there is no such run.
            ResumeError: If it has not ended.
        """
        from ._keep import reading
        from ._scope import codecs_of
        from .errors import ResumeError

        record = await self._looked_up(run)
        if "output" not in record.doc:
            raise ResumeError(run, "it has not ended; resume it")
        with reading(record):
            output: OutputT = codecs_of(self.plan).output(self.plan.end).decode(record.doc["output"])
        return output

    async def state(self, run: str, version: int | None = None) -> Any:
        """Give the state of the outermost graph of a run.

        Args:
            run: The id of the run.
            version: Which version of it; the newest if it is left out.

        Returns:
            The state, or None if the graph has none or the run had not begun.

        Raises:
            UnknownRunError: If there is no such run, or no such version.
        """
        from ._keep import GRAPH, reading
        from ._scope import codecs_of

        record = await self._looked_up(run, version)
        path = (*GRAPH, "state")
        if self.plan.state is None or record.at(path) is None:
            return None
        with reading(record):
            return codecs_of(self.plan).state.decode(record.at(path))

    async def history(self, run: str) -> Sequence[Checkpoint]:
        """Give all versions of a run, the oldest first.

        Args:
            run: The id of the run.

        Returns:
            What each of them says.

        Raises:
            UnknownRunError: If there is no such run.
        """
        from . import _keep

        await self._looked_up(run)
        found: list[Checkpoint] = []
        for version, _, size, created in await self._kept().store.versions(run):
            record = await self._looked_up(run, version)
            tasks: dict[str, Any] = record.at((*_keep.GRAPH, "tasks")) or {}
            steps = max((task["step"] for task in tasks.values()), default=0)
            nodes = tuple(task["node"] for task in tasks.values())
            found.append(Checkpoint(version, created, size, steps, nodes, tuple(_keep.pending(record))))
        return found

    async def fork(self, run: str, version: int | None = None, *, new: str | None = None) -> str:
        """Copy a version of a run, to go on from there in another way: ``resume`` the copy.

        Args:
            run: The id of the run.
            version: Which version of it; the newest if it is left out.
            new: The id of the copy; made up if it is left out.

        Returns:
            The id of the copy.

        Raises:
            UnknownRunError: If there is no such run, or no such version.
            RunConflict: If there is a run with the new id.
        """
        from . import _keep

        old = await self._looked_up(run, version)
        record = await _keep.new_record(self._kept(), new, old.thread)
        record.doc = {key: tree for key, tree in old.doc.items() if key not in ("output", "error", "delivered")}
        record.doc["run"] = record.id
        record.doc["forked"] = [run, version or old.kept.version]
        await record.commit("the copy", "paused", owner=None)
        return record.id

    async def delete(self, run: str) -> bool:
        """Delete a run, at whatever point it is.

        Args:
            run: The id of the run.

        Returns:
            Whether there was one.
        """
        return await self._kept().store.delete(run)

    # -- what these share --------------------------------------------------------------------------------------

    def _kept(self) -> Keeping:
        if self._keeping is None:
            raise RuntimeError("this graph keeps no runs; compile it with store=…")
        return self._keeping

    async def _looked_up(self, run: str, version: int | None = None) -> Record:
        from . import _keep
        from ._record import Record, adopt

        keeping = self._kept()
        log = await _keep.load(keeping, run, version)
        record = Record(keeping, run, log.head.thread, "")
        adopt(record, log, _keep.current_document(keeping, log))
        return record

    async def _reopened(
        self, run: str, answers: Mapping[str, Any] | None, answer: Any, options: RunOptions | None, takeover: bool
    ) -> Record:
        """Read a run, test the answers, and note that this process goes on with it."""
        from . import _keep

        resolve(self.plan, options, None)
        record = await _keep.old_record(self._kept(), run, takeover=takeover)
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
