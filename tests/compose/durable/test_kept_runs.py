"""What else there is to a run that is kept: failures, other processes, copies, expiry, redaction, events."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal

import anyio
import anyio.from_thread
import pytest
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    AnswerTypeError,
    Approval,
    Callbacks,
    Graph,
    GraphRunError,
    Interrupted,
    InterruptRequested,
    Map,
    MemoryStore,
    NodeError,
    Runnable,
    RunOptions,
    RunPaused,
    SqliteStore,
    current_state,
    current_step,
    interrupt,
    step,
)
from anabranch.compose._store import CheckpointStore
from anabranch.schema import StreamReader

pytestmark = pytest.mark.anyio

log: list[str] = []


@pytest.fixture(autouse=True)
def empty_log() -> None:
    log.clear()


class State(BaseModel):
    """A state."""

    seen: list[str] = []


def say(name: str) -> Callable[[str], Any]:
    async def node(text: str) -> str:
        log.append(name)
        return text + name

    return node


# -- a run that failed goes on where it failed ----------------------------------------------------------------------


class Broken:
    """Something that fails until it is mended."""

    def __init__(self) -> None:
        self.mended = False

    def check(self, name: str) -> None:
        log.append(name)
        if not self.mended:
            raise ValueError(name)


@pytest.mark.parametrize("durability", ["step", "pause"])
@pytest.mark.parametrize("trigger", ["any", "all"])
@pytest.mark.parametrize("place", ["start", "condition", "merge", "end", "pre", "post", "node", "item", "nested"])
async def test_what_had_ended_when_something_failed_does_not_run_again(  # noqa: C901 - one line each
    place: str, trigger: Any, durability: Any
) -> None:
    broken = Broken()

    def at(name: str) -> None:
        if name == place:
            broken.check(name)

    async def first(text: str) -> Literal["a"]:
        at("start")
        return "a"

    async def b(text: str) -> str:
        log.append("b")
        at("node")
        return text + "b"

    def pre(text: str, state: State) -> str:
        at("pre")
        return text

    def post(text: str, state: State) -> str:
        at("post")
        return text

    async def which(text: str) -> Literal["join"]:
        at("condition")
        return "join"

    def merged(texts: Sequence[str]) -> str:
        at("merge")
        return "|".join(texts)

    def two(text: str) -> list[str]:
        return ["0", "1"]

    def same(items: list[str]) -> list[str]:
        return items

    async def item(text: str) -> str:
        log.append(f"item {text}")
        if text == "1":
            at("item")
        return text

    def ends(parts: Sequence[list[str]]) -> list[str]:
        at("end")
        return [text for part in parts for text in part]

    def nested(text: str) -> str:
        at("nested")
        return text

    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("i", say("i")))
    inner.add_edge("i", inner.add_node("j", nested))
    inner.add_edge("j", END)

    graph = Graph[str, list[str]](state=State)
    graph.add_branch(START, first)
    graph.add_node("a", say("a"))
    graph.add_edge("a", graph.add_node("b", b, pre=pre, post=post))
    graph.add_edge("a", graph.add_node("c", inner))
    graph.add_branch("b", which)
    graph.add_node("join", two, merge=merged, trigger="all")
    graph.add_edge("c", "join")
    graph.add_edge("join", graph.add_node("each", Map(item, concurrency=1)))
    graph.add_edge("each", graph.add_node("d", same))
    graph.add_edge("each", graph.add_node("e", same))
    graph.add_node("last", same, merge=ends)
    graph.add_edge("d", "last")
    graph.add_edge("e", "last")
    graph.add_edge("last", END)
    app = graph.compile(trigger=trigger, store=MemoryStore(), durability=durability)
    for _ in range(2):
        with pytest.raises(GraphRunError):
            await (app.resume("r") if log.count(place) else app.invoke("x", run="r"))
    broken.mended = True
    assert await app.resume("r") == ["0", "1", "0", "1"]
    again = {"node": {"b"}, "item": {"item 1"}}.get(place, set())
    for name in ("a", "b", "i", "item 0", "item 1"):
        assert log.count(name) == (3 if name in again else 1), (name, log)


async def test_an_error_at_the_end_of_a_graph_is_told_again() -> None:
    triggers: list[Literal["any", "all"]] = ["any", "all"]
    for trigger in triggers:
        log.clear()
        graph = Graph[str, dict[str, str]]()
        for name in "ab":
            graph.add_edge(START, graph.add_node(name, say(name), output_key="same"))
            graph.add_edge(name, END)
        app = graph.compile(trigger=trigger, store=MemoryStore())
        for resumes in (False, True, True):
            with pytest.raises(GraphRunError, match="same"):
                await (app.resume("r") if resumes else app.invoke("x", run="r"))
        assert sorted(log) == ["a", "b"]


# -- where questions are asked --------------------------------------------------------------------------------------


@pytest.mark.parametrize("trigger", ["any", "all"])
@pytest.mark.parametrize("mode", ["value", "stream"])
async def test_conditions_may_ask_also_that_of_the_start(trigger: Any, mode: str) -> None:
    async def first(text: str) -> Literal["a"]:
        log.append(await interrupt("first", answer=str))
        return "a"

    async def second(text: str) -> Literal["b", "end"]:
        return "b" if await interrupt("second", answer=bool) else "end"

    graph = Graph[str, str]()
    graph.add_branch(START, first)
    graph.add_node("a", say("a"))
    graph.add_node("b", say("b"))
    graph.add_branch("a", second)
    graph.add_edge("b", END)
    outer = Graph[str, str]()
    outer.add_edge(START, outer.add_node("sub", graph))
    outer.add_edge("sub", END)
    for app in (graph.compile(trigger=trigger, store=MemoryStore()), outer.compile(store=MemoryStore())):
        log.clear()

        async def go(*answers: Any, app: Runnable[str, str] = app) -> str:
            if mode == "value":
                return await (app.resume("r", answer=answers[0]) if answers else app.invoke("x", run="r"))
            async with app.resume_stream("r", answer=answers[0]) if answers else app.stream("x", run="r") as reader:
                whole: str = await reader.concat()
                return whole

        for answers in ((), ("yes",)):
            with pytest.raises(Interrupted) as paused:
                await go(*answers)
            assert len(paused.value.interrupts) == 1
        assert await go(True) == "xab"
        assert log == ["yes", "a", "b"]


async def test_threads_may_ask_take_steps_and_change_the_state() -> None:
    def blocking(text: str) -> str:
        made = anyio.from_thread.run(pays, text)
        with current_state(State) as state:
            state.seen.append(made)
        return f"{made}{anyio.from_thread.run(ask)}"

    async def ask() -> str:
        return await interrupt("?", answer=str)

    async def pays(text: str) -> str:
        return await step("charge", charge, text)

    def charge(text: str) -> str:
        log.append("charge")
        return text.upper()

    graph = Graph[str, str](state=State)
    graph.add_edge(START, graph.add_node("blocking", blocking, blocking=True))
    graph.add_edge("blocking", END)
    app = graph.compile(store=MemoryStore())
    with pytest.raises(Interrupted):
        await app.invoke("x", run="r")
    assert await app.resume("r", answer="!") == "X!"
    assert log == ["charge"]


async def test_handlers_of_streams_may_ask() -> None:
    async def pre(reader: StreamReader[str], state: State) -> StreamReader[str]:
        extra = await interrupt("pre", answer=str)
        return reader.convert(lambda chunk: chunk + extra)

    graph = Graph[str, str](state=State)
    graph.add_edge(START, graph.add_node("a", say("a"), pre=pre))
    graph.add_edge("a", END)
    app = graph.compile(store=MemoryStore())
    with pytest.raises(Interrupted):
        async with app.stream("x", run="r") as reader:
            await reader.concat()
    async with app.resume_stream("r", answer="!") as reader:
        assert await reader.concat() == "x!a"


# -- another process ------------------------------------------------------------------------------------------------

PROGRAM = """
import sys, anyio
from pydantic import BaseModel
from anabranch.compose import END, START, Graph, Interrupted, SqliteStore, interrupt

class Choice(BaseModel):
    colour: str

async def ask(text: str) -> str:
    return (await interrupt("?", answer=Choice)).colour

async def main(place, what):
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", END)
    async with SqliteStore(place) as store:
        if what == "begin":
            try:
                await graph.compile(store=store).invoke("x", run="r")
            except Interrupted as paused:
                print(paused.interrupts[0].id)
            return
        app = graph.compile(store=store, answers=[Choice] if what == "told" else [])
        print([one.answer_type for one in await app.pending("r")])
        for answer in ({"color": "red"}, 3, {"colour": "red"}):
            try:
                print(await app.resume("r", {"ask/0": answer}))
            except Exception as error:
                print(type(error).__name__, len((await store.versions("r"))))

anyio.run(main, *sys.argv[1:])
"""


def program(*arguments: object) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_answers_are_tested_before_anything_runs_in_a_process_that_knows_their_type(tmp_path: Any) -> None:
    assert program(tmp_path / "runs.db", "begin") == ["ask/0"]
    found = program(tmp_path / "runs.db", "told")
    assert found[0] == "[<class '__main__.Choice'>]"
    assert found[1].split()[0] == "AnswerTypeError"
    assert found[1] == found[2], "nothing was written"
    assert found[3] == "red"


def test_and_when_the_node_asks_in_one_that_does_not(tmp_path: Any) -> None:
    program(tmp_path / "runs.db", "begin")
    found = program(tmp_path / "runs.db", "untold")
    assert found[0] == "[typing.Any]"
    assert found[1].startswith("NodeError")
    assert found[3] == "red"


async def test_an_answer_of_another_type_may_be_corrected() -> None:
    async def ask(text: str) -> int:
        return await interrupt(Approval(action="count"), answer=int)

    graph = Graph[str, int]()
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", END)
    app = graph.compile(store=MemoryStore())
    with pytest.raises(Interrupted):
        await app.invoke("x", run="r")
    with pytest.raises(AnswerTypeError):
        await app.resume("r", answer="three")
    assert await app.resume("r", answer=3) == 3


# -- keys, copies, expiry, redaction --------------------------------------------------------------------------------


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
async def test_a_migrated_document_is_what_the_run_goes_on_from(durability: Any) -> None:
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


async def test_what_is_redacted_is_in_no_entry_and_the_rest_goes_on() -> None:
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


# -- events and callbacks -------------------------------------------------------------------------------------------


async def test_the_events_of_a_run_that_pauses_end_with_its_pause() -> None:
    async def ask(text: str) -> str:
        return text + await interrupt("?", answer=str)

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", END)
    app = graph.compile(store=MemoryStore())
    async with app.events("x", run="r") as events:
        seen = [event async for event in events]
    assert isinstance(seen[-1], RunPaused)
    assert [one.id for one in seen[-1].interrupts] == ["ask/0"]
    assert sum(isinstance(event, InterruptRequested) for event in seen) == 1
    assert await app.resume("r", answer="!") == "x!"


async def test_callbacks_neither_swallow_a_pause_nor_take_it_for_an_error() -> None:
    errors: list[str] = []

    class Watching(Callbacks):
        """Notes what it is told."""

        def on_error(self, info: Any, error: BaseException) -> None:
            errors.append(type(error).__name__)

    async def ask(text: str) -> str:
        return text + await interrupt("?", answer=str)

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", END)
    app = graph.compile(store=MemoryStore())
    options = RunOptions(callbacks=[Watching()])
    with pytest.raises(Interrupted):
        await app.invoke("x", options, run="r")
    assert await app.resume("r", None, RunOptions(callbacks=[Watching()], on_interrupt=lambda _: "!")) == "x!"
    assert not errors


async def test_a_stream_inside_a_called_graph_that_has_ended_is_not_made_again() -> None:
    async def words(text: str) -> AsyncIterator[str]:
        log.append("words")
        for word in (text, "a", "b"):
            yield word

    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("words", words))
    inner.add_edge("words", END)
    called = inner.compile()

    async def calls(text: str) -> str:
        async with called.stream(text) as reader:
            made: str = await reader.concat()
        return made + await interrupt("?", answer=str)

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("calls", calls))
    graph.add_edge("calls", END)
    app = graph.compile(store=MemoryStore())
    with pytest.raises(Interrupted):
        await app.invoke("x", run="r")
    assert await app.resume("r", answer="!") == "xab!"
    assert log == ["words"]


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
