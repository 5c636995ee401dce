"""Conversations in the store: what is written, how it grows, expires, is redacted and damaged."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import anyio
import pytest

from anabranch.compose import CheckpointStore, DamagedRecordError, MemoryStore, interrupt
from anabranch.compose.testing import ScriptedModel
from anabranch.flow.react import ReactAgent
from anabranch.schema import Message, ToolCall, tool

pytestmark = pytest.mark.anyio


@tool
async def delete(path: str) -> str:
    """Delete a file."""
    allowed = await interrupt(f"delete {path}?", answer=bool)
    return "deleted" if allowed else "not allowed"


def agent_of(store: CheckpointStore, *script: Any, **options: Any) -> ReactAgent:
    return ReactAgent(ScriptedModel(script), tools=[delete], store=store, **options)


def texts(messages: Sequence[Message]) -> list[str]:
    return [f"{message.role}: {message.text}" for message in messages]


ANSWERED = ["user: q1", "assistant: a1"]
DELETES = Message.assistant(tool_calls=[ToolCall(id="c0", name="delete", arguments='{"path": "a.txt"}')])


async def test_a_rewriter_shortens_what_is_remembered_and_older_versions_stay() -> None:
    store = MemoryStore()

    def shorten(history: list[Message]) -> list[Message]:
        return history[-1:]

    agent = agent_of(store, "a1", "a2", message_rewriter=shorten)
    await agent.generate("q1", thread="c1")
    await agent.generate("q2", thread="c1")
    assert texts(await agent.thread("c1")) == ["user: q2", "assistant: a2"]
    assert texts(await agent.thread("c1", version=2)) == ANSWERED


async def test_a_thread_that_is_shortened_begins_anew_in_the_store_and_keeps_its_versions() -> None:
    store = MemoryStore()
    words = "tide " * 200

    def shorten(history: list[Message]) -> list[Message]:
        return history[-1:]

    agent = agent_of(store, *[f"{words}{n}" for n in range(40)], message_rewriter=shorten)
    for number in range(40):
        await agent.generate(f"q{number}", thread="c1")
    assert any(version.snapshot for version in (await store.versions("thread/c1"))[1:])
    log = await store.load("thread/c1")
    assert log is not None
    assert len(log.entries) < 40
    history = await agent.thread_history("c1")
    assert [one.version for one in history] == list(range(1, 81))
    assert {one.messages for one in history[1::2]} == {2}
    for version in (2, 32, 34, 48, 80):
        assert texts(await agent.thread("c1", version)) == [
            f"user: q{version // 2 - 1}",
            f"assistant: {words}{version // 2 - 1}",
        ]


async def test_threads_and_their_runs_expire() -> None:
    store = MemoryStore()
    agent = agent_of(store, "a1", DELETES, expire_after=60)
    await agent.generate("q1", thread="done", run="r1")
    await agent.start("tidy up", thread="waits", run="r2")
    now = time.time()
    assert await store.expire(now + 30) == 0
    assert await store.expire(now + 90) == 4
    assert await agent.threads() == []


async def test_what_is_kept_of_a_thread_is_redacted() -> None:
    def redact(tree: Any) -> Any:
        if isinstance(tree, str):
            return tree.replace("secret", "***")
        if isinstance(tree, list):
            return [redact(inner) for inner in tree]  # pyright: ignore[reportUnknownVariableType]
        if isinstance(tree, dict):
            return {key: redact(inner) for key, inner in cast("dict[str, Any]", tree).items()}
        return tree

    store = MemoryStore()
    agent = agent_of(store, "the secret is out", redact=redact)
    assert (await agent.generate("a secret", thread="c1")).text == "the secret is out"
    assert texts(await agent.thread("c1")) == ["user: a ***", "assistant: the *** is out"]


async def test_a_damaged_thread_is_an_error_that_says_which() -> None:
    store = MemoryStore()
    agent = agent_of(store, "a1")
    await agent.generate("q1", thread="c1")
    entries = store._logs["thread/c1"][1]  # pyright: ignore[reportPrivateUsage]
    entries[1] = replace(entries[1], data=entries[1].data.replace(b"a1", b"b1"))
    with pytest.raises(DamagedRecordError, match="thread 'c1', version 2"):
        await agent.thread("c1")
    with pytest.raises(DamagedRecordError, match="thread 'c1', version 2"):
        await agent.generate("q2", thread="c1")


async def size_of(store: CheckpointStore) -> int:
    heads = await store.heads(limit=10_000)
    return sum([version.size for head in heads for version in await store.versions(head.id)])


@pytest.mark.parametrize("named", [False, True])
def test_160_turns_of_1_kb_take_little_more_than_they_say(
    named: bool, record_property: Callable[[str, object], None]
) -> None:
    size, payload = anyio.run(sizes_of_160_turns, named)
    record_property("size by payload", size / payload)
    assert size < (2.5 if named else 1.6) * payload


async def sizes_of_160_turns(named: bool) -> tuple[int, int]:
    store = MemoryStore()
    words = "tide " * 100
    agent = agent_of(store, *[f"{words}{n:09}" for n in range(160)])
    for number in range(160):
        kept: Any = {"run": f"r{number}"} if named else {}
        await agent.generate(f"{words}{number:09}", thread="c1", **kept)
    payload = sum(len(message.text) for message in await agent.thread("c1"))
    return await size_of(store), payload
