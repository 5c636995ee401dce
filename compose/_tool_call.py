"""One tool call, from what the model wrote to the message that answers it.

The pipeline is the same for every call: alias names → argument handler → validation → middlewares → the tool. A name
that no tool has goes through it too, up to the place where the tool would run. What goes wrong on the way becomes a
message for the model, or is kept for the node to raise, as the policy for its kind says.

A tool that streams is read through one generator in both modes, so that the chunks of a stream run make the message of
a value run, also when the tool fails in the middle: then the text of the failure follows what came before.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import anyio
from pydantic_core import from_json

from ..schema import (
    Message,
    StreamReader,
    ToolArgumentsError,
    ToolCall,
    ToolOutput,
    ToolResult,
    concat,
    tool_text,
)
from ._events import ToolDelta, ToolEnded, ToolFailed, ToolStarted
from ._part import current_part
from ._tool_context import CurrentCall, current_tool_call, enter_call
from ._tool_failures import error_of_stray, is_stray, leaves, told_of
from ._tool_lines import Lines, adds_up
from ._tool_set import Entry, ErrorPolicy, ToolSet
from .errors import DurableError, InterruptError, NodeError, ToolCallCutError, ToolTimeoutError, UnknownToolError

if TYPE_CHECKING:
    from ._context import Frame

ArgumentHandler = Callable[[str, str], str | Awaitable[str]]
"""Gets a tool's own name and the arguments as text, and gives the arguments that count."""

UnknownToolHandler = Callable[[str, str], ToolOutput | Awaitable[ToolOutput]]
"""Gets a name that no tool has and the arguments as text, and answers in the tool's place."""

NextCall = Callable[[ToolCall], Awaitable[ToolOutput]]
"""What comes behind a middleware: the next one, or the tool."""


class Middleware(Protocol):
    """What stands around every tool call: it may change the call, the output, both, or not call on at all."""

    def __call__(self, call: ToolCall, next: NextCall, /) -> Awaitable[ToolOutput]:
        """Answer a call; ``await next(call)`` gives what the tool gives: a value, or an async iterator of chunks."""
        ...


class ArgumentMiddleware(Protocol):
    """What stands among middlewares and handles the arguments of calls before they are validated."""

    def handle_arguments(self, name: str, text: str, /) -> str | Awaitable[str]:
        """Give the arguments that count."""
        ...


AnyMiddleware = Middleware | ArgumentMiddleware
"""What may stand among the middlewares of a node."""


class Steps:
    """What a node does with each of its calls."""

    __slots__ = ("handlers", "middlewares", "node_policies", "plain", "tools", "unknown")

    def __init__(
        self,
        tools: ToolSet,
        handlers: Sequence[ArgumentHandler],
        middlewares: Sequence[Middleware],
        unknown: UnknownToolHandler | None,
        node_policies: Mapping[str, ErrorPolicy],
    ) -> None:
        self.tools = tools
        self.handlers = handlers
        self.middlewares = middlewares
        self.unknown = unknown
        self.node_policies = node_policies
        self.plain = not handlers and not middlewares
        """Whether nothing stands between a call and its tool."""


class Work:
    """One call under way."""

    __slots__ = ("arguments", "call", "current", "cut", "entry", "error", "frame", "mark", "steps")

    def __init__(self, steps: Steps, call: ToolCall, position: int, cut: bool, frame: Frame | None) -> None:
        self.steps = steps
        self.call = call
        """The call as the model made it; after preparation with the arguments that count."""
        self.cut = cut
        self.frame = frame
        """Where to tell of it; None where nobody watches."""
        self.entry: Entry | None = steps.tools.find(call.name)
        entry = self.entry
        if entry is None:
            self.current = CurrentCall(call.id, call.name, call.name, position)
        else:
            self.current = CurrentCall(call.id, call.name, entry.name, position, entry.risk)
        self.arguments: Mapping[str, Any] | None = None
        self.error: Exception | None = None
        """Why the node has to fail, once the other calls are done."""
        self.mark: Mapping[str, int] | None = None
        """In a run that is kept: what the call had done when the tool was first run."""

    # -- what the node calls -----------------------------------------------------------------------------------

    async def answer(self) -> Message | None:
        """Run the call; give the message that answers it, or None if the node has to fail."""
        enter_call(self.current)
        entry = self.entry
        try:
            if entry is not None and entry.plain and self.steps.plain and self.frame is None and not self.cut:
                # What _output() does where there is nothing but the tool.
                self.current.arguments = arguments = entry.validate(self.call.arguments)
                output = await entry.run(arguments)
            else:
                output = await self._output()
            if type(output) is not str and is_stream(output):
                return await self._collect(output)
            message = self._message(output)
            if self.frame is not None:
                await self._tell("on_end", output)
        except Exception as error:
            return await self._failed(error)
        except BaseException as error:
            if not is_stray(error):
                raise
            return await self._failed(error_of_stray(error))
        else:
            return message

    async def chunks(self) -> AsyncGenerator[Message, None]:
        """Run the call; give pieces of the message that answers it, at least one unless the node has to fail."""
        enter_call(self.current)
        text_so_far = False
        try:
            output = await self._output()
            if type(output) is str or not is_stream(output):
                message = self._message(output)
                if self.frame is not None:
                    await self._tell("on_end", output)
                yield message
                return
            async with aclosing(self._read(output)) as pieces:
                async for piece in pieces:
                    text_so_far = text_so_far or bool(piece.content)
                    yield piece
        except Exception as error:
            told = await self._failed(error, after_text=text_so_far)
            if told is not None:
                yield told
        except BaseException as error:
            if not is_stray(error):
                raise
            told = await self._failed(error_of_stray(error), after_text=text_so_far)
            if told is not None:
                yield told

    async def _collect(self, output: AsyncIterator[Any]) -> Message | None:
        pieces: list[Message] = []
        try:
            async for message in self._read(output):
                pieces.append(message)
        except BaseException as error:
            if isinstance(error, Exception):
                failure = error
            elif is_stray(error):
                failure = error_of_stray(error)
            else:
                raise
            told = await self._failed(failure, after_text=any(piece.content for piece in pieces))
            if told is None:
                return None
            pieces.append(told)
        return concat(pieces)

    # -- from the call to the output ---------------------------------------------------------------------------

    async def _output(self) -> ToolOutput:
        steps = self.steps
        try:
            if steps.handlers or (self.entry is not None and self.entry.renames):
                await self._handle_arguments()
            if self.cut:
                raise ToolCallCutError(self.call.name)
            if self.entry is not None:
                self.arguments = self.current.arguments = self.entry.validate(self.call.arguments)
        finally:
            if self.frame is not None:
                given = self.call.arguments if self.arguments is None else self.arguments
                self._say(ToolStarted, arguments=given)
                await self._tell("on_start", given)
        if not steps.middlewares or (self.entry is not None and self.entry.apart):
            return await self._run(self.call)
        go_on: NextCall = self._run
        for middleware in reversed(steps.middlewares):
            go_on = partial(_call_middleware, middleware, go_on)
        return await go_on(self.call)

    async def _handle_arguments(self) -> None:
        text = self.call.arguments
        if self.entry is not None:
            text = self.entry.rename(text)
        if not self.cut:
            for handler in self.steps.handlers:
                handled = handler(self.current.tool, text)
                text = handled if isinstance(handled, str) else await handled
        if text is not self.call.arguments:
            self.call = self.call.model_copy(update={"arguments": text})

    async def _run(self, call: ToolCall) -> ToolOutput:
        """Run the tool; a middleware may have changed the call, then its arguments are validated again."""
        part = current_part.get()
        if part is not None:  # a middleware may try again, and then the tool does the same again
            if self.mark is None:
                self.mark = part.mark()
            else:
                part.rewind(self.mark)
        entry, arguments = self.entry, self.arguments
        if call is not self.call and (call.name != self.call.name or call.arguments != self.call.arguments):
            entry = self.steps.tools.find(call.name)
            arguments = None if entry is None else entry.validate(call.arguments)
        if entry is None:
            handler = self.steps.unknown
            if handler is None:
                raise self.steps.tools.unknown(call.name)
            answered = handler(call.name, call.arguments)
            return await cast("Awaitable[Any]", answered) if hasattr(answered, "__await__") else answered
        assert arguments is not None, "arguments are validated before the tool runs"
        if entry.timeout is None and not entry.retries:
            return await entry.run(arguments)
        return await _run_attempts(entry, arguments)

    # -- from the output to the message ------------------------------------------------------------------------

    def _message(self, output: Any) -> Message:
        if type(output) is ToolResult:
            message = self._piece(tool_text(output), is_error=output.is_error, extra=output.extra)
        else:
            call = self.call
            message = Message.tool(tool_text(output), tool_call_id=call.id, name=call.name or None)
        if self.frame is not None:
            self._say(ToolEnded, result=output)
        return message

    def _piece(self, content: Any, *, is_error: bool = False, extra: Mapping[str, Any] | None = None) -> Message:
        call = self.call
        return Message.tool(content, tool_call_id=call.id, name=call.name or None, is_error=is_error, extra=extra)

    async def _read(self, output: AsyncIterator[Any]) -> AsyncGenerator[Message, None]:
        """Read a stream: text and parts add up, any other chunk is JSON on a line of its own."""
        seen: list[Any] = []
        lines = Lines()
        passed_on = False
        async with StreamReader.from_iterable(output) as reader:
            async for chunk in reader:
                if self.frame is not None:
                    seen.append(chunk)
                    self._say(ToolDelta, chunk=chunk)
                passed_on = True
                content = lines.take(chunk)
                if isinstance(chunk, ToolResult):
                    yield self._piece(content, is_error=chunk.is_error, extra=chunk.extra)
                else:
                    yield self._piece(content)
        if not passed_on:
            yield self._piece("")
        if self.frame is not None:
            whole = _whole(seen)
            self._say(ToolEnded, result=whole)
            await self._tell("on_end", whole)

    # -- failures ----------------------------------------------------------------------------------------------

    async def _failed(self, error: Exception, *, after_text: bool = False) -> Message | None:
        """Make the message that tells the model; or note the error and give None."""
        told = None
        if self._policy(error) == "tell_model":
            told = self._text_of(error)
        else:
            self.error = error
        if self.frame is not None:
            self._say(ToolFailed, error=error, told=told)
            await self._tell("on_error", error)
        return None if told is None else self._piece(tool_text(f"\n{told}" if after_text else told), is_error=True)

    def _policy(self, error: Exception) -> ErrorPolicy:
        for one in leaves(error):
            if isinstance(one, DurableError):
                return "raise"  # the run cannot be kept
            if isinstance(one, InterruptError) or isinstance(one.__cause__, InterruptError):
                return "raise"  # nobody could be asked, or the answer was no answer: not for the model to mend
        if isinstance(error, NodeError) and error.where.startswith("callback "):
            return "raise"  # nor are the faults of those who only watch
        policies = self.steps.node_policies if self.entry is None else self.entry.policies
        return policies[kind_of(error, self.call.arguments)]

    def _text_of(self, error: Exception) -> str:
        if isinstance(error, (ToolArgumentsError, UnknownToolError, ToolCallCutError, ToolTimeoutError)):
            return str(error)
        return told_of(self.call.name, error)

    async def _tell(self, method: str, given: Any) -> None:
        """Call the callback handlers, for which a tool call is a component with a path of its own."""
        frame = self.frame
        assert frame is not None, "only called where somebody watches"
        run, node, attempt = frame
        if run.observer is not None and run.observer.has_handlers:
            path = f"{run.path(node)}/{self.current.position}"
            await run.observer.tell_handlers(run, path, self.current.name, "tool", attempt, method, given)

    def _say(self, kind: Any, **data: Any) -> None:
        frame = self.frame
        assert frame is not None, "only called where somebody watches"
        run, node, attempt = frame
        assert run.observer is not None, "a frame is kept only then"
        current = self.current
        run.observer.say(
            run, kind, run.path(node), attempt, call_id=current.id, tool=current.name, position=current.position, **data
        )


async def _call_middleware(middleware: Middleware, go_on: NextCall, call: ToolCall) -> ToolOutput:
    return await middleware(call, go_on)


async def _run_attempts(entry: Entry, arguments: Mapping[str, Any]) -> ToolOutput:
    """Run a tool that has a time limit or may be tried again; chunks that are out stay out and end the trying."""
    part = current_part.get()
    mark = None if part is None else part.mark()
    for attempt in range(entry.retries + 1):
        if part is not None and attempt:
            part.rewind(mark)
        try:
            output = await _run_timed(entry, arguments)
            if not is_stream(output):
                return output
            stream = output
            if entry.timeout is not None:
                stream = timed_stream(entry.name, entry.timeout, entry.timeout, output)
            return stream if attempt == entry.retries else await with_first_chunk(stream)
        except (ToolArgumentsError, InterruptError, DurableError):
            raise  # it will be no other the next time
        except Exception:
            if attempt == entry.retries:
                raise
        current_tool_call().begin_again()
    raise AssertionError("the last attempt returns or raises")


async def _run_timed(entry: Entry, arguments: Mapping[str, Any]) -> ToolOutput:
    if entry.timeout is None:
        return await entry.run(arguments)
    output: ToolOutput = None
    with anyio.move_on_after(entry.timeout) as scope:
        output = await entry.run(arguments)
    if scope.cancelled_caught:
        raise ToolTimeoutError(entry.name, entry.timeout)
    return output


async def timed_stream(name: str, seconds: float, left: float, stream: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """Give a tool's stream as much time as is left of its limit; the time that its reader takes does not count."""
    try:
        while True:
            began = anyio.current_time()
            chunk: Any = None
            with anyio.move_on_after(left) as scope:
                try:
                    chunk = await stream.__anext__()
                except StopAsyncIteration:
                    return
            if scope.cancelled_caught:
                raise ToolTimeoutError(name, seconds)
            left -= anyio.current_time() - began
            yield chunk
    finally:
        await close_stream(stream)


async def with_first_chunk(stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Wait for the first chunk, so that what fails before it may be tried again."""
    try:
        first = await stream.__anext__()
    except StopAsyncIteration:
        return _after((), stream)
    except BaseException:
        await close_stream(stream)
        raise
    return _after((first,), stream)


async def _after(first: Sequence[Any], stream: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    try:
        for chunk in first:
            yield chunk
        async for chunk in stream:
            yield chunk
    finally:
        await close_stream(stream)


def is_stream(output: object) -> bool:
    """Tell whether a tool gave a stream of chunks rather than a value."""
    return hasattr(output, "__anext__")


async def close_stream(stream: AsyncIterator[Any]) -> None:
    """Close a tool's stream if it can be closed, also when the task was cancelled."""
    close: Callable[[], Awaitable[Any]] | None = getattr(stream, "aclose", None)
    if close is not None:
        with anyio.CancelScope(shield=True):
            await close()


def kind_of(error: Exception, arguments: str) -> str:
    """Tell what kind of failure an error is."""
    if isinstance(error, ToolArgumentsError):
        try:
            return "arguments" if isinstance(from_json(arguments), dict) or not arguments.strip() else "json"
        except ValueError:
            return "json" if arguments.strip() else "arguments"
    if isinstance(error, UnknownToolError):
        return "unknown"
    if isinstance(error, ToolCallCutError):
        return "cut"
    return "timeout" if isinstance(error, ToolTimeoutError) else "exception"


def is_cut(call: ToolCall, is_last: bool) -> bool:
    """Tell whether a call of a message that ended at the token limit lacks some of its arguments."""
    if not call.arguments.strip():
        return is_last
    try:
        from_json(call.arguments)
    except ValueError as error:
        return is_last or str(error).startswith("EOF")
    return False


def _whole(chunks: Sequence[Any]) -> Any:
    """Put together what a tool streamed; where it does not fit together, the list of it says more than nothing."""
    if not chunks:
        return ""
    try:
        if len(chunks) > 1 and not all(map(adds_up, chunks)):
            lines = Lines()
            return concat([Message.tool(lines.take(chunk), tool_call_id="") for chunk in chunks]).content
        return concat(chunks)
    except Exception:
        return list(chunks)
