"""The ways to ask an agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, cast

from typing_extensions import TypeVar, Unpack

from ...compose import Done, Event, Paused, Runnable, RunOptions
from ...schema import Message, StreamReader, Usage
from ._output import Output
from ._runs import AgentRuns, Begin, TurnOptions, leaving_state, outcome
from ._state import AgentState

OutputT = TypeVar("OutputT", default=Any)

Question = str | Message | Sequence[Message]
"""What an agent can be asked: a user's text, a message, or a whole history."""


@dataclass(frozen=True, slots=True)
class AgentResult(Generic[OutputT]):
    """What a run of an agent gave.

    Attributes:
        message: The answer; the last message of the history.
        messages: The history: what the agent was given, and all that came after.
        usage: What the model calls of this run cost.
        rounds: How often the model was asked.
        output: The answer as a value, for an agent with an ``output`` type; else None.
    """

    message: Message
    messages: list[Message]
    usage: Usage
    rounds: int
    output: OutputT

    @property
    def text(self) -> str:
        """The text of the answer."""
        return self.message.text


class Asks(Generic[OutputT]):
    """The part of an agent that is asked.

    Each way takes ``run=``, ``thread=``, ``busy=`` and ``waiting=`` by name where the agent has a store.
    """

    runnable: Runnable[list[Message], Message]
    """The agent's graph, compiled; it keeps no runs."""
    _runs: AgentRuns
    _output: Output[OutputT] | None

    async def generate(
        self, question: Question, options: RunOptions | None = None, **kept: Unpack[TurnOptions]
    ) -> Message:
        """Ask the agent, and wait for its answer.

        Args:
            question: A user's text, a message, or a history.
            options: What to do otherwise in this run.
            **kept: For an agent with a store: ``run``, the id of the run; ``thread``, the conversation whose next turn
                this is; ``busy`` and ``waiting``, as for :class:`ReactAgent`.

        Returns:
            The answer: the model's last message, or the message of a tool whose result is returned directly.

        Raises:
            RoundLimitExceeded: The model was asked ``max_rounds`` times without an answer; there are such errors for
                ``max_tool_calls`` and ``max_tokens`` too.
            NodeError: The model or something of the user's failed; the original is its ``__cause__``.
            Interrupted: The run was saved and waits for an answer.
            RunConflict: There is such a run already, or another turn of the thread is under way.
            TurnUnfinished: The last turn of the thread has not ended.
        """
        if not kept and self._runs.turns is None:
            return await self.runnable.invoke(history_of(question), options)
        message, _ = await self._runs.value(Begin(history_of(question), options, kept))
        return message

    async def run(
        self, question: Question, options: RunOptions | None = None, **kept: Unpack[TurnOptions]
    ) -> AgentResult[OutputT]:
        """Do what :meth:`generate` does, and give the history and the usage too.

        Args:
            question: A user's text, a message, or a history.
            options: What to do otherwise in this run.
            **kept: As for :meth:`generate`.

        Returns:
            The answer and what led to it.
        """
        if kept or self._runs.turns is not None:
            return self._result(*await self._runs.value(Begin(history_of(question), options, kept)))
        with leaving_state() as left:
            message = await self.runnable.invoke(history_of(question), options)
        return self._result(message, left[0])

    def _result(self, message: Message, state: AgentState) -> AgentResult[OutputT]:
        output = None if self._output is None else self._output.read(message, state.messages)
        return AgentResult(message, list(state.messages), state.usage, state.rounds, cast("OutputT", output))

    async def start(
        self, question: Question, options: RunOptions | None = None, **kept: Unpack[TurnOptions]
    ) -> Done[Message] | Paused:
        """Do what :meth:`generate` does, and give a pause as a result instead of raising it.

        Args:
            question: A user's text, a message, or a history.
            options: What to do otherwise in this run.
            **kept: As for :meth:`generate`.

        Returns:
            The answer, or what the run waits for.
        """
        return await outcome(lambda: self.generate(question, options, **kept))

    def stream(
        self, question: Question, options: RunOptions | None = None, **kept: Unpack[TurnOptions]
    ) -> AbstractAsyncContextManager[StreamReader[Message]]:
        """Ask the agent, and read its answer chunk by chunk: ``async with agent.stream(question) as reader: ...``.

        Args:
            question: A user's text, a message, or a history.
            options: What to do otherwise in this run.
            **kept: As for :meth:`generate`. A turn of a conversation has ended when its answer was read to the end.

        Returns:
            A context manager that gives the reader of the answer's chunks; leaving it ends the run.
        """
        if not kept and self._runs.turns is None:
            return self.runnable.stream(history_of(question), options)
        return self._runs.stream(Begin(history_of(question), options, kept))

    def events(
        self, question: Question, options: RunOptions | None = None, **kept: Unpack[TurnOptions]
    ) -> AbstractAsyncContextManager[StreamReader[Event]]:
        """Ask the agent, and watch all that happens: ``async with agent.events(question) as events: ...``.

        Args:
            question: A user's text, a message, or a history.
            options: What to do otherwise in this run.
            **kept: As for :meth:`generate`. A turn of a conversation has ended when its events were read to the end.

        Returns:
            A context manager that gives the reader of the events; the last one of a run that succeeds is its
            :class:`~anabranch.compose.RunEnded`, that of one that was saved and waits its
            :class:`~anabranch.compose.RunPaused`.
        """
        if not kept and self._runs.turns is None:
            return self.runnable.events(history_of(question), options)
        return self._runs.events(Begin(history_of(question), options, kept))

    def generate_sync(
        self, question: Question, options: RunOptions | None = None, **kept: Unpack[TurnOptions]
    ) -> Message:
        """Do what :meth:`generate` does from code without ``await``.

        Args:
            question: A user's text, a message, or a history.
            options: What to do otherwise in this run.
            **kept: As for :meth:`generate`.

        Returns:
            The answer.
        """
        from ...compose._sync import run_sync

        return run_sync(lambda: self.generate(question, options, **kept))

    def stream_sync(
        self, question: Question, options: RunOptions | None = None, **kept: Unpack[TurnOptions]
    ) -> AbstractContextManager[Iterator[Message]]:
        """Do what :meth:`stream` does from code without ``await``: ``with agent.stream_sync(question) as chunks: ...``.

        Args:
            question: A user's text, a message, or a history.
            options: What to do otherwise in this run.
            **kept: As for :meth:`generate`.

        Returns:
            A context manager that gives an iterator of chunks.
        """
        from ...compose._sync import stream_sync

        return stream_sync(lambda: self.stream(question, options, **kept))


def history_of(question: Question) -> list[Message]:
    """Make a history of a question."""
    if isinstance(question, str):
        return [Message.user(question)]
    if isinstance(question, Message):
        return [question]
    messages = list(question)
    for message in cast("list[Any]", messages):
        if not isinstance(message, Message):
            raise TypeError(f"an agent is asked a text, a Message or a list of messages, got {type(message).__name__}")
    return messages
