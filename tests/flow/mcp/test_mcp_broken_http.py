"""A server at an address that refuses, hangs, breaks off, forgets or floods costs a call, never a run."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

import anyio
import pytest

from anabranch.compose import ToolTimeoutError
from anabranch.flow.tools import McpConnectionError, McpError, mcp_tools
from anabranch.schema import TextPart, ToolResult

pytestmark = pytest.mark.anyio

# The classes are in conftest.py, which tests cannot import.
Request = Any
HttpServer = Any
Serve = Callable[..., AbstractAsyncContextManager[HttpServer]]


SOON = 20.0
"""Seconds: far from what would end a call or a connection otherwise, also on a busy machine."""


def text_of(result: ToolResult) -> str:
    return "".join(part.text for part in result.parts if isinstance(part, TextPart))


@contextmanager
def within(seconds: float) -> Generator[None]:
    began = time.perf_counter()
    yield
    took = time.perf_counter() - began
    assert took < seconds, f"took {took:.2f} s"


async def no_call(request: Request) -> None:
    raise AssertionError("this test makes no call")


# --- connecting ------------------------------------------------------------------------------------------------------


async def test_an_address_where_nobody_listens_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with within(SOON), pytest.raises(McpConnectionError, match=f"cannot connect to .*:{port}/mcp: .*cannot be reached"):
        async with mcp_tools(url=f"http://user:secret@127.0.0.1:{port}/mcp?token=secret") as tools:
            assert not tools


async def test_secrets_of_an_address_are_in_no_message() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(McpConnectionError) as raised:
        async with mcp_tools(url=f"http://user:secret@127.0.0.1:{port}/mcp?token=secret"):
            pass
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_server_that_wants_to_know_who_asks_is_reported_as_such(
    serve: Serve, http_server: type[HttpServer], status: int
) -> None:
    async def refuse(request: Request) -> bool:
        await request.answer(status)
        return True

    async with serve(http_server(no_call, refuse)) as server:
        with within(SOON), pytest.raises(McpConnectionError, match=f"HTTP {status}; give it what it wants in headers="):
            async with mcp_tools(url=server.url):
                pass
        assert "GET" not in server.seen  # no other way is tried with it


async def test_headers_go_with_every_request(serve: Serve, http_server: type[HttpServer]) -> None:
    async def check(request: Request) -> bool:
        assert request.headers["authorization"] == "Bearer abc"
        return False

    async def answer(request: Request) -> None:
        await request.text("you may")

    async with (
        serve(http_server(answer, check)) as server,
        mcp_tools(url=server.url, headers={"Authorization": "Bearer abc"}) as tools,
    ):
        assert text_of(await tools[0].run()) == "you may"


async def test_a_server_of_neither_protocol_is_reported(serve: Serve, http_server: type[HttpServer]) -> None:
    async def refuse(request: Request) -> bool:
        await request.answer(404)
        return True

    async with serve(http_server(no_call, refuse)) as server:
        with within(SOON), pytest.raises(McpConnectionError, match="the server answered HTTP 404; the server answered"):
            async with mcp_tools(url=server.url):
                pass


async def test_a_server_that_takes_connections_and_never_answers_is_given_up_in_time(
    serve: Serve, http_server: type[HttpServer]
) -> None:
    async def hang(request: Request) -> bool:
        await request.hang()
        return True

    async with serve(http_server(no_call, hang)) as server:
        with within(SOON), pytest.raises(McpConnectionError, match=r"no answer within 0\.5 s"):
            async with mcp_tools(url=server.url, connect_timeout=0.5):
                pass


async def test_a_server_that_hangs_while_listing_is_given_up_in_time(
    serve: Serve, http_server: type[HttpServer]
) -> None:
    async def hang(request: Request) -> bool:
        if request.call == "tools/list":
            await request.hang()
        return bool(request.call == "tools/list")

    async with serve(http_server(no_call, hang)) as server:
        with within(SOON), pytest.raises(McpConnectionError, match=r"did not list its tools within 0\.5 s"):
            async with mcp_tools(url=server.url, list_timeout=0.5):
                pass


# --- calling ---------------------------------------------------------------------------------------------------------


async def test_a_call_that_hangs_ends_in_time_and_the_next_one_works(
    serve: Serve, http_server: type[HttpServer]
) -> None:
    calls: list[Request] = []

    async def hang_once(request: Request) -> None:
        calls.append(request)
        await (request.hang() if len(calls) == 1 else request.text("here I am"))

    async with serve(http_server(hang_once)) as server, mcp_tools(url=server.url, call_timeout=0.3) as tools:
        with within(SOON), pytest.raises(ToolTimeoutError):
            await tools[0].run()
        assert text_of(await tools[0].run()) == "here I am"
    assert server.seen.count("initialize") == 1


async def test_a_server_that_hangs_in_all_it_does_fails_each_call_in_time(
    serve: Serve, http_server: type[HttpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.flow.tools._mcp_link._PROBE_SECONDS", 0.2)
    hanging = False

    async def hang(request: Request) -> bool:
        if hanging:
            await request.hang()
        return hanging

    async with serve(http_server(no_call, hang)) as server:
        with within(SOON):
            async with mcp_tools(url=server.url, call_timeout=0.3, connect_timeout=1) as tools:
                hanging = True
                with within(SOON), pytest.raises(ToolTimeoutError):
                    await tools[0].run()
                for _ in range(2):
                    with within(SOON), pytest.raises(McpConnectionError, match=r"no answer within 1 s"):
                        await tools[0].run()


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_connection_that_breaks_in_a_call_fails_it_and_is_not_sent_again(
    serve: Serve, http_server: type[HttpServer], streamed: bool
) -> None:
    calls: list[Request] = []

    async def break_once(request: Request) -> None:
        calls.append(request)
        if len(calls) > 1:
            await request.text("again")
        elif streamed:
            await request.head(200, {"content-type": "text/event-stream"})
            await request.event(
                {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
            )
        else:
            await request.head(200, {"content-type": "application/json", "content-length": "1000"})
            await request.stream.send(b'{"jsonrpc"')

    async with serve(http_server(break_once)) as server, mcp_tools(url=server.url) as tools:
        with within(SOON), pytest.raises(McpError):
            await tools[0].run()
        assert len(calls) == 1
        assert text_of(await tools[0].run()) == "again"


async def test_a_connection_that_breaks_before_the_answer_fails_the_call(
    serve: Serve, http_server: type[HttpServer]
) -> None:
    calls: list[Request] = []

    async def break_off(request: Request) -> None:
        calls.append(request)

    async with serve(http_server(break_off)) as server, mcp_tools(url=server.url) as tools:
        with (
            within(SOON),
            pytest.raises(McpConnectionError, match="may or may not have had its effect: the connection broke"),
        ):
            await tools[0].run()
    assert len(calls) == 1


@pytest.mark.parametrize(("status", "words"), [(404, "Not Found"), (400, "Bad Request: No valid session ID provided")])
async def test_a_server_that_has_forgotten_the_session_gets_a_new_one_unnoticed(
    serve: Serve, http_server: type[HttpServer], status: int, words: str
) -> None:
    forgotten = False

    async def forget(request: Request) -> bool:
        if not forgotten or request.headers.get("mcp-session-id") != "s1":
            return False
        await request.answer(status, {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": words}})
        return True

    async def answer(request: Request) -> None:
        await request.text(request.headers["mcp-session-id"])

    async with serve(http_server(answer, forget, session="s1")) as server, mcp_tools(url=server.url) as tools:
        assert text_of(await tools[0].run()) == "s1"
        forgotten, server.session = True, "s2"
        assert text_of(await tools[0].run()) == "s2"
        assert server.seen.count("tools/call") == 3


async def test_a_server_that_always_forgets_fails_the_call(serve: Serve, http_server: type[HttpServer]) -> None:
    async def forget(request: Request) -> None:
        await request.answer(404)

    async with serve(http_server(forget, session="s")) as server, mcp_tools(url=server.url) as tools:
        with within(SOON), pytest.raises(McpConnectionError, match=r"did not reach .* forgotten the session"):
            await tools[0].run()
    assert server.seen.count("tools/call") == 2


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.may_leak  # what reads the answer, in the SDK and its HTTP client, is dropped in the middle
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
async def test_an_answer_that_is_too_large_is_refused_and_costs_only_its_call(
    serve: Serve, http_server: type[HttpServer], streamed: bool
) -> None:
    async def flood(request: Request) -> None:
        result = {"content": [{"type": "text", "text": "x" * request.message["params"]["arguments"]["size"]}]}
        if streamed:
            await request.head(200, {"content-type": "text/event-stream"})
            await request.event({"jsonrpc": "2.0", "id": request.message["id"], "result": result})
        else:
            await request.result(result)

    async with serve(http_server(flood)) as server, mcp_tools(url=server.url, max_message_bytes=50_000) as tools:
        with within(SOON), pytest.raises(McpError, match="too large and was refused; ask it for less"):
            await tools[0].run({"size": 1_000_000})
        assert text_of(await tools[0].run({"size": 10})) == "x" * 10


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"jsonrpc": "2.0", "id": 1, "result": 3}', b"\xff\xfe"])
async def test_an_answer_that_is_no_message_fails_the_call(
    serve: Serve, http_server: type[HttpServer], body: bytes
) -> None:
    async def babble(request: Request) -> None:
        await request.answer(200, body)

    async with serve(http_server(babble)) as server, mcp_tools(url=server.url, call_timeout=1) as tools:
        with within(SOON), pytest.raises((McpError, ToolTimeoutError)):
            await tools[0].run()


@pytest.mark.parametrize("status", [400, 429, 500, 503])
async def test_an_answer_with_an_error_status_fails_the_call(
    serve: Serve, http_server: type[HttpServer], status: int
) -> None:
    async def fail(request: Request) -> None:
        await request.answer(status, b"no", **{"content-type": "text/plain"})

    async with serve(http_server(fail)) as server, mcp_tools(url=server.url) as tools:
        with within(SOON), pytest.raises(McpError, match=f"refused the call: .*{status}"):
            await tools[0].run()


async def test_a_server_that_hangs_when_the_session_is_ended_is_left_in_time(
    serve: Serve, http_server: type[HttpServer]
) -> None:
    async def hang(request: Request) -> bool:
        if request.method == "DELETE":
            await request.hang()
        return bool(request.method == "DELETE")

    async with serve(http_server(no_call, hang, session="s")) as server:
        with within(SOON):
            async with mcp_tools(url=server.url):
                pass
    assert "DELETE" in server.seen


async def test_a_cancelled_call_closes_its_connection_and_others_go_on(
    serve: Serve, http_server: type[HttpServer]
) -> None:
    async def answer(request: Request) -> None:
        await (request.hang() if request.message["params"]["arguments"].get("hang") else request.text("fine"))

    async with serve(http_server(answer)) as server, mcp_tools(url=server.url) as tools:
        with within(SOON), anyio.move_on_after(0.2) as scope:
            await tools[0].run({"hang": True})
        assert scope.cancelled_caught
        assert text_of(await tools[0].run()) == "fine"
