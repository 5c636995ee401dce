"""The ReAct agent when something goes wrong: tools, models, ids, and the limits of a run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from anabranch.compose import (
    END,
    START,
    Graph,
    NodeError,
    RunFailed,
    RunOptions,
    StateError,
    ToolsNode,
    current_state,
)
from anabranch.compose.testing import ScriptedModel
from anabranch.flow.models import MalformedResponse
from anabranch.flow.react import (
    AgentLimitExceeded,
    AgentState,
    ReactAgent,
    RoundLimitExceeded,
    TokenLimitExceeded,
    ToolCallLimitExceeded,
    set_return_directly,
)
from anabranch.schema import (
    ConcatError,
    Message,
    ReasoningPart,
    StreamReader,
    TextPart,
    ToolCall,
    Usage,
    check_history,
    concat,
    tool,
)

pytestmark = pytest.mark.anyio


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def calls(*given: tuple[str, str], text: str = "", usage: Usage | None = None) -> Message:
    made = [ToolCall(id=f"c{n}", name=name, arguments=arguments) for n, (name, arguments) in enumerate(given)]
    return Message.assistant(text, tool_calls=made, usage=usage)


ADD = ("add", '{"a": 2, "b": 3}')


def agent_of(*script: Any, **options: Any) -> tuple[ReactAgent, ScriptedModel]:
    model = ScriptedModel(script)
    settings: dict[str, Any] = {"tools": [add], **options}
    return ReactAgent(model, **settings), model


async def chunks_of(agent: ReactAgent, question: Any = "q", options: RunOptions | None = None) -> list[Message]:
    async with agent.stream(question, options) as reader:
        return [chunk async for chunk in reader]


# --- tools -----------------------------------------------------------------------------------------------------------


async def test_what_goes_wrong_with_a_call_is_told_to_the_model_and_the_run_goes_on() -> None:
    @tool
    async def fails() -> str:
        raise ValueError("no disk")

    agent, model = agent_of(
        calls(("fails", ""), ("add", '{"a": 1}'), ("nobody", ""), ("add", "{")), "sorry", tools=[fails, add]
    )

    assert (await agent.generate("q")).text == "sorry"
    told = model.calls[1][2:]
    assert all(message.is_error for message in told)
    assert [
        word in message.text
        for word, message in zip(("no disk", "b: is required", "no tool 'nobody'", "JSON"), told, strict=True)
    ] == [True] * 4


@pytest.mark.parametrize("whole", [True, False])
async def test_calls_without_ids_or_with_doubled_ones_get_ids_of_their_own(whole: bool) -> None:
    made = [ToolCall(id=i, name="add", arguments=f'{{"a": {n}, "b": 0}}') for n, i in enumerate(("x", "x", "", ""))]
    message = Message.assistant(tool_calls=made)
    agent, model = agent_of(*[message if whole else [message], "done"] * 2)

    result = await agent.run("q")
    await chunks_of(agent)

    assert check_history(result.messages) == []
    assert [m.text for m in result.messages[2:-1]] == ["0", "1", "2", "3"]
    assert model.calls[1] == model.calls[3]


async def test_a_call_that_the_token_limit_cut_off_is_reported_and_not_run() -> None:
    cut = Message.assistant(tool_calls=[ToolCall(id="1", name="add", arguments='{"a": 2')], finish_reason="length")
    agent, model = agent_of(cut, "sorry")

    assert (await agent.generate("q")).text == "sorry"
    assert "cut off by the token limit" in model.calls[1][-1].text


async def test_tools_see_and_may_change_the_history() -> None:
    @tool
    async def forget() -> str:
        async with current_state(AgentState) as state:
            state.messages[0] = Message.user("nothing")
            return f"{len(state.messages)} messages, round {state.rounds}"

    agent, model = agent_of(calls(("forget", "")), "done", tools=[forget])
    result = await agent.run("secret")

    assert result.messages[2].text == "2 messages, round 1"
    assert [m.text for m in model.calls[1]] == ["nothing", "", "2 messages, round 1"]


async def test_set_return_directly_outside_of_an_agent_is_an_error() -> None:
    @tool
    async def asks() -> str:
        set_return_directly()
        return "x"

    graph = Graph[Message, list[Message]]()
    graph.add_edge(START, graph.add_node("tools", ToolsNode([asks], on_error="raise")))
    graph.add_edge("tools", END)
    with pytest.raises(NodeError) as failed:
        await graph.compile().invoke(calls(("asks", "")))
    assert isinstance(failed.value.__cause__, StateError)


async def test_set_return_directly_reaches_the_innermost_agent() -> None:
    @tool
    async def asks() -> str:
        set_return_directly()
        return "direct"

    inner, _ = agent_of(calls(("asks", "")), tools=[asks])
    outer, model = agent_of(calls(("inner", '{"request": "x"}')), "outer", tools=[inner.as_tool("inner", "x")])

    assert (await outer.generate("q")).text == "outer"
    assert model.calls[1][-1].text == "direct"


# --- models that fail ------------------------------------------------------------------------------------------------


async def test_a_fallback_answers_when_the_model_fails_before_any_of_its_answer_is_out() -> None:
    main = ScriptedModel([OSError("down"), calls(ADD)] * 2)
    spare = ScriptedModel(["spare"] * 4)
    agent = ReactAgent(main, tools=[add], fallback=spare)

    assert (await agent.generate("q")).text == "spare"
    assert (
        concat(
            await chunks_of(ReactAgent(ScriptedModel([OSError()]), fallback=[ScriptedModel([OSError()]), spare]))
        ).text
        == "spare"
    )
    assert spare.calls[0].tools == (add.info,)


async def test_without_a_fallback_or_with_chunks_out_the_failure_has_its_node_and_cause() -> None:
    for agent in (
        agent_of(OSError("down"))[0],
        ReactAgent(ScriptedModel([OSError("down")]), fallback=ScriptedModel(["x"]), fallback_on=(KeyError,)),
    ):
        with pytest.raises(NodeError) as failed:
            await agent.generate("q")
        assert failed.value.path == "chat"
        assert isinstance(failed.value.__cause__, OSError)
    late = ReactAgent(ScriptedModel([[Message.assistant("a"), OSError("late")]]), fallback=ScriptedModel(["x"]))
    with pytest.raises(NodeError, match="late"):
        await chunks_of(late)


@pytest.mark.parametrize("way", ["content", "parts", "signature"])
async def test_what_is_no_answer_yet_does_not_stand_in_the_way_of_a_fallback(way: str) -> None:
    used = Usage(input_tokens=5, output_tokens=1)
    begin = Message.assistant(extra={"id": "failed"}, usage=used)
    empty: dict[str, Any] = {"parts": [TextPart("", index=0)], "signature": [ReasoningPart(signature="s", index=0)]}
    main = ScriptedModel([[begin, Message.assistant(empty.get(way, ""), usage=used), OSError("down")]])
    spare = ScriptedModel([[Message.assistant(extra={"id": "spare"}, usage=used), Message.assistant("yes")]])
    agent = ReactAgent(main, fallback=spare)

    whole = concat(await chunks_of(agent))

    assert (whole.text, whole.usage, whole.extra["id"]) == ("yes", used, "spare")


@pytest.mark.parametrize(
    "out",
    [Message.assistant("a"), Message.assistant([ReasoningPart("hm")]), calls(ADD)],
    ids=["content", "reasoning", "call"],
)
async def test_no_fallback_is_asked_when_some_of_the_answer_is_out(out: Message) -> None:
    spare = ScriptedModel(["x"])
    with pytest.raises(NodeError, match="late"):
        await chunks_of(ReactAgent(ScriptedModel([[out, OSError("late")]]), tools=[add], fallback=spare))
    assert spare.calls == []


async def test_an_answer_without_content_comes_out_although_there_is_a_fallback() -> None:
    nothing = Message.assistant(extra={"id": "1"}, finish_reason="stop")
    (chunk,) = await chunks_of(ReactAgent(ScriptedModel([[nothing]]), fallback=ScriptedModel(["x"])))
    assert (chunk.text, chunk.finish_reason) == ("", "stop")


CONTRADICTORY = [
    Message.assistant(tool_calls=[ToolCall(index=0, id="a", name="add", arguments="{")]),
    Message.assistant(tool_calls=[ToolCall(index=0, id="a", name="other", arguments="}")]),
]


class Streams:
    """A model that only streams."""

    def __init__(self, chunks: list[Message]) -> None:
        self.chunks = chunks

    def with_tools(self, tools: Any, choice: Any = "auto") -> Streams:
        return self

    async def stream(self, messages: Any, options: Any = None) -> AsyncGenerator[Message, None]:
        for chunk in self.chunks:
            yield chunk


@pytest.mark.parametrize("chunks", [CONTRADICTORY, []], ids=["contradictory", "none"])
async def test_pieces_that_make_no_answer_are_the_models_failure(chunks: list[Message]) -> None:
    model: Any = Streams(chunks)
    agent = ReactAgent(model, tools=[add])
    for way in ("generate", "stream"):
        with pytest.raises(NodeError) as failed:
            await (agent.generate("q") if way == "generate" else chunks_of(agent))
        error = failed.value.__cause__
        assert isinstance(error, MalformedResponse)
        assert error.retryable
        assert isinstance(error.__cause__, ConcatError)
    assert (await ReactAgent(model, tools=[add], fallback=ScriptedModel(["spare"])).generate("q")).text == "spare"


async def test_the_same_model_as_fallback_is_asked_again() -> None:
    for way in ("generate", "stream"):
        model = ScriptedModel([OSError("once"), "better"])
        agent = ReactAgent(model, fallback=model)
        answer = await agent.generate("q") if way == "generate" else concat(await chunks_of(agent))
        assert answer.text == "better"


@pytest.mark.parametrize("fallback", [None, [None]])
def test_none_is_no_fallback(fallback: Any) -> None:
    with pytest.raises(TypeError, match="leave it out"):
        ReactAgent(ScriptedModel(["x"]), fallback=fallback)


async def test_a_failing_run_ends_its_events_with_the_failure() -> None:
    agent, _ = agent_of(OSError("down"))
    seen: list[Any] = []

    async def watch(reader: StreamReader[Any]) -> None:
        async for event in reader:
            seen.append(event)

    async with agent.events("q") as reader:
        with pytest.raises(NodeError):
            await watch(reader)
    assert isinstance(seen[-1], RunFailed)


# --- limits ----------------------------------------------------------------------------------------------------------


async def test_each_limit_has_an_error_of_its_own_with_a_history_to_go_on_from() -> None:
    use = Usage(input_tokens=5, output_tokens=5)
    script = [calls(ADD, ADD, usage=use)] * 9
    limits: list[tuple[dict[str, int], type[AgentLimitExceeded], int]] = [
        ({"max_rounds": 2}, RoundLimitExceeded, 2),
        ({"max_tokens": 20}, TokenLimitExceeded, 2),
        ({"max_tokens": 21}, TokenLimitExceeded, 3),
        ({"max_tool_calls": 3}, ToolCallLimitExceeded, 2),
        ({"max_tool_calls": 0}, ToolCallLimitExceeded, 1),
    ]
    for options, error, rounds in limits:
        for way in ("generate", "stream"):
            agent, model = agent_of(*script, **options)
            with pytest.raises(error) as failed:
                await (agent.generate("q") if way == "generate" else chunks_of(agent))
            assert len(model.calls) == rounds
            assert failed.value.limit == next(iter(options.values()))
            assert check_history(failed.value.messages) == []
            assert len(failed.value.messages) == 1 + 3 * rounds
            again, _ = agent_of("went on")
            assert (await again.generate(failed.value.messages)).text == "went on"


async def test_limits_that_are_kept_do_not_show() -> None:
    agent, _ = agent_of(calls(ADD), calls(ADD), "5", max_rounds=3, max_tool_calls=2, max_tokens=1)

    assert (await agent.generate("q")).text == "5"


async def test_limits_can_be_pickled() -> None:
    import pickle

    agent, _ = agent_of(calls(ADD), max_rounds=1)
    with pytest.raises(RoundLimitExceeded) as failed:
        await agent.generate("q")
    copy = pickle.loads(pickle.dumps(failed.value))
    assert (copy.limit, copy.messages, str(copy)) == (1, failed.value.messages, str(failed.value))
