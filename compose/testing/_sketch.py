"""A generated graph as plain data: it can be built, and written as the code that builds it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from .._graph import Graph, GraphLike
from .._keys import END, START
from .._map import Map
from .._runnable import Runnable
from ..errors import GraphWarning
from . import pieces
from .pieces import Choice, Handler, Notes, code_of_type

__all__ = ("BranchSketch", "EdgeSketch", "GraphSketch", "NodeSketch", "Raw")

MERGES: Final = {"gather": pieces.gather}


@dataclass(frozen=True)
class Raw:
    """Something that is no piece, with the code that makes it; planted faults need that."""

    code: str
    value: Any

    def __repr__(self) -> str:
        return self.code

    def function(self) -> Any:
        """Give it, as a condition or handler."""
        return self.value


@dataclass(frozen=True)
class NodeSketch:
    """A node: a piece, a nested graph, or a passthrough (None)."""

    key: str
    work: Any = None
    input_key: str | None = None
    output_key: str | None = None
    pre: Handler | Raw | None = None
    post: Handler | Raw | None = None
    trigger: Any = None
    merge: str | None = None
    timeout: float | None = None

    def options(self) -> dict[str, Any]:
        """Give the options of ``add_node`` that are not left out, with the functions made."""
        made = {
            "input_key": self.input_key,
            "output_key": self.output_key,
            "pre": self.pre and self.pre.function(),
            "post": self.post and self.post.function(),
            "trigger": self.trigger,
            "merge": self.merge and MERGES[self.merge],
            "timeout": self.timeout,
        }
        return {name: value for name, value in made.items() if value is not None}

    def code_of_options(self) -> str:
        """Write the options as code, with a comma in front of each."""
        shown = {name: repr(getattr(self, name)) for name in self.options()}
        if self.merge:
            shown["merge"] = self.merge
        return "".join(f", {name}={text}" for name, text in shown.items())


@dataclass(frozen=True)
class EdgeSketch:
    """An edge."""

    source: str
    target: str
    control: bool = True
    data: bool = True


@dataclass(frozen=True)
class BranchSketch:
    """A branch; without ``declares`` nothing says where it leads."""

    source: str
    choice: Choice | Raw
    ends: tuple[str, ...]
    data: bool = True
    declares: bool = True


@dataclass(frozen=True)
class GraphSketch:
    """A graph, and how it is compiled."""

    input: Any
    output: Any
    nodes: tuple[NodeSketch, ...] = ()
    edges: tuple[EdgeSketch, ...] = ()
    branches: tuple[BranchSketch, ...] = ()
    state: bool = False
    trigger: Any = "any"
    max_steps: int | None = None

    def build(self) -> Graph[Any, Any]:
        """Make the graph."""
        graph: Graph[Any, Any] = Graph(input=self.input, output=self.output, state=Notes if self.state else None)
        for node in self.nodes:
            options: Any = node.options()
            if node.work is None:
                graph.add_passthrough(node.key, **options)
            else:
                graph.add_node(node.key, _made(node.work, graph), **options)
        for edge in self.edges:
            graph.add_edge(edge.source, edge.target, control=edge.control, data=edge.data)
        for branch in self.branches:
            ends = list(branch.ends) if branch.declares else None
            graph.add_branch(branch.source, branch.choice.function(), ends, data=branch.data)
        return graph

    def compile_options(self) -> dict[str, Any]:
        """Give the options of ``compile`` that are not left out."""
        options = {"trigger": self.trigger, "max_steps": self.max_steps}
        default: dict[str, Any] = {"trigger": "any", "max_steps": None}
        return {name: value for name, value in options.items() if value != default[name]}

    def code(self, name: str = "graph") -> str:
        """Write the code that builds it."""
        return "\n".join(self._lines(name))

    def _lines(self, name: str) -> Iterator[str]:
        for node in self.nodes:
            inner = node.work.work if isinstance(node.work, MapSketch) else node.work
            if isinstance(inner, GraphSketch):
                yield from inner._lines(f"{name}_{node.key}")
        types = f"{code_of_type(self.input)}, {code_of_type(self.output)}"
        yield f"{name} = Graph[{types}]({'state=Notes' if self.state else ''})"
        for node in self.nodes:
            options = node.code_of_options()
            if node.work is None:
                yield f"{name}.add_passthrough({node.key!r}{options})"
            else:
                yield f"{name}.add_node({node.key!r}, {_code(node.work, name, node.key)}{options})"
        for edge in self.edges:
            flags = "".join(f", {flag}=False" for flag in ("control", "data") if not getattr(edge, flag))
            yield f"{name}.add_edge({_end(edge.source)}, {_end(edge.target)}{flags})"
        for branch in self.branches:
            ends = f", [{', '.join(map(_end, branch.ends))}]" if branch.declares else ""
            flags = "" if branch.data else ", data=False"
            yield f"{name}.add_branch({_end(branch.source)}, {branch.choice!r}{ends}{flags})"


@dataclass(frozen=True)
class MapSketch:
    """As a node's work: a map over a list, of a piece or a graph."""

    work: Any


@dataclass(frozen=True)
class Itself:
    """As a node's work: the graph that the node is in."""

    def __repr__(self) -> str:
        return "graph"


def options_as_code(options: dict[str, Any]) -> str:
    """Write keyword arguments as code."""
    return ", ".join(f"{name}={value!r}" for name, value in options.items())


def compiled(graph: GraphLike[Any, Any], options: Any) -> Runnable[Any, Any]:
    """Compile a graph, without the warnings about its shape."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        return graph.compile(**options)


def _made(work: Any, graph: Graph[Any, Any]) -> Any:
    if isinstance(work, Itself):
        return graph
    if isinstance(work, Raw):
        return work.value
    if isinstance(work, MapSketch):
        return Map(_made(work.work, graph))
    if isinstance(work, GraphSketch):
        inner = work.build()
        options: Any = work.compile_options()
        return compiled(inner, options) if options else inner
    return work


def _code(work: Any, name: str, key: str) -> str:
    if isinstance(work, MapSketch):
        return f"Map({_code(work.work, name, key)})"
    if isinstance(work, GraphSketch):
        options = work.compile_options()
        compiled = f".compile({options_as_code(options)})" if options else ""
        return f"{name}_{key}{compiled}"
    return repr(work)


def _end(key: str) -> str:
    return {START.key: "START", END.key: "END"}.get(key, repr(key))
