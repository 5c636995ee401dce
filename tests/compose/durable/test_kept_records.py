"""What is stored of a run: keys of steps, states, migrated and redacted documents, when it expires."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import anyio
import pytest
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    Graph,
    GraphRunError,
    Interrupted,
    MemoryStore,
    NodeError,
    Runnable,
    SqliteStore,
    current_state,
    current_step,
    interrupt,
    step,
)
from anabranch.compose._store import CheckpointStore

pytestmark = pytest.mark.anyio

Make = Callable[..., Callable[[str], Any]]


class State(BaseModel):
    """A state."""

    seen: list[str] = []


async def test_no_two_steps_of_a_run_have_one_key_whatever_nodes_and_steps_are_called() -> None:
    keys: list[str] = []

    def effect(what: str) -> str:
        keys.append(current_step().key)
        return what

    async def works(text: str) -> str:
        for name in ("s", "s", "s#2", "s#2#1", "s#2", "s#"):
            assert await step(name, effect, f"{name} {len(keys)}")
        return text + "x"

    async def more(text: str) -> Literal["a", "a#2"]:
        return "a" if len(text) < 3 else "a#2"

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("a", works))
    graph.add_branch("a", more)
    graph.add_edge(graph.add_node("a#2", works), END)
    app = graph.compile(store=MemoryStore())
    await app.invoke("", run="r")
    assert len(keys) == 24
    assert len(set(keys)) == 24


@pytest.mark.parametrize("durability", ["step", "pause"])
async def test_a_migrated_document_is_what_the_run_goes_on_from(durability: Any, say: Make) -> None:
    store = MemoryStore()

    def app_of(text: str, **options: Any) -> Runnable[str, str]:
        async def ask(given: str) -> str:
            return given + await interrupt("?", answer=str)

        graph = Graph[str, str](state=State)
        graph.add_edge(START, graph.add_node("ask", ask))
        graph.add_edge("ask", graph.add_node(text, say(text)))
        graph.add_edge(text, END)
        return graph.compile(store=store, durability=durability, **options)

    def migrate(doc: dict[str, Any]) -> dict[str, Any]:
        doc["graph"]["state"]["seen"] = ["migrated"]
        doc["graph"]["out"]["start"] = "y"
        return doc

    with pytest.raises(Interrupted):
        await app_of("old").invoke("x", run="r")
    with pytest.raises(Interrupted):
        await app_of("new", migrate=migrate, interrupt_before=["new"]).resume("r", answer="!")
    again = app_of("new")
    assert await again.state("r") == State(seen=["migrated"])
    assert await again.resume("r") == "y!new"


async def test_runs_that_are_over_or_wait_expire_and_those_at_work_do_not() -> None:
    store = MemoryStore()
    statuses: list[float | None] = []

    async def ask(text: str) -> str:
        stored = await store.load("r")
        assert stored is not None
        statuses.append(stored.head.expires)
        return await interrupt("?", answer=str)

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", END)
    app = graph.compile(store=store, expire_after=60)
    with pytest.raises(Interrupted):
        await app.invoke("x", run="r")
    paused = await store.load("r")
    assert paused is not None
    assert statuses == [None]
    assert paused.head.expires is not None
    assert paused.head.expires - paused.head.updated == pytest.approx(60)
    assert await store.expire(paused.head.updated) == 0
    assert await store.expire(paused.head.expires) == 1
    assert await store.load("r") is None


async def test_what_is_redacted_is_in_no_entry_and_the_rest_goes_on(say: Make) -> None:
    def redact(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {key: redact(inner) for key, inner in tree.items()}  # pyright: ignore[reportUnknownVariableType]
        if isinstance(tree, list):
            return [redact(inner) for inner in tree]  # pyright: ignore[reportUnknownVariableType]
        return tree.replace("secret", "***") if isinstance(tree, str) else tree

    async def ask(text: str) -> str:
        await step("effect", str.upper, text)
        return await interrupt(text, answer=str)

    store = MemoryStore()
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("first", say("1")))
    graph.add_edge("first", graph.add_node("ask", ask))
    graph.add_edge("ask", END)
    app = graph.compile(store=store, redact=redact)
    with pytest.raises(Interrupted):
        await app.invoke("a public text", run="public")
    assert await app.resume("public", answer="yes") == "yes"
    with pytest.raises(Interrupted):
        await app.invoke("a secret text", run="r")
    for version in await store.versions("r"):
        loaded = await store.load("r", version=version.version)
        assert loaded is not None
        assert all(b"secret" not in entry.data for entry in loaded.entries)


async def test_what_a_node_cannot_save_is_told_with_its_name(tmp_path: Any) -> None:
    async def odd(text: str) -> Any:
        return object()

    store: CheckpointStore
    async with SqliteStore(tmp_path / "runs.db") as store:
        graph = Graph[str, Any]()
        graph.add_edge(START, graph.add_node("odd", odd))
        graph.add_edge("odd", graph.add_node("next", str, input=Any, output=Any))
        graph.add_edge("next", END)
        with pytest.raises(GraphRunError, match="odd") as caught:
            await graph.compile(store=store).invoke("x", run="r")
        assert not isinstance(caught.value, NodeError)


async def test_a_state_that_is_held_while_a_step_is_saved_stops_nobody() -> None:
    held, saving = anyio.Event(), anyio.Event()
    store = MemoryStore()

    async def holder(text: str) -> str:
        async with current_state(State) as state:
            state.seen.append("held")
            held.set()
            await saving.wait()
            return await step("held", str.upper, text)

    async def other(text: str) -> str:
        await held.wait()
        saving.set()
        return await step("other", str.upper, text)

    graph = Graph[str, dict[str, str]](state=State)
    for name, node in (("holder", holder), ("other", other)):
        graph.add_edge(START, graph.add_node(name, node, output_key=name))
        graph.add_edge(name, END)
    with anyio.fail_after(20):
        assert await graph.compile(store=store).invoke("x", run="r") == {"holder": "X", "other": "X"}
