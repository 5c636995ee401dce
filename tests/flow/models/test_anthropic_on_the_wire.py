"""Anthropic's messages as recorded streams: blocks in their order, thoughts with their seals, blocks of any kind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anabranch.flow.models import (
    AnthropicChat,
    ContextTooLong,
    ModelError,
    RateLimited,
    Refused,
    Unavailable,
)
from anabranch.flow.react import ReactAgent
from anabranch.schema import Message, ModelOptions, ProviderPart, ReasoningPart, TextPart, ToolCall, Usage, tool

pytestmark = pytest.mark.anyio

HI = Message.user("hi")
CITATION = {"type": "web_search_result_location", "url": "https://example.org", "title": "Tides", "cited_text": "x"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tides of Husum"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "https://example.org", "encrypted_content": "sealed"}],
}
BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "I need the tides.", "signature": "seal-1"},
    {"type": "redacted_thinking", "data": "seal-2"},
    SEARCH,
    FOUND,
    {"type": "text", "text": "It is high tide.", "citations": [CITATION]},
    {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}},
    {"type": "text", "text": "And there?"},
    {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
]
COST = {"input_tokens": 20, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 16}
END_COST = {
    "output_tokens": 30,
    "output_tokens_details": {"thinking_tokens": 12},
    "server_tool_use": {"web_search_requests": 1},
}


def start(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **said: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **said}}


def streamed_block(index: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    """Write a block as the provider streams it."""
    stop = {"type": "content_block_stop", "index": index}
    match block:
        case {"type": "thinking"}:
            text, seal = block["thinking"], block["signature"]
            deltas = [
                delta(index, "thinking_delta", thinking=text[:6]),
                delta(index, "thinking_delta", thinking=text[6:]),
                delta(index, "signature_delta", signature=seal),
            ]
            return [start(index, {**block, "thinking": "", "signature": ""}), *deltas, stop]
        case {"type": "text"}:
            deltas = [delta(index, "text_delta", text=piece) for piece in (block["text"][:4], block["text"][4:])]
            deltas += [delta(index, "citations_delta", citation=note) for note in block.get("citations", ())]
            return [start(index, {"type": "text", "text": ""}), *deltas, stop]
        case {"type": "tool_use" | "server_tool_use"}:
            written = json.dumps(block["input"]) if block["input"] else ""
            deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in ("", written[:7], written[7:])]
            return [start(index, {**block, "input": {}}), *deltas, stop]
        case _:
            return [start(index, block), stop]


def stream(blocks: list[dict[str, Any]], reason: str = "tool_use", **end: Any) -> list[Any]:
    usage = {**COST, "output_tokens": 1}
    message: dict[str, Any] = {"id": "msg_1", "role": "assistant", "model": "m-1", "content": [], "usage": usage}
    return [
        {"type": "message_start", "message": message},
        {"type": "ping"},
        *[event for index, block in enumerate(blocks) for event in streamed_block(index, block)],
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None, **end}, "usage": END_COST},
        {"type": "message_stop"},
    ]


def whole(blocks: list[dict[str, Any]], reason: str = "tool_use", **end: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "stop_sequence": None}
    return {**message, "content": blocks, "stop_reason": reason, "usage": {**COST, **END_COST}, **end}


async def test_the_stream_makes_what_the_whole_answer_is(serve: Any) -> None:
    async with serve(stream(BLOCKS), whole(BLOCKS)) as wire:
        streamed, one = await wire.streamed(AnthropicChat), await wire.generated(AnthropicChat)
    assert streamed.tool_calls[1].arguments == ""
    assert one.tool_calls[1].arguments == "{}"
    assert streamed.model_copy(update={"tool_calls": one.tool_calls}) == one
    assert one.content == (
        ReasoningPart("I need the tides.", signature="seal-1", index=0),
        ReasoningPart(signature="seal-2", index=1, extra={"redacted": True}),
        ProviderPart(provider="anthropic", type="server_tool_use", index=2, data=without_type(SEARCH)),
        ProviderPart(provider="anthropic", type="web_search_tool_result", index=3, data=without_type(FOUND)),
        TextPart("It is high tide.", index=4, extra={"citations": [CITATION]}),
        TextPart("And there?", index=6),
    )
    assert one.tool_calls[0] == ToolCall(id="toolu_1", name="weather", arguments='{"city": "Paris"}', index=5)
    assert one.usage == Usage(
        input_tokens=100,
        output_tokens=30,
        cached_tokens=64,
        cache_write_tokens=16,
        reasoning_tokens=12,
        details={"server_tool_use.web_search_requests": 1},
    )
    assert one.finish_reason == "tool_calls"
    assert one.extra == {"id": "msg_1", "model": "m-1", "finish_reason": "tool_use"}


def without_type(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "type"}


async def sent(serve: Any, history: list[Message], **settings: Any) -> Any:
    async with serve(whole([])) as wire:
        await wire.generated(AnthropicChat, *history, **settings)
        return wire.request


async def test_what_the_model_put_out_goes_back_unchanged_and_in_its_order(serve: Any) -> None:
    async with serve(stream(BLOCKS), whole(BLOCKS)) as wire:
        for message in (await wire.streamed(AnthropicChat), await wire.generated(AnthropicChat)):
            kept = Message.model_validate_json(message.model_dump_json())
            answers = [Message.tool("mild", tool_call_id=f"toolu_{number}") for number in (1, 2)]
            body = await sent(serve, [HI, kept, *answers])
            assert body["messages"][1] == {"role": "assistant", "content": BLOCKS}


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
    ],
)
async def test_finish_reasons_are_ours_where_there_is_one(serve: Any, word: str, reason: str) -> None:
    async with serve(stream(BLOCKS[4:5], word), whole(BLOCKS[4:5], word)) as wire:
        for message in (await wire.streamed(AnthropicChat), await wire.generated(AnthropicChat)):
            assert (message.finish_reason, message.extra.get("finish_reason", word)) == (reason, word)


async def test_why_an_answer_ended_is_kept(serve: Any) -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "no"}
    ends: list[dict[str, Any]] = [{"stop_sequence": "END"}, {"stop_details": details}]
    for end in ends:
        async with serve(stream([], "refusal", **end), whole([], "refusal", **end)) as wire:
            for message in (await wire.streamed(AnthropicChat), await wire.generated(AnthropicChat)):
                assert end.items() <= dict(message.extra).items()


async def test_a_call_that_is_cut_off_is_told_as_such(serve: Any) -> None:
    events = stream([], "max_tokens")
    call = start(0, {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}})
    piece = delta(0, "input_json_delta", partial_json='{"city": "Pa')
    async with serve([events[0], call, piece, *events[2:]]) as wire:
        message = await wire.streamed(AnthropicChat)
    assert (message.finish_reason, message.tool_calls[0].arguments) == ("length", '{"city": "Pa')
    search = start(0, {**SEARCH, "input": {}})
    async with serve([events[0], search, piece, {"type": "content_block_stop", "index": 0}, *events[2:]]) as wire:
        message = await wire.streamed(AnthropicChat)
    assert message.finish_reason == "length"


@pytest.mark.parametrize("given", [{}, {"city": "Pa"}, {"a": {"b": 1}}], ids=str)
async def test_the_call_in_which_a_whole_answer_was_cut_off_never_runs(serve: Any, given: dict[str, Any]) -> None:
    ran: list[str] = []

    @tool
    async def weather(city: str = "") -> str:
        ran.append(city)
        return "mild"

    before = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}
    last = {"type": "tool_use", "id": "toolu_2", "name": "weather", "input": given}
    for reason in ("max_tokens", "model_context_window_exceeded"):
        ran.clear()
        replies = whole([before, last], reason), whole([{"type": "text", "text": "done"}], "end_turn")
        async with serve(*replies) as wire, wire.model(AnthropicChat) as model:
            result = await ReactAgent(model, tools=[weather]).run("q")
        assert ran == ["Oslo"]
        assert "cut off by the token limit" in result.messages[-2].text
        assert result.messages[1].tool_calls[1].arguments == json.dumps(given)[:-1]


async def test_a_call_before_other_blocks_of_an_answer_that_was_cut_off_is_whole(serve: Any) -> None:
    async with serve(whole([BLOCKS[5], BLOCKS[6]], "max_tokens")) as wire:
        message = await wire.generated(AnthropicChat)
    assert message.tool_calls[0].arguments == '{"city": "Paris"}'


async def test_arguments_that_stand_in_the_head_of_a_call_count_once(serve: Any) -> None:
    events, head = stream([]), start(0, BLOCKS[5])
    stop = {"type": "content_block_stop", "index": 0}
    pieces = [delta(0, "input_json_delta", partial_json=piece) for piece in ('{"city"', ': "Paris"}')]
    for between in ([], pieces):
        async with serve([events[0], head, *between, stop, *events[2:]]) as wire:
            message = await wire.streamed(AnthropicChat)
        assert message.tool_calls[0].arguments == '{"city": "Paris"}'


async def test_arguments_that_stand_in_the_head_of_a_call_stay_open_where_the_answer_was_cut_off(serve: Any) -> None:
    stop = {"type": "content_block_stop", "index": 0}
    for reason, after, last in (
        ("max_tokens", [], ""),
        ("max_tokens", streamed_block(1, BLOCKS[6]), "}"),
        ("tool_use", [], "}"),
    ):
        events = stream([], reason)
        async with serve([events[0], start(0, BLOCKS[5]), stop, *after, *events[2:]]) as wire:
            message = await wire.streamed(AnthropicChat)
        assert message.tool_calls[0].arguments == '{"city": "Paris"' + last


async def test_blocks_and_deltas_of_kinds_that_are_not_known_survive(serve: Any) -> None:
    events = stream([], "end_turn")
    strange = [
        start(0, {"type": "compaction", "content": "We "}),
        delta(0, "compaction_delta", content="spoke."),
        delta(0, "mood_delta", mood=3),
        {"type": "content_block_stop", "index": 0},
        {"type": "event_of_tomorrow", "index": 0},
        delta(1, "delta_of_tomorrow", x=1),
    ]
    async with serve([events[0], *strange, *events[2:]]) as wire:
        message = await wire.streamed(AnthropicChat)
    block = {"type": "compaction", "content": "We spoke.", "mood": 3}
    assert message.content == (
        ProviderPart(provider="anthropic", type="compaction", index=0, data=without_type(block)),
    )
    assert (await sent(serve, [HI, message]))["messages"][1]["content"] == [block]


async def test_what_a_call_says_of_its_caller_goes_back_with_it(serve: Any) -> None:
    call = {**BLOCKS[5], "caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}}
    async with serve(whole([call])) as wire:
        message = await wire.generated(AnthropicChat)
    body = await sent(serve, [HI, message, Message.tool("mild", tool_call_id="toolu_1")])
    assert body["messages"][1]["content"] == [call]


async def test_marks_for_the_cache_are_passed_on(serve: Any) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    history = [
        Message.system([TextPart("Long rules.", extra=mark)]),
        Message.user([TextPart("Long text.", extra={**mark, "mine": 1})]),
    ]
    body = await sent(serve, history)
    assert body["system"] == [{"type": "text", "text": "Long rules.", **mark}]
    assert body["messages"][0]["content"] == [{"type": "text", "text": "Long text.", **mark}]


@pytest.mark.parametrize(
    ("kind", "text", "error"),
    [
        ("overloaded_error", "Overloaded", Unavailable),
        ("api_error", "Internal server error", Unavailable),
        ("rate_limit_error", "Slow down", RateLimited),
        ("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", ContextTooLong),
        ("invalid_request_error", "Output blocked by content filtering policy", Refused),
    ],
)
async def test_a_failure_within_the_stream_is_the_error_that_it_says(
    serve: Any, kind: str, text: str, error: type[ModelError]
) -> None:
    failure = {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}
    async with serve([*stream(BLOCKS)[:4], failure]) as wire:
        with pytest.raises(error, match=text) as caught:
            await wire.streamed(AnthropicChat)
    assert (caught.value.code, type(caught.value.__cause__).__name__) == (kind, "APIError")


async def test_the_key_and_the_version_are_sent_and_the_requests_id_is_kept(serve: Any) -> None:
    async def script(connection: Any) -> None:
        await connection.answer(200, whole(BLOCKS[4:5], "end_turn"), {"request-id": "req_9"})

    async with serve(script) as wire, wire.model(AnthropicChat) as model:
        message = await model.generate([HI], ModelOptions(model="claude-x"))
        assert message.extra["request_id"] == "req_9"
        headers = wire.seen[-1].headers
        assert (headers["authorization"], wire.request["model"]) == ("Bearer test", "claude-x")
        assert "anthropic-version" in headers
