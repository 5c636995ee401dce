"""Tools, choices, shapes and options as each provider wants them, and whose settings count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from anabranch.flow.models import AnthropicChat, OpenAIChat, OpenAIResponses
from anabranch.schema import Message, ModelOptions, NamedTool, ToolInfo
from anabranch.schema.errors import ToolDefinitionError

pytestmark = pytest.mark.anyio

Model = OpenAIChat | OpenAIResponses | AnthropicChat
KINDS = [OpenAIChat, OpenAIResponses, AnthropicChat]
HI = [Message.user("hi")]
ANSWERS: dict[type[Any], dict[str, Any]] = {
    OpenAIChat: {"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]},
    OpenAIResponses: {"id": "r", "model": "m", "status": "completed", "output": []},
    AnthropicChat: {"id": "a", "type": "message", "model": "m", "content": [], "stop_reason": "end_turn", "usage": {}},
}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
    "required": ["city"],
}
WEATHER = ToolInfo(name="weather", description="Tell the weather.", parameters=SCHEMA)
STRICT = WEATHER.model_copy(update={"strict": True})


async def sent(serve: Any, kind: type[Model], bind: Callable[[Any], Any] | None = None, **settings: Any) -> Any:
    """Give the request that is made; ``bind`` makes the model that is asked."""
    options = settings.pop("options", ModelOptions())
    async with serve(ANSWERS[kind]) as wire, wire.model(kind, **settings) as model:
        await (bind(model) if bind else model).generate(HI, options)
        return wire.request


async def test_tools_are_described_as_the_provider_wants_it(serve: Any) -> None:
    def bind(model: Any) -> Any:
        return model.with_tools([WEATHER, STRICT])

    strict = STRICT.strict_parameters()
    about = {"name": "weather", "description": "Tell the weather."}
    assert (await sent(serve, OpenAIChat, bind))["tools"] == [
        {"type": "function", "function": {**about, "parameters": SCHEMA}},
        {"type": "function", "function": {**about, "parameters": strict, "strict": True}},
    ]
    assert (await sent(serve, OpenAIResponses, bind))["tools"] == [
        {"type": "function", **about, "parameters": SCHEMA, "strict": False},
        {"type": "function", **about, "parameters": strict, "strict": True},
    ]
    assert (await sent(serve, AnthropicChat, bind))["tools"] == [
        {**about, "input_schema": SCHEMA},
        {**about, "input_schema": strict, "strict": True},
    ]


CHOICES: dict[type[Any], dict[Any, Any]] = {
    OpenAIChat: {
        "none": "none",
        "required": "required",
        NamedTool(name="weather"): {"type": "function", "function": {"name": "weather"}},
    },
    OpenAIResponses: {
        "none": "none",
        "required": "required",
        NamedTool(name="weather"): {"type": "function", "name": "weather"},
    },
    AnthropicChat: {
        "none": {"type": "none"},
        "required": {"type": "any"},
        NamedTool(name="weather"): {"type": "tool", "name": "weather"},
    },
}


@pytest.mark.parametrize(
    ("kind", "choice", "written"),
    [(kind, choice, written) for kind, choices in CHOICES.items() for choice, written in choices.items()],
)
async def test_a_choice_of_tools_is_bound_or_an_option(
    serve: Any, kind: type[Model], choice: Any, written: Any
) -> None:
    body = await sent(serve, kind, lambda model: model.with_tools([WEATHER], choice))
    assert body["tool_choice"] == written
    options = ModelOptions(tool_choice=choice)
    body = await sent(serve, kind, lambda model: model.with_tools([WEATHER]), options=options)
    assert body["tool_choice"] == written


@pytest.mark.parametrize("kind", KINDS)
async def test_the_choice_that_providers_make_anyway_is_not_written(serve: Any, kind: type[Model]) -> None:
    assert "tool_choice" not in await sent(serve, kind, lambda model: model.with_tools([WEATHER]))
    assert not {"tool_choice", "tools"} & set(await sent(serve, kind, options=ModelOptions(tool_choice="none")))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tools", [[], [WEATHER]])
async def test_a_tool_that_must_be_called_and_is_not_there_is_an_error(
    serve: Any, kind: type[Model], tools: list[ToolInfo]
) -> None:
    with pytest.raises(ValueError, match="must"):
        await sent(serve, kind, lambda model: model.with_tools(tools, NamedTool(name="search")))


@pytest.mark.parametrize("kind", KINDS)
async def test_binding_tools_leaves_the_model_as_it_was(serve: Any, kind: type[Model]) -> None:
    async with serve(ANSWERS[kind]) as wire, wire.model(kind) as model:
        bound = model.with_tools([WEATHER], "required")
        assert type(bound) is kind
        await model.generate(HI)
        assert "tools" not in wire.request
        await bound.generate(HI)
        assert wire.request["tools"]
        assert repr(bound) == f"{kind.__name__}('wire-model', tools=['weather'])"


class Tide(BaseModel):
    place: str
    metres: float = 0.0


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_is_held_to_a_type(serve: Any, kind: type[Model]) -> None:
    schema = ToolInfo(name="tide", parameters=Tide.model_json_schema()).strict_parameters()
    body = await sent(serve, kind, lambda model: model.with_output(Tide, name="tide"))
    form = {"name": "tide", "schema": schema, "strict": True}
    if kind is OpenAIChat:
        assert body["response_format"] == {"type": "json_schema", "json_schema": form}
    elif kind is OpenAIResponses:
        assert body["text"] == {"format": {"type": "json_schema", **form}}
    else:
        assert body["output_config"] == {"format": {"type": "json_schema", "schema": schema}}


async def test_a_shape_that_no_provider_can_hold_a_model_to_is_an_error_at_once(serve: Any) -> None:
    async with serve(ANSWERS[OpenAIChat]) as wire, wire.model(OpenAIChat) as model:
        with pytest.raises(ToolDefinitionError, match="free keys"):
            model.with_output(dict[str, int])
        loose = model.with_output({"type": "object"}, strict=False)
        await loose.generate(HI)
        assert wire.request["response_format"]["json_schema"]["schema"] == {"type": "object"}


OPTIONS = ModelOptions(temperature=0.5, top_p=0.9, max_tokens=50, stop=("END",), seed=7, model="other")
WRITTEN: dict[type[Any], dict[str, Any]] = {
    OpenAIChat: {"temperature": 0.5, "top_p": 0.9, "max_tokens": 50, "stop": ["END"], "seed": 7, "model": "other"},
    OpenAIResponses: {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 50, "model": "other"},
    AnthropicChat: {"temperature": 0.5, "top_p": 0.9, "max_tokens": 50, "stop_sequences": ["END"], "model": "other"},
}


@pytest.mark.parametrize("kind", KINDS)
async def test_options_are_written_by_the_providers_names(serve: Any, kind: type[Model]) -> None:
    body = await sent(serve, kind, options=OPTIONS)
    messages = "input" if kind is OpenAIResponses else "messages"
    assert {key: value for key, value in body.items() if key != messages} == WRITTEN[kind]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_asked_counts_over_the_defaults(serve: Any, kind: type[Model]) -> None:
    options = ModelOptions(temperature=1.0, extra={"metadata": {"b": 2}, "user": None})
    body = await sent(serve, kind, options=options, temperature=0.0, top_p=0.5, metadata={"a": 1}, user="me")
    assert (body["temperature"], body["top_p"], body["metadata"]) == (1.0, 0.5, {"b": 2})
    assert "user" not in body


@pytest.mark.parametrize("kind", KINDS)
async def test_the_providers_own_tools_come_beside_ours(serve: Any, kind: type[Model]) -> None:
    search = {"type": "web_search"}
    body = await sent(serve, kind, lambda model: model.with_tools([WEATHER]), tools=[search])
    assert len(body["tools"]) == 2
    assert body["tools"][1] == search


async def test_parameters_of_two_sides_are_merged(serve: Any) -> None:
    def bind(model: Any) -> Any:
        return model.with_output(Tide)

    responses = await sent(serve, OpenAIResponses, bind, text={"verbosity": "low"})
    assert set(responses["text"]) == {"format", "verbosity"}
    claude = await sent(serve, AnthropicChat, bind, output_config={"effort": "low"})
    assert set(claude["output_config"]) == {"format", "effort"}


@pytest.mark.parametrize("kind", KINDS)
async def test_headers_and_a_time_limit_go_to_the_client(serve: Any, kind: type[Model]) -> None:
    extra = {"extra_headers": {"x-trace": "t1"}, "timeout": 5, "extra_query": {"q": "1"}}
    async with serve(ANSWERS[kind]) as wire, wire.model(kind) as model:
        await model.generate(HI, ModelOptions(extra=extra))
        assert wire.seen[-1].headers["x-trace"] == "t1"
        assert wire.seen[-1].path.endswith("?q=1")
        assert not set(extra) & set(wire.request)


async def test_a_stream_asks_for_its_cost_unless_told_otherwise(serve: Any) -> None:
    end = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}
    async with serve([end, "[DONE]"]) as wire:
        await wire.streamed(OpenAIChat)
        assert wire.request["stream_options"] == {"include_usage": True}
        assert wire.request["stream"] is True
        await wire.streamed(OpenAIChat, stream_options=None)
        assert "stream_options" not in wire.request


async def test_anthropic_is_always_told_how_much_it_may_write(serve: Any) -> None:
    assert (await sent(serve, AnthropicChat))["max_tokens"] == 16384
    assert (await sent(serve, AnthropicChat, max_tokens=10))["max_tokens"] == 10


async def test_anthropics_client_waits_for_every_model(serve: Any) -> None:
    options = ModelOptions(model="claude-opus-4-1@20250805", max_tokens=20_000)  # one of which it would not
    assert (await sent(serve, AnthropicChat, options=options))["max_tokens"] == 20_000


async def test_a_long_answer_of_anthropic_is_streamed_even_if_wanted_whole(serve: Any) -> None:
    start: dict[str, Any] = {"type": "message_start", "message": {"id": "m", "model": "m", "usage": {}}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "long"}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}
    async with serve([start, block, end, {"type": "message_stop"}]) as wire:
        message = await wire.generated(AnthropicChat, max_tokens=64000)
        assert message.text == "long"
        assert wire.request["stream"] is True
