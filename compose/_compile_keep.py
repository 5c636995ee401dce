"""Check, when a graph is compiled, that its runs can be kept as asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypedDict, cast

from ._answers import remember
from ._codec import codec_for
from ._plan import NodePlan, Plan
from ._record import Durability, Keeping, Redact
from ._store import CheckpointStore
from ._types import type_name
from .errors import GraphCompileError, Problem, UnsavableTypeError

if TYPE_CHECKING:
    from ._codec import Json


class KeepOptions(TypedDict, total=False):
    """What :meth:`Graph.compile` takes about keeping runs."""

    store: CheckpointStore
    durability: Durability
    interrupt_before: Sequence[str]
    interrupt_after: Sequence[str]
    expire_after: float
    redact: Redact
    migrate: Callable[[dict[str, Any]], dict[str, Any]]
    answers: Sequence[Any]


def keeping_of(plan: Plan, options: KeepOptions) -> Keeping | None:
    """Say how a compiled graph keeps its runs.

    Raises:
        GraphCompileError: With everything that is in the way.
    """
    store = options.get("store")
    problems = list(_problems(plan, options))
    if problems:
        title = f"{plan.kind} {plan.name!r}" if plan.name else f"the {plan.kind}"
        raise GraphCompileError(title, problems)
    if store is None:
        return None
    remember(options.get("answers", ()))
    return Keeping(
        store=store,
        durability=options.get("durability", "step"),
        graph=fingerprint(plan),
        expire_after=options.get("expire_after"),
        redact=options.get("redact"),
        migrate=options.get("migrate"),
        before=frozenset(options.get("interrupt_before", ())),
        after=frozenset(options.get("interrupt_after", ())),
    )


def _problems(plan: Plan, options: KeepOptions) -> Iterator[Problem]:
    store = options.get("store")
    if store is None:
        for name in options:
            yield Problem("bad-option", f"{name}= is about runs that are kept; give store= too, or leave it out")
        return
    if not isinstance(store, CheckpointStore):  # pyright: ignore[reportUnnecessaryIsInstance]
        yield Problem("bad-option", f"store= takes a store such as MemoryStore(), got {type(store).__name__}")
    durability = options.get("durability", "step")
    if durability not in ("step", "pause"):
        yield Problem("bad-option", f'durability={durability!r}: there are "step" and "pause"')
    after = options.get("expire_after")
    if after is not None and not after > 0:
        yield Problem("bad-option", f"expire_after={after!r}: give seconds, more than 0")
    known = {path for path, _ in _nodes(plan, "")}
    points = {name: options.get(name, ()) for name in ("interrupt_before", "interrupt_after")}
    for which, paths in points.items():
        if isinstance(paths, str):
            yield Problem("bad-option", f"{which}={paths!r}: give a list of paths of nodes")
            continue
        for path in cast("Sequence[str]", paths):
            if path not in known:
                yield Problem(
                    "unknown-node", f"{which}: there is no node {path!r}; there are {', '.join(sorted(known))}"
                )
    yield from _unsavable(plan, "")


def _unsavable(plan: Plan, prefix: str) -> Iterator[Problem]:
    """Find the types that a store could not save."""
    if plan.state is not None:
        yield from _refused(plan.state_type, f"the state of graph {prefix[:-1]!r}" if prefix else "the state", None)
    if not prefix:
        yield from _refused(plan.input, "the graph's input", None)
        yield from _refused(plan.output, "the graph's output", None)
    for node in plan.nodes[:-2]:
        path = prefix + node.key
        yield from _refused(node.output, f"what node {path!r} gives", path)
        if node.pre is not None:
            yield from _refused(node.takes, f"what node {path!r} takes", path)
        if node.post is not None:
            yield from _refused(node.gives, f"what node {path!r} gives to its post-handler", path)
        inside = _inside(node)
        if inside is not None:
            yield from _unsavable(inside, f"{path}/")


def _refused(form: Any, what: str, node: str | None) -> Iterator[Problem]:
    try:
        codec_for(form)
    except UnsavableTypeError as error:
        at = f" ({error.path})" if error.path else ""
        text = f"{what} cannot be saved: {type_name(form)}{at}: {error.why}"
        yield Problem("unsavable", text, node)


def _inside(node: NodePlan) -> Plan | None:
    found: Plan | None = node.body.nested if node.body.nested is not None else node.body.inside
    return found


def _nodes(plan: Plan, prefix: str) -> Iterator[tuple[str, NodePlan]]:
    for node in plan.nodes[:-2]:
        yield prefix + node.key, node
        inside = _inside(node)
        if inside is not None:
            yield from _nodes(inside, f"{prefix}{node.key}/")


def fingerprint(plan: Plan) -> str:
    """Say in a few characters what matters to a run that is kept: another graph must not go on with it."""
    text = json.dumps(_shape(plan), ensure_ascii=True, sort_keys=True)
    return blake2b(text.encode(), digest_size=12).hexdigest()


def _shape(plan: Plan) -> Json:
    nodes: list[Json] = []
    for node in plan.nodes:
        inside = _inside(node)
        nodes.append(
            [
                node.key,
                node.body.component,
                *(type_name(form) for form in (node.input, node.output, node.takes, node.gives)),
                [node.join, node.pre is not None, node.post is not None, node.input_key, node.output_key],
                [[plan.nodes[e.target].key, e.control, e.data] for e in node.edges],
                [[b.name, [plan.nodes[t].key for t in b.targets], list(b.labels), b.data] for b in node.branches],
                None if inside is None else _shape(inside),
            ]
        )
    return [plan.kind, plan.trigger, type_name(plan.state_type), nodes]
