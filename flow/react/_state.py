"""What an agent knows in one run: its history, and what has been used of its limits."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

from ...schema import Message, Usage


@dataclass(slots=True)
class AgentState:
    """The state of one run of an agent; ``current_state(AgentState)`` gives it to tools and middlewares."""

    messages: list[Message] = field(default_factory=list[Message])
    """The history: what the agent was given, the model's messages, the tools' answers, the final answer."""
    rounds: int = 0
    """How often the model was asked."""
    tool_calls: int = 0
    """How many calls the model has made, beside those that give a typed answer."""
    usage: Usage = field(default_factory=Usage)
    """What the model calls of this run cost."""
    marked: list[int] = field(default_factory=list[int])
    """The calls of this round that asked to be the answer, by their place, in the order in which they ended."""
    answer: int = -1
    """The place of the tool call whose result ends the run, or -1."""
    corrections: int = 0
    """How often the model was told that its answer does not fit the output type."""


model_state: ContextVar[AgentState | None] = ContextVar("anabranch_agent_state", default=None)
"""The state, from the model's pre-handler to the model, which need not ask for it then."""

states: ContextVar[list[AgentState] | None] = ContextVar("anabranch_agent_states", default=None)
"""Where the outermost agent of a run leaves its state for whoever wants the history afterwards."""


def leave_state(state: AgentState) -> None:
    """Give the state to whoever waits for it, unless an agent further out did."""
    waiting = states.get()
    if waiting is not None and not waiting:
        waiting.append(state)
