"""The numbered cases of what hurts elsewhere when a run asks: H1 to H19.

Where another engine has a defect, the case shows what we do instead. H12 and H13 are in
test_pauses_swallowed.py; H16 is about agents.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from anabranch.compose import (
    END,
    START,
    AnswersMissingError,
    AnswerTypeError,
    Graph,
    MemoryStore,
    NodeError,
    RunFinishedError,
    Runnable,
    ToolsNode,
    UnknownInterruptError,
    UnknownRunError,
    interrupt,
    step,
)
from anabranch.compose.errors import ResumeError
from anabranch.schema import Message, ToolCall, tool

pytestmark = pytest.mark.anyio

Make = Callable[..., Callable[[str], Any]]
Line = Callable[..., Runnable[str, str]]
Fan = Callable[..., Runnable[str, dict[str, str]]]
Stops = Callable[[Any], Awaitable[list[str]]]


async def test_h1_h9_h17_questions_are_told_apart_by_their_place_and_a_waiting_sibling_is_not_run_again(
    stops: Stops, log: list[str]
) -> None:
    @tool
    async def change(name: str) -> str:
        """Change something.

        Args:
            name: What.
        """
        log.append(name)
        return f"{name}={await interrupt(name, answer=str)}"

    graph = Graph[Message, list[Message]]()
    graph.add_edge(START, graph.add_node("tools", ToolsNode([change])))
    graph.add_edge("tools", END)
    app = graph.compile(store=MemoryStore())
    calls = [ToolCall(id=id, name="change", arguments=f'{{"name": "{id}"}}') for id in "abc"]
    ids = await stops(app.invoke(Message.assistant("", tool_calls=calls), run="r"))
    assert ids == ["tools/call 0/0", "tools/call 1/0", "tools/call 2/0"]
    assert await stops(app.resume("r", {ids[1]: "B"})) == [ids[0], ids[2]]
    found = await app.resume("r", {ids[2]: "C", ids[0]: "A"})
    assert [message.text for message in found] == ["a=A", "b=B", "c=C"]
    assert sorted(log) == ["a", "a", "b", "b", "c", "c"]


async def test_h2_h3_steps_before_a_question_are_done_once_however_many_questions_there_are(
    line: Line, stops: Stops, log: list[str]
) -> None:
    async def pays(text: str) -> str:
        log.append("body")
        for number in range(6):
            text += await step("pay", charge, number)
            text += await interrupt(number, answer=str)
        return text

    def charge(number: int) -> str:
        log.append(f"charge {number}")
        return f"{number}"

    app = line(("pays", pays))
    await stops(app.invoke("x", run="r"))
    for _ in range(5):
        await stops(app.resume("r", answer="."))
    assert await app.resume("r", answer=".") == "x0.1.2.3.4.5."
    assert [entry for entry in log if entry != "body"] == [f"charge {number}" for number in range(6)]


async def test_h4_an_answer_to_another_question_is_refused(line: Line, stops: Stops) -> None:
    asked = "delete?"

    async def changes(text: str) -> str:
        return text + await interrupt(asked, answer=str)

    app = line(("a", changes))
    await stops(app.invoke("x", run="r"))
    asked = "which colour?"
    with pytest.raises(NodeError, match="which colour"):
        await app.resume("r", answer="yes")


@pytest.mark.parametrize(
    ("form", "answer"), [(type(None), None), (bool, False), (dict[str, Any], {}), (str, ""), (int, 0), (list[Any], [])]
)
async def test_h5_h6_nothing_is_an_answer_too(form: Any, answer: Any, line: Line, stops: Stops) -> None:
    async def asks(text: str) -> str:
        return repr(await interrupt("?", answer=form))

    for given in ({"a/0": answer}, None):
        app = line(("a", asks))
        await stops(app.invoke("x", run="r"))
        done = app.resume("r", answer=answer) if given is None else app.resume("r", given)
        assert await done == repr(answer)


async def test_h7_h8_each_way_in_which_a_run_cannot_be_resumed_is_an_error_of_its_own(
    ask: Make, line: Line, stops: Stops, log: list[str]
) -> None:
    app = line(("a", ask("a", int)), ("b", ask("b")))
    with pytest.raises(UnknownRunError):
        await app.resume("never begun", {"a/0": 1})
    await stops(app.invoke("x", run="r"))
    log.clear()
    with pytest.raises(AnswersMissingError):
        await app.resume("r")
    with pytest.raises(UnknownInterruptError):
        await app.resume("r", {"b/0": "early"})
    with pytest.raises(AnswerTypeError):
        await app.resume("r", {"a/0": "one"})
    with pytest.raises(ResumeError):
        await app.output("r")
    assert not log
    await stops(app.resume("r", {"a/0": 1}))
    assert await app.resume("r", {"b/0": "!"}) == "x1!"
    with pytest.raises(RunFinishedError):
        await app.resume("r")
    with pytest.raises(RunFinishedError):
        await app.resume("r", answer="again")


async def test_h10_h11_at_every_depth_what_has_ended_does_not_run_again(
    say: Make, ask: Make, line: Line, stops: Stops, log: list[str]
) -> None:
    innermost = line(("1", say("1")), ("ask", ask("2")), ("3", say("3")))

    async def calls(text: str) -> str:
        await step("before", log.append, "before")
        return await innermost.invoke(text)

    middle = Graph[str, str]()
    middle.add_edge(START, middle.add_node("a", say("a")))
    middle.add_edge("a", middle.add_node("calls", calls))
    middle.add_edge("calls", END)
    app = line(("first", say("f")), ("middle", middle), ("last", say("l")))
    await stops(app.invoke("x", run="r"))
    assert await app.resume("r", answer="!") == "xfa1!3l"
    assert log == ["f", "a", "before", "1", "2", "2", "3", "l"]


async def test_h14_without_a_store_and_a_handler_a_question_is_an_error(ask: Make) -> None:
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("a", ask("a")))
    graph.add_edge("a", END)
    with pytest.raises(NodeError, match="nobody can be asked"):
        await graph.compile().invoke("x")


async def test_h15_resuming_goes_on_and_a_fork_of_an_older_version_asks_anew(
    say: Make, ask: Make, line: Line, stops: Stops
) -> None:
    app = line(("a", ask("a")), ("b", say("b")))
    await stops(app.invoke("x", run="r"))
    paused = (await app.history("r"))[-1].version
    assert await app.resume("r", answer="1") == "x1b"
    copy = await app.fork("r", paused)
    assert [one.id for one in await app.pending(copy)] == ["a/0"]
    with pytest.raises(AnswersMissingError):
        await app.resume(copy)
    assert await app.resume(copy, answer="2") == "x2b"
    assert await app.output("r") == "x1b"


@pytest.mark.parametrize("trigger", ["any", "all"])
async def test_h18_h19_only_what_asks_waits(
    trigger: Any, say: Make, ask: Make, fan: Fan, stops: Stops, log: list[str]
) -> None:
    app = fan({"asks": ask("asks"), "other": say("other"), "held": say("held")}, trigger, interrupt_before=["held"])
    assert sorted(await stops(app.invoke("x", run="r"))) == ["asks/0", "held/before"]
    assert sorted(log) == ["asks", "other"]
    output = await app.resume("r", {"asks/0": "!"})
    assert output == {"asks": "x!", "other": "xother", "held": "xheld"}
    assert log.count("other") == 1
