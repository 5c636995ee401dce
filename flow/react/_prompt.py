"""What stands before and after the model: the history that it sees, and the one that is kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

from ...schema import Message, TextPart, repair_history
from ._state import AgentState, leave_state, model_state
from .errors import RoundLimitExceeded, TokenLimitExceeded, ToolCallLimitExceeded

T = TypeVar("T")

HistoryFunction = Callable[[list[Message]], Sequence[Message] | Awaitable[Sequence[Message]]]
"""Gets a copy of the history, and gives the one that counts."""

SystemPrompt = str | Message | Callable[[list[Message]], str | Message | Awaitable[str | Message]]
"""A text, a system message, or a function that makes one of the history."""


class BeforeModel:
    """Takes what is new into the history, and makes what the model sees; the pre-handler of the model."""

    def __init__(
        self,
        system_prompt: SystemPrompt | None,
        more_prompt: str,
        rewriter: HistoryFunction | None,
        modifier: HistoryFunction | None,
        limits: Limits,
    ) -> None:
        self._prompt = _as_prompt(system_prompt, more_prompt)
        self._more = more_prompt
        self._rewriter = rewriter
        self._modifier = modifier
        self._limits = limits
        prompt_is_made = self._prompt is not None and not isinstance(self._prompt, Message)
        self._is_simple = rewriter is None and modifier is None and not prompt_is_made and not more_prompt

    def prepare(self, new: list[Message], state: AgentState) -> list[Message] | Awaitable[list[Message]]:
        """Do it; with something to wait for only where a function of the user's has to be called."""
        model_state.set(state)  # the handler and the model share the context of the node
        if state.rounds == 0:
            leave_state(state)
            new = repair_history(new)
        state.messages += new
        self._limits.count_round(state)
        if not self._is_simple:
            return self._prepare_with_functions(state)
        seen = list(state.messages)
        if self._prompt is not None and not (seen and seen[0].role == "system"):
            seen.insert(0, cast("Message", self._prompt))
        return seen

    async def _prepare_with_functions(self, state: AgentState) -> list[Message]:
        if self._rewriter is not None:
            rewritten = await settled(self._rewriter(list(state.messages)))
            state.messages = repair_history(rewritten)
        seen = list(state.messages)
        if self._modifier is not None:
            seen = repair_history(await settled(self._modifier(seen)))
        if seen and seen[0].role == "system":
            if self._more:
                seen[0] = Message.system([*seen[0].parts, TextPart(f"\n\n{self._more}")])
        elif self._prompt is not None:
            seen.insert(0, await self._make_prompt(state))
        return seen

    async def _make_prompt(self, state: AgentState) -> Message:
        prompt = self._prompt
        assert prompt is not None, "only called where there is one"
        if isinstance(prompt, Message):
            return prompt
        made: str | Message = await settled(prompt(list(state.messages)))
        made = made if isinstance(made, Message) else Message.system(made)
        return Message.system([*made.parts, TextPart(f"\n\n{self._more}")]) if self._more else made


class Limits:
    """How much an agent may use up in one run."""

    def __init__(self, max_rounds: int, max_tool_calls: int | None, max_tokens: int | None, final: str = "") -> None:
        for name, limit in (("max_rounds", max_rounds), ("max_tool_calls", max_tool_calls), ("max_tokens", max_tokens)):
            if limit is not None and limit < (0 if name == "max_tool_calls" else 1):
                raise ValueError(f"{name}={limit}: give a positive number")
        self.max_rounds = max_rounds
        self._max_tool_calls = max_tool_calls
        self._max_tokens = max_tokens
        self._final = final

    def count_round(self, state: AgentState) -> None:
        """Count a model call that is about to be made.

        Raises:
            RoundLimitExceeded: The model was asked as often as it may be.
            TokenLimitExceeded: The calls so far took all the tokens that they may take.
        """
        if state.rounds >= self.max_rounds:
            raise RoundLimitExceeded(self.max_rounds, state.messages)
        if self._max_tokens is not None and state.usage.total_tokens >= self._max_tokens:
            raise TokenLimitExceeded(self._max_tokens, state.messages)
        state.rounds += 1

    def before_tools(self, message: Message, state: AgentState) -> Message:
        """Count the calls of a message; give it as it stands in the history. The pre-handler of the tools.

        Raises:
            ToolCallLimitExceeded: There are more calls than there may be; none of these has run.
        """
        state.marked = []
        calls = message.tool_calls
        state.tool_calls += len([call for call in calls if call.name != self._final] if self._final else calls)
        if self._max_tool_calls is not None and state.tool_calls > self._max_tool_calls:
            raise ToolCallLimitExceeded(self._max_tool_calls, repair_history(state.messages))
        return state.messages[-1]


def _as_prompt(
    given: SystemPrompt | None, more: str
) -> Message | Callable[[list[Message]], str | Message | Awaitable[str | Message]] | None:
    if given is None or given == "":
        return Message.system(more) if more else None
    if isinstance(given, str):
        return Message.system(_joined(given, more))
    if isinstance(given, Message):
        if given.role != "system":
            raise ValueError(f"system_prompt is a message of role {given.role!r}; make it with Message.system(...)")
        return Message.system([*given.parts, TextPart(f"\n\n{more}")]) if more else given
    return given


def _joined(text: str, more: str) -> str:
    return f"{text}\n\n{more}" if text and more else text or more


async def settled(given: T | Awaitable[T]) -> T:
    """Await what a function of the user's gave, if it is to be awaited."""
    if hasattr(given, "__await__"):
        return await cast("Awaitable[T]", given)
    return given  # pyright: ignore[reportReturnType]
