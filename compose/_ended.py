"""How the run of one graph can end well in a durable run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..schema import StreamReader
from ._packets import Packet


@dataclass(frozen=True, slots=True)
class Live:
    """The output of the graph, as a stream that is being made."""

    reader: StreamReader[Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """The output of the graph, or the stream of it."""

    packet: Packet
    live: bool = False
    """Whether it is being made while it is read."""
