"""The record of one durable run: a document that the engine keeps up to date, and a log of it in a store.

The document is a JSON tree. Whatever changes in it is noted as an operation; :meth:`Record.commit` writes what was
noted since the last time as one entry of the log, in one transaction, under compare-and-swap on the version. Once the
entries since the last snapshot are twice as large as it, the next entry is a snapshot again, so what is stored grows
with what is new.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio
from anyio import CancelScope

from ._codec import Json, dump, load
from ._store import RECORD_LIMIT, CheckpointStore, LogHead, LogStatus, StoredLog
from ._tracker import Op, apply
from .errors import CheckpointError, DamagedRecordError, DurableError, RunConflict, StoreError, VersionConflict

if TYPE_CHECKING:
    from ._control import RunControl
    from ._interrupt import Interrupt
    from ._scope import Scope

Durability = Literal["step", "pause"]
Path = tuple[str | int, ...]
Redact = Callable[[Json], Json]

ROOM = 4096
"""How many bytes of entries after a snapshot are always fine."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """How a compiled graph keeps its runs."""

    store: CheckpointStore
    durability: Durability
    graph: str
    """The fingerprint of the graph."""
    expire_after: float | None
    redact: Redact | None
    migrate: Callable[[dict[str, Json]], dict[str, Json]] | None
    before: frozenset[str]
    """The paths of the nodes before which runs stop."""
    after: frozenset[str]
    """The paths of the nodes after which runs stop."""


@dataclass(slots=True)
class Kept:
    """What of a run is in the store."""

    version: int = 0
    snapshot_size: int = 0
    entries_size: int = 0
    created: float = field(default_factory=time.time)


class Record:
    """One durable run."""

    def __init__(self, keeping: Keeping, id: str, thread: str | None, owner: str) -> None:
        self.keeping = keeping
        self.id = id
        self.thread = thread
        self.owner = owner
        self.doc: dict[str, Json] = {}
        self.kept = Kept()
        self.asked: dict[str, Interrupt] = {}
        """The questions that this process has asked, as they were asked."""
        self.scopes: dict[Path, Scope] = {}
        """The graphs that are running; each knows more than it has noted."""
        self._ops: list[Op] = []
        """What is to be written, each as it was when it was noted: the document goes on changing."""
        self._late: dict[Path, list[Op]] = {}
        """What has still to be done to the document, by path."""
        self._noted = 0
        """How many operations were ever noted; a commit that finds them all written has nothing to do."""
        self._written = 0
        self._saving = False
        self._waiting: list[anyio.Event] = []
        """Those who wait until what is being saved is saved."""
        self.failure: DurableError | None = None
        """Why nothing can be saved any more; user code may have swallowed it, and the run stops all the same."""
        self._keeps_ops = keeping.durability == "step"
        self.asks = False
        """Whether something may be asked that has no answer."""
        self.over = False
        """Whether this process has left the run; what it still has at work does not belong to it any more."""
        self.control: RunControl | None = None
        """By what the run can be paused from outside."""

    # -- the document ------------------------------------------------------------------------------------------

    def put(self, path: Path, tree: Json) -> None:
        """Set what is at a path; what has to be around it is made."""
        at: Any = self.doc
        for depth, key in enumerate(path[:-1]):
            inner = at.get(key)
            if inner is None:
                for outer in reversed(path[depth + 1 :]):
                    tree = {str(outer): tree}
                at[key] = tree
                return self._note_set(list(path[: depth + 1]), tree)
            at = inner
        at[path[-1]] = tree
        return self._note_set(list(path), tree)

    def set_in(self, holder: dict[str, Json], path: Path, tree: Json) -> None:
        """Set what is at a path, in the object that holds the end of it."""
        holder[cast("str", path[-1])] = tree
        self._note_set(list(path), tree)

    def remove(self, path: Path) -> None:
        """Delete what is at a path."""
        at: Any = self.doc
        for key in path[:-1]:
            at = at[key]
        del at[path[-1]]
        self._note(["-", list(path)])

    def change(self, path: Path, ops: Sequence[Op]) -> None:
        """Apply operations whose paths begin at a path; those on what is there are only made when somebody looks."""
        for op in ops:
            kind, rest, *given = op
            if kind == "=" and not rest:
                self._late.pop(path, None)
                self.put(path, given[0])
                continue
            self._late.setdefault(path, []).append(op)
            self._note([kind, [*path, *rest], *given])

    def catch_up(self) -> None:
        """Make the operations that wait."""
        for path, ops in self._late.items():
            holder = self.at(path[:-1])
            if holder is not None:
                holder[path[-1]] = apply(holder[path[-1]], ops)
        self._late.clear()

    def at(self, path: Path) -> Any:
        """Give what is at a path, or None."""
        at: Any = self.doc
        for key in path:
            at = at.get(key) if isinstance(at, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            if at is None:
                return None
        return at  # pyright: ignore[reportUnknownVariableType]

    def _note_set(self, path: list[str | int], tree: Json) -> None:
        self._noted += 1
        if self._keeps_ops:
            self._ops.append(["=", path, detached(tree) if type(tree) is dict else tree])

    def _note(self, op: Op) -> None:
        self._noted += 1
        if self._keeps_ops:
            self._ops.append(op)

    # -- the log -----------------------------------------------------------------------------------------------

    @property
    def is_pausing(self) -> bool:
        """Whether a pause was asked for from outside."""
        return self.control is not None and self.control.pausing

    @property
    def is_stored(self) -> bool:
        """Whether anything of the run is in the store."""
        return self.kept.version > 0

    def check_open(self) -> None:
        """Refuse to go on where nothing can be saved.

        Raises:
            DurableError: If so.
        """
        if self.failure is not None:
            raise self.failure
        if self.over:
            raise RunConflict(self.id, "it has stopped, and this was left running; await in a node what it starts")

    async def step_done(self, where: Callable[[], str]) -> None:
        """Write what was noted, if every step is to be written before the next begins."""
        if self._keeps_ops:
            await self.commit(where)

    async def commit(
        self, where: str | Callable[[], str], status: LogStatus = "running", *, owner: str | None = ""
    ) -> None:
        """Write what was noted, in one transaction; several who wait for that at once share one.

        Raises:
            CheckpointError: The store failed, or something cannot be saved; nothing was written and nothing is lost.
            RunConflict: Somebody else has written this run.
        """
        wanted = self._noted
        await self._turn()
        self.check_open()
        if status == "running" and owner == "" and 0 < wanted <= self._written:
            return  # with what somebody else has committed
        self._saving = True
        try:
            for scope in tuple(self.scopes.values()):
                scope.note_all()
            await self._save(where, status, self.owner if owner == "" else owner)
        except DurableError as error:
            self.failure = error
            raise
        finally:
            self._saving = False
            waiting, self._waiting = self._waiting, []
            for event in waiting:
                event.set()

    async def _turn(self) -> None:
        """Wait until nothing is being saved and nobody is in the middle of changing a state, both at once.

        Nothing is held while waiting: who changes a state may himself wait for something to be saved. A state whose
        turn has come to somebody here is no obstacle for others here, or they would pass it to each other for ever.
        """
        while True:
            held = next((cell for scope in self.scopes.values() if (cell := scope.held_cell()) is not None), None)
            if held is not None:
                await held.acquire(to_look=True)
                if not self._saving and all(scope.held_cell() is None for scope in self.scopes.values()):
                    held.give_back()
                    return
                held.give_back()
            elif self._saving:
                self._waiting.append(anyio.Event())
                await self._waiting[-1].wait()
            else:
                return

    async def _save(self, where: str | Callable[[], str], status: LogStatus, owner: str | None) -> None:
        kept, noted = self.kept, self._noted
        ops, self._ops = self._ops, []  # what is noted during the save is for the next one
        data, snapshot = b"", True
        try:
            patch = self._dumped(ops) if self._keeps_ops and kept.version else b""
            snapshot = not patch or kept.entries_size + len(patch) > 2 * kept.snapshot_size + ROOM
            if snapshot:
                self.catch_up()
            data = seal(self._dumped(self.doc) if snapshot else patch, self.id, kept.version + 1)
            head = self.head(status, owner)
            await self.keeping.store.save(head, data, snapshot=snapshot, expected=kept.version)
        except VersionConflict as error:
            raise RunConflict(self.id, "another process or task has written it meanwhile") from error
        except Exception as error:  # a store of the user's own may raise whatever it likes
            raise CheckpointError(self.id, where if isinstance(where, str) else where(), error) from error
        except BaseException:
            self._ops[:0] = ops
            with CancelScope(shield=True):
                if await self._is_written(kept.version + 1, data):
                    self._ops[: len(ops)] = []
                    self._saved(noted, data, snapshot=snapshot)
            raise
        self._saved(noted, data, snapshot=snapshot)

    def _saved(self, noted: int, data: bytes, *, snapshot: bool) -> None:
        kept = self.kept
        self._written = noted
        kept.version += 1
        if snapshot:
            kept.snapshot_size, kept.entries_size = len(data), 0
        else:
            kept.entries_size += len(data)

    async def _is_written(self, version: int, data: bytes) -> bool:
        """Tell whether a save has taken place whose cancellation was delivered when that had been decided."""
        try:
            log = await self.keeping.store.load(self.id)
        except (StoreError, DamagedRecordError):
            return False
        return log is not None and log.entries[-1].version == version and log.entries[-1].data == data

    def head(self, status: LogStatus, owner: str | None) -> LogHead:
        """Make the head of the log's next version."""
        now = time.time()
        after = self.keeping.expire_after
        return LogHead(
            id=self.id,
            kind="run",
            version=self.kept.version + 1,
            status=status,
            thread=self.thread,
            owner=owner if status == "running" else None,
            graph=self.keeping.graph,
            created=self.kept.created,
            updated=now,
            expires=None if after is None or status == "running" else now + after,
        )

    def _dumped(self, tree: Any) -> bytes:
        redact = self.keeping.redact
        return dump(tree if redact is None else redact(tree))


VALUES = frozenset({"value", "answer", "state"})
"""Under these keys there are values, which are replaced and never changed."""


def detached(tree: Json) -> Json:
    """Copy what the document goes on changing: the objects that hold values."""
    if type(tree) is not dict:
        return tree
    return {key: inner if key in VALUES else detached(inner) for key, inner in tree.items()}


def read_document(log: StoredLog) -> dict[str, Json]:
    """Build a document from the entries of a log.

    Raises:
        DamagedRecordError: If an entry is not what was written.
    """
    tree: Json = None
    first = log.entries[0].version if log.entries else 0
    for place, entry in enumerate(log.entries):
        if entry.version != first + place or entry.snapshot != (place == 0):
            raise DamagedRecordError(
                f"run {log.head.id!r}, version {entry.version}", "its entries do not follow each other"
            )
        try:
            given = load(unseal(entry.data, log.head.id, entry.version), RECORD_LIMIT)
            tree = given if entry.snapshot else apply(tree, _as_ops(given))
        except DamagedRecordError as error:
            raise DamagedRecordError(f"run {log.head.id!r}, version {entry.version}", str(error)) from error
    if not isinstance(tree, dict) or tree.get("format") != FORMAT or tree.get("run") != log.head.id:
        what = tree.get("format") if isinstance(tree, dict) else None
        newer = isinstance(what, int) and what > FORMAT
        raise DamagedRecordError(
            f"run {log.head.id!r}",
            f"it was written in format {what}, by a newer version of the library"
            if newer
            else "it is no record of this run",
        )
    return tree


FORMAT = 1
"""The version of the document's layout."""
DIGEST = 32


def seal(data: bytes, id: str, version: int) -> bytes:
    """Put a checksum in front of an entry, over what is in it and where it belongs."""
    return _digest(data, id, version) + data


def unseal(data: bytes, id: str, version: int) -> bytes:
    """Check an entry's checksum and take it off.

    Raises:
        DamagedRecordError: If it is not what was written, or belongs elsewhere.
    """
    given = data[DIGEST:]
    if data[:DIGEST] != _digest(given, id, version):
        raise DamagedRecordError("", "its checksum is wrong: it was changed, cut or moved after it was written")
    return given


def _digest(data: bytes, id: str, version: int) -> bytes:
    made = blake2b(data, digest_size=DIGEST // 2)
    made.update(f"{version} {id}".encode("utf-8", "surrogatepass"))
    return made.hexdigest().encode()


def _as_ops(given: Json) -> list[Op]:
    if not isinstance(given, list):
        raise DamagedRecordError("", "a list of changes was expected")
    return cast("list[Op]", given)


def adopt(record: Record, log: StoredLog, doc: Mapping[str, Json]) -> None:
    """Let a record go on where a stored log ends."""
    record.doc = dict(doc)
    record.thread = log.head.thread
    sizes = [len(entry.data) for entry in log.entries]
    record.kept = Kept(log.head.version, sizes[0], sum(sizes[1:]), log.head.created)
    if log.head.graph != record.keeping.graph:
        record.kept.snapshot_size = -ROOM  # it was brought up to date: changes do not follow on what is stored
