"""The scheduler for ``trigger="any"``: supersteps, after Pregel.

Rules, and where they hold in the code:

R1  A node runs in the step after one in which something with control was sent to it; what several senders sent in
    the same step is merged, in the order in which the senders were declared. (:class:`Inbox`)
R2  A step ends when all its nodes have ended; their results are applied in the order of the nodes, whatever the
    order in which they ended. (:func:`_perform`)
R3  When something reaches END the run ends with it, and whatever else was sent is dropped.
R4  A node with ``trigger="all"`` waits while anything that is still under way can reach it without passing through
    it. (:meth:`Inbox.ready`)
R5  The step counter never exceeds the limit; START and END are not counted. (:func:`~._execute.count_step`)
"""

from __future__ import annotations

from collections.abc import Sequence

from ._context import work_in
from ._crew import Crew, make_crew
from ._execute import call_plain, count_step, execute, failure, finished, prepared, run_line, run_node
from ._packets import Packet
from ._plan import NodePlan, Plan
from ._route import deliveries
from ._run import Run
from .errors import RunStalledError

Task = tuple[NodePlan, Packet]


class Inbox:
    """What was sent and not yet taken, by target and sender."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._sent: dict[int, dict[int, Packet]] = {}
        self._triggered: set[int] = set()

    async def put(self, run: Run, source: NodePlan, packet: Packet) -> None:
        """Send a finished node's output on."""
        if source.single >= 0:
            self._triggered.add(source.single)
            self._sent.setdefault(source.single, {})[source.index] = packet
            return
        for target, live, control, data, given in await deliveries(run, source, packet):
            if not live:
                continue
            if control:
                self._triggered.add(target)
            if data:
                box = self._sent.setdefault(target, {})
                if source.index in box:
                    await run.packets.drop(box[source.index])
                box[source.index] = given

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits anywhere."""
        return not self._triggered and not self._sent

    def ready(self) -> list[int]:
        """Give the nodes that run next, in their order; END alone if it is among them."""
        nodes = self._plan.nodes
        if self._plan.end in self._triggered:
            return [self._plan.end]
        joins = {t for t in self._triggered if nodes[t].join}
        if not joins:
            return sorted(self._triggered)
        # A join waits for what can still arrive (R4); joins that only wait for each other would wait for ever, so
        # then the first of them goes.
        free = {t for t in self._triggered if not joins & {t} or not (self._triggered - {t}) & nodes[t].upstream}
        return sorted(free) if free else [min(joins)]

    async def take(self, run: Run, target: int) -> Packet:
        """Take what was sent to a node, as one packet."""
        node = self._plan.nodes[target]
        self._triggered.discard(target)
        box = self._sent.pop(target, None)
        if not box:
            return run.packets.empty(node)
        if len(box) == 1 and node.assembler is None and node.merge is None and not node.label_sources:
            return next(iter(box.values()))
        return await run.packets.merge(run, node, {s: box[s] for s in node.data_sources if s in box})

    async def drop(self, run: Run) -> None:
        """Give up everything that still waits."""
        for box in self._sent.values():
            for packet in box.values():
                await run.packets.drop(packet)
        self._sent.clear()
        self._triggered.clear()


async def run_in_rounds(run: Run, packet: Packet) -> Packet:
    """Run a graph in supersteps."""
    plan = run.plan
    inbox = Inbox(plan)
    crew: Crew | None = None
    try:
        done: Sequence[Task] = [(plan.nodes[plan.start], packet)]
        while True:
            tasks = await _next_tasks(run, inbox, done)
            if len(tasks) == 1 and tasks[0][0].index == plan.end:
                return tasks[0][1]
            count_step(run, [node.index for node, _ in tasks])
            if len(tasks) == 1:
                node, packet = tasks[0]
                if inbox.is_empty:
                    done = [await run_line(run, node, packet)]
                else:
                    done = [(node, await run_node(run, node, packet))]
            else:
                if crew is None:
                    crew = make_crew()
                    await crew.open()
                done = await _perform(run, crew, tasks)
    finally:
        await inbox.drop(run)
        if crew is not None:
            await crew.close()


async def _next_tasks(run: Run, inbox: Inbox, done: Sequence[Task]) -> list[Task]:
    for node, packet in done:
        await inbox.put(run, node, packet)
    tasks = [(run.plan.nodes[t], await inbox.take(run, t)) for t in inbox.ready()]
    if not tasks:
        last = [node.key for node, _ in done]
        waiting = ["no branch chose an end, and no edge leads on"]
        raise run.fail(RunStalledError(run.graph_path, waiting, last))
    return tasks


async def _perform(run: Run, crew: Crew, tasks: Sequence[Task]) -> list[Task]:
    """Run the nodes of one step at once; the first failure cancels and awaits the others."""
    results: list[Packet] = [None] * len(tasks)
    contexts = [run.context(node) for node, _ in tasks]
    pending = 0
    given: list[Packet] = []
    for (node, packet), context in zip(tasks, contexts, strict=True):
        given.append(packet if node.bare else await prepared(run, node, context, packet))
    simple = not run.packets.streaming and not run.bodies
    for slot, (node, _) in enumerate(tasks):
        if simple and node.plain:
            results[slot] = result = call_plain(run, node, contexts[slot], given[slot])
            work = work_in(result)
            if work is None:
                continue
        else:
            work = execute(run, node, given[slot])
        crew.start(slot, work, contexts[slot])
        pending += 1
    while pending:
        for slot, result, error in await crew.news():
            if error is not None:
                raise failure(run, tasks[slot][0], error)
            results[slot] = result
            pending -= 1
    for slot, (node, _) in enumerate(tasks):
        if not node.bare:
            results[slot] = await finished(run, node, contexts[slot], results[slot])
    return [(node, result) for (node, _), result in zip(tasks, results, strict=True)]
