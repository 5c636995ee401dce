"""The record of one graph's run inside a durable run: its state, what its nodes gave, and the tasks that are open.

What a node gave is kept once, under ``out``; a task names its senders and finds its input there. A task is one visit
of a node. It goes through phases, and whoever runs it again goes on at the phase that it has reached: it has its
input; it was prepared (its pre-handler has run); its body has run; it is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import Context
from typing import TYPE_CHECKING, Any, Literal, cast

from ._apart import CONTAINERS, apart
from ._codec import Codec, Json, codec_for
from ._codec_part import Items, always
from ._part import Part, numbered
from .errors import CheckpointError, DamagedRecordError, UnsavableValueError

if TYPE_CHECKING:
    from ._plan import NodePlan, Plan
    from ._record import Path, Record
    from ._run import Run
    from ._state import StateCell
    from ._tracker import Tracker

Phase = Literal["ready", "prepared", "ran", "done"]
PHASES: tuple[Phase, ...] = ("prepared", "ran", "done")
"""Those that have made something, in their order."""


class Task(Part):
    """One visit of a node."""

    __slots__ = ("context", "known", "name", "node", "noted", "phase", "sent", "value")

    def __init__(self, scope: Scope, name: str, node: NodePlan, visit: int, sent: Mapping[int, Any]) -> None:
        address = (*scope.address, numbered(node.key, visit))
        super().__init__(scope.record, (*scope.path, "tasks", name), address)
        self.name = name
        self.node = node
        self.sent = sent
        """What its senders sent, by sender."""
        self.phase: Phase = "ready"
        self.value: Any = None
        """What the phase has made."""
        self.noted = True
        """Whether the record says so already."""
        self.context: Context | None = None
        """The context in which its handlers and its body run."""
        self.known: Any = None
        """What its one branch chose, if it was asked already."""


class Scope:
    """The record of the run of one graph."""

    def __init__(self, record: Record, path: Path, address: tuple[str, ...], plan: Plan) -> None:
        self.record = record
        self.path = path
        self.address = address
        self.plan = plan
        self.codecs = codecs_of(plan)
        self.tasks: dict[str, Task] = {}
        """What is open, by name."""
        self.by_node: dict[int, Task] = {}
        self._outs: dict[int, Tracker] = {}
        self._stamps: dict[int, int] = {}
        """How many outputs of a node were noted."""
        self._waiting: dict[tuple[int, int], tuple[Any, int | None]] = {}
        """What waits, by target and sender: the packet, and the sender's stamp if its output is the packet."""
        self._next = 1
        self._cell: StateCell | None = None
        self._tracker: Tracker | None = None
        found = record.at(path)
        self.fresh = found is None
        if found is not None and not isinstance(found, dict):
            raise self.damaged("it is no record of a graph")
        self.tree: dict[str, Any] = {} if found is None else cast("dict[str, Any]", found)

    def reading(self) -> AbstractContextManager[None]:
        """Turn what goes wrong with a record that is not as it was written into the error that says so."""
        from ._keep import reading

        return reading(self.record)

    def damaged(self, why: str) -> DamagedRecordError:
        """Make the error of a record that cannot be what was written."""
        return DamagedRecordError(f"run {self.record.id!r}, {'/'.join(map(str, self.path)) or 'graph'}", why)

    # -- the beginning -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin the record of a graph that has not run yet."""
        self.record.put(self.path, {"out": {}, "tasks": {}})
        self.tree = self.record.at(self.path)
        self.fresh = False

    def follow(self, run: Run) -> None:
        """Note from now on what changes in the run's state, and how far its tasks come."""
        self.record.scopes[self.path] = self
        if run.state is None:
            return
        self._cell, self._tracker = run.state, self.codecs.state.tracker()
        if self.record.at((*self.path, "state")) is not None:
            self._tracker.changes(run.state.value)  # it is what the record says
            self._tracker.commit()

    def leave(self) -> None:
        """Stop following; note what it has come to."""
        if self.record.scopes.pop(self.path, None) is not None and self.record.at(self.path) is not None:
            self._note_tasks()
            self._note_state()

    def held_cell(self) -> StateCell | None:
        """Give the state if somebody else is in the middle of changing it."""
        cell = self._cell
        return None if cell is None or cell.free or cell.looked_at or cell.held_here() else cell

    def note_all(self) -> None:
        """Note everything."""
        self._note_tasks()
        self._note_state()

    def _note_tasks(self) -> None:
        for task in self.tasks.values():
            if not task.noted:
                self._note_phase(task)

    def _note_state(self) -> None:
        cell, tracker = self._cell, self._tracker
        if cell is None or tracker is None:
            return
        with self._naming("the state"):
            ops = tracker.changes(cell.value)
        tracker.commit()
        self.record.change((*self.path, "state"), ops)

    def state(self) -> Any:
        """Build the state from the record."""
        self.record.catch_up()
        return self.codecs.state.decode(self.record.at((*self.path, "state")))

    # -- outputs and tasks -------------------------------------------------------------------------------------

    def note_output(self, node: NodePlan, value: Any) -> None:
        """Note what a node gave: from its second output on, only what is new in it."""
        if self._waiting:
            self._keep_what_waits(node)
        count = self._stamps.get(node.index, 0)
        self._stamps[node.index] = count + 1
        path = (*self.path, "out", node.key)
        if not count:
            self.record.set_in(self.tree["out"], path, self._encoded(node, value))
            return
        tracker = self._outs.get(node.index)
        if tracker is None:
            tracker = self._outs[node.index] = self.codecs.output(node.index).tracker()
        with self._naming(f"what node {node.key!r} gave"):
            ops = tracker.changes(value)
        tracker.commit()
        self.record.change(path, ops)

    def _keep_what_waits(self, node: NodePlan) -> None:
        """Write down what a node gave before and what still waits somewhere, now that it gives something else."""
        for (target, sender), (packet, stamp) in self._waiting.items():
            if sender == node.index and stamp is not None:
                self._waiting[target, sender] = packet, None
                tree: Json = {"value": self._encoded(node, packet)}
                self.record.put((*self.path, "waiting", self.key(target), node.key), tree)

    def open_task(self, node: NodePlan, sent: Mapping[int, Any], step: int) -> Task:
        """Open a task for a node that is ready."""
        name = str(self._next)
        self._next += 1
        visit = self._next_visit(node.key)
        task = Task(self, name, node, visit, sent)
        references: dict[str, Json] = {
            self.key(sender): self._reference(node.index, sender, packet) if self._waiting else None
            for sender, packet in sent.items()
        }
        tree: dict[str, Json] = {"node": node.key, "step": step, "sent": references}
        if visit > 1:
            tree["visit"] = visit
            self.record.put((*self.path, "visits", node.key), visit)
        self.record.set_in(self.tree["tasks"], task.path, tree)
        self._add(task)
        return task

    def _next_visit(self, key: str) -> int:
        """Count the visits of a node; a second one is noted, a first one shows in its output."""
        noted: int | None = self.tree.get("visits", {}).get(key)
        if noted is not None:
            return noted + 1
        return 2 if key in self.tree["out"] else 1

    def _reference(self, target: int, sender: int, packet: Any) -> Json:
        """Say where a task finds what a sender sent: among the outputs (None), or here."""
        waited = self._waiting.pop((target, sender), None)
        if waited is None:
            return None
        path = (*self.path, "waiting", self.key(target), self.key(sender))
        kept: Json = self.record.at(path)
        self.record.remove(path)
        return kept if waited[0] is packet else None  # what waited may have given way to what came since

    def _add(self, task: Task) -> None:
        self.tasks[task.name] = task
        self.by_node[task.node.index] = task

    def close_task(self, task: Task) -> None:
        """Forget a task whose output was sent on."""
        del self.tasks[task.name]
        del self.by_node[task.node.index]
        self.record.remove(task.path)

    def advance(self, task: Task, phase: Phase, value: Any) -> None:
        """Note that a task has reached a phase, and with what; what cannot change meanwhile is written when needed."""
        task.phase, task.value, task.noted = phase, value, False
        if not _lasts(self.codecs.phase(task.node.index, phase), value):
            self._note_phase(task)
        elif type(value) in CONTAINERS:
            task.value = apart(value)  # the node may change its own

    def note(self, task: Task, phase: Phase, value: Any) -> None:
        """Note at once that a task has reached a phase."""
        task.phase, task.value = phase, value
        self._note_phase(task)

    def _note_phase(self, task: Task) -> None:
        with self._naming(f"node {task.node.key!r}"):
            tree = self.codecs.phase(task.node.index, task.phase).encode(task.value)
        self.record.put((*task.path, task.phase), {"value": tree})
        task.noted = True

    def note_end(self, sent: Mapping[int, Any], value: Any) -> None:
        """Note the output of the graph; where it is what one node gave, it is there already."""
        for sender, packet in sent.items():
            _, stamp = self._waiting.get((self.plan.end, sender), (None, 0))
            if packet is value and self._stamps.get(sender) and stamp is not None:
                self.record.put((*self.path, "ended"), {"of": self.key(sender)})
                return
        with self._naming("the output"):
            tree = self.codecs.output(self.plan.end).encode(value)
        self.record.put((*self.path, "ended"), {"value": tree})

    def ended(self) -> tuple[Any] | None:
        """Give the output of the graph if it has one, in a box."""
        tree = self.tree.get("ended")
        if tree is None:
            return None
        if "value" in tree:
            return (self.codecs.output(self.plan.end).decode(tree["value"]),)
        sender = self.node(tree["of"])
        return (self.codecs.output(sender.index).decode(self.tree["out"][sender.key]),)

    def part_of(self, node: NodePlan) -> Part | None:
        """Give the open task of a node."""
        return self.by_node.get(node.index)

    # -- what waits --------------------------------------------------------------------------------------------

    def note_waiting(self, sent: Mapping[int, Mapping[int, Any]]) -> None:
        """Note what was sent and not taken."""
        if not sent and not self._waiting:
            return
        now = {(target, sender): packet for target, box in sent.items() for sender, packet in box.items()}
        for pair in [pair for pair in self._waiting if pair not in now]:
            del self._waiting[pair]
            self.record.remove((*self.path, "waiting", self.key(pair[0]), self.key(pair[1])))
        for (target, sender), packet in now.items():
            old = self._waiting.get((target, sender))
            if old is None or old[0] is not packet:
                self._waiting[target, sender] = packet, self._stamps.get(sender, 0)
                self.record.put((*self.path, "waiting", self.key(target), self.key(sender)), None)

    def put(self, name: str, tree: Json) -> None:
        """Set a field of the record, if it has another value."""
        if self.tree.get(name) != tree:
            self.record.put((*self.path, name), tree)

    # -- reading it back ---------------------------------------------------------------------------------------

    def restore_tasks(self) -> None:
        """Build the tasks that were open when the record was written."""
        for name, tree in self.tree.get("tasks", {}).items():
            node = self.node(tree.get("node"))
            sent = self.restore_sent(tree.get("sent", {}))
            task = Task(self, name, node, int(tree.get("visit", 1)), sent)
            for phase in PHASES:
                if phase in tree:
                    task.phase = phase
                    task.value = self.codecs.phase(node.index, phase).decode(tree[phase]["value"])
            self._add(task)
            self._next = max(self._next, int(name) + 1)
        for key in self.tree.get("out", {}):
            self._stamps[self.node(key).index] = 1

    def restore_sent(self, tree: Mapping[str, Any]) -> dict[int, Any]:
        """Build what senders sent."""
        found: dict[int, Any] = {}
        outs = self.tree.get("out", {})
        for key, reference in tree.items():
            sender = self.node(key)
            stored = outs.get(key) if reference is None else reference["value"]
            found[sender.index] = self.codecs.output(sender.index).decode(stored)
        return found

    def restore_waiting(self) -> dict[int, dict[int, Any]]:
        """Build what was sent and not taken."""
        found: dict[int, dict[int, Any]] = {}
        for key, box in self.tree.get("waiting", {}).items():
            target = self.node(key).index
            sent = self.restore_sent(box)
            if sent:
                found[target] = sent
            for sender, packet in sent.items():
                stale = box[self.key(sender)] is not None
                self._waiting[target, sender] = packet, None if stale else self._stamps.get(sender, 0)
        return found

    def restore_numbers(self, name: str) -> list[int]:
        """Build the numbers of nodes whose keys are in a field."""
        return [self.node(key).index for key in self.tree.get(name, ())]

    def key(self, number: int) -> str:
        """Give the key of a node."""
        return self.plan.nodes[number].key

    def keys(self, numbers: Iterable[int]) -> list[Json]:
        """Give the keys of nodes, in the order of their numbers."""
        return [self.key(number) for number in sorted(numbers)]

    def node(self, key: object) -> NodePlan:
        """Find a node that a record names."""
        number = self.plan.keys.get(key) if isinstance(key, str) else None
        if number is None:
            raise self.damaged(f"it names a node {key!r}, and there is none")
        return self.plan.nodes[number]

    # -- values ------------------------------------------------------------------------------------------------

    def _encoded(self, node: NodePlan, value: Any) -> Json:
        try:
            return self.codecs.output(node.index).encode(value)
        except UnsavableValueError:
            with self._naming(f"what node {node.key!r} gave"):
                raise

    def _naming(self, what: str) -> _Naming:
        return _Naming(self, what)


class _Naming:
    """Says of an error in encoding what was encoded."""

    __slots__ = ("_scope", "_what")

    def __init__(self, scope: Scope, what: str) -> None:
        self._scope = scope
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, UnsavableValueError):
            place = "/".join(self._scope.address)
            where = f"{self._what} in graph {place!r}" if place else self._what
            raise CheckpointError(self._scope.record.id, where, error) from error


class PlanCodecs:
    """The codecs of one compiled graph, each made when it is first needed."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._made: dict[tuple[int, str], Codec] = {}
        self._state: Codec | None = None

    @property
    def state(self) -> Codec:
        """The codec of the state."""
        if self._state is None:
            self._state = codec_for(self._plan.state_type)
        return self._state

    def output(self, number: int) -> Codec:
        """Give the codec of what a node gives to others."""
        return self._codec(number, "output")

    def phase(self, number: int, phase: Phase) -> Codec:
        """Give the codec of what a task has in a phase."""
        return self._codec(number, {"prepared": "takes", "ran": "gives"}.get(phase, "output"))

    def _codec(self, number: int, which: str) -> Codec:
        codec = self._made.get((number, which))
        if codec is None:
            codec = self._made[number, which] = codec_for(getattr(self._plan.nodes[number], which))
        return codec


def _lasts(codec: Codec, value: Any) -> bool:
    """Tell whether a value cannot change, or is a list of such."""
    part = codec.part
    if part.solid(value):
        return True
    return type(value) is list and isinstance(part.track, Items) and part.track.item.solid is always


def codecs_of(plan: Plan) -> PlanCodecs:
    """Give the codecs of a compiled graph, made once."""
    found = plan.codecs.get("codecs")
    if found is None:
        found = plan.codecs["codecs"] = PlanCodecs(plan)
    return cast("PlanCodecs", found)
