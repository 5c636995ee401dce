"""The scheduler for ``trigger="all"``: every node once, as soon as its predecessors are settled.

Rules, and where they hold in the code:

A1  Control is tracked per relation (an edge, or one end of one branch): each is waiting, ready or skipped.
    (:class:`Board`)
A2  A node is settled when none of its relations is waiting. It runs if one with control is ready (or, when only data
    lead to it, if some have come), with the values of those that are ready; else it is skipped.
A3  A skipped node settles everything that leads out of it as skipped, all the way down. (:meth:`Board.settle`)
A4  What several senders sent is merged in the order in which they were declared, whenever they ended.
A5  A node starts without waiting for unrelated ones; END is settled last, since the compiler sees to it that every
    node has a path to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextvars import Context
from typing import Any, NamedTuple

from ._context import work_in
from ._crew import Crew, make_crew
from ._execute import call_plain, count_step, disband, execute, failure, finished, prepared, run_line
from ._packets import Packet
from ._plan import NodePlan, Plan
from ._route import deliveries, gathered
from ._run import Run
from .errors import RunStalledError


class Settled(NamedTuple):
    """What became of one relation."""

    source: int
    target: int
    live: bool
    """Whether the source ran and chose this way; else the relation is skipped."""
    runs: bool
    """Whether a live relation of this kind makes the target run (control, or data where nothing else leads there)."""
    data: bool
    packet: Packet


class Board:
    """How far each node's relations are settled in one run."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._waiting = [node.relations for node in plan.nodes]
        self._live: set[int] = set()
        self._sent: dict[int, dict[int, Packet]] = {}
        self.skipped: set[int] = set()

    def settle(self, first: Settled) -> list[int]:
        """Settle one relation; give the nodes that became ready by it."""
        ready: list[int] = []
        todo = deque([first])
        while todo:
            source, target, live, runs, data, packet = todo.popleft()
            self._waiting[target] -= 1
            if live and runs:
                self._live.add(target)
            if live and data:
                self._sent.setdefault(target, {})[source] = packet
            if self._waiting[target]:
                continue
            if target in self._live:
                ready.append(target)
                continue
            self.skipped.add(target)
            node = self._plan.nodes[target]
            todo.extend(Settled(target, edge.target, False, False, False, None) for edge in node.edges)
            todo.extend(
                Settled(target, end, False, False, False, None) for branch in node.branches for end in branch.targets
            )
        return ready

    def settle_live(self, source: int, target: int, packet: Packet) -> Sequence[int]:
        """Settle an edge with control and data whose source has run; the common case of :meth:`settle`."""
        self._live.add(target)
        self._sent.setdefault(target, {})[source] = packet
        self._waiting[target] -= 1
        return () if self._waiting[target] else (target,)

    def take_one(self, target: int) -> dict[int, Packet] | None:
        """Take what the one sender sent that a node needs, or give None if it is not that simple."""
        if not self._plan.nodes[target].takes_one or len(self._sent.get(target, ())) != 1:
            return None
        return self._sent.pop(target)

    async def take(self, run: Run, target: int) -> Packet:
        """Take what was sent to a node, as one packet."""
        return await gathered(run, self._plan.nodes[target], self.take_sent(target))

    def take_sent(self, target: int) -> dict[int, Packet]:
        """Take what was sent to a node, by sender."""
        return self._sent.pop(target, {})

    @property
    def sent(self) -> Mapping[int, Mapping[int, Packet]]:
        """What was sent and not taken, by target and sender."""
        return self._sent

    def waits_only_for(self, target: int, node: NodePlan) -> bool:
        """Whether every relation into a target that is not settled comes from one node."""
        own = sum(edge.target == target for edge in node.edges) + sum(target in b.targets for b in node.branches)
        return self._waiting[target] == own and not self._sent.get(target)

    def is_settled(self, target: int) -> bool:
        """Whether every relation into a target is settled, and it runs."""
        return not self._waiting[target] and target in self._live

    def as_tree(self) -> dict[str, Any]:
        """Say how far it is settled, in a form that can be kept."""
        nodes = self._plan.nodes
        return {
            "waiting": {nodes[n].key: left for n, left in enumerate(self._waiting) if left != nodes[n].relations},
            "live": [nodes[n].key for n in sorted(self._live)],
            "skipped": [nodes[n].key for n in sorted(self.skipped)],
        }

    def restore(self, tree: Mapping[str, Any], sent: dict[int, dict[int, Packet]]) -> None:
        """Go on where another board was."""
        keys = self._plan.keys
        for key, left in tree["waiting"].items():
            self._waiting[keys[key]] = left
        self._live = {keys[key] for key in tree["live"]}
        self.skipped = {keys[key] for key in tree["skipped"]}
        self._sent = sent

    async def drop(self, run: Run) -> None:
        """Give up everything that still waits."""
        for box in self._sent.values():
            for packet in box.values():
                await run.packets.drop(packet)
        self._sent.clear()

    def waiting_for(self) -> list[str]:
        """Say, for an error, why END was not reached."""
        nodes = self._plan.nodes
        if self._plan.end in self.skipped:
            senders = sorted(nodes[n].key for n in self.skipped if n != self._plan.end)
            return [f"every way to END was skipped: no branch chose one ({', '.join(senders) or 'no end was chosen'})"]
        return [f"{nodes[t].key!r} waits for {n} of its predecessors" for t, n in enumerate(self._waiting) if n > 0]


class EagerRun:
    """One run of a graph whose nodes start as soon as they can."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.board = Board(run.plan)
        self.ready: deque[int] = deque()
        self.working: dict[int, tuple[Context, Packet]] = {}
        """The nodes at work in tasks, with their contexts and what they were given."""
        self.crew: Crew | None = None
        self.held: list[Packet] = []
        """What nodes have made that ended with others and have not been looked at, and in the end the output: nobody
        else would close it if the run failed, or were cancelled while it ends."""
        self.simple = not run.packets.streaming and not run.bodies
        self.last = "start"

    async def go(self, packet: Packet) -> Packet:
        plan = self.run.plan
        try:
            await self._deliver(plan.nodes[plan.start], packet)
            while True:
                if self.ready:
                    if self.ready[0] == plan.end:
                        self.held = [await self.board.take(self.run, plan.end)]
                        break
                    await self._start(self.ready.popleft())
                elif self.working:
                    await self._next_outcome()
                else:
                    raise self.run.fail(RunStalledError(self.run.graph_path, self.board.waiting_for(), [self.last]))
            await self.board.drop(self.run)
            if self.crew is not None:
                await self.crew.close()
            return self.held[0]
        except BaseException:
            given = [packet for _, packet in self.working.values()]
            try:
                await disband(self.run, self.crew, [*self.held, *given])
            finally:
                await self.board.drop(self.run)
            raise

    def _deliver_one(self, node: NodePlan, packet: Packet) -> bool:
        """Send on what goes along one plain edge; tell whether it was that simple."""
        self.last = node.key
        if node.single < 0:
            return False
        self.ready.extend(self.board.settle_live(node.index, node.single, packet))
        return True

    async def _deliver(self, node: NodePlan, packet: Packet) -> None:
        if self._deliver_one(node, packet):
            return
        found: list[int] = []
        for target, live, control, data, given in await deliveries(self.run, node, packet):
            runs = control or not self.run.plan.nodes[target].has_control
            found += self.board.settle(Settled(node.index, target, live, runs, data, given))
        self.ready.extend(sorted(found))

    async def _done(self, node: NodePlan, context: Context, packet: Packet) -> None:
        """Do what comes after a node's body, and send its output on."""
        if node.post is not None:
            packet = await finished(self.run, node, context, packet)
        elif node.output_key is not None:
            packet = self.run.packets.wrap(self.run, node, packet)
        if not self._deliver_one(node, packet):
            await self._deliver(node, packet)

    async def _start(self, target: int) -> None:
        node = self.run.plan.nodes[target]
        one = self.board.take_one(target)
        packet = await self.board.take(self.run, target) if one is None else one.popitem()[1]
        alone = not self.ready and not self.working
        if alone:
            count_step(self.run, (target,))
            node, packet, _ = await run_line(self.run, node, packet)
            await self._deliver(node, packet)
            return
        context = self.run.context(node)
        if node.pre is not None or node.input_key is not None:
            packet = await prepared(self.run, node, context, packet)
        if self.simple and node.plain:
            result = call_plain(self.run, node, context, packet)
            work = work_in(result)
            if work is None:
                await self._done(node, context, result)
                return
        else:
            work = execute(self.run, node, packet)
        if self.crew is None:
            self.crew = make_crew()
            await self.crew.open()
        self.working[target] = context, packet
        self.crew.start(target, work, context)

    async def _next_outcome(self) -> None:
        assert self.crew is not None, "something is at work, so there is a crew"
        news = await self.crew.news()
        self.held = [packet for _, packet, _ in news]
        for place, (target, packet, error) in enumerate(news):
            node = self.run.plan.nodes[target]
            if error is not None:
                raise failure(self.run, node, error)
            self.held[place] = None
            context, _ = self.working.pop(target)
            await self._done(node, context, packet)


async def run_eagerly(run: Run, packet: Packet) -> Packet:
    """Run a graph whose nodes start as soon as they can."""
    return await EagerRun(run).go(packet)
