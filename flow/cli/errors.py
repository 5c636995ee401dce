"""What stops the command line. Nothing is imported here, so that the help is there at once."""

from __future__ import annotations


class UsageError(Exception):
    """The command was given something that it cannot work with: exit status 2, one line on stderr."""


class OutputClosed(Exception):
    """Whoever read the standard output has stopped reading: there is nobody left to write for."""


class RunWaits(Exception):
    """A run was saved and waits for an answer, which was said: exit status 3."""
