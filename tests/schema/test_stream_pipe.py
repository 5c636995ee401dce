"""The pipe against a plain model, under random schedules of sending, receiving, closing and cancelling."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from anabranch.schema import Pipe, StreamReader, StreamWriter, pipe

pytestmark = pytest.mark.anyio

Outcome = tuple[str, Any]


class Boom(Exception):
    pass


CANCELLED: Outcome = ("cancelled", None)
SENT: Outcome = ("sent", None)
CLOSED: Outcome = ("raised", anyio.ClosedResourceError)
BROKEN: Outcome = ("raised", anyio.BrokenResourceError)
ENDED: Outcome = ("raised", anyio.EndOfStream)
BLOCKED: Outcome = ("raised", anyio.WouldBlock)
FAILED: Outcome = ("raised", Boom)


class Model:
    """What a pipe is: a queue, tasks that wait to send, at most one that waits to receive."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.queue: deque[int] = deque()
        self.senders: deque[tuple[int, int]] = deque()
        self.receiver: int | None = None
        self.reader_closed = self.writer_closed = self.failed = False
        self.outcomes: dict[int, Outcome] = {}

    def send(self, number: int, item: int, wait: bool) -> None:
        if self.writer_closed:
            self.outcomes[number] = CLOSED
        elif self.reader_closed:
            self.outcomes[number] = BROKEN
        elif self.receiver is not None:
            self.outcomes[self.receiver] = ("received", item)
            self.receiver = None
            self.outcomes[number] = SENT
        elif len(self.queue) < self.capacity:
            self.queue.append(item)
            self.outcomes[number] = SENT
        elif wait:
            self.senders.append((number, item))
        else:
            self.outcomes[number] = BLOCKED

    def receive(self, number: int, wait: bool) -> None:
        if self.reader_closed:
            self.outcomes[number] = CLOSED
        elif self.queue or self.senders:
            while self.senders and len(self.queue) < self.capacity + 1:
                sender, item = self.senders.popleft()
                self.outcomes[sender] = SENT
                self.queue.append(item)
            self.outcomes[number] = ("received", self.queue.popleft())
        elif self.writer_closed:
            self.outcomes[number] = FAILED if self.failed else ENDED
        elif wait:
            self.receiver = number
        else:
            self.outcomes[number] = BLOCKED

    def end(self, failed: bool) -> None:
        if self.writer_closed:
            return
        self.writer_closed, self.failed = True, failed
        for sender, _ in self.senders:
            self.outcomes[sender] = CLOSED
        self.senders.clear()
        if self.receiver is not None:
            self.outcomes[self.receiver] = FAILED if failed else ENDED
            self.receiver = None

    def close_reader(self) -> None:
        if self.reader_closed:
            return
        self.reader_closed = True
        for sender, _ in self.senders:
            self.outcomes[sender] = BROKEN
        self.senders.clear()
        self.queue.clear()
        if self.receiver is not None:
            self.outcomes[self.receiver] = CLOSED
            self.receiver = None

    def cancel(self, number: int) -> None:
        if number not in self.outcomes:
            self.outcomes[number] = CANCELLED
            self.senders = deque(sender for sender in self.senders if sender[0] != number)
            self.receiver = None if self.receiver == number else self.receiver


class Rig:
    """The same calls on a real pipe, each in a task of its own if it may wait."""

    def __init__(self, ends: Pipe[int], tasks: anyio.abc.TaskGroup) -> None:
        self.reader: StreamReader[int] = ends.reader
        self.writer: StreamWriter[int] = ends.writer
        self.tasks = tasks
        self.outcomes: dict[int, Outcome] = {}
        self.scopes: dict[int, anyio.CancelScope] = {}

    def start(self, number: int, call: Callable[[], Awaitable[Outcome]]) -> None:
        self.scopes[number] = anyio.CancelScope()
        self.tasks.start_soon(self.run, number, call)

    async def run(self, number: int, call: Callable[[], Awaitable[Outcome]]) -> None:
        self.outcomes[number] = CANCELLED
        with self.scopes[number]:
            del self.outcomes[number]
            try:
                self.outcomes[number] = await call()
            except Exception as error:  # noqa: BLE001
                self.outcomes[number] = ("raised", type(error))
        self.outcomes.setdefault(number, CANCELLED)

    async def send(self, item: int) -> Outcome:
        await self.writer.send(item)
        return SENT

    async def send_nowait(self, item: int) -> Outcome:
        self.writer.send_nowait(item)
        return SENT

    async def receive(self) -> Outcome:
        return ("received", await self.reader.receive())

    async def receive_nowait(self) -> Outcome:
        return ("received", self.reader._receive_nowait())  # pyright: ignore[reportPrivateUsage]


steps = st.one_of(
    st.just(("send",)),
    st.just(("send",)),
    st.just(("send_nowait",)),
    st.just(("receive",)),
    st.just(("receive",)),
    st.just(("receive_nowait",)),
    st.tuples(st.just("cancel"), st.integers(0, 3)),
    st.sampled_from([("close_reader",), ("close",), ("fail",), ("nothing",)]),
)


@given(capacity=st.integers(0, 3), schedule=st.lists(steps, min_size=4, max_size=24))
async def test_a_pipe_does_what_its_model_does(capacity: int, schedule: list[tuple[Any, ...]]) -> None:
    model = Model(capacity)
    async with anyio.create_task_group() as tasks:
        rig = Rig(pipe[int](capacity), tasks)
        for number, (step, *arguments) in enumerate(schedule):
            match step:
                case "send" | "send_nowait":
                    rig.start(number, lambda step=step, number=number: getattr(rig, step)(number))  # type: ignore[misc]
                    model.send(number, number, step == "send")
                case "receive" | "receive_nowait":
                    if model.receiver is not None:
                        continue
                    rig.start(number, getattr(rig, step))
                    model.receive(number, step == "receive")
                case "cancel":
                    waiting = [other for other in rig.scopes if other not in model.outcomes]
                    for other in waiting[arguments[0] : arguments[0] + 1]:
                        rig.scopes[other].cancel()
                        model.cancel(other)
                case "close_reader":
                    await rig.reader.aclose()
                    model.close_reader()
                case "close":
                    rig.writer.close()
                    model.end(failed=False)
                case "fail":
                    await rig.writer.fail(Boom())
                    model.end(failed=True)
                case _:
                    pass
            await settle()
            assert rig.outcomes == model.outcomes
        await rig.reader.aclose()
        rig.writer.close()


async def settle() -> None:
    for _ in range(6):
        await checkpoint()


@given(
    capacity=st.integers(0, 3),
    writers=st.lists(st.lists(st.integers(), max_size=6), min_size=1, max_size=3),
    pauses=st.lists(st.integers(0, 2), max_size=12),
)
async def test_everything_sent_by_several_tasks_arrives_once_and_in_each_one_s_order(
    capacity: int, writers: list[list[int]], pauses: list[int]
) -> None:
    reader, writer = pipe[tuple[int, int]](capacity)
    waits = iter(pauses)

    async def pause() -> None:
        for _ in range(next(waits, 0)):
            await checkpoint()

    async def write(name: int, items: list[int]) -> None:
        for item in items:
            await pause()
            await writer.send((name, item))

    async def write_all() -> None:
        async with writer, anyio.create_task_group() as tasks:
            for name, items in enumerate(writers):
                tasks.start_soon(write, name, items)

    got: list[tuple[int, int]] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write_all)
        async for item in reader:
            got.append(item)
            await pause()
    for name, items in enumerate(writers):
        assert [item for sender, item in got if sender == name] == items


async def test_a_rendezvous_hands_over_without_waiting_to_a_reader_that_waits() -> None:
    reader, writer = pipe[int](0)
    got: list[int] = []

    async def receive() -> None:
        got.append(await reader.receive())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        await settle()
        writer.send_nowait(1)
        with pytest.raises(anyio.WouldBlock):
            writer.send_nowait(2)
    assert got == [1]
    await reader.aclose()
    writer.close()


async def test_both_ways_of_calling_pipe_give_both_ends_by_name_and_in_order() -> None:
    untyped: Pipe[int] = pipe(2)
    for ends in (pipe[int](capacity=2), pipe[int](2), untyped):
        reader, writer = ends
        assert reader is ends.reader
        assert writer is ends.writer
        assert isinstance(reader, anyio.abc.ObjectReceiveStream)
        assert isinstance(writer, anyio.abc.ObjectSendStream)
        assert not reader.extra_attributes  # pyright: ignore[reportUnknownMemberType]  # anyio does not say more
        async with reader, writer:
            await writer.send(1)
            assert await reader.receive() == 1


async def test_leaving_the_writer_with_an_error_fails_the_stream_with_it() -> None:
    reader, writer = pipe[int](1)
    with pytest.raises(Boom):  # noqa: PT012
        async with writer:
            await writer.send(1)
            raise Boom
    assert await reader.receive() == 1
    with pytest.raises(Boom):
        await reader.receive()


async def test_leaving_the_writer_by_cancellation_breaks_the_stream() -> None:
    reader, writer = pipe[int](1)
    with anyio.CancelScope() as scope:
        async with writer:
            scope.cancel()
            await checkpoint()
    with pytest.raises(anyio.BrokenResourceError, match="cancelled"):
        await reader.receive()


async def test_the_error_of_a_stream_is_one_object_and_its_traceback_does_not_grow() -> None:
    reader, writer = pipe[int](1)
    boom = Boom()
    await writer.fail(boom)
    lengths: list[int] = []
    for _ in range(3):
        with pytest.raises(Boom) as caught:
            await reader.receive()
        assert caught.value is boom
        lengths.append(len(caught.traceback))
    assert lengths[0] == lengths[1] == lengths[2]


async def test_fail_takes_exceptions_only() -> None:
    reader, writer = pipe[int](1)
    with pytest.raises(TypeError, match="exception"):
        await writer.fail("no")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    writer.close()
    await reader.aclose()


async def test_the_ends_can_be_printed() -> None:
    reader, writer = pipe[int](1)
    assert repr(reader).startswith("<StreamReader open, made at ")
    assert repr(writer).startswith("<StreamWriter open, made at ")
    writer.close()
    assert "closed" in repr(writer)
    assert [item async for item in reader] == []
    assert "ended" in repr(reader)
    await reader.aclose()
    assert "closed" in repr(reader)
