"""The ReAct agent: what it is asked, what its model sees, what it keeps, its limits, its place in a graph."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from anabranch.compose import (
    END,
    START,
    Graph,
    MessageDelta,
    NodeStarted,
    RunEnded,
    RunOptions,
    ToolsOptions,
    current_context,
)
from anabranch.compose.testing import ScriptedModel
from anabranch.flow.react import (
    ReactAgent,
    RoundLimitExceeded,
)
from anabranch.schema import (
    Message,
    ModelOptions,
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


# --- questions and answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "history"),
    [
        ("hi", [Message.user("hi")]),
        (Message.user("hi"), [Message.user("hi")]),
        ([Message.system("s"), Message.user("hi")], [Message.system("s"), Message.user("hi")]),
        ((Message.user("hi"),), [Message.user("hi")]),
    ],
)
async def test_it_is_asked_a_text_a_message_or_a_history(question: Any, history: list[Message]) -> None:
    agent, model = agent_of("hello", "hello")

    assert (await agent.generate(question)).text == "hello"
    assert concat(await chunks_of(agent, question)).text == "hello"
    assert model.calls == [history, history]


async def test_what_is_no_question_is_refused() -> None:
    agent, _ = agent_of("hello")

    with pytest.raises(TypeError, match="a text, a Message or a list of messages, got int"):
        await agent.generate([1])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]


async def test_the_answer_streams_and_the_whole_is_what_generate_gives() -> None:
    script = [calls(ADD), [Message.assistant("It "), Message.assistant("is 5.")]]
    agent, model = agent_of(*script * 2)

    chunks = await chunks_of(agent)

    assert [chunk.text for chunk in chunks] == ["It ", "is 5."]
    assert await agent.generate("q") == concat(chunks)
    assert model.calls[1][-1] == Message.tool("5", tool_call_id="c0", name="add")


async def test_run_gives_the_history_with_the_final_answer_and_the_usage_of_the_run() -> None:
    agent, _ = agent_of(
        calls(ADD, usage=Usage(input_tokens=10, output_tokens=1)),
        [Message.assistant("5"), Message.assistant("", usage=Usage(input_tokens=20, output_tokens=2))],
    )
    before = Message.assistant("earlier", usage=Usage(input_tokens=1000))

    result = await agent.run([Message.user("a"), before, Message.user("b")])

    assert [m.text for m in result.messages] == ["a", "earlier", "b", "", "5", "5"]
    assert result.messages[-1] is result.message
    assert (result.text, result.rounds, result.output) == ("5", 2, None)
    assert result.usage == Usage(input_tokens=30, output_tokens=3)


async def test_a_run_inside_of_a_run_keeps_its_own_history() -> None:
    inner, _ = agent_of("inner")
    kept: list[Any] = []

    @tool
    async def ask() -> str:
        kept.append(await inner.run("inside"))
        return str(kept[0].text)

    outer, _ = agent_of(calls(("ask", "")), "outer", tools=[ask])
    result = await outer.run("outside")

    assert [m.text for m in result.messages] == ["outside", "", "inner", "outer"]
    assert [m.text for m in kept[0].messages] == ["inside", "inner"]


def test_it_works_from_code_without_await() -> None:
    agent, _ = agent_of(calls(ADD), "5", calls(ADD), [Message.assistant("5"), Message.assistant("!")])

    assert agent.generate_sync("q").text == "5"
    with agent.stream_sync("q") as chunks:
        assert [chunk.text for chunk in chunks] == ["5", "!"]


async def test_events_begin_with_the_run_and_end_with_its_answer() -> None:
    agent, _ = agent_of(calls(ADD, text="hm"), "5")

    async with agent.events("q") as reader:
        events = [event async for event in reader]

    assert [e.path for e in events if isinstance(e, NodeStarted)] == ["chat", "tools", "chat"]
    assert [e.delta.text for e in events if isinstance(e, MessageDelta)] == ["hm", "5"]
    last = events[-1]
    assert isinstance(last, RunEnded)
    assert last.output == Message.assistant("5")
    assert [event.sequence for event in events] == list(range(len(events)))


async def test_a_broken_history_is_mended_before_a_model_sees_it() -> None:
    dangling = [Message.user("a"), calls(ADD), Message.user("never mind")]
    agent, model = agent_of("fine", "fine")

    result = await agent.run(dangling)
    await chunks_of(agent, dangling)

    assert [check_history(asked) for asked in model.calls] == [[], []]
    assert model.calls[0] == model.calls[1]
    assert check_history(result.messages) == []
    assert len(dangling) == 3


# --- what the model sees ---------------------------------------------------------------------------------------------


async def test_the_system_prompt_goes_in_front_unless_the_history_has_one() -> None:
    agent, model = agent_of(calls(ADD), "5", "own", system_prompt="Be good.")

    result = await agent.run("q")
    await agent.run([Message.system("Be bad."), Message.user("q")])

    assert [asked[0].text for asked in model.calls] == ["Be good.", "Be good.", "Be bad."]
    assert len(model.calls[2]) == 2
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "assistant"]


async def test_a_system_prompt_may_be_made_anew_for_each_call_and_know_for_whom() -> None:
    @dataclass
    class User:
        name: str

    async def prompt(history: list[Message]) -> str:
        history.clear()
        return f"You serve {current_context(User).name}."

    agent, model = agent_of(calls(ADD), "5", system_prompt=prompt)
    result = await agent.run("q", RunOptions(context=User("Ada")))

    assert [asked[0] for asked in model.calls] == [Message.system("You serve Ada.")] * 2
    assert len(result.messages) == 4

    def counting(history: list[Message]) -> Message:
        return Message.system(f"{len(history)} messages")

    made, model = agent_of("x", system_prompt=counting)
    await made.generate("q")
    assert model.calls[0][0].text == "1 messages"
    with pytest.raises(ValueError, match="of role 'user'"):
        agent_of("x", system_prompt=Message.user("no"))


async def test_a_rewriter_changes_the_history_and_a_modifier_only_what_is_seen() -> None:
    def rewrite(messages: list[Message]) -> list[Message]:
        return [*messages, Message.user(f"kept {len(messages)}")]

    async def modify(messages: list[Message]) -> list[Message]:
        return [*messages, Message.user(f"seen {len(messages)}")]

    agent, model = agent_of(calls(ADD), "5", message_rewriter=rewrite, message_modifier=modify)
    result = await agent.run("q")

    assert [m.text for m in model.calls[0]] == ["q", "kept 1", "seen 2"]
    assert [m.text for m in model.calls[1]] == ["q", "kept 1", "", "5", "kept 4", "seen 5"]
    assert [m.text for m in result.messages] == ["q", "kept 1", "", "5", "kept 4", "5"]


def last_two(messages: list[Message]) -> list[Message]:
    return messages[-2:]


async def test_a_history_that_was_cut_anywhere_still_reaches_the_model_whole() -> None:
    """A shortened history must not begin with the answer to a call that is gone."""
    agent, model = agent_of(calls(ADD), calls(ADD), "5", system_prompt="s", message_rewriter=last_two)
    modified, seen = agent_of(calls(ADD), calls(ADD), "5", system_prompt="s", message_modifier=last_two)

    result = await agent.run("q")
    await modified.run("q")

    for asked in [*model.calls, *seen.calls]:
        assert asked[0].text == "s"
        assert check_history(asked) == []
    assert check_history(result.messages) == []


async def test_model_options_and_tool_lists_may_be_others_for_one_run() -> None:
    @tool
    async def other() -> str:
        return "other"

    agent, model = agent_of(calls(("other", "")), "done", calls(("other", "")), "done")
    options = RunOptions(at={"chat": ModelOptions(temperature=0), "tools": ToolsOptions(tools=[other])})

    result = await agent.run("q", options)
    plain = await agent.run("q")

    assert [m.text for m in result.messages if m.role == "tool"] == ["other"]
    assert [m.is_error for m in plain.messages if m.role == "tool"] == [True]
    assert [[info.name for info in asked.tools] for asked in model.calls] == [["other"]] * 2 + [["add"]] * 2
    assert [asked.options.temperature for asked in model.calls] == [0, 0, None, None]


async def test_without_tools_the_model_is_used_as_it_is() -> None:
    class Bare:
        async def generate(self, messages: Sequence[Message], options: Any = None) -> Message:
            return Message.assistant(f"{len(messages)}")

    agent = ReactAgent(Bare())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    assert (await agent.generate("q")).text == "1"
    assert concat(await chunks_of(agent)).text == "1"


async def test_a_model_may_only_stream() -> None:
    class OnlyStreams:
        def with_tools(self, tools: Any, choice: Any = "auto") -> OnlyStreams:
            return self

        async def stream(self, messages: Sequence[Message], options: Any = None) -> AsyncIterator[Message]:
            yield Message.assistant("a")
            yield Message.assistant("b")

    agent = ReactAgent(OnlyStreams(), tools=[add])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    assert (await agent.generate("q")).text == "ab"
    assert len(await chunks_of(agent)) == 2


# --- in a graph ------------------------------------------------------------------------------------------------------


def ask(text: str) -> list[Message]:
    return [Message.user(text)]


def read(message: Message) -> str:
    return message.text


def nested(inner: Any) -> Any:
    graph = Graph[str, str]()
    graph.add_node("ask", ask)
    graph.add_node("agent", inner)
    graph.add_node("read", read)
    for source, target in ((START, "ask"), ("ask", "agent"), ("agent", "read"), ("read", END)):
        graph.add_edge(source, target)
    return graph.compile()


async def test_it_nests_as_a_builder_and_as_itself() -> None:
    agent, model = agent_of(*[calls(ADD), [Message.assistant("It is "), Message.assistant("5.")]] * 4)

    for inner in (agent.graph, agent):
        app = nested(inner)
        assert await app.invoke("q") == "It is 5."
        async with app.stream("q", RunOptions(at={"agent/chat": ModelOptions(seed=1)})) as reader:
            assert await reader.concat() == "It is 5."
    assert [asked.options.seed for asked in model.calls] == [None, None, 1, 1] * 2


async def test_a_nested_agents_limit_says_where_it_was() -> None:
    agent, _ = agent_of(calls(ADD), calls(ADD), max_rounds=2)

    with pytest.raises(RoundLimitExceeded) as failed:
        await nested(agent.graph).invoke("q")
    assert failed.value.path == "agent/chat"


async def test_its_nodes_are_those_that_options_and_drawings_name() -> None:
    agent, _ = agent_of()

    assert [node.key for node in agent.runnable.plan.nodes[:-2]] == ["chat", "tools", "direct_return"]


async def test_two_hundred_agents_at_once_do_not_see_each_other() -> None:
    @tool
    async def echo(text: str) -> str:
        await anyio.lowlevel.checkpoint()
        return text

    agent = ReactAgent(ScriptedModel(echoing()), tools=[echo])
    answers: dict[int, str] = {}

    async def ask(number: int) -> None:
        answers[number] = (await agent.generate(f"n{number}")).text

    async with anyio.create_task_group() as group:
        for number in range(200):
            group.start_soon(ask, number)
    assert answers == {number: f"n{number}" for number in range(200)}


def echoing() -> Iterator[Any]:
    def answer(messages: list[Message]) -> Message:
        last = messages[-1]
        return Message.assistant(last.text) if last.role == "tool" else calls(("echo", f'{{"text": "{last.text}"}}'))

    while True:
        yield answer
