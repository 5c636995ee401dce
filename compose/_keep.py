"""Begin, resume and end runs that are kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from anyio import CancelScope, EndOfStream

from ..schema import StreamReader, concat
from ..schema._near import did_you_mean
from ._answers import UnknownAnswerTypeError, resolve, validated
from ._codec import codec_for
from ._interrupt import Interrupt, read_interrupt
from ._interrupted import Interrupted, is_pause
from ._owner import active, at_work, is_at_work, one_of_me
from ._part import open_questions, unblock
from ._record import FORMAT, Keeping, Path, Record, adopt, read_document
from ._scope import Scope, codecs_of
from ._store import ID_LIMIT
from .errors import (
    AnswersMissingError,
    DurableError,
    GraphChangedError,
    RunConflict,
    RunFinishedError,
    StoreError,
    UnknownInterruptError,
    UnknownRunError,
)

if TYPE_CHECKING:
    from ._codec import Json
    from ._plan import Plan
    from ._run import Run
    from ._store import StoredLog

GRAPH: Path = ("graph",)
Answers = Mapping[str, Any]


async def new_record(keeping: Keeping, run: str | None, thread: str | None) -> Record:
    """Begin the record of a run.

    Raises:
        RunConflict: If there is a run with this id.
    """
    _check_name("run", run)
    _check_name("thread", thread)
    record = Record(keeping, uuid4().hex if run is None else run, thread, one_of_me())
    record.doc = {"format": FORMAT, "run": record.id}
    if run is not None and await keeping.store.load(run) is not None:
        raise RunConflict(run, "there is such a run already; resume it, or begin one with another id")
    return record


def _check_name(which: str, name: object) -> None:
    if name is not None and not (isinstance(name, str) and 0 < len(name) <= ID_LIMIT):
        text = f"{which}= is a name of 1 to {ID_LIMIT} characters, got {name!r:.80}; leave it out to have none"
        raise ValueError(text)


async def old_record(keeping: Keeping, run: str, *, takeover: bool = False) -> Record:
    """Read the record of a run that is to go on.

    Raises:
        UnknownRunError: If there is none.
        RunFinishedError: If it has ended.
        RunConflict: If somebody is at work on it.
        GraphChangedError: If another graph made it.
        DamagedRecordError: If it is not what was written.
    """
    log = await load(keeping, run)
    head = log.head
    if head.status == "done":
        raise RunFinishedError(run, "it has ended; begin another one, or fork it from an earlier version")
    if head.status == "running" and not takeover and is_at_work(head.owner, head.updated, id(keeping.store), run):
        raise RunConflict(run, "somebody is at work on it; wait, or resume(…, takeover=True) if that cannot be")
    record = Record(keeping, run, head.thread, one_of_me())
    adopt(record, log, current_document(keeping, log))
    return record


async def load(keeping: Keeping, run: str, version: int | None = None) -> StoredLog:
    """Load a run's log.

    Raises:
        UnknownRunError: If there is none.
    """
    log = await keeping.store.load(run, version=version)
    if log is None or log.head.kind != "run":
        known = "" if version is None else f" at version {version}"
        raise UnknownRunError(
            run, f"there is no such run{known} in {keeping.store!r}; the store's heads() list those that there are"
        )
    return log


def current_document(keeping: Keeping, log: StoredLog) -> dict[str, Json]:
    """Read a run's document, brought up to date if another graph wrote it; it is then written whole again."""
    doc = read_document(log)
    if log.head.graph == keeping.graph:
        return doc
    if keeping.migrate is None:
        raise GraphChangedError(
            log.head.id,
            "it was made by another graph: nodes, edges, types or triggers have changed; finish it with the old one, "
            "or compile(…, migrate=…) with a function that brings its document up to date",
        )
    try:
        made = keeping.migrate(doc)
    except Exception as error:
        raise GraphChangedError(log.head.id, f"migrate= failed: {type(error).__name__}: {error}") from error
    if not isinstance(made, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GraphChangedError(
            log.head.id, f"migrate= has to give the new document, a dict, and gave {type(made).__name__}"
        )
    return made


# -- what a run waits for -------------------------------------------------------------------------------------


def pending(record: Record) -> list[Interrupt]:
    """Give everything that a run waits for."""
    with reading(record):
        return [read_interrupt(record, tree) for _, tree in open_questions(record.at(GRAPH), GRAPH)]


def block_what_asks(record: Record) -> None:
    """Note of what was asked in a stream that was being read already that its node is not run before an answer."""
    if record.is_pausing:
        return
    tasks: dict[str, dict[str, Any]] = record.at((*GRAPH, "tasks")) or {}
    for name, task in tasks.items():
        if not task.get("blocked") and any(True for _ in open_questions(task, ())):
            record.put((*GRAPH, "tasks", name, "blocked"), True)


async def go_on_with(record: Record, answers: Answers, *, asks: bool) -> None:
    """Test answers and note them, and that this process goes on with the run.

    Args:
        record: The run.
        answers: By id.
        asks: Whether there is a live handler, who is asked what is not answered.

    Raises:
        UnknownInterruptError: If an id is none that the run waits for.
        AnswerTypeError: If an answer is of another type.
        AnswersMissingError: If the run waits for answers and there is none.
        RunConflict: If somebody else goes on with it.
    """
    with reading(record):
        questions = {tree["id"]: (path, tree) for path, tree in open_questions(record.at(GRAPH), GRAPH)}
    record.asks = bool(questions)
    for id in answers:
        if id not in questions:
            known = ", ".join(map(repr, questions)) or "nothing"
            raise UnknownInterruptError(
                record.id,
                f"it does not wait for an answer to {id!r}; it waits for {known}{did_you_mean(id, questions)}",
            )
    noted = [(*questions[id], *_noted(record, questions[id][1], answer)) for id, answer in answers.items()]
    points = [(path, tree) for path, tree in questions.values() if tree.get("kind") in ("before", "after")]
    if not answers and len(points) < len(questions) and not points and not asks and not _can_go_on(record):
        raise AnswersMissingError(
            record.id, f"it waits for answers to {', '.join(map(repr, questions))}: give resume(…, {{id: answer}})"
        )
    for path, _, kind, tree in noted:
        record.put((*path, kind), tree)
        unblock(record, path)
    for path, _ in points:
        record.put((*path, "answer"), None)
        unblock(record, path)
    if asks:
        for path, _ in questions.values():
            unblock(record, path)
    if record.at(("error",)) is not None:
        record.remove(("error",))
    await _note_that_it_goes_on(record)


async def _note_that_it_goes_on(record: Record) -> None:
    version = record.kept.version
    try:
        await record.commit("that it goes on")
    except BaseException:
        if record.kept.version > version:  # it was cancelled when that was written already
            with CancelScope(shield=True), suppress(DurableError):
                await record.commit("that it was left", owner=None)
        raise


def _can_go_on(record: Record) -> bool:
    """Tell whether a task of the outermost graph does not wait for an answer."""
    tasks: dict[str, dict[str, Any]] = record.at((*GRAPH, "tasks")) or {}
    return any(not task.get("blocked") for task in tasks.values())


def _noted(record: Record, question: Mapping[str, Any], answer: Any) -> tuple[str, Json]:
    """Test an answer as far as its type is known here; give how it is noted."""
    id = question["id"]
    if question.get("kind") in ("before", "after"):
        if answer is not None:
            raise UnknownInterruptError(
                record.id, f"{id!r} is a pause that needs no answer; leave it out, or give None"
            )
        return "answer", None
    asked = record.asked.get(id)
    try:
        form = resolve(question["answer_type"]) if asked is None else asked.answer_type
    except UnknownAnswerTypeError:
        return "raw", codec_for(Any).encode(answer)
    return "answer", codec_for(form).encode(validated(id, form, answer))


@contextmanager
def reading(record: Record) -> Generator[None]:
    """Turn what goes wrong with a record that is not as it was written into the error that says so."""
    from .errors import DamagedRecordError

    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        if isinstance(error, DamagedRecordError):
            raise
        why = f"{type(error).__name__}: {error}"[:300]
        raise DamagedRecordError(f"run {record.id!r}", f"it is not what was written ({why})") from error


def stored_output(record: Record, plan: Plan) -> tuple[Any] | None:
    """Give the output of a run that has ended, in a box, or None if it has not."""
    with reading(record):
        if "output" in record.doc:
            return (codecs_of(plan).output(plan.end).decode(record.doc["output"]),)
        if record.at(GRAPH) is None:
            return None
        record.catch_up()
        return scope_of(record, plan).ended()


# -- running ---------------------------------------------------------------------------------------------------


def scope_of(record: Record, plan: Plan) -> Scope:
    """Give the record of the outermost graph."""
    with reading(record):
        return Scope(record, GRAPH, (), plan)


class AtWork:
    """While a process is at work on a run: nobody else may be, and however it ends, that is noted."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._mark = (id(record.keeping.store), record.id)
        self._over = False

    async def __aenter__(self) -> AtWork:
        if self._mark in active:
            raise RunConflict(self._record.id, "this process is at work on it already")
        active.add(self._mark)
        at_work.add(self._record.owner)
        return self

    async def done(self, run: Run, output: Any) -> None:
        """Note that the run has ended, and with what."""
        record = self._record
        version = record.kept.version
        if record.is_stored or record.keeping.durability == "step":
            if record.at((*GRAPH, "ended")) is None:
                record.put(("output",), codecs_of(run.plan).output(run.plan.end).encode(output))
            try:
                await record.commit("the output", "done", owner=None)
            except BaseException:
                self._over = record.kept.version > version  # cancelled when it was written, or before
                raise
        self._over = True

    async def paused(self) -> Interrupted:
        """Note that the run has stopped; give what says so, with everything that it waits for."""
        self._over = True
        block_what_asks(self._record)
        with CancelScope(shield=True):
            await self._record.commit("the pause", "paused", owner=None)
        return Interrupted(self._record.id, pending(self._record))

    async def failed(self, error: Exception) -> None:
        """Note that the run has failed, so that it can be resumed where it failed."""
        self._over = True
        if self._record.failure is not None:
            return  # nothing can be saved, or somebody else saves
        self._record.put(("error",), f"{type(error).__name__}: {error}")
        try:
            with CancelScope(shield=True):
                await self._record.commit("that it failed", "failed", owner=None)
        except (DurableError, StoreError) as second:
            error.add_note(f"and this could not be saved: {second}")

    async def __aexit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        try:
            await self._leave(error)
        finally:
            self._record.over = True
            active.discard(self._mark)
            at_work.discard(self._record.owner)

    async def _leave(self, error: BaseException | None) -> None:
        if self._over:
            return
        if error is not None and is_pause(error):
            raise await self.paused() from None
        if isinstance(error, Exception):
            await self.failed(error)
        elif self._record.is_stored:
            with CancelScope(shield=True), suppress(DurableError):  # then it can be resumed when this process has ended
                await self._record.commit("that it was left", "running", owner=None)


def guarded(work: AtWork, record: Record, run: Run, reader: StreamReader[Any]) -> StreamReader[Any]:
    """Make the stream that a caller reads of a run that is kept: what an earlier reader got is not given again."""

    async def chunks() -> AsyncGenerator[Any, None]:
        before = record.at(("delivered",)) or 0
        seen: list[Any] = []
        try:
            async with reader:
                while True:
                    control = run.control
                    seen.append(await (reader.receive() if control is None else control.receive(reader, record.id)))
                    if len(seen) > before:
                        yield seen[-1]
        except EndOfStream:
            if record.asks and any(True for _ in open_questions(record.at(GRAPH), GRAPH)):  # it was swallowed
                record.put(("delivered",), max(len(seen), before))
                raise await work.paused() from None
            await work.done(run, _together(run, seen))
        except BaseException as error:
            if is_pause(error):
                record.put(("delivered",), max(len(seen), before))
                raise await work.paused() from None
            if isinstance(error, Exception):
                await work.failed(error)
            raise

    return StreamReader._from_generator(chunks(), feeds=(reader,))  # pyright: ignore[reportPrivateUsage]


def _together(run: Run, chunks: list[Any]) -> Any:
    if not chunks:
        end = run.plan.nodes[run.plan.end]
        return None if end.empty is None else end.empty()
    return concat(chunks)
