from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    Approval,
    CheckpointStore,
    Graph,
    LogHead,
    MemoryStore,
    Runnable,
    SealedStore,
    StoreError,
    interrupt,
    step,
)

CASES: dict[str, Callable[[], Any]] = {}


def case(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def note(provoke: Callable[[], Any]) -> Callable[[], Any]:
        CASES[name] = provoke
        return provoke

    return note


HEAD = LogHead(
    id="r1",
    kind="run",
    version=1,
    status="running",
    thread=None,
    owner=None,
    graph="g",
    created=0.0,
    updated=0.0,
    expires=None,
)


class Notes(BaseModel):
    count: int = 0


async def shout(text: str) -> str:
    return text.upper()


async def ask(text: str) -> bool:
    return await interrupt(Approval(action="delete", target=text), answer=bool)


def line(node: Any, output: Any = str, **options: Any) -> Graph[str, Any]:
    """Make a graph of one node."""
    graph: Graph[str, Any] = Graph(input=str, output=output, state=Notes)
    graph.add_node("work", node, **options)
    graph.add_edge(START, "work")
    graph.add_edge("work", END)
    return graph


async def paused(store: CheckpointStore) -> Runnable[str, Any]:
    """Make a run r1 that waits for an answer."""
    app = line(ask, bool).compile(store=store)
    with pytest.raises(BaseException, match="waits"):
        await app.invoke("notes.txt", run="r1")
    return app


@case("Interrupted")
async def _() -> None:
    await line(ask, bool).compile(store=MemoryStore()).invoke("notes.txt", run="r1")


@case("AnswersMissingError")
async def _() -> None:
    app = await paused(MemoryStore())
    await app.resume("r1")


@case("UnknownInterruptError")
async def _() -> None:
    app = await paused(MemoryStore())
    await app.resume("r1", {"wrok/0": True})


@case("AnswerTypeError")
async def _() -> None:
    app = await paused(MemoryStore())
    await app.resume("r1", answer="yes please")


@case("UnknownRunError")
async def _() -> None:
    await line(shout).compile(store=MemoryStore()).resume("r7")


@case("RunFinishedError")
async def _() -> None:
    app = line(shout).compile(store=MemoryStore())
    await app.invoke("x", run="r1")
    await app.resume("r1")


@case("RunConflict")
async def _() -> None:
    app = line(shout).compile(store=MemoryStore())
    await app.invoke("x", run="r1")
    await app.invoke("x", run="r1")


@case("GraphChangedError")
async def _() -> None:
    store = MemoryStore()
    await paused(store)
    graph: Graph[str, Any] = Graph(input=str, output=bool, state=Notes)
    graph.add_edge(START, graph.add_node("first", shout))
    graph.add_node("work", ask)
    graph.add_edge("first", "work")
    graph.add_edge("work", END)
    await graph.compile(store=store).resume("r1", answer=True)


@case("ResumeError")
async def _() -> None:
    app = await paused(MemoryStore())
    await app.output("r1")


@case("StepMismatchError")
async def _() -> None:
    amounts = [1, 2]

    async def charge(amount: int) -> int:
        return amount

    async def work(text: str) -> bool:
        await step("charge", charge, amounts.pop(0))
        return await ask(text)

    app = line(work, bool).compile(store=MemoryStore())
    with pytest.raises(BaseException, match="waits"):
        await app.invoke("x", run="r1")
    await app.resume("r1", answer=True)


@case("StepResultError")
async def _() -> None:
    def charge() -> int:
        return cast("int", "a receipt")

    async def work(text: str) -> bool:
        await step("charge", charge)
        return True

    await line(work, bool).compile(store=MemoryStore()).invoke("x", run="r1")


class Full(MemoryStore):
    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        if expected:
            raise StoreError("Full()", "saving", "there is no space left; make some")
        await super().save(head, data, snapshot=snapshot, expected=expected)


@case("CheckpointError")
async def _() -> None:
    await line(shout).compile(store=Full()).invoke("x", run="r1")


@case("VersionConflict")
async def _() -> None:
    store = MemoryStore()
    await store.save(HEAD, b"", snapshot=True, expected=0)
    await store.save(HEAD, b"", snapshot=True, expected=0)


@case("StoreError")
async def _() -> None:
    def broken(data: bytes, id: str) -> bytes:
        raise ValueError("the key has expired")

    await SealedStore(MemoryStore(), broken, broken).save(HEAD, b"", snapshot=True, expected=0)


@case("DamagedRecordError")
async def _() -> None:
    store = MemoryStore()
    app = await paused(store)
    log = await store.load("r1")
    assert log is not None
    head = replace(log.head, version=log.head.version + 1)
    await store.save(head, b"nonsense", snapshot=True, expected=log.head.version)
    await app.resume("r1", answer=True)


@case("UnsavableTypeError")
def _() -> None:
    from anabranch.compose._codec import codec_for

    codec_for(dict[str, asyncio.Lock])


@case("UnsavableValueError")
async def _() -> None:
    async def work(text: str) -> Any:
        return {"lock": asyncio.Lock()}

    await line(work, Any).compile(store=MemoryStore()).invoke("x", run="r1")


@pytest.mark.anyio
@pytest.mark.once
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_texts_of_kept_runs(compare_texts: Any) -> None:
    await compare_texts("compose_kept", CASES)
