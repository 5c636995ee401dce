"""Where a stream was made, and what happens to one that was dropped."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import CodeType, FrameType

from ._stream_source import Postbox

__all__ = ()

Place = tuple[CodeType, int]
"""Some code and the instruction in it: cheap to note, and worked out when somebody asks."""

_NOT_THE_CALLER = (__name__.partition(".")[0] + ".", "typing")  # pipe[int](...) is called by way of typing


def calling_place() -> Place | None:
    """Note which code that is not ours is calling."""
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_NOT_THE_CALLER):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lasti)


def where(place: Place | None) -> str:
    """Describe a place, as the end of a sentence."""
    if place is None:
        return ""
    code, instruction = place
    lines = [position[0] for position in code.co_positions()]
    line = lines[instruction // 2] if instruction // 2 < len(lines) else code.co_firstlineno
    return f", made at {code.co_filename}:{line}"


def drop_later(postbox: Postbox | None, drop: Callable[[], None]) -> None:
    """Let go of a stream in a finalizer: by way of its event loop, if somebody in there may have to be woken."""
    if postbox is None:
        drop()
    else:
        with contextlib.suppress(RuntimeError):  # that loop is closed (trio's RunFinishedError is one too)
            postbox(drop)
