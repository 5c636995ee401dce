"""What stops the command line."""

from __future__ import annotations

from ...schema.errors import AnabranchError


class UsageError(AnabranchError):
    """The command was given something that it cannot work with: exit status 2, one line on stderr."""


class OutputClosed(Exception):
    """Whoever read the standard output has stopped reading: there is nobody left to write for."""
