"""`anabranch resume` and `anabranch runs`, and what `anabranch ask` does with a store."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from ...compose import CheckpointStore, Interrupt, Interrupted, KeptRun, ResumeError, RunFinishedError, SqliteStore
from ...compose._store import ID_LIMIT
from ...schema import Message
from ..models import OfflineModel
from ..react import ReactAgent
from ._asked import as_json, command_to_go_on, read_answers, shown
from ._output import Line
from .errors import RunWaits, UsageError

SETTINGS = "anabranch_ask"
"""Under this name a question carries the settings of the agent that was asked, so that `resume` makes it again."""
PAGE = 200


class Settings(BaseModel):
    """What `anabranch ask` was told about its agent."""

    folder: str
    model: str
    confirm: list[str]

    def question(self, text: str) -> Message:
        """Make the question that carries them."""
        return Message.user(text, extra={SETTINGS: self.model_dump()})


def check_name(option: str, name: str | None) -> None:
    """Refuse what cannot be an id.

    Raises:
        UsageError: If it is none.
    """
    if name is not None and not 0 < len(name) < ID_LIMIT - 10:
        raise UsageError(f"{option}: a name has 1 to {ID_LIMIT - 11} characters")


def open_store(path: Path, *, must_exist: bool = False) -> SqliteStore:
    """Give the store in a file.

    Args:
        path: The file.
        must_exist: Whether there has to be one already.

    Returns:
        The store.

    Raises:
        UsageError: If there is no such file or folder.
    """
    if must_exist and not path.is_file():
        raise UsageError(f"--store: there is no file {str(path)!r}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--store: there is no folder {str(path.absolute().parent)!r}")
    return SqliteStore(path)


@asynccontextmanager
async def waiting_told(store: Path | None) -> AsyncGenerator[None, None]:
    """Turn a run that has stopped for an answer into the output that says so, and the exit status.

    Raises:
        RunWaits: The run waits.
    """
    try:
        yield
    except Interrupted as paused:
        tell_waiting(paused.run, str(store), paused.interrupts)
        raise RunWaits from None


def tell_waiting(run: str, store: str, interrupts: Sequence[Interrupt]) -> None:
    """Write what a run waits for, and the command to go on."""
    line = Line()
    what = "waits for an answer" if len(interrupts) == 1 else f"waits for {len(interrupts)} answers"
    line.write(f"run {run!r} {what if interrupts else 'was paused'}\n")
    for text in shown(interrupts):
        line.write(f"{text}\n")
    line.write(f"go on with: {command_to_go_on(run, store, interrupts)}")
    line.end()


# -- resume -----------------------------------------------------------------------------------------------------------


def resume_run(
    run: str, *, store: Path, answers: Sequence[str], stream: bool, trace: bool, takeover: bool
) -> Coroutine[Any, Any, None]:
    """Give what goes on with a run that `anabranch ask` has begun.

    Args:
        run: The id of the run.
        store: The store's file.
        answers: What stands behind `--answer`.
        stream: Whether to print the answer while it is made.
        trace: Whether to show the steps on stderr.
        takeover: Whether to go on although another process seems to be at work on it.

    Returns:
        The work that is left to do.

    Raises:
        UsageError: If there is no such store; nothing has run.
    """
    return _resume(open_store(store, must_exist=True), run, store, answers, stream, trace, takeover)


async def _resume(
    store: SqliteStore, run: str, path: Path, answers: Sequence[str], stream: bool, trace: bool, takeover: bool
) -> None:
    from ._ask import make_agent, show
    from ._asked import is_interactive
    from ._trace import Trace

    async with store:
        settings = await _settings_of(store, run)
        async with make_agent(settings, store, interactive=is_interactive()) as asked:
            pending = await asked.agent.pending(run)
            given = read_answers(answers, pending, run)
            open_questions = [one for one in pending if one.id not in given and one.answer_type is not None]
            if open_questions and not given and asked.options is None:
                tell_waiting(run, str(path), pending)
                raise RunWaits
            async with waiting_told(path):
                kept: Any = {"takeover": True} if takeover else {}
                if trace:
                    with Trace() as steps:
                        options = steps.added_to(asked.options)
                        await show(asked.agent.resume_events(run, given, options, **kept), steps)
                elif stream:
                    await show_stream(asked.agent.resume_stream(run, given, asked.options, **kept))
                else:
                    await show_text((await asked.agent.resume(run, given, asked.options, **kept)).text)


async def _settings_of(store: CheckpointStore, run: str) -> Settings:
    """Read how the agent was made that a run belongs to.

    Raises:
        ResumeError: If there is no such run, or it has ended.
        UsageError: If it was not begun by `anabranch ask`.
    """
    probe = probing_agent(store)
    await probe.pending(run)
    record = await probe._runs.app._looked_up(run)  # pyright: ignore[reportPrivateUsage]
    asked: Any = record.at(("graph", "out", "start"))
    if record.at(("output",)) is not None or record.at(("given_up",)) is not None:
        raise RunFinishedError(run, "it has ended; ask again to begin another one")
    try:
        settings = [
            Settings.model_validate(one["extra"][SETTINGS]) for one in asked if SETTINGS in one.get("extra", ())
        ]
        # A question that had to wait was asked with the settings of the turn before it: better too often.
        confirm = {name for one in settings for name in one.confirm}
        return settings[-1].model_copy(update={"confirm": sorted(confirm)})
    except (TypeError, KeyError, AttributeError, IndexError, ValidationError) as error:
        raise UsageError(f"run {run!r} was not begun by `anabranch ask`; the program that did resumes it") from error


def probing_agent(store: CheckpointStore) -> ReactAgent:
    """Make an agent that only looks at runs."""
    return ReactAgent(OfflineModel(notice=False), store=store)


async def show_stream(opened: Any) -> None:
    """Print an answer while it is made."""
    line = Line()
    async with opened as reader:
        async for chunk in reader:
            line.write(chunk.text)
    line.end()


async def show_text(text: str) -> None:
    """Print an answer."""
    line = Line()
    line.write(text)
    line.end()


# -- runs -------------------------------------------------------------------------------------------------------------


def list_runs(*, store: Path, thread: str | None, as_json: bool) -> Coroutine[Any, Any, None]:
    """Give what prints the runs of a store.

    Args:
        store: The store's file.
        thread: Only those of this conversation.
        as_json: Whether to print JSON.

    Returns:
        The work that is left to do.

    Raises:
        UsageError: If there is no such store.
    """
    return _list(open_store(store, must_exist=True), thread, as_json)


async def _list(store: SqliteStore, thread: str | None, in_json: bool) -> None:
    line = Line()
    async with store:
        agent = probing_agent(store)
        rows: list[Any] = []
        after: str | None = None
        while True:
            page = await agent.runs(thread=thread, limit=PAGE, after=after)
            for run in page:
                waits = await _waits_for(agent, run)
                if in_json:
                    rows.append(_row(run, waits))
                else:
                    line.write(_written(run, waits))
            if len(page) < PAGE:
                break
            after = page[-1].id
    if in_json:
        line.write(as_json(rows))
        line.end()


async def _waits_for(agent: ReactAgent, run: KeptRun) -> Sequence[Interrupt]:
    if run.status != "paused":
        return ()
    try:
        return await agent.pending(run.id)
    except ResumeError:
        return ()  # it was made by another graph, or has gone meanwhile


def _row(run: KeptRun, waits: Sequence[Interrupt]) -> dict[str, Any]:
    return {
        "id": run.id,
        "status": run.status,
        "thread": run.thread,
        "version": run.version,
        "created": run.created,
        "updated": run.updated,
        "interrupts": [{"id": one.id, "payload": one.payload} for one in waits],
    }


def _written(run: KeptRun, waits: Sequence[Interrupt]) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.updated))
    parts = [run.id, run.status, when]
    if run.thread is not None:
        parts.append(f"thread {run.thread}")
    if waits:
        parts.append(f"waits for {', '.join(one.id for one in waits)}")
    return "  ".join(parts) + "\n"
