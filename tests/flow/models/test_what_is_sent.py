"""Histories, tools and options as each provider wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anabranch.flow.models import AnthropicChat, OpenAIChat, OpenAIResponses
from anabranch.schema import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    ModelOptions,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolInfo,
    VideoPart,
)
from anabranch.schema.errors import MessageError

pytestmark = pytest.mark.anyio

Model = OpenAIChat | OpenAIResponses | AnthropicChat
KINDS = [OpenAIChat, OpenAIResponses, AnthropicChat]
HI = [Message.user("hi")]
ANSWERS: dict[type[Any], dict[str, Any]] = {
    OpenAIChat: {"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]},
    OpenAIResponses: {"id": "r", "model": "m", "status": "completed", "output": []},
    AnthropicChat: {"id": "a", "type": "message", "model": "m", "content": [], "stop_reason": "end_turn", "usage": {}},
}
WEATHER = ToolInfo(
    name="weather",
    description="Tell the weather.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
        "required": ["city"],
    },
)
CALL = ToolCall(id="c1", name="weather", arguments='{"city": "Paris"}')
TWO_CALLS = [
    Message.user("Where is it warmer?"),
    Message.assistant("I look.", tool_calls=[CALL, ToolCall(id="c2", name="weather", arguments="")]),
    Message.tool("mild", tool_call_id="c1", name="weather"),
    Message.tool("no such place", tool_call_id="c2", name="weather", is_error=True),
    Message.user("And now?"),
]


async def sent(
    serve: Any, kind: type[Model], history: list[Message], bind: Callable[[Any], Any] | None = None, **settings: Any
) -> Any:
    """Give the request that a history makes; ``bind`` makes the model that is asked, and options with it."""
    options = settings.pop("options", ModelOptions())
    async with serve(ANSWERS[kind]) as wire, wire.model(kind, **settings) as model:
        await (bind(model) if bind else model).generate(history, options)
        return wire.request


async def test_chat_completions_get_answers_to_calls_as_messages_of_their_own(serve: Any) -> None:
    body = await sent(serve, OpenAIChat, [Message.system("Be brief."), *TWO_CALLS])
    function = {"name": "weather", "arguments": '{"city": "Paris"}'}
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where is it warmer?"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": function},
                {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "mild"},
        {"role": "tool", "tool_call_id": "c2", "content": "no such place"},
        {"role": "user", "content": "And now?"},
    ]


async def test_responses_get_one_list_of_items(serve: Any) -> None:
    body = await sent(serve, OpenAIResponses, [Message.system("Be brief."), *TWO_CALLS])
    assert body["input"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where is it warmer?"},
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Paris"}'},
        {"type": "function_call", "call_id": "c2", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "mild"},
        {"type": "function_call_output", "call_id": "c2", "output": "no such place"},
        {"role": "user", "content": "And now?"},
    ]


async def test_anthropic_gets_the_answers_of_a_turn_in_one_message(serve: Any) -> None:
    body = await sent(serve, AnthropicChat, [Message.system("Be brief."), Message.system("Be kind."), *TWO_CALLS])
    assert body["system"] == "Be brief.\n\nBe kind."
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Where is it warmer?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Paris"}},
                {"type": "tool_use", "id": "c2", "name": "weather", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "mild"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "no such place", "is_error": True},
                {"type": "text", "text": "And now?"},
            ],
        },
    ]


async def test_what_anthropic_would_refuse_is_put_right(serve: Any) -> None:
    history = [
        Message.user([" \n", "Hi"]),
        Message.assistant(tool_calls=[ToolCall(id="call|1", name="weather", arguments='{"city": ')]),
        Message.tool("", tool_call_id="call|1"),
        Message.system("From now on in French."),
        Message.assistant(),
        Message.assistant("Bon \n"),
    ]
    body = await sent(serve, AnthropicChat, history)
    assert "system" not in body
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"malformed_arguments": '{"city": '}}
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1"}]},
        {"role": "system", "content": [{"type": "text", "text": "From now on in French."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Bon"}]},
    ]


PNG = ImagePart.from_bytes(b"png", "image/png", detail="low")
PDF = FilePart.from_bytes(b"pdf", "application/pdf", name="a.pdf")
MEDIA: dict[str, tuple[Part, dict[type[Any], Any]]] = {
    "a picture": (
        PNG,
        {
            OpenAIChat: {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n", "detail": "low"}},
            OpenAIResponses: {"type": "input_image", "image_url": "data:image/png;base64,cG5n", "detail": "low"},
            AnthropicChat: {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"},
            },
        },
    ),
    "a picture by address": (
        ImagePart(url="https://example.org/a.png"),
        {
            OpenAIChat: {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            OpenAIResponses: {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "auto"},
            AnthropicChat: {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        },
    ),
    "a file": (
        PDF,
        {
            OpenAIChat: {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,cGRm"},
            },
            OpenAIResponses: {
                "type": "input_file",
                "filename": "a.pdf",
                "file_data": "data:application/pdf;base64,cGRm",
            },
            AnthropicChat: {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "cGRm"},
                "title": "a.pdf",
            },
        },
    ),
    "a file by id": (
        FilePart(file_id="f1"),
        {
            OpenAIChat: {"type": "file", "file": {"file_id": "f1"}},
            OpenAIResponses: {"type": "input_file", "file_id": "f1"},
            AnthropicChat: {"type": "document", "source": {"type": "file", "file_id": "f1"}},
        },
    ),
    "a text file": (
        FilePart.from_bytes(b"hello", "text/markdown", name="a.md"),
        {
            AnthropicChat: {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "hello"},
                "title": "a.md",
            }
        },
    ),
    "sound": (
        AudioPart.from_bytes(b"mp3", "audio/mpeg"),
        {
            OpenAIChat: {"type": "input_audio", "input_audio": {"data": "bXAz", "format": "mp3"}},
            OpenAIResponses: {"type": "input_audio", "input_audio": {"data": "bXAz", "format": "mp3"}},
        },
    ),
    "a film": (
        VideoPart(url="https://example.org/a.mp4"),
        {OpenAIChat: {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}}},
    ),
    "a provider's own block": (
        ProviderPart(provider="anthropic", type="search_result", data={"source": "s", "title": "t"}),
        {AnthropicChat: {"type": "search_result", "source": "s", "title": "t"}},
    ),
}


@pytest.mark.parametrize(
    ("kind", "part", "block"),
    [
        pytest.param(kind, part, block, id=f"{kind.__name__}, {name}")
        for name, (part, blocks) in MEDIA.items()
        for kind, block in blocks.items()
    ],
)
async def test_media_are_written_as_the_provider_has_them(
    serve: Any, kind: type[Model], part: Part, block: dict[str, Any]
) -> None:
    body = await sent(serve, kind, [Message.user(["Look:", part])])
    messages = body["input" if kind is OpenAIResponses else "messages"]
    assert messages[0]["content"][1:] == [block]


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        (OpenAIChat, FilePart(url="https://example.org/a.pdf")),
        (OpenAIChat, AudioPart(url="https://example.org/a.mp3")),
        (OpenAIResponses, VideoPart(url="https://example.org/a.mp4")),
        (AnthropicChat, AudioPart.from_bytes(b"x", "audio/wav")),
    ],
)
async def test_a_part_that_a_provider_does_not_take_is_an_error_that_names_it(
    serve: Any, kind: type[Model], part: Part
) -> None:
    with pytest.raises(MessageError, match=rf"message 1: {kind.__name__} takes no {part.kind} part"):
        await sent(serve, kind, [Message.system("x"), Message.user([part])])


async def test_a_part_of_another_provider_is_left_out(serve: Any) -> None:
    parts: list[Part] = [ReasoningPart("Hm.", signature="seal"), TextPart("ok", index=1)]
    foreign = ProviderPart(provider="elsewhere", type="search", data={})
    history = [Message.user([foreign, "hi"]), Message.assistant([*parts, foreign])]
    assert (await sent(serve, OpenAIChat, history))["messages"] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "ok"},
    ]
    assert (await sent(serve, OpenAIResponses, history))["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"role": "assistant", "content": "ok"},
    ]
    unsigned = [Message.user("hi"), Message.assistant([ReasoningPart("Hm."), TextPart("ok", index=1)])]
    assert (await sent(serve, AnthropicChat, unsigned))["messages"][1]["content"] == [{"type": "text", "text": "ok"}]


async def test_pictures_that_tools_give_reach_the_model(serve: Any) -> None:
    history = [
        *HI,
        Message.assistant(tool_calls=[CALL, ToolCall(id="c2", name="weather", arguments="{}")]),
        Message.tool(["The chart:", PNG], tool_call_id="c1", name="weather"),
        Message.tool("mild", tool_call_id="c2", name="weather"),
    ]
    chat = (await sent(serve, OpenAIChat, history))["messages"]
    assert [message["role"] for message in chat] == ["user", "assistant", "tool", "tool", "user"]
    assert chat[2]["content"].startswith("The chart:")
    assert chat[4]["content"][1]["image_url"]["url"] == "data:image/png;base64,cG5n"
    responses = (await sent(serve, OpenAIResponses, history))["input"]
    assert [block["type"] for block in responses[3]["output"]] == ["input_text", "input_image"]
    claude = (await sent(serve, AnthropicChat, history))["messages"]
    assert [block["type"] for block in claude[2]["content"][0]["content"]] == ["text", "image"]
