"""OpenAI's chat completions, and what servers that speak the same make of them, as recorded streams."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest

from anabranch.flow.models import MalformedResponse, ModelError, OpenAIChat, RateLimited
from anabranch.schema import (
    AudioPart,
    Message,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    Usage,
)

pytestmark = pytest.mark.anyio

HI = [Message.user("hi")]


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice], **more}


def fragment(index: int | None = None, id: str | None = None, name: str | None = None, arguments: Any = None) -> Any:
    """Write a fragment of a tool call with just the fields that are given."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    call = {"index": index, "id": id, "type": "function" if id else None, "function": function}
    return {key: value for key, value in call.items() if value is not None}


def calls(*fragments: Any) -> dict[str, Any]:
    return chunk({"tool_calls": list(fragments)})


async def streamed(serve: Any, *events: Any, **settings: Any) -> Message:
    """Let a server stream these events, and give the message that they make."""
    async with serve([*events, "[DONE]"]) as wire:
        message: Message = await wire.streamed(OpenAIChat, **settings)
        return message


END = chunk({}, "tool_calls")
PARIS, OSLO = '{"city": "Paris"}', '{"city": "Oslo"}'
BOTH = [("a", "weather", PARIS), ("b", "weather", OSLO)]

FRAGMENTS: dict[str, list[Any]] = {
    "by index, head first": [
        calls(fragment(0, "a", "weather", "")),
        calls(fragment(0, arguments='{"city": ')),
        calls(fragment(0, arguments='"Paris"}')),
        calls(fragment(1, "b", "weather", "")),
        calls(fragment(1, arguments=OSLO)),
    ],
    "interleaved": [
        calls(fragment(0, "a", "weather", '{"ci'), fragment(1, "b", "weather", '{"city"')),
        calls(fragment(1, arguments=': "Oslo"}'), fragment(0, arguments='ty": "Paris"}')),
    ],
    "whole calls in one chunk": [calls(fragment(0, "a", "weather", PARIS), fragment(1, "b", "weather", OSLO))],
    "a whole call in each chunk, without index": [
        calls(fragment(None, "a", "weather", PARIS)),
        calls(fragment(None, "b", "weather", OSLO)),
    ],
    "without index, continued by nothing at all": [
        calls(fragment(None, "a", "weather", "")),
        calls(fragment(arguments=PARIS)),
        calls(fragment(None, "b", "weather", "")),
        calls(fragment(arguments=OSLO)),
    ],
    "without index, continued by id": [
        calls(fragment(None, "a", "weather", '{"city":')),
        calls(fragment(None, "a", arguments=' "Paris"}')),
        calls(fragment(None, "b", "weather", '{"city":')),
        calls(fragment(None, "b", arguments=' "Oslo"}')),
    ],
    "one index for two calls": [
        calls(fragment(0, "a", "weather", PARIS)),
        calls(fragment(0, "b", "weather", OSLO)),
    ],
    "a fresh id with every fragment": [
        calls(fragment(0, "a", "weather", "")),
        calls(fragment(0, "a2", arguments=PARIS)),
        calls(fragment(1, "b", "weather", "")),
        calls(fragment(1, "b2", arguments=OSLO)),
    ],
    "name and id said again": [
        calls(fragment(0, "a", "weather", '{"city"')),
        calls(fragment(0, "a", "weather", ': "Paris"}')),
        calls(fragment(1, "b", "weather", '{"city"')),
        calls(fragment(1, "b", "weather", ': "Oslo"}')),
    ],
    "nulls where nothing is said": [
        chunk({"role": "assistant", "content": None, "tool_calls": None}),
        calls({"index": 0, "id": "a", "type": "function", "function": {"name": "weather", "arguments": None}}),
        calls({"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": PARIS}}),
        calls({"index": 1, "id": "b", "function": {"name": "weather", "arguments": OSLO}}),
    ],
    "arguments as objects": [
        calls(fragment(0, "a", "weather", {"city": "Paris"})),
        calls(fragment(1, "b", "weather", {"city": "Oslo"})),
    ],
}


@pytest.mark.parametrize("events", FRAGMENTS.values(), ids=FRAGMENTS)
async def test_fragments_of_every_shape_make_the_same_calls(serve: Any, events: list[Any]) -> None:
    message = await streamed(serve, *events, END)
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == BOTH
    assert message.finish_reason == "tool_calls"


async def test_a_call_without_index_and_id_is_a_call(serve: Any) -> None:
    message = await streamed(serve, calls(fragment(name="weather", arguments=PARIS)), chunk({}, "stop"))
    assert message.tool_calls == (ToolCall(name="weather", arguments=PARIS),)


async def test_a_message_with_calls_ends_with_calls_whatever_the_server_says(serve: Any) -> None:
    message = await streamed(serve, calls(fragment(0, "a", "weather", PARIS)), chunk({}, "stop"))
    assert message.finish_reason == "tool_calls"
    assert message.extra["finish_reason"] == "stop"


async def test_a_call_that_is_cut_off_is_told_as_such(serve: Any) -> None:
    message = await streamed(serve, calls(fragment(0, "a", "weather", '{"ci')), chunk({}, "length"))
    assert message.finish_reason == "length"
    assert message.tool_calls[0].arguments == '{"ci'


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("function_call", "tool_calls"),
        ("max_tokens", "length"),
        ("eos", "stop"),
        ("insufficient_system_resource", "insufficient_system_resource"),
    ],
)
async def test_finish_reasons_are_ours_where_there_is_one(serve: Any, word: str, reason: str) -> None:
    message = await streamed(serve, chunk({"content": "x"}), chunk({}, word))
    assert message.finish_reason == reason
    assert message.extra.get("finish_reason") == (None if word == reason else word)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_goes_back_under_its_name_until_the_turn_is_over(serve: Any, field: str) -> None:
    message = await streamed(
        serve,
        chunk({"role": "assistant", "content": None, field: "I need "}),
        chunk({field: "the weather."}),
        calls(fragment(0, "a", "weather", PARIS)),
        END,
    )
    assert message.reasoning == "I need the weather."
    turn = [*HI, message, Message.tool("mild", tool_call_id="a")]
    assert (await asked(serve, turn))["messages"][1][field] == "I need the weather."
    later = [*turn, Message.assistant("It is mild."), Message.user("And tomorrow?")]
    assert field not in (await asked(serve, later))["messages"][1]


async def test_the_same_thought_under_both_names_is_one(serve: Any) -> None:
    message = await streamed(serve, chunk({"reasoning": "Hm.", "reasoning_content": "Hm."}), chunk({}, "stop"))
    assert message.reasoning == "Hm."


async def test_content_may_come_as_blocks(serve: Any) -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    block = {"type": "reference", "reference_ids": [1]}
    message = await streamed(
        serve, chunk({"content": [thinking, {"type": "text", "text": "42"}, block]}), chunk({}, "stop")
    )
    assert (message.reasoning, message.text) == ("Hm.", "42")
    assert message.parts[-1] == ProviderPart(provider="openai", type="reference", data={"reference_ids": [1]})


async def test_a_refusal_is_text_that_is_marked_and_goes_back_as_one(serve: Any) -> None:
    message = await streamed(serve, chunk({"refusal": "I can"}), chunk({"refusal": "not."}), chunk({}, "stop"))
    assert message.text == "I cannot."
    assert message.finish_reason == "content_filter"
    assert message.parts[0].extra["refusal"] is True
    sent = (await asked(serve, [*HI, message]))["messages"][1]
    assert sent["content"] == [{"type": "refusal", "refusal": "I cannot."}]


async def test_sound_comes_with_its_words_and_goes_back_by_its_id(serve: Any) -> None:
    message = await streamed(
        serve,
        chunk({"audio": {"id": "audio_1", "transcript": "Hel"}}),
        chunk({"audio": {"data": "aGk=", "transcript": "lo"}}),
        chunk({"audio": {"data": "aG8=", "expires_at": 1700000000}}),
        chunk({}, "stop"),
    )
    sound = next(part for part in message.parts if isinstance(part, AudioPart))
    assert (sound.to_bytes(), message.text) == (b"hiho", "Hello")
    sent = (await asked(serve, [*HI, message]))["messages"][1]
    assert sent == {"role": "assistant", "content": "", "audio": {"id": "audio_1"}}


async def test_what_a_provider_hangs_on_a_call_goes_back_with_it(serve: Any) -> None:
    seal = {"google": {"thought_signature": "c2VhbA=="}}
    call = {**fragment(0, "a", "weather", PARIS), "extra_content": seal}
    message = await streamed(serve, calls(call), END)
    sent = (await asked(serve, [*HI, message, Message.tool("mild", tool_call_id="a")]))["messages"][1]
    assert sent["tool_calls"][0]["extra_content"] == seal


async def test_calls_of_another_kind_survive_a_round_trip(serve: Any) -> None:
    call = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "run", "input": "ls"}}
    message = await streamed(serve, calls(call), END)
    assert message.tool_calls == ()
    assert isinstance(message.parts[0], ProviderPart)
    sent = (await asked(serve, [*HI, message]))["messages"][1]
    assert sent["tool_calls"] == [{"id": "c", "type": "custom", "custom": {"name": "run", "input": "ls"}}]


COSTS: dict[str, tuple[list[Any], Usage]] = {
    "in a last chunk without choices": (
        [
            chunk({"content": "x"}, "stop", usage=None),
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 100,
                    "completion_tokens": 20,
                    "total_tokens": 120,
                    "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 3},
                    "completion_tokens_details": {"reasoning_tokens": 8, "accepted_prediction_tokens": 0},
                },
            },
        ],
        Usage(
            input_tokens=100,
            output_tokens=20,
            cached_tokens=64,
            reasoning_tokens=8,
            details={"prompt_tokens_details.audio_tokens": 3},
        ),
    ),
    "with every chunk so far": (
        [
            chunk({"content": "x"}, usage={"prompt_tokens": 9, "completion_tokens": 1}),
            chunk({}, "stop", usage={"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}),
        ],
        Usage(input_tokens=9, output_tokens=2, cached_tokens=4),
    ),
    "within the choice": (
        [
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {"content": "x"},
                        "finish_reason": "stop",
                        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4},
                    }
                ]
            }
        ],
        Usage(input_tokens=9, output_tokens=2, cached_tokens=4),
    ),
}


@pytest.mark.parametrize(("events", "usage"), COSTS.values(), ids=COSTS)
async def test_the_cost_is_read_wherever_it_stands(serve: Any, events: list[Any], usage: Usage) -> None:
    assert (await streamed(serve, *events)).usage == usage


async def test_likelihoods_and_citations_are_kept(serve: Any) -> None:
    first = chunk({"content": "a"})
    first["choices"][0]["logprobs"] = {"content": [{"token": "a", "logprob": -0.1}]}
    second = chunk({"content": "b", "annotations": [{"type": "url_citation"}]}, "stop")
    second["choices"][0]["logprobs"] = {"content": [{"token": "b", "logprob": -0.2}]}
    message = await streamed(serve, first, second)
    assert [entry["token"] for entry in message.extra["logprobs"]] == ["a", "b"]
    assert message.extra["annotations"] == [{"type": "url_citation"}]


async def test_chunks_that_say_nothing_and_other_choices_are_passed_over(serve: Any) -> None:
    other = chunk({"content": "no"})
    other["choices"][0]["index"] = 1
    azure = {"id": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    message = await streamed(serve, azure, chunk(None), other, chunk({"content": "yes"}), chunk({}, "stop"))
    assert message.text == "yes"
    assert message.extra == {"id": "chatcmpl-1", "model": "m-1"}


async def test_a_server_that_does_not_stream_is_read_all_the_same(serve: Any) -> None:
    async with serve(whole({"content": "hello"})) as wire:
        assert (await wire.streamed(OpenAIChat)).text == "hello"


def whole(message: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "m-1", "choices": [choice]}


async def asked(serve: Any, history: list[Message], **settings: Any) -> Any:
    """Give the request that a history makes."""
    async with serve(whole({"content": "ok"})) as wire:
        await wire.generated(OpenAIChat, *history, **settings)
        return wire.request


async def test_the_stream_makes_what_the_whole_answer_is(serve: Any) -> None:
    said = {
        "reasoning_content": "Hm.",
        "content": "Let me see.",
        "tool_calls": [fragment(None, "a", "weather", PARIS), fragment(None, "b", "weather", OSLO)],
    }
    async with serve(whole(said, "tool_calls")) as wire:
        one = await wire.generated(OpenAIChat)
    other = await streamed(
        serve,
        chunk({"reasoning_content": "H"}),
        chunk({"reasoning_content": "m."}),
        chunk({"content": "Let me "}),
        chunk({"content": "see."}),
        *FRAGMENTS["interleaved"],
        END,
    )
    assert one == other
    assert one.content == (
        ReasoningPart("Hm.", extra={"field": "reasoning_content"}),
        TextPart("Let me see."),
    )


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"error": {"message": "Too many requests", "code": 429}}, RateLimited),
        ({"choices": []}, MalformedResponse),
        ({"choices": [{"index": 0}]}, MalformedResponse),
        ({"choices": "none"}, MalformedResponse),
        ({"object": "list"}, MalformedResponse),
    ],
)
async def test_an_answer_that_is_none_is_an_error(serve: Any, body: Any, error: type[ModelError]) -> None:
    async with serve(body) as wire:
        with pytest.raises(error):
            await wire.generated(OpenAIChat)


async def test_an_error_within_the_stream_is_raised_after_what_came_before(serve: Any) -> None:
    failure = {"error": {"message": "Rate limit reached", "type": "rate_limit_error", "code": None}}
    async with serve([chunk({"content": "so far"}), failure]) as wire, wire.model(OpenAIChat) as model:
        stream = model.stream(HI)
        async with aclosing(stream):
            assert (await anext(stream)).text == "so far"
            with pytest.raises(RateLimited, match="Rate limit reached") as caught:
                await anext(stream)
    assert type(caught.value.__cause__).__name__ == "APIError"
