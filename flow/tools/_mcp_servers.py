"""The ways of reaching an MCP server: a child process, streamable HTTP, the older SSE, an object in this process."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import anyio

from ... import __version__
from ._mcp_watch import watched

if TYPE_CHECKING:
    from mcp import Client

    from ._mcp_http import HttpClient
    from ._mcp_link import Link

__all__ = ()

_LAUNCHERS = {"npx", "uvx", "bunx", "pipx", "pnpm", "yarn", "docker", "uv"}


@asynccontextmanager
async def _client(server: Any, mode: str = "auto") -> AsyncGenerator[Client, None]:
    from mcp import Client
    from mcp_types import Implementation

    about = Implementation(name="anabranch", version=__version__)
    async with Client(server, mode=mode, cache=None, client_info=about) as client:
        yield client


@dataclass
class StdioWay:
    """A server that is started here as a child process."""

    command: Sequence[str]
    env: Mapping[str, str]
    cwd: str | os.PathLike[str] | None
    limit: int
    label: str
    is_refused: bool = False

    @asynccontextmanager
    async def open(self, link: Link) -> AsyncGenerator[Client, None]:
        """Start it, and connect."""
        from ._mcp_stdio import open_stdio

        streams = open_stdio(
            self.command,
            env=self.env,
            cwd=self.cwd,
            label=self.label,
            limit=self.limit,
            ends=link.ends,
            lost=link.lose,
            hurry=lambda: link.in_doubt or not link.ready.is_set(),
        )
        async with _client(watched(streams, link)) as client:
            yield client

    def explain(self, error: BaseException) -> str:
        """Say why it could not be started."""
        if isinstance(error, OSError):
            return f"{self.command[0]!r} cannot be started: {error.strerror or error}"
        return _explain(error)


@dataclass
class HttpWay:
    """A server at an address."""

    url: str
    headers: Mapping[str, str]
    limit: int
    connect_timeout: float
    call_timeout: float | None
    kind: Literal["http", "sse"]
    _http: HttpClient | None = field(default=None, init=False)

    @property
    def is_refused(self) -> bool:
        """Whether the server knows no POST at this address, as those that speak only the older protocol."""
        status = self._http.status if self._http is not None else 0
        return 400 <= status < 500 and status not in {401, 403, 429}

    @asynccontextmanager
    async def open(self, link: Link) -> AsyncGenerator[Client, None]:
        """Connect."""
        from ._mcp_http import UNSENT, HttpClient

        legacy = self.kind == "sse"

        def failed(kind: str, text: str) -> None:
            if legacy:  # the answer was to come another way, and will not
                link.lose_calls(text)
            elif kind in UNSENT:
                link.ends()

        self._http = http = HttpClient(
            headers=self.headers,
            limit=self.limit,
            connect_timeout=self.connect_timeout,
            call_timeout=self.call_timeout,
            failed=failed,
        )
        transport = self._sse(http) if legacy else self._streamable(http)
        async with _client(watched(transport, link), mode="legacy" if legacy else "auto") as client:
            yield client

    @asynccontextmanager
    async def _streamable(self, http: HttpClient) -> AsyncGenerator[Any, None]:
        from mcp.client.streamable_http import streamable_http_client

        async with http, anyio.create_task_group() as http.tasks:
            try:
                async with streamable_http_client(self.url, http_client=http, max_sse_event_size=self.limit) as streams:
                    yield streams
            finally:
                http.tasks.cancel_scope.cancel()

    def _sse(self, http: HttpClient) -> AbstractAsyncContextManager[Any]:
        from mcp.client.sse import sse_client

        def given(headers: Any = None, timeout: Any = None, auth: Any = None) -> HttpClient:
            return http

        return sse_client(self.url, httpx_client_factory=given)

    def explain(self, error: BaseException) -> str:
        """Say why there is no connection."""
        status = self._http.status if self._http is not None else 0
        response = getattr(error, "response", None)
        status = getattr(response, "status_code", status)
        if status in {401, 403}:
            return f"the server answered HTTP {status}; give it what it wants in headers="
        if status >= 400:
            return f"the server answered HTTP {status}"
        return _explain(error)


@dataclass
class LocalWay:
    """A server in this process, or a transport of the SDK's."""

    server: Any
    is_refused: bool = False

    def open(self, link: Link) -> AbstractAsyncContextManager[Client]:
        """Connect."""
        return _client(self.server)

    def explain(self, error: BaseException) -> str:
        """Say why there is no connection."""
        return _explain(error)


def _explain(error: BaseException) -> str:
    text = str(error).strip()
    if not text or isinstance(error, (AttributeError, TypeError, KeyError)):
        return f"{type(error).__name__}: {text}"
    return text if len(text) <= 500 else f"{text[:500]}…"


def label_of_command(command: Sequence[str]) -> str:
    """Name a server by its command, without arguments that may be secret."""
    program, *arguments = command
    name = os.path.basename(program)
    if arguments[:1] == ["-m"]:
        return " ".join([name, *arguments[:2]])
    if name.removesuffix(".cmd") in _LAUNCHERS:
        return " ".join([name, *[a for a in arguments if not a.startswith("-")][:1]])
    return name


def label_of_url(url: str) -> str:
    """Name a server by its address, without what may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
