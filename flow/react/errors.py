"""What an agent raises beside the errors of its graph: its limits, each with the history so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from ...compose import Interrupt, LimitExceeded, RunConflict
from ...schema import AnabranchError, Message


class AgentLimitExceeded(LimitExceeded):
    """An agent reached one of its limits without an answer.

    Attributes:
        path: Where in the graph it happened.
        limit: The limit.
        messages: The history so far, in a form that a model accepts: an agent can go on from it.
    """

    _text = "the agent reached its limit of {limit}"

    def __init__(self, limit: int, messages: Sequence[Message]) -> None:
        self.limit = limit
        self.messages: list[Message] = list(messages)
        super().__init__(self._text.format(limit=limit))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.limit, self.messages)


class RoundLimitExceeded(AgentLimitExceeded):
    """An agent asked its model ``max_rounds`` times, and there is no answer yet."""

    _text = (
        "the agent asked its model {limit} times and has no answer yet; raise max_rounds, or go on from `.messages`, "
        "the history so far"
    )


class ToolCallLimitExceeded(AgentLimitExceeded):
    """An agent's model asks for more tool calls than ``max_tool_calls``; those of its last message were not run."""

    _text = (
        "the agent's model wants more than {limit} tool calls in one run; raise max_tool_calls, or go on from "
        "`.messages`, the history so far"
    )


class TokenLimitExceeded(AgentLimitExceeded):
    """An agent's model took ``max_tokens`` tokens or more, and there is no answer yet."""

    _text = (
        "the agent's model took {limit} tokens or more and there is no answer yet; raise max_tokens, or go on from "
        "`.messages`, the history so far"
    )


class OutputInvalid(AgentLimitExceeded):
    """An agent's answer does not fit ``output``.

    The model gave such answers more often than ``output_retries`` allows; or the result of another tool was returned
    directly, which the model cannot mend.

    Attributes:
        why: What is wrong, in the second case.
    """

    _text = (
        "the agent's model was told {limit} times what is wrong with its answer, and it still does not fit the output "
        "type; raise output_retries=, or say in the prompt what is wanted; `.messages` is the history so far"
    )

    def __init__(self, limit: int, messages: Sequence[Message], why: str = "") -> None:
        super().__init__(limit, messages)
        self.why = why

    @override
    def __str__(self) -> str:
        return f"{self.why}\n`.messages` is the history so far" if self.why else super().__str__()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.limit, self.messages, self.why)


class ThreadConflict(RunConflict):
    """Another turn of the conversation is under way; nothing was saved and nothing has run.

    Attributes:
        thread: The conversation.
        run: The id of the other turn's run, or of the thread if that is not known yet.
    """

    def __init__(self, thread: str, run: str) -> None:
        self.thread = thread
        super().__init__(
            run, f"thread {thread!r} is at work on another turn; wait for it, or let turns wait with busy='queue'"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.thread, self.run)


class TurnUnfinished(AnabranchError):
    """The last turn of a conversation has not ended, so there cannot be a new one; nothing has run.

    Attributes:
        thread: The conversation.
        run: The id of the turn's run.
        interrupts: What it waits for; empty if it has failed or was cut off.
        why: How it stands.
    """

    def __init__(self, thread: str, run: str, interrupts: Sequence[Interrupt], why: str) -> None:
        self.thread = thread
        self.run = run
        self.interrupts: tuple[Interrupt, ...] = tuple(interrupts)
        self.why = why
        super().__init__(
            f"the last turn of thread {thread!r}, run {run!r}, has not ended: {why}; resume({run!r}) goes on with it, "
            "waiting='cancel' gives it up, waiting='queue' lets the new message wait for it"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.thread, self.run, self.interrupts, self.why)


class UnknownThreadError(AnabranchError, LookupError):
    """There is no such conversation in the store, or no such version of it."""

    def __init__(self, thread: str, version: int | None = None) -> None:
        self.thread = thread
        self.version = version
        super().__init__(thread, version)

    def __str__(self) -> str:
        at = "" if self.version is None else f" at version {self.version}"
        return f"there is no thread {self.thread!r}{at} in the store"
