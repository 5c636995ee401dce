"""An MCP server as a child process that speaks JSON, a message a line, on its standard streams.

The SDK's own transport keeps a line whole however long it grows. This one bounds it: a message that is too long is
skipped while it comes, and only the call that it answers fails. It also keeps the last lines that the server wrote to
its standard error, so that the end of a server can be explained.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ._mcp_link import words_of

if TYPE_CHECKING:
    from anyio.abc import AsyncResource, Process
    from mcp.shared.message import SessionMessage

__all__ = ()

_log = logging.getLogger("anabranch.flow.tools.mcp")

_PATIENCE = 2.0
"""Seconds that a server has to end by itself once its input is closed, and again after SIGTERM."""
_LAST_WORDS = 0.5
"""Seconds to wait for the exit status and the standard error of a server that closed its output."""
_POLL = 0.01
_EDGE = 200
"""How much of each end of a message that is too long is kept, to find out which call it answers."""
_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, OSError)


class Oversized(NamedTuple):
    """What is left of a line that was too long."""

    head: bytes
    tail: bytes


class Lines:
    """Cuts bytes into lines, and skips lines that are too long while they come."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: list[bytes] = []
        self._length = 0
        self._skipped: Oversized | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes | Oversized]:
        """Give the lines that end in this chunk."""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._add(piece)
            yield self._take()
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        if self._skipped is not None:
            self._skipped = Oversized(self._skipped.head, (self._skipped.tail + piece)[-_EDGE:])
            return
        self._kept.append(piece)
        self._length += len(piece)
        if self._length > self._limit:
            line = b"".join(self._kept)
            self._skipped = Oversized(line[:_EDGE], line[-_EDGE:])
            self._kept.clear()

    def _take(self) -> bytes | Oversized:
        line = b"".join(self._kept) if self._skipped is None else self._skipped
        self._kept.clear()
        self._length, self._skipped = 0, None
        return line


# A request's id stands before its result or after it, at the very edge of the message; ours are numbers.
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d+)"?\s*[,}]')
_ID_LAST = re.compile(rb'"id"\s*:\s*"?(\d+)"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


def answered_by(line: Oversized, pending: set[int | str]) -> int | str | None:
    """Find the request that a message too long to read answers; None if that cannot be told."""
    for pattern, edge in ((_ID_FIRST.match, line.head), (_ID_LAST.search, line.tail)):
        found = pattern(edge)
        if found and int(found[1]) in pending:
            return int(found[1])
    return next(iter(pending)) if len(pending) == 1 else None


class StdioTransport:
    """The streams of one child process; see :func:`open_stdio`."""

    def __init__(
        self, process: Process, label: str, limit: int, ends: Callable[[], None], lost: Callable[[str], None]
    ) -> None:
        self._process = process
        self._label = label
        self._limit = limit
        self._ends = ends
        self._lost = lost
        self._pending: set[int | str] = set()
        self._words: deque[str] = deque(maxlen=12)
        self._silent = anyio.Event()  # nothing more comes on the standard error
        self._leaving = False
        self._receive: MemoryObjectReceiveStream[SessionMessage | Exception]
        self._incoming: MemoryObjectSendStream[SessionMessage | Exception]
        self._send: MemoryObjectSendStream[SessionMessage]
        self._outgoing: MemoryObjectReceiveStream[SessionMessage]
        self._incoming, self._receive = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
        self._send, self._outgoing = anyio.create_memory_object_stream["SessionMessage"](0)

    @asynccontextmanager
    async def opened(self, patience: Callable[[], float]) -> AsyncGenerator[Any, None]:
        """Carry messages as long as the block lasts, and stop the process then."""
        async with anyio.create_task_group() as self._tasks:
            tasks = self._tasks
            tasks.start_soon(self._read)
            tasks.start_soon(self._write)
            tasks.start_soon(self._listen)
            try:
                yield self._receive, self._send
            finally:
                self._leaving = True
                with anyio.CancelScope(shield=True):  # every wait below is bounded
                    await stop_process(self._process, patience())
                    for stream in (self._receive, self._send, self._incoming, self._outgoing):
                        await stream.aclose()
                tasks.cancel_scope.cancel()

    async def _read(self) -> None:
        """Hand the server's messages on until its output ends."""
        assert self._process.stdout is not None, "the process was started with pipes"
        lines = Lines(self._limit)
        async with self._incoming:
            with suppress(*_GONE):
                async for chunk in self._process.stdout:
                    for line in lines.feed(chunk):
                        message = self._message(line)
                        if message is not None:
                            with suppress(anyio.BrokenResourceError):  # the session is gone; let the server talk on
                                await self._incoming.send(message)
            await self._give_up()

    async def _write(self) -> None:
        """Hand our messages to the server; what it does not take whole can be sent again, and its sender is told."""
        assert self._process.stdin is not None, "the process was started with pipes"
        is_open = True
        async with self._outgoing:
            async for sent in self._outgoing:
                message = sent.message
                number = getattr(message, "id", None) if hasattr(message, "method") else None
                text = message.model_dump_json(by_alias=True, exclude_unset=True)
                self._pending.update(() if number is None else (number,))
                if is_open:
                    try:
                        await self._process.stdin.send(text.encode() + b"\n")
                    except _GONE:
                        is_open = False
                        self._ends()
                        self._tasks.start_soon(self._give_up)
                if not is_open and number is not None:
                    with suppress(*_GONE):
                        await self._incoming.send(refusal(number, "not sent", "the server has ended"))

    async def _give_up(self) -> None:
        """Report the end of the server, unless it is ours."""
        if not self._leaving:
            self._ends()
            self._lost(await self._reason())

    async def _listen(self) -> None:
        """Keep the last lines of the standard error, and log them all."""
        assert self._process.stderr is not None, "the process was started with pipes"
        lines = Lines(10_000)
        with suppress(*_GONE):
            async for chunk in self._process.stderr:
                for line in lines.feed(chunk):
                    words = (line.head if isinstance(line, Oversized) else line).decode("utf-8", "replace").rstrip()
                    if words:
                        self._words.append(words[:400])
                        _log.info("%s: %s", self._label, words)
        self._silent.set()

    async def _reason(self) -> str:
        """Say how the server ended, as far as can be told in a moment."""
        with anyio.move_on_after(_LAST_WORDS):
            await self._silent.wait()
        await _ends(self._process, _LAST_WORDS)
        status = self._process.returncode
        if status is None:
            how = "closed its output"
        elif status < 0:
            how = f"was ended by signal {-status}"
        else:
            how = f"ended with exit status {status}"
        words = "\n".join(self._words)
        return f"{how}; its last words:\n{words}" if words else how

    def _message(self, line: bytes | Oversized) -> SessionMessage | None:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        if isinstance(line, Oversized):
            number = answered_by(line, self._pending)
            if number is None:
                self._lost(f"sent a message of more than {self._limit:,} bytes")
                return None
            self._pending.discard(number)
            return refusal(number, "too large", "the answer is too large")
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError as error:
            if line.strip():
                _log.debug("%s: no message: %r", self._label, line[:200])
            number = _number_in(line)
            if number not in self._pending:
                return None
            self._pending.discard(number)
            return refusal(number, "unreadable", words_of(error))
        if not hasattr(message, "method"):
            self._pending.discard(getattr(message, "id", None) or 0)
        return SessionMessage(message)


def _number_in(line: bytes) -> int:
    """Find the request that a message answers which is JSON and yet no message, such as for half of a character."""
    try:
        found: object = json.loads(line.decode("utf-8", "replace"))
        answer = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        return -1 if "method" in answer else int(answer.get("id", -1))
    except (ValueError, TypeError, RecursionError):
        return -1


def refusal(number: int | str, kind: str, text: str) -> SessionMessage:
    """Answer a request in the server's place."""
    from mcp.shared.message import SessionMessage
    from mcp_types import ErrorData, JSONRPCError

    error = ErrorData(code=-32000, message=text, data={"anabranch": kind})
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=error))


@asynccontextmanager
async def open_stdio(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None,
    label: str,
    limit: int,
    ends: Callable[[], None],
    lost: Callable[[str], None],
    hurry: Callable[[], bool],
) -> AsyncGenerator[Any, None]:
    """Start a server, and give the two streams that an MCP session takes.

    Args:
        command: The program and its arguments.
        env: Variables beside the few that every server gets (``PATH``, ``HOME`` and their like).
        cwd: Where to start it.
        label: What the server is called in logs.
        limit: How many bytes a message may have.
        ends: Is called as soon as the server is seen to end by itself.
        lost: Is told the reason when the server ends by itself.
        hurry: Says at the end whether the server need not be given time to end by itself.
    """
    from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client

    if sys.platform == "win32":  # pragma: no cover  (there the SDK knows how to start and to stop a tree of processes)
        given = StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(env), cwd=cwd)
        async with stdio_client(given) as streams:
            yield streams
        return
    process = await anyio.open_process(
        list(command),
        env={**get_default_environment(), **env},
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    # No await from here to the block, or a cancellation would leave the process behind.
    transport = StdioTransport(process, label, limit, ends, lost)
    async with transport.opened(lambda: 0.0 if hurry() else _PATIENCE) as streams:
        yield streams


async def stop_process(process: Process, patience: float) -> None:
    """Close the input of a process, wait for its end, and end it and its children by force if need be."""
    if process.stdin is not None:
        await _close(process.stdin)
    if not await _ends(process, patience):
        for how in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, how)
            if await _ends(process, _PATIENCE):
                break
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            await _close(stream)
    # On asyncio a child of the server that holds its pipes would keep the transport open; nothing public closes it.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        transport.close()


async def _close(stream: AsyncResource) -> None:
    with suppress(*_GONE):
        await stream.aclose()


async def _ends(process: Process, seconds: float) -> bool:
    """Wait for the end of a process; its pipes may stay open in children of its own."""
    deadline = anyio.current_time() + seconds
    while process.returncode is None:
        if anyio.current_time() >= deadline:
            return False
        await anyio.sleep(_POLL)
    return True
