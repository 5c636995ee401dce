"""The two virtual nodes of every graph, as typed singletons, and the names of the triggers."""

from __future__ import annotations

from typing import Final, Literal

Trigger = Literal["any", "all"]
"""When a node runs: as soon as *any* predecessor has sent it something, or once *all* are settled."""


class Start:
    """The virtual node whose output is the graph's input; there is one, :data:`START`."""

    __slots__ = ()
    key: Literal["start"] = "start"

    def __repr__(self) -> str:
        return "START"

    def __reduce__(self) -> str:
        return "START"


class End:
    """The virtual node whose input is the graph's output; there is one, :data:`END`."""

    __slots__ = ()
    key: Literal["end"] = "end"

    def __repr__(self) -> str:
        return "END"

    def __reduce__(self) -> str:
        return "END"


START: Final = Start()
"""Where a graph begins; its key is ``"start"``."""

END: Final = End()
"""Where a graph ends; its key is ``"end"``."""
