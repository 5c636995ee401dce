"""Where a node's output goes: along its edges, and along those ends that its branches choose."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from ._context import within
from ._packets import Packet
from ._plan import BranchPlan, Check, NodePlan
from ._run import Run
from .errors import UnknownTargetError

Delivery = tuple[int, bool, bool, bool, Packet]
"""Target, whether the relation is live (else it was not chosen), whether it carries control, data, and the packet."""


async def gathered(run: Run, node: NodePlan, sent: Mapping[int, Packet]) -> Packet:
    """Make the one packet that a node gets of what its senders sent."""
    if not sent and node.assembler is None:
        return run.packets.empty(node)
    if len(sent) == 1 and node.assembler is None and node.merge is None and not node.label_sources:
        packet = next(iter(sent.values()))
    else:
        packet = await run.packets.merge(run, node, {s: sent[s] for s in node.data_sources if s in sent})
    return packet if node.input_check is None else run.packets.check(run, node.input_check, packet)


async def deliveries(run: Run, node: NodePlan, packet: Packet, known: Collection[int] | None = None) -> list[Delivery]:
    """Say what a finished node sends along each of its relations, in the order in which they were declared.

    Where its one branch was asked already, ``known`` is what it chose.
    """
    chosen: list[Collection[int]] = [] if known is None else [known]
    if node.branches and known is None:
        packet, chosen = await _choose_all(run, node, packet)
    fed = _fed_by_branches(node, chosen)
    count = sum(e.data for e in node.edges) + sum(map(len, fed))
    if count == 0:
        is_input = node.index == run.plan.start
        await (run.packets.drop(packet) if is_input else run.packets.finish(packet))
    copies = iter(run.packets.give_out(packet, count)) if count else iter(())
    sent = [_along(run, edge.target, edge.check, copies, control=edge.control, data=edge.data) for edge in node.edges]
    for branch, ends, gets in zip(node.branches, chosen, fed, strict=True):
        for target in branch.targets:
            if target in ends:
                check = branch.checks.get(target)
                sent.append(_along(run, target, check, copies, control=True, data=target in gets))
            else:
                sent.append((target, False, True, branch.data, None))
    return sent


def _fed_by_branches(node: NodePlan, chosen: Sequence[Collection[int]]) -> list[set[int]]:
    """Say for each branch which of the chosen ends get the data by it: those that no edge or earlier branch gave it."""
    seen = {edge.target for edge in node.edges if edge.data} if node.branches else set[int]()
    fed: list[set[int]] = []
    for branch, ends in zip(node.branches, chosen, strict=True):
        fed.append(set(ends) - seen if branch.data else set())
        seen |= fed[-1]
    return fed


def _along(
    run: Run, target: int, check: Check | None, copies: Iterator[Packet], *, control: bool, data: bool
) -> Delivery:
    given = next(copies) if data else None
    if data and check is not None:
        given = run.packets.check(run, check, given)
    return target, True, control, data, given


async def _choose_all(run: Run, node: NodePlan, packet: Packet) -> tuple[Packet, list[Collection[int]]]:
    """Ask every branch about a copy of its own; give what is left of the packet, and the ends."""
    *questions, packet = run.packets.fork(packet, len(node.branches) + 1)
    chosen: list[Collection[int]] = []
    try:
        for branch, question in zip(node.branches, questions, strict=True):
            chosen.append(await choose(run, node, branch, question))
    except BaseException:
        for unused in (*questions, packet):
            await run.packets.drop(unused)
        raise
    return packet, chosen


async def choose(run: Run, node: NodePlan, branch: BranchPlan, packet: Packet) -> Collection[int]:
    """Ask a branch about a packet, which is used up; give the ends that it chooses."""
    where = f"branch {branch.name!r}"
    try:
        answer = await within(run.context(node), run.packets.ask(run, node, branch, packet))
    except Exception as error:
        located = run.located(run.path(node), where, error)
        raise located from located.__cause__
    return chosen_ends(run, node, branch, answer)


def chosen_ends(run: Run, node: NodePlan, branch: BranchPlan, answer: Any) -> Collection[int]:
    """Read what a condition returned: one end, or several.

    Raises:
        UnknownTargetError: If there is one that the branch does not have.
    """
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
