"""What is built on the engine: the ReAct agent, models, tools and the command line."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .react import (
        AgentLimitExceeded,
        AgentResult,
        AgentState,
        OutputInvalid,
        ReactAgent,
        RoundLimitExceeded,
        ThreadConflict,
        TokenLimitExceeded,
        ToolCallLimitExceeded,
        TurnUnfinished,
        set_return_directly,
    )

__all__ = (
    "AgentLimitExceeded",
    "AgentResult",
    "AgentState",
    "OutputInvalid",
    "ReactAgent",
    "RoundLimitExceeded",
    "ThreadConflict",
    "TokenLimitExceeded",
    "ToolCallLimitExceeded",
    "TurnUnfinished",
    "set_return_directly",
)


if not TYPE_CHECKING:  # a checker would take any name for one that is exported

    def __getattr__(name: str) -> Any:
        """Load the agent when it is asked for: the command line's help needs no engine."""
        if name in __all__:
            return getattr(import_module(".react", __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
