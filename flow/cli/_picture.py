"""Pictures of Mermaid texts, drawn by Mermaid itself in an embedded JavaScript engine."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from ...schema import MissingExtraError
from .errors import UsageError

_LIMITS = {"maxEdges": 1_000_000, "maxTextSize": 1_000_000_000}
"""Mermaid refuses more than 500 edges, so that nobody can keep a web page busy; here it is the user's own graph."""


def check_output(output: Path) -> None:
    """See to it that a picture can be written to a file, before anything is done for it.

    Args:
        output: The file.

    Raises:
        UsageError: If its name does not say which kind of picture it is, or there is no such folder.
    """
    if output.suffix.lower() not in (".svg", ".png"):
        raise UsageError(f"--output: {str(output)!r} must end in .svg or .png")
    if not output.parent.is_dir():
        raise UsageError(f"--output: there is no folder {str(output.parent)!r}")


def write_picture(text: str, output: Path) -> None:
    """Draw a picture and write it to a file.

    Args:
        text: What to draw, as Mermaid text.
        output: The file; the picture is of the kind that its name says.

    Raises:
        MissingExtraError: If what draws it is not installed.
        UsageError: If the file cannot be written.
    """
    try:
        mermaidx: Any = import_module("mermaidx")
    except ModuleNotFoundError as error:
        raise MissingExtraError("mermaidx", "draw") from error
    diagram = mermaidx.render(text, config=_LIMITS)
    picture: bytes = diagram.png() if output.suffix.lower() == ".png" else diagram.svg().encode()
    try:
        output.write_bytes(picture)
    except OSError as error:
        raise UsageError(f"--output: {str(output)!r} cannot be written: {error.strerror or error}") from error
