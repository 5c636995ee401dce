"""MCP servers: those that others wrote, started as they are, and one that does wrong what a test wants."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import mcp.server  # noqa: F401  # pyright: ignore[reportUnusedImport]  (within a test it would take seconds)
import pytest

from anabranch.flow.tools import McpTool, mcp_tools
from peers import Server, running

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def everything_script(npm_peer: Callable[[Path], Path]) -> Path:
    """Give the program of the npm server."""
    package = npm_peer(HERE / "package.json") / "node_modules" / "@modelcontextprotocol" / "server-everything"
    return package / "dist" / "index.js"


def node(script: Path, sort: str) -> Callable[[int], list[str]]:
    return lambda port: ["node", str(script), sort]


@pytest.fixture(scope="session")
def everything(everything_script: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run the npm server over streamable HTTP for all tests of a worker; gives its address."""
    with running(node(everything_script, "streamableHttp"), tmp_path_factory.mktemp("everything")) as server:
        yield f"http://127.0.0.1:{server.port}/mcp"


@pytest.fixture
def restartable(everything_script: Path, tmp_path: Path) -> Iterator[Server]:
    """Run the npm server over streamable HTTP for one test, which may stop and start it."""
    with running(node(everything_script, "streamableHttp"), tmp_path) as server:
        yield server


@pytest.fixture
def old_restartable(everything_script: Path, tmp_path: Path) -> Iterator[Server]:
    """Run the npm server over SSE for one test, which may stop and start it."""
    with running(node(everything_script, "sse"), tmp_path) as server:
        yield server


@pytest.fixture(scope="session")
def old_everything(everything_script: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run the npm server as one that knows only the older protocol, SSE."""
    with running(node(everything_script, "sse"), tmp_path_factory.mktemp("old")) as server:
        yield f"http://127.0.0.1:{server.port}/sse"


@dataclass
class Request:
    """A request to a server of a test, and what sends the answer."""

    stream: anyio.abc.SocketStream
    method: str
    headers: dict[str, str]
    message: Any

    @property
    def call(self) -> str:
        """The method of the message, or that of the request if there is none."""
        return str(self.message.get("method", "")) if self.message is not None else self.method

    async def answer(self, status: int, body: Any = None, **headers: str) -> None:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        await self.head(status, {"content-type": "application/json", "content-length": str(len(data)), **headers})
        await self.stream.send(data)

    async def result(self, result: Any, **headers: str) -> None:
        """Answer with a JSON-RPC result."""
        message = {"jsonrpc": "2.0", "id": self.message["id"], "result": result}
        await self.answer(200, message, **{name.replace("_", "-"): value for name, value in headers.items()})

    async def text(self, words: str) -> None:
        """Answer a call with a text."""
        await self.result({"content": [{"type": "text", "text": words}]})

    async def head(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"{name}: {value}" for name, value in headers.items()]
        await self.stream.send("\r\n".join([f"HTTP/1.1 {status} X", *lines, "connection: close", "", ""]).encode())

    async def event(self, message: Any) -> None:
        """Send an event of a stream of which the head is out."""
        await self.stream.send(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")

    async def hang(self) -> None:
        """Send nothing until the client goes."""
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                await self.stream.receive()


@dataclass
class HttpServer:
    """A server over streamable HTTP whose calls are answered by a test, and all else as it should be."""

    on_call: Callable[[Request], Awaitable[None]]
    before: Callable[[Request], Awaitable[bool]] | None = None
    """Sees every request first; says whether it answered."""
    session: str = ""
    url: str = ""
    seen: list[str] = field(default_factory=list[str])

    async def handle(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                request = await read_request(stream)
                self.seen.append(request.call)
                if self.before is None or not await self.before(request):
                    await self.answer(request)

    async def answer(self, request: Request) -> None:
        match request.call:
            case "initialize":
                about = {"name": "test", "version": "1"}
                head = {"mcp_session_id": self.session} if self.session else {}
                result: Any = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
                await request.result(result, **head)
            case "tools/list":
                await request.result({"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]})
            case "tools/call":
                await self.on_call(request)
            case method if method.startswith("notifications/"):
                await request.answer(202)
            case "GET":
                await request.answer(405)
            case "DELETE":
                await request.answer(204)
            case _:
                error = {"code": -32601, "message": "no such method"}
                await request.answer(200, {"jsonrpc": "2.0", "id": request.message["id"], "error": error})


async def read_request(stream: anyio.abc.SocketStream) -> Request:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += await stream.receive()
    return Request(stream, first.split()[0], headers, json.loads(body) if body else None)


@pytest.fixture
def serve() -> Callable[[HttpServer], AbstractAsyncContextManager[HttpServer]]:
    """Give what runs a server of a test: ``async with serve(server)``."""
    return _serve


@asynccontextmanager
async def _serve(server: HttpServer, port: int = 0) -> AsyncGenerator[HttpServer]:
    async with AsyncExitStack() as stack:
        listener = await stack.enter_async_context(
            await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
        )
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(listener.serve, server.handle)
        server.url = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}/mcp"
        failed: Exception | None = None
        try:
            yield server
        except Exception as error:  # noqa: BLE001  (goes on below, without the task group around it)
            failed = error
        tasks.cancel_scope.cancel()
    if failed is not None:
        raise failed


@pytest.fixture
def http_server() -> type[HttpServer]:
    """Give the class of servers that tests make."""
    return HttpServer


Broken = Callable[..., AbstractAsyncContextManager[list[McpTool]]]


@pytest.fixture
def broken() -> Broken:
    """Give what connects to the broken server: ``async with broken("hang-list", call_timeout=1) as tools``."""

    def connect(*faults: str, **settings: Any) -> AbstractAsyncContextManager[list[McpTool]]:
        return mcp_tools(stdio=[sys.executable, "-I", "-S", str(HERE / "broken_server.py"), *faults], **settings)

    return connect


@pytest.fixture
def by_name() -> Callable[[list[McpTool]], dict[str, McpTool]]:
    """Give what sorts tools by their names."""
    return lambda tools: {tool.info.name: tool for tool in tools}
