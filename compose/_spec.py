"""What a builder has been told, as plain records; :mod:`._compile` reads them and never changes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ._body import Body
from ._keys import Trigger
from .errors import Problem


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and after which errors a node is tried again.

    In stream mode a node is tried again until its first chunk is out: chunks that others may have read cannot be taken
    back, so an error after that is final. In value mode the same node runs again whatever it had made.

    Attributes:
        attempts: How many times the node may run in all (1 means no retry).
        on: The errors after which it is tried again; others fail at once.
        delay: Seconds before the second attempt.
        factor: What the delay is multiplied with from attempt to attempt.
        max_delay: The longest delay, in seconds.

    Example:
        >>> Retry(attempts=3, on=(ConnectionError,), delay=0.5).delay_before(3)
        1.0
    """

    attempts: int = 3
    on: tuple[type[Exception], ...] = (Exception,)
    delay: float = 0.0
    factor: float = 2.0
    max_delay: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"Retry(attempts={self.attempts}): a node runs at least once; give attempts >= 1")
        if self.delay < 0 or self.max_delay < 0 or self.factor <= 0:
            raise ValueError("Retry: delay and max_delay must not be negative, and factor must be positive")

    def delay_before(self, attempt: int) -> float:
        """Give the seconds to wait before an attempt; the first one is 1 and never waits."""
        return 0.0 if attempt <= 1 else min(self.max_delay, self.delay * self.factor ** (attempt - 2))


class Assembler(Protocol):
    """Makes a node's input from what its senders sent, in place of merging (field mappings, static values)."""

    def problems(self, sources: Mapping[str, Any], target: Any) -> Sequence[str]:
        """Say what cannot work, given the senders' output types and the node's input type."""
        ...

    def assemble(self, values: Mapping[str, Any]) -> Any:
        """Make the input from the values by sender; senders that were skipped are absent."""
        ...

    def assemble_stream(self, readers: Mapping[str, Any], locate: Callable[[Exception], Exception]) -> Any:
        """Make the input stream from the streams by sender, or return None to have them concatenated first.

        ``locate`` makes what such a stream raises of what goes wrong in it.
        """
        ...


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """A function around a node: its types, and whether it takes the stream instead of the value."""

    call: Callable[[Any, Any], Any]
    value: Any
    result: Any
    state: Any
    streams: bool


@dataclass(slots=True)
class NodeSpec:
    """A node as it was added."""

    key: str
    body: Body
    input: Any
    output: Any
    input_key: str | None = None
    output_key: str | None = None
    pre: HandlerSpec | None = None
    post: HandlerSpec | None = None
    trigger: Trigger | None = None
    merge: Callable[[Sequence[Any]], Any] | None = None
    label_sources: bool = False
    timeout: float | None = None
    retry: Retry | None = None
    name: str | None = None
    assembler: Assembler | None = None
    passthrough: bool = False
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def outer_input(self) -> Any:
        """The type that an edge into this node must give."""
        return dict[str, Any] if self.input_key is not None else self.input

    @property
    def outer_output(self) -> Any:
        """The type that an edge out of this node gives."""
        return dict[str, self.output] if self.output_key is not None else self.output  # type: ignore[name-defined]  # pyright: ignore[reportInvalidTypeArguments]


@dataclass(frozen=True, slots=True)
class EdgeSpec:
    """An edge as it was added; it carries control, data, or both."""

    source: str
    target: str
    control: bool = True
    data: bool = True


@dataclass(frozen=True, slots=True)
class BranchSpec:
    """A branch as it was added: the label that its condition returns leads to a node's key."""

    source: str
    name: str
    condition: Callable[[Any], Any]
    input: Any
    streams: bool
    ends: Mapping[Any, str]
    many: bool
    data: bool = True
    on_value: Callable[[Any], Any] | None = None
    """What is asked in value mode, where the condition takes a stream."""


@dataclass(slots=True)
class GraphSpec:
    """Everything a builder knows, in the order in which it was said."""

    kind: str
    input: Any
    output: Any
    name: str = ""
    nodes: dict[str, NodeSpec] = field(default_factory=dict[str, NodeSpec])
    edges: list[EdgeSpec] = field(default_factory=list[EdgeSpec])
    branches: list[BranchSpec] = field(default_factory=list[BranchSpec])
    state: Callable[[], Any] | None = None
    state_type: Any = None
    end_assembler: Assembler | None = None
    end_merge: Callable[[Sequence[Any]], Any] | None = None
    max_steps: int | None = None
    problems: list[Problem] = field(default_factory=list[Problem])
