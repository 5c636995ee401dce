"""Copies against a plain model (S1, S2, S3), under random schedules, over sources of every kind.

The model: the items sent so far, how the source ended, and for each copy how many it has read. The source is a pipe,
or an async generator that reads one and holds a cancel scope, or one of them converted.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from types import AsyncGeneratorType
from typing import Any, cast

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from anabranch.schema import StreamReader, pipe

pytestmark = pytest.mark.anyio

Outcome = tuple[str, Any]
KINDS = ["pipe", "generator", "plain conversion", "async conversion", "foreign"]


class Boom(Exception):
    pass


class Foreign:
    """An async iterator of somebody else's making."""

    def __init__(self, inner: AsyncGenerator[int]) -> None:
        self.inner = inner

    def __aiter__(self) -> Foreign:
        return self

    async def __anext__(self) -> int:
        return await anext(self.inner)

    async def aclose(self) -> None:
        await self.inner.aclose()


class Tap:
    """A source whose items come from the test, and which notes how often it was closed."""

    def __init__(self, kind: str) -> None:
        reader, self.writer = pipe[int](100)
        self.closings = 0
        self.started = False
        self.inner = reader
        self.reader: StreamReader[int] = reader
        self.generator = None if kind in ("pipe", "async conversion") else self.relay(reader)
        if self.generator is None:
            self.reader = reader if kind == "pipe" else reader.convert(self.same)
        elif kind == "foreign":
            self.reader = StreamReader.from_iterable(Foreign(self.generator))
        else:
            self.reader = StreamReader.from_iterable(self.generator)
            if kind == "plain conversion":
                self.reader = self.reader.convert(abs)

    async def relay(self, reader: StreamReader[int]) -> AsyncGenerator[int]:
        self.started = True
        try:
            with anyio.move_on_after(10_000):
                async for item in reader:
                    yield item
        finally:
            await checkpoint()
            await reader.aclose()
            self.closings += 1

    async def same(self, item: int) -> int:
        await checkpoint()
        return item

    def is_closed(self) -> bool:
        if self.generator is not None:
            return cast("AsyncGeneratorType[int]", self.generator).ag_frame is None and self.closings == self.started
        try:
            self.writer.send_nowait(-1)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return True
        return False


@dataclass
class Copy:
    """A copy: as the model sees it, and the real one."""

    reader: StreamReader[int]
    place: int = 0
    closed: bool = False
    told: bool = False
    waiting: anyio.CancelScope | None = None
    got: list[Outcome] = field(default_factory=list[Outcome])


class Machine:
    """Steps that do the same to the model and to real copies, and the check that they agree."""

    def __init__(self, kind: str, count: int, max_lag: int | None, tasks: anyio.abc.TaskGroup) -> None:
        self.tap = Tap(kind)
        self.tasks = tasks
        self.sent: list[int] = []
        self.ending: Outcome | None = None
        self.error = Boom()
        self.max_lag = max_lag
        self.filled = 0
        self.copies = [Copy(reader) for reader in self.tap.reader.copy(count, max_lag)]

    # What the test does.

    def send(self) -> None:
        if self.ending is None and any(not (copy.closed or copy.told) for copy in self.copies):
            self.tap.writer.send_nowait(len(self.sent))
            self.sent.append(len(self.sent))

    async def end(self, failed: bool) -> None:
        if self.ending is None:
            if failed:
                await self.tap.writer.fail(self.error)
            else:
                self.tap.writer.close()
            self.ending = ("failed", self.error) if failed else ("ended", None)

    def receive(self, copy: Copy) -> None:
        if copy.waiting is None:
            copy.waiting = anyio.CancelScope()
            self.tasks.start_soon(self.receive_in_task, copy, copy.waiting)

    async def receive_in_task(self, copy: Copy, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                copy.got.append(("item", await copy.reader.receive()))
            except anyio.EndOfStream:
                copy.got.append(("ended", None))
            except anyio.ClosedResourceError:
                copy.got.append(("closed", None))
            except Boom as error:
                copy.got.append(("failed", error))
        copy.waiting = None

    def cancel(self, copy: Copy) -> None:
        if copy.waiting is not None:
            copy.waiting.cancel()

    async def close(self, copy: Copy) -> None:
        await copy.reader.aclose()
        copy.closed = True

    def copy_again(self, copy: Copy) -> None:
        if copy.waiting is None and not copy.closed and self.max_lag is None:
            first, second = copy.reader.copy(2)
            self.copies.remove(copy)
            for reader in (first, second):
                self.copies.append(Copy(reader, copy.place, told=copy.told))

    # What the model expects.

    def expect(self, copy: Copy) -> Outcome | None:
        """Give what a receive comes to, or None if it has to wait."""
        if copy.closed:
            return ("closed", None)
        if copy.place < len(self.sent) and self.may_advance(copy):
            return ("item", self.sent[copy.place])
        if copy.place < len(self.sent):
            return None
        return self.ending if self.ending is not None and (copy.told or self.may_advance(copy)) else None

    def may_advance(self, copy: Copy) -> bool:
        if self.max_lag is None or copy.place < self.filled:
            return True
        slowest = min(other.place for other in self.copies if not (other.closed or other.told))
        return self.filled - slowest < self.max_lag

    def note(self, copy: Copy, outcome: Outcome) -> None:
        if outcome[0] == "item":
            copy.place += 1
            self.filled = max(self.filled, copy.place)
        elif outcome[0] in ("ended", "failed"):
            copy.told = True


async def settle() -> None:
    for _ in range(12):
        await checkpoint()


steps = st.one_of(
    st.just(("send", 0)),
    st.just(("send", 0)),
    st.tuples(st.just("receive"), st.integers(0, 2)),
    st.tuples(st.just("receive"), st.integers(0, 2)),
    st.tuples(st.sampled_from(["receive", "cancel", "cancel", "close", "copy_again"]), st.integers(0, 5)),
    st.sampled_from([("end", 0), ("fail", 0), ("send", 0), ("send", 0)]),
)


async def take(machine: Machine, step: str, index: int) -> None:
    copy = machine.copies[index % len(machine.copies)]
    if step == "send":
        machine.send()
    elif step in ("end", "fail"):
        await machine.end(failed=step == "fail")
    elif step == "close":
        await machine.close(copy)
    else:
        {"receive": machine.receive, "cancel": machine.cancel, "copy_again": machine.copy_again}[step](copy)


def check(machine: Machine) -> None:
    """Compare what each real receive gave with what the model expects of it."""
    moved = True
    while moved:  # what one copy read may be what lets another one go on
        moved = False
        for copy in machine.copies:
            if copy.got and copy.got[0] == machine.expect(copy):
                machine.note(copy, copy.got.pop())
                moved = True
    for copy in machine.copies:
        assert copy.got == [], (copy, machine.sent, machine.ending)
        assert copy.waiting is None or machine.expect(copy) is None, (copy, machine.sent, machine.ending)


@pytest.mark.parametrize("kind", KINDS)
@given(
    count=st.integers(1, 3),
    max_lag=st.sampled_from([None, None, 1, 2]),
    ready=st.integers(0, 4),
    schedule=st.lists(steps, min_size=4, max_size=25),
)
async def test_copies_do_what_their_model_does(
    kind: str, count: int, max_lag: int | None, ready: int, schedule: list[tuple[str, int]]
) -> None:
    async with anyio.create_task_group() as tasks:
        machine = Machine(kind, count, max_lag, tasks)
        for _ in range(ready):
            machine.send()
        for step, index in schedule:
            await take(machine, step, index)
            await settle()
            check(machine)
            if all(copy.closed or copy.told for copy in machine.copies):
                assert machine.tap.is_closed()
        for copy in machine.copies:
            await machine.close(copy)
        assert machine.tap.is_closed()
        machine.tap.writer.close()
        await machine.tap.inner.aclose()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["reads", "is closed"])
async def test_the_fastest_copy_waits_until_the_slowest_one_has_moved(kind: str, how: str) -> None:
    async with anyio.create_task_group() as tasks:
        machine = Machine(kind, 3, 2, tasks)
        for _ in range(5):
            machine.send()
        fast, middle, slow = machine.copies
        for copy in (fast, fast, middle, middle, slow):
            machine.receive(copy)
            await settle()
            check(machine)
        assert (fast.place, middle.place, slow.place) == (2, 2, 1)
        for copy in (fast, fast, middle):
            machine.receive(copy)
            await settle()
            check(machine)
        assert (fast.place, middle.place, slow.place) == (3, 3, 1)
        assert fast.waiting is not None
        if how == "reads":
            machine.receive(slow)
        else:
            await machine.close(slow)
        await settle()
        check(machine)
        assert fast.waiting is None
        assert fast.place == 4
        for copy in machine.copies:
            await machine.close(copy)
        machine.tap.writer.close()
        await machine.tap.inner.aclose()
