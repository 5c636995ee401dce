"""Check the document of a run as far as the graph tells what must be in it: before anything runs, or is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._frontier import EagerFrontier, RoundsFrontier
from ._interrupt import read_interrupt
from ._keep import GRAPH, reading
from ._scope import Scope

if TYPE_CHECKING:
    from ._plan import Plan
    from ._record import Path, Record


def check_document(record: Record, plan: Plan) -> None:
    """Read everything once, nested graphs too.

    Raises:
        DamagedRecordError: If something in it is not what was written.
    """
    with reading(record):
        scope = Scope(record, GRAPH, (), plan)
        if not scope.fresh:
            _check_graph(scope)
        int(record.at(("delivered",)) or 0)


def _check_graph(scope: Scope) -> None:
    plan = scope.plan
    if plan.state is not None:
        scope.state()
    scope.restore_tasks()
    (RoundsFrontier(plan) if plan.trigger == "any" else EagerFrontier(plan)).read(scope)
    for task in scope.tasks.values():
        tree = scope.record.at(task.path)
        int(tree["step"])
        _check_part(scope.record, task.path, task.address, tree, task.node.body.nested)


def _check_part(record: Record, path: Path, address: tuple[str, ...], tree: Any, inside: Plan | None) -> None:
    for question in tree.get("asked", {}).values():
        read_interrupt(record, question)
    for name, step in tree.get("steps", {}).items():
        if not isinstance(step, dict) or "arguments" not in step or not ("result" in step or "lost" in step):
            raise ValueError(f"step {name!r} at {'/'.join(address)!r} has no result")
    for name, part in tree.get("parts", {}).items():
        _check_part(record, (*path, "parts", name), (*address, name), part, None)
    if inside is not None and "graph" in tree:
        _check_graph(Scope(record, (*path, "graph"), address, inside))
