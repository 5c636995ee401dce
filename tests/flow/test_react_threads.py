"""Conversations: what an agent remembers over runs, processes and crashes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from anabranch.compose import (
    CheckpointStore,
    Done,
    Interrupted,
    MemoryStore,
    Paused,
    RunConflict,
    RunEnded,
    RunFinishedError,
    RunOptionsError,
    SqliteStore,
    UnknownInterruptError,
    UnknownRunError,
    interrupt,
)
from anabranch.compose.testing import ScriptedModel
from anabranch.flow.react import ReactAgent, ThreadConflict, TurnUnfinished, UnknownThreadError
from anabranch.schema import Message, ToolCall, check_history, tool

pytestmark = pytest.mark.anyio


@tool
async def delete(path: str) -> str:
    """Delete a file."""
    allowed = await interrupt(f"delete {path}?", answer=bool)
    return "deleted" if allowed else "not allowed"


@tool
async def look(path: str) -> str:
    """Look at a file."""
    return f"{path} is empty"


def calls(*given: tuple[str, str]) -> Message:
    return Message.assistant(
        tool_calls=[
            ToolCall(id=f"c{n}", name=name, arguments=f'{{"path": "{path}"}}') for n, (name, path) in enumerate(given)
        ]
    )


def agent_of(store: CheckpointStore, *script: Any, **options: Any) -> ReactAgent:
    return ReactAgent(ScriptedModel(script), tools=[delete, look], store=store, **options)


def texts(messages: Sequence[Message]) -> list[str]:
    return [f"{message.role}: {message.text}" for message in messages]


ANSWERED = ["user: q1", "assistant: a1"]
DELETES = calls(("delete", "a.txt"))
DELETED = ["user: tidy up", "assistant: ", "tool: deleted", "assistant: done"]


async def runs_in(store: CheckpointStore) -> list[str]:
    return [head.id for head in await store.heads(kind="run")]


# --- remembering -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["step", "pause"])
async def test_a_thread_is_remembered_by_another_agent_on_the_store(durability: Any) -> None:
    store = MemoryStore()
    first = agent_of(store, "a1", durability=durability)
    assert (await first.generate("q1", thread="c1")).text == "a1"
    model = ScriptedModel(["a2"])
    second = ReactAgent(model, tools=[delete, look], store=store)
    result = await second.run("q2", thread="c1")
    assert texts(model.calls[0].messages) == [*ANSWERED, "user: q2"]
    assert texts(result.messages) == [*ANSWERED, "user: q2", "assistant: a2"]
    assert result.rounds == 1
    assert await second.thread("c1") == result.messages
    assert await runs_in(store) == []


async def test_threads_never_see_each_other() -> None:
    store = MemoryStore()
    agent = agent_of(store, "a1", "b1", "a2")
    await agent.generate("q1", thread="a")
    await agent.generate("p1", thread="a/b")
    await agent.generate("q2", thread="a")
    assert texts(await agent.thread("a")) == [*ANSWERED, "user: q2", "assistant: a2"]
    assert texts(await agent.thread("a/b")) == ["user: p1", "assistant: b1"]
    assert [info.thread for info in await agent.threads()] == ["a", "a/b"]
    assert await agent.thread("none") == []


@pytest.mark.parametrize("tool_calls_first", [False, True])
async def test_a_stream_read_to_its_end_is_remembered(tool_calls_first: bool) -> None:
    store = MemoryStore()
    script: list[Any] = [calls(("look", "x")), [Message.assistant("a"), Message.assistant("1")]]
    model = ScriptedModel(script, tool_calls_first=tool_calls_first)
    agent = ReactAgent(model, tools=[look], store=store)
    async with agent.stream("q1", thread="c1") as reader:
        assert [chunk.text async for chunk in reader] == ["a", "1"]
        assert texts(await agent.thread("c1"))[-1] == "assistant: a1"
    assert texts(await agent.thread("c1")) == ["user: q1", "assistant: ", "tool: x is empty", "assistant: a1"]
    assert await runs_in(store) == []


async def test_events_read_to_their_end_are_remembered() -> None:
    agent = agent_of(MemoryStore(), "a1")
    async with agent.events("q1", thread="c1") as events:
        assert [event.output.text async for event in events if isinstance(event, RunEnded)] == ["a1"]
    assert texts(await agent.thread("c1")) == ANSWERED


async def test_without_await_a_thread_is_remembered_too() -> None:
    agent = agent_of(MemoryStore(), "a1", "a2")

    def ask() -> None:
        agent.generate_sync("q1", thread="c1")
        with agent.stream_sync("q2", thread="c1") as chunks:
            assert [chunk.text for chunk in chunks] == ["a2"]

    await anyio.to_thread.run_sync(ask)
    assert texts(await agent.thread("c1")) == [*ANSWERED, "user: q2", "assistant: a2"]


async def test_a_thread_needs_a_store() -> None:
    agent = ReactAgent(ScriptedModel(["a"]))
    with pytest.raises(RunOptionsError, match="store="):
        await agent.generate("q", thread="c1")
    with pytest.raises(RunOptionsError, match="store="):
        await agent.threads()


# --- runs of threads -------------------------------------------------------------------------------------------------


async def test_a_named_run_that_has_ended_in_a_thread_is_recognised() -> None:
    store = MemoryStore()
    agent = agent_of(store, "a1", "a2")
    await agent.generate("q1", thread="c1", run="r1")
    assert (await agent.output("r1")).text == "a1"
    with pytest.raises(RunConflict, match="there is such a run"):
        await agent.generate("q1", thread="c1", run="r1")
    with pytest.raises(RunConflict, match="there is such a run"):
        await agent.generate("q1", run="r1")
    with pytest.raises(RunFinishedError):
        await agent.resume("r1")
    assert texts(await agent.thread("c1")) == ANSWERED


@pytest.mark.parametrize("way", ["resume", "proceed", "stream", "events", "run"])
@pytest.mark.parametrize("durability", ["step", "pause"])
async def test_a_turn_that_waits_goes_on_in_another_process(way: str, durability: Any) -> None:
    store = MemoryStore()
    first = agent_of(store, DELETES, durability=durability)
    paused = await first.start("tidy up", thread="c1")
    assert isinstance(paused, Paused)
    assert [one.payload for one in paused.interrupts] == ["delete a.txt?"]
    assert texts(await first.thread("c1")) == ["user: tidy up"]
    agent = agent_of(store, "done", durability=durability)
    match way:
        case "resume":
            assert (await agent.resume(paused.run, answer=True)).text == "done"
        case "proceed":
            outcome = await agent.proceed(paused.run, {paused.interrupts[0].id: True})
            assert isinstance(outcome, Done)
            assert outcome.value.text == "done"
        case "stream":
            async with agent.resume_stream(paused.run, answer=True) as reader:
                assert (await reader.concat()).text == "done"
        case "events":
            async with agent.resume_events(paused.run, answer=True) as events:
                assert [event.output.text async for event in events if isinstance(event, RunEnded)] == ["done"]
        case _:
            result = await agent.resume_run(paused.run, answer=True)
            assert texts(result.messages) == DELETED
            assert result.rounds == 2
    assert texts(await agent.thread("c1")) == DELETED
    with pytest.raises(RunFinishedError):
        await agent.resume(paused.run, answer=True)
    assert (await agent.output(paused.run)).text == "done"


async def test_a_wrong_answer_leaves_the_turn_as_it_was() -> None:
    agent = agent_of(MemoryStore(), DELETES, "done")
    paused = await agent.start("tidy up", thread="c1")
    assert isinstance(paused, Paused)
    with pytest.raises(UnknownInterruptError):
        await agent.resume(paused.run, {"nothing": True})
    assert (await agent.resume(paused.run, answer=True)).text == "done"


# --- a new message while the last turn has not ended -----------------------------------------------------------------


async def test_a_new_message_is_rejected_with_what_is_waited_for() -> None:
    agent = agent_of(MemoryStore(), DELETES)
    paused = await agent.start("tidy up", thread="c1")
    assert isinstance(paused, Paused)
    with pytest.raises(TurnUnfinished, match="tools/call 0/0") as caught:
        await agent.generate("never mind", thread="c1")
    assert caught.value.interrupts == paused.interrupts
    assert caught.value.run == paused.run


async def test_a_new_message_cancels_the_turn_and_the_history_stays_valid() -> None:
    store = MemoryStore()
    model = ScriptedModel([calls(("look", "x"), ("delete", "a.txt")), "as you like"])
    agent = ReactAgent(model, tools=[delete, look], store=store)
    paused = await agent.start("tidy up", thread="c1")
    assert isinstance(paused, Paused)
    assert (await agent.generate("never mind", thread="c1", waiting="cancel")).text == "as you like"
    history = await agent.thread("c1")
    assert check_history(history) == []
    assert texts(history)[:3] == ["user: tidy up", "assistant: ", "tool: x is empty"]
    assert "cancelled" in history[3].text
    assert texts(history)[4:] == ["user: never mind", "assistant: as you like"]
    assert model.calls[-1].messages == history[:-1]
    with pytest.raises(RunFinishedError):
        await agent.resume(paused.run, answer=True)


async def test_a_new_message_waits_for_the_turn_and_is_the_next_one() -> None:
    store = MemoryStore()
    agent = agent_of(store, DELETES, "done", "you are welcome", waiting="queue")
    paused = await agent.start("tidy up", thread="c1")
    assert isinstance(paused, Paused)
    for words in ("thank you", "very much"):
        with pytest.raises(Interrupted) as caught:
            await agent.generate(words, thread="c1")
        assert caught.value.run == paused.run
        assert caught.value.interrupts == paused.interrupts
    assert (await agent.resume(paused.run, answer=True)).text == "you are welcome"
    more = ["user: thank you", "user: very much", "assistant: you are welcome"]
    assert texts(await agent.thread("c1")) == [*DELETED, *more]
    assert await runs_in(store) == [paused.run]


async def test_a_message_that_waits_under_an_id_waits_once_and_is_that_run() -> None:
    agent = agent_of(MemoryStore(), DELETES, "done", "you are welcome", waiting="queue")
    paused = await agent.start("tidy up", thread="c1", run="r1")
    assert isinstance(paused, Paused)
    for _ in range(2):
        assert await agent.start("thank you", thread="c1", run="r2") == paused
    with pytest.raises(RunConflict):
        await agent.start("tidy up", thread="c1", run="r1")
    assert (await agent.resume("r1", answer=True)).text == "you are welcome"
    assert texts(await agent.thread("c1")) == [*DELETED, "user: thank you", "assistant: you are welcome"]
    assert (await agent.output("r2")).text == "you are welcome"
    with pytest.raises(RunConflict):
        await agent.start("thank you", thread="c1", run="r2")


@pytest.mark.parametrize("way", ["stream", "events"])
async def test_the_answer_to_the_messages_that_waited_streams(way: str) -> None:
    agent = agent_of(MemoryStore(), DELETES, "done", "you are welcome", waiting="queue")
    paused = await agent.start("tidy up", thread="c1")
    assert isinstance(paused, Paused)
    await agent.start("thank you", thread="c1")
    if way == "stream":
        async with agent.resume_stream(paused.run, answer=True) as reader:
            assert (await reader.concat()).text == "you are welcome"
    else:
        async with agent.resume_events(paused.run, answer=True) as events:
            ends = [event.output.text async for event in events if isinstance(event, RunEnded)]
        assert ends == ["you are welcome"]
    assert texts(await agent.thread("c1"))[-2:] == ["user: thank you", "assistant: you are welcome"]


@pytest.mark.parametrize(
    ("waiting", "asked"),
    [
        ("cancel", [["user: q1"], ["user: q1", "user: q2"]]),
        ("queue", [["user: q1"], ["user: q1"], ["user: q1", "assistant: a", "user: q2"]]),
    ],
)
async def test_a_turn_that_failed_is_given_up_or_done_again(waiting: Any, asked: list[list[str]]) -> None:
    script: list[Any] = [OSError("the line is down"), *["a"] * (len(asked) - 1)]
    model = ScriptedModel(script)
    agent = ReactAgent(model, store=MemoryStore())
    with pytest.raises(Exception, match="the line is down"):
        await agent.generate("q1", thread="c1")
    with pytest.raises(TurnUnfinished, match="it has failed"):
        await agent.generate("q2", thread="c1")
    await agent.generate("q2", thread="c1", waiting=waiting)
    assert [texts(call.messages) for call in model.calls] == asked


# --- turns at the same time ------------------------------------------------------------------------------------------


class Waiting:
    """A model that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.news = anyio.Event()
        self.go = anyio.Event()

    def with_tools(self, *_: Any) -> Waiting:
        return self

    async def generate(self, messages: Sequence[Message], options: Any = None) -> Message:
        self.asked.append(messages[-1].text)
        self.news.set()
        await self.go.wait()
        return Message.assistant(f"re: {messages[-1].text}")


async def test_turns_at_the_same_time_conflict() -> None:
    model: Any = Waiting()
    agent = ReactAgent(model, store=MemoryStore())
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: agent.generate("q1", thread="c1"))
        await model.news.wait()
        with pytest.raises(ThreadConflict, match="'c1'"):
            await agent.generate("q2", thread="c1")
        other = ReactAgent(ScriptedModel(["here"]), store=MemoryStore())
        assert (await other.generate("q2", thread="c1")).text == "here"
        model.go.set()
    assert texts(await agent.thread("c1")) == ["user: q1", "assistant: re: q1"]


async def test_turns_at_the_same_time_queue_in_their_order() -> None:
    model: Any = Waiting()
    agent = ReactAgent(model, store=MemoryStore(), busy="queue")

    async def ask(question: str) -> None:
        await agent.generate(question, thread="c1")

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(ask, f"q{number}")
            await anyio.wait_all_tasks_blocked()
        model.go.set()
    assert model.asked == [f"q{n}" for n in range(5)]
    assert len(await agent.thread("c1")) == 10


def test_the_threads_of_a_program_queue(tmp_path: Path) -> None:
    turns, workers = 6, 4
    store = SqliteStore(tmp_path / "runs.db", synchronous="normal")

    def work(number: int) -> None:
        agent = ReactAgent(ScriptedModel([f"a{number}"] * turns), store=store, busy="queue")
        for _ in range(turns):
            agent.generate_sync(f"q{number}", thread="c1")

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))

    async def look() -> list[str]:
        async with store:
            return texts(await ReactAgent(ScriptedModel([]), store=store).thread("c1"))

    said = anyio.run(look)
    assert len(said) == 2 * turns * workers
    for question, answer in zip(said[::2], said[1::2], strict=True):
        assert (question[:-1], answer) == ("user: q", f"assistant: a{question[-1]}")


async def test_a_turn_that_is_cancelled_can_be_resumed_or_given_up() -> None:
    model: Any = Waiting()
    store = MemoryStore()
    agent = ReactAgent(model, store=store)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: agent.generate("q1", thread="c1", run="r1"))
        await model.news.wait()
        group.cancel_scope.cancel()
    with pytest.raises(TurnUnfinished, match="it was cut off"):
        await agent.generate("q2", thread="c1")
    model.go.set()
    assert (await agent.resume("r1")).text == "re: q1"
    assert texts(await agent.thread("c1")) == ["user: q1", "assistant: re: q1"]


# --- looking, copying, deleting --------------------------------------------------------------------------------------


async def test_a_thread_has_versions_and_can_be_forked_from_any() -> None:
    agent = agent_of(MemoryStore(), "a1", "a2", "b2")
    await agent.generate("q1", thread="c1")
    await agent.generate("q2", thread="c1")
    history = await agent.thread_history("c1")
    assert [(one.version, one.messages, one.run is not None) for one in history] == [
        (1, 1, True),
        (2, 2, False),
        (3, 3, True),
        (4, 4, False),
    ]
    assert await agent.fork_thread("c1", 3, "c2") == "c2"
    await agent.generate("p2", thread="c2")
    assert texts(await agent.thread("c2")) == [*ANSWERED, "user: p2", "assistant: b2"]
    assert texts(await agent.thread("c1")) == [*ANSWERED, "user: q2", "assistant: a2"]
    with pytest.raises(RunConflict):
        await agent.fork_thread("c1", new="c2")
    with pytest.raises(UnknownThreadError, match="version 9"):
        await agent.fork_thread("c1", 9)
    with pytest.raises(UnknownThreadError, match="'c7'"):
        await agent.thread_history("c7")


async def test_a_thread_is_deleted_with_its_runs() -> None:
    store = MemoryStore()
    agent = agent_of(store, "a1", DELETES, "new")
    await agent.generate("q1", thread="c1", run="r1")
    paused = await agent.start("tidy up", thread="c1")
    assert isinstance(paused, Paused)
    assert await agent.delete_thread("c1")
    assert not await agent.delete_thread("c1")
    assert await agent.threads() == []
    assert await runs_in(store) == []
    with pytest.raises(UnknownRunError):
        await agent.resume(paused.run, answer=True)
    await agent.generate("q", thread="c1")
    assert texts(await agent.thread("c1")) == ["user: q", "assistant: new"]


async def test_a_fork_of_a_turn_answers_and_leaves_the_thread_alone() -> None:
    agent = agent_of(MemoryStore(), DELETES, "other", "done")
    paused = await agent.start("tidy up", thread="c1")
    assert isinstance(paused, Paused)
    copy = await agent.fork(paused.run)
    assert (await agent.resume(copy, answer=False)).text == "other"
    assert (await agent.resume(paused.run, answer=True)).text == "done"
    assert texts(await agent.thread("c1")) == DELETED
