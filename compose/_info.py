"""What a compiled graph is made of, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ._field_mapping import Assembly, FieldMapping
from ._fields import Path
from ._keys import Trigger
from ._plan import NodePlan, Plan
from ._spec import Assembler, GraphSpec, NodeSpec
from ._types import type_name


@dataclass(frozen=True, slots=True)
class MappingInfo:
    """One field mapping: from a path of a sender's output to a path of the input; an empty path is the whole."""

    sender: str
    source: Path = ()
    to: Path = ()
    extract: Callable[[Any], Any] | None = None
    """The function that takes the part from the output, in place of the source path."""

    def __str__(self) -> str:
        return f"{self.sender}: {FieldMapping(self.source, self.to, self.extract)}"


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node."""

    key: str
    name: str
    """The display name: ``name=``, or else the key."""
    component: str
    """What it is: ``"function"``, ``"lambda"``, ``"model"``, ``"tools"``, ``"graph"``, ``"passthrough"`` …"""
    input: Any
    """The type that an edge into it has to give."""
    output: Any
    """The type that an edge out of it gives."""
    input_key: str | None = None
    output_key: str | None = None
    trigger: Trigger | None = None
    """The trigger of this node alone, if it has one."""
    timeout: float | None = None
    attempts: int = 1
    handlers: tuple[str, ...] = ()
    """Which of ``"pre"`` and ``"post"`` it has."""
    merge: Callable[..., Any] | None = None
    """Its own function for what several senders send."""
    label_sources: bool = False
    """Whether it gets the chunks of several senders one by one, with their senders' keys."""
    mappings: tuple[MappingInfo, ...] = ()
    """What its input is put together from, for a node of a workflow; empty if it gets what is sent as it is."""
    static: Mapping[Path, Any] = field(default_factory=dict[Path, Any])
    """The static values in its input, by path."""
    graph: GraphInfo | None = None
    """What is inside, if the node is a graph, or runs one for each item."""
    target: Any = None
    """The function or component itself."""


@dataclass(frozen=True, slots=True)
class EdgeInfo:
    """An edge as it was declared."""

    source: str
    target: str
    control: bool = True
    data: bool = True


@dataclass(frozen=True, slots=True)
class BranchInfo:
    """A branch as it was declared; the ends by what the condition returns."""

    source: str
    name: str
    ends: Mapping[Any, str]
    many: bool
    streams: bool
    data: bool


@dataclass(frozen=True, slots=True)
class GraphInfo:
    """A compiled graph."""

    kind: str
    name: str
    trigger: Trigger
    max_steps: int | None
    """The bound on supersteps; None where every node runs once."""
    input: Any
    output: Any
    state: Any
    """The type of the state, or None."""
    nodes: tuple[NodeInfo, ...]
    edges: tuple[EdgeInfo, ...]
    branches: tuple[BranchInfo, ...]
    end_mappings: tuple[MappingInfo, ...] = ()
    """What the output is put together from, for a workflow."""
    end_static: Mapping[Path, Any] = field(default_factory=dict[Path, Any])

    def node(self, key: str) -> NodeInfo:
        """Give the node with a key.

        Raises:
            KeyError: If there is none.
        """
        for node in self.nodes:
            if node.key == key:
                return node
        raise KeyError(f"there is no node {key!r}; there are {', '.join(repr(n.key) for n in self.nodes)}")

    def __str__(self) -> str:
        signature = f"{type_name(self.input)} -> {type_name(self.output)}"
        return f"{self.kind} {self.name!r} ({signature}) of {len(self.nodes)} nodes"


def graph_info(plan: Plan) -> GraphInfo:
    """Describe a compiled graph."""
    spec: GraphSpec = plan.spec
    return GraphInfo(
        kind=plan.kind,
        name=plan.name,
        trigger=plan.trigger,
        max_steps=plan.max_steps if plan.trigger == "any" else None,
        input=plan.input,
        output=plan.output,
        state=plan.state_type,
        nodes=tuple(_node(plan.nodes[plan.keys[key]], node) for key, node in spec.nodes.items()),
        edges=tuple(EdgeInfo(e.source, e.target, e.control, e.data) for e in spec.edges),
        branches=tuple(BranchInfo(b.source, b.name, dict(b.ends), b.many, b.streams, b.data) for b in spec.branches),
        end_mappings=_mappings(spec.end_assembler),
        end_static=_static(spec.end_assembler),
    )


def _node(plan: NodePlan, spec: NodeSpec) -> NodeInfo:
    handlers = (("pre", spec.pre), ("post", spec.post))
    inside = plan.body.nested if plan.body.nested is not None else plan.body.inside
    return NodeInfo(
        key=spec.key,
        name=spec.name or spec.key,
        component=plan.body.component,
        input=plan.input,
        output=plan.output,
        input_key=spec.input_key,
        output_key=spec.output_key,
        trigger=spec.trigger,
        timeout=spec.timeout,
        attempts=spec.retry.attempts if spec.retry else 1,
        handlers=tuple(which for which, handler in handlers if handler is not None),
        merge=spec.merge,
        label_sources=spec.label_sources,
        mappings=_mappings(spec.assembler),
        static=_static(spec.assembler),
        graph=None if inside is None else graph_info(inside),
        target=plan.body.target,
    )


def _mappings(assembler: Assembler | None) -> tuple[MappingInfo, ...]:
    if not isinstance(assembler, Assembly):
        return ()
    found = [(entry.sender, entry.mapping) for entry in assembler.entries]
    return tuple(MappingInfo(who, m.source, m.to, m.extract) for who, m in found if who is not None)


def _static(assembler: Assembler | None) -> dict[Path, Any]:
    if not isinstance(assembler, Assembly):
        return {}
    return {entry.mapping.to: entry.value for entry in assembler.entries if entry.sender is None}
