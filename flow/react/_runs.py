"""How an agent runs its graph: as it is, kept in a store, or as a turn of a conversation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, get_args

from ...compose import (
    CheckpointStore,
    Done,
    Event,
    Interrupted,
    Paused,
    RunEnded,
    Runnable,
    RunOptions,
    RunOptionsError,
)
from ...schema import NO_VALUE, Message, StreamReader, concat
from ._run_logs import completed, ended_history
from ._seats import Busy
from ._state import AgentState, states
from ._turns import Turn, Turns, Waiting


class TurnOptions(TypedDict, total=False):
    """What may be said about a run that is kept."""

    run: str
    """The id of the run; made up if it is left out."""
    thread: str
    """The conversation whose next turn it is."""
    busy: Busy
    """What to do while another turn of the conversation is under way: ``"conflict"`` (an error) or ``"queue"``."""
    waiting: Waiting
    """What to do when the last turn has not ended: ``"reject"``, ``"cancel"`` or ``"queue"``."""


class AgentKeepOptions(TypedDict, total=False):
    """What :class:`ReactAgent` takes about keeping runs."""

    store: CheckpointStore
    durability: Literal["step", "pause"]
    interrupt_before: Sequence[str]
    interrupt_after: Sequence[str]
    expire_after: float
    redact: Callable[[Any], Any]
    migrate: Callable[[dict[str, Any]], dict[str, Any]]
    answers: Sequence[Any]
    busy: Busy
    waiting: Waiting


class ResumeOptions(TypedDict, total=False):
    """What may be said about how a run goes on."""

    answer: Any
    """The answer, where the run waits for one only."""
    takeover: bool
    """Go on although another process seems to be at work on the run."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A run that is to be begun."""

    question: list[Message]
    options: RunOptions | None
    given: TurnOptions


@dataclass(frozen=True, slots=True)
class Resume:
    """A run that is to go on."""

    run: str
    answers: Mapping[str, Any] | None
    options: RunOptions | None
    given: ResumeOptions


@dataclass(slots=True)
class Going:
    """What is run: from an input, or from where it has stopped."""

    run: str | None
    thread: str | None
    input: list[Message] | None
    turn: Turn | None


class AgentRuns:
    """Runs the graph of one agent."""

    def __init__(self, app: Runnable[list[Message], Message], busy: Busy, waiting: Waiting) -> None:
        self.app = app
        keeping = app._keeping  # pyright: ignore[reportPrivateUsage]
        self.turns = None if keeping is None else Turns(app, keeping)
        self._busy: Busy = _one_of("busy", busy, Busy)
        self._waiting: Waiting = _one_of("waiting", waiting, Waiting)

    def of_threads(self) -> Turns:
        """Give the conversations.

        Raises:
            RunOptionsError: The agent has no store.
        """
        if self.turns is None:
            raise RunOptionsError("thread= is for an agent that keeps its runs: ReactAgent(…, store=…)")
        return self.turns

    # -- in each of the three ways -----------------------------------------------------------------------------

    async def value(self, what: Begin | Resume) -> tuple[Message, AgentState]:
        """Run to the answer; give the state that it ended with, too."""
        async with self._going(what) as going:
            message, state = await self._value(going, what)
            if going.turn is not None:
                await going.turn.end(message, state)
            return message, state

    async def _value(self, going: Going, what: Begin | Resume) -> tuple[Message, AgentState]:
        with leaving_state() as left:
            if going.input is not None:
                message = await self.app.invoke(going.input, what.options, run=going.run, thread=going.thread)
            else:
                message = await self._resumed(what)
        if left and going.input is not None:
            return message, left[0]
        assert going.run is not None, "it is a run of the store"
        return message, await ended_history(self.app, going.run, message)

    async def _resumed(self, what: Begin | Resume) -> Message:
        assert isinstance(what, Resume), "a run without input is resumed"
        return await self.app.resume(what.run, what.answers, what.options, **what.given)

    @asynccontextmanager
    async def stream(self, what: Begin | Resume) -> AsyncGenerator[StreamReader[Message], None]:
        """Run to the answer, chunk by chunk."""
        async with self._going(what) as going, AsyncExitStack() as stack:
            with leaving_state() as left:
                reader = await stack.enter_async_context(self._open_stream(going, what))
            if going.turn is None:
                yield reader
                return
            chunks: list[Message] = []

            def passed(chunk: Message) -> Message:
                chunks.append(chunk)
                return chunk

            async def ended() -> Any:
                await self._end(going, left, concat(chunks) if going.input is not None else None)
                return NO_VALUE

            yield reader.convert(passed, on_end=ended)

    @asynccontextmanager
    async def events(self, what: Begin | Resume) -> AsyncGenerator[StreamReader[Event], None]:
        """Run to the answer, and give all that happens."""
        async with self._going(what) as going, AsyncExitStack() as stack:
            with leaving_state() as left:
                reader = await stack.enter_async_context(self._open_events(going, what))
            if going.turn is None:
                yield reader
                return
            answers: list[Message] = []

            def passed(event: Event) -> Event:
                if isinstance(event, RunEnded) and not event.path:
                    answers.append(event.output)
                return event

            async def ended() -> Any:
                if answers:
                    await self._end(going, left, answers[0])
                return NO_VALUE

            yield reader.convert(passed, on_end=ended)

    def _open_stream(self, going: Going, what: Begin | Resume) -> AbstractAsyncContextManager[StreamReader[Message]]:
        if going.input is not None:
            return self.app.stream(going.input, what.options, run=going.run, thread=going.thread)
        assert isinstance(what, Resume), "a run without input is resumed"
        return self.app.resume_stream(what.run, what.answers, what.options, **what.given)

    def _open_events(self, going: Going, what: Begin | Resume) -> AbstractAsyncContextManager[StreamReader[Event]]:
        if going.input is not None:
            return self.app.events(going.input, what.options, run=going.run, thread=going.thread)
        assert isinstance(what, Resume), "a run without input is resumed"
        return self.app.resume_events(what.run, what.answers, what.options, **what.given)

    async def _end(self, going: Going, left: list[AgentState], message: Message | None) -> None:
        assert going.turn is not None, "it is a turn"
        run = going.turn.run
        if message is None:
            message = await self.app.output(run)
        if left and going.input is not None:
            state = completed(left[0], message)
        else:
            state = await ended_history(self.app, run, message)
        await going.turn.end(message, state)

    # -- what is run -------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _going(self, what: Begin | Resume) -> AsyncGenerator[Going, None]:
        if isinstance(what, Resume):
            async with self._taken_up(what) as going:
                yield going
            return
        given = what.given
        run, thread = given.get("run"), given.get("thread")
        if thread is None:
            yield Going(run, None, what.question, None)
            return
        turns = self.of_threads()
        if run == "" or thread == "":
            raise ValueError("run= and thread= are names; leave them out to have none")
        busy: Busy = _one_of("busy", given.get("busy", self._busy), Busy)
        waiting: Waiting = _one_of("waiting", given.get("waiting", self._waiting), Waiting)
        async with turns.begun(thread, what.question, what.options, run=run, busy=busy, waiting=waiting) as turn:
            yield Going(turn.run, thread, turn.input, turn)

    @asynccontextmanager
    async def _taken_up(self, what: Resume) -> AsyncGenerator[Going, None]:
        if self.turns is None:
            raise RunOptionsError("resume is for an agent that keeps its runs: ReactAgent(…, store=…)")
        async with self.turns.taken_up(what.run, lambda: self._resumed(what)) as turn:
            if turn is None:
                yield Going(what.run, None, None, None)
            else:
                yield Going(turn.run, turn.thread, turn.input, turn)


async def outcome(go: Callable[[], Awaitable[Message]]) -> Done[Message] | Paused:
    """Give a pause as a result instead of raising it."""
    try:
        return Done(await go())
    except Interrupted as paused:
        return Paused(paused.run, paused.interrupts)


@contextmanager
def leaving_state() -> Generator[list[AgentState], None, None]:
    """Let the outermost agent that is run in the block leave its state here."""
    left: list[AgentState] = []
    token = states.set(left)
    try:
        yield left
    finally:
        states.reset(token)


def _one_of(name: str, given: Any, kind: Any) -> Any:
    if given not in get_args(kind):
        raise ValueError(f"{name}={given!r}: there are {', '.join(map(repr, get_args(kind)))}")
    return given
