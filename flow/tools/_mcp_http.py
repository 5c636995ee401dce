"""The HTTP client under an MCP session: what goes wrong with one request fails that request, and says how.

In the SDK's transport an exception of one POST ends the connection with all its calls. Here it becomes a JSON-RPC error
that answers that POST; its ``data`` says whether the request can have reached the server, so that one which cannot may
be sent again. Nothing but this module's importers need ``httpx2``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, cast

import httpx2
from typing_extensions import override

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

__all__ = ()

UNSENT = {"not sent", "session"}
"""The kinds of failure after which a request may be sent again."""

_NOTIFICATION_SECONDS = 10.0
"""How long the answer to a notification is waited for; other messages wait behind it."""
_FAREWELL_SECONDS = 2.0
"""How long the end of a session may take to be told."""
_KEPT_OPEN_SECONDS = 300.0
"""How long a stream may be silent that the server keeps open for messages of its own."""


class HttpClient(httpx2.AsyncClient):
    """Turns what goes wrong with a POST into an answer to it."""

    def __init__(
        self,
        *,
        headers: Mapping[str, str],
        limit: int,
        connect_timeout: float,
        call_timeout: float | None,
        failed: Callable[[str, str], None],
    ) -> None:
        reading = None if call_timeout is None else max(call_timeout + 10, _KEPT_OPEN_SECONDS)
        super().__init__(headers=headers, timeout=httpx2.Timeout(connect_timeout, read=reading))
        self._limit = limit
        self._tell = failed
        self.tasks: TaskGroup | None = None
        """Where messages are sent that nobody should wait for."""
        self.status = 0
        """The status of the last POST; 0 before there was one, and when it had no answer."""
        self.is_lost = False
        """Whether the server is gone, or has forgotten the session."""

    @override
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request; a POST always has an answer."""
        if request.method == "DELETE":
            return await self._end_session(request, options)
        if request.method != "POST":
            return await super().send(request, **options)
        method = _method_of(request)
        if method == "notifications/cancelled" and self.tasks is not None:
            # Other messages wait behind this one, and a server that is asked to stop a call is often one that hangs.
            self.tasks.start_soon(self._send_aside, request)
            return httpx2.Response(202, request=request)
        if method.startswith("notifications/"):
            _hurry(request, _NOTIFICATION_SECONDS)
        return await self._post(request, options)

    async def _post(self, request: httpx2.Request, options: Mapping[str, Any]) -> httpx2.Response:
        self.status = 0
        try:
            response = await super().send(request, **options)
        except httpx2.PoolTimeout:
            return self._failed(request, "busy", "too many calls wait for the server")
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            return self._failed(request, "not sent", f"the server cannot be reached: {_text(error)}")
        except httpx2.RequestError as error:
            return self._failed(request, "cut", f"the connection broke: {_text(error)}")
        self.status = response.status_code
        if "mcp-session-id" in request.headers and await _forgot_session(response):
            await response.aclose()
            return self._failed(request, "session", "the server has forgotten the session")
        if response.headers.get("content-type", "").lower().startswith("application/json"):
            if not response.is_stream_consumed:
                response.stream = _Limited(cast("httpx2.AsyncByteStream", response.stream), self._limit)
        elif response.status_code >= 400:
            await response.aclose()
            return self._failed(request, "status", f"it answered HTTP {response.status_code}")
        return response

    async def _send_aside(self, request: httpx2.Request) -> None:
        _hurry(request, _NOTIFICATION_SECONDS)
        with suppress(httpx2.RequestError):
            await super().send(request)

    async def _end_session(self, request: httpx2.Request, options: Mapping[str, Any]) -> httpx2.Response:
        """Tell the server that the session ends, if there is one that would listen."""
        if not self.is_lost:
            _hurry(request, _FAREWELL_SECONDS)
            with suppress(httpx2.RequestError):
                return await super().send(request, **options)
        return httpx2.Response(204, request=request)

    def _failed(self, request: httpx2.Request, kind: str, text: str) -> httpx2.Response:
        """Answer a request that has no answer."""
        self.is_lost = self.is_lost or kind in UNSENT
        self._tell(kind, text)
        error = {"code": -32000, "message": text, "data": {"anabranch": kind}}
        return httpx2.Response(503, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)


class _Limited(httpx2.AsyncByteStream):
    """The body of an answer, up to a number of bytes."""

    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        chunks = cast("AsyncGenerator[bytes, None]", aiter(self._stream))
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    length += len(chunk)
                    if length > self._limit:
                        raise httpx2.StreamError(f"it exceeded the {self._limit} byte limit")
                    yield chunk
        except httpx2.RequestError as error:  # of the errors of a body, only the other kind fails just its request
            raise httpx2.StreamError(f"the connection broke: {_text(error)}") from error

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()


def _method_of(request: httpx2.Request) -> str:
    """Give the method of the message in a POST; empty for an answer to the server."""
    message: object = json.loads(request.content)
    return str(cast("dict[str, Any]", message).get("method", "")) if isinstance(message, dict) else ""


def _hurry(request: httpx2.Request, seconds: float) -> None:
    """Give a request less time than others have."""
    request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), seconds)


async def _forgot_session(response: httpx2.Response) -> bool:
    """Tell whether an answer says that the server does not know the session, as after a restart.

    The protocol's word for it is 404; many servers say 400 with a text instead.
    """
    if response.status_code == 404:
        return True
    if response.status_code != 400:
        return False
    response.stream = _Limited(cast("httpx2.AsyncByteStream", response.stream), 10_000)
    try:
        body = (await response.aread()).lower()
    except httpx2.StreamError:
        return False
    return b"session" in body or b"not initialized" in body


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
