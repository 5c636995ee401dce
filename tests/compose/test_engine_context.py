"""What user code sees of its surroundings: context variables, and nothing of dict order, hash seeds or timing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from anabranch.compose import END, START, Graph, Runnable, RunOptions
from anabranch.compose.testing import Sequencer
from anabranch.schema import StreamReader

anyio_test = pytest.mark.anyio

who: ContextVar[str] = ContextVar("who", default="nobody")


def plain(text: str) -> str:
    return f"{text} plain:{who.get()}"


async def waiting(text: str) -> str:
    await checkpoint()
    return f"{text} waiting:{who.get()}"


async def streaming(text: str) -> AsyncIterator[str]:
    yield f"{text} first:{who.get()}"
    await checkpoint()
    yield f" then:{who.get()}"


async def transforming(reader: StreamReader[str]) -> AsyncIterator[str]:
    async for chunk in reader:
        await checkpoint()
        yield chunk
    yield f" transforming:{who.get()}"


def in_thread(text: str) -> str:
    return f"{text} thread:{who.get()}"


def handler(text: str, lines: list[str]) -> str:
    return f"{text} handler:{who.get()}"


def condition(text: str) -> str:
    seen.append(f"condition:{who.get()}")
    return "end"


def merging(values: Sequence[str]) -> str:
    return "".join([*values, f" merge:{who.get()}"])


seen: list[str] = []

EVERYWHERE = (
    "x handler:caller plain:caller waiting:caller first:caller then:caller transforming:caller "
    "thread:caller plain:caller merge:caller plain:caller"
)


def everything(trigger: Any) -> Runnable[str, str]:
    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("deep", plain))
    inner.add_edge("deep", END)
    graph = Graph[str, str](state=list)
    graph.add_node("plain", plain, pre=handler)
    for key, node in (("waiting", waiting), ("streaming", streaming), ("transforming", transforming)):
        graph.add_node(key, node)
    graph.add_node("thread", in_thread, blocking=True)
    graph.add_node("nested", inner)
    graph.add_node("last", plain, merge=merging)
    keys = ["start", "plain", "waiting", "streaming", "transforming", "thread", "nested", "last"]
    for source, target in pairwise(keys):
        graph.add_edge(source, target)
    graph.add_branch("last", condition, [END])
    return graph.compile(trigger=trigger)


@anyio_test
@pytest.mark.parametrize("trigger", ["any", "all"])
@pytest.mark.parametrize("mode", ["invoke", "collect"])
async def test_what_the_caller_set_is_seen_everywhere(trigger: Any, mode: str) -> None:
    told: list[str] = []

    class Listens:
        def on_start(self, info: Any, input: Any) -> None:
            told.append(who.get())

    seen.clear()
    app, options = everything(trigger), RunOptions(callbacks=[Listens()])
    who.set("caller")
    output = await (app.invoke("x", options) if mode == "invoke" else app.collect(["x"], options))
    assert output == EVERYWHERE
    assert seen == ["condition:caller"]
    assert set(told) == {"caller"}


@anyio_test
@pytest.mark.parametrize("trigger", ["any", "all"])
async def test_what_a_node_sets_is_seen_by_itself_alone(trigger: Any) -> None:
    sequence = Sequencer("setter", "sibling")

    async def setter(text: str) -> str:
        who.set("setter")
        await checkpoint()
        return f"{text} setter:{who.get()}"

    graph = Graph[str, dict[str, str]]()
    for key, node in (("setter", setter), ("sibling", waiting)):
        graph.add_node(key, sequence.node(key, node))
        graph.add_node(f"after_{key}", plain, output_key=key)
        graph.add_edge(START, key)
        graph.add_edge(key, f"after_{key}")
        graph.add_edge(f"after_{key}", END)
    who.set("caller")
    assert await graph.compile(trigger=trigger).invoke("x") == {
        "setter": "x setter:setter plain:caller",
        "sibling": "x waiting:caller plain:caller",
    }
    assert who.get() == "caller"


@anyio_test
async def test_a_stream_keeps_its_context_from_chunk_to_chunk_whoever_reads_it() -> None:
    async def counting(text: str) -> AsyncIterator[str]:
        for number in range(3):
            yield f"{text}{who.get()} "
            who.set(str(number))

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("counting", counting))
    graph.add_edge("counting", END)
    who.set("caller")
    async with graph.compile().stream("") as reader:
        chunks: list[str] = []

        async def read_one() -> None:
            who.set("reader")
            chunks.append(await reader.receive())

        for _ in range(3):
            async with anyio.create_task_group() as group:
                group.start_soon(read_one)
    assert chunks == ["caller ", "0 ", "1 "]


PROGRAM = """
import asyncio, hashlib, sys, warnings
from anabranch.compose import RunOptions
from anabranch.compose.testing._paradigms import run_paradigm
from anabranch.compose.testing._strategies import RandomDice, random_graph
from anabranch.compose.testing._asserts import outcome_of

warnings.simplefilter("ignore")

async def main():
    for seed in range(40):
        case = random_graph(RandomDice(seed))
        app = case.compile()
        told = []
        class Log:
            def on_start(self, info, input): told.append(("start", info.path))
            def on_end(self, info, output): told.append(("end", info.path))
        for paradigm in ("invoke", "transform"):
            output, error = await outcome_of(app, case.input, paradigm, case.chunks)
            print(output, error)
        try:
            await app.invoke(case.input, RunOptions(callbacks=[Log()]))
        except Exception:
            pass
        print(told)

asyncio.run(main())
"""


def test_hash_seeds_change_nothing() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1
