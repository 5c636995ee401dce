"""H2 with attempts: what a node or tool has done durably is not done again when it is tried again, nor asked again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from anabranch.compose import (
    END,
    START,
    Graph,
    Map,
    MemoryStore,
    Paused,
    Runnable,
    StepResultError,
    ToolsNode,
    current_step,
    interrupt,
    retry_calls,
    step,
)
from anabranch.schema import Message, ToolCall, tool

pytestmark = pytest.mark.anyio

paid: list[str] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    paid.clear()


def charge(cents: int) -> str:
    paid.append(current_step().key)
    return f"paid {cents}"


def failing_once() -> Callable[[], None]:
    tries = [0]

    def fail() -> None:
        tries[0] += 1
        if tries[0] == 1:
            raise ConnectionError("away")

    return fail


def line(node: Any, **options: Any) -> Graph[Any, Any]:
    graph = Graph[Any, Any]()
    graph.add_edge(START, graph.add_node("n", node, **options))
    graph.add_edge("n", END)
    return graph


def value_node() -> Graph[Any, Any]:
    fail = failing_once()

    async def pay(cents: int) -> str:
        receipt = await step("charge", charge, cents)
        fail()
        return receipt

    return line(pay, retries=3)


def stream_node() -> Graph[Any, Any]:
    fail = failing_once()

    async def pay(cents: int) -> AsyncIterator[str]:
        receipt = await step("charge", charge, cents)
        fail()
        yield receipt

    return line(pay, retries=3)


def called_graph() -> Graph[Any, Any]:
    fail = failing_once()

    async def pay(cents: int) -> str:
        return await step("charge", charge, cents)

    inner = line(pay).compile()

    async def call(cents: int) -> str:
        receipt: str = await inner.invoke(cents)
        fail()
        return receipt

    return line(call, retries=3)


def mapped() -> Graph[Any, Any]:
    fail = failing_once()

    async def pay(cents: int) -> str:
        receipt = await step("charge", charge, cents)
        fail()
        return receipt

    async def both(cents: int) -> list[int]:
        return [cents]

    graph = Graph[Any, Any]()
    graph.add_edge(START, graph.add_node("list", both))
    graph.add_edge("list", graph.add_node("n", Map(pay), retries=3))
    graph.add_edge("n", END)
    return graph


def tools(*middlewares: Any, **options: Any) -> Graph[Any, Any]:
    fail = failing_once()

    @tool(**options)
    async def pay(cents: int) -> str:
        """Pay."""
        receipt = await step("charge", charge, cents)
        fail()
        return receipt

    async def ask(cents: int) -> Message:
        return Message.assistant(tool_calls=[ToolCall(id="c", name="pay", arguments=f'{{"cents": {cents}}}')])

    graph = Graph[Any, Any]()
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", graph.add_node("n", ToolsNode([pay], middlewares=middlewares)))
    graph.add_edge("n", END)
    return graph


async def again(call: ToolCall, go_on: Any) -> Any:
    try:
        return await go_on(call)
    except ConnectionError:
        return await go_on(call)


GRAPHS: dict[str, Callable[[], Graph[Any, Any]]] = {
    "a node": value_node,
    "a node that streams": stream_node,
    "a graph that a node calls": called_graph,
    "a map": mapped,
    "a tool": lambda: tools(retries=2),
    "a tool with a time limit": lambda: tools(retries=2, timeout=30),
    "a ready middleware": lambda: tools(retry_calls(3)),
    "a middleware": lambda: tools(again),
}


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("streams", [False, True])
async def test_a_step_is_done_once_however_often_what_does_it_is_tried(
    make: Callable[[], Graph[Any, Any]], streams: bool
) -> None:
    app: Runnable[Any, Any] = make().compile(store=MemoryStore())
    if streams:
        async with app.stream(5, run="r") as reader:
            assert [chunk async for chunk in reader]
    else:
        await app.invoke(5, run="r")
    assert len(paid) == 1


async def test_a_question_is_asked_once_and_its_answer_counts_for_all_attempts() -> None:
    fail = failing_once()

    async def ask(cents: int) -> str:
        sure = await interrupt("pay?", answer=bool)
        fail()
        how = await interrupt("how?", answer=str)
        return f"{sure} {how}"

    app = line(ask, retries=3).compile(store=MemoryStore())
    paused = await app.start(5, run="r")
    assert isinstance(paused, Paused)
    paused = await app.proceed("r", answer=True)
    assert isinstance(paused, Paused)
    assert [question.payload for question in paused.interrupts] == ["how?"]
    assert await app.resume("r", answer="cash") == "True cash"


async def test_without_a_store_every_step_has_a_key_of_its_own_and_keeps_it_at_another_attempt() -> None:
    fail = failing_once()

    async def pay(cents: int) -> str:
        await step("charge", charge, cents)
        await step("charge", charge, cents)
        fail()
        return ""

    app = line(pay, retries=3).compile()
    await app.invoke(5)
    first, second = paid[:2], paid[2:]
    assert first == second
    assert len(set(first)) == 2
    await app.invoke(5)
    assert not set(paid[4:]) & set(first)


async def test_two_calls_of_one_message_have_two_keys_without_a_store() -> None:
    @tool
    async def pay(cents: int) -> str:
        """Pay."""
        return await step("charge", charge, cents)

    calls = [ToolCall(id=id, name="pay", arguments='{"cents": 1}') for id in ("a", "b")]
    app = line(ToolsNode([pay])).compile()
    await app.invoke(Message.assistant(tool_calls=calls))
    await app.invoke(Message.assistant(tool_calls=calls))
    assert len(set(paid)) == 4


async def test_a_step_whose_result_cannot_be_saved_is_not_done_again() -> None:
    def charge_badly(cents: int) -> object:
        paid.append(current_step().key)
        return object()

    async def pay(cents: int) -> str:
        return str(await step("charge", charge_badly, cents))

    app = line(pay, retries=3).compile(store=MemoryStore())
    with pytest.raises(StepResultError, match="has had its effect"):
        await app.invoke(5, run="r")
    with pytest.raises(StepResultError, match="has had its effect"):
        await app.resume("r")
    assert len(paid) == 1


async def test_what_happens_inside_a_step_does_not_count_outside() -> None:
    async def outer(cents: int) -> str:
        return await step("charge", charge, cents)

    async def pay(cents: int) -> str:
        one = await step("outer", outer, cents)
        two = await step("charge", charge, cents + 1)
        how = await interrupt("how?", answer=str)
        return f"{one}, {two}, {how}"

    app = line(pay).compile(store=MemoryStore())
    assert isinstance(await app.start(5, run="r"), Paused)
    assert await app.resume("r", answer="cash") == "paid 5, paid 6, cash"
    assert len(paid) == len(set(paid)) == 2
