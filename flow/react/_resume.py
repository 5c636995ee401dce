"""The ways to go on with an agent's run that has stopped, and to look at runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from typing_extensions import TypeVar, Unpack

from ...compose import Checkpoint, Done, Event, Interrupt, KeptRun, Paused, RunOptions
from ...schema import Message, StreamReader
from ._ask import AgentResult, Asks
from ._runs import Resume, ResumeOptions, outcome
from ._state import AgentState

OutputT = TypeVar("OutputT", default=Any)

Answers = Mapping[str, Any]
"""Answers by the ids of the interrupts."""


class Resumes(Asks[OutputT]):
    """The part of an agent that deals with its runs in a store."""

    async def resume(
        self,
        run: str,
        answers: Answers | None = None,
        options: RunOptions | None = None,
        **given: Unpack[ResumeOptions],
    ) -> Message:
        """Go on with a run that was paused, failed, or lost its process; what was done is not done again.

        Where the run is a turn of a conversation, its messages become the thread's. Messages that were sent while it
        waited (``waiting="queue"``) are the next turn then, and its answer is what this gives.

        Args:
            run: The id of the run.
            answers: The answers, by the ids of the interrupts; those that are left out are still waited for.
            options: As for :meth:`generate`.
            **given: ``answer``, the answer where the run waits for one only; ``takeover=True`` goes on although another
                process seems to be at work on the run.

        Returns:
            The answer of the agent.

        Raises:
            ResumeError: If it cannot go on as asked: there is no such run, it has ended, another graph made it, the
                answers do not fit; nothing has run.
            RunConflict: If somebody else is at work on it, or on its conversation.
            Interrupted: If it waits for further answers.
            GraphRunError: As :meth:`generate`.

        Example:
            >>> from anabranch.compose import Interrupted, MemoryStore, interrupt
            >>> from anabranch.compose.testing import ScriptedModel
            >>> from anabranch.schema import ToolCall, tool
            >>> @tool
            ... async def delete(path: str) -> str:
            ...     '''Delete a file.'''
            ...     return "deleted" if await interrupt(f"delete {path}?", answer=bool) else "not allowed"
            >>> call = ToolCall(id="c1", name="delete", arguments='{"path": "a.txt"}')
            >>> model = ScriptedModel([Message.assistant(tool_calls=[call]), "I left it alone."])
            >>> agent = ReactAgent(model, tools=[delete], store=MemoryStore())
            >>> try:
            ...     await agent.generate("Tidy up.", run="r1")
            ... except Interrupted as paused:
            ...     print(paused.interrupts[0].payload)
            delete a.txt?
            >>> (await agent.resume("r1", answer=False)).text
            'I left it alone.'
        """
        message, _ = await self._runs.value(Resume(run, answers, options, given))
        return message

    async def resume_run(
        self,
        run: str,
        answers: Answers | None = None,
        options: RunOptions | None = None,
        **given: Unpack[ResumeOptions],
    ) -> AgentResult[OutputT]:
        """Do what :meth:`resume` does, and give the history and the usage too, as :meth:`run` does.

        Args:
            run: The id of the run.
            answers: As for :meth:`resume`.
            options: As for :meth:`resume`.
            **given: As for :meth:`resume`.

        Returns:
            The answer and what led to it, also before the pause.
        """
        return self._result(*await self._runs.value(Resume(run, answers, options, given)))

    async def proceed(
        self,
        run: str,
        answers: Answers | None = None,
        options: RunOptions | None = None,
        **given: Unpack[ResumeOptions],
    ) -> Done[Message] | Paused:
        """Do what :meth:`resume` does, and give a pause as a result instead of raising it.

        Args:
            run: The id of the run.
            answers: As for :meth:`resume`.
            options: As for :meth:`resume`.
            **given: As for :meth:`resume`.

        Returns:
            The answer, or what the run waits for.
        """
        return await outcome(lambda: self.resume(run, answers, options, **given))

    def resume_stream(
        self,
        run: str,
        answers: Answers | None = None,
        options: RunOptions | None = None,
        **given: Unpack[ResumeOptions],
    ) -> AbstractAsyncContextManager[StreamReader[Message]]:
        """Do what :meth:`resume` does, and give the answer chunk by chunk; what was read of it before is left out.

        Args:
            run: The id of the run.
            answers: As for :meth:`resume`.
            options: As for :meth:`resume`.
            **given: As for :meth:`resume`.

        Returns:
            A context manager that gives the reader of the answer's chunks.
        """
        return self._runs.stream(Resume(run, answers, options, given))

    def resume_events(
        self,
        run: str,
        answers: Answers | None = None,
        options: RunOptions | None = None,
        **given: Unpack[ResumeOptions],
    ) -> AbstractAsyncContextManager[StreamReader[Event]]:
        """Do what :meth:`resume` does, and give all that happens, as :meth:`events` does.

        Args:
            run: The id of the run.
            answers: As for :meth:`resume`.
            options: As for :meth:`resume`.
            **given: As for :meth:`resume`.

        Returns:
            A context manager that gives the reader of the events.
        """
        return self._runs.events(Resume(run, answers, options, given))

    def resume_sync(
        self,
        run: str,
        answers: Answers | None = None,
        options: RunOptions | None = None,
        **given: Unpack[ResumeOptions],
    ) -> Message:
        """Do what :meth:`resume` does from code without ``await``.

        Args:
            run: The id of the run.
            answers: As for :meth:`resume`.
            options: As for :meth:`resume`.
            **given: As for :meth:`resume`.

        Returns:
            The answer of the agent.
        """
        from ...compose._sync import run_sync

        return run_sync(lambda: self.resume(run, answers, options, **given))

    # -- looking at runs ---------------------------------------------------------------------------------------

    async def pending(self, run: str) -> tuple[Interrupt, ...]:
        """Give everything that a run waits for.

        Args:
            run: The id of the run.

        Returns:
            The interrupts.

        Raises:
            UnknownRunError: If there is no such run.
        """
        return await self._runs.app.pending(run)

    async def output(self, run: str) -> Message:
        """Give the answer of a run that has ended.

        Args:
            run: The id of the run.

        Returns:
            The answer.

        Raises:
            UnknownRunError: If there is no such run; also for one that ended as a turn of a conversation without ever
                stopping, if its id was made up.
            ResumeError: If it has not ended.
        """
        return await self._runs.app.output(run)

    async def state(self, run: str, version: int | None = None) -> AgentState | None:
        """Give the state of a run: its history, and what it has used of its limits.

        Args:
            run: The id of the run.
            version: Which version of it; the newest if it is left out.

        Returns:
            The state; None if the run had not begun, or its messages are those of a conversation by now.

        Raises:
            UnknownRunError: If there is no such run, or no such version.
        """
        found: AgentState | None = await self._runs.app.state(run, version)
        return found

    async def history(self, run: str) -> Sequence[Checkpoint]:
        """Give all versions of a run, the oldest first.

        Args:
            run: The id of the run.

        Returns:
            What each of them says.

        Raises:
            UnknownRunError: If there is no such run.
        """
        return await self._runs.app.history(run)

    async def fork(self, run: str, version: int | None = None, *, new: str | None = None) -> str:
        """Copy a version of a run, to go on from there in another way: :meth:`resume` the copy.

        The copy of a turn of a conversation is a run of its own; what it answers does not go into the thread.

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
        return await self._runs.app.fork(run, version, new=new)

    async def runs(self, *, thread: str | None = None, limit: int = 100, after: str | None = None) -> Sequence[KeptRun]:
        """List the runs of the store, in the order of their ids.

        Args:
            thread: Only those of this conversation.
            limit: At most so many.
            after: Only ids behind this one, for the next page.

        Returns:
            What is known of each without reading it.
        """
        return await self._runs.app.runs(thread=thread, limit=limit, after=after)
