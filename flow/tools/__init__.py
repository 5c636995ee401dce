"""Ready tools: a calculator, a clock, reading within one folder, asking the user, and those of MCP servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._calculator import calculator
from ._clock import clock_tool, current_time
from ._files import file_tools
from .errors import (
    CalculationError,
    FileAccessError,
    McpConnectionError,
    McpError,
    McpWarning,
    UnknownTimezoneError,
)

if TYPE_CHECKING:
    from .mcp import McpTool, mcp_tools

__all__ = (
    "CalculationError",
    "FileAccessError",
    "McpConnectionError",
    "McpError",
    "McpTool",
    "McpWarning",
    "UnknownTimezoneError",
    "calculator",
    "clock_tool",
    "current_time",
    "file_tools",
    "mcp_tools",
)

# Imported when they are asked for: they need more of the engine, and what they need takes time to import.
_LATER = {"McpTool": "mcp", "mcp_tools": "mcp"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_LATER[name]}", __name__), name)
