"""Two kinds of provider on loopback: a mock that others wrote, and a server that sends recorded bytes."""

from __future__ import annotations

import importlib
import json
import urllib.request
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from anabranch.flow.models import AnthropicChat, OpenAIChat, OpenAIResponses
from anabranch.schema import Message, concat
from peers import running

HERE = Path(__file__).parent

# These take seconds and make the heap large: they are loaded with the tests, and not within one of them.
for client in ("anthropic.resources.messages", "openai.resources.chat", "openai.resources.responses"):
    importlib.import_module(client)

ProviderModel = OpenAIChat | OpenAIResponses | AnthropicChat


# --- the mock --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mock:
    """A running mock of providers."""

    port: int

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def model(self, kind: type[ProviderModel], name: str = "mock-model", **settings: Any) -> ProviderModel:
        path = "" if kind is AnthropicChat else "/v1"
        return kind(name, api_key="test", base_url=self.base_url + path, max_retries=0, **settings)

    def journal(self) -> list[dict[str, Any]]:
        """Give what the mock was asked, the last request last."""
        with urllib.request.urlopen(f"{self.base_url}/__aimock/journal", timeout=10) as answer:
            found: list[dict[str, Any]] = json.loads(answer.read())
        return found


@pytest.fixture(scope="session")
def mock_cli(npm_peer: Callable[[Path], Path]) -> Path:
    """Give the mock's program."""
    return npm_peer(HERE / "package.json") / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"


@pytest.fixture(scope="session")
def mock(mock_cli: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mock]:
    """Run the mock for all tests of a worker."""

    def command(port: int) -> list[str]:
        return ["node", str(mock_cli), "-p", str(port), "-f", str(HERE / "aimock.json"), "-c", "7", "--strict"]

    with running(command, tmp_path_factory.mktemp("aimock")) as server:
        yield Mock(server.port)


# --- recorded bytes --------------------------------------------------------------------------------------------------


@dataclass
class Connection:
    """The server's end of one connection, with the request that came over it."""

    stream: anyio.abc.SocketStream
    path: str
    headers: dict[str, str]
    body: Any
    closed: anyio.Event
    """Set when the client has closed the connection."""

    async def send(self, data: bytes | str) -> None:
        await self.stream.send(data.encode() if isinstance(data, str) else data)

    async def answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        """Send a whole answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.head(
            status, {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
        )
        await self.send(data)

    async def head(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"{name}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([f"HTTP/1.1 {status} X", *lines, "connection: close", "", ""]))

    async def start(self, headers: dict[str, str] | None = None) -> None:
        """Send the head of a stream of events, whose length nobody knows."""
        await self.head(200, {"content-type": "text/event-stream", **(headers or {})})

    async def send_events(self, *data: Any) -> None:
        """Send events; what has a type is named by it."""
        for item in data:
            await self.send(written(item))

    async def until_closed(self) -> None:
        """Wait until the client closes the connection."""
        try:
            while True:
                await self.stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            self.closed.set()


def written(item: Any) -> str:
    """Write one event."""
    name = f"event: {item['type']}\n" if isinstance(item, dict) and "type" in item else ""
    return f"{name}data: {item if isinstance(item, str) else json.dumps(item)}\n\n"


@dataclass
class Wire:
    """A server whose answers are written by a test."""

    base_url: str
    seen: list[Connection]

    def model(self, kind: type[ProviderModel], name: str = "wire-model", **settings: Any) -> ProviderModel:
        path = "" if kind is AnthropicChat else "/v1"
        defaults: dict[str, Any] = {"api_key": "test", "max_retries": 0}
        return kind(name, base_url=self.base_url + path, **{**defaults, **settings})

    async def generated(self, kind: type[ProviderModel], *history: Message, **settings: Any) -> Message:
        """Ask for a whole message."""
        async with self.model(kind, **settings) as model:
            return await model.generate(history or [Message.user("hi")])

    async def streamed(self, kind: type[ProviderModel], *history: Message, **settings: Any) -> Message:
        """Ask for a stream, and give what its chunks make."""
        async with (
            self.model(kind, **settings) as model,
            aclosing(model.stream(history or [Message.user("hi")])) as stream,
        ):
            return concat([chunk async for chunk in stream])

    @property
    def request(self) -> Any:
        """What was asked last."""
        return self.seen[-1].body


Reply = Callable[[Connection], Awaitable[None]] | dict[str, Any] | list[Any]
"""What a server does with a request: a function of the connection, a JSON answer, or the events of a stream."""


@pytest.fixture
def serve() -> Callable[..., AbstractAsyncContextManager[Wire]]:
    """Give what starts a server: ``async with serve(reply, ...) as wire``; the last reply serves what is left over."""
    return _serve


@asynccontextmanager
async def _serve(*replies: Reply) -> AsyncGenerator[Wire]:
    seen: list[Connection] = []

    async def handle(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            try:
                connection = await read_request(stream)
            except anyio.EndOfStream:
                return
            reply = replies[min(len(seen), len(replies) - 1)]
            seen.append(connection)
            with suppress(anyio.BrokenResourceError):
                await carry_out(reply, connection)

    async with AsyncExitStack() as stack:
        listener = await stack.enter_async_context(await anyio.create_tcp_listener(local_host="127.0.0.1"))
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(listener.serve, handle)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        failed: Exception | None = None
        try:
            yield Wire(f"http://127.0.0.1:{port}", seen)
        except Exception as error:  # noqa: BLE001  (goes on below, without the task group around it)
            failed = error
        tasks.cancel_scope.cancel()
    if failed is not None:
        raise failed


async def carry_out(reply: Reply, connection: Connection) -> None:
    if isinstance(reply, dict):
        await connection.answer(200, reply)
    elif isinstance(reply, list):
        await connection.start()
        await connection.send_events(*reply)
    else:
        await reply(connection)


async def read_request(stream: anyio.abc.SocketStream) -> Connection:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += await stream.receive()
    return Connection(stream, first.split()[1], headers, json.loads(body) if body else None, anyio.Event())
