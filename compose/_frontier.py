"""How far a durable run has come: what was sent where, and who is ready; by the rules of either trigger.

The rules are those of :mod:`._rounds` and :mod:`._eager`, whose bookkeeping this is; here it is also written to the
record of the run, and read back from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from ._eager import Board, Settled
from ._execute import ask_in_place
from ._plan import NodePlan, Plan
from ._rounds import Inbox
from ._route import deliveries
from ._run import Run
from ._scope import Scope


class Frontier(Protocol):
    """What the scheduler of durable runs asks of a trigger."""

    in_rounds: bool
    """Whether what nodes gave is sent on only when all nodes of a step are done."""

    async def send(self, run: Run, node: NodePlan, value: Any, known: Collection[int] | None) -> None:
        """Send on what a node gave."""
        ...

    def take_ready(self) -> list[tuple[int, Mapping[int, Any]]]:
        """Take what the nodes that are ready were sent; END alone if it is among them, and it stays ready."""
        ...

    def waiting_for(self) -> list[str]:
        """Say, for an error, why nothing is ready."""
        ...

    def is_alone(self, node: NodePlan) -> bool:
        """Whether nothing but this node can still give END something."""
        ...

    def write(self, scope: Scope) -> None:
        """Note in the record how far it is."""
        ...

    def read(self, scope: Scope) -> None:
        """Take from the record how far it was."""
        ...


class RoundsFrontier:
    """For ``trigger="any"``."""

    in_rounds = True

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._inbox = Inbox(plan)

    async def send(self, run: Run, node: NodePlan, value: Any, known: Collection[int] | None) -> None:
        if known is None:
            if self._inbox.put_at_once(node, value):
                return
            if node.choice is not None:
                known = await ask_in_place(run, node, node.choice, value)
        if node.choice is not None and known is not None and len(known) == 1:
            (target,) = known
            if self._inbox.choose_at_once(node, target, value):
                return
        await self._inbox.put(run, node, value, known)

    def take_ready(self) -> list[tuple[int, Mapping[int, Any]]]:
        ready, end = self._inbox.ready(), self._plan.end
        if ready == [end]:
            return [(end, self._inbox.sent.get(end, {}))]
        return [(target, self._inbox.take_sent(target)) for target in ready]

    def waiting_for(self) -> list[str]:
        return ["no branch chose an end, and no edge leads on"]

    def is_alone(self, node: NodePlan) -> bool:
        return self._inbox.is_empty

    def write(self, scope: Scope) -> None:
        scope.note_waiting(self._inbox.sent)
        if self._inbox.triggered or "triggered" in scope.tree:
            scope.put("triggered", scope.keys(self._inbox.triggered))

    def read(self, scope: Scope) -> None:
        self._inbox.restore(scope.restore_waiting(), scope.restore_numbers("triggered"))


class EagerFrontier:
    """For ``trigger="all"``."""

    in_rounds = False

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._board = Board(plan)
        self._ready: deque[int] = deque()

    async def send(self, run: Run, node: NodePlan, value: Any, known: Collection[int] | None) -> None:
        if node.single >= 0:
            self._ready.extend(self._board.settle_live(node.index, node.single, value))
            return
        found: list[int] = []
        for target, live, control, data, given in await deliveries(run, node, value, known):
            runs = control or not self._plan.nodes[target].has_control
            found += self._board.settle(Settled(node.index, target, live, runs, data, given))
        self._ready.extend(sorted(found))

    def take_ready(self) -> list[tuple[int, Mapping[int, Any]]]:
        found: list[tuple[int, Mapping[int, Any]]] = []
        while self._ready:
            if self._ready[0] == self._plan.end:  # it is the last
                return found or [(self._plan.end, self._board.sent.get(self._plan.end, {}))]
            target = self._ready.popleft()
            found.append((target, self._board.take_sent(target)))
        return found

    def waiting_for(self) -> list[str]:
        return self._board.waiting_for()

    def is_alone(self, node: NodePlan) -> bool:
        return not self._ready and self._board.waits_only_for(self._plan.end, node)

    def write(self, scope: Scope) -> None:
        scope.note_waiting(self._board.sent)
        scope.put("board", self._board.as_tree())

    def read(self, scope: Scope) -> None:
        self._board.restore(scope.tree["board"], scope.restore_waiting())
        if self._board.is_settled(self._plan.end):
            self._ready.append(self._plan.end)
