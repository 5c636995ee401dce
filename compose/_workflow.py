"""Nodes that declare where their input comes from: a builder on top of the same records as ``Graph``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Self, cast

from typing_extensions import TypeVar, Unpack

from ._body import Body, ShapeError
from ._build import branch_spec, key_of
from ._field_mapping import Assembly, FieldMapping, field, path_of
from ._graph import GraphLike, NodeOptions, add_node, same, state_type
from ._keys import END, START
from ._spec import EdgeSpec, GraphSpec, NodeSpec
from .errors import Problem

InputT = TypeVar("InputT", default=Any)
OutputT = TypeVar("OutputT", default=Any)


class WorkflowNode:
    """A node of a workflow: say here where its input comes from, and what it waits for.

    Attributes:
        key: The node's key.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self._assembly = Assembly()
        self._relations: dict[str, EdgeSpec] = {}

    def __repr__(self) -> str:
        return f"<workflow node {self.key!r}>"

    def input(self, source: Any, *mappings: FieldMapping | str, control: bool = True) -> Self:
        """Take input from another node.

        Args:
            source: The node's handle or key, or :data:`START`.
            *mappings: Which parts of its output become which parts of the input (:func:`field`; a string maps the
                field of that name to the field of the same name). Without any, the whole output is the whole input.
            control: Whether this node also waits for the choice to run the source; without it, only its data count.

        Returns:
            The node itself.

        Raises:
            TypeError: If the source is neither a handle nor a key, or a mapping is neither a :func:`field` nor a name.
        """
        key = key_of(source)
        self._assembly.add(key, [_mapping(mapping) for mapping in mappings])
        self._relate(EdgeSpec(key, self.key, control, True))
        return self

    def after(self, *sources: Any) -> Self:
        """Run after other nodes, without taking anything from them.

        Args:
            *sources: Handles or keys.

        Returns:
            The node itself.
        """
        for source in sources:
            self._relate(EdgeSpec(key_of(source), self.key, True, False))
        return self

    def static(self, to: str | Iterable[str], value: Any) -> Self:
        """Give a part of the input the same value in every run.

        Args:
            to: The path in the input, as in :func:`field`.
            value: The value; its type is checked when the workflow is compiled. Lists, dicts and sets are copied for
                each run.

        Returns:
            The node itself.
        """
        self._assembly.add_static(path_of(to if isinstance(to, str) else tuple(to)), value)
        return self

    def _relate(self, edge: EdgeSpec) -> None:
        """Note an edge; two from one node become one that carries what both do.

        Values are merged in the order in which they were asked for, so an edge stands where its data do.
        """
        old = self._relations.get(edge.source)
        if old is not None:
            if edge.data and not old.data:
                del self._relations[edge.source]
            edge = EdgeSpec(edge.source, edge.target, edge.control or old.control, edge.data or old.data)
        self._relations[edge.source] = edge

    def _edges(self) -> list[EdgeSpec]:
        return list(self._relations.values())


def _mapping(given: FieldMapping | str) -> FieldMapping:
    if isinstance(given, FieldMapping):
        return given
    if isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        return field(given, to=given)
    raise TypeError(
        f"input() takes mappings made by field(), or names of fields; got {type(given).__name__}: {given!r}"
    )


class Workflow(GraphLike[InputT, OutputT]):
    """Build a graph of nodes that each declare their inputs, with data and order apart.

    Every node runs at most once, as soon as its predecessors are settled.

    Args:
        state: Makes the state of one run: a class or a function without parameters.
        input: The type of the input, in place of the subscript.
        output: The type of the output, in place of the subscript.
        name: What callbacks, drawings and errors call the workflow.

    Attributes:
        end: The workflow's output, to be declared like a node's input.

    Example:
        >>> from anabranch.compose import START, Workflow, field
        >>> def greet(x: dict[str, str]) -> str:
        ...     return f"{x['word']}, {x['name']}!"
        >>> wf = Workflow[dict[str, str], str]()
        >>> greeting = wf.add_node("greet", greet).input(START, field("user", to="name")).static("word", "Ahoy")
        >>> _ = wf.end.input(greeting)
        >>> wf.compile().invoke_sync({"user": "Ada"})
        'Ahoy, Ada!'
    """

    _default_trigger = "all"

    def __init__(
        self,
        *,
        state: Callable[[], Any] | None = None,
        input: Any = None,
        output: Any = None,
        name: str = "",
    ) -> None:
        super().__init__(GraphSpec("workflow", input, output, name, state=state, state_type=state_type(state)))
        self._handles: dict[str, WorkflowNode] = {}
        self.end: WorkflowNode = WorkflowNode(END.key)

    def add_node(
        self, key: str, node: object, /, *, input: Any = None, output: Any = None, **options: Unpack[NodeOptions]
    ) -> WorkflowNode:
        """Add a node.

        Args:
            key: What inputs and errors call it.
            node: Anything that :meth:`Graph.add_node` takes.
            input: The type of the input, where annotations do not say it.
            output: The type of the output.
            **options: See :class:`NodeOptions`.

        Returns:
            The node's handle, to declare its input with.
        """
        add_node(self._given, key, node, input, output, cast("dict[str, Any]", options))
        handle = WorkflowNode(key)
        self._handles.setdefault(key, handle)
        return handle

    def add_passthrough(self, key: str) -> WorkflowNode:
        """Add a node that hands its input on.

        Args:
            key: What inputs and errors call it.

        Returns:
            The node's handle.
        """
        return self.add_node(key, Body(None, None, "passthrough", key, invoke=same, transform=same))

    def add_branch(
        self,
        source: Any,
        condition: Callable[..., Any],
        ends: Iterable[Any] | Mapping[Any, Any] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        """Let a function choose which nodes may run; it carries control only, the ends declare their own inputs.

        Args:
            source: The node whose output the condition gets.
            condition: As in :meth:`Graph.add_branch`.
            ends: As in :meth:`Graph.add_branch`.
            name: What drawings and errors call the branch.
        """
        key = key_of(source)
        try:
            self._given.branches.append(branch_spec(key, condition, ends, data=False, name=name))
        except (ShapeError, TypeError) as error:
            label = name or getattr(condition, "__name__", repr(condition))
            self._given.problems.append(Problem("bad-branch", f"branch {label!r} of node {key!r}: {error}", key))

    def _spec(self) -> GraphSpec:
        spec = super()._spec()
        nodes, edges, problems = dict(spec.nodes), list[EdgeSpec](), list(spec.problems)
        for key, handle in self._handles.items():
            edges += handle._edges()  # pyright: ignore[reportPrivateUsage]
            assembly = handle._assembly  # pyright: ignore[reportPrivateUsage]
            if key not in nodes or not assembly.is_needed:
                continue
            nodes[key] = _assembled(nodes[key], assembly.copy(), spec)
            if nodes[key].merge is not None:
                text = f"node {key!r}: merge= and field mappings or static values contradict each other; choose one"
                problems.append(Problem("bad-option", text, key))
        edges += self.end._edges()  # pyright: ignore[reportPrivateUsage]
        ending = self.end._assembly  # pyright: ignore[reportPrivateUsage]
        end_assembler = ending.copy() if ending.is_needed else None
        return replace(spec, nodes=nodes, edges=edges, problems=problems, end_assembler=end_assembler)


def _assembled(node: NodeSpec, assembly: Assembly, spec: GraphSpec) -> NodeSpec:
    """Let a node's input be put together; a passthrough then has the type of what is put together."""
    if not node.passthrough:
        return replace(node, assembler=assembly)
    known = {key: other.outer_output for key, other in spec.nodes.items() if not other.passthrough}
    form = assembly.form({**known, START.key: spec.input})
    return replace(node, assembler=assembly, passthrough=False, input=form, output=form)
