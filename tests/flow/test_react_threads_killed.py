"""Conversations whose process is killed: before and after every write to the store."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest
from typing_extensions import override

from anabranch.compose import (
    CheckpointStore,
    Interrupted,
    LogHead,
    MemoryStore,
    ResumeError,
    RunConflict,
    RunFinishedError,
    interrupt,
    step,
)
from anabranch.compose.testing import ScriptedModel
from anabranch.flow.react import ReactAgent
from anabranch.schema import Message, ToolCall, check_history, tool

pytestmark = pytest.mark.anyio


@tool
async def delete(path: str) -> str:
    """Delete a file."""
    allowed = await interrupt(f"delete {path}?", answer=bool)
    return "deleted" if allowed else "not allowed"


def call(name: str, path: str) -> Message:
    return Message.assistant(tool_calls=[ToolCall(id="c0", name=name, arguments=f'{{"path": "{path}"}}')])


def texts(messages: Sequence[Message]) -> list[str]:
    return [f"{message.role}: {message.text}" for message in messages]


class Killed(BaseException):
    """Stands for the end of the process."""


class DyingStore(MemoryStore):
    """A store whose process is killed before or after a write, and does nothing any more then."""

    def __init__(self, inside: MemoryStore, writes: int, *, after: bool) -> None:
        super().__init__()
        self._logs = inside._logs
        self._left = writes
        self._after = after

    def _count(self) -> bool:
        if self._left < 0:
            raise Killed
        self._left -= 1
        if self._left < 0 and not self._after:
            raise Killed
        return self._left < 0

    @override
    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        dies = self._count()
        await super().save(head, data, snapshot=snapshot, expected=expected)
        if dies:
            raise Killed

    @override
    async def delete(self, id: str) -> bool:
        dies = self._count()
        done = await super().delete(id)
        if dies:
            raise Killed
        return done

    @property
    def died(self) -> bool:
        return self._left < 0


paid: list[str] = []


@tool
async def pay(path: str) -> str:
    """Pay for a file."""

    def charge(what: str) -> str:
        paid.append(what)
        return f"paid {what}"

    told: str = await step("charge", charge, path)
    return told


def reply(messages: list[Message]) -> Message:
    """Answer by what is seen, so that another process says the same."""
    last = messages[-1]
    if last.role == "tool":
        return Message.assistant(f"{len(messages)}: {last.text}")
    return call("pay" if "pay" in last.text else "delete", last.text)


def paying_agent(store: CheckpointStore, durability: Any) -> ReactAgent:
    return ReactAgent(ScriptedModel([reply] * 20), tools=[pay, delete], store=store, durability=durability)


EXPECTED = [
    "user: pay 1", "assistant: ", "tool: paid pay 1", "assistant: 3: paid pay 1",
    "user: rm 2", "assistant: ", "tool: deleted", "assistant: 7: deleted",
    "user: pay 3", "assistant: ", "tool: paid pay 3", "assistant: 11: paid pay 3",
]  # fmt: skip


async def go_on(store: CheckpointStore, durability: Any) -> None:
    """Do whatever is left to do, as a process would that knows what it was to ask."""
    agent = paying_agent(store, durability)
    for number, question in enumerate(("pay 1", "rm 2", "pay 3")):
        run = f"r{number}"
        known = {one.id: one for one in await agent.runs()}
        if run in known and known[run].status == "done" and known[run].version == 1:
            continue
        try:
            if run in known:
                asked = await agent.pending(run)
                await agent.resume(run, {one.id: True for one in asked})
            else:
                await agent.generate(question, thread="c1", run=run)
        except RunFinishedError:
            continue
        except RunConflict:
            continue  # it has ended, which the first try could not say any more
        except Interrupted as paused:
            await agent.resume(paused.run, answer=True)


@pytest.mark.parametrize("durability", ["step", "pause"])
@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_any_write_no_turn_is_lost_or_doubled(durability: Any, after: bool) -> None:
    kills = 0
    for writes in range(200):
        paid.clear()
        inside = MemoryStore()
        dying = DyingStore(inside, writes, after=after)
        try:
            await go_on(dying, durability)
        except Killed:
            kills += 1
        if not dying.died:
            break
        store = DyingStore(inside, 10_000, after=False)
        for _ in range(2):
            await go_on(store, durability)
        agent = paying_agent(store, durability)
        assert texts(await agent.thread("c1")) == EXPECTED, f"killed at write {writes}"
        await agent.generate("pay 4", thread="c1")  # the next turn clears away what the last one could not
        assert [one.version for one in await agent.runs()] == [1] * 3
        doubled = len(paid) - 2
        assert doubled <= 2, "a step can only be doubled where its result was not saved"
        assert (await agent.output("r1")).text == "7: deleted"
    else:
        pytest.fail("there is no end of writes")
    assert kills > 10


@pytest.mark.parametrize("way", ["cancel", "queue"])
@pytest.mark.parametrize("after", [False, True])
async def test_killed_while_a_message_meets_a_turn_that_waits_nothing_is_lost_or_doubled(way: Any, after: bool) -> None:
    kills = 0

    async def go_on_with(store: CheckpointStore) -> None:
        """Ask for a deletion, and say something else before it is allowed; each under an id of its own."""
        agent = paying_agent(store, "step")
        runs = {one.id: one for one in await agent.runs()}
        if "r0" not in runs:
            with contextlib.suppress(Interrupted, RunConflict):
                await agent.generate("rm 0", thread="c1", run="r0", waiting=way)
        if "r1" not in runs:
            with contextlib.suppress(Interrupted, RunConflict):
                await agent.generate("pay 1", thread="c1", run="r1", waiting=way)
        for run in ("r0", "r1"):
            with contextlib.suppress(ResumeError):
                answers = {one.id: True for one in await agent.pending(run)}
                await agent.resume(run, answers)

    for writes in range(200):
        inside = MemoryStore()
        dying = DyingStore(inside, writes, after=after)
        try:
            await go_on_with(dying)
        except Killed:
            kills += 1
        if not dying.died:
            break
        store = DyingStore(inside, 10_000, after=False)
        for _ in range(3):
            await go_on_with(store)
        said = await paying_agent(store, "step").thread("c1")
        assert check_history(said) == []
        words = texts(said)
        assert [text for text in words if text.startswith("user")] == ["user: rm 0", "user: pay 1"], writes
        assert words[-1].endswith("paid pay 1"), writes
        if way == "queue":
            assert len(words) == 8, writes
    else:
        pytest.fail("there is no end of writes")
    assert kills > 10
