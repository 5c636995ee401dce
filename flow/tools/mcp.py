"""Tools of MCP servers: ``async with mcp_tools(…) as tools``."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_args

from anyio import to_thread

from ...compose import ToolTimeoutError
from ...schema import MissingExtraError, Risk, ToolDefinitionError, ToolInfo, ToolResult
from ._mcp_link import Connection, Way, call_tool, reason_of
from ._mcp_listing import chosen, info_of, named, risk_of, usable_tools
from ._mcp_results import tool_result
from ._mcp_servers import HttpWay, LocalWay, StdioWay, label_of_command, label_of_url
from .errors import McpConnectionError, McpError, McpWarning

if TYPE_CHECKING:
    from mcp_types import Tool as ListedTool

__all__ = ("McpTool", "mcp_tools")

_PREFIX = re.compile(r"[A-Za-z0-9_-]{0,32}")


class McpTool:
    """A tool of an MCP server; :func:`mcp_tools` makes it.

    The server validates the arguments. Its answer becomes a :class:`~anabranch.schema.ToolResult`, whose ``extra`` has
    the ``structured_content`` if there is any.
    """

    info: ToolInfo
    """What the model is told; ``extra["mcp"]`` has what else the server said of the tool."""
    risk: Risk
    """What a call may do; ``confirm_risky`` asks a person before calls that are not safe."""
    parallel: bool = True
    """Calls may run at once."""
    server: str
    """What the server is called in messages."""

    def __init__(
        self,
        info: ToolInfo,
        risk: Risk,
        connection: Connection,
        remote_name: str,
        timeout: float | None,
        max_chars: int,
    ) -> None:
        self.info = info
        self.risk = risk
        self.server = connection.label
        self._connection = connection
        self._remote_name = remote_name
        self._timeout = timeout
        self._max_chars = max_chars

    @property
    def remote_name(self) -> str:
        """The tool's name at the server."""
        return self._remote_name

    async def run(self, arguments: Mapping[str, Any] | None = None, /) -> ToolResult:
        """Have the server run the tool.

        Args:
            arguments: Its arguments.

        Returns:
            The result; ``is_error`` if the tool says that it failed.

        Raises:
            ToolTimeoutError: The answer took too long.
            McpConnectionError: The server cannot be reached, or was lost in the call.
            McpError: The server refused the call, or its answer makes no sense or is too large.
        """
        try:
            answer = await call_tool(self._connection, self._remote_name, dict(arguments or {}), self._timeout)
        except TimeoutError as error:
            raise ToolTimeoutError(self.info.name, self._timeout or 0.0) from error
        return tool_result(answer, self._max_chars)

    def __repr__(self) -> str:
        return f"<tool {self.info.name!r} of {self.server}>"


def mcp_tools(  # noqa: PLR0913  (one for each thing that can be set)
    *,
    stdio: Sequence[str] | None = None,
    url: str | None = None,
    server: Any = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    headers: Mapping[str, str] | None = None,
    prefix: str = "",
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    risk: Risk | Mapping[str, Risk] | None = None,
    connect_timeout: float = 30.0,
    list_timeout: float = 30.0,
    call_timeout: float | None = 60.0,
    max_result_chars: int = 100_000,
    max_message_bytes: int = 16_000_000,
) -> AbstractAsyncContextManager[list[McpTool]]:
    """Connect to an MCP server, and use its tools as long as the ``async with`` block lasts.

    A server that is lost is connected to again when a tool is called next. Whatever it does, a call ends: with a
    result, or with an error that a tools node tells the model.

    Args:
        stdio: The command that starts the server as a child process, such as
            ``["python", "-m", "mcp_server_time"]``; it ends with the block.
        url: The address of a server: streamable HTTP, or SSE if it answers that it does not know that.
        server: A server object of the SDK's in this process, or anything else that its ``Client`` takes.
        env: Variables for the child process, which gets only a few of this one's (``PATH``, ``HOME`` and their like).
        cwd: Where the child process starts.
        headers: Headers for every request, such as ``{"Authorization": f"Bearer {token}"}``.
        prefix: Goes in front of all names, so that tools of several servers do not clash.
        include: Which tools to take, by the server's names or patterns such as ``"get_*"``; all if not given.
        exclude: Which of them to leave out, by names or patterns.
        risk: The risk of all tools, or risks by the server's names or patterns. What is not given is taken from what
            the server says: read-only tools are safe, tools that destroy nothing are sensitive, all others
            destructive.
        connect_timeout: How many seconds connecting may take, the start of the server included.
        list_timeout: How many seconds listing the tools may take.
        call_timeout: How many seconds a call may take; None for a server that is trusted to answer always.
        max_result_chars: How much text of a result the model gets; what is more is cut, with a note.
        max_message_bytes: How large a message of the server may be; one that is larger is refused.

    Returns:
        What to enter; it gives a list of tools.

    Raises:
        MissingExtraError: The extra ``mcp`` is not installed.
        ToolDefinitionError: The arguments make no sense.
        McpConnectionError: When entered: the server cannot be reached.
        McpError: When entered: the server lists no tools that could be used, or not those to be included.

    Example:
        >>> from mcp.server import MCPServer
        >>> server = MCPServer("tides")
        >>> @server.tool()
        ... def high_tide(place: str) -> str:
        ...     return f"14:20 at {place}"
        >>> async with mcp_tools(server=server, prefix="sea_") as tools:
        ...     print(tools[0].info.name, (await tools[0].run({"place": "Dover"})).parts[0].text)
        sea_high_tide 14:20 at Dover
    """
    _check_numbers(
        connect_timeout=connect_timeout,
        list_timeout=list_timeout,
        call_timeout=1.0 if call_timeout is None else call_timeout,
        max_result_chars=max_result_chars,
        max_message_bytes=max_message_bytes,
    )
    _check_risks(risk)
    if not _PREFIX.fullmatch(prefix):
        raise ToolDefinitionError(f"prefix is at most 32 of the characters a-z, A-Z, 0-9, _ and -, not {prefix!r}")
    _check_server(stdio, url, server, env=env, cwd=cwd, headers=headers)
    label: str
    ways: list[Way]
    if stdio is not None:
        label = label_of_command(stdio)
        ways = [StdioWay(tuple(stdio), dict(env or {}), cwd, max_message_bytes, label)]
    elif url is not None:
        label = label_of_url(url)
        sort = partial(HttpWay, url, dict(headers or {}), max_message_bytes, connect_timeout, call_timeout)
        ways = [sort("http"), sort("sse")]
    else:
        label = str(getattr(server, "name", None) or type(server).__name__)
        ways = [LocalWay(server)]
    connection = Connection(label, ways, connect_timeout)

    async def listed() -> list[McpTool]:
        tools = await _listed(connection, list_timeout, _patterns(include), _patterns(exclude) or ())
        return [
            McpTool(info_of(name, tool), risk_of(tool, risk), connection, tool.name, call_timeout, max_result_chars)
            for name, tool in named(tools, prefix)
        ]

    return _opened(connection, listed)


@asynccontextmanager
async def _opened(
    connection: Connection, listed: Callable[[], Awaitable[list[McpTool]]]
) -> AsyncGenerator[list[McpTool], None]:
    await _import_mcp()
    async with connection.opened():
        yield await listed()


async def _listed(
    connection: Connection, seconds: float, include: Collection[str] | None, exclude: Collection[str]
) -> list[ListedTool]:
    """Connect, and list the tools that are wanted; those that cannot be used are named in a warning."""
    link = await connection.link()
    try:
        with link.limit(seconds):
            tools = chosen(await usable_tools(link), include, exclude)
    except TimeoutError as error:
        raise McpConnectionError(
            f"the MCP server {connection.label} did not list its tools within {seconds:g} s"
        ) from error
    except McpError as error:
        raise type(error)(f"the MCP server {connection.label} cannot be used: {error}") from error
    except Exception as error:
        raise McpError(
            f"the MCP server {connection.label} does not list its tools: {reason_of(link, error)}"
        ) from error
    connection.is_listed = True
    if link.left_out:
        why = "; ".join(f"{name!r}: {problem}" for name, problem in link.left_out.items())
        text = f"the MCP server {connection.label} lists tools that cannot be used and are left out: {why}"
        warnings.warn(text, McpWarning, stacklevel=2)
    return tools


async def _import_mcp() -> None:
    """Import the SDK, which takes seconds, in a thread: others run in this event loop too."""
    if "mcp.client.client" not in sys.modules:
        await to_thread.run_sync(_import)


def _import() -> None:
    try:
        sdk = import_module("mcp")
    except ImportError as error:
        raise MissingExtraError("mcp", "mcp") from error
    if not hasattr(sdk, "Client"):  # versions before 2
        raise MissingExtraError("mcp", "mcp")


def _patterns(given: Collection[str] | None) -> Collection[str] | None:
    return (given,) if isinstance(given, str) else given


def _check_server(stdio: Sequence[str] | None, url: str | None, server: object, **others: Any) -> None:
    """Refuse a server that is not given, given twice, or given with what belongs to another sort."""
    given = {name: value for name, value in (("stdio", stdio), ("url", url), ("server", server)) if value is not None}
    if len(given) != 1:
        named = ", ".join(given) or "none of them"
        raise ToolDefinitionError(f"mcp_tools() takes one of stdio=, url= and server=; given: {named}")
    (sort,) = given
    foreign = {"stdio": ("headers",), "url": ("env", "cwd"), "server": ("headers", "env", "cwd")}[sort]
    for name in foreign:
        if others[name] is not None:
            raise ToolDefinitionError(f"{name}= has no meaning with {sort}=")
    if stdio is not None and (isinstance(stdio, str) or not stdio):
        raise ToolDefinitionError(
            f'stdio is a list of the command and its arguments, such as ["python", "-m", …], not {stdio!r}'
        )
    if url is not None and not url.startswith(("http://", "https://")):
        raise ToolDefinitionError(f"url starts with http:// or https://; got {url!r}")


def _check_numbers(**numbers: float) -> None:
    for name, number in numbers.items():
        if number <= 0:
            raise ToolDefinitionError(f"{name} is more than 0, not {number}")


def _check_risks(risk: Risk | Mapping[str, Risk] | None) -> None:
    for given in risk.values() if isinstance(risk, Mapping) else () if risk is None else (risk,):
        if given not in get_args(Risk):
            raise ToolDefinitionError(f"risk is one of {', '.join(get_args(Risk))}, not {given!r}")
