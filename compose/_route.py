"""Where a node's output goes: along its edges, and along those ends that its branches choose."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from ._context import within
from ._packets import Packet
from ._plan import BranchPlan, NodePlan
from ._run import Run
from .errors import UnknownTargetError

Delivery = tuple[int, bool, bool, bool, Packet]
"""Target, whether the relation is live (else it was not chosen), whether it carries control, data, and the packet."""


async def deliveries(run: Run, node: NodePlan, packet: Packet) -> list[Delivery]:
    """Say what a finished node sends along each of its relations, in the order in which they were declared."""
    chosen: list[Collection[int]] = []
    if node.branches:
        *questions, packet = run.packets.fork(packet, len(node.branches) + 1)
        try:
            for branch, question in zip(node.branches, questions, strict=True):
                chosen.append(await _choose(run, node, branch, question))
        except BaseException:
            for unused in (*questions, packet):
                await run.packets.drop(unused)
            raise
    count = sum(e.data for e in node.edges) + sum(len(c) for b, c in zip(node.branches, chosen, strict=True) if b.data)
    if count == 0:
        await run.packets.drop(packet)
        copies = iter(())
    else:
        copies = iter(run.packets.fork(packet, count))
    sent: list[Delivery] = []
    for edge in node.edges:
        given = next(copies) if edge.data else None
        if edge.check is not None:
            given = run.packets.check(run, edge.check, given)
        sent.append((edge.target, True, edge.control, edge.data, given))
    for branch, ends in zip(node.branches, chosen, strict=True):
        for target in branch.targets:
            if target not in ends:
                sent.append((target, False, True, branch.data, None))
                continue
            given = next(copies) if branch.data else None
            check = branch.checks.get(target)
            if check is not None:
                given = run.packets.check(run, check, given)
            sent.append((target, True, True, branch.data, given))
    return sent


async def _choose(run: Run, node: NodePlan, branch: BranchPlan, packet: Packet) -> Collection[int]:
    where = f"branch {branch.name!r}"
    try:
        answer = await within(run.context(node), run.packets.ask(run, node, branch, packet))
    except Exception as error:
        located = run.located(run.path(node), where, error)
        raise located from located.__cause__
    one = _end(branch, answer)
    if one is not None:
        return (one,)
    if isinstance(answer, (list, tuple, set, frozenset, dict)):
        ends = [_end(branch, label) for label in cast("Collection[Any]", answer)]
        if None not in ends:
            return cast("list[int]", list(dict.fromkeys(ends)))
        answer = next(label for label, end in zip(cast("Collection[Any]", answer), ends, strict=True) if end is None)
    raise run.fail(UnknownTargetError(run.path(node), branch.name, answer, branch.labels))


def _end(branch: BranchPlan, label: Any) -> int | None:
    try:
        found = branch.ends.get(label)
    except TypeError:  # not hashable: a list of ends
        return None
    if found is None:
        key = getattr(label, "key", None)  # a handle, START or END instead of a key
        found = branch.ends.get(key) if isinstance(key, str) else None
    return found
