"""What passes between an MCP session and its transport: the end is noted, and broken listings are mended.

The SDK reads a list of tools as a whole: one that is malformed makes all of them unusable. Here the malformed ones are
taken out of the message before the SDK sees it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, cast

import anyio

if TYPE_CHECKING:
    from ._mcp_link import Link

__all__ = ()


@asynccontextmanager
async def watched(transport: AbstractAsyncContextManager[Any], link: Link) -> AsyncGenerator[Any, None]:
    """Open a transport, and watch what it brings."""
    async with transport as (reader, writer):
        yield WatchedReader(reader, link), writer


class WatchedReader:
    """The reading end of a transport."""

    def __init__(self, reader: Any, link: Link) -> None:
        self._reader = reader
        self._link = link

    @property
    def last_context(self) -> Any:
        """The context of the sender, where the transport knows it."""
        return getattr(self._reader, "last_context", None)

    async def receive(self) -> Any:
        """Give the next message."""
        try:
            item = await self._reader.receive()
        except anyio.EndOfStream:
            self._link.lose("closed the connection")
            raise
        result: object = getattr(getattr(item, "message", None), "result", None)
        if isinstance(result, dict) and isinstance(cast("dict[str, Any]", result).get("tools"), list):
            self._mend(cast("dict[str, Any]", result))
        return item

    async def aclose(self) -> None:
        """Close the transport's end."""
        await self._reader.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc_info: object) -> None:
        await self.aclose()

    def _mend(self, page: dict[str, Any]) -> None:
        """Take malformed tools out of a page of a listing."""
        kept: list[Any] = []
        for number, tool in enumerate(page["tools"], 1):
            problem = self._problem(page, tool)
            if problem is None:
                kept.append(tool)
            else:
                name = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
                self._link.left_out[name if isinstance(name, str) else f"number {number}"] = problem
        page["tools"] = kept

    def _problem(self, page: dict[str, Any], tool: Any) -> str | None:
        from mcp_types.methods import validate_server_result
        from pydantic import ValidationError

        schema: Any = cast("dict[str, Any]", tool).get("inputSchema") if isinstance(tool, dict) else None
        if isinstance(schema, dict):
            cast("dict[str, Any]", schema).setdefault("type", "object")
        client = self._link.client
        version = client.protocol_version if client is not None else "2025-11-25"
        try:
            validate_server_result("tools/list", version, {**page, "tools": [tool]})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            return f"{'.'.join(str(place) for place in first['loc'][2:])}: {first['msg']}".removeprefix(": ")
        return None
