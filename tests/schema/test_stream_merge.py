"""Merging under random schedules (S5): order within a source, nothing lost, at most one item per source read ahead."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from anabranch.schema import SourceEnd, StreamError, StreamReader, merge, pipe

pytestmark = pytest.mark.anyio

Item = tuple[int, int]


class Boom(Exception):
    pass


class Tap:
    """One source of a merge, whose items come from the test."""

    def __init__(self, name: int, kind: str) -> None:
        self.name = name
        self.pipe_reader, self.writer = pipe[Item](100)
        self.reader: StreamReader[Item] = self.pipe_reader
        if kind == "generator":
            self.reader = StreamReader.from_iterable(self.relay())
        elif kind == "copy":
            self.reader, self.other = StreamReader.from_iterable(self.relay()).copy(2)
        elif kind == "conversion":
            self.reader = StreamReader.from_iterable(self.relay()).convert(self.same)
        self.pulled = 0
        self.open_generators = 0
        self.sent: list[Item] = []
        self.ending: str | None = None

    async def relay(self) -> AsyncGenerator[Item]:
        self.open_generators += 1
        try:
            with anyio.move_on_after(10_000):
                async for item in self.pipe_reader:
                    self.pulled += 1
                    yield item
        finally:
            self.open_generators -= 1
            await checkpoint()
            await self.pipe_reader.aclose()

    async def same(self, item: Item) -> Item:
        await checkpoint()
        return item

    def send(self) -> None:
        if self.ending is None:
            self.sent.append((self.name, len(self.sent)))
            self.writer.send_nowait(self.sent[-1])

    async def close(self) -> None:
        self.writer.close()
        await self.reader.aclose()
        if hasattr(self, "other"):
            await self.other.aclose()
        await self.pipe_reader.aclose()


async def settle() -> None:
    for _ in range(14):
        await checkpoint()


class Rig:
    """A merge of taps, and what was read from it."""

    def __init__(self, kinds: list[str], tasks: anyio.abc.TaskGroup) -> None:
        self.taps = [Tap(name, kind) for name, kind in enumerate(kinds)]
        self.merged = merge([tap.reader for tap in self.taps], labels=True)
        self.tasks = tasks
        self.got: list[Item] = []
        self.ended: list[int] = []
        self.ending: str | None = None
        self.waiting: anyio.CancelScope | None = None

    def receive(self) -> None:
        if self.waiting is None:
            self.waiting = anyio.CancelScope()
            self.tasks.start_soon(self.receive_in_task, self.waiting)

    async def receive_in_task(self, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                item = await self.merged.receive()
            except anyio.EndOfStream:
                self.ending = "end"
            except anyio.ClosedResourceError:
                self.ending = "closed"
            except Boom:
                self.ending = "fail"
            else:
                if isinstance(item, SourceEnd):
                    self.ended.append(item.label)
                else:
                    assert item[0] == item[1][0]
                    self.got.append(item[1])
        self.waiting = None

    def of(self, tap: Tap) -> list[Item]:
        return [item for item in self.got if item[0] == tap.name]

    def check(self) -> None:
        for tap in self.taps:
            assert self.of(tap) == tap.sent[: len(self.of(tap))], "order is kept within a source"
            assert tap.pulled <= len(self.of(tap)) + 1 or hasattr(tap, "other"), "read ahead"
            if tap.name in self.ended:
                assert tap.ending == "end"
                assert self.of(tap) == tap.sent
        assert len(self.ended) == len(set(self.ended))
        failed = any(tap.ending == "fail" for tap in self.taps)
        if self.ending == "end":
            assert sorted(self.ended) == [tap.name for tap in self.taps]
        elif self.ending == "fail":
            assert failed
            assert all(tap.open_generators == 0 for tap in self.taps if not hasattr(tap, "other"))
        elif self.waiting is not None:
            assert not failed
            for tap in self.taps:
                assert self.of(tap) == tap.sent, "an item was kept back"
                assert (tap.name in self.ended) == (tap.ending == "end")


steps = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 3)),
    st.just(("receive", 0)),
    st.just(("receive", 0)),
    st.just(("cancel", 0)),
    st.tuples(st.sampled_from(["end", "end", "fail"]), st.integers(0, 3)),
)


@given(
    kinds=st.lists(st.sampled_from(["pipe", "generator", "copy", "conversion"]), min_size=1, max_size=4),
    schedule=st.lists(steps, min_size=4, max_size=24),
    settled=st.booleans(),
)
async def test_a_merge_loses_nothing_and_keeps_the_order_of_each_source(
    kinds: list[str], schedule: list[tuple[str, int]], settled: bool
) -> None:
    async with anyio.create_task_group() as tasks:
        rig = Rig(kinds, tasks)
        for step, index in schedule:
            tap = rig.taps[index % len(rig.taps)]
            if step == "send" and rig.ending is None:
                tap.send()
            elif step == "receive":
                rig.receive()
            elif step == "cancel" and rig.waiting is not None:
                rig.waiting.cancel()
            elif step in ("end", "fail") and tap.ending is None:
                tap.ending = step
                if step == "fail":
                    await tap.writer.fail(Boom())
                else:
                    tap.writer.close()
            if settled:
                await settle()
                rig.check()
        await settle()
        rig.check()
        while rig.ending is None and all(tap.ending for tap in rig.taps):
            rig.receive()
            await settle()
            rig.check()
        await rig.merged.aclose()
        assert all(tap.open_generators == 0 for tap in rig.taps if not hasattr(tap, "other"))
        for tap in rig.taps:
            await tap.close()


async def test_a_source_that_always_has_an_item_does_not_keep_the_others_out() -> None:
    def endless() -> Any:
        while True:
            yield "again"

    reader, writer = pipe[str](1)
    merged = merge([StreamReader.from_iterable(endless()), reader])
    await writer.send("at last")
    got = [await merged.receive() for _ in range(4)]
    assert "at last" in got
    await merged.aclose()
    writer.close()


async def test_a_rendezvous_that_is_merged_takes_one_item_ahead_at_most() -> None:
    reader, writer = pipe[int](0)
    other, other_writer = pipe[int](5)
    merged = merge([reader, other])
    await other_writer.send(7)
    assert await merged.receive() == 7
    with pytest.raises(anyio.WouldBlock):  # noqa: PT012
        writer.send_nowait(1)
        writer.send_nowait(2)
    await merged.aclose()
    writer.close()
    other_writer.close()


async def test_labels_of_a_list_are_its_positions() -> None:
    merged = merge([StreamReader.of("a"), StreamReader.of("b")], labels=True)
    assert [item async for item in merged] == [(0, "a"), SourceEnd(0), (1, "b"), SourceEnd(1)]


async def test_a_mapping_without_labels_is_its_values() -> None:
    merged = merge({"x": StreamReader.of("a"), "y": StreamReader.of("b")})
    assert [item async for item in merged] == ["a", "b"]


async def test_a_reader_cannot_be_merged_twice() -> None:
    reader = StreamReader.of(1)
    with pytest.raises(StreamError, match="was given to"):
        merge([reader, reader])
    assert repr(reader).startswith("<StreamReader handed on")
