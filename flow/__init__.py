"""What is built on the engine: the ReAct agent, models, tools and the command line."""

from __future__ import annotations

from .react import (
    AgentLimitExceeded,
    AgentResult,
    AgentState,
    OutputInvalid,
    ReactAgent,
    RoundLimitExceeded,
    TokenLimitExceeded,
    ToolCallLimitExceeded,
    set_return_directly,
)

__all__ = (
    "AgentLimitExceeded",
    "AgentResult",
    "AgentState",
    "OutputInvalid",
    "ReactAgent",
    "RoundLimitExceeded",
    "TokenLimitExceeded",
    "ToolCallLimitExceeded",
    "set_return_directly",
)
