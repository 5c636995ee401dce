"""The builder of graphs: nodes, edges and branches in any order; nothing runs here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, cast, get_args, overload

from typing_extensions import TypeVar, Unpack

from ..schema import ChatModel, Message, StreamReader
from ..schema._near import did_you_mean
from ._body import Body, ShapeError
from ._build import body_of, branch_spec, handler_spec, key_of
from ._keys import END, START, End, Start, Trigger
from ._lambda import Lambda
from ._spec import EdgeSpec, GraphSpec, HandlerSpec, NodeSpec, Retry
from .errors import Problem

if TYPE_CHECKING:
    from ._runnable import Runnable
    from ._store import CheckpointStore

InputT = TypeVar("InputT", default=Any)
OutputT = TypeVar("OutputT", default=Any)
In_contra = TypeVar("In_contra", contravariant=True, default=Any)
Out_co = TypeVar("Out_co", covariant=True, default=Any)
A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")


class Node(Generic[In_contra, Out_co]):
    """The typed handle of a node, as :meth:`Graph.add_node` returns it; good for one graph.

    Attributes:
        key: The node's key.
    """

    __slots__ = ("__weakref__", "key")

    def __init__(self, key: str) -> None:
        self.key: str = key

    def __repr__(self) -> str:
        return f"<node {self.key!r}>"


class PlainNodeOptions(TypedDict, total=False):
    """What :meth:`Graph.add_node` takes and what does not change the types that edges see."""

    pre: Callable[[Any, Any], Any]
    """``(input, state) -> input``, before the node."""
    post: Callable[[Any, Any], Any]
    """``(output, state) -> output``, after the node."""
    trigger: Trigger
    """``"all"`` in a graph with trigger "any": wait for whatever can still arrive."""
    merge: Callable[[Sequence[Any]], Any]
    """Make one value of those that several senders sent, in the order in which the senders were declared."""
    label_sources: bool
    """In stream mode, give the node ``(sender, chunk)`` pairs and a ``SourceEnd`` for each sender that ended."""
    timeout: float
    """Seconds that one attempt may take."""
    retries: int | Retry
    """How often to try again after an error: a number of further attempts, or a policy."""
    blocking: bool
    """Run a plain ``def`` in a worker thread."""
    name: str
    """A display name for callbacks and drawings."""


class NodeOptions(PlainNodeOptions, total=False):
    """What :meth:`Graph.add_node` takes beside the key and the node itself."""

    input_key: str
    """Take the value under this key of a ``dict``."""
    output_key: str
    """Wrap the output into a ``dict`` with this one key."""


class CompileOptions(TypedDict, total=False):
    """What :meth:`Graph.compile` takes."""

    trigger: Trigger
    max_steps: int
    name: str
    store: CheckpointStore
    durability: Literal["step", "pause"]
    interrupt_before: Sequence[str]
    interrupt_after: Sequence[str]
    expire_after: float
    redact: Callable[[Any], Any]
    migrate: Callable[[dict[str, Any]], dict[str, Any]]
    answers: Sequence[Any]


SHAPE_OPTIONS = ("trigger", "max_steps", "name")
"""Those that are about the graph itself; the others are about keeping its runs."""


class GraphLike(Generic[InputT, OutputT]):
    """What every builder shares: a specification that compiles to a :class:`~anabranch.compose.Runnable`."""

    _default_trigger: Trigger = "any"

    def __init__(self, spec: GraphSpec) -> None:
        self._given = spec

    def _spec(self) -> GraphSpec:
        """Give what was said so far, with the types of a subscripted class filled in."""
        spec = self._given
        if spec.input is None or spec.output is None:
            arguments = get_args(getattr(self, "__orig_class__", None)) or (Any, Any)
            spec.input = arguments[0] if spec.input is None else spec.input
            spec.output = arguments[1] if spec.output is None else spec.output
        return spec

    def compile(self, **options: Unpack[CompileOptions]) -> Runnable[InputT, OutputT]:
        """Check everything that can be checked, and make an immutable graph that runs.

        The builder does not change; compiling again gives another graph.

        Args:
            **options: ``trigger="any"`` (supersteps, cycles allowed) or ``"all"`` (each node once, as soon as all its
                predecessors are settled); ``max_steps`` bounds the supersteps of one run (by default 100 more than
                there are nodes); ``name`` is what callbacks, drawings and errors call the graph.
                With ``store`` runs are kept and can be resumed: ``durability="step"`` saves each step before the next
                begins, ``"pause"`` only when a run stops or does a durable step; ``interrupt_before`` and
                ``interrupt_after`` name nodes (by path) where runs stop; ``expire_after`` is how many seconds a run
                that has ended or stopped is kept at least; ``redact`` gets each JSON tree that is saved and gives what
                is saved in its place; ``migrate`` brings the document of a run that another version of the graph has
                made up to date; ``answers`` are the types of answers to questions, so that they can be tested in a
                process that has asked none.

        Returns:
            The compiled graph; it may run many times at once.

        Raises:
            GraphCompileError: With everything that is wrong.
        """
        from ._compile import compile_spec
        from ._runnable import Runnable

        shape: dict[str, Any] = {name: given for name, given in options.items() if name in SHAPE_OPTIONS}
        plan = compile_spec(self._spec(), default_trigger=self._default_trigger, **shape)
        if len(shape) == len(options):
            return Runnable(plan)
        from ._compile_keep import KeepOptions, keeping_of

        rest = {name: given for name, given in options.items() if name not in shape}
        return Runnable(plan, keeping_of(plan, cast("KeepOptions", rest)))


class Graph(GraphLike[InputT, OutputT]):
    """Build a graph of nodes that are joined by edges and branches.

    ``Graph[str, Message]()`` says what goes in and what comes out; everything is checked when it is compiled.

    Args:
        state: Makes the state of one run: a class or a function without parameters.
        input: The type of the input, in place of the subscript.
        output: The type of the output, in place of the subscript.
        name: What callbacks, drawings and errors call the graph.
        max_steps: The bound on supersteps that holds where ``compile`` is given none, as for a nested graph.

    Example:
        >>> from anabranch.compose import END, START, Graph
        >>> def shout(text: str) -> str:
        ...     return text.upper()
        >>> graph = Graph[str, str]()
        >>> node = graph.add_node("shout", shout)
        >>> graph.add_edge(START, node)
        >>> graph.add_edge(node, END)
        >>> graph.compile().invoke_sync("tides")
        'TIDES'
    """

    def __init__(
        self,
        *,
        state: Callable[[], Any] | None = None,
        input: Any = None,
        output: Any = None,
        name: str = "",
        max_steps: int | None = None,
    ) -> None:
        kind = state_type(state)
        super().__init__(GraphSpec("graph", input, output, name, state=state, state_type=kind, max_steps=max_steps))

    # The most specific shapes first: a checker takes the first that fits.
    @overload
    def add_node(
        self, key: str, node: GraphLike[A, B] | Runnable[A, B] | Lambda[A, B], /, **options: Unpack[PlainNodeOptions]
    ) -> Node[A, B]: ...
    @overload
    def add_node(
        self, key: str, node: ChatModel, /, **options: Unpack[PlainNodeOptions]
    ) -> Node[Sequence[Message], Message]: ...
    @overload
    def add_node(
        self, key: str, node: Callable[[StreamReader[A]], AsyncIterator[B]], /, **options: Unpack[PlainNodeOptions]
    ) -> Node[A, B]: ...
    @overload
    def add_node(
        self, key: str, node: Callable[[StreamReader[A]], Awaitable[B]], /, **options: Unpack[PlainNodeOptions]
    ) -> Node[A, B]: ...
    @overload
    def add_node(
        self, key: str, node: Callable[[StreamReader[A]], B], /, **options: Unpack[PlainNodeOptions]
    ) -> Node[A, B]: ...
    @overload
    def add_node(
        self, key: str, node: Callable[[A], AsyncIterator[B]], /, **options: Unpack[PlainNodeOptions]
    ) -> Node[A, B]: ...
    @overload
    def add_node(
        self, key: str, node: Callable[[A], Awaitable[B]], /, **options: Unpack[PlainNodeOptions]
    ) -> Node[A, B]: ...
    @overload
    def add_node(self, key: str, node: Callable[[A], B], /, **options: Unpack[PlainNodeOptions]) -> Node[A, B]: ...
    @overload
    def add_node(
        self, key: str, node: Callable[[], Awaitable[B]], /, **options: Unpack[PlainNodeOptions]
    ) -> Node[Any, B]: ...
    @overload
    def add_node(self, key: str, node: Callable[[], B], /, **options: Unpack[PlainNodeOptions]) -> Node[Any, B]: ...
    @overload
    def add_node(
        self,
        key: str,
        node: object,
        /,
        *,
        input: type[A],
        output: type[B],
        **options: Unpack[PlainNodeOptions],
    ) -> Node[A, B]: ...
    # With keys, edges see dicts.
    @overload
    def add_node(
        self, key: str, node: object, /, *, input_key: str, output_key: str, **options: Unpack[PlainNodeOptions]
    ) -> Node[Mapping[str, Any], dict[str, Any]]: ...
    @overload
    def add_node(
        self, key: str, node: object, /, *, input_key: str, **options: Unpack[PlainNodeOptions]
    ) -> Node[Mapping[str, Any], Any]: ...
    @overload
    def add_node(
        self,
        key: str,
        node: GraphLike[A, Any] | Runnable[A, Any] | Lambda[A, Any],
        /,
        *,
        output_key: str,
        **options: Unpack[PlainNodeOptions],
    ) -> Node[A, dict[str, Any]]: ...
    @overload
    def add_node(
        self, key: str, node: ChatModel, /, *, output_key: str, **options: Unpack[PlainNodeOptions]
    ) -> Node[Sequence[Message], dict[str, Any]]: ...
    @overload
    def add_node(
        self,
        key: str,
        node: Callable[[StreamReader[A]], object],
        /,
        *,
        output_key: str,
        **options: Unpack[PlainNodeOptions],
    ) -> Node[A, dict[str, Any]]: ...
    @overload
    def add_node(
        self, key: str, node: Callable[[A], object], /, *, output_key: str, **options: Unpack[PlainNodeOptions]
    ) -> Node[A, dict[str, Any]]: ...
    @overload
    def add_node(
        self, key: str, node: object, /, *, input: Any = ..., output: Any = ..., **options: Unpack[NodeOptions]
    ) -> Node[Any, Any]: ...

    def add_node(
        self, key: str, node: object, /, *, input: Any = None, output: Any = None, **options: Unpack[NodeOptions]
    ) -> Node[Any, Any]:
        """Add a node.

        Args:
            key: What edges and errors call it; unique in this graph, not ``"start"`` nor ``"end"``, without ``/``.
            node: A function (its shape is its paradigm), a :class:`Lambda`, a component such as a chat model, or
                another graph, chain, workflow or compiled graph.
            input: The type of the input, where annotations do not say it.
            output: The type of the output (of one chunk, for a stream).
            **options: See :class:`NodeOptions`.

        Returns:
            The node's typed handle, for edges and branches.

        Raises:
            TypeError: If an option is unknown. Everything else is reported by :meth:`GraphLike.compile`.
        """
        add_node(self._given, key, node, input, output, cast("dict[str, Any]", options))
        return Node(key)

    def add_passthrough(self, key: str, **options: Unpack[NodeOptions]) -> Node[Any, Any]:
        """Add a node that hands its input on; it takes the type of its neighbours."""
        body = Body(None, None, "passthrough", key, invoke=same, transform=same)
        add_node(self._given, key, body, None, None, cast("dict[str, Any]", options))
        return Node(key)

    # Those with types last: a checker that finds none to fit tells of the last.
    @overload
    def add_edge(self, source: Start | str, target: End | str, *, control: bool = True, data: bool = True) -> None: ...
    @overload
    def add_edge(self, source: Node[Any, Any], target: str, *, control: bool = True, data: bool = True) -> None: ...
    @overload
    def add_edge(self, source: str, target: Node[Any, Any], *, control: bool = True, data: bool = True) -> None: ...
    @overload
    def add_edge(self, source: Node[Any, OutputT], target: End, *, control: bool = True, data: bool = True) -> None: ...
    @overload
    def add_edge(
        self, source: Start, target: Node[InputT, Any], *, control: bool = True, data: bool = True
    ) -> None: ...
    @overload
    def add_edge(
        self, source: Node[Any, T], target: Node[T, Any], *, control: bool = True, data: bool = True
    ) -> None: ...

    def add_edge(self, source: Any, target: Any, *, control: bool = True, data: bool = True) -> None:
        """Lead from one node to another.

        Args:
            source: A handle or key, or :data:`START`.
            target: A handle or key, or :data:`END`.
            control: Whether the target runs because the source ran.
            data: Whether the source's output goes to the target.

        Raises:
            TypeError: If an end is neither a handle nor a key. Everything else is reported by ``compile``.
        """
        self._given.edges.append(EdgeSpec(key_of(source), key_of(target), control, data))

    def add_branch(
        self,
        source: Node[Any, T] | Start | str,
        condition: Callable[[T], Any] | Callable[[StreamReader[T]], Any] | Lambda[T, Any],
        ends: Iterable[Any] | Mapping[Any, Any] | None = None,
        *,
        data: bool = True,
        name: str | None = None,
    ) -> None:
        """Let a function choose where to go on after a node.

        Args:
            source: The node whose output the condition gets.
            condition: Takes the output (or a copy of its stream, with a ``StreamReader`` parameter) and returns one
                end, or a list or set of ends; sync or async. ``Lambda(invoke=, collect=)`` has a function for each.
            ends: Where it may lead, when its annotation (``-> Literal["a", "end"]``) does not say so: handles, keys
                and :data:`END`, or a mapping from what it returns to those.
            data: Whether the source's output goes along to the chosen ends.
            name: What drawings and errors call the branch; by default the condition's name.

        Raises:
            TypeError: If the source is neither a handle nor a key. Everything else is reported by ``compile``.
        """
        key = key_of(source)
        try:
            self._given.branches.append(branch_spec(key, condition, ends, data=data, name=name))
        except (ShapeError, TypeError) as error:
            label = name or getattr(condition, "__name__", repr(condition))
            self._given.problems.append(Problem("bad-branch", f"branch {label!r} of node {key!r}: {error}", key))


def same(value: Any) -> Any:
    return value


def state_type(state: Callable[[], Any] | None) -> Any:
    if state is None or isinstance(state, type):
        return state
    from ._types import resolve_hints

    try:
        return resolve_hints(state).get("return", Any)
    except (NameError, TypeError, AttributeError):
        return Any


def add_node(spec: GraphSpec, key: str, what: object, input: Any, output: Any, options: dict[str, Any]) -> None:
    """Record a node, and what is wrong with it; every builder goes through here."""
    unknown = sorted(options.keys() - NodeOptions.__annotations__.keys())
    if unknown:
        raise TypeError(
            f"add_node({key!r}): unknown option {unknown[0]!r}{did_you_mean(unknown[0], NodeOptions.__annotations__)}; "
            f"there are {', '.join(sorted(NodeOptions.__annotations__))}"
        )
    if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a node's key is a string, got {type(key).__name__}: {key!r}")
    if not _key_is_good(spec, key):
        return
    try:
        body = what if isinstance(what, Body) else body_of(what, blocking=options.get("blocking", False))
    except ShapeError as error:
        spec.problems.append(Problem("bad-node", f"node {key!r}: {error}", key))
        body = Body(Any, Any, "function", key)
    passthrough = body.component == "passthrough"
    spec.nodes[key] = NodeSpec(
        key,
        body,
        body.input if input is None else input,
        body.output if output is None else output,
        options.get("input_key"),
        options.get("output_key"),
        _handler(spec, key, "pre", options),
        _handler(spec, key, "post", options),
        options.get("trigger"),
        options.get("merge"),
        options.get("label_sources", False),
        options.get("timeout"),
        _retry(spec, key, options.get("retries")),
        options.get("name"),
        passthrough=passthrough,
    )


def _key_is_good(spec: GraphSpec, key: str) -> bool:
    if key in (START.key, END.key):
        spec.problems.append(Problem("reserved-key", f"node key {key!r} is reserved; choose another one", key))
    elif key in spec.nodes:
        spec.problems.append(
            Problem("doubled-key", f"node {key!r} was added twice; each node needs a key of its own", key)
        )
    elif not key or "/" in key:
        text = f"node key {key!r} is empty or holds '/', which separates the keys of a path; choose another one"
        spec.problems.append(Problem("bad-key", text, key))
    else:
        return True
    return False


def _handler(spec: GraphSpec, key: str, which: str, options: dict[str, Any]) -> HandlerSpec | None:
    function = options.get(which)
    if function is None:
        return None
    try:
        return handler_spec(function)
    except ShapeError as error:
        spec.problems.append(Problem("bad-handler", f"the {which}-handler of node {key!r}: {error}", key))
        return None


def _is_count(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 0


def _retry(spec: GraphSpec, key: str, retries: int | Retry | None) -> Retry | None:
    if retries is None or isinstance(retries, Retry):
        return retries
    if not _is_count(retries):
        text = f"node {key!r}: retries={retries!r} must be a number of further attempts, or a Retry"
        spec.problems.append(Problem("bad-option", text, key))
        return None
    return Retry(attempts=retries + 1)
