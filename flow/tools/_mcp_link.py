"""Connections to an MCP server, one after the other, kept by a task of their own.

An MCP client must be entered and left in one task, while tools are called in many. So a task that lives as long as the
``async with`` block owns the connection: it makes one when it is asked to, and leaves it when it is lost. Whoever calls
a tool asks for the connection, and shares it with all others.

Rules: nothing here waits without bound; a request that the server cannot have got is sent once more on a new
connection, any other is not; a connection on which a call took too long has to show that it is alive before the next
call uses it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, cast

import anyio
from anyio.lowlevel import current_token
from pydantic import ValidationError
from pydantic_core import to_json

from .errors import McpConnectionError, McpError

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp import Client
    from mcp_types import CallToolResult
    from mcp_types import Tool as ListedTool

__all__ = ()

_CLOSING_SECONDS = 8.0
"""How long leaving a connection may take; the stopping of a child process, bounded in itself, comes on top."""
_REASON_SECONDS = 1.5
_MAX_PAGES = 100
_PROBE_SECONDS = 5.0
"""How long a server in doubt may take to show that it is alive."""


class Way(Protocol):
    """One way of reaching a server."""

    def open(self, link: Link) -> AbstractAsyncContextManager[Client]:
        """Connect, and keep the connection as long as the block lasts."""
        ...

    def explain(self, error: BaseException) -> str:
        """Say why connecting failed, given what was raised."""
        ...

    @property
    def is_refused(self) -> bool:
        """Whether the server answered that it cannot be reached like this, so that another way may be tried."""
        ...


class Link:
    """One connection, from when it is asked for to its end."""

    def __init__(self) -> None:
        self.client: Client | None = None
        self.ready = anyio.Event()
        """Set when there is a client, or there will be none."""
        self.end = anyio.Event()
        """Set when the owner is to leave the connection."""
        self.lost: str | None = None
        """Why the connection is of no more use."""
        self.is_ending = False
        """Whether the server has begun to end, and why will soon be known."""
        self.in_doubt = False
        """Whether a call was given up, so that the server may hang."""
        self.left_out: dict[str, str] = {}
        """What the server listed and cannot be used, with the reasons."""
        self._calls: set[anyio.CancelScope] = set()

    @property
    def is_over(self) -> bool:
        """Whether another connection is needed."""
        return self.is_ending or self.lost is not None

    @property
    def is_busy(self) -> bool:
        """Whether calls are under way."""
        return bool(self._calls)

    def ends(self) -> None:
        """Note that no more calls should be sent; those that are under way learn of it by :meth:`lose`."""
        self.is_ending = True

    def lose(self, reason: str) -> None:
        """Note that the server is gone; calls that wait for it are told by the session."""
        if self.lost is None:
            self.lost = reason
        self.end.set()

    def lose_calls(self, reason: str) -> None:
        """Note that the server is gone, and end the calls that wait for it."""
        self.lose(reason)
        for scope in self._calls:
            scope.cancel()

    @contextmanager
    def limit(self, seconds: float | None) -> Generator[anyio.CancelScope]:
        """Give what is done in the block a time, and end it when the connection is lost.

        Raises:
            TimeoutError: The time is over.
            McpConnectionError: The connection was lost.
        """
        with anyio.CancelScope() as scope:
            if seconds is not None:
                scope.deadline = anyio.current_time() + seconds
            self._calls.add(scope)
            try:
                yield scope
            except anyio.get_cancelled_exc_class():
                self.in_doubt = True  # perhaps someone else's time limit was shorter
                raise
            finally:
                self._calls.discard(scope)
        if scope.cancelled_caught:
            if self.lost is not None:
                raise McpConnectionError(self.lost)
            raise TimeoutError


class Connection:
    """The connection of one toolset; it is made anew when it is lost and wanted again."""

    def __init__(self, label: str, ways: Sequence[Way], connect_timeout: float) -> None:
        self.label = label
        self._ways = tuple(ways)
        self._connect_timeout = connect_timeout
        self._link: Link | None = None
        self._loop: Any = None
        self._wanted: MemoryObjectSendStream[Link] | None = None
        """Where new connections are asked for; None outside of the block."""
        self.is_listed = False
        """Whether the tools were listed once; from then on, each new connection lists them before it is used."""

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Let the connection be used as long as the block lasts; what the block raises comes out as it is."""
        raised: BaseException | None = None
        self._loop = current_token()
        wanted, requests = anyio.create_memory_object_stream[Link](1)
        async with requests, wanted, anyio.create_task_group() as tasks:
            tasks.start_soon(self._own, requests)
            self._wanted = wanted
            try:
                yield
            except (anyio.get_cancelled_exc_class(), GeneratorExit):
                raise
            except BaseException as error:  # noqa: BLE001  (raised below, outside of the task group, which would wrap it)
                raised = error
            finally:
                self._wanted = None
                wanted.close()
                if self._link is not None:
                    self._link.end.set()
        if raised is not None:
            raise raised

    async def link(self) -> Link:
        """Give a connection that works as far as can be told.

        Raises:
            McpConnectionError: There is none, and none can be made now.
        """
        wanted = self._require_place()
        while True:
            link = self._link
            if link is not None and link.is_ending and not link.end.is_set():
                with anyio.move_on_after(_REASON_SECONDS):  # who saw it end is about to say why
                    await link.end.wait()
                link.lose("it ended")
                continue  # another task may have been quicker
            if link is None or link.is_over:
                link = self._link = Link()
                with anyio.move_on_after(self._connect_timeout + _CLOSING_SECONDS):  # an old one may still be left
                    await wanted.send(link)
            with anyio.move_on_after(self._connect_timeout + 2 * _CLOSING_SECONDS):
                await link.ready.wait()
            if link.client is None:
                link.lose("it was never made")
                raise McpConnectionError(f"cannot connect to the MCP server {self.label}: {link.lost}")
            # One that works on a call may have no time to answer another; and to give it up would cost that call.
            if not link.in_doubt or link.is_busy or await self._is_alive(link):
                return link

    async def _is_alive(self, link: Link) -> bool:
        """Let a server in doubt answer something small; if it does not, the connection counts as lost."""
        assert link.client is not None, "only a link that is ready can be in doubt"
        with anyio.move_on_after(_PROBE_SECONDS):
            with suppress(Exception):  # an error is a sign of life too, unless the connection was lost with it
                await link.client.list_tools(cache_mode="bypass")
            link.in_doubt = False
            return not link.is_over
        link.lose("did not answer any more")
        return False

    def _require_place(self) -> MemoryObjectSendStream[Link]:
        if self._wanted is None:
            raise McpError(
                f"the tools of the MCP server {self.label} are closed; call them inside `async with mcp_tools(…)`"
            )
        if self._loop != current_token():
            raise McpError(
                f"the tools of the MCP server {self.label} belong to the event loop in which `async with mcp_tools(…)` "
                "was entered; call them there, or enter it again in this one"
            )
        return self._wanted

    # -- the owner ---------------------------------------------------------------------------------------------

    async def _own(self, requests: MemoryObjectReceiveStream[Link]) -> None:
        """Make the connections that are asked for, one after the other."""
        async for link in requests:
            reasons: list[str] = []
            for way in () if link.is_over else self._ways:  # over: nobody waits for it any more
                reason = await self._keep(link, way)
                if link.ready.is_set():
                    self._ways = (way,)  # it works, so nothing else needs trying the next time
                    break
                reasons.append(reason)
                if not way.is_refused:
                    break
            link.lose("; ".join(reasons))
            link.ready.set()

    async def _keep(self, link: Link, way: Way) -> str:
        """Connect, and stay connected until the link ends; say why there is no connection any more."""
        failure = f"no answer within {self._connect_timeout:g} s"
        try:
            # One scope around all: a client's own scopes must end inside of the one they were entered in.
            with anyio.CancelScope(deadline=anyio.current_time() + self._connect_timeout) as scope:
                async with way.open(link) as client:
                    if self.is_listed:  # else the session would do so after the first call, and lose its answer
                        await listed_tools(client)
                    scope.deadline = float("inf")
                    if not link.is_over:
                        link.client = client
                        link.ready.set()
                    await link.end.wait()
                    scope.deadline = anyio.current_time() + _CLOSING_SECONDS
        except Exception as error:  # noqa: BLE001  (the SDK and its transports raise all sorts, in groups too)
            failure = way.explain(first_of(error))
        if link.lost is not None:  # who noticed the loss knows better than what it led to
            failure = link.lost
        elif link.ready.is_set():
            link.lose(failure)
        return failure


async def listed_tools(client: Client) -> list[ListedTool]:
    """Ask a server for all pages of the list of its tools.

    Raises:
        McpError: There is no end of pages.
    """
    found: list[ListedTool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        found += page.tools
        last, cursor = cursor, page.next_cursor
        if cursor is None:
            return found
        if cursor == last:
            break
    raise McpError("its list of tools does not end")


async def call_tool(
    connection: Connection, name: str, arguments: dict[str, Any], seconds: float | None
) -> CallToolResult:
    """Call a tool, once more if the first call cannot have reached the server.

    Args:
        connection: The server's.
        name: The tool's name there.
        arguments: Its arguments.
        seconds: How long to wait for the answer.

    Raises:
        TimeoutError: The answer took too long.
        McpConnectionError: There is no connection, or it was lost in the call.
        McpError: The server refused the call, its answer makes no sense, or the arguments cannot be written.
    """
    try:
        to_json(arguments)
    except ValueError as error:  # within the session it would end the connection
        raise McpError(
            f"the arguments of {name!r} cannot be sent to the MCP server {connection.label}: {error}"
        ) from error
    for is_last in (False, True):
        link = await connection.link()
        assert link.client is not None, "a link that was given is ready"
        if link.is_over:  # in the very moment in which it was made
            if is_last:
                reason = link.lost or "it ended"
                raise McpConnectionError(f"the MCP server {connection.label} was lost before the call: {reason}")
            continue
        try:
            with link.limit(seconds):
                return await link.client.call_tool(name, arguments)
        except TimeoutError:
            raise
        except Exception as error:
            if is_last or kind_of(error) not in {"not sent", "session"}:
                raise explained(connection.label, link, error) from error
            link.lose(str(error))
    raise AssertionError("the second attempt returns or raises")


def kind_of(error: BaseException) -> str:
    """Give what our transports noted on an error that they made."""
    data: object = getattr(error, "data", None)
    return str(cast("Mapping[str, Any]", data).get("anabranch", "")) if isinstance(data, Mapping) else ""


def explained(label: str, link: Link, error: Exception) -> McpError:
    """Say in words for a model what became of a call that failed with this error."""
    text = words_of(error)
    if kind_of(error) in {"not sent", "session"}:
        return McpConnectionError(f"the call did not reach the MCP server {label}: {text}")
    if kind_of(error) == "too large" or "byte limit" in text:
        return McpError(f"the answer of the MCP server {label} is too large and was refused; ask it for less")
    if link.lost is not None or kind_of(error) == "cut" or text.startswith("SSE stream"):  # the SDK's own words
        return McpConnectionError(_lost_in_call(label, link.lost or text))
    if hasattr(error, "code") and kind_of(error) != "unreadable":
        return McpError(f"the MCP server {label} refused the call: {text}")
    return McpError(f"the answer of the MCP server {label} makes no sense: {text}")


def reason_of(link: Link, error: Exception) -> str:
    """Say in short why something other than a call failed with this error."""
    return link.lost or words_of(error)


def _lost_in_call(label: str, reason: str) -> str:
    return (
        f"the MCP server {label} was lost during the call, which may or may not have had its effect: {reason}; "
        "the next call starts a new connection"
    )


def first_of(error: BaseException) -> BaseException:
    """Give the first error inside of groups of them."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    return first_of(inner[0]) if inner else error


def words_of(error: Exception) -> str:
    """Give what an error says, in a line."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return ": ".join([*filter(None, [".".join(str(place) for place in first["loc"])]), first["msg"]])
    lines = str(error).strip().splitlines()
    return short(lines[0]) if lines else type(error).__name__


def short(text: str, length: int = 500) -> str:
    """Give the beginning of a text that may be long."""
    text = text.strip()
    return text if len(text) <= length else f"{text[:length]}…"
