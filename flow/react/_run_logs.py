"""What a turn's run leaves in the store: the history that it came to, and a mark that it has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ...compose import LogHead, ResumeError, Runnable, StoredLog, UnknownRunError
from ...compose._codec import codec_for, dump
from ...compose._keep import reading, stored_output
from ...compose._record import FORMAT, seal
from ...compose._scope import codecs_of
from ...schema import Message, repair_history
from ._state import AgentState
from ._thread_log import MESSAGES

if TYPE_CHECKING:
    from ...compose._codec import Json
    from ...compose._record import Keeping

CANCELLED = "This call was cancelled before it was complete: the user wrote something else instead of waiting for it."
MESSAGE = codec_for(Message)

App = Runnable[list[Message], Message]


async def ended_history(app: App, run: str, message: Message) -> AgentState:
    """Give the state that a run of the store ended with, its answer in the history."""
    state = cast("AgentState | None", await app.state(run))
    return AgentState([message]) if state is None else completed(state, message)


async def result_of(app: App, run: str) -> tuple[list[Message], Message | None] | None:
    """Give the history and the answer of a run that has ended; no answer if it was given up.

    Returns:
        None if there is no such run, or only the mark that it was cleared away.
    """
    try:
        record = await app._looked_up(run)  # pyright: ignore[reportPrivateUsage]
    except UnknownRunError:
        return None
    kept, tree = (record.at(path) for path in (("given_up",), ("graph", "state")))
    with reading(record):
        if kept is not None:
            return cast("list[Message]", MESSAGES.decode(kept)), None
        if tree is None:
            return None
        found = stored_output(record, app.plan)
        if found is None:
            return None
        message: Message = found[0]
        state = cast("AgentState", codecs_of(app.plan).state.decode(tree))
    return completed(state, message).messages, message


def completed(state: AgentState, message: Message) -> AgentState:
    """Give a state whose history has the answer; one that streamed may have been saved without it."""
    if message in state.messages:
        return state
    return replace(state, messages=repair_history([*state.messages, message]))


async def stopped_history(app: App, run: str, before: Sequence[Message]) -> list[Message]:
    """Give the history that a run has come to which does not go on, in a form that a model accepts.

    Args:
        app: The agent's graph.
        run: The id of the run.
        before: The thread's messages with the question, which count while the run has not taken them in.

    Returns:
        The history; calls that were answered have their results, the others say that they were cancelled.
    """
    try:
        record = await app._looked_up(run)  # pyright: ignore[reportPrivateUsage]
        state = cast("AgentState | None", await app.state(run))
    except ResumeError:
        return repair_history(before, placeholder=CANCELLED)  # another graph made it
    if state is None or not state.rounds:
        return repair_history(before, placeholder=CANCELLED)
    tasks = cast("dict[str, Any]", record.at(("graph", "tasks")) or {})
    results = [result for task in tasks.values() if task["node"] == "tools" for result in _results(task)]
    return repair_history([*state.messages, *results], placeholder=CANCELLED)


def _results(task: dict[str, Any]) -> Iterator[Message]:
    """Give the results of those calls of a message that were answered before the others stopped."""
    for part in task.get("parts", {}).values():
        if "result" in part:
            yield MESSAGE.decode(part["result"]["value"])


# -- marks ------------------------------------------------------------------------------------------------------------


async def given_up(keeping: Keeping, stored: StoredLog, messages: Sequence[Message]) -> None:
    """Mark a run as ended without an answer, with what is kept of it.

    Raises:
        VersionConflict: Somebody goes on with it.
    """
    head = replace(_ended(keeping, stored.head), version=stored.head.version + 1)
    doc: dict[str, Json] = {"format": FORMAT, "run": head.id, "given_up": MESSAGES.encode(list(messages))}
    await keeping.store.save(head, _sealed(keeping, doc, head), snapshot=True, expected=stored.head.version)


async def mark(keeping: Keeping, run: str, thread: str, answer: Message | None) -> None:
    """Put a mark in the place of a run's log: that it has ended, and its answer if it has one."""
    now = time.time()
    head = LogHead(
        id=run,
        kind="run",
        version=1,
        status="done",
        thread=thread,
        owner=None,
        graph=keeping.graph,
        created=now,
        updated=now,
        expires=None,
    )
    head = _ended(keeping, head)
    doc: dict[str, Json] = {"format": FORMAT, "run": run}
    if answer is not None:
        doc["output"] = MESSAGE.encode(answer)
    await keeping.store.save(head, _sealed(keeping, doc, head), snapshot=True, expected=0)


def _ended(keeping: Keeping, head: LogHead) -> LogHead:
    now = time.time()
    after = keeping.expire_after
    return replace(head, status="done", owner=None, updated=now, expires=None if after is None else now + after)


def _sealed(keeping: Keeping, doc: dict[str, Json], head: LogHead) -> bytes:
    tree = doc if keeping.redact is None else keeping.redact(doc)
    return seal(dump(tree), head.id, head.version)
