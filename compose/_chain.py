"""A line of nodes: a builder on top of the same records as :class:`~anabranch.compose.Graph`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Self, cast, overload

from typing_extensions import TypeVar, Unpack

from ..schema import ChatModel, Message, StreamReader
from ._body import Body, ShapeError
from ._build import branch_spec, key_of
from ._graph import GraphLike, NodeOptions, add_node, same, state_type
from ._keys import END, START
from ._lambda import Lambda
from ._spec import BranchSpec, EdgeSpec, GraphSpec
from .errors import Problem

if TYPE_CHECKING:
    from ._runnable import Runnable

InputT = TypeVar("InputT", default=Any)
OutputT = TypeVar("OutputT", default=Any)
A = TypeVar("A")
B = TypeVar("B")


class ChainOptions(NodeOptions, total=False):
    """What :meth:`Chain.append` takes beside the node itself."""

    key: str
    """What edges, errors and options call the node, in place of ``node_<number>``."""


class Chain(GraphLike[InputT, OutputT]):
    """Build a line of nodes, with parallel stretches and branches that come together again.

    ``Chain[A, B]()`` says what goes in and what comes out. A chain is checked when it is compiled, like any graph.

    Args:
        state: Makes the state of one run: a class or a function without parameters.
        input: The type of the input, in place of the subscript.
        output: The type of the output, in place of the subscript.
        name: What callbacks, drawings and errors call the chain.

    Example:
        >>> def shout(text: str) -> str:
        ...     return text.upper()
        >>> def count(text: str) -> int:
        ...     return len(text)
        >>> def show(both: dict[str, object]) -> str:
        ...     return f"{both['loud']} has {both['size']} letters"
        >>> chain = Chain[str, str]().parallel({"loud": shout, "size": count}).append(show)
        >>> chain.compile().invoke_sync("tides")
        'TIDES has 5 letters'
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
        super().__init__(GraphSpec("chain", input, output, name, state=state, state_type=state_type(state)))
        self._ends: list[str] = [START.key]
        """The nodes that nothing follows yet."""
        self._count = 0

    def append(
        self, node: object, /, *, input: Any = None, output: Any = None, **options: Unpack[ChainOptions]
    ) -> Self:
        """Add a node behind all that are open.

        Args:
            node: Anything that :meth:`Graph.add_node` takes.
            input: The type of the input, where annotations do not say it.
            output: The type of the output.
            **options: See :class:`NodeOptions`; and ``key``.

        Returns:
            The chain itself.
        """
        given = cast("dict[str, Any]", options)
        key = given.pop("key", None)
        key = f"node_{self._count}" if key is None else key
        self._add([(key, node, input, output, given)])
        return self

    def passthrough(self) -> Self:
        """Add a node that hands its input on, for example between two parallel stretches.

        Returns:
            The chain itself.
        """
        key = f"node_{self._count}"
        body = Body(None, None, "passthrough", key, invoke=same, transform=same)
        return self.append(body)

    def parallel(self, nodes: Mapping[str, object], /) -> Self:
        """Add nodes that all get the same input; what follows gets a ``dict`` of their outputs.

        Args:
            nodes: Each node under the key of the ``dict`` that its output goes to; at least two.

        Returns:
            The chain itself.
        """
        given = cast("Mapping[Any, object]", nodes)
        self._may_spread("parallel", given)
        for key in given:
            if not isinstance(key, str):
                text = f"its keys become those of a dict, so they are strings; got {key!r}"
                self._problem(f"parallel at node_{self._count}: {text}")
        start = f"node_{self._count}_parallel_"
        self._add([(f"{start}{i}", node, None, None, {"output_key": k}) for i, (k, node) in enumerate(given.items())])
        return self

    def branch(self, condition: Callable[..., Any], nodes: Mapping[Any, object], /, *, name: str | None = None) -> Self:
        """Add nodes of which a condition chooses one (or several, if it returns a list or a set).

        Args:
            condition: Takes what the nodes would get (or a copy of its stream) and returns a name.
            nodes: The nodes by name; at least two.
            name: What drawings and errors call the branch; by default the condition's name.

        Returns:
            The chain itself.
        """
        label = name or str(getattr(condition, "__name__", "condition"))
        self._may_spread(f"branch {label!r}", nodes)
        keys = {choice: f"node_{self._count}_branch_{choice}" for choice in nodes}
        try:
            branch = self._branch(self._ends[0], condition, keys, label)
        except (ShapeError, TypeError) as error:
            self._problem(f"branch {label!r} at node_{self._count}: {error}")
            branch = BranchSpec(self._ends[0], label, condition, Any, streams=False, ends=keys, many=False)
        if nodes:
            self._given.branches.append(branch)
        self._add([(keys[choice], node, None, None, {}) for choice, node in nodes.items()], joined=False)
        return self

    def _branch(self, source: str, condition: Callable[..., Any], keys: Mapping[Any, str], label: str) -> BranchSpec:
        try:
            declared = branch_spec(source, condition, None, data=True, name=label)
        except ShapeError:
            return branch_spec(source, condition, keys or {"": ""}, data=True, name=label)
        ends: dict[Any, str] = {}
        for answer in declared.ends:
            choice = answer.value if isinstance(answer, Enum) and answer not in keys else answer
            if choice not in keys:
                there = ", ".join(map(repr, keys))
                raise ShapeError(f"the condition may return {answer!r}, and its nodes are {there}")
            ends[answer] = keys[choice]
        unused = [choice for choice, key in keys.items() if key not in ends.values()]
        if unused:
            raise ShapeError(f"the condition never returns {unused[0]!r}; let it, or leave that node out")
        return replace(declared, ends=ends)

    def _may_spread(self, what: str, nodes: Mapping[Any, object]) -> None:
        """Report what speaks against several nodes side by side."""
        if not isinstance(nodes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{what}: wanted a dict of nodes, got {type(nodes).__name__}")
        where = f"{what} at node_{self._count}"
        if len(nodes) < 2:
            self._problem(f"{where}: it takes at least two nodes; use append for one")
        if len(self._ends) > 1:
            self._problem(f"{where}: it cannot follow several open ends; put passthrough() in between")

    def _add(self, nodes: Sequence[tuple[str, object, Any, Any, dict[str, Any]]], *, joined: bool = True) -> None:
        """Add nodes side by side behind all open ends; those that cannot be added are left out, which is reported."""
        added: list[str] = []
        for key, node, input_type, output_type, options in nodes:
            is_new = key not in self._given.nodes
            add_node(self._given, key, node, input_type, output_type, options)
            if is_new and key in self._given.nodes:
                added.append(key)
        if joined:
            self._given.edges.extend(EdgeSpec(end, key) for key in added for end in self._ends)
        self._ends = added or self._ends
        self._count += 1

    def _problem(self, text: str) -> None:
        self._given.problems.append(Problem("bad-chain", text))

    def _spec(self) -> GraphSpec:
        spec = super()._spec()
        if self._count == 0:
            problem = Problem("bad-chain", "the chain is empty; append at least one node")
            return replace(spec, problems=[*spec.problems, problem])
        return replace(spec, edges=[*spec.edges, *(EdgeSpec(end, key_of(END)) for end in self._ends)])

    @overload
    def __or__(self, node: GraphLike[OutputT, B] | Runnable[OutputT, B] | Lambda[OutputT, B]) -> Chain[InputT, B]: ...
    @overload
    def __or__(self: Chain[InputT, list[Message]], node: ChatModel) -> Chain[InputT, Message]: ...
    @overload
    def __or__(self, node: Callable[[StreamReader[OutputT]], AsyncIterator[B]]) -> Chain[InputT, B]: ...
    @overload
    def __or__(self, node: Callable[[OutputT], AsyncIterator[B]]) -> Chain[InputT, B]: ...
    @overload
    def __or__(self, node: Callable[[OutputT], Awaitable[B]]) -> Chain[InputT, B]: ...
    @overload
    def __or__(self, node: Callable[[OutputT], B]) -> Chain[InputT, B]: ...
    @overload
    def __or__(self, node: Mapping[str, object]) -> Chain[InputT, dict[str, Any]]: ...
    def __or__(self, node: Any) -> Chain[Any, Any]:
        """Make a chain with one more node; a ``dict`` is a parallel stretch. This chain does not change.

        The output type follows from the last node.
        """
        spec = GraphLike._spec(self)
        longer: Chain[Any, Any] = copy(self)
        longer.__dict__.pop("__orig_class__", None)
        longer._given = replace(
            spec,
            nodes=dict(spec.nodes),
            edges=list(spec.edges),
            branches=list(spec.branches),
            problems=list(spec.problems),
        )
        if isinstance(node, Mapping):
            longer.parallel(cast("Mapping[str, object]", node))
            longer._given.output = dict[str, Any]
        else:
            longer.append(node)
            last = longer._given.nodes.get(longer._ends[0])
            longer._given.output = Any if last is None else last.outer_output
        return longer
