"""E8: a run that is cancelled at any point can be resumed, and does nothing twice."""

from __future__ import annotations

from typing import Any, Literal

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    Graph,
    Interrupted,
    Map,
    MemoryStore,
    Runnable,
    SqliteStore,
    UnknownRunError,
    interrupt,
    step,
)
from anabranch.compose._store import CheckpointStore

pytestmark = pytest.mark.anyio


class Count(BaseModel):
    """A state."""

    seen: list[str] = []


class Cancelling:
    """Cancels a run at its n-th checkpoint, counted in nodes, handlers and saves."""

    def __init__(self) -> None:
        self.at = 0
        self.passed = 0
        self.scope = anyio.CancelScope()
        self.log: list[str] = []

    async def point(self) -> None:
        self.passed += 1
        if self.passed == self.at:
            self.scope.cancel()
        await anyio.lowlevel.checkpoint()

    async def work(self, label: str) -> str:
        await self.point()
        made = await step("effect", self.effect, label)
        await self.point()
        return made

    def effect(self, label: str) -> str:
        self.log.append(label)
        return f"<{label}>"


class Slow(MemoryStore):
    """A store whose saves pass checkpoints, before and after they are done."""

    def __init__(self, cancelling: Cancelling) -> None:
        super().__init__()
        self._cancelling = cancelling

    async def save(self, head: Any, data: bytes, *, snapshot: bool, expected: int) -> None:
        await self._cancelling.point()
        await super().save(head, data, snapshot=snapshot, expected=expected)
        await self._cancelling.point()


def graph_of(at: Cancelling, store: CheckpointStore, trigger: Any) -> Runnable[str, str]:
    async def pre(text: str, state: Count) -> str:
        await at.point()
        state.seen.append(text)
        await at.point()
        return text

    async def nested(text: str) -> str:
        return text + await at.work("nested")

    async def item(text: str) -> str:
        return await at.work(f"item{text}")

    async def two(text: str) -> list[str]:
        return ["0", "1"]

    async def last(parts: list[str]) -> str:
        return "".join(parts) + await at.work("last")

    async def which(parts: list[str]) -> Literal["last"]:
        await at.point()
        return "last"

    inner = Graph[str, str](state=Count)
    inner.add_edge(START, inner.add_node("nested", nested, pre=pre))
    inner.add_edge("nested", END)
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("inner", inner))
    graph.add_edge("inner", graph.add_node("two", two))
    graph.add_edge("two", graph.add_node("each", Map(item)))
    graph.add_node("last", last)
    graph.add_branch("each", which)
    graph.add_edge("last", END)
    return graph.compile(trigger=trigger, store=store)


@pytest.mark.parametrize("trigger", ["any", "all"])
@pytest.mark.parametrize("mode", ["value", "stream"])
async def test_cancelled_anywhere_it_can_be_resumed_and_does_nothing_twice_that_was_saved(
    trigger: Any, mode: str
) -> None:
    at, ended = 0, False
    while not ended:
        at += 1
        cancelling = Cancelling()
        cancelling.at = at
        store = Slow(cancelling)
        app = graph_of(cancelling, store, trigger)
        output = ""
        with cancelling.scope:
            if mode == "value":
                output = await app.invoke("x", run="r")
            else:
                async with app.stream("x", run="r") as reader:
                    output = await reader.concat()
            ended = True
        cancelling.at = 0
        if not ended:
            try:
                output = await app.resume("r")
            except UnknownRunError:
                assert not cancelling.log, at
                output = await app.invoke("x", run="r")
            except Exception as error:
                if "has ended" not in str(error):
                    raise AssertionError(f"cancelled at point {at}") from error
                output = await app.output("r")
        assert output == "<item0><item1><last>", at
        assert sorted(cancelling.log) == ["item0", "item1", "last", "nested"], at
    assert at > 20


@pytest.mark.parametrize("trigger", ["any", "all"])
async def test_cancelled_anywhere_while_it_goes_on_with_an_answer_it_does_not_ask_again(trigger: Any) -> None:
    at, ended = 0, False
    while not ended:
        at += 1
        cancelling = Cancelling()
        store = Slow(cancelling)

        async def ask(text: str, cancelling: Cancelling = cancelling) -> str:
            await cancelling.point()
            answer = await interrupt("?", answer=str)
            return text + answer + await cancelling.work("after")

        graph = Graph[str, str]()
        graph.add_edge(START, graph.add_node("ask", ask, input=str, output=str))
        graph.add_edge("ask", END)
        app = graph.compile(trigger=trigger, store=store)
        with pytest.raises(Interrupted):
            await app.invoke("x", run="r")
        cancelling.at, cancelling.passed = at, 0
        output = ""
        with cancelling.scope:
            output = await app.resume("r", answer="!")
            ended = True
        cancelling.at = 0
        if not ended:
            log = await store.load("r")
            assert log is not None
            assert log.head.owner is None, at
            if log.head.status == "done":
                output = await app.output("r")
            else:
                waits = await app.pending("r")
                output = await (app.resume("r", answer="!") if waits else app.resume("r"))
                assert not waits or at <= 2, at
        assert output == "x!<after>", at
        assert cancelling.log == ["after"], at
    assert at > 6


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_cancelled_run_may_be_resumed_by_another_process_while_this_one_lives(tmp_path: Any) -> None:
    cancelling = Cancelling()
    cancelling.at = 4
    async with SqliteStore(tmp_path / "runs.db", synchronous="normal") as store:
        app = graph_of(cancelling, store, "any")
        with cancelling.scope:
            await app.invoke("x", run="r")
        log = await store.load("r")
        assert log is not None
        assert (log.head.status, log.head.owner) == ("running", None)
        assert await app.resume("r") == "<item0><item1><last>"
