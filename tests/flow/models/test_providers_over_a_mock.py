"""The adapters against a mock of the providers that others wrote, over real HTTP."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest

from anabranch.flow.models import (
    AnthropicChat,
    ContextTooLong,
    ModelError,
    OpenAIChat,
    OpenAIResponses,
    RateLimited,
    Unavailable,
)
from anabranch.flow.react import ReactAgent
from anabranch.schema import Message, MessageParser, ReasoningPart, check_history, concat, tool

KINDS = [OpenAIChat, OpenAIResponses, AnthropicChat]
Model = OpenAIChat | OpenAIResponses | AnthropicChat

pytestmark = [pytest.mark.anyio, pytest.mark.once, pytest.mark.parametrize("kind", KINDS)]


@tool
def weather(city: str, unit: str = "c") -> str:
    """Tell the weather.

    Args:
        city: Where.
        unit: c or f.
    """
    return f"mild in {city}"


async def both(model: Any, *history: Message) -> list[Message]:
    """Ask for a message and for a stream."""
    async with aclosing(model.stream(history)) as stream:
        streamed = concat([chunk async for chunk in stream])
    return [await model.generate(history), streamed]


async def test_a_text_comes_whole_and_streamed_with_its_cost(mock: Any, kind: type[Model]) -> None:
    async with mock.model(kind) as model:
        for message in await both(model, Message.user("say hello")):
            assert message.text == "Hello, and welcome to the river."
            assert message.finish_reason == "stop"
            assert message.usage is not None
            assert (message.usage.input_tokens, message.usage.output_tokens) == (5, 7)
            assert message.extra["model"] == "mock-model"
            assert message.extra["id"]
            assert message.extra["request_id"].startswith("req")


async def test_a_text_is_streamed_in_pieces(mock: Any, kind: type[Model]) -> None:
    async with mock.model(kind) as model, aclosing(model.stream([Message.user("say hello")])) as stream:
        pieces = [chunk.text async for chunk in stream if chunk.text]
    assert pieces == ["Hello, ", "and wel", "come to", " the ri", "ver."]


async def test_calls_are_put_together_each_with_its_own_arguments(mock: Any, kind: type[Model]) -> None:
    async with mock.model(kind) as model:
        for message in await both(model.with_tools([weather.info]), Message.user("two cities")):
            calls = [(call.id, call.name, weather.validate(call.arguments)) for call in message.tool_calls]
            assert calls == [
                ("call_1", "weather", {"city": "Paris", "unit": "c"}),
                ("call_2", "weather", {"city": "Oslo", "unit": "c"}),
            ]
            assert message.finish_reason == "tool_calls"


async def test_reasoning_comes_before_the_answer(mock: Any, kind: type[Model]) -> None:
    async with mock.model(kind) as model:
        for message in await both(model, Message.user("think hard")):
            assert message.reasoning == "Six times seven is forty-two."
            assert message.text == "42"
            assert isinstance(message.parts[0], ReasoningPart)
            if kind is AnthropicChat:
                assert message.parts[0].signature == "c2VhbA=="


async def test_an_answer_that_is_cut_short_says_so(mock: Any, kind: type[Model]) -> None:
    async with mock.model(kind) as model:
        for message in await both(model, Message.user("cut short")):
            assert message.finish_reason == "length"


@pytest.mark.parametrize(
    ("question", "error", "status"),
    [("too many", RateLimited, 429), ("too long", ContextTooLong, 400), ("broken down", Unavailable, 500)],
)
async def test_errors_are_told_apart_and_keep_the_original(
    mock: Any, kind: type[Model], question: str, error: type[ModelError], status: int
) -> None:
    async with mock.model(kind) as model:
        for work in (model.generate([Message.user(question)]), first_of(model, question)):
            with pytest.raises(error) as caught:
                await work
            assert type(caught.value) is error
            assert caught.value.status == status
            assert caught.value.request_id is not None
            assert type(caught.value.__cause__).__module__.split(".")[0] == model.provider
            assert caught.value.retry_after == (1.0 if error is RateLimited else None)


async def first_of(model: Any, question: str) -> Message:
    async with aclosing(model.stream([Message.user(question)])) as stream:
        return await anext(stream)


async def test_an_agent_calls_tools_and_answers(mock: Any, kind: type[Model]) -> None:
    async with mock.model(kind) as model:
        agent = ReactAgent(model, tools=[weather], system_prompt="You know the weather.")
        for question, answer in [("two cities", "Paris is warmer than Oslo."), ("talk first", "Rome is sunny.")]:
            result = await agent.run(question)
            assert result.text == answer
            assert check_history(result.messages) == []
            async with agent.stream(question) as reader:
                assert (await reader.concat()).text == answer


async def test_an_agent_gives_the_provider_what_its_tools_said(mock: Any, kind: type[Model]) -> None:
    async with mock.model(kind) as model:
        await ReactAgent(model, tools=[weather]).generate("two cities")
    asked = mock.journal()[-1]["body"]  # written in the shape of chat completions, whatever the protocol
    answers = [message for message in asked["messages"] if message["role"] == "tool"]
    assert [(answer["tool_call_id"], answer["content"]) for answer in answers] == [
        ("call_1", "mild in Paris"),
        ("call_2", "mild in Oslo"),
    ]


async def test_thoughts_survive_a_conversation(mock: Any, kind: type[Model]) -> None:
    async with mock.model(kind) as model:
        thought = await model.generate([Message.user("think hard")])
        history = [Message.user("think hard"), thought, Message.user("say hello")]
        assert (await model.generate(history)).text == "Hello, and welcome to the river."


async def test_an_answer_can_be_held_to_a_shape(mock: Any, kind: type[Model]) -> None:
    async with mock.model(kind) as model:
        answer = await model.with_output(dict[str, str | int], strict=False).generate([Message.user("answer as json")])
    assert MessageParser(dict[str, str | int])(answer) == {"city": "Husum", "metres": 4}
