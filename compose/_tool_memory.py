"""Middlewares for tool calls that keep something: results to be given again, and a log of what was done."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import anyio
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..schema import StreamReader, ToolCall, ToolOutput, ToolResult
from ._tool_call import Middleware, NextCall, is_stream
from ._tool_context import current_tool_call


def cache_results(tools: Collection[str], *, max_entries: int = 1000, seconds: float | None = None) -> Middleware:
    """Make a middleware that gives the result of an earlier call with the same validated arguments.

    Only for tools that are pure: whose result depends on the arguments alone, and that do nothing else. Failures are
    not kept. The streams of tools that stream are kept when they have come to their end.

    Args:
        tools: The own names of the tools that are pure.
        max_entries: How many results to keep; those not used for longest go first.
        seconds: How long a result is good; for ever if not given.

    Returns:
        The middleware, which has the kept results.

    Raises:
        ValueError: A limit is not positive.
    """
    if max_entries < 1 or (seconds is not None and seconds <= 0):
        raise ValueError(f"cache_results(max_entries={max_entries}, seconds={seconds}): give positive numbers")
    return _Cache((tools,) if isinstance(tools, str) else tools, max_entries, seconds).give_again


class _Cache:
    """Results by key, those used last at the end."""

    def __init__(self, tools: Collection[str], max_entries: int, seconds: float | None) -> None:
        self._tools = tools
        self._max_entries = max_entries
        self._seconds = seconds
        self._kept: OrderedDict[str, tuple[float, Any]] = OrderedDict()

    async def give_again(self, call: ToolCall, next: NextCall) -> ToolOutput:
        """Give what is kept, or call and keep."""
        key = _key(self._tools)
        if key is None:
            return await next(call)
        found = self._find(key)
        if isinstance(found, _Chunks):
            return StreamReader.of(*found.chunks)
        if found is not None:
            return found[0]
        output = await next(call)
        if is_stream(output):
            return self._keep_at_end(key, output)
        if not (isinstance(output, ToolResult) and output.is_error):
            self._keep(key, (output,))
        return output

    def _find(self, key: str) -> Any:
        found = self._kept.get(key)
        if found is None:
            return None
        if self._seconds is not None and not 0 <= anyio.current_time() - found[0] < self._seconds:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return found[1]

    def _keep(self, key: str, what: Any) -> None:
        self._kept[key] = (anyio.current_time(), what)
        if len(self._kept) > self._max_entries:
            self._kept.popitem(last=False)

    async def _keep_at_end(self, key: str, chunks: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
        seen: list[Any] = []
        async with StreamReader.from_iterable(chunks) as reader:
            async for chunk in reader:
                seen.append(chunk)
                yield chunk
        if not any(isinstance(chunk, ToolResult) and chunk.is_error for chunk in seen):
            self._keep(key, _Chunks(seen))


class _Chunks(NamedTuple):
    chunks: Sequence[Any]


def _key(tools: Collection[str]) -> str | None:
    """Make the key of the current call; None where its result is not to be kept."""
    current = current_tool_call()
    if current.tool not in tools or current.arguments is None:
        return None
    try:
        arguments = json.dumps(to_jsonable_python(dict(current.arguments)), sort_keys=True)
    except (PydanticSerializationError, TypeError, ValueError):
        return None  # what JSON cannot say cannot be compared
    return f"{current.tool} {arguments}"


class ToolRecord(NamedTuple):
    """What :func:`audit_log` writes about one call.

    Attributes:
        call_id: The id of the call.
        name: The tool's name as it was called.
        tool: The tool's own name.
        arguments: The validated arguments; None where there is no such tool.
        result: What the tool gave; the list of the chunks of one that streams; None after a failure.
        error: What it raised, or None.
        seconds: How long the call took.
    """

    call_id: str
    name: str
    tool: str
    arguments: Mapping[str, Any] | None
    result: Any
    error: BaseException | None
    seconds: float


def audit_log(write: Callable[[ToolRecord], Awaitable[None] | None]) -> Middleware:
    """Make a middleware that has every call written down when it is over, whatever became of it.

    Calls whose arguments do not fit never get as far as the middlewares: those are in the run's events.

    Args:
        write: Gets the record of the call, ``def`` or ``async def``; what it raises fails the call.

    Returns:
        The middleware; put it first to see what the model is given, last to see what the tool gives.
    """

    async def record(began: float, result: Any, error: BaseException | None) -> None:
        current = current_tool_call()
        took = anyio.current_time() - began
        written = write(ToolRecord(current.id, current.name, current.tool, current.arguments, result, error, took))
        if written is not None:
            await written

    async def log(call: ToolCall, next: NextCall) -> ToolOutput:
        began = anyio.current_time()
        try:
            output = await next(call)
        except Exception as error:
            await record(began, None, error)
            raise
        if is_stream(output):
            return logged(output, began)
        await record(began, output, None)
        return output

    async def logged(chunks: AsyncIterator[Any], began: float) -> AsyncGenerator[Any, None]:
        seen: list[Any] = []
        try:
            async with StreamReader.from_iterable(chunks) as reader:
                async for chunk in reader:
                    seen.append(chunk)
                    yield chunk
        except Exception as error:
            await record(began, None, error)
            raise
        await record(began, seen, None)

    return log
