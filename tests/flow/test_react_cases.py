"""The ReAct agent by the numbered reference cases 122–149 (those that need a store come with it).

Where ours is the better behaviour that the case names, the test says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import pytest

from anabranch.compose import (
    Event,
    MessageDelta,
    NodeError,
    NodeStarted,
    RunEnded,
    ToolEnded,
    ToolFailedError,
    ToolsNode,
)
from anabranch.compose.testing import ScriptedModel
from anabranch.flow.react import ReactAgent, RoundLimitExceeded, set_return_directly
from anabranch.schema import (
    ImagePart,
    Message,
    StreamReader,
    ToolCall,
    ToolDefinitionError,
    check_history,
    concat,
    tool,
)

pytestmark = pytest.mark.anyio


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
async def d1() -> str:
    """The first answer."""
    return "from d1"


@tool
async def d2() -> str:
    """The second answer."""
    return "from d2"


@tool
async def fails() -> str:
    """Fail."""
    raise ValueError("no")


def call(id: str, name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


def calls(*given: ToolCall, text: str = "") -> Message:
    return Message.assistant(text, tool_calls=given)


def forever(message: Message) -> Any:
    while True:
        yield message


async def chunks_of(agent: ReactAgent, question: str = "q") -> list[Message]:
    async with agent.stream(question) as reader:
        return [chunk async for chunk in reader]


async def events_of(agent: ReactAgent, question: str = "q") -> list[Event]:
    async with agent.events(question) as reader:
        return [event async for event in reader]


async def test_122_a_model_that_always_calls_is_stopped_by_the_round_limit_with_the_history_so_far() -> None:
    """Ours counts model calls, and says so in an error of its own."""
    model = ScriptedModel(forever(calls(call("1", "d1"))))
    agent = ReactAgent(model, tools=[d1], max_rounds=7)

    for attempt in (agent.generate("q"), chunks_of(agent)):
        model.calls.clear()
        with pytest.raises(RoundLimitExceeded, match="asked its model 7 times") as failed:
            await attempt
        assert len(model.calls) == 7
        assert failed.value.limit == 7
        assert [m.role for m in failed.value.messages] == ["user", *["assistant", "tool"] * 7]
        assert check_history(failed.value.messages) == []


async def test_122_the_default_is_twelve_rounds() -> None:
    model = ScriptedModel(forever(calls(call("1", "d1"))))
    with pytest.raises(RoundLimitExceeded):
        await ReactAgent(model, tools=[d1]).generate("q")
    assert len(model.calls) == 12


async def test_122_more_rounds_than_a_graph_has_steps_by_default_are_possible_also_nested() -> None:
    from anabranch.compose import END, START, Graph

    script: list[Any] = [calls(call("1", "d1"))] * 99 + ["done"]
    assert (await ReactAgent(ScriptedModel(script), tools=[d1], max_rounds=100).generate("q")).text == "done"
    outer = Graph[list[Message], Message]()
    outer.add_edge(START, outer.add_node("agent", ReactAgent(ScriptedModel(script), tools=[d1], max_rounds=100).graph))
    outer.add_edge("agent", END)
    assert (await outer.compile().invoke([Message.user("q")])).text == "done"


@pytest.mark.parametrize("limit", [0, -1])
async def test_124_a_limit_that_lets_no_run_succeed_is_refused_when_the_agent_is_made(limit: int) -> None:
    with pytest.raises(ValueError, match=f"max_rounds={limit}"):
        ReactAgent(ScriptedModel([]), max_rounds=limit)
    with pytest.raises(ValueError, match="max_tokens"):
        ReactAgent(ScriptedModel([]), max_tokens=limit)


async def test_125_the_model_sees_the_results_in_the_order_of_the_calls() -> None:
    second_done = anyio.Event()

    @tool
    async def a() -> str:
        await second_done.wait()
        return "A"

    @tool
    async def b() -> str:
        second_done.set()
        return "B"

    model = ScriptedModel([calls(call("1", "a"), call("2", "b")), "done"] * 2)
    agent = ReactAgent(model, tools=[a, b])
    await agent.generate("q")
    await chunks_of(agent)

    for asked in (model.calls[1], model.calls[3]):
        assert asked == [
            Message.user("q"),
            calls(call("1", "a"), call("2", "b")),
            Message.tool("A", tool_call_id="1", name="a"),
            Message.tool("B", tool_call_id="2", name="b"),
        ]


async def test_127_a_modifier_gets_a_copy_so_what_it_does_is_gone_afterwards() -> None:
    def modify(messages: list[Message]) -> list[Message]:
        messages.insert(0, Message.system("Be brief."))
        messages.append(Message.user("Now."))
        return messages

    model = ScriptedModel([calls(call("1", "d1")), "done"])
    question = [Message.user("q")]
    result = await ReactAgent(model, tools=[d1], message_modifier=modify).run(question)

    assert [[m.text for m in asked] for asked in model.calls] == [
        ["Be brief.", "q", "Now."],
        ["Be brief.", "q", "", "from d1", "Now."],
    ]
    assert question == [Message.user("q")]
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "assistant"]


async def test_128_the_first_call_in_order_that_is_returned_directly_is_the_answer() -> None:
    round_of_three = calls(call("1", "echo", '{"text": "n"}'), call("2", "d2"), call("3", "d1"))
    agent = ReactAgent(ScriptedModel([round_of_three] * 2), tools=[echo, d1, d2], return_directly={"d1", "d2"})

    result = await agent.run("q")

    assert result.message == Message.tool("from d2", tool_call_id="2", name="d2")
    assert concat(await chunks_of(agent)) == result.message
    # Ours: the results of the round are all in the history.
    assert [m.text for m in result.messages] == ["q", "", "n", "from d2", "from d1"]


async def test_130_a_call_by_an_alias_is_returned_directly_too() -> None:
    """Ours: the alias is resolved first."""
    node = ToolsNode([d1], aliases={"d1": ["first"]})
    for name in ("d1", "first"):
        agent = ReactAgent(ScriptedModel([calls(call("1", "first"))]), tools=node, return_directly=[name])
        assert (await agent.generate("q")).text == "from d1"


async def test_130_names_that_no_tool_has_are_refused() -> None:
    with pytest.raises(ValueError, match="return_directly: there is no tool 'dd'; the tools are: d1"):
        ReactAgent(ScriptedModel([]), tools=[d1], return_directly={"dd"})


async def test_131_a_tool_that_asks_to_be_the_answer_comes_before_the_named_ones() -> None:
    @tool
    async def asks() -> str:
        set_return_directly()
        return "asked"

    script = [calls(call("1", "d1"), call("2", "asks"))] * 2
    agent = ReactAgent(ScriptedModel(script), tools=[d1, asks], return_directly={"d1"})

    assert (await agent.generate("q")).text == "asked"
    assert concat(await chunks_of(agent)).text == "asked"


async def test_t3_a_tool_that_fails_does_not_end_the_run() -> None:
    @tool
    async def asks_and_fails() -> str:
        set_return_directly()
        raise ValueError("no")

    script = [
        calls(call("1", "fails")),
        calls(call("1", "asks_and_fails"), call("2", "fails")),
        calls(call("1", "fails"), call("2", "d1")),
    ]
    agent = ReactAgent(ScriptedModel(script * 2), tools=[fails, d1, asks_and_fails], return_directly={"fails", "d1"})

    assert (await agent.run("q")).message.text == "from d1"
    assert concat(await chunks_of(agent)).text == "from d1"


async def test_set_return_directly_works_in_threads_streams_and_what_tools_call() -> None:
    def deep() -> None:
        set_return_directly()

    @tool
    def threaded() -> str:
        deep()
        return "threaded"

    @tool
    async def streams() -> AsyncIterator[str]:
        yield "str"
        deep()
        yield "eams"

    for name, chunks in (("threaded", ["threaded"]), ("streams", ["str", "eams"])):
        agent = ReactAgent(ScriptedModel([calls(call("1", name), call("2", "d1"))] * 2), tools=[threaded, streams, d1])
        assert (await agent.generate("q")).text == name
        assert [chunk.text for chunk in await chunks_of(agent)] == chunks
    with pytest.raises(RuntimeError, match="outside of a tool call"):
        set_return_directly()


@pytest.mark.parametrize("whole", [False, True])
async def test_133_a_model_that_talks_before_it_calls_still_calls_and_the_talk_is_in_the_events(whole: bool) -> None:
    """Ours: the decision falls at the first tool call or at the end of the message."""
    talking = [Message.assistant("let me "), Message.assistant("check"), calls(call("1", "d1"))]
    model = ScriptedModel([concat(talking) if whole else talking, "done"] * 3)
    agent = ReactAgent(model, tools=[d1])

    result = await agent.run("q")
    chunks = await chunks_of(agent)
    events = await events_of(agent)

    assert result.message.text == "done"
    assert [chunk.text for chunk in chunks] == ["done"]
    assert result.messages[1] == concat(talking)
    assert "".join(e.delta.text for e in events if isinstance(e, MessageDelta)) == "let me checkdone"


async def test_133_text_before_the_decision_is_in_the_events_while_the_model_still_talks() -> None:
    go_on = anyio.Event()

    class Slow:
        def with_tools(self, tools: Any, choice: Any = "auto") -> Slow:
            return self

        async def stream(self, messages: Sequence[Message], options: Any = None) -> AsyncIterator[Message]:
            yield Message.assistant("thinking")
            await go_on.wait()
            yield Message.assistant(" done")

    agent = ReactAgent(Slow(), tools=[d1])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    async with agent.events("q") as events:
        async for event in events:
            if isinstance(event, MessageDelta):
                assert event.delta.text == "thinking"
                break
        go_on.set()
        assert isinstance([event async for event in events][-1], RunEnded)


@pytest.mark.parametrize(
    "first",
    [
        Message.assistant(""),
        Message.assistant("", reasoning="hm"),
        Message.assistant([ImagePart(url="https://example.org/a.png")]),
    ],
)
@pytest.mark.parametrize("promise", [False, True])
async def test_134_chunks_without_text_before_a_call_decide_nothing(first: Message, promise: bool) -> None:
    model = ScriptedModel([[first, calls(call("1", "d1"))], "done"] * 2, tool_calls_first=promise)
    agent = ReactAgent(model, tools=[d1])

    assert [chunk.text for chunk in await chunks_of(agent)] == ["done"]
    assert (await agent.generate("q")).text == "done"


async def test_136_nothing_of_a_configuration_is_changed_by_making_agents_of_it() -> None:
    async def passing(made: ToolCall, next: Any) -> Any:
        return await next(made)

    tools, middlewares, names = [d1], [passing], {"d1"}
    node = ToolsNode([d1])
    for _ in range(2):
        agent = ReactAgent(ScriptedModel([calls(call("1", "d1"))]), tools=tools, middlewares=middlewares)
        ended = [
            e
            for e in (
                await events_of(ReactAgent(ScriptedModel([calls(call("1", "d1"))]), tools=node, return_directly=names))
            )
            if isinstance(e, ToolEnded)
        ]
        assert len(ended) == 1
        assert repr(agent) == "<agent 'agent'>"
    assert (tools, middlewares, names, node.infos) == ([d1], [passing], {"d1"}, (d1.info,))


async def test_137_events_tell_tools_as_they_end_and_the_history_as_they_were_called() -> None:
    fast_done = anyio.Event()

    @tool
    async def slow() -> str:
        await fast_done.wait()
        await anyio.wait_all_tasks_blocked()
        return "slow"

    @tool
    async def fast() -> str:
        fast_done.set()
        return "fast"

    agent = ReactAgent(ScriptedModel([calls(call("1", "slow"), call("2", "fast")), "done"] * 2), tools=[slow, fast])

    assert [e.result for e in await events_of(agent) if isinstance(e, ToolEnded)] == ["fast", "slow"]
    assert [m.text for m in (await agent.run("q")).messages if m.role == "tool"] == ["slow", "fast"]


async def test_139_an_agent_runs_as_often_as_one_likes_and_in_a_chain() -> None:
    from anabranch.compose import Chain

    first = ReactAgent(ScriptedModel(forever(Message.assistant("one"))))
    second = ReactAgent(ScriptedModel(hearing()))
    app = Chain[list[Message], Message]().append(first.graph).append(as_history).append(second.graph).compile()

    for _ in range(2):
        assert (await app.invoke([Message.user("q")])).text == "heard one"
        async with app.events([Message.user("q")]) as reader:
            events = [event async for event in reader]
        last = events[-1]
        assert isinstance(last, RunEnded)
        assert last.output.text == "heard one"


def as_history(message: Message) -> list[Message]:
    return [message]


def hear(messages: list[Message]) -> str:
    return f"heard {messages[-1].text}"


def hearing() -> Any:
    while True:
        yield hear


async def test_140_events_of_an_agent_inside_a_tool_are_events_of_the_run() -> None:
    inner = ReactAgent(ScriptedModel([calls(call("1", "d1"), text="look"), "inner"] * 2), tools=[d1])
    script: list[Any] = [calls(call("9", "expert", '{"request": "please"}')), "outer"] * 2
    outer = ReactAgent(ScriptedModel(script), tools=[inner.as_tool("expert", "Knows things.")])

    result = await outer.run("q")
    events = await events_of(outer)

    assert [m.text for m in result.messages] == ["q", "", "inner", "outer"]
    nested = [e for e in events if e.path.startswith("tools/0")]
    assert [e.delta.text for e in nested if isinstance(e, MessageDelta)] == ["look", "inner"]
    assert [e.result for e in nested if isinstance(e, ToolEnded)] == ["from d1"]
    assert [e.path for e in nested if isinstance(e, NodeStarted)] == ["tools/0/chat", "tools/0/tools", "tools/0/chat"]


async def test_142_a_stream_tool_that_fails_in_the_middle_fails_the_run_only_where_that_is_the_policy() -> None:
    @tool
    async def half() -> AsyncIterator[str]:
        yield "half"
        raise OSError("gone")

    script: list[Any] = [calls(call("1", "half")), "done"]
    told = ReactAgent(ScriptedModel(script * 2), tools=[half])
    assert (await told.generate("q")).text == "done"
    assert concat(await chunks_of(told)).text == "done"

    raising = ReactAgent(ScriptedModel([calls(call("1", "half"))] * 2), tools=ToolsNode([half], on_error="raise"))
    for attempt in (raising.generate("q"), chunks_of(raising)):
        with pytest.raises(ToolFailedError) as failed:
            await attempt
        assert failed.value.path == "tools"
        assert isinstance(failed.value.__cause__, OSError)


async def test_143_one_after_the_other_goes_on_after_a_failure() -> None:
    ran: list[str] = []

    @tool
    async def second() -> str:
        ran.append("second")
        return "2"

    node = ToolsNode([fails, second], sequential=True, on_error="raise")
    with pytest.raises(NodeError, match=r"tool 'fails' \(call '1'\) of node 'tools' failed: ValueError: no"):
        await ReactAgent(ScriptedModel([calls(call("1", "fails"), call("2", "second"))]), tools=node).generate("q")
    assert ran == ["second"]


async def test_145_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="two tools are called 'd1'"):
        ReactAgent(ScriptedModel([]), tools=[d1, d1])


async def test_a_model_that_promises_its_calls_first_streams_its_answer_at_once() -> None:
    go_on = anyio.Event()

    class Slow:
        tool_calls_first = True

        def with_tools(self, tools: Any, choice: Any = "auto") -> Slow:
            return self

        async def stream(self, messages: Sequence[Message], options: Any = None) -> AsyncIterator[Message]:
            if messages[-1].role == "user":
                yield calls(call("1", "d1"))
                return
            yield Message.assistant("an ")
            await go_on.wait()
            yield Message.assistant("answer")

    agent = ReactAgent(Slow(), tools=[d1])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    async with agent.stream("q") as reader:
        assert (await reader.receive()).text == "an "
        go_on.set()
        assert (await reader.receive()).text == "answer"


async def test_a_checker_of_ones_own_decides() -> None:
    async def only_marked(reader: StreamReader[Message]) -> bool:
        async for chunk in reader:
            if "go" in chunk.text:
                return True
        return False

    script: list[Any] = [[calls(call("1", "d1")), Message.assistant("go")], [Message.assistant("stay")]]
    agent = ReactAgent(ScriptedModel(script * 2), tools=[d1], tool_call_checker=only_marked)

    assert (await agent.generate("q")).text == "stay"
    assert concat(await chunks_of(agent)).text == "stay"
    plain = ReactAgent(ScriptedModel(["x"]), tool_call_checker=lambda reader: False)
    assert (await plain.generate("q")).text == "x"
