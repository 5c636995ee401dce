"""Turns of conversations: each is a run of its own, whose messages become the thread's when it has ended.

A turn is begun in the thread's log (its question is there from then on), run as a run of the store, and ended in the
thread's log; then the run's own log is cleared away. A process can die between any two of these, and whoever comes
next sees what is missing:

T1  The thread names a run that has ended: its messages are taken over. One that was taken over is named no more.
T2  The thread names a run that has not ended: it is resumed, given up, or waited for, as the caller chooses.
T3  The thread names a run that is not in the store: nothing of it was saved, it has still to be begun.
T4  A run that was given up is marked as ended, with what is kept of it, in the same write by which it is claimed; so
    nobody resumes it meanwhile.
T5  A run whose id a caller may know leaves a mark in place of its log, by which it is recognised as ended.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import anyio
from anyio import CancelScope

from ...compose import (
    AnswersMissingError,
    Interrupt,
    Interrupted,
    ResumeError,
    RunConflict,
    Runnable,
    RunOptions,
    StoreError,
    VersionConflict,
)
from ...compose._owner import active, is_at_work
from ...schema import AnabranchError, Message, repair_history
from ._run_logs import ended_history, given_up, mark, result_of, stopped_history
from ._seats import Busy, seat
from ._state import AgentState
from ._thread_log import OpenTurn, ThreadLog
from .errors import ThreadConflict, TurnUnfinished

if TYPE_CHECKING:
    from ...compose import StoredLog
    from ...compose._record import Keeping
    from ...compose._tracker import Op

Waiting = Literal["reject", "cancel", "queue"]
"""What to do with a new message when the last turn has not ended: refuse it, give that turn up, or let it wait."""

FIRST_WAIT, LONGEST_WAIT = 0.02, 0.5
"""How many seconds pass between looks at a turn that another process is at work on."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How the turn of a conversation stands that has not ended."""

    kind: Literal["busy", "done", "paused", "failed", "left", "gone"]
    stored: StoredLog | None = None


class Claims:
    """The conversations that this process is at work on, in whichever of its event loops and threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[int, str]] = Counter()

    def take(self, mark: tuple[int, str]) -> None:
        """Say so, before it is written: who reads what was written must not think that nobody is at work."""
        with self._lock:
            self._counts[mark] += 1
            active.add(mark)

    def give_back(self, mark: tuple[int, str]) -> None:
        """Say that it is no more; another one, who wants to be at work too, may still have said so."""
        with self._lock:
            self._counts[mark] -= 1
            if self._counts[mark] <= 0:
                del self._counts[mark]
                active.discard(mark)


CLAIMS = Claims()


class Turn:
    """One turn that is under way in this process; ``async with`` around it settles how it was left."""

    def __init__(self, turns: Turns, log: ThreadLog, run: str, question: list[Message] | None, *, known: bool) -> None:
        self._turns = turns
        self._log = log
        self.thread = log.thread
        self.run = run
        self.input = question
        """What the run begins with; None if it is to be resumed."""
        self._known = known
        self._mark = (id(turns.keeping.store), log.id)
        self._ended = False
        self._claimed = False

    async def claimed(self, ops: Sequence[Op], messages: Sequence[Message] | None = None) -> Turn:
        """Write that this process is at work on the turn."""
        CLAIMS.take(self._mark)
        try:
            await self._log.write(ops, at_work=True, messages=messages)
        except BaseException:
            CLAIMS.give_back(self._mark)
            raise
        self._claimed = True
        return self

    async def __aenter__(self) -> Turn:
        if not self._claimed:
            CLAIMS.take(self._mark)
        return self

    async def end(self, message: Message, state: AgentState) -> None:
        """Make the messages of the run, which has ended, the thread's."""
        await self._turns.end(self._log, self.run, state.messages, message, known=self._known)
        self._ended = True

    async def __aexit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        CLAIMS.give_back(self._mark)
        if self._ended:
            return
        with CancelScope(shield=True):
            try:
                await self._turns.settle_left(self.thread, self.run)
            except (AnabranchError, StoreError) as second:
                if error is None:
                    raise
                error.add_note(f"and how the turn was left could not be noted: {second}")


class Turns:
    """The conversations of one agent."""

    def __init__(self, app: Runnable[list[Message], Message], keeping: Keeping) -> None:
        self.app = app
        self.keeping = keeping
        self.store = keeping.store

    # -- beginning ---------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def begun(
        self,
        thread: str,
        new: Sequence[Message],
        options: RunOptions | None,
        *,
        run: str | None,
        busy: Busy,
        waiting: Waiting,
    ) -> AsyncGenerator[Turn, None]:
        """Begin a turn, once that is its turn.

        Raises:
            ThreadConflict: Another turn is under way, and ``busy`` is ``"conflict"``.
            TurnUnfinished: The last turn has not ended, and ``waiting`` is ``"reject"``.
            Interrupted: It waits for an answer, and ``waiting`` is ``"queue"``; the messages are kept.
            RunConflict: There is a run with this id.
        """
        async with seat(self.store, thread, busy), await self._begin(thread, new, options, run, busy, waiting) as turn:
            yield turn

    async def _begin(
        self, thread: str, new: Sequence[Message], options: RunOptions | None, run: str | None, busy: Busy, way: Waiting
    ) -> Turn:
        wait = FIRST_WAIT
        while True:
            log = await ThreadLog.read(self.keeping, thread)
            if run is not None and run in log.queued_runs:
                new = ()  # it is kept already; somebody asks again
            try:
                if run is not None and (log.turn is None or log.turn.run != run):
                    await self._check_new(log, run)
                if log.turn is None:
                    await self._clear_last(log)
                    return await self._begin_next(log, new, run)
                standing = await self._standing(log, log.turn)
                if run is not None and run == log.turn.run and standing.kind != "done":
                    return await self._begin_again(log, new, run, standing)
                if standing.kind == "done":
                    await self._take_over(log, log.turn.run)
                elif standing.kind != "busy":
                    new = await self._unfinished(log, log.turn, standing, new, options, run, way)
                elif busy == "conflict":
                    raise ThreadConflict(thread, log.turn.run)
                else:
                    await anyio.sleep(wait)
                    wait = min(2 * wait, LONGEST_WAIT)
            except VersionConflict:
                continue  # it was written meanwhile: look again

    async def _check_new(self, log: ThreadLog, run: str) -> None:
        if (log.last is not None and log.last.run == run) or await self.store.load(run) is not None:
            raise RunConflict(run, "there is such a run already; resume it, or begin one with another id")

    async def _begin_next(self, log: ThreadLog, new: Sequence[Message], run: str | None) -> Turn:
        if not new and not log.queue:
            raise RunConflict(log.id, "somebody else has asked the messages that waited")
        if run is None and log.queued_runs:
            run = log.queued_runs[-1]
        id = uuid4().hex if run is None else run
        messages = [*log.messages, *log.queue, *new]
        turn = Turn(self, log, id, messages, known=run is not None)
        return await turn.claimed(log.begin(id, new, known=run is not None), messages)

    async def _begin_again(self, log: ThreadLog, new: Sequence[Message], run: str, standing: Standing) -> Turn:
        """Begin the run of a turn of which nothing was saved but its question, for whoever asks the same again."""
        if standing.kind != "gone" or log.messages[-len(new) :] != list(new):
            raise RunConflict(run, "there is such a run already; resume it")
        return await Turn(self, log, run, log.messages, known=True).claimed([])

    # -- going on ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def taken_up(self, run: str, go: Any) -> AsyncGenerator[Turn | None, None]:
        """Take up the turn whose run is to be resumed; the next one, if messages wait for its end.

        Args:
            run: The id of the run.
            go: Resumes the run, where it is not the one whose reply is wanted, and gives its reply.

        Yields:
            The turn; None if the run is no conversation's turn.

        Raises:
            ThreadConflict: Somebody is at work on the conversation.
        """
        stored = await self.store.load(run)
        thread = None if stored is None else stored.head.thread
        if thread is None:
            yield None
            return
        async with seat(self.store, thread, "conflict"):
            log = await ThreadLog.read(self.keeping, thread)
            if log.turn is None or log.turn.run != run:
                yield None
                return
            try:
                turn = await Turn(self, log, run, None, known=True).claimed([])
            except VersionConflict:
                raise ThreadConflict(thread, run) from None
            if not log.queue:
                async with turn:
                    yield turn
                return
            async with turn:
                await self._go_to_its_end(turn, go)
            async with await self._begin(thread, (), None, None, "conflict", "reject") as following:
                yield following

    async def _go_to_its_end(self, turn: Turn, go: Any) -> None:
        message: Message = await go()
        await turn.end(message, await ended_history(self.app, turn.run, message))

    async def _unfinished(
        self,
        log: ThreadLog,
        turn: OpenTurn,
        standing: Standing,
        new: Sequence[Message],
        options: RunOptions | None,
        run: str | None,
        way: Waiting,
    ) -> Sequence[Message]:
        """Do with a turn that has not ended what the caller chose; give what is still to be asked."""
        interrupts = () if standing.stored is None else await self._interrupts(turn.run)
        if way == "reject":
            raise TurnUnfinished(log.thread, turn.run, interrupts, _described(standing, interrupts))
        if way == "cancel":
            await self._give_up(log, turn, standing)
            return new
        paused, again = standing.kind == "paused", standing.kind == "gone"
        if new or not paused:
            await log.write(log.add_to_queue(new, run) if new else [], at_work=not paused)
        if paused:
            raise Interrupted(turn.run, interrupts)
        async with Turn(self, log, turn.run, log.messages if again else None, known=True) as mine:
            if again:
                await self._go_to_its_end(
                    mine, lambda: self.app.invoke(log.messages, options, run=turn.run, thread=log.thread)
                )
            else:
                try:
                    await self._go_to_its_end(mine, lambda: self.app.resume(turn.run, None, options))
                except AnswersMissingError:
                    raise Interrupted(turn.run, interrupts) from None
        return ()

    async def _interrupts(self, run: str) -> Sequence[Interrupt]:
        try:
            return await self.app.pending(run)
        except ResumeError:
            return ()  # another graph made it

    async def _give_up(self, log: ThreadLog, turn: OpenTurn, standing: Standing) -> None:
        if standing.stored is None:
            await log.write(log.end(repair_history(log.messages), None, known=True), at_work=False)
            return
        messages = await stopped_history(self.app, turn.run, log.messages)
        try:
            await given_up(self.keeping, standing.stored, messages)
        except VersionConflict as error:
            raise RunConflict(turn.run, "somebody has gone on with it meanwhile") from error
        await self._take_over(log, turn.run)

    # -- how a turn stands -------------------------------------------------------------------------------------

    async def _standing(self, log: ThreadLog, turn: OpenTurn) -> Standing:
        """Say how a turn stands.

        Raises:
            VersionConflict: It has ended while we looked.
        """
        found = await self._looked_at(log, turn)
        if found.kind != "busy":
            version = (await ThreadLog.read(self.keeping, log.thread)).version
            if version != log.version:
                raise VersionConflict(repr(self.store), log.id, log.version, version)
        return found

    async def _looked_at(self, log: ThreadLog, turn: OpenTurn) -> Standing:
        stored = await self.store.load(turn.run)
        mine = id(self.store)
        if (mine, log.id) in active:
            return Standing("busy", stored)
        if stored is None or stored.head.status == "done":
            if is_at_work(log.owner, log.updated, mine, log.id):
                return Standing("busy", stored)
            return Standing("gone" if stored is None else "done", stored)
        head = stored.head
        if head.status == "running":
            busy = is_at_work(head.owner, head.updated, mine, head.id)
            return Standing("busy" if busy else "left", stored)
        return Standing("paused" if head.status == "paused" else "failed", stored)

    async def settle_left(self, thread: str, run: str) -> None:
        """Note of a turn that nobody is at work on any more that this is so, and take it over if it has ended."""
        while True:
            log = await ThreadLog.read(self.keeping, thread)
            if log.turn is None or log.turn.run != run:
                return None
            stored = await self.store.load(run)
            if stored is not None and stored.head.status == "done":
                return await self._take_over(log, run)
            try:
                return await log.write([], at_work=False)
            except VersionConflict:
                continue

    # -- ending ------------------------------------------------------------------------------------------------

    async def _take_over(self, log: ThreadLog, run: str) -> None:
        """Make the messages of a run that has ended, or was given up, the thread's, unless somebody else has."""
        found = await result_of(self.app, run)
        if found is not None:
            messages, answer = found
            await self.end(log, run, messages, answer, known=True)

    async def end(
        self, log: ThreadLog, run: str, messages: Sequence[Message], answer: Message | None, *, known: bool
    ) -> None:
        """End a turn in the thread's log, unless somebody else has, and clear its run away."""
        while log.turn is not None and log.turn.run == run:
            try:
                await log.write(log.end(messages, answer, known=known), at_work=False)
                break
            except VersionConflict:
                log = await ThreadLog.read(self.keeping, log.thread)
        await self._clear_away(run, log.thread, answer if known else None, known=known)

    async def _clear_away(self, run: str, thread: str, answer: Message | None, *, known: bool) -> None:
        with CancelScope(shield=True):
            try:
                await self.store.delete(run)
                if known:
                    await mark(self.keeping, run, thread, answer)
            except StoreError:
                return  # the next turn does it

    async def _clear_last(self, log: ThreadLog) -> None:
        """Clear away what the process that ended the last turn could not."""
        last = log.last
        if last is None:
            return
        stored = await self.store.load(last.run)
        answer = None if last.answer is None or last.answer >= len(log.messages) else log.messages[last.answer]
        if stored is None:
            if last.known:
                await mark(self.keeping, last.run, log.thread, answer)
        elif stored.head.version > 1 and stored.head.status == "done" and stored.head.thread == log.thread:
            await self._clear_away(last.run, log.thread, answer, known=last.known)


def _described(standing: Standing, interrupts: Sequence[Interrupt]) -> str:
    if interrupts:
        return f"it waits for answers to {', '.join(repr(one.id) for one in interrupts)}"
    return {
        "paused": "it was paused",
        "failed": "it has failed",
        "left": "it was cut off",
        "gone": "it was cut off before anything of it was saved",
    }[standing.kind]
