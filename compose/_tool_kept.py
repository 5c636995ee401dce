"""Tool calls in a run that is kept: each has a part of its own, and one that was answered is not run again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from ..schema import Message, concat
from ._interrupted import Interrupted, is_pause
from ._part import Part, current_part

if TYPE_CHECKING:
    from ._tool_call import Work
    from ._tool_context import CurrentCall
    from ._tool_set import Entry


class KeptWork:
    """One call under way, as :class:`~._tool_call.Work`, with its record."""

    __slots__ = ("_part", "_work", "paused")

    def __init__(self, work: Work, part: Part) -> None:
        self._work = work
        self._part = part
        self.paused = False
        """Whether it stopped at a question."""

    @property
    def current(self) -> CurrentCall:
        """What the tool can ask about its call."""
        return self._work.current

    @property
    def entry(self) -> Entry | None:
        """The tool."""
        return self._work.entry

    @property
    def error(self) -> Exception | None:
        """Why the node has to fail."""
        return self._work.error

    async def answer(self) -> Message | None:
        """Run the call, unless it was answered, or waits for an answer; give the message that answers it."""
        given = self._recorded()
        if given is not None or self.paused:
            return given
        token = current_part.set(self._part)
        try:
            message = await self._work.answer()
        except BaseException as error:
            self._stopped(error)
            return None
        finally:
            current_part.reset(token)
        return await self._finished(message)

    async def chunks(self) -> AsyncGenerator[Message, None]:
        """Do the same, and give the message in pieces."""
        given = self._recorded()
        if given is not None:
            yield given
        if given is not None or self.paused:
            return
        current_part.set(self._part)
        pieces: list[Message] = []
        try:
            async with aclosing(self._work.chunks()) as found:
                async for piece in found:
                    pieces.append(piece)
                    yield piece
        except BaseException as error:
            self._stopped(error)
            return
        await self._finished(concat(pieces) if pieces else None)

    def _recorded(self) -> Message | None:
        found = self._part.result
        if found is not None:
            from ._codec import codec_for

            message: Message = codec_for(Message).decode(found["value"])
            return message
        self.paused = self._part.blocked or self._part.record.is_pausing
        return None

    def _stopped(self, error: BaseException) -> None:
        if not is_pause(error):
            raise error
        self._part.block()
        self.paused = True

    def _where(self) -> str:
        return f"the answer to call {self.current.id!r} at {'/'.join(self._part.address)!r}"

    async def _finished(self, message: Message | None) -> Message | None:
        if self._part.waits:  # the tool has swallowed the pause
            self._part.block()
            self.paused = True
            return None
        if message is not None and self._work.error is None:
            from ._codec import codec_for

            self._part.finish(codec_for(Message).encode(message))
            await self._part.record.step_done(self._where)
        return message


def kept(works: Sequence[Work]) -> Sequence[Work | KeptWork]:
    """Give calls their records, in a run that is kept."""
    part = current_part.get()
    if part is None:
        return works
    return [KeptWork(work, part.child(f"call {work.current.position}")) for work in works]


def stop_if_paused(works: Sequence[Work | KeptWork]) -> None:
    """Stop the node if any of its calls has; the others have ended.

    Raises:
        Interrupted: If so.
    """
    for work in works:
        if isinstance(work, KeptWork) and work.paused:
            part = current_part.get()
            assert part is not None, "it is a run that is kept"
            raise Interrupted(part.record.id)
