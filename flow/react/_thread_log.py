"""A conversation in a store: an append-only log of its messages, and of the turn that is under way.

The document is ``{"format", "thread", "messages", "turn", "queue", "last"}``. ``messages`` holds the turns that have
ended, and the question of the one that has not; ``turn`` says which run that is and where its question begins;
``queue`` holds what waits to be asked next, as one turn; ``last`` names the run of the last turn, whose own log is
cleared away once its messages are here. Each entry of the log is a patch, written under compare-and-swap on the
version.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ...compose import DamagedRecordError, LogEntry, LogHead, StoredLog
from ...compose._codec import codec_for, dump, load
from ...compose._owner import me
from ...compose._record import ROOM, seal, unseal
from ...compose._store import RECORD_LIMIT
from ...compose._tracker import Op, apply
from ...schema import Message

if TYPE_CHECKING:
    from ...compose._codec import Json
    from ...compose._record import Keeping

FORMAT = 1
PREFIX = "thread/"
LOOK_EVERY = 16
"""After so many entries it is worth a look whether a snapshot would be much smaller than they are."""
MESSAGES = codec_for(list[Message])


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """The turn that a conversation has begun and not ended."""

    run: str
    """The id of its run."""
    start: int
    """Where its question begins among the messages."""
    known: bool
    """Whether the caller knows the run's id, so that it has to be recognised later."""


@dataclass(frozen=True, slots=True)
class LastTurn:
    """The turn that has ended last."""

    run: str
    known: bool
    answer: int | None
    """Where its answer is among the messages; None if it was given up."""


class ThreadLog:
    """A conversation as it was when it was read; whoever writes it makes it a newer one."""

    def __init__(self, keeping: Keeping, thread: str) -> None:
        self._keeping = keeping
        self.thread = thread
        self.id = PREFIX + thread
        self.version = 0
        self.owner: str | None = None
        self.updated = 0.0
        self._created = time.time()
        self._doc: dict[str, Json] = {"format": FORMAT, "thread": thread, "messages": []}
        self._sizes: list[int] = []
        self._messages: list[Message] | None = []

    @classmethod
    async def read(cls, keeping: Keeping, thread: str, version: int | None = None) -> ThreadLog:
        """Read a conversation; one that there is not is empty, at version 0."""
        made = cls(keeping, thread)
        stored = await keeping.store.load(made.id, version=version)
        if stored is not None:
            made._adopt(stored)
        return made

    def _adopt(self, stored: StoredLog) -> None:
        self._doc = document_of(stored, self.thread)
        self._messages = None
        self.version = stored.entries[-1].version
        self.owner, self.updated = stored.head.owner, stored.head.updated
        self._created = stored.head.created
        self._sizes = [len(entry.data) for entry in stored.entries]

    # -- what it says ------------------------------------------------------------------------------------------

    @property
    def messages(self) -> list[Message]:
        """The messages, those of the question that is being answered included."""
        if self._messages is None:
            self._messages = cast("list[Message]", MESSAGES.decode(self._doc["messages"]))
        return self._messages

    @property
    def turn(self) -> OpenTurn | None:
        """The turn that has not ended."""
        found = cast("dict[str, Any] | None", self._doc.get("turn"))
        return None if found is None else OpenTurn(found["run"], found["start"], found["known"])

    @property
    def last(self) -> LastTurn | None:
        """The turn that has ended last."""
        found = cast("dict[str, Any] | None", self._doc.get("last"))
        return None if found is None else LastTurn(found["run"], found["known"], found["answer"])

    @property
    def queue(self) -> list[Message]:
        """What waits to be asked, as the messages of one turn."""
        return [message for given in self._queue for message in MESSAGES.decode(given["messages"])]

    @property
    def queued_runs(self) -> list[str]:
        """The ids that callers have given to what waits to be asked."""
        return [given["run"] for given in self._queue if given["run"] is not None]

    @property
    def _queue(self) -> list[dict[str, Any]]:
        return cast("list[dict[str, Any]]", self._doc.get("queue", []))

    # -- changes -----------------------------------------------------------------------------------------------

    def begin(self, run: str, new: Sequence[Message], *, known: bool) -> list[Op]:
        """Make the changes that begin a turn with what was queued and what is new."""
        asked = [*self.queue, *new]
        ops = self._queue_taken()
        start = len(cast("list[Json]", self._doc["messages"]))
        ops.append(["+", ["messages"], start, MESSAGES.encode(asked)])
        ops.append(["=", ["turn"], {"run": run, "start": start, "known": known}])
        return ops

    def end(self, messages: Sequence[Message], answer: Message | None, *, known: bool) -> list[Op]:
        """Make the changes that end the turn with the history that it has come to, and its answer if it has one."""
        turn = self.turn
        assert turn is not None, "a turn is under way"
        tracker = MESSAGES.tracker()
        tracker.changes(self.messages)
        tracker.commit()
        ops: list[Op] = [[op[0], ["messages", *op[1]], *op[2:]] for op in tracker.changes(list(messages))]
        place = None
        if answer is not None:
            place = max((n for n, message in enumerate(messages) if message == answer), default=None)
        ops.append(["-", ["turn"]])
        ops.append(["=", ["last"], {"run": turn.run, "known": known or turn.known, "answer": place}])
        return ops

    def add_to_queue(self, new: Sequence[Message], run: str | None) -> list[Op]:
        """Make the changes that keep messages until the turn has ended."""
        asked: Json = {"run": run, "messages": MESSAGES.encode(list(new))}
        waiting = len(self._queue)
        return [["+", ["queue"], waiting, [asked]]] if waiting else [["=", ["queue"], [asked]]]

    def _queue_taken(self) -> list[Op]:
        return [["-", ["queue"]]] if "queue" in self._doc else []

    # -- writing -----------------------------------------------------------------------------------------------

    async def write(self, ops: Sequence[Op], *, at_work: bool, messages: Sequence[Message] | None = None) -> None:
        """Write changes as the next version, in one transaction.

        Args:
            ops: The changes.
            at_work: Whether this process is at work on the turn now.
            messages: What the messages are after that, where it is known; else they are read when they are wanted.

        Raises:
            VersionConflict: Somebody else has written it since it was read.
            StoreError: The store failed; nothing was written.
        """
        doc = cast("dict[str, Json]", apply(self._doc, ops))
        whole = self._snapshot(doc)
        snapshot = whole is not None
        data = seal(self._dumped(list(ops)) if whole is None else whole, self.id, self.version + 1)
        head = self._head(at_work)
        await self._keeping.store.save(head, data, snapshot=snapshot, expected=self.version)
        self._doc, self.version = doc, head.version
        if ops:
            self._messages = None if messages is None else list(messages)
        self.owner, self.updated = head.owner, head.updated
        self._sizes = [len(data)] if snapshot else [*self._sizes, len(data)]

    def _snapshot(self, doc: dict[str, Json]) -> bytes | None:
        """Give the whole, if it is to be written: the first time, and where it is much less than its entries."""
        if self.version == 0:
            return self._dumped(doc)
        stored = sum(self._sizes)
        if len(self._sizes) % LOOK_EVERY or stored < ROOM:
            return None
        whole = self._dumped(doc)
        return whole if 2 * len(whole) < stored else None

    def _dumped(self, tree: Any) -> bytes:
        redact = self._keeping.redact
        return dump(tree if redact is None else redact(tree))

    def _head(self, at_work: bool) -> LogHead:
        now = time.time()
        after = self._keeping.expire_after
        return LogHead(
            id=self.id,
            kind="thread",
            version=self.version + 1,
            status="open",
            thread=self.thread,
            owner=me() if at_work else None,
            graph="",
            created=self._created,
            updated=now,
            expires=None if after is None or at_work else now + after,
        )


# -- reading ----------------------------------------------------------------------------------------------------------


def document_of(stored: StoredLog, thread: str) -> dict[str, Json]:
    """Build a conversation's document from the entries of its log.

    Raises:
        DamagedRecordError: They are not what was written.
    """
    *_, (_, doc) = documents_of(stored.entries, thread, stored.head.id, each=False)
    return doc


def documents_of(
    entries: Sequence[LogEntry], thread: str, id: str, *, each: bool = True
) -> Iterator[tuple[LogEntry, dict[str, Json]]]:
    """Build the documents of several versions, or only the last one.

    Raises:
        DamagedRecordError: They are not what was written.
    """
    tree: Json = None
    waiting: list[Op] = []
    for place, entry in enumerate(entries):
        try:
            given = load(unseal(entry.data, id, entry.version), RECORD_LIMIT)
            if entry.snapshot:
                tree, waiting = given, []
            else:
                waiting += cast("list[Op]", given)
            if not each and place + 1 < len(entries):
                continue
            tree, waiting = apply(tree, waiting), []
        except (DamagedRecordError, TypeError) as error:
            raise DamagedRecordError(f"thread {thread!r}, version {entry.version}", str(error)) from error
        yield entry, checked(tree, thread)


def checked(tree: Json, thread: str) -> dict[str, Json]:
    """See that a document is one of this conversation, in a format that is known here.

    Raises:
        DamagedRecordError: It is not.
    """
    if not isinstance(tree, dict) or tree.get("format") != FORMAT or tree.get("thread") != thread:
        what = tree.get("format") if isinstance(tree, dict) else None
        newer = isinstance(what, int) and what > FORMAT
        why = f"it was written in format {what}, by a newer version of the library" if newer else "it is another record"
        raise DamagedRecordError(f"thread {thread!r}", why)
    turn, last = tree.get("turn"), tree.get("last")
    fits = isinstance(tree.get("messages"), list) and isinstance(tree.get("queue", []), list)
    if not fits or not _has(turn, run=str, start=int, known=bool) or not _has(last, run=str, known=bool):
        raise DamagedRecordError(f"thread {thread!r}", "it is not what was written")
    return tree


def _has(tree: Json, **fields: type) -> bool:
    return tree is None or (
        isinstance(tree, dict) and all(isinstance(tree.get(name), kind) for name, kind in fields.items())
    )
