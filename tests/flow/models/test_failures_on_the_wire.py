"""What goes wrong on the way to a provider: every stream is closed, every error is ours and keeps the original."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest

from anabranch.compose import END, START, Graph
from anabranch.flow.models import (
    AccessDenied,
    AnthropicChat,
    BadRequest,
    MalformedResponse,
    ModelError,
    OpenAIChat,
    OpenAIResponses,
    RateLimited,
    TimedOut,
    Unavailable,
)
from anabranch.schema import Message, ModelOptions, concat

Model = OpenAIChat | OpenAIResponses | AnthropicChat
KINDS = [OpenAIChat, OpenAIResponses, AnthropicChat]
HI = [Message.user("hi")]

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("kind", KINDS)]

# A stream of each provider: what says "one", what says "two", and the end.
STREAMS: dict[type[Any], list[Any]] = {
    OpenAIChat: [
        {"id": "c", "choices": [{"index": 0, "delta": {"content": "one"}, "finish_reason": None}]},
        {"id": "c", "choices": [{"index": 0, "delta": {"content": "two"}, "finish_reason": None}]},
        {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        "[DONE]",
    ],
    OpenAIResponses: [
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "one"},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "two"},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}},
    ],
    AnthropicChat: [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "one"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "two"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ],
}
WHOLE: dict[type[Any], dict[str, Any]] = {
    OpenAIChat: {"choices": [{"index": 0, "message": {"content": "onetwo"}, "finish_reason": "stop"}]},
    OpenAIResponses: {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "onetwo"}]}],
    },
    AnthropicChat: {"content": [{"type": "text", "text": "onetwo"}], "stop_reason": "end_turn", "usage": {}},
}


def module_of(error: BaseException | None) -> str:
    return type(error).__module__.split(".")[0]


def failing(status: int, body: Any, headers: dict[str, str] | None = None) -> Any:
    async def script(connection: Any) -> None:
        await connection.answer(status, body, headers)

    return script


async def test_bytes_that_come_one_by_one_make_the_same(serve: Any, kind: type[Model]) -> None:
    async def slowly(connection: Any) -> None:
        await connection.start()
        for item in STREAMS[kind]:
            name = f"event: {item['type']}\r\n" if "type" in item else ""
            data = item if isinstance(item, str) else json.dumps(item)
            for byte in f": ping\r\n\r\n{name}data: {data}\r\n\r\n".encode():
                await connection.send(bytes([byte]))
                await anyio.lowlevel.checkpoint()

    async with serve(slowly) as wire:
        message = await wire.streamed(kind)
    assert (message.text, message.finish_reason) == ("onetwo", "stop")


async def test_a_chunk_is_there_before_the_next_is_sent(serve: Any, kind: type[Model]) -> None:
    seen = anyio.Event()

    async def in_step(connection: Any) -> None:
        await connection.start()
        await connection.send_events(STREAMS[kind][0])
        await seen.wait()
        await connection.send_events(*STREAMS[kind][1:])

    async with serve(in_step) as wire, wire.model(kind) as model, aclosing(model.stream(HI)) as stream:
        assert (await anext(stream)).text == "one"
        seen.set()
        assert concat([chunk async for chunk in stream]).text == "two"


def cut(kind: type[Model], *, chunked: bool, after: int) -> Any:
    """Make a server that breaks off; of a chunked body one knows that more should come."""

    async def script(connection: Any) -> None:
        await connection.start({"transfer-encoding": "chunked"} if chunked else None)
        for item in STREAMS[kind][:after]:
            name = f"event: {item['type']}\n" if "type" in item else ""
            data = f"{name}data: {json.dumps(item)}\n\n"
            await connection.send(f"{len(data):x}\r\n{data}\r\n" if chunked else data)

    return script


@pytest.mark.parametrize("chunked", [True, False], ids=["known to be cut", "just over"])
@pytest.mark.parametrize("after", [0, 1])
async def test_a_stream_that_breaks_off_is_an_error_after_what_came(
    serve: Any, kind: type[Model], after: int, chunked: bool
) -> None:
    async with serve(cut(kind, chunked=chunked, after=after)) as wire, wire.model(kind) as model:
        stream = model.stream(HI)
        async with aclosing(stream):
            for _ in range(after):
                assert (await anext(stream)).text == "one"
            with pytest.raises(Unavailable, match="broke off") as caught:
                await anext(stream)
    if chunked:
        assert isinstance(caught.value.__cause__, httpx2.RemoteProtocolError)


async def test_an_event_that_is_cut_in_the_middle_is_a_broken_stream(serve: Any, kind: type[Model]) -> None:
    async def script(connection: Any) -> None:
        await connection.start()
        await connection.send('data: {"type": "response.output_te')

    async with serve(script) as wire:
        with pytest.raises(Unavailable, match="broke off"):
            await wire.streamed(kind)


async def test_an_answer_in_one_piece_that_breaks_off_is_an_error(serve: Any, kind: type[Model]) -> None:
    async def script(connection: Any) -> None:
        await connection.head(200, {"content-type": "application/json", "content-length": "1000"})
        await connection.send('{"id": ')

    async with serve(script) as wire:
        with pytest.raises(Unavailable) as caught:
            await wire.generated(kind)
    assert caught.value.__cause__ is not None


async def test_a_server_that_hangs_up_is_unavailable(serve: Any, kind: type[Model]) -> None:
    async def script(connection: Any) -> None:
        await connection.stream.aclose()

    async with serve(script) as wire:
        for ask in (wire.generated, wire.streamed):
            with pytest.raises(Unavailable) as caught:
                await ask(kind)
            assert module_of(caught.value.__cause__) in {"openai", "anthropic"}


async def test_a_server_that_is_not_there_is_unavailable(serve: Any, kind: type[Model]) -> None:
    async with serve({}) as wire:
        pass
    with pytest.raises(Unavailable) as caught:
        await wire.generated(kind)
    assert caught.value.retryable


@pytest.mark.parametrize("body", [b"<html>502 Bad Gateway</html>", b"", b'{"choices": [', b"[1, 2]", b"null"])
async def test_an_answer_that_is_no_json_is_malformed(serve: Any, kind: type[Model], body: bytes) -> None:
    async with serve(failing(200, body)) as wire:
        with pytest.raises(MalformedResponse) as caught:
            await wire.generated(kind)
        assert caught.value.__cause__ is not None
        assert caught.value.retryable


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "text/plain", "", "text/event-stream"])
@pytest.mark.parametrize("body", ["<html>Sign in: <br>\n\n</html>", ""], ids=["page", "nothing"])
async def test_a_stream_without_any_event_is_malformed(
    serve: Any, kind: type[Model], content_type: str, body: str
) -> None:
    async def script(connection: Any) -> None:
        await connection.head(200, {"content-type": content_type} if content_type else {})
        await connection.send(body)

    async with serve(script) as wire:
        with pytest.raises(MalformedResponse, match="check base_url") as caught:
            await wire.streamed(kind)
    assert caught.value.retryable
    assert content_type in str(caught.value) or "broke off" in str(caught.value)


async def test_half_of_a_character_in_a_message_is_a_bad_request_that_says_where(serve: Any, kind: type[Model]) -> None:
    history = [*HI, Message.assistant("hello"), Message.user("three \ud83d halves")]
    async with serve(WHOLE[kind]) as wire:
        for ask in (wire.generated, wire.streamed):
            with pytest.raises(BadRequest, match=r"message 2 has half of a character, '\\ud83d', behind '.*three '"):
                await ask(kind, *history)
            assert wire.seen == []


async def test_an_event_that_is_no_json_is_malformed(serve: Any, kind: type[Model]) -> None:
    async with serve([STREAMS[kind][0], "{not json"]) as wire:
        with pytest.raises(MalformedResponse) as caught:
            await wire.streamed(kind)
    assert isinstance(caught.value.__cause__, json.JSONDecodeError)


async def test_an_event_of_an_unexpected_shape_is_malformed(serve: Any, kind: type[Model]) -> None:
    shapes: dict[type[Any], Any] = {
        OpenAIChat: {"choices": [{"index": 0, "delta": {"tool_calls": 7}}]},
        OpenAIResponses: {"type": "response.output_text.delta"},
        AnthropicChat: {"type": "content_block_start", "index": 0},
    }
    for event in (shapes[kind], [1], "7"):
        async with serve([event]) as wire:
            with pytest.raises(MalformedResponse):
                await wire.streamed(kind)


async def test_too_many_requests_say_how_long_to_wait(serve: Any, kind: type[Model]) -> None:
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}}
    async with serve(failing(429, body, {"retry-after": "17"})) as wire:
        for ask in (wire.generated, wire.streamed):
            with pytest.raises(RateLimited, match=r"Slow down.*wait 17 s") as caught:
                await ask(kind)
            assert (caught.value.retry_after, caught.value.status) == (17.0, 429)
            assert module_of(caught.value.__cause__) in {"openai", "anthropic"}


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, BadRequest),
        (401, AccessDenied),
        (403, AccessDenied),
        (404, BadRequest),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
async def test_a_status_tells_what_is_wrong(
    serve: Any, kind: type[Model], status: int, error: type[ModelError]
) -> None:
    async with serve(failing(status, {"error": {"message": "It is so."}})) as wire:
        with pytest.raises(error, match="It is so") as caught:
            await wire.streamed(kind)
    assert type(caught.value) is error
    assert (caught.value.provider, caught.value.model) == (
        "anthropic" if kind is AnthropicChat else "openai",
        "wire-model",
    )


async def test_the_client_tries_again_as_often_as_it_is_told(serve: Any, kind: type[Model]) -> None:
    busy = failing(503, {"error": {"message": "busy"}}, {"retry-after-ms": "1"})
    async with serve(busy, busy, STREAMS[kind]) as wire:
        assert (await wire.streamed(kind, max_retries=2)).text == "onetwo"
        assert len(wire.seen) == 3
    async with serve(busy, busy, WHOLE[kind]) as wire:
        with pytest.raises(Unavailable):
            await wire.generated(kind, max_retries=1)
        assert len(wire.seen) == 2


async def silent(connection: Any) -> None:
    await connection.until_closed()


async def test_a_server_that_says_nothing_is_given_up(serve: Any, kind: type[Model]) -> None:
    async with serve(silent) as wire:
        with pytest.raises(TimedOut) as caught:
            await wire.generated(kind, timeout=0.05)
        assert isinstance(caught.value, TimeoutError)
        async with wire.model(kind) as model:
            with pytest.raises(TimedOut):
                await anext(model.stream(HI, ModelOptions(extra={"timeout": 0.05})))


async def test_a_stream_that_falls_silent_is_given_up(serve: Any, kind: type[Model]) -> None:
    async def script(connection: Any) -> None:
        await connection.start()
        await connection.send_events(STREAMS[kind][0])
        await connection.until_closed()

    async with serve(script) as wire:
        with pytest.raises(TimedOut):
            await wire.streamed(kind, timeout=0.2)
        await closed(wire)


def endless(kind: type[Model]) -> Any:
    """Make a server that goes on until the client closes the connection."""

    async def script(connection: Any) -> None:
        await connection.start()

        async def talk() -> None:
            while True:
                await connection.send_events(STREAMS[kind][0])
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.until_closed)
            try:
                await talk()
            except anyio.BrokenResourceError:
                connection.closed.set()

    return script


async def closed(wire: Any) -> None:
    """Wait until the server has seen that the client closed the connection."""
    with anyio.fail_after(5):
        await wire.seen[-1].closed.wait()


async def test_leaving_a_stream_early_closes_its_connection(serve: Any, kind: type[Model]) -> None:
    async with serve(endless(kind)) as wire, wire.model(kind) as model:
        async with aclosing(model.stream(HI)) as stream:
            async for _ in stream:
                break
        await closed(wire)


async def test_cancelling_a_stream_closes_its_connection(serve: Any, kind: type[Model]) -> None:
    async def script(connection: Any) -> None:
        await connection.start()
        await connection.send_events(STREAMS[kind][0])
        await connection.until_closed()

    async with serve(script) as wire, wire.model(kind) as model:
        async with anyio.create_task_group() as tasks, aclosing(model.stream(HI)) as stream:
            async for _ in stream:
                tasks.cancel_scope.cancel()
        await closed(wire)


async def test_cancelling_the_wait_for_an_answer_closes_its_connection(serve: Any, kind: type[Model]) -> None:
    async with serve(silent) as wire, wire.model(kind) as model:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(model.generate, HI)
            while not wire.seen:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        await closed(wire)


async def test_an_error_of_the_reader_closes_the_connection(serve: Any, kind: type[Model]) -> None:
    async def read(model: Any) -> None:
        async with aclosing(model.stream(HI)) as stream:
            async for _ in stream:
                raise LookupError("enough")

    async with serve(endless(kind)) as wire, wire.model(kind) as model:
        with pytest.raises(LookupError, match="enough"):
            await read(model)
        await closed(wire)


async def test_leaving_a_graph_that_streams_from_a_model_closes_its_connection(serve: Any, kind: type[Model]) -> None:
    async with serve(endless(kind)) as wire, wire.model(kind) as model:
        graph = Graph[list[Message], Message]()
        graph.add_node("chat", model)
        graph.add_edge(START, "chat")
        graph.add_edge("chat", END)
        async with graph.compile().stream(HI) as reader:
            assert (await reader.receive()).text == "one"
        await closed(wire)


async def test_the_connection_is_used_again_after_a_stream_was_read(mock: Any, kind: type[Model]) -> None:
    async with mock.model(kind) as model:
        for _ in range(3):
            async with aclosing(model.stream([Message.user("say hello")])) as stream:
                assert concat([chunk async for chunk in stream]).text
        client = model._clients.current()._client
        connections = client._transport._pool.connections
        assert len(connections) == 1
