"""How failures of tools are told to the model, and which of them are the tool's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import cast

import anyio

from ._crew import on_asyncio


def told_of(name: str, error: BaseException) -> str:
    """Say that a tool failed, and how: of a group, how each of its parts did."""
    what = "; ".join(f"{type(one).__name__}: {said(one)}" for one in leaves(error))
    return f"The tool {name!r} failed: {what}"


def said(error: BaseException) -> str:
    """Give the text of an error, whatever its class makes of that."""
    try:
        return str(error)
    except Exception:
        return "(it has no text)"


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Give the errors of a group, and of the groups in it; of anything else, itself."""
    if isinstance(error, BaseExceptionGroup):
        for one in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(one)
    else:
        yield error


def is_stray(error: BaseException) -> bool:
    """Tell whether a cancellation is only that of something a tool waited for: nobody has cancelled this task.

    On trio a task cannot see the cancellation of another one.
    """
    if not on_asyncio() or not isinstance(error, sys.modules["asyncio"].CancelledError):
        return False
    task = sys.modules["asyncio"].current_task()
    return task.cancelling() == 0 and anyio.current_effective_deadline() != float("-inf")


def error_of_stray(error: BaseException) -> Exception:
    """Make a failure of such a cancellation."""
    made = StrayCancellation("something that it waited for was cancelled")
    made.__cause__ = error
    return made


class StrayCancellation(RuntimeError):
    """A tool waited for something that was cancelled, and did not handle that."""
