"""What the ready tools raise; every text is written for the model that called the tool."""

from __future__ import annotations

from ...schema.errors import AnabranchError


class CalculationError(AnabranchError, ValueError):
    """An expression cannot be read, has no real value, or is beyond the calculator's limits."""


class UnknownTimezoneError(AnabranchError, ValueError):
    """A time zone is not known by the name that was given."""


class FileAccessError(AnabranchError, ValueError):
    """A file is outside the folder, missing, too large, or not a text file."""


class McpError(AnabranchError):
    """An MCP server refused something, or answered what makes no sense."""


class McpConnectionError(McpError, ConnectionError):
    """An MCP server cannot be reached, or was lost in a call."""


class McpWarning(UserWarning):
    """An MCP server offers something that cannot be used."""
