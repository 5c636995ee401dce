"""``ScriptedModel``: it says what the script says, and keeps what it was asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch.compose import END, START, Graph, RunOptions
from anabranch.compose.testing import ScriptedModel, ScriptEntry
from anabranch.schema import ChatModel, Message, ModelOptions, ToolInfo

pytestmark = pytest.mark.anyio

HELLO = [Message.user("hello")]


async def test_each_entry_answers_one_call_whole_or_in_chunks() -> None:
    script: list[ScriptEntry] = ["a", Message.assistant("b"), [Message.assistant("c"), Message.assistant("d")]]
    whole, streamed = ScriptedModel(script), ScriptedModel(script)

    assert [(await whole.generate(HELLO)).text for _ in script] == ["a", "b", "cd"]
    assert [[chunk.text async for chunk in streamed.stream(HELLO)] for _ in script] == [["a"], ["b"], ["c", "d"]]


async def test_an_exception_is_raised_where_it_stands() -> None:
    model = ScriptedModel([ValueError("one"), KeyError, [Message.assistant("a"), OSError("late")]])

    with pytest.raises(ValueError, match="one"):
        await model.generate(HELLO)
    with pytest.raises(KeyError):
        await anext(aiter(model.stream(HELLO)))
    stream = model.stream(HELLO)
    assert (await anext(aiter(stream))).text == "a"
    with pytest.raises(OSError, match="late"):
        await anext(aiter(stream))


async def test_a_function_answers_by_what_it_is_asked() -> None:
    model = ScriptedModel([lambda messages: f"{len(messages)} message(s)"])

    assert (await model.generate(HELLO)).text == "1 message(s)"


async def test_a_script_may_be_endless_and_a_finite_one_ends_with_a_clear_error() -> None:
    def forever() -> Iterator[str]:
        while True:
            yield "again"

    endless, short = ScriptedModel(forever()), ScriptedModel(["only"])

    assert [(await endless.generate(HELLO)).text for _ in range(3)] == ["again"] * 3
    await short.generate(HELLO)
    with pytest.raises(AssertionError, match="asked 2 times"):
        await short.generate(HELLO)


async def test_calls_keep_what_was_asked_also_by_models_with_tools() -> None:
    model = ScriptedModel(["a", "b"])
    info = ToolInfo(name="now")
    bound = model.with_tools([info], "required")
    messages = list(HELLO)

    await bound.generate(messages, ModelOptions(temperature=0))
    messages.append(Message.user("changed afterwards"))
    await model.generate(messages)

    assert model.calls == [HELLO, messages]
    assert (model.calls[0].tools, model.calls[0].choice) == ((info,), "required")
    assert model.calls[0].options.temperature == 0
    assert model.calls[1].tools == ()
    assert model.calls[1].messages == messages


async def test_it_is_a_chat_model_and_takes_options_as_a_node() -> None:
    model = ScriptedModel(["hi"])
    graph = Graph[list[Message], Message]()
    graph.add_edge(START, graph.add_node("chat", model))
    graph.add_edge("chat", END)

    assert isinstance(model, ChatModel)
    answer = await graph.compile().invoke(HELLO, RunOptions(at={"chat": ModelOptions(seed=7)}))

    assert answer.text == "hi"
    assert model.calls[0].options.seed == 7
