"""OpenAI's responses as recorded streams: items in their order, thoughts with their seals, blocks of any kind."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.flow.models import (
    BadRequest,
    ContextTooLong,
    ModelError,
    OpenAIResponses,
    RateLimited,
    Refused,
    Unavailable,
)
from anabranch.schema import Message, ProviderPart, ReasoningPart, TextPart, ToolCall, Usage

pytestmark = pytest.mark.anyio

HI = Message.user("hi")
SUMMARY = [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}]
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": SUMMARY, "encrypted_content": "sealed"}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "tides of Husum"},
}
NOTE = {"type": "url_citation", "url": "https://example.org", "title": "Tides", "start_index": 0, "end_index": 3}
TEXT = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "Let me see.", "annotations": [NOTE]}],
}
CALLS = [
    {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": "weather",
        "arguments": f'{{"city": "{city}"}}',
        "status": "completed",
    }
    for number, city in ((1, "Paris"), (2, "Oslo"))
]
OUTPUT = [THOUGHT, SEARCH, TEXT, *CALLS]
USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 130,
}


def response(output: list[Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "model": "m-1", "status": status, "output": output, **more}


def done(output: list[Any], **more: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": response(output, **more)}


def event(kind: str, index: int, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "output_index": index, "item_id": "i", **more}


def thinking(index: int) -> list[dict[str, Any]]:
    return [
        event("output_item.added", index, item={"type": "reasoning", "id": "rs_1", "summary": []}),
        event("reasoning_summary_part.added", index, summary_index=0, part={"type": "summary_text", "text": ""}),
        event("reasoning_summary_text.delta", index, summary_index=0, delta="Fir"),
        event("reasoning_summary_text.delta", index, summary_index=0, delta="st."),
        event("reasoning_summary_text.done", index, summary_index=0, text="First."),
        event("reasoning_summary_part.added", index, summary_index=1, part={"type": "summary_text", "text": ""}),
        event("reasoning_summary_text.delta", index, summary_index=1, delta="Then."),
        event("output_item.done", index, item=THOUGHT),
    ]


def searching(index: int) -> list[dict[str, Any]]:
    return [
        event("output_item.added", index, item={**SEARCH, "status": "in_progress"}),
        event("web_search_call.in_progress", index),
        event("web_search_call.searching", index),
        event("web_search_call.completed", index),
        event("output_item.done", index, item=SEARCH),
    ]


def writing(index: int) -> list[dict[str, Any]]:
    return [
        event("output_item.added", index, item={**TEXT, "status": "in_progress", "content": []}),
        event("content_part.added", index, content_index=0, part={"type": "output_text", "text": ""}),
        event("output_text.delta", index, content_index=0, delta="Let me "),
        event("output_text.delta", index, content_index=0, delta="see."),
        event("output_text.annotation.added", index, content_index=0, annotation_index=0, annotation=NOTE),
        event("output_text.done", index, content_index=0, text="Let me see."),
        event("output_item.done", index, item=TEXT),
    ]


def calling(index: int, call: dict[str, Any]) -> list[dict[str, Any]]:
    pieces = [call["arguments"][:5], call["arguments"][5:]]
    return [
        event("output_item.added", index, item={**call, "arguments": "", "status": "in_progress"}),
        *[event("function_call_arguments.delta", index, delta=piece) for piece in pieces],
        event("function_call_arguments.done", index, arguments=call["arguments"]),
        event("output_item.done", index, item=call),
    ]


STREAM = [
    {"type": "response.created", "response": response([], "in_progress")},
    {"type": "response.in_progress", "response": response([], "in_progress")},
    *thinking(0),
    *searching(1),
    *writing(2),
    *calling(3, CALLS[0]),
    *calling(4, CALLS[1]),
    {"type": "response.kind_of_tomorrow", "output_index": 9},
    done(OUTPUT, usage=USAGE),
]


async def test_the_stream_makes_what_the_whole_answer_is(serve: Any) -> None:
    async with serve(STREAM, response(OUTPUT, usage=USAGE)) as wire:
        streamed = await wire.streamed(OpenAIResponses)
        whole = await wire.generated(OpenAIResponses)
    assert streamed == whole
    assert whole.content == (
        ReasoningPart(
            "First.\n\nThen.",
            signature="sealed",
            index=0,
            extra={"item": {"type": "reasoning", "id": "rs_1", "summary": SUMMARY}},
        ),
        ProviderPart(
            provider="openai",
            type="web_search_call",
            index=1,
            data={"id": "ws_1", "status": "completed", "action": SEARCH["action"]},
        ),
        TextPart("Let me see.", index=2, extra={"id": "msg_1", "phase": "commentary", "annotations": [NOTE]}),
    )
    assert whole.tool_calls == (
        ToolCall(id="call_1", name="weather", arguments='{"city": "Paris"}', index=3, extra={"id": "fc_1"}),
        ToolCall(id="call_2", name="weather", arguments='{"city": "Oslo"}', index=4, extra={"id": "fc_2"}),
    )
    assert whole.usage == Usage(
        input_tokens=100, output_tokens=30, cached_tokens=60, cache_write_tokens=10, reasoning_tokens=20
    )
    assert (whole.finish_reason, whole.extra) == ("tool_calls", {"id": "resp_1", "model": "m-1"})


async def sent(serve: Any, history: list[Message], **settings: Any) -> list[Any]:
    async with serve(response([])) as wire:
        await wire.generated(OpenAIResponses, *history, **settings)
        items: list[Any] = wire.request["input"]
        return items


async def test_what_the_model_put_out_goes_back_unchanged_and_in_its_order(serve: Any) -> None:
    interleaved: list[dict[str, Any]] = [THOUGHT, CALLS[0], TEXT, SEARCH, CALLS[1]]
    async with serve(response(interleaved)) as wire:
        message = await wire.generated(OpenAIResponses)
    kept = Message.model_validate_json(message.model_dump_json())
    for store in (True, False):
        items = await sent(serve, [HI, kept], store=store)
        assert [strip(item) for item in items[1:]] == [strip(item) for item in interleaved]


def strip(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "status" or item["type"] == "web_search_call"}


async def test_a_thought_that_cannot_be_read_again_is_left_out_and_ids_with_it(serve: Any) -> None:
    bare = {key: value for key, value in THOUGHT.items() if key != "encrypted_content"}
    async with serve(response([bare, TEXT, CALLS[0]])) as wire:
        message = await wire.generated(OpenAIResponses)
    stored = await sent(serve, [HI, message])
    assert [item.get("id") for item in stored[1:]] == ["rs_1", "msg_1", "fc_1"]
    forgotten = await sent(serve, [HI, message], store=False)
    assert forgotten[1:] == [
        {"role": "assistant", "content": "Let me see.", "phase": "commentary"},
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Paris"}'},
    ]


async def test_a_refusal_is_text_that_is_marked_and_goes_back_as_one(serve: Any) -> None:
    item = {"type": "message", "id": "msg_1", "content": [{"type": "refusal", "refusal": "I cannot."}]}
    stream = [
        event("output_item.added", 0, item={**item, "content": []}),
        event("refusal.delta", 0, content_index=0, delta="I can"),
        event("refusal.delta", 0, content_index=0, delta="not."),
        event("output_item.done", 0, item=item),
        done([item]),
    ]
    async with serve(stream, response([item])) as wire:
        messages = [await wire.streamed(OpenAIResponses), await wire.generated(OpenAIResponses)]
    for message in messages:
        assert (message.text, message.finish_reason) == ("I cannot.", "content_filter")
        assert message.parts[0].extra["refusal"] is True
    after_thought = Message.assistant([ReasoningPart(signature="s", extra={"item": THOUGHT}), *messages[0].parts])
    items = await sent(serve, [HI, after_thought])
    assert items[2]["content"] == [{"type": "refusal", "refusal": "I cannot."}]


async def test_items_of_kinds_that_are_not_known_survive(serve: Any) -> None:
    strange = {"type": "program_of_tomorrow", "id": "p_1", "steps": [{"do": "this"}], "note": "x"}
    approval = {"type": "mcp_approval_request", "id": "a_1", "name": "delete", "arguments": "{}", "server_label": "s"}
    stream = [
        event("output_item.added", 0, item={**strange, "steps": []}),
        event("program_of_tomorrow.delta", 0, delta={"do": "this"}),
        event("output_item.done", 0, item=strange),
        event("output_item.done", 1, item=approval),
        done([strange, approval]),
    ]
    async with serve(stream) as wire:
        message = await wire.streamed(OpenAIResponses)
    yes = {"approval_request_id": "a_1", "approve": True}
    answer = Message.user([ProviderPart(provider="openai", type="mcp_approval_response", data=yes)])
    items = await sent(serve, [HI, message, answer])
    assert items[1:] == [strange, approval, {"type": "mcp_approval_response", **yes}]


@pytest.mark.parametrize(
    ("details", "reason", "word"),
    [
        ({"reason": "max_output_tokens"}, "length", "max_output_tokens"),
        ({"reason": "content_filter"}, "content_filter", None),
        (None, "length", "incomplete"),
    ],
)
async def test_an_answer_that_is_not_complete_says_why(serve: Any, details: Any, reason: str, word: str | None) -> None:
    cut = response([{**CALLS[0], "arguments": '{"ci'}], "incomplete", incomplete_details=details)
    stream = [*calling(0, {**CALLS[0], "arguments": '{"ci'}), {"type": "response.incomplete", "response": cut}]
    async with serve(stream, cut) as wire:
        for message in (await wire.streamed(OpenAIResponses), await wire.generated(OpenAIResponses)):
            assert (message.finish_reason, message.extra.get("finish_reason")) == (reason, word)
            assert message.tool_calls[0].arguments == '{"ci'


@pytest.mark.parametrize("written", ["{}", '{"city": "Pa"}'])
async def test_arguments_of_a_cut_call_that_a_server_has_closed_are_open_again(serve: Any, written: str) -> None:
    call = {**CALLS[0], "arguments": written, "status": "incomplete"}
    cut = response([call], "incomplete", incomplete_details={"reason": "max_output_tokens"})
    stream = [event("output_item.done", 0, item=call), {"type": "response.incomplete", "response": cut}]
    async with serve(stream, cut) as wire:
        for message in (await wire.streamed(OpenAIResponses), await wire.generated(OpenAIResponses)):
            assert (message.finish_reason, message.tool_calls[0].arguments) == ("length", written[:-1])


@pytest.mark.parametrize(
    ("code", "text", "error"),
    [
        ("server_error", "The server had an error.", Unavailable),
        ("rate_limit_exceeded", "Rate limit reached.", RateLimited),
        ("invalid_prompt", "Your prompt was flagged.", Refused),
        ("context_length_exceeded", "Your input exceeds the context window of this model.", ContextTooLong),
        ("invalid_image", "The image cannot be read.", BadRequest),
    ],
)
async def test_a_failure_within_the_stream_is_the_error_that_it_says(
    serve: Any, code: str, text: str, error: type[ModelError]
) -> None:
    details = {"code": code, "message": text}
    failed = {"type": "response.failed", "response": response([], "failed", error=details)}
    for ending in (failed, {"type": "error", **details, "param": None}, {"type": "error", "error": details}):
        async with serve([*STREAM[:3], ending]) as wire:
            with pytest.raises(error, match=text) as caught:
                await wire.streamed(OpenAIResponses)
            assert (caught.value.code, type(caught.value.__cause__).__name__) == (code, "APIError")
    async with serve(response([], "failed", error=details)) as wire:
        with pytest.raises(error):
            await wire.generated(OpenAIResponses)


async def test_servers_that_send_items_only_when_they_are_done_are_understood(serve: Any) -> None:
    stream = [event("output_item.done", index, item=item) for index, item in enumerate(OUTPUT)]
    async with serve([*stream, done(OUTPUT)], response(OUTPUT)) as wire:
        streamed, whole = await wire.streamed(OpenAIResponses), await wire.generated(OpenAIResponses)
    assert (streamed.content, streamed.tool_calls) == (whole.content, whole.tool_calls)


async def test_a_history_of_other_models_can_go_on_here(serve: Any) -> None:
    message = Message.assistant(
        [ReasoningPart("Hm.", signature="of another"), TextPart("Let me see.", index=1)],
        tool_calls=[ToolCall(id="c1", name="weather", arguments='{"city": "Paris"}', index=2)],
    )
    assert (await sent(serve, [HI, message]))[1:] == [
        {"role": "assistant", "content": "Let me see."},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Paris"}'},
    ]


async def test_a_bad_request_is_told_with_its_parameter(serve: Any) -> None:
    async def script(connection: Any) -> None:
        error = {"message": "Unknown parameter: 'x'.", "type": "invalid_request_error", "param": "x", "code": None}
        await connection.answer(400, {"error": error}, {"x-request-id": "req_7"})

    async with serve(script) as wire:
        with pytest.raises(BadRequest, match="Unknown parameter: 'x'") as caught:
            await wire.generated(OpenAIResponses, x=1)
    assert (caught.value.request_id, caught.value.code) == ("req_7", "invalid_request_error")
    assert wire.request["x"] == 1
