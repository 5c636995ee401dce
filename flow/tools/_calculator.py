"""The tool that calculates."""

from __future__ import annotations

from ...schema import tool
from ._arithmetic import evaluate, format_number


@tool(in_thread=False)
def calculator(expression: str) -> str:
    """Calculate an arithmetic expression exactly and give its value.

    Args:
        expression: Numbers with + - * / // % and ** (or ^), parentheses, pi, e, and functions such as sqrt,
            sin, log, abs, round, min, max, floor, ceil, factorial. Example: (312 * 46) + 2280

    Returns:
        The value as text.

    Raises:
        CalculationError: If the text is no arithmetic, has no real value, or goes beyond a limit.
    """
    return format_number(evaluate(expression))
