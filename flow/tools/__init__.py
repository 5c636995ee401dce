"""Ready tools: a calculator, a clock, reading within one folder, asking the user, and those of MCP servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...schema._lazy import lazy_exports

if TYPE_CHECKING:
    from ._calculator import calculator
    from ._clock import clock_tool, current_time
    from ._files import file_tools
    from .ask import (
        ChoiceQuestion,
        ConfirmQuestion,
        Decision,
        InputQuestion,
        MultiChoiceQuestion,
        ToolApproval,
        ask_choice,
        ask_confirm,
        ask_input,
        ask_multi_choice,
        confirm_risky,
    )
    from .errors import (
        CalculationError,
        FileAccessError,
        McpConnectionError,
        McpError,
        McpWarning,
        UnknownTimezoneError,
    )
    from .mcp import McpTool, mcp_tools

__all__ = (
    "CalculationError",
    "ChoiceQuestion",
    "ConfirmQuestion",
    "Decision",
    "FileAccessError",
    "InputQuestion",
    "McpConnectionError",
    "McpError",
    "McpTool",
    "McpWarning",
    "MultiChoiceQuestion",
    "ToolApproval",
    "UnknownTimezoneError",
    "ask_choice",
    "ask_confirm",
    "ask_input",
    "ask_multi_choice",
    "calculator",
    "clock_tool",
    "confirm_risky",
    "current_time",
    "file_tools",
    "mcp_tools",
)

if not TYPE_CHECKING:  # a checker would take any name for one that is exported
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_calculator": ("calculator",),
            "_clock": ("clock_tool", "current_time"),
            "_files": ("file_tools",),
            "ask": (
                "ChoiceQuestion",
                "ConfirmQuestion",
                "Decision",
                "InputQuestion",
                "MultiChoiceQuestion",
                "ToolApproval",
                "ask_choice",
                "ask_confirm",
                "ask_input",
                "ask_multi_choice",
                "confirm_risky",
            ),
            "errors": (
                "CalculationError",
                "FileAccessError",
                "McpConnectionError",
                "McpError",
                "McpWarning",
                "UnknownTimezoneError",
            ),
            "mcp": ("McpTool", "mcp_tools"),
        },
    )
