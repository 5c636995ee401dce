"""What happens in a run, as one ordered sequence of typed events; every other view of a run is a filter of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..schema import Message

if TYPE_CHECKING:
    from ._interrupt import Interrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have."""

    run: str
    """The id of the run."""
    path: str
    """The path of the node concerned (``"agent/tools"``), or of the graph (``""`` for the outermost)."""
    attempt: int
    """Which attempt of the node this belongs to; the first is 1."""
    sequence: int
    """The place of the event in its run, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """The run of a graph begins; nested graphs have one of their own."""

    input: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Event):
    """The run of a graph has its output."""

    output: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(Event):
    """The run of a graph ends with an error."""

    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPaused(Event):
    """The run was saved and has stopped; it is the last event of this part of the run."""

    interrupts: Sequence[Interrupt]
    """Everything that the run waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStarted(Event):
    """A node begins; the input is None where it is a stream."""

    component: str
    input: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEnded(Event):
    """A node has its whole output."""

    component: str
    output: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailed(Event):
    """An attempt of a node failed; what it streamed before counts for nothing if another attempt follows."""

    component: str
    error: BaseException
    will_retry: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChunk(Event):
    """A node that streams has given a chunk that is no message."""

    chunk: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDelta(Event):
    """A model has given a part of its message."""

    delta: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEvent(Event):
    """What all events of one tool call have."""

    call_id: str
    tool: str
    position: int
    """The place of the call in its message, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(ToolEvent):
    """A tool call begins."""

    arguments: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDelta(ToolEvent):
    """A tool that streams has given a chunk."""

    chunk: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded(ToolEvent):
    """A tool call has its result."""

    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFailed(ToolEvent):
    """A tool call failed; the text is what the model is told, if it is told."""

    error: BaseException
    told: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptRequested(Event):
    """A node or tool asks a person, and waits."""

    interrupt: Interrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptAnswered(Event):
    """The answer has come."""

    interrupt: Interrupt
    answer: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom(Event):
    """What a node said with :func:`emit`."""

    data: Any
