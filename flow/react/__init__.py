"""The ReAct agent: a model that calls tools until it has an answer."""

from __future__ import annotations

from ._agent import ReactAgent
from ._ask import AgentResult, Question
from ._decide import ToolCallChecker
from ._direct import set_return_directly
from ._output import OutputMode
from ._prompt import HistoryFunction, SystemPrompt
from ._runs import AgentKeepOptions, ResumeOptions, TurnOptions
from ._seats import Busy
from ._state import AgentState
from ._threads import ThreadInfo, ThreadVersion
from ._turns import Waiting
from .errors import (
    AgentLimitExceeded,
    OutputInvalid,
    RoundLimitExceeded,
    ThreadConflict,
    TokenLimitExceeded,
    ToolCallLimitExceeded,
    TurnUnfinished,
    UnknownThreadError,
)

__all__ = (
    "AgentKeepOptions",
    "AgentLimitExceeded",
    "AgentResult",
    "AgentState",
    "Busy",
    "HistoryFunction",
    "OutputInvalid",
    "OutputMode",
    "Question",
    "ReactAgent",
    "ResumeOptions",
    "RoundLimitExceeded",
    "SystemPrompt",
    "ThreadConflict",
    "ThreadInfo",
    "ThreadVersion",
    "TokenLimitExceeded",
    "ToolCallChecker",
    "ToolCallLimitExceeded",
    "TurnOptions",
    "TurnUnfinished",
    "UnknownThreadError",
    "Waiting",
    "set_return_directly",
)
