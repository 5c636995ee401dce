"""What an agent raises beside the errors of its graph: its limits, each with the history so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...compose import LimitExceeded
from ...schema import Message


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
        self.messages = list(messages)
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
    """An agent's model gave answers that do not fit ``output``, more often than ``output_retries`` allows."""

    _text = (
        "the agent's model was told {limit} times what is wrong with its answer, and it still does not fit the output "
        "type; `.messages` is the history so far"
    )
