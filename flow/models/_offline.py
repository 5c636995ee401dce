"""A chat model without a model behind it: fixed rules, the tools at hand, and quotes of what they give."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import count
from typing import ClassVar, NamedTuple

import anyio

from ...schema import (
    NO_OPTIONS,
    Message,
    ModelOptions,
    ToolCall,
    ToolChoice,
    ToolInfo,
    Usage,
    concat,
)
from ._decide import Decision, decide

_OFFLINE = {"offline": True}
_NOTICE = "offline model: no language model is called; answers are made by fixed rules from what the tools give"
_TOKEN = re.compile(r"\s*(?:\w{1,6}|[^\w\s])|\s+")
_TOKENS_PER_CHUNK = 4


class OfflineModel:
    """A deterministic chat model that needs no key and no network.

    It chooses among the tools that it was given by the question: an expression goes to a tool that takes one, a
    question about time or date to a clock, anything else to a search tool, of whose hits it then reads the best.
    It answers from what the tools gave, quotes it, and says so when they gave nothing. It knows nothing itself.

    In shape it is like any other model: a thought and tool calls with ids, streamed in fragments, usage and finish
    reason at the end; `tool_choice`, `max_tokens` and `stop` are obeyed. Every message has `extra["offline"]`, and
    a line on stderr says once what is answering.

    Args:
        notice: Whether to say on stderr, once per process, that this model answers; or a function that is given
            the line, once per model.
        delay: Seconds to wait before each chunk, to watch a stream.

    Example:
        >>> model = OfflineModel(notice=False)
        >>> answer = anyio.run(model.generate, [Message.user("What is 6 * 7?")])
        >>> answer.text
        'I am the offline model: I answer only from what tools give me, and I was given no tools.'
    """

    def __init__(self, *, notice: bool | Callable[[str], None] = True, delay: float = 0.0) -> None:
        if delay < 0:
            raise ValueError(f"delay must not be negative, got {delay!r}")
        self._notice = _Notice(notice)
        self._delay = delay
        self._tools: tuple[ToolInfo, ...] = ()
        self._choice: ToolChoice = "auto"

    def __repr__(self) -> str:
        return f"OfflineModel(tools={[tool.name for tool in self._tools]})"

    def with_tools(self, tools: Sequence[ToolInfo], choice: ToolChoice = "auto") -> OfflineModel:
        """Make a model that may call these tools; this one stays as it is.

        Args:
            tools: What may be called.
            choice: Whether a tool may, must not or must be called, or which one must.

        Returns:
            The new model.
        """
        bound = OfflineModel(delay=self._delay)
        bound._notice = self._notice
        bound._tools = tuple(tools)
        bound._choice = choice
        return bound

    async def generate(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS) -> Message:
        """Answer with one message: what the chunks of :meth:`stream` make.

        Args:
            messages: The history.
            options: `tool_choice`, `max_tokens` and `stop` are obeyed.

        Returns:
            The answer, or tool calls with the thought behind them.

        Raises:
            ValueError: If a tool must be called that the model does not have.
        """
        return concat([chunk async for chunk in self.stream(messages, options)])

    async def stream(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS) -> AsyncIterator[Message]:
        """Answer chunk by chunk.

        Args:
            messages: The history.
            options: `tool_choice`, `max_tokens` and `stop` are obeyed.

        Yields:
            Pieces of text, fragments of tool calls, and at the end usage and finish reason.

        Raises:
            ValueError: If a tool must be called that the model does not have.
        """
        self._notice.give()
        decision = decide(messages, self._tools, options.tool_choice or self._choice)
        for chunk in _chunks(decision, messages, options):
            await anyio.sleep(self._delay)
            yield chunk


class _Notice:
    """The line that tells a person what is answering; models made of one another share it."""

    said_on_stderr: ClassVar[bool] = False

    def __init__(self, notice: bool | Callable[[str], None]) -> None:
        self._notice = notice
        self._given = False

    def give(self) -> None:
        """Say it, unless it was said."""
        if self._given or self._notice is False:
            return
        self._given = True
        if self._notice is not True:
            self._notice(_NOTICE)
        elif not _Notice.said_on_stderr:
            _Notice.said_on_stderr = True
            if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]  (None without a console)
                sys.stderr.write(_NOTICE + "\n")
                sys.stderr.flush()


class _Token(NamedTuple):
    """The least that is written at a time."""

    target: int
    """The index of the tool call that it belongs to; -1 for text."""
    text: str
    head: ToolCall | None = None
    """The head of a tool call, whose arguments follow."""


def _chunks(decision: Decision, messages: Sequence[Message], options: ModelOptions) -> Iterator[Message]:
    """Write a decision as a model streams it."""
    tokens, reason = _write(decision, messages, options)
    for group in _grouped(tokens):
        target, text = group[0].target, "".join(token.text for token in group)
        if target < 0:
            yield Message.assistant(text, extra=_OFFLINE)
        else:
            call = group[0].head or ToolCall(index=target, arguments=text)
            yield Message.assistant("", tool_calls=[call], extra=_OFFLINE)
    read = sum(_count(message) for message in messages)
    usage = Usage(input_tokens=read, output_tokens=len(tokens))
    yield Message.assistant("", usage=usage, finish_reason=reason, extra=_OFFLINE)


def _write(decision: Decision, messages: Sequence[Message], options: ModelOptions) -> tuple[list[_Token], str]:
    """Turn a decision into tokens, up to where the options say stop; and say why it ends."""
    text, calls, reason = decision.text, decision.calls, "tool_calls" if decision.calls else "stop"
    ends = [end for stop in options.stop or () if stop and (end := text.find(stop)) >= 0]
    if ends:
        text, calls, reason = text[: min(ends)], (), "stop"
    tokens = [_Token(-1, token) for token in _TOKEN.findall(text)]
    for index, (call, call_id) in enumerate(zip(calls, _new_ids(messages), strict=False)):
        tokens.append(_Token(index, "", ToolCall(index=index, id=call_id, name=call.name)))
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        tokens += [_Token(index, token) for token in _TOKEN.findall(arguments)]
    if options.max_tokens is not None and len(tokens) > options.max_tokens:
        return tokens[: max(options.max_tokens, 0)], "length"
    return tokens, reason


def _grouped(tokens: Sequence[_Token]) -> Iterator[list[_Token]]:
    """Put a few tokens of one target into a chunk; the head of a tool call goes alone."""
    group: list[_Token] = []
    for token in tokens:
        if group and (
            token.target != group[0].target or token.head or group[0].head or len(group) == _TOKENS_PER_CHUNK
        ):
            yield group
            group = []
        group.append(token)
    if group:
        yield group


def _new_ids(messages: Sequence[Message]) -> Iterator[str]:
    """Give ids that the history does not have; the same history always gives the same."""
    used = {call.id for message in messages for call in message.tool_calls}
    return (call_id for number in count(len(used) + 1) if (call_id := f"call_{number}") not in used)


def _count(message: Message) -> int:
    """Count a message's tokens as this model counts."""
    calls = "".join(f"{call.name}{call.arguments}" for call in message.tool_calls)
    return len(_TOKEN.findall(message.text + calls)) + 1
