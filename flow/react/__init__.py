"""The ReAct agent: a model that calls tools until it has an answer."""

from __future__ import annotations

from ._agent import AgentResult, Question, ReactAgent
from ._decide import ToolCallChecker
from ._direct import set_return_directly
from ._output import OutputMode
from ._prompt import HistoryFunction, SystemPrompt
from ._state import AgentState
from .errors import (
    AgentLimitExceeded,
    OutputInvalid,
    RoundLimitExceeded,
    TokenLimitExceeded,
    ToolCallLimitExceeded,
)

__all__ = (
    "AgentLimitExceeded",
    "AgentResult",
    "AgentState",
    "HistoryFunction",
    "OutputInvalid",
    "OutputMode",
    "Question",
    "ReactAgent",
    "RoundLimitExceeded",
    "SystemPrompt",
    "TokenLimitExceeded",
    "ToolCallChecker",
    "ToolCallLimitExceeded",
    "set_return_directly",
)
