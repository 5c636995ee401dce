"""The numbered cases of pausing: 146 to 188 of the reference of the engine; H1 to H19, K6 to K19 and X4 of its pains.

Where another engine has a defect, the case shows what we do instead. K1 to K5, K17, X1, X2, X7 and X8 are about the
codec and are in test_codec_cases.py, H12 and H13 in test_pauses_swallowed.py, K12 and K13 with the stores; H16 is about
agents; X3, X5 and X6 are about caches of nodes, of which there are none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

import anyio
import pytest
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    AnswersMissingError,
    AnswerTypeError,
    Breakpoint,
    CheckpointError,
    Graph,
    GraphChangedError,
    GraphCompileError,
    Interrupted,
    MemoryStore,
    NodeError,
    RunConflict,
    RunFinishedError,
    Runnable,
    RunOptions,
    StepLimitExceeded,
    StepMismatchError,
    ToolsNode,
    UnknownInterruptError,
    UnknownRunError,
    interrupt,
    step,
)
from anabranch.compose._store import LogHead
from anabranch.compose.errors import ResumeError, StoreError
from anabranch.schema import Message, StreamReader, ToolCall, tool

pytestmark = pytest.mark.anyio


class State(BaseModel):
    """A state."""

    a: str = ""


log: list[str] = []


@pytest.fixture(autouse=True)
def empty_log() -> None:
    log.clear()


def say(name: str) -> Callable[[str], Any]:
    async def node(text: str) -> str:
        log.append(name)
        return text + name

    return node


def ask(name: str, answer: Any = str) -> Callable[[str], Any]:
    async def node(text: str) -> str:
        log.append(name)
        return f"{text}{await interrupt(name, answer=answer)}"

    return node


def line(*nodes: tuple[str, Any], store: Any = None, **options: Any) -> Runnable[str, str]:
    graph = Graph[str, str]()
    for name, node in nodes:
        graph.add_node(name, node, input=str, output=str)
    names: list[str] = ["start", *(name for name, _ in nodes), "end"]
    for one, other in pairwise(names):
        graph.add_edge(one, other)
    return graph.compile(store=store or MemoryStore(), **options)


def fan(nodes: dict[str, Any], trigger: Literal["any", "all"] = "any", **options: Any) -> Runnable[str, dict[str, str]]:
    graph = Graph[str, dict[str, str]]()
    for name, node in nodes.items():
        graph.add_node(name, node, output_key=name)
        graph.add_edge("start", name)
        graph.add_edge(name, "end")
    return graph.compile(store=MemoryStore(), trigger=trigger, **options)


async def stops(work: Any) -> list[str]:
    with pytest.raises(Interrupted) as paused:
        await work
    return [one.id for one in paused.value.interrupts]


# -- 4.13 static interrupts -----------------------------------------------------------------------------------------


async def test_146_before_and_after_at_the_same_place_are_two_points_and_one_resume() -> None:
    def note(text: str, state: State) -> str:
        state.a += text
        return text

    graph = Graph[str, str](state=State)
    graph.add_edge(START, graph.add_node("1", say("1")))
    graph.add_edge("1", graph.add_node("2", say("2"), pre=note))
    graph.add_edge("2", END)
    app = graph.compile(store=MemoryStore(), interrupt_before=["2"], interrupt_after=["1"])
    assert await stops(app.invoke("x", run="r")) == ["1/after"]
    assert await app.state("r") == State()
    assert await stops(app.resume("r")) == ["2/before"]
    assert await app.resume("r") == "x12"
    assert log == ["1", "2"]


async def test_148_after_the_last_node_is_a_pause_too() -> None:
    app = line(("a", say("a")), interrupt_after=["a"])
    assert await stops(app.invoke("x", run="r")) == ["a/after"]
    assert await app.resume("r") == "xa"
    assert log == ["a"]


async def test_149_a_point_in_a_loop_stops_every_time() -> None:
    async def go_on(text: str) -> Literal["a", "end"]:
        return "end" if text.count("b") == 2 else "a"

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("a", say("a")))
    graph.add_edge("a", graph.add_node("b", say("b")))
    graph.add_branch("b", go_on)
    app = graph.compile(store=MemoryStore(), interrupt_before=["b"])
    assert await stops(app.invoke("x", run="r")) == ["b/before"]
    assert await stops(app.resume("r")) == ["b#2/before"]
    assert await app.resume("r") == "xabab"


@pytest.mark.parametrize("first", ["value", "stream"])
async def test_151_a_run_goes_on_in_the_other_mode(first: str) -> None:
    async def streams(text: str) -> AsyncIterator[str]:
        yield text
        yield "a1"
        yield "a2"

    app = line(("a", streams), ("b", say("b")), interrupt_before=["b"])
    if first == "value":
        await stops(app.invoke("x", run="r"))
        async with app.resume_stream("r") as reader:
            assert await reader.concat() == "xa1a2b"
    else:
        with pytest.raises(Interrupted):
            async with app.stream("x", run="r") as reader:
                await reader.concat()
        assert await app.resume("r") == "xa1a2b"


async def test_152_what_is_kept_is_brought_up_to_date_by_a_migration_and_states_are_read_by_their_graph() -> None:
    store = MemoryStore()

    def app(name: str, **options: Any) -> Runnable[str, str]:
        graph = Graph[str, str](state=State)
        graph.add_edge(START, graph.add_node("ask", ask("ask")))
        graph.add_edge("ask", graph.add_node(name, say("!")))
        graph.add_edge(name, END)
        return graph.compile(store=store, **options)

    def migrate(doc: dict[str, Any]) -> dict[str, Any]:
        doc["graph"]["state"]["a"] = "changed"
        return doc

    (id,) = await stops(app("old").invoke("x", run="r"))
    with pytest.raises(GraphChangedError):
        await app("new").resume("r", {id: "y"})
    assert log == ["ask"]
    new = app("new", migrate=migrate, interrupt_before=["new"])
    assert await stops(new.resume("r", {id: "y"})) == ["new/before"]
    assert await new.state("r") == State(a="changed")
    assert await app("new").resume("r") == "xy!"


async def test_154_steps_are_counted_over_all_of_a_run_and_more_may_be_allowed() -> None:
    app = line(("a", say("a")), ("b", say("b")), ("c", say("c")), max_steps=2, interrupt_after=["b"])
    await stops(app.invoke("x", run="r"))
    for _ in range(2):
        with pytest.raises(StepLimitExceeded) as caught:
            await app.resume("r")
        assert caught.value.limit == 2
    assert await app.resume("r", None, RunOptions(max_steps=3)) == "xabc"
    assert log == ["a", "b", "c"]


async def test_155_what_a_store_would_be_needed_for_is_refused_without_one_and_its_errors_are_told() -> None:
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("a", say("a")))
    graph.add_edge("a", END)
    with pytest.raises(GraphCompileError, match="give store= too"):
        graph.compile(interrupt_before=["a"])
    plain = graph.compile()
    with pytest.raises(Exception, match="compile it with store="):
        await plain.invoke("x", run="r")

    class Broken(MemoryStore):
        async def load(self, id: str, *, version: int | None = None) -> Any:
            raise StoreError("the store", "loading", "it is broken")

    with pytest.raises(StoreError, match="it is broken"):
        await line(("a", say("a")), store=Broken()).resume("r")
    assert not log


async def test_157_a_copy_goes_on_and_leaves_what_it_was_copied_from_alone() -> None:
    app = line(("a", say("a")), ("b", ask("b")))
    (id,) = await stops(app.invoke("x", run="1"))
    before = [version.version for version in await app.history("1")]
    assert await app.fork("1", new="2") == "2"
    assert await app.resume("2", {id: "?"}) == "xa?"
    assert [version.version for version in await app.history("1")] == before
    assert await app.resume("1", {id: "!"}) == "xa!"
    assert log == ["a", "b", "b", "b"]


async def test_158_a_run_that_has_ended_is_not_resumed_and_its_id_is_not_used_again() -> None:
    app = line(("a", ask("a")))
    (id,) = await stops(app.invoke("x", run="1"))
    assert await app.resume("1", {id: "!"}) == "x!"
    with pytest.raises(RunFinishedError):
        await app.resume("1", {id: "!"})
    with pytest.raises(RunConflict):
        await app.invoke("fresh", run="1")
    assert log == ["a", "a"]


async def test_160_a_graph_without_the_node_or_with_another_trigger_is_another_graph() -> None:
    store = MemoryStore()
    (id,) = await stops(line(("a", ask("a")), store=store).invoke("x", run="r"))
    for other in (
        line(("b", ask("a")), store=store),
        line(("a", ask("a")), store=store, trigger="all"),
        line(("a", ask("a")), ("b", say("b")), store=store),
    ):
        with pytest.raises(GraphChangedError):
            await other.resume("r", {id: "!"})
    assert log == ["a"]


async def test_161_a_state_that_cannot_be_saved_is_told_when_compiling() -> None:
    class Odd:
        """Nothing that can be saved."""

    graph = Graph[str, str](state=Odd)
    graph.add_edge(START, graph.add_node("a", say("a")))
    graph.add_edge("a", END)
    graph.compile()
    with pytest.raises(GraphCompileError, match="the state cannot be saved"):
        graph.compile(store=MemoryStore())


# -- 4.14 dynamic interrupts ----------------------------------------------------------------------------------------


async def test_163_a_pre_handler_does_not_run_again_and_the_node_has_its_input() -> None:
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
async def test_164_handlers_before_and_after_a_node_may_ask_and_the_body_runs_once(trigger: Any) -> None:
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


async def test_166_an_unknown_id_and_one_of_an_earlier_question_are_refused_before_anything_runs() -> None:
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


async def test_167_calls_of_a_tool_that_ask_in_a_loop_each_get_their_own_answer() -> None:
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


async def test_169_170_a_graph_that_a_node_calls_pauses_the_run_and_is_found_by_its_address() -> None:
    inner = line(("i", ask("i")), ("j", say("j")))

    async def call(text: str) -> str:
        return await inner.invoke(text) + "l"

    app = line(("l", call))
    (id,) = await stops(app.invoke("x", run="r"))
    assert id.startswith("l/")
    assert id.endswith("/i/0")
    assert await app.resume("r", {id: "!"}) == "x!jl"
    assert log == ["i", "i", "j"]


async def test_172_a_step_ends_before_the_next_begins_also_when_it_is_resumed() -> None:
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
async def test_173_two_nested_graphs_that_pause_together_both_go_on(trigger: Any) -> None:
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


async def test_175_a_static_and_a_dynamic_pause_in_one_step_lose_nothing_and_ask_once() -> None:
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


async def test_176_what_waits_from_the_start_is_saved_in_stream_mode() -> None:
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


async def test_178_answers_are_values_that_may_be_used_for_many_runs() -> None:
    app = line(("a", ask("a")))
    answers = {"a/0": "!"}
    for run in "12":
        await stops(app.invoke(run, run=run))
    assert [await app.resume(run, answers) for run in "12"] == ["1!", "2!"]
    assert answers == {"a/0": "!"}


async def test_179_a_question_inside_a_stream_is_the_question_of_the_node_that_makes_it() -> None:
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


# -- 4.15 pauses from outside (more of them in test_paused_outside.py) ----------------------------------------------


def controlled() -> Any:
    from anabranch.compose import RunControl

    return RunControl()


@pytest.mark.virtual_time
@pytest.mark.parametrize(("grace", "runs"), [(float("inf"), 1), (3600.0, 1), (0.0, 2), (0.05, 2)])
async def test_181_182_what_ends_in_the_time_given_counts_and_else_runs_again_on_its_input(
    grace: float, runs: int
) -> None:
    control = controlled()

    async def a(text: str) -> str:
        log.append(text)
        control.pause(grace)
        await anyio.sleep(0.2)
        return text + "a"

    app = line(("a", a), ("b", say("b")))
    await stops(app.invoke("x", RunOptions(control=control), run="r"))
    assert await app.resume("r") == "xab"
    assert log == ["x"] * runs + ["b"]


@pytest.mark.virtual_time
async def test_184_a_node_that_reads_a_stream_gets_all_of_it_again() -> None:
    control = controlled()

    async def reads(reader: StreamReader[str]) -> str:
        text = "".join([chunk async for chunk in reader])
        log.append(text)
        control.pause()
        await anyio.sleep(1)
        return text

    app = line(("reads", reads), ("b", say("b")))
    with pytest.raises(Interrupted):
        async with app.transform(["c1", "c2", "c3"], RunOptions(control=control), run="r") as reader:
            await reader.concat()
    async with app.resume_stream("r") as reader:
        assert await reader.concat() == "c1c2c3b"
    assert log == ["c1c2c3", "c1c2c3", "b"]


@pytest.mark.virtual_time
async def test_185_a_pause_while_the_last_node_runs_in_time_gives_the_result() -> None:
    control = controlled()

    async def a(text: str) -> str:
        control.pause(10)
        await anyio.sleep(1)
        return text + "a"

    assert await line(("a", a)).invoke("x", RunOptions(control=control), run="r") == "xa"


async def test_187_a_node_that_asks_in_a_run_that_can_be_paused_gets_its_input_again() -> None:
    app = line(("a", ask("a")))
    await stops(app.invoke("x", RunOptions(control=controlled()), run="r"))
    assert await app.resume("r", {"a/0": "!"}, RunOptions(control=controlled())) == "x!"


@pytest.mark.virtual_time
async def test_188_a_nested_node_has_the_whole_time() -> None:
    control = controlled()

    async def slow(text: str) -> str:
        log.append("slow")
        control.pause(3600)
        await anyio.sleep(0.4)
        return text + "s"

    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("slow", slow))
    inner.add_edge("slow", END)
    app = line(("sub", inner), ("b", say("b")))
    await stops(app.invoke("x", RunOptions(control=control), run="r"))
    assert await app.resume("r") == "xsb"
    assert log == ["slow", "b"]


# -- H: what hurts elsewhere ----------------------------------------------------------------------------------------


async def test_h1_h9_h17_questions_are_told_apart_by_their_place_and_a_waiting_sibling_is_not_run_again() -> None:
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


async def test_h2_h3_steps_before_a_question_are_done_once_however_many_questions_there_are() -> None:
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


async def test_h4_an_answer_to_another_question_is_refused() -> None:
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
async def test_h5_h6_nothing_is_an_answer_too(form: Any, answer: Any) -> None:
    async def asks(text: str) -> str:
        return repr(await interrupt("?", answer=form))

    for given in ({"a/0": answer}, None):
        app = line(("a", asks))
        await stops(app.invoke("x", run="r"))
        done = app.resume("r", answer=answer) if given is None else app.resume("r", given)
        assert await done == repr(answer)


async def test_h7_h8_each_way_in_which_a_run_cannot_be_resumed_is_an_error_of_its_own() -> None:
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


async def test_h10_h11_at_every_depth_what_has_ended_does_not_run_again() -> None:
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


async def test_h14_without_a_store_and_a_handler_a_question_is_an_error() -> None:
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("a", ask("a")))
    graph.add_edge("a", END)
    with pytest.raises(NodeError, match="nobody can be asked"):
        await graph.compile().invoke("x")


async def test_h15_resuming_goes_on_and_a_fork_of_an_older_version_asks_anew() -> None:
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
async def test_h18_h19_only_what_asks_waits(trigger: Any) -> None:
    app = fan({"asks": ask("asks"), "other": say("other"), "held": say("held")}, trigger, interrupt_before=["held"])
    assert sorted(await stops(app.invoke("x", run="r"))) == ["asks/0", "held/before"]
    assert sorted(log) == ["asks", "other"]
    output = await app.resume("r", {"asks/0": "!"})
    assert output == {"asks": "x!", "other": "xother", "held": "xheld"}
    assert log.count("other") == 1


# -- K and X --------------------------------------------------------------------------------------------------------


class Full(MemoryStore):
    """A store that has room for so many entries."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        if head.version > self.room:
            raise StoreError("the store", "saving", "it is full")
        await super().save(head, data, snapshot=snapshot, expected=expected)


async def test_k6_k7_k8_the_first_save_is_before_the_first_node_and_each_before_the_next() -> None:
    nodes = [(name, say(name)) for name in "abcde"]
    for room in range(5):
        log.clear()
        with pytest.raises(CheckpointError):
            await line(*nodes, store=Full(room)).invoke("x", run="r")
        assert log == list("abcde"[:room])


async def test_k9_of_many_who_resume_one_run_one_does() -> None:
    app = line(("a", ask("a")))
    await stops(app.invoke("x", run="r"))
    outcomes: list[str] = []

    async def resume() -> None:
        try:
            outcomes.append(await app.resume("r", {"a/0": "!"}))
        except (RunConflict, RunFinishedError, UnknownInterruptError) as error:
            outcomes.append(type(error).__name__)

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(resume)
    assert outcomes.count("x!") == 1
    assert log == ["a", "a"]


async def test_k10_what_is_stored_grows_with_what_is_new() -> None:
    async def turn(history: list[str]) -> list[str]:
        return [*history, "x" * 1000]

    async def more(history: list[str]) -> Literal["turn", "count"]:
        return "turn" if len(history) < 160 else "count"

    graph = Graph[list[str], int]()
    graph.add_edge(START, graph.add_node("turn", turn))
    graph.add_branch("turn", more)
    graph.add_edge(graph.add_node("count", len, input=list[str], output=int), END)
    store = MemoryStore()
    await graph.compile(store=store, max_steps=200).invoke([], run="r")
    assert sum(version.size for version in await store.versions("r")) < 3 * 160_000


async def test_k11_a_fork_has_nothing_of_what_came_later_in_the_other() -> None:
    async def turn(text: str) -> str:
        return text + await interrupt(len(text), answer=str)

    async def more(text: str) -> Literal["turn", "end"]:
        return "turn" if len(text) < 4 else "end"

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("turn", turn))
    graph.add_branch("turn", more)
    app = graph.compile(store=MemoryStore())
    await stops(app.invoke("", run="r"))
    await stops(app.resume("r", answer="a"))
    second = (await app.history("r"))[-1].version
    await stops(app.resume("r", answer="b"))
    copy = await app.fork("r", second)
    await stops(app.resume(copy, answer="c"))
    await stops(app.resume("r", answer="b"))
    await stops(app.resume(copy, answer="c"))
    assert await app.resume("r", answer="b") == "abbb"
    assert await app.resume(copy, answer="c") == "accc"


@pytest.mark.parametrize("durability", ["step", "pause"])
async def test_k14_what_is_saved_is_what_was_there_when_it_was(durability: Any) -> None:
    kept: list[list[str]] = []

    async def gives(text: str) -> list[str]:
        made = [text]
        kept.append(made)
        return made

    async def changes(items: list[str]) -> str:
        kept[0].append("changed later")
        items.append("changed here")
        await step("now", str, "x")
        return await interrupt("?", answer=str)

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("gives", gives))
    graph.add_edge("gives", graph.add_node("changes", changes))
    graph.add_edge("changes", END)
    seen: list[list[str]] = []
    app = graph.compile(store=MemoryStore(), durability=durability)
    await stops(app.invoke("x", run="r"))

    async def looks(items: list[str]) -> str:
        seen.append(list(items))
        await step("now", str, "x")
        return await interrupt("?", answer=str)

    again = Graph[str, str]()
    again.add_edge(START, again.add_node("gives", gives))
    again.add_edge("gives", again.add_node("changes", looks))
    again.add_edge("changes", END)
    same = again.compile(store=app._kept().store)  # pyright: ignore[reportPrivateUsage]
    assert await same.resume("r", answer="!") == "!"
    assert seen == [["x"]]


async def test_k15_addresses_are_the_same_in_every_version() -> None:
    inner = line(("1", say("1")), ("ask", ask("ask")))
    app = line(("sub", inner), ("b", say("b")))
    ids = await stops(app.invoke("x", run="r"))
    versions = await app.history("r")
    for version in versions:
        copy = await app.fork("r", version.version)
        log.clear()
        with pytest.raises((Interrupted, AnswersMissingError)):
            await app.resume(copy)
        assert [one.id for one in await app.pending(copy)] == ids
        assert await app.resume(copy, answer="!") == "x1!b"
        assert log.count("1") <= 1


async def test_k16_a_renamed_node_is_a_changed_graph() -> None:
    store = MemoryStore()
    await stops(line(("a", ask("a")), ("b", say("b")), store=store).invoke("x", run="r"))
    with pytest.raises(GraphChangedError, match="another graph"):
        await line(("a", ask("a")), ("c", say("c")), store=store).resume("r", answer="!")


@pytest.mark.virtual_time
async def test_k18_a_time_out_of_a_resumed_run_is_one_and_does_not_pause() -> None:
    async def slow(text: str) -> str:
        answer = await interrupt("?", answer=float)
        await step("effect", log.append, "effect")
        await anyio.sleep(answer)
        return text + "!"

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("slow", slow, timeout=1.0))
    graph.add_edge("slow", END)
    app = graph.compile(store=MemoryStore())
    await stops(app.invoke("x", run="r"))
    with pytest.raises(TimeoutError):
        await app.resume("r", {"slow/0": 5.0})
    with pytest.raises(TimeoutError):
        await app.resume("r")
    assert log == ["effect"]
    assert not await app.pending("r")


async def test_k19_a_step_that_comes_with_other_arguments_is_an_error_that_shows_both() -> None:
    order = ["a", "b"]

    async def works(text: str) -> str:
        for name in order:
            text += await step("work", str.upper, name)
        return text + await interrupt("?", answer=str)

    app = line(("works", works))
    await stops(app.invoke("x", run="r"))
    order.reverse()
    with pytest.raises(StepMismatchError) as caught:
        await app.resume("r", answer="!")
    assert "'a'" in str(caught.value)
    assert "'b'" in str(caught.value)
    order.reverse()
    assert await app.resume("r") == "xAB!"


async def test_x4_ids_and_threads_are_data_for_every_store(tmp_path: Any) -> None:
    from anabranch.compose import SqliteStore

    evil: Sequence[str] = ["'; DROP TABLE logs; --", '" OR 1=1 --', "%", "_", "\x00", "\ud800", "r' UNION SELECT 1"]
    async with SqliteStore(tmp_path / "runs.db", synchronous="normal") as store:
        app = line(("a", say("a")), store=store)
        for name in evil:
            assert await app.invoke("x", run=name, thread=name) == "xa"
        for name in evil:
            assert [head.id for head in await store.heads(thread=name)] == [name]
            assert await app.output(name) == "xa"


async def test_a_breakpoint_says_where_it_is() -> None:
    app = line(("a", say("a")), interrupt_before=["a"])
    with pytest.raises(Interrupted) as paused:
        await app.invoke("x", run="r")
    assert paused.value.interrupts[0].payload == Breakpoint("a", "before")
