"""The frozen result of compiling a graph: integers and tuples that a scheduler runs.

Nodes are numbered in the order in which they were added; END has the number after the last node, START the one after
that. Builders make a plan and know nothing of running; the scheduler reads a plan and knows nothing of building.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._body import Body
from ._keys import Trigger
from ._spec import Assembler, GraphSpec, Retry


@dataclass(frozen=True, slots=True)
class Check:
    """The run-time test of an edge that *may* fit."""

    accepts: Callable[[object], bool]
    wanted: str
    edge: str
    accepts_chunk: Callable[[object], bool]
    """The test of one chunk of a stream."""
    whole: bool
    """Whether the chunks' test says less than the value's, so that the whole is tested too."""


@dataclass(frozen=True, slots=True)
class EdgePlan:
    """An outgoing edge."""

    target: int
    control: bool
    data: bool
    check: Check | None


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """A branch of a node; every end is one relation of its own."""

    name: str
    condition: Callable[[Any], Any]
    streams: bool
    ends: Mapping[Any, int]
    labels: tuple[str, ...]
    targets: tuple[int, ...]
    """The distinct ends, in the order in which they were declared."""
    data: bool
    check: Check | None
    """The test before the condition."""
    checks: Mapping[int, Check]
    """The tests of the values that go to the ends."""
    on_value: Callable[[Any], Any] | None = None
    """What is asked in value mode, where the condition takes a stream."""


@dataclass(frozen=True, slots=True)
class HandlerPlan:
    """A function before or after a node."""

    call: Callable[[Any, Any], Any]
    streams: bool
    where: str


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node, or START or END, as the scheduler sees it."""

    index: int
    key: str
    body: Body
    edges: tuple[EdgePlan, ...] = ()
    branches: tuple[BranchPlan, ...] = ()
    next: int = -1
    """The one successor that gets this node's output directly, or -1 if it is not that simple."""
    single: int = -1
    """The target, if all that leads out of this node is one unchecked edge with control and data; else -1."""
    choice: BranchPlan | None = None
    """In a graph with trigger "any": the branch, if it alone leads out of this node and its ends take what comes as it
    is; so that the one end that is chosen can run at once."""
    plain: bool = False
    """Whether running the body in value mode is nothing but calling ``body.invoke`` (and awaiting)."""
    flows: bool = False
    """Whether running the body in stream mode is nothing but calling ``body.transform``."""
    bare: bool = False
    """Whether the node is plain and nothing comes before or after the body."""
    handled: bool = False
    """Whether the node is plain, and a pre-handler of values is all there is around the body."""
    data_sources: tuple[int, ...] = ()
    """Who sends values here, in the order in which they were declared."""
    relations: int = 0
    """How many edges and branch ends lead here."""
    has_control: bool = True
    """Whether any of them carries control; if none does, data alone make the node run."""
    join: bool = False
    """In a graph with trigger "any": wait for whatever can still arrive."""
    upstream: frozenset[int] = frozenset()
    """For a join: the nodes from which something can still reach it without passing through it."""
    pre: HandlerPlan | None = None
    post: HandlerPlan | None = None
    input_key: str | None = None
    key_check: Check | None = None
    """The test of what is under the input key, whose type no edge knows."""
    output_key: str | None = None
    input_check: Check | None = None
    """The test of what several senders sent, merged; with one sender its edge has it."""
    takes_one: bool = False
    """Whether what one sender sends is the node's input as it is."""
    merge: Callable[[Sequence[Any]], Any] | None = None
    label_sources: bool = False
    assembler: Assembler | None = None
    empty: Callable[[], Any] | None = None
    """Makes the input of a node that got control and no data."""
    timeout: float | None = None
    retry: Retry | None = None
    name: str = ""
    input: Any = None
    """The type that an edge into the node must give."""
    output: Any = None
    takes: Any = None
    """The type that the body takes, behind the input key; for an empty stream that decides what its value is."""
    gives: Any = None
    """The type that the body gives, before the output key."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled graph."""

    kind: str
    name: str
    trigger: Trigger
    max_steps: int
    nodes: tuple[NodePlan, ...]
    """The nodes, then END, then START."""
    keys: Mapping[str, int]
    input: Any
    output: Any
    input_check: Check | None
    state: Callable[[], Any] | None
    state_type: Any
    spec: GraphSpec = field(repr=False)
    """A private copy of what the builder said, for drawing and introspection."""
    codecs: dict[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)
    """What was made to keep runs of this graph, when it was first needed."""

    @property
    def end(self) -> int:
        """The number of END."""
        return len(self.nodes) - 2

    @property
    def start(self) -> int:
        """The number of START."""
        return len(self.nodes) - 1
