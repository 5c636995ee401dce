"""Questions to a person, answered by a live handler while the node waits in place."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    Approval,
    Graph,
    Interrupt,
    InterruptAnswered,
    InterruptError,
    InterruptRequested,
    NodeError,
    Runnable,
    RunOptions,
    ToolsNode,
    interrupt,
)
from anabranch.schema import Message, ToolCall, tool

pytestmark = pytest.mark.anyio


class Choice(BaseModel):
    """A typed answer."""

    colour: str


def asking(payload: Any, answer: Any) -> Runnable[str, Any]:
    async def ask(text: str) -> Any:
        return await interrupt(payload, answer=answer)

    graph = Graph[str, Any]()
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", END)
    return graph.compile()


@pytest.mark.parametrize(
    ("answer_type", "given", "expected"),
    [
        (bool, True, True),
        (bool, False, False),
        (str, "", ""),
        (int, 0, 0),
        (type(None), None, None),
        (dict[str, Any], {}, {}),
        (Choice, Choice(colour="red"), Choice(colour="red")),
        (Choice, {"colour": "red"}, Choice(colour="red")),
        (Any, object, object),
    ],
)
async def test_the_node_goes_on_with_the_answer_whatever_it_is(answer_type: Any, given: Any, expected: Any) -> None:
    app = asking(Approval(action="delete"), answer_type)
    assert await app.invoke("x", RunOptions(on_interrupt=lambda _: given)) == expected


@pytest.mark.parametrize(("answer_type", "given"), [(bool, "yes"), (int, "3"), (str, None), (Choice, {"color": "red"})])
async def test_an_answer_of_the_wrong_type_is_an_error_that_names_both_types(answer_type: Any, given: Any) -> None:
    with pytest.raises(NodeError) as caught:
        await asking("?", answer_type).invoke("x", RunOptions(on_interrupt=lambda _: given))
    assert isinstance(caught.value.__cause__, InterruptError)
    assert "'ask/0' must be" in str(caught.value)


async def test_without_a_handler_it_is_an_error_at_once_that_says_what_to_do() -> None:
    with pytest.raises(NodeError, match="RunOptions\\(on_interrupt=") as caught:
        await asking("?", bool).invoke("x")
    assert isinstance(caught.value.__cause__, InterruptError)


async def test_outside_of_a_run_it_is_an_error() -> None:
    with pytest.raises(InterruptError, match="outside of a run"):
        await interrupt("?", answer=bool)


async def test_addresses_are_structural_and_count_the_questions_of_a_node() -> None:
    async def twice(text: str) -> str:
        first = await interrupt("first", answer=str)
        return first + await interrupt("second", answer=str)

    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("ask", twice))
    inner.add_edge("ask", END)
    outer = Graph[str, str]()
    outer.add_edge(START, outer.add_node("sub", inner))
    outer.add_edge("sub", END)
    seen: list[Interrupt] = []

    async def answer(question: Interrupt) -> str:
        seen.append(question)
        return f"<{question.payload}>"

    assert await outer.compile().invoke("x", RunOptions(on_interrupt=answer)) == "<first><second>"
    assert [q.id for q in seen] == ["sub/ask/0", "sub/ask/1"]
    assert [q.address for q in seen] == [("sub", "ask", "0"), ("sub", "ask", "1")]


async def test_two_nodes_wait_at_once_and_each_gets_its_own_answer_in_any_order() -> None:
    graph = Graph[str, dict[str, str]]()

    def asker(word: str) -> Any:
        async def ask(text: str) -> str:
            return await interrupt(word, answer=str)

        return ask

    for word in ("ebb", "flow"):
        graph.add_node(word, asker(word), output_key=word)
        graph.add_edge(START, word)
        graph.add_edge(word, END)
    waiting: dict[str, anyio.Event] = {"ebb": anyio.Event(), "flow": anyio.Event()}

    async def answer(question: Interrupt) -> str:
        if question.payload == "flow":
            waiting["ebb"].set()
            return "late"
        await waiting["ebb"].wait()  # answered only once the other one has asked
        return "early"

    app = graph.compile()
    assert await app.invoke("x", RunOptions(on_interrupt=answer)) == {"ebb": "early", "flow": "late"}


async def test_questions_and_answers_are_events() -> None:
    app = asking("?", bool)
    async with app.events("x", RunOptions(on_interrupt=lambda _: True)) as events:
        seen = [e async for e in events if isinstance(e, (InterruptRequested, InterruptAnswered))]
    assert [type(e).__name__ for e in seen] == ["InterruptRequested", "InterruptAnswered"]
    assert {e.path for e in seen} == {"ask"}


async def test_a_tool_that_can_ask_nobody_fails_the_run_instead_of_telling_the_model() -> None:
    @tool
    async def delete(path: str) -> str:
        """Delete a file.

        Args:
            path: Which one.
        """
        return "deleted" if await interrupt(Approval(action="delete", target=path), answer=bool) else "kept"

    graph = Graph[Message, list[Message]]()
    graph.add_edge(START, graph.add_node("tools", ToolsNode([delete])))
    graph.add_edge("tools", END)
    app = graph.compile()
    call = ToolCall(id="c1", name="delete", arguments='{"path": "a.txt"}')
    calls = Message.assistant(tool_calls=[call, call.model_copy(update={"id": "c2"})])
    with pytest.raises(NodeError, match="nobody can be asked"):
        await app.invoke(calls)
    seen: list[str] = []

    def answer(question: Interrupt) -> bool:
        seen.append(question.id)
        return question.address[1] == "call 1"

    results = await app.invoke(calls, RunOptions(on_interrupt=answer))
    assert [message.text for message in results] == ["kept", "deleted"]
    assert sorted(seen) == ["tools/call 0/0", "tools/call 1/0"]
