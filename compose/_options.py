"""The options of one run: checked against the graph before anything runs, and handed to whom they are for."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ._body import Body
from ._events import Event
from ._plan import NodePlan, Plan
from .errors import RunOptionsError

if TYPE_CHECKING:
    from ._control import RunControl
    from ._interrupt import Interrupt
    from ._observe import Observer


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a caller asks of one run.

    Attributes:
        max_steps: The bound on supersteps, in place of the compiled one; only where ``trigger="any"``.
        callbacks: Handlers that see the run; see :class:`Callbacks`.
        at: Options for single nodes, by path (``"chat"``, ``"sub/tools"``): what the component takes
            (:class:`~anabranch.schema.ModelOptions` for a model), or a :class:`RunOptions` of its own for a nested
            graph, or a sequence of several. Any node takes a :class:`RunOptions` with callbacks for it alone.
        for_all: Options for every node that takes their kind, in nested graphs too.
        tags: Labels for callbacks and events.
        metadata: Further data for callbacks and events.
        context: Who and what for this run is, seen by nodes and tools through :func:`current_context`.
        on_interrupt: Answers the questions that nodes and tools ask with :func:`interrupt`; it gets an
            :class:`Interrupt` and returns the answer, sync or async.
        control: By what the run can be paused from outside; see :class:`RunControl`.

    Example:
        >>> from anabranch.schema import ModelOptions
        >>> options = RunOptions(max_steps=5, at={"chat": ModelOptions(temperature=0)})
        >>> options.max_steps
        5
    """

    max_steps: int | None = None
    callbacks: Sequence[Any] = ()
    at: Mapping[str, Any] = field(default_factory=dict[str, Any])
    for_all: Sequence[Any] = ()
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    context: Any = None
    on_interrupt: Callable[[Interrupt], Any] | None = None
    control: RunControl | None = None


@dataclass(slots=True)
class ResolvedOptions:
    """The options of the run of one graph."""

    bodies: dict[int, Body]
    max_steps: int | None
    observer: Observer | None
    given: RunOptions
    run_id: str | None = None
    nested: Mapping[str, ResolvedOptions] = field(default_factory=dict[str, "ResolvedOptions"])

    def below(self, key: str) -> ResolvedOptions:
        """Give the options of a nested graph."""
        found = self.nested.get(key)
        return found if found is not None else replace(self, bodies={}, max_steps=None, nested={})


NO_OPTIONS = RunOptions()


def resolve(plan: Plan, options: RunOptions | None, sink: Callable[[Event], None] | None) -> ResolvedOptions:
    """Check a run's options and hand them to the nodes; ``sink`` gets the run's events, if somebody wants them.

    Raises:
        RunOptionsError: If a path leads nowhere, or a node does not take what is meant for it.
    """
    if options is None:
        if sink is None:
            return ResolvedOptions({}, None, None, NO_OPTIONS)
        options = NO_OPTIONS
    if not isinstance(options, RunOptions):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"options= takes RunOptions, got {type(options).__name__}")
    from ._observe import Observer

    watcher = Observer(options, sink) if sink is not None or _is_watched(options) else None
    resolved = _resolve(plan, options, watcher, "", list(options.for_all))
    for option in options.for_all:
        if not _is_taken(plan, option):
            text = f"no node takes the option for all nodes of type {type(option).__name__}; leave it out"
            raise RunOptionsError(f"for_all={option!r}: {text}")
    return resolved


def _is_watched(options: RunOptions) -> bool:
    """Tell whether there are callbacks for the run or for any part of it."""
    inner = [o for given in options.at.values() for o in _as_list(given) if isinstance(o, RunOptions)]
    return bool(options.callbacks) or any(map(_is_watched, inner))


def _is_taken(plan: Plan, option: Any) -> bool:
    """Tell whether any node takes an option; a graph that is a tool may, and is not looked into."""
    for node in plan.nodes[:-2]:
        inside = _graph_inside(node)
        if node.body.component == "tools" or _takes(node, option) or (inside and _is_taken(inside, option)):
            return True
    return False


def resolve_inside(plan: Plan, observer: Observer | None, prefix: str, for_all: Sequence[Any]) -> ResolvedOptions:
    """Give the options of a graph that is no node and yet runs as a part of a run: a tool that is a graph.

    Args:
        plan: The graph.
        observer: Who watches the run.
        prefix: The path of the graph, and a slash.
        for_all: The options of the run that are for every node that takes their kind.
    """
    if observer is None and not for_all:
        return ResolvedOptions({}, None, None, NO_OPTIONS)
    return _resolve(plan, NO_OPTIONS, observer, prefix, for_all)


def _resolve(
    plan: Plan, options: RunOptions, observer: Observer | None, prefix: str, for_all: Sequence[Any]
) -> ResolvedOptions:
    if options.max_steps is not None:
        if plan.trigger == "all":
            raise RunOptionsError(
                f'max_steps={options.max_steps}: graph {prefix[:-1]!r} has trigger="all" and no loops to bound'
            )
        if options.max_steps < 1:
            raise RunOptionsError(f"max_steps={options.max_steps}: a run takes at least one step")
    here, below = _split(plan, options.at, prefix)
    bodies: dict[int, Body] = {}
    nested: dict[str, ResolvedOptions] = {}
    for node in plan.nodes[:-2]:
        given = [o for o in for_all if _takes(node, o)] + here.get(node.key, [])
        inside, watcher = _graph_inside(node), observer
        if inside is not None:
            inner = _inner_options(options, prefix + node.key, given, below.get(node.key, {}))
            watcher = None if observer is None else observer.inside(inner)
            if given or node.key in below or for_all or watcher is not None:
                deeper = [*for_all, *inner.for_all]
                nested[node.key] = _resolve(inside, inner, watcher, f"{prefix}{node.key}/", deeper)
            given = []
        elif given:
            watcher, given = _watched_node(observer, given)
        if node.body.nested is None and (given or watcher is not None):
            body = _bound(prefix + node.key, node, given) if given else node.body
            bodies[node.index] = body if watcher is None else watcher.decorate(node, body)
    return ResolvedOptions(bodies, options.max_steps, observer, options, nested=nested)


def _split(plan: Plan, at: Mapping[str, Any], prefix: str) -> tuple[dict[str, list[Any]], dict[str, dict[str, Any]]]:
    here: dict[str, list[Any]] = {}
    below: dict[str, dict[str, Any]] = {}
    for path, given in at.items():
        key, _, rest = path.partition("/")
        number = plan.keys.get(key)
        if number is None or number >= plan.end:
            known = [n.key for n in plan.nodes[:-2]]
            close = difflib.get_close_matches(key, known, n=3)
            hint = (
                f"did you mean {' or '.join(map(repr, close))}?"
                if close
                else f"there are {', '.join(map(repr, known[:5]))}"
            )
            raise RunOptionsError(f"options at {prefix + path!r}: there is no node {prefix + key!r}; {hint}")
        if not rest:
            here.setdefault(key, []).extend(_as_list(given))
        elif _graph_inside(plan.nodes[number]) is None:
            raise RunOptionsError(
                f"options at {prefix + path!r}: node {prefix + key!r} is no graph, nothing is inside it"
            )
        else:
            below.setdefault(key, {})[rest] = given
    return here, below


def _watched_node(observer: Observer | None, given: Sequence[Any]) -> tuple[Observer | None, list[Any]]:
    """Take the callbacks for one node out of its options; give who watches it, and the options that are left."""
    left: list[Any] = []
    for option in given:
        callbacks_only = isinstance(option, RunOptions) and option == RunOptions(
            callbacks=option.callbacks, tags=option.tags, metadata=option.metadata
        )
        if not callbacks_only:
            left.append(option)
        elif observer is not None:
            observer = observer.inside(option)
    return observer, left


def _graph_inside(node: NodePlan) -> Plan | None:
    """Give the graph that a node is, or that it runs for every item."""
    found: Plan | None = node.body.nested if node.body.nested is not None else node.body.inside
    return found


def _as_list(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple)) else [given]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _takes(node: NodePlan, option: Any) -> bool:
    kind = node.body.options
    return isinstance(kind, type) and isinstance(option, kind)


def _inner_options(outer: RunOptions, path: str, given: Sequence[Any], at: Mapping[str, Any]) -> RunOptions:
    inner = NO_OPTIONS
    for option in given:
        if not isinstance(option, RunOptions):
            raise RunOptionsError(
                f"options at {path!r}: it is a graph and takes RunOptions, got {type(option).__name__}; "
                f"name the node inside it ({path}/…)"
            )
        inner = option
    context = outer.context if inner.context is None else inner.context
    return replace(inner, at={**inner.at, **at}, context=context)


def _bound(path: str, node: NodePlan, given: Sequence[Any]) -> Body:
    kind = node.body.options
    for option in given:
        if not _takes(node, option):
            wanted = f"takes {kind.__name__}" if isinstance(kind, type) else "takes no options"
            text = f"node {path!r} {wanted}, got {type(option).__name__}"
            raise RunOptionsError(f"options at {path!r}: {text}; give them to a node that takes them")
    merged = given[0]
    for option in given[1:]:
        merged = merged | option if hasattr(merged, "__or__") else option
    assert node.body.bind is not None, "a body that takes options can bind them"
    return node.body.bind(merged)
