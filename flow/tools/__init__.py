"""Ready tools: a calculator, a clock, and reading within one folder."""

from __future__ import annotations

from ._calculator import calculator
from ._clock import clock_tool, current_time
from ._files import file_tools
from .errors import CalculationError, FileAccessError, UnknownTimezoneError

__all__ = (
    "CalculationError",
    "FileAccessError",
    "UnknownTimezoneError",
    "calculator",
    "clock_tool",
    "current_time",
    "file_tools",
)
