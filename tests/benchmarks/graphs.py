"""Chains, loops and fan-outs, against the same by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

from anabranch.compose import END, START, Graph, Runnable

from .harness import Contestant, Limit, Workload


async def async_step(text: str) -> str:
    """Do nothing, as a coroutine."""
    return text


def plain_step(text: str) -> str:
    """Do nothing."""
    return text


@cache
def chain(size: int, step: Callable[[str], Any], trigger: Literal["any", "all"]) -> Runnable[str, str]:
    """Compile a line of nodes."""
    graph = Graph[str, str]()
    graph.add_edge(START, "n0")
    for i in range(size):
        graph.add_node(f"n{i}", step)
        graph.add_edge(f"n{i}", f"n{i + 1}" if i + 1 < size else "end")
    return graph.compile(trigger=trigger)


@cache
def fan(size: int, step: Callable[[str], Any], trigger: Literal["any", "all"]) -> Runnable[str, dict[str, str]]:
    """Compile a fan-out of so many branches that come together again."""
    graph = Graph[str, dict[str, str]]()
    for i in range(size):
        graph.add_node(f"n{i}", step, output_key=f"k{i}")
        graph.add_edge(START, f"n{i}")
        graph.add_edge(f"n{i}", END)
    return graph.compile(trigger=trigger)


class Count:
    """The state of the loop."""

    def __init__(self) -> None:
        self.steps = 0


@cache
def loop(size: int) -> Runnable[int, int]:
    """Compile a loop shaped like an agent: a step with a handler, and a branch."""

    def count(value: int, state: Count) -> int:
        state.steps += 1
        return value

    async def think(value: int) -> int:
        return value + 1

    def act(value: int) -> int:
        return value

    def decide(value: int) -> Literal["act", "end"]:
        return "act" if value < size // 2 else "end"

    graph = Graph[int, int](state=Count)
    graph.add_edge(START, graph.add_node("think", think, pre=count))
    graph.add_branch("think", decide)
    graph.add_edge(graph.add_node("act", act), "think")
    return graph.compile(max_steps=size + 2)


def running(make: Callable[..., Runnable[Any, Any]], *given: Any, value: Any = "x") -> Contestant:
    """Make a contestant that invokes a compiled graph."""

    async def run(size: int) -> None:
        await make(size, *given).invoke(value)

    return run


async def chain_by_hand(size: int) -> None:
    """Await one step after the other."""
    text = "x"
    for _ in range(size):
        text = await async_step(text)


async def loop_by_hand(size: int) -> None:
    """Count, think, decide, act."""
    state, value = Count(), 0

    async def think(value: int) -> int:
        return value + 1

    while True:
        state.steps += 1
        value = await think(value)
        if value >= size // 2:
            return


async def fan_by_hand(size: int) -> None:
    """Gather all branches."""
    results = await asyncio.gather(*[async_step("x") for _ in range(size)])
    dict(zip((f"k{i}" for i in range(size)), results, strict=True))


async def plain_fan_by_hand(size: int) -> None:
    """Call all branches."""
    {f"k{i}": plain_step("x") for i in range(size)}


async def compile_chain(size: int) -> None:
    """Build and compile a line of nodes."""
    chain.__wrapped__(size, async_step, "any")


async def compile_fan(size: int) -> None:
    """Build and compile branches that come together again."""
    fan.__wrapped__(size, async_step, "all")


WORKLOADS = [
    Workload(
        "linear chain, async def",
        "node",
        {"ours": running(chain, async_step, "any"), "hand-written": chain_by_hand},
        (10, 100, 1000),
        Limit(micros=3.0),
    ),
    Workload(
        'linear chain, trigger="all"',
        "node",
        {"ours": running(chain, async_step, "all"), "hand-written": chain_by_hand},
        (10, 100, 1000),
        Limit(micros=3.0),
    ),
    Workload(
        "agent-shaped loop with state",
        "step",
        {"ours": running(loop, value=0), "hand-written": loop_by_hand},
        (10, 100, 1000),
        Limit(micros=10.0),
    ),
    Workload(
        "fan-out and fan-in, async def",
        "branch",
        {"ours": running(fan, async_step, "any"), "hand-written": fan_by_hand},
        (10, 100, 1000),
        Limit(ratio=2.5),
    ),
    Workload(
        'fan-out and fan-in, async def, trigger="all"',
        "branch",
        {"ours": running(fan, async_step, "all"), "hand-written": fan_by_hand},
        (10, 100, 1000),
        Limit(ratio=2.5),
    ),
    Workload(
        "fan-out and fan-in, def",
        "branch",
        {"ours": running(fan, plain_step, "any"), "hand-written": plain_fan_by_hand},
        (10, 100, 1000),
        Limit(micros=4.0),
    ),
    Workload("build and compile", "node", {"ours": compile_chain}, (1000,), Limit(micros=40.0), lambda _: 3),
    Workload(
        "build and compile what joins", "node", {"ours": compile_fan}, (100, 1000), Limit(micros=40.0), lambda _: 3
    ),
]
