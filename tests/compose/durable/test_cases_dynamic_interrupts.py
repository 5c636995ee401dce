"""The numbered cases of dynamic interrupts, 163 to 179 of the reference of the engine.

Where another engine has a defect, the case shows what we do instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    Graph,
    Interrupted,
    MemoryStore,
    Runnable,
    ToolsNode,
    UnknownInterruptError,
    interrupt,
)
from anabranch.schema import Message, StreamReader, ToolCall, tool

pytestmark = pytest.mark.anyio

Make = Callable[..., Callable[[str], Any]]
Line = Callable[..., Runnable[str, str]]
Fan = Callable[..., Runnable[str, dict[str, str]]]
Stops = Callable[[Any], Awaitable[list[str]]]


class State(BaseModel):
    """A state."""

    a: str = ""


async def test_163_a_pre_handler_does_not_run_again_and_the_node_has_its_input(
    ask: Make, stops: Stops, log: list[str]
) -> None:
    def pre(text: str, state: State) -> str:
        log.append("pre")
        state.a += "+"
        return text + state.a

    inner = Graph[str, str](state=State)
    inner.add_edge(START, inner.add_node("in", ask("in"), pre=pre))
    inner.add_edge("in", END)
    graph = Graph[str, str](state=State)
    graph.add_edge(START, graph.add_node("sub", inner, pre=pre))
    graph.add_edge("sub", graph.add_node("own", ask("own"), pre=pre))
    graph.add_edge("own", END)
    app = graph.compile(store=MemoryStore())
    assert await stops(app.invoke("x", run="r")) == ["sub/in/0"]
    assert await stops(app.resume("r", answer="1")) == ["own/0"]
    assert await app.resume("r", answer="2") == "x++1++2"
    assert log == ["pre", "pre", "in", "in", "pre", "own", "own"]


@pytest.mark.parametrize("trigger", ["any", "all"])
async def test_164_handlers_before_and_after_a_node_may_ask_and_the_body_runs_once(
    trigger: Any, say: Make, stops: Stops, log: list[str]
) -> None:
    async def before(text: str, state: State) -> str:
        log.append("before")
        return text + await interrupt("before", answer=str)

    async def after(text: str, state: State) -> str:
        log.append("after")
        return text + await interrupt("after", answer=str)

    graph = Graph[str, str](state=State)
    graph.add_edge(START, graph.add_node("a", say("a"), pre=before, post=after))
    graph.add_edge("a", END)
    app = graph.compile(store=MemoryStore(), trigger=trigger)
    (first,) = await stops(app.invoke("x", run="r"))
    (second,) = await stops(app.resume("r", {first: "1"}))
    assert first != second
    assert await app.resume("r", {second: "2"}) == "x1a2"
    assert log == ["before", "before", "a", "after", "after"]


async def test_166_an_unknown_id_and_one_of_an_earlier_question_are_refused_before_anything_runs(
    line: Line, stops: Stops, log: list[str]
) -> None:
    async def twice(text: str) -> str:
        log.append("twice")
        return text + await interrupt("one", answer=str) + await interrupt("two", answer=str)

    app = line(("a", twice))
    (one,) = await stops(app.invoke("x", run="r"))
    with pytest.raises(UnknownInterruptError, match="'nobody'"):
        await app.resume("r", {"nobody": "!"})
    (two,) = await stops(app.resume("r", {one: "1"}))
    log.clear()
    with pytest.raises(UnknownInterruptError):
        await app.resume("r", {one: "1"})
    assert not log
    assert await app.resume("r", {two: "2"}) == "x12"


async def test_167_calls_of_a_tool_that_ask_in_a_loop_each_get_their_own_answer(stops: Stops, log: list[str]) -> None:
    @tool
    async def delete(path: str) -> str:
        """Delete a file.

        Args:
            path: Which.
        """
        log.append(path)
        return f"{path} {await interrupt(path, answer=str)}"

    def calls(*paths: str) -> Message:
        made = [ToolCall(id="same", name="delete", arguments=f'{{"path": "{path}"}}') for path in paths]
        return Message.assistant("", tool_calls=[call.model_copy(update={"id": f"{i}"}) for i, call in enumerate(made)])

    def model(messages: list[Message]) -> Message:
        return calls("3") if len(messages) == 2 else Message.assistant(messages[-1].text)

    async def done(message: Message) -> Literal["tools", "end"]:
        return "tools" if message.tool_calls else "end"

    graph = Graph[Message, Message]()
    graph.add_edge(START, graph.add_node("tools", ToolsNode([delete])))
    graph.add_edge("tools", graph.add_node("model", model))
    graph.add_branch("model", done)
    app = graph.compile(store=MemoryStore())
    assert await stops(app.invoke(calls("1", "2"), run="r")) == ["tools/call 0/0", "tools/call 1/0"]
    assert await stops(app.resume("r", {"tools/call 0/0": "yes"})) == ["tools/call 1/0"]
    assert await stops(app.resume("r", {"tools/call 1/0": "no"})) == ["tools#2/call 0/0"]
    assert (await app.resume("r", {"tools#2/call 0/0": "maybe"})).text == "3 maybe"
    assert sorted(log) == ["1", "1", "2", "2", "3", "3"]


async def test_169_170_a_graph_that_a_node_calls_pauses_the_run_and_is_found_by_its_address(
    say: Make, ask: Make, line: Line, stops: Stops, log: list[str]
) -> None:
    inner = line(("i", ask("i")), ("j", say("j")))

    async def call(text: str) -> str:
        return await inner.invoke(text) + "l"

    app = line(("l", call))
    (id,) = await stops(app.invoke("x", run="r"))
    assert id.startswith("l/")
    assert id.endswith("/i/0")
    assert await app.resume("r", {id: "!"}) == "x!jl"
    assert log == ["i", "i", "j"]


async def test_172_a_step_ends_before_the_next_begins_also_when_it_is_resumed(
    say: Make, ask: Make, stops: Stops, log: list[str]
) -> None:
    graph = Graph[str, dict[str, str]]()
    graph.add_edge(START, graph.add_node("A", ask("A")))
    graph.add_edge(START, graph.add_node("B", say("B")))
    graph.add_edge("B", graph.add_node("C", say("C"), output_key="C"))
    graph.add_edge("A", graph.add_node("D", say("D"), output_key="D"))
    graph.add_edge("C", END)
    graph.add_edge("D", END)
    app = graph.compile(store=MemoryStore())
    await stops(app.invoke("x", run="r"))
    assert sorted(log) == ["A", "B"]
    assert await app.resume("r", answer="!") == {"C": "xBC", "D": "x!D"}
    assert sorted(log) == ["A", "A", "B", "C", "D"]


@pytest.mark.parametrize("trigger", ["any", "all"])
async def test_173_two_nested_graphs_that_pause_together_both_go_on(
    trigger: Any, say: Make, ask: Make, fan: Fan, stops: Stops, log: list[str]
) -> None:
    def inner(name: str) -> Graph[str, str]:
        graph = Graph[str, str]()
        graph.add_edge(START, graph.add_node("first", say(f"{name}1")))
        graph.add_edge("first", graph.add_node("ask", ask(name)))
        graph.add_edge("ask", END)
        return graph

    app = fan({"A": inner("A"), "B": inner("B")}, trigger)
    ids = await stops(app.invoke("x", run="r"))
    assert sorted(ids) == ["A/ask/0", "B/ask/0"]
    assert await app.resume("r", dict.fromkeys(ids, "!")) == {"A": "xA1!", "B": "xB1!"}
    assert sorted(log) == ["A", "A", "A1", "B", "B", "B1"]


async def test_175_a_static_and_a_dynamic_pause_in_one_step_lose_nothing_and_ask_once(
    say: Make, ask: Make, stops: Stops, log: list[str]
) -> None:
    async def which(text: str) -> Literal["X"]:
        log.append("which")
        return "X"

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("P", say("P")))
    graph.add_edge(START, graph.add_node("C", ask("C")))
    graph.add_branch("P", which)
    graph.add_node("X", say("X"), merge="|".join, trigger="all")
    graph.add_edge("C", "X")
    graph.add_edge("X", END)
    triggers: list[Literal["any", "all"]] = ["any", "all"]
    for trigger in triggers:
        log.clear()
        app = graph.compile(store=MemoryStore(), trigger=trigger, interrupt_before=["X"])
        assert await stops(app.invoke("x", run="r")) == ["C/0"]
        assert await stops(app.resume("r", {"C/0": "!"})) == ["X/before"]
        assert await app.resume("r") in ("xP|x!X", "x!|xPX")
        assert log.count("which") == 1
        assert log.count("P") == 1


async def test_176_what_waits_from_the_start_is_saved_in_stream_mode(say: Make, ask: Make) -> None:
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("A", ask("A")))
    graph.add_node("X", say("X"), merge="|".join)
    graph.add_edge(START, "X")
    graph.add_edge("A", "X")
    graph.add_edge("X", END)
    app = graph.compile(store=MemoryStore(), trigger="all")
    with pytest.raises(Interrupted):
        async with app.transform(["x", "y"], run="r") as reader:
            await reader.concat()
    async with app.resume_stream("r", {"A/0": "!"}) as reader:
        assert await reader.concat() == "xy|xy!X"


async def test_178_answers_are_values_that_may_be_used_for_many_runs(ask: Make, line: Line, stops: Stops) -> None:
    app = line(("a", ask("a")))
    answers = {"a/0": "!"}
    for run in "12":
        await stops(app.invoke(run, run=run))
    assert [await app.resume(run, answers) for run in "12"] == ["1!", "2!"]
    assert answers == {"a/0": "!"}


async def test_179_a_question_inside_a_stream_is_the_question_of_the_node_that_makes_it(
    line: Line, log: list[str]
) -> None:
    async def makes(text: str) -> AsyncIterator[str]:
        log.append("makes")
        yield text
        yield await interrupt("?", answer=str)

    async def reads(reader: StreamReader[str]) -> str:
        return "".join([chunk async for chunk in reader]) + "r"

    app = line(("makes", makes), ("reads", reads))
    with pytest.raises(Interrupted) as paused:
        async with app.stream("x", run="r") as reader:
            await reader.concat()
    assert [one.id for one in paused.value.interrupts] == ["makes/0"]
    async with app.resume_stream("r", {"makes/0": "!"}) as reader:
        assert await reader.concat() == "x!r"
    assert log == ["makes", "makes"]
