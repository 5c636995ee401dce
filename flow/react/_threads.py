"""Conversations: what an agent with a store remembers over many runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import TypeVar

from ...compose import DamagedRecordError, LogHead, RunConflict
from ...compose._owner import is_at_work
from ...schema import Message
from ._resume import Resumes
from ._seats import seat
from ._thread_log import MESSAGES, PREFIX, ThreadLog, documents_of
from .errors import ThreadConflict, UnknownThreadError

if TYPE_CHECKING:
    from ...compose import CheckpointStore
    from ...compose._record import Keeping

OutputT = TypeVar("OutputT", default=Any)

PAGE = 200


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """What is known of a conversation without reading it."""

    thread: str
    """Its name."""
    version: int
    """How many versions there are."""
    created: float
    """When it was begun, in seconds since 1970."""
    updated: float
    """When it was last written."""


@dataclass(frozen=True, slots=True)
class ThreadVersion:
    """One version of a conversation."""

    version: int
    """From 1."""
    created: float
    """When it was written, in seconds since 1970."""
    size: int
    """How many bytes it took."""
    messages: int
    """How many messages there were, those of a question that was being answered included."""
    run: str | None
    """The run of the turn that was under way, or None."""


class Threads(Resumes[OutputT]):
    """The part of an agent that deals with conversations."""

    async def thread(self, thread: str, version: int | None = None) -> list[Message]:
        """Give the messages of a conversation.

        Args:
            thread: Its name.
            version: Which version of it; the newest if it is left out.

        Returns:
            The messages of the turns that have ended, and the question of one that has not; none if there is no such
            conversation.

        Raises:
            UnknownThreadError: If there is no such version.
        """
        log = await ThreadLog.read(self._keeps(), thread, version)
        if version is not None and not log.version:
            raise UnknownThreadError(thread, version)
        return list(log.messages)

    async def threads(self) -> list[ThreadInfo]:
        """List the conversations of the store, in the order of their names.

        Returns:
            What is known of each without reading it.
        """
        heads = await _all_heads(self._keeps().store, kind="thread")
        return [ThreadInfo(head.id.removeprefix(PREFIX), head.version, head.created, head.updated) for head in heads]

    async def thread_history(self, thread: str) -> list[ThreadVersion]:
        """Give all versions of a conversation, the oldest first; most turns make two.

        Args:
            thread: Its name.

        Returns:
            What each of them says.

        Raises:
            UnknownThreadError: If there is no such conversation.
        """
        store = self._keeps().store
        id = PREFIX + thread
        known = await store.versions(id)
        if not known:
            raise UnknownThreadError(thread)
        ends = [one.version - 1 for one in known[1:] if one.snapshot]  # each snapshot begins a part of its own
        found: list[ThreadVersion] = []
        for end in (*ends, known[-1].version):
            stored = await store.load(id, version=end)
            if stored is None:
                raise DamagedRecordError(f"thread {thread!r}", f"version {end} is missing")
            for entry, doc in documents_of(stored.entries, thread, id):
                turn: Any = doc.get("turn")
                messages: Any = doc["messages"]
                run = None if turn is None else turn["run"]
                found.append(ThreadVersion(entry.version, entry.created, len(entry.data), len(messages), run))
        return found

    async def fork_thread(self, thread: str, version: int | None = None, new: str | None = None) -> str:
        """Copy a version of a conversation, to go on from there in another way.

        Args:
            thread: Its name.
            version: Which version of it; the newest if it is left out. A turn that had not ended is left out.
            new: The name of the copy; made up if it is left out.

        Returns:
            The name of the copy.

        Raises:
            UnknownThreadError: If there is no such conversation, or no such version.
            RunConflict: If there is a conversation with the new name.
        """
        keeping = self._keeps()
        old = await ThreadLog.read(keeping, thread, version)
        if not old.version:
            raise UnknownThreadError(thread, version)
        turn = old.turn
        if new is None:
            from uuid import uuid4

            new = uuid4().hex
        copy = await ThreadLog.read(keeping, new)
        if copy.version:
            raise RunConflict(new, "there is such a conversation already; give the copy another name")
        messages = old.messages if turn is None else old.messages[: turn.start]
        await copy.write([["=", ["messages"], MESSAGES.encode(messages)]], at_work=False)
        return new

    async def delete_thread(self, thread: str) -> bool:
        """Delete a conversation with all its runs.

        Args:
            thread: Its name.

        Returns:
            Whether there was one.

        Raises:
            ThreadConflict: If a turn of it is under way.
        """
        store = self._keeps().store
        async with seat(store, thread, "conflict"):
            log = await ThreadLog.read(self._keeps(), thread)
            runs = await _all_heads(store, kind="run", thread=thread)
            for head in runs:
                if head.status == "running" and is_at_work(head.owner, head.updated, id(store), head.id):
                    raise ThreadConflict(thread, head.id)
            for head in runs:
                await store.delete(head.id)
            await store.delete(log.id)
            return log.version > 0 or bool(runs)

    def _keeps(self) -> Keeping:
        return self._runs.of_threads().keeping


async def _all_heads(store: CheckpointStore, **which: Any) -> list[LogHead]:
    found: list[LogHead] = []
    while True:
        page = await store.heads(**which, limit=PAGE, after=found[-1].id if found else None)
        found += page
        if len(page) < PAGE:
            return found
