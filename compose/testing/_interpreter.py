"""What a graph does, computed slowly and obviously, one node after the other.

Nothing here is shared with the schedulers: no plan, no tasks, no streams along edges. The two rules of running are
written once more, as plainly as they can be said:

* ``trigger="any"``: go round; each round runs all who were called in the round before, and the first thing that
  reaches END is the output. (:meth:`Interpreter.in_rounds`)
* ``trigger="all"``: again and again look for a node all of whose predecessors are settled, and settle it: run it if
  one of them leads to it, otherwise skip it. (:meth:`Interpreter.once_each`)

What a single node does is in ``_interpret_node``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from .._body import Body
from .._keys import END, START
from .._plan import Plan
from .._spec import BranchSpec, GraphSpec, NodeSpec
from ..errors import MergeError, NodeError, RunStalledError, StepLimitExceeded, UnknownTargetError, ValueTypeError
from ._interpret_node import Frame, Unmergeable, Wrong, accepts, ask, merged, nothing, run_body, run_post, run_pre
from ._interpretation import Failure, Interpretation

if TYPE_CHECKING:
    from .._map import Map

__all__ = ("Interpreter",)


class Relation(NamedTuple):
    """An edge, or one end of a branch."""

    source: str
    target: str
    control: bool
    data: bool
    branch: int | None
    """The number of the branch among those of the source, or None for an edge."""


class Interpreter:
    """Runs one graph once."""

    def __init__(
        self,
        spec: GraphSpec,
        trigger: str,
        max_steps: int | None,
        found: Interpretation,
        around: Frame | None = None,
        key: str = "",
        plan: Plan | None = None,
    ) -> None:
        self.spec = spec
        self.compiled = {} if plan is None else {node.key: node.body.nested for node in plan.nodes}
        """The nested graphs, by key, where the graph is compiled."""
        self.trigger = trigger
        self.max_steps = len(spec.nodes) + 100 if max_steps is None else max_steps
        self.found = found
        self.frame = Frame(spec, around, key)
        self.outermost = around is None
        self.order = {key: place for place, key in enumerate([*spec.nodes, END.key, START.key])}
        self.relations = list(relations(spec))

    async def run(self, value: Any) -> Any:
        """Run from the input to the output.

        Raises:
            Wrong: If the run fails.
        """
        if self.outermost:
            if not accepts(self.spec.input, value):
                raise Wrong(Failure(ValueTypeError, ""))
            self.found.state = self.frame.state and self.frame.state.value
        return await (self.in_rounds(value) if self.trigger == "any" else self.once_each(value))

    def wrong(self, kind: Any, path: str | None = None) -> Wrong:
        """Make the failure of this graph."""
        return Wrong(Failure(kind, self.frame.graph_path if path is None else path))

    # -- trigger="any" -----------------------------------------------------------------------------------------

    async def in_rounds(self, value: Any) -> Any:
        """Go round until something reaches END."""
        called: set[str] = set()
        inbox: dict[str, dict[str, Any]] = {}
        await self.send(START.key, value, called, inbox)
        steps = 0
        while called:
            if END.key in called:
                return self.input_of(END.key, inbox)
            keys = sorted(self.who_goes(called), key=self.order.__getitem__)
            given = {key: self.input_of(key, inbox) for key in keys}
            called -= set(keys)
            if steps == self.max_steps:
                raise self.wrong(StepLimitExceeded)
            steps += 1
            if self.outermost:
                self.found.steps.append(tuple(keys))
            for key, output in (await self.one_round(given)).items():
                await self.send(key, output, called, inbox)
        raise self.wrong(RunStalledError)

    async def one_round(self, given: dict[str, Any]) -> dict[str, Any]:
        """Run some nodes: first all handlers before them, then all nodes, then all handlers after them."""
        nodes = {key: self.spec.nodes[key] for key in given}
        prepared = {key: await run_pre(self.frame, node, given[key]) for key, node in nodes.items()}
        results: dict[str, Any] = {}
        failures: list[Failure] = []
        for key, node in nodes.items():
            try:
                results[key] = await self.body(node, prepared[key])
            except Wrong as wrong:
                failures += wrong.failures
        if failures:
            raise Wrong(*failures)
        return {key: await run_post(self.frame, node, results[key]) for key, node in nodes.items()}

    def who_goes(self, called: set[str]) -> set[str]:
        """Say who runs in this round: not those with trigger="all" that somebody called can still reach."""
        waits = {key: self.waits_for(key, called) for key in called if self.spec.nodes[key].trigger == "all"}
        free = {key for key in called if not waits.get(key)}
        if free:
            return free
        # All wait for each other. Those go first that wait only for such as wait for them too; of these the first.
        knots = [key for key, others in waits.items() if all(key in waits[other] for other in others)]
        return {min(knots, key=self.order.__getitem__)}

    def waits_for(self, key: str, called: set[str]) -> set[str]:
        """Say who of those called can reach a node without passing through it."""
        reaching: set[str] = set()
        more = {r.source for r in self.relations if r.target == key}
        while more:
            reaching |= more
            more = {r.source for r in self.relations if r.target in more and r.target != key} - reaching
        return (reaching & called) - {key}

    async def send(self, source: str, output: Any, called: set[str], inbox: dict[str, dict[str, Any]]) -> None:
        """Send an output to all whom an edge or a choice of a branch leads to."""
        chosen = await self.choices(source, output)
        for relation in self.relations:
            if relation.source == source and self.leads(relation, chosen):
                target = relation.target
                if relation.control or not self.has_control(target):
                    called.add(target)
                if relation.data:
                    self.check(relation, output)
                    inbox.setdefault(target, {})[source] = output

    def input_of(self, key: str, inbox: dict[str, dict[str, Any]]) -> Any:
        """Take what was sent to a node, as one value."""
        return self.one_value(key, inbox.pop(key, {}))

    # -- trigger="all" -----------------------------------------------------------------------------------------

    async def once_each(self, value: Any) -> Any:
        """Settle one node after the other."""
        outputs: dict[str, Any] = {START.key: value}
        chosen: dict[str, list[set[str]]] = {START.key: await self.choices(START.key, value)}
        waiting = [*self.spec.nodes, END.key]
        skipped: set[str] = set()
        failures: list[Failure] = []
        while (key := self.next_settled(waiting, outputs, skipped)) is not None:
            waiting.remove(key)
            try:
                if not self.is_called(key, skipped, chosen):
                    skipped.add(key)
                    continue
                given = self.one_value(key, self.sent_to(key, outputs, chosen))
                outputs[key] = given if key == END.key else await self.node(self.spec.nodes[key], given)
                chosen[key] = await self.choices(key, outputs[key])
            except Wrong as wrong:  # what hangs on it is never settled
                failures += wrong.failures
                outputs.pop(key, None)
        if self.outermost:
            self.found.skipped = skipped
            self.found.after = self.who_comes_before(skipped, chosen)
        if failures:
            raise Wrong(*failures)
        if END.key not in outputs:
            raise self.wrong(RunStalledError)
        return outputs[END.key]

    def next_settled(self, waiting: list[str], outputs: dict[str, Any], skipped: set[str]) -> str | None:
        """Find a node all of whose predecessors ran or were skipped."""
        for key in waiting:
            if all(r.source in outputs or r.source in skipped for r in self.relations if r.target == key):
                return key
        return None

    def is_called(self, key: str, skipped: set[str], chosen: dict[str, list[set[str]]]) -> bool:
        """Tell whether a node runs: something with control leads to it (or just data, where nothing has control)."""
        return any(
            r.source not in skipped and self.leads(r, chosen[r.source]) and (r.control or not self.has_control(key))
            for r in self.relations
            if r.target == key
        )

    def sent_to(self, key: str, outputs: dict[str, Any], chosen: dict[str, list[set[str]]]) -> dict[str, Any]:
        """Gather what was sent to a node, by sender."""
        sent: dict[str, Any] = {}
        for r in self.relations:
            if r.target == key and r.data and r.source in outputs and self.leads(r, chosen[r.source]):
                self.check(r, outputs[r.source])
                sent[r.source] = outputs[r.source]
        return sent

    def who_comes_before(self, skipped: set[str], chosen: dict[str, Any]) -> dict[str, set[str]]:
        """Say for each node that ran which nodes had to end before it: also those on which a skip hung."""
        after: dict[str, set[str]] = {START.key: set()}
        while len(after) <= len(self.spec.nodes):
            before = len(after)
            for key in [*self.spec.nodes, END.key]:
                sources = {r.source for r in self.relations if r.target == key}
                if key not in after and sources <= set(after):
                    after[key] = {s for s in sources if s not in skipped and s != START.key}
                    after[key] |= {earlier for s in sources for earlier in after[s]}
            if len(after) == before:
                break
        return {key: earlier for key, earlier in after.items() if key in chosen}

    # -- what both share ---------------------------------------------------------------------------------------

    def has_control(self, key: str) -> bool:
        """Tell whether anything that leads to a node carries control."""
        return any(r.control for r in self.relations if r.target == key)

    def leads(self, relation: Relation, chosen: list[set[str]]) -> bool:
        """Tell whether an edge, or the choice of a branch, leads there."""
        return relation.branch is None or relation.target in chosen[relation.branch]

    async def choices(self, source: str, output: Any) -> list[set[str]]:
        """Ask all branches of a node."""
        found: list[set[str]] = []
        for branch in (b for b in self.spec.branches if b.source == source):
            if not accepts(branch.input, output):
                raise self.wrong(ValueTypeError)
            answer = await ask(self.frame, branch, output)
            found.append(self.ends(branch, answer))
        return found

    def ends(self, branch: BranchSpec, answer: Any) -> set[str]:
        """Translate the answer of a condition into keys."""
        one = end_of(branch, answer)
        if one is not None:
            return {one}
        many = isinstance(answer, list | tuple | set | frozenset | dict)
        several = [end_of(branch, label) for label in (cast("Collection[Any]", answer) if many else [answer])]
        if None in several:
            raise self.wrong(UnknownTargetError, self.frame.path_of(branch.source))
        return {key for key in several if key is not None}

    def check(self, relation: Relation, value: Any) -> None:
        """Test whether a value is what its receiver takes."""
        wanted = self.wanted(relation.target)
        if not accepts(wanted, value):
            raise self.wrong(ValueTypeError)

    def wanted(self, key: str) -> Any:
        """Say what type a node takes; Any where it makes its input of what was sent by itself."""
        if key == END.key:
            return Any if self.spec.end_assembler or self.spec.end_merge else self.spec.output
        node = self.spec.nodes[key]
        if node.merge or node.assembler or node.label_sources or (node.passthrough and node.input_key is None):
            return Any
        return node.outer_input

    def one_value(self, key: str, sent: dict[str, Any]) -> Any:
        """Make one value of what was sent to a node."""
        node = self.spec.nodes.get(key)
        assembler = node.assembler if node else self.spec.end_assembler
        by_sender = {r.source: sent[r.source] for r in self.relations if r.target == key and r.source in sent}
        if assembler is not None:
            return assembler.assemble(by_sender)
        if not by_sender:
            return nothing(node.outer_input if node else self.spec.output)
        merge = node.merge if node else self.spec.end_merge
        try:
            return merged(by_sender, merge)
        except Unmergeable:
            raise self.wrong(MergeError, self.frame.path_of(key)) from None
        except Exception as error:
            raise self.frame.user_error(key, error) from error

    async def node(self, node: NodeSpec, value: Any) -> Any:
        """Run a node with all that is around it."""
        value = await run_pre(self.frame, node, value)
        return await run_post(self.frame, node, await self.body(node, value))

    async def body(self, node: NodeSpec, value: Any) -> Any:
        """Run what a node does: a graph by another interpreter, a map item by item, a function by calling it."""
        log = self.found.runs.setdefault(self.frame.path_of(node.key), [])
        if node.body.component == "map":
            log.append(value)
            return await self.each(node, node.body.target, value)
        plan = self.compiled.get(node.key) or node.body.nested
        nested = nested_graph(node.body, plan)
        if nested is None:
            return await run_body(self.frame, node, value, log)
        log.append(value)
        spec, trigger, max_steps = nested
        return await Interpreter(spec, trigger, max_steps, self.found, self.frame, node.key, plan).run(value)

    async def each(self, node: NodeSpec, mapped: Map[Any, Any], values: list[Any]) -> list[Any]:
        """Run a map: one run per item, each with a path of its own."""
        body, collects = mapped._item, mapped._collect  # pyright: ignore[reportPrivateUsage]
        results: list[Any] = []
        failures: list[Failure] = []
        for number, value in enumerate(values):
            item = replace(node, key=f"{node.key}/{number}", body=body, retry=None)
            try:
                results.append(await self.body(item, value))
            except Wrong as wrong:
                failures += wrong.failures
                results.append(NodeError(wrong.failures[0].path, "node", wrong.failures[0].cause or wrong))
        if failures and not collects:
            raise Wrong(*failures)
        return results


def relations(spec: GraphSpec) -> Iterator[Relation]:
    """List all edges and all ends of branches, in the order in which they were declared: first the edges."""
    for edge in spec.edges:
        yield Relation(edge.source, edge.target, edge.control, edge.data, None)
    numbers: dict[str, int] = {}
    for branch in spec.branches:
        number = numbers[branch.source] = numbers.get(branch.source, -1) + 1
        for target in dict.fromkeys(branch.ends.values()):
            yield Relation(branch.source, target, True, branch.data, number)


def nested_graph(body: Body, plan: Plan | None = None) -> tuple[GraphSpec, str, int | None] | None:
    """Give a nested graph's records and how it is compiled, or None if the body is none."""
    plan = body.nested if plan is None else plan
    if plan is not None:
        return plan.spec, plan.trigger, plan.max_steps
    builder = body.target
    if hasattr(builder, "_default_trigger"):
        return builder._spec(), builder._default_trigger, None
    return None


def end_of(branch: BranchSpec, label: Any) -> str | None:
    """Translate one label into a key."""
    try:
        found = branch.ends.get(label)
    except TypeError:
        return None
    return branch.ends.get(getattr(label, "key", None)) if found is None else found
