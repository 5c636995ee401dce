"""Ready middlewares for tool calls: trying again, time limits, shorter results, errors as text, pace.

Each is made by a function and good for any number of nodes. Where one takes ``tools=``, it lets the calls of other
tools through; the names are the tools' own names. All of them work for tools that stream too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from typing import Any, cast

import anyio
from anyio.lowlevel import RunVar

from ..schema import StreamReader, TextPart, ToolArgumentsError, ToolCall, ToolOutput, ToolResult, tool_text
from ._spec import Retry
from ._tool_call import Middleware, NextCall, is_stream, timed_stream, with_first_chunk
from ._tool_context import current_tool_call
from ._tool_failures import leaves, told_of
from .errors import DurableError, InterruptError, NodeError, ToolTimeoutError, UnknownToolError


def retry_calls(policy: int | Retry = 2, *, tools: Collection[str] | None = None) -> Middleware:
    """Make a middleware that tries a call again after an exception.

    Arguments that do not fit and names that no tool has are not tried again, nor is a stream of which a chunk is out,
    nor a question of the tool that nobody can be asked.

    Args:
        policy: How often to try again, or a :class:`Retry` that says after which errors and with what delay too.
        tools: The tools concerned; all if not given.

    Returns:
        The middleware.
    """
    retry = policy if isinstance(policy, Retry) else Retry(attempts=policy + 1)

    async def try_again(call: ToolCall, next: NextCall) -> ToolOutput:
        if not _concerns(tools):
            return await next(call)
        for attempt in range(1, retry.attempts + 1):
            if attempt > 1 and retry.delay > 0:
                await anyio.sleep(retry.delay_before(attempt))
            try:
                output = await next(call)
                return await with_first_chunk(output) if is_stream(output) else output
            except (ToolArgumentsError, UnknownToolError):
                raise
            except retry.on as error:
                if attempt == retry.attempts or ends_the_run(error):
                    raise
            current_tool_call().begin_again()
        raise AssertionError("the last attempt returns or raises")

    return try_again


def limit_time(seconds: float, *, tools: Collection[str] | None = None) -> Middleware:
    """Make a middleware that ends calls that take too long, with all that the middlewares inside of it do.

    The time that a person takes to answer a question of the tool counts; a middleware that asks belongs outside.

    Args:
        seconds: How long a call may take; for a tool that streams, how long its chunks may be waited for in all.
        tools: The tools concerned; all if not given.

    Returns:
        The middleware; it raises :class:`ToolTimeoutError`.

    Raises:
        ValueError: The time is not positive.
    """
    if seconds <= 0:
        raise ValueError(f"limit_time({seconds}): give a positive number of seconds")

    async def end_in_time(call: ToolCall, next: NextCall) -> ToolOutput:
        if not _concerns(tools):
            return await next(call)
        began = anyio.current_time()
        output: ToolOutput = None
        with anyio.move_on_after(seconds) as scope:
            output = await next(call)
        if scope.cancelled_caught:
            raise ToolTimeoutError(call.name, seconds)
        if not is_stream(output):
            return output
        return timed_stream(call.name, seconds, seconds - (anyio.current_time() - began), output)

    return end_in_time


def truncate_results(max_chars: int = 20_000, *, tools: Collection[str] | None = None) -> Middleware:
    """Make a middleware that cuts long results, and tells the model that it did.

    Args:
        max_chars: How many characters of text the model gets to see of a result. Media count nothing.
        tools: The tools concerned; all if not given.

    Returns:
        The middleware.

    Raises:
        ValueError: The number is negative.
    """
    if max_chars < 0:
        raise ValueError(f"truncate_results({max_chars}): give a number of characters")

    async def cut(call: ToolCall, next: NextCall) -> ToolOutput:
        output = await next(call)
        if not _concerns(tools):
            return output
        if is_stream(output):
            return _cut_stream(output, max_chars)
        if isinstance(output, ToolResult):
            return _cut_parts(output, max_chars)
        content = tool_text(output)
        if not isinstance(content, str):
            return _cut_parts(ToolResult(cast("Any", content)), max_chars)
        return output if len(content) <= max_chars else content[:max_chars] + _cut_note(max_chars, len(content))

    return cut


def tell_errors(*, on: type[Exception] | tuple[type[Exception], ...] = Exception) -> Middleware:
    """Make a middleware that turns exceptions into results that say what went wrong.

    It serves nodes whose policy is ``"raise"``, and middlewares outside of it that should see no exceptions. What a
    model could not mend goes through: a question that nobody can be asked, a run that cannot be kept.

    Args:
        on: The exceptions concerned.

    Returns:
        The middleware; what it gives is marked as an error.
    """

    def told(call: ToolCall, error: Exception) -> ToolResult:
        return ToolResult(told_of(call.name, error), is_error=True)

    async def tell(call: ToolCall, next: NextCall) -> ToolOutput:
        try:
            output = await next(call)
        except on as error:
            if ends_the_run(error):
                raise
            return told(call, error)
        return told_stream(call, output) if is_stream(output) else output

    async def told_stream(call: ToolCall, chunks: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
        async with StreamReader.from_iterable(chunks) as reader:
            try:
                async for chunk in reader:
                    yield chunk
            except on as error:
                if ends_the_run(error):
                    raise
                yield told(call, error)

    return tell


def limit_rate(calls: int, seconds: float, *, tools: Collection[str] | None = None) -> Middleware:
    """Make a middleware that lets calls wait, so that no more than so many begin within any so many seconds.

    The calls of all nodes that share the middleware, in one event loop, count together.

    Args:
        calls: How many calls may begin.
        seconds: Within how many seconds.
        tools: The tools concerned; all if not given.

    Returns:
        The middleware.

    Raises:
        ValueError: A number is not positive.
    """
    if calls < 1 or seconds <= 0:
        raise ValueError(f"limit_rate({calls}, {seconds}): give positive numbers")
    begun: RunVar[deque[float]] = RunVar("anabranch_rate_limit")

    async def wait_for_turn(call: ToolCall, next: NextCall) -> ToolOutput:
        if not _concerns(tools):
            return await next(call)
        try:
            times = begun.get()
        except LookupError:
            times = deque[float](maxlen=calls)
            begun.set(times)
        # Each call takes its place in the line at once, so that those that come meanwhile stand behind it.
        now = anyio.current_time()
        turn = now if len(times) < calls else max(now, times[0] + seconds)
        times.append(turn)
        if turn > now:
            await anyio.sleep(turn - now)
        return await next(call)

    return wait_for_turn


def ends_the_run(error: BaseException) -> bool:
    """Tell whether an error of a tool ends the run whatever is the policy: trying again or telling it helps nobody."""
    return any(map(_ends_it, leaves(error)))


def _ends_it(error: BaseException) -> bool:
    if isinstance(error, NodeError):  # also of a tool that is a graph
        return error.__cause__ is not None and ends_the_run(error.__cause__)
    return isinstance(error, (InterruptError, DurableError))


def _concerns(tools: Collection[str] | None) -> bool:
    return tools is None or current_tool_call().tool in tools


def _cut_note(shown: int, total: int) -> str:
    return f"\n[cut: {shown} of {total} characters are shown; ask for less, or for a part]"


def _cut_parts(result: ToolResult, max_chars: int) -> ToolResult:
    """Keep media and as much of the text as there is room for."""
    total = sum(len(part.text) for part in result.parts if isinstance(part, TextPart))
    if total <= max_chars:
        return result
    room = max_chars
    kept: list[Any] = []
    for part in result.parts:
        if isinstance(part, TextPart):
            if room > 0:
                kept.append(part.model_copy(update={"text": part.text[:room]}))
            room -= len(part.text)
        else:
            kept.append(part)
    kept.append(TextPart(_cut_note(max_chars, total)))
    return result.model_copy(update={"parts": tuple(kept)})


async def _cut_stream(chunks: AsyncIterator[Any], max_chars: int) -> AsyncGenerator[Any, None]:
    """Pass chunks on until there is no more room for text, and close the stream then."""
    room = max_chars
    async with StreamReader.from_iterable(chunks) as reader:
        async for chunk in reader:
            length = _length(chunk)
            if length <= room:
                room -= length
                yield chunk
                continue
            if isinstance(chunk, str):
                yield chunk[:room]
            yield f"\n[cut after {max_chars} characters; ask for less, or for a part]"
            return


def _length(chunk: Any) -> int:
    content = tool_text(chunk)
    if isinstance(content, str):
        return len(content)
    return sum(len(part.text) for part in content if isinstance(part, TextPart))
