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

from collections.abc import Collection, Mapping, Sequence

from ._context import work_in
from ._crew import Crew, Outcome, make_crew
from ._execute import call_plain, count_step, disband, execute, failure, finished, prepared, run_line, run_node
from ._packets import Packet
from ._plan import NodePlan, Plan
from ._route import deliveries, gathered
from ._run import Run
from .errors import RunStalledError

Task = tuple[NodePlan, Packet]


class Inbox:
    """What was sent and not yet taken, by target and sender."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._sent: dict[int, dict[int, Packet]] = {}
        self._triggered: set[int] = set()

    async def put(self, run: Run, source: NodePlan, packet: Packet, known: Collection[int] | None = None) -> None:
        """Send a finished node's output on; ``known`` is what its one branch chose, if it was asked already."""
        for target, live, control, data, given in await deliveries(run, source, packet, known):
            if not live:
                continue
            if control or not self._plan.nodes[target].has_control:
                self._triggered.add(target)
            if data:
                await self._keep(run, source, target, given)

    def put_at_once(self, source: NodePlan, packet: Packet) -> bool:
        """Send a finished node's output on if it goes to one node where nothing of it waits; tell whether it did."""
        if source.single < 0:
            return False
        return self.choose_at_once(source, source.single, packet)

    def choose_at_once(self, source: NodePlan, target: int, packet: Packet) -> bool:
        """Send an output to the one end that a node's one branch chose, if nothing of it waits there."""
        box = self._sent.setdefault(target, {})
        if source.index in box:
            return False
        self._triggered.add(target)
        box[source.index] = packet
        return True

    async def _keep(self, run: Run, source: NodePlan, target: int, packet: Packet) -> None:
        """Keep what was sent until it is taken; what its sender sent before and was not taken yet gives way."""
        box = self._sent.setdefault(target, {})
        if source.index in box:
            await run.packets.drop(box[source.index])
        box[source.index] = packet

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
        # A join waits for what can still arrive (R4).
        waits = {t: (self._triggered - {t}) & nodes[t].upstream for t in joins}
        free = {t for t in self._triggered if not waits.get(t)}
        if free:
            return sorted(free)
        # All wait for joins, some of them for each other: they would for ever. Of those that only wait for such as wait
        # for them in turn, the first goes; whoever waits for these may still hope.
        return [min(t for t in joins if all(t in waits[other] for other in waits[t]))]

    async def take(self, run: Run, target: int) -> Packet:
        """Take what was sent to a node, as one packet."""
        return await gathered(run, self._plan.nodes[target], self.take_sent(target))

    def take_sent(self, target: int) -> dict[int, Packet]:
        """Take what was sent to a node, by sender."""
        self._triggered.discard(target)
        return self._sent.pop(target, {})

    @property
    def sent(self) -> Mapping[int, Mapping[int, Packet]]:
        """What was sent and not taken, by target and sender."""
        return self._sent

    @property
    def triggered(self) -> Collection[int]:
        """The nodes that control has reached and that have not run since."""
        return self._triggered

    def restore(self, sent: dict[int, dict[int, Packet]], triggered: Collection[int]) -> None:
        """Go on where another inbox was."""
        self._sent, self._triggered = sent, set(triggered)

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
    held: list[Packet] = []
    """What the nodes of the present step were given, or have made, and in the end the output: nobody else would close
    it if the run failed, or were cancelled while it ends."""
    known: Collection[int] | None = None
    try:
        done: Sequence[Task] = [(plan.nodes[plan.start], packet)]
        while True:
            tasks = await _next_tasks(run, inbox, done, held, known)
            known = None
            if len(tasks) == 1 and tasks[0][0].index == plan.end:
                break
            count_step(run, [node.index for node, _ in tasks])
            if len(tasks) == 1:
                node, packet = tasks[0]
                if inbox.is_empty:
                    node, packet, known = await run_line(run, node, packet)
                    if node.index == plan.end:
                        held[:] = [packet]
                        break
                    done = [(node, packet)]
                else:
                    done = [(node, await run_node(run, node, packet))]
            else:
                if crew is None:
                    crew = make_crew()
                    await crew.open()
                done = await _perform(run, crew, [node for node, _ in tasks], held)
        await inbox.drop(run)
        if crew is not None:
            await crew.close()
        return held[0]
    except BaseException:
        try:
            await disband(run, crew, held)
        finally:
            await inbox.drop(run)
        raise


async def _next_tasks(
    run: Run, inbox: Inbox, done: Sequence[Task], held: list[Packet], known: Collection[int] | None
) -> list[Task]:
    for place, (node, packet) in enumerate(done):
        if not inbox.put_at_once(node, packet):
            await inbox.put(run, node, packet, known)
        if held:
            held[place] = None
    held.clear()
    tasks: list[Task] = []
    for target in inbox.ready():
        held.append(await inbox.take(run, target))
        tasks.append((run.plan.nodes[target], held[-1]))
    if not tasks:
        last = [node.key for node, _ in done]
        waiting = ["no branch chose an end, and no edge leads on"]
        raise run.fail(RunStalledError(run.graph_path, waiting, last))
    return tasks


async def _perform(run: Run, crew: Crew, nodes: Sequence[NodePlan], held: list[Packet]) -> list[Task]:
    """Run the nodes of one step at once; the first failure cancels and awaits the others."""
    contexts = [run.context(node) for node in nodes]
    for slot, node in enumerate(nodes):
        if not node.bare:
            held[slot] = await prepared(run, node, contexts[slot], held[slot])
    simple = not run.packets.streaming and not run.bodies
    pending = 0
    for slot, node in enumerate(nodes):
        if simple and node.plain:
            held[slot] = result = call_plain(run, node, contexts[slot], held[slot])
            work = work_in(result)
            if work is None:
                continue
        else:
            work = execute(run, node, held[slot])
        crew.start(slot, work, contexts[slot])
        pending += 1
    while pending:
        pending -= _gather(run, nodes, held, await crew.news())
    for slot, node in enumerate(nodes):
        if node.post is not None:
            held[slot] = await finished(run, node, contexts[slot], held[slot])
        elif node.output_key is not None:
            held[slot] = run.packets.wrap(run, node, held[slot])
    return list(zip(nodes, held, strict=True))


def _gather(run: Run, nodes: Sequence[NodePlan], held: list[Packet], news: Sequence[Outcome]) -> int:
    """Note the results that have come about, and then raise the first error among them; give their number."""
    errors: list[BaseException] = []
    for slot, result, error in news:
        held[slot] = result
        if error is not None:
            errors.append(failure(run, nodes[slot], error))
    if errors:
        raise errors[0]
    return len(news)
