"""From a specification to a plan: check everything, then number, connect and freeze."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from ._body import Body, is_async_callable
from ._check import Checked
from ._empty import empty_value
from ._flows import check_for, flow_fits
from ._graph import GraphLike
from ._keys import END, START, Trigger
from ._plan import BranchPlan, Check, EdgePlan, HandlerPlan, NodePlan, Plan
from ._spec import GraphSpec, HandlerSpec, NodeSpec
from ._topology import reachable, reversed_graph
from ._types import Fit, fits
from .errors import GraphCompileError

STEPS_BEYOND_NODES = 100
"""The default bound on supersteps is this many more than the graph has nodes."""


def compile_spec(
    given: GraphSpec,
    *,
    default_trigger: Trigger,
    trigger: Trigger | None = None,
    max_steps: int | None = None,
    name: str | None = None,
    around: tuple[GraphSpec, ...] = (),
) -> Plan:
    """Check a specification and make its plan; the specification is not changed.

    Raises:
        GraphCompileError: With everything that is wrong.
    """
    spec = _private_copy(given, name)
    chosen: Trigger = default_trigger if trigger is None else trigger
    max_steps = spec.max_steps if max_steps is None else max_steps
    checked = Checked(spec, "all" if chosen == "all" else "any", (given, *around))
    _options(checked, trigger, max_steps)
    checked.check()
    if checked.problems:
        title = f"{spec.kind} {spec.name!r}" if spec.name else f"the {spec.kind}"
        raise GraphCompileError(title, checked.problems)
    return _Planner(checked, max_steps).plan()


def compile_nested(builder: GraphLike[Any, Any], around: tuple[GraphSpec, ...]) -> Plan:
    """Compile a builder that is a node of another one, with its own defaults."""
    return compile_spec(builder._spec(), default_trigger=builder._default_trigger, around=around)  # pyright: ignore[reportPrivateUsage]


def _private_copy(given: GraphSpec, name: str | None) -> GraphSpec:
    """Copy what changes while a graph is compiled or built on: passthroughs get their types then."""
    return replace(
        given,
        name=given.name if name is None else name,
        nodes={key: replace(node) if node.passthrough else node for key, node in given.nodes.items()},
        edges=list(given.edges),
        branches=list(given.branches),
        problems=list(given.problems),
    )


def _options(checked: Checked, trigger: str | None, max_steps: int | None) -> None:
    if trigger not in (None, "any", "all"):
        checked.report("bad-option", f'trigger={trigger!r}: there are "any" and "all"')
    if trigger is not None and checked.spec.kind != "graph":
        checked.report(
            "bad-option", f'trigger={trigger!r}: a {checked.spec.kind} always has trigger="all"; leave it out'
        )
    if max_steps is not None and (isinstance(max_steps, bool) or max_steps < 1):
        checked.report("bad-option", f"max_steps={max_steps!r}: a run takes at least one step; give a positive number")
    if max_steps is not None and checked.trigger == "all":
        text = (
            'max_steps bounds the loops of a graph with trigger="any"; with trigger="all" there are none: leave it out'
        )
        checked.report("bad-option", text)
    for key, node in checked.spec.nodes.items():
        _node_options(checked, key, node)


def _is_positive(given: object) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool) and given > 0


def _node_options(checked: Checked, key: str, node: NodeSpec) -> None:
    if node.trigger not in (None, "any", "all"):
        checked.report("bad-option", f'node {key!r}: trigger={node.trigger!r}: there are "any" and "all"', key)
    elif node.trigger == "any" and checked.trigger == "all":
        text = f'node {key!r} has trigger="any" in a graph where every node runs once (trigger="all"); leave it out'
        checked.report("bad-option", text, key)
    if node.timeout is not None and not _is_positive(node.timeout):
        checked.report(
            "bad-option", f"node {key!r}: timeout={node.timeout!r} must be a positive number of seconds", key
        )
    if node.merge is not None and is_async_callable(node.merge):
        checked.report("bad-option", f"node {key!r}: merge= takes a plain function, not an async one", key)
    if node.label_sources and (node.merge is not None or node.assembler is not None):
        text = f"node {key!r}: label_sources= and merge= contradict each other; choose one"
        checked.report("bad-option", text, key)


class _Planner:
    """Numbers and connects what was checked."""

    def __init__(self, checked: Checked, max_steps: int | None) -> None:
        self.checked = checked
        self.spec = checked.spec
        self.keys = checked.keys
        self.end = checked.count - 2
        self.start = checked.count - 1
        self.max_steps = max_steps or len(self.spec.nodes) + STEPS_BEYOND_NODES
        self.edges: dict[int, list[EdgePlan]] = defaultdict(list)
        self.branches: dict[int, list[BranchPlan]] = defaultdict(list)
        self.sources: dict[int, dict[int, None]] = defaultdict(dict)
        self.relations: dict[int, int] = defaultdict(int)
        self.controlled: set[int] = set()
        self._input_checks: dict[str, Check | None] = {}
        self.fed_apart: set[int] = set()  # nodes into which data-only edges lead

    def plan(self) -> Plan:
        self._connect()
        nodes = [self._node(i, node) for i, node in enumerate(self.spec.nodes.values())]
        nodes.append(self._virtual(END.key, self.spec.output))
        nodes.append(self._virtual(START.key, self.spec.input))
        spec = self.spec
        return Plan(
            kind=spec.kind,
            name=spec.name,
            trigger=self.checked.trigger,
            max_steps=self.max_steps,
            nodes=tuple(nodes),
            keys=dict(self.keys),
            input=spec.input,
            output=spec.output,
            input_check=_check("the graph's input", Any, spec.input),
            state=spec.state,
            state_type=spec.state_type,
            spec=spec,
        )

    def _connect(self) -> None:
        for edge in self.checked.edges:
            source, target = self.keys[edge.source], self.keys[edge.target]
            check = self._edge_check(edge.source, edge.target) if edge.data else None
            self.edges[source].append(EdgePlan(target, edge.control, edge.data, check))
            if not edge.control:
                self.fed_apart.add(target)
            self._relation(source, target, control=edge.control, data=edge.data)
        for branch in self.checked.branches:
            source = self.keys[branch.source]
            targets = tuple(dict.fromkeys(self.keys[k] for k in branch.ends.values()))
            where = f"branch {branch.name!r} of node {branch.source!r}"
            given = self.checked.outputs[branch.source]
            checks = {t: self._edge_check(branch.source, self._key(t)) for t in targets} if branch.data else {}
            self.branches[source].append(
                BranchPlan(
                    name=branch.name,
                    condition=branch.condition,
                    streams=branch.streams,
                    ends={label: self.keys[key] for label, key in branch.ends.items()},
                    labels=tuple(str(label) for label in branch.ends),
                    targets=targets,
                    data=branch.data,
                    check=_check(where, given, branch.input),
                    checks={t: c for t, c in checks.items() if c is not None},
                    on_value=branch.on_value,
                )
            )
            for target in targets:
                self._relation(source, target, control=True, data=branch.data)

    def _relation(self, source: int, target: int, *, control: bool, data: bool) -> None:
        self.relations[target] += 1
        if control:
            self.controlled.add(target)
        if data:
            self.sources[target][source] = None

    def _key(self, number: int) -> str:
        return self.checked.names[number]

    def _edge_check(self, source: str, target: str) -> Check | None:
        """Make the test of one edge; where several lead to a node, what they bring is tested together."""
        if self.checked.gathers(target) or len(self.checked.data_sources(target)) > 1:
            return None
        return self._check(f"edge {source!r} -> {target!r}", source, target)

    def _input_check(self, target: str) -> Check | None:
        if target not in self._input_checks:
            self._input_checks[target] = self._new_input_check(target)
        return self._input_checks[target]

    def _new_input_check(self, target: str) -> Check | None:
        node = self.spec.nodes.get(target)
        if node is not None and node.merge is not None:
            return _check(f"what the merge function of node {target!r} gave", Any, self.checked.inputs[target])
        sources = self.checked.data_sources(target)
        if self.checked.gathers(target) or len(sources) < 2:
            return None
        checks = [self._check(f"the input of node {target!r}", source, target) for source in sources]
        return next((check for check in checks if check is not None), None)

    def _check(self, where: str, source: str, target: str) -> Check | None:
        fit = flow_fits(self.checked.outputs[source], self.checked.inputs[target], self.spec.nodes.get(source))
        return None if fit is Fit.ALWAYS else check_for(where, self.checked.inputs[target])

    def _node(self, index: int, node: NodeSpec) -> NodePlan:
        body = node.body
        nested = self.checked.nested.get(node.key)
        if nested is not None:
            body = body.with_compiled(nested)
        join = node.trigger == "all" and self.checked.trigger == "any"
        return NodePlan(
            index=index,
            key=node.key,
            body=body,
            edges=tuple(self.edges[index]),
            branches=tuple(self.branches[index]),
            next=self._only_successor(index),
            single=_single(self.edges[index], self.branches[index]),
            plain=_is_plain(node, body),
            # A post-handler of values reads the stream inside the context in which the stream would run.
            flows=_runs_once(node) and body.transform is not None and body.nested is None and node.post is None,
            bare=_is_plain(node, body) and _is_bare(node),
            handled=_is_plain(node, body) and _is_handled(node),
            choice=self._choice(index),
            data_sources=tuple(self.sources[index]),
            relations=self.relations[index],
            has_control=index in self.controlled,
            join=join,
            upstream=self._upstream(index) if join else frozenset(),
            pre=_handler(node.pre, "pre-handler"),
            post=_handler(node.post, "post-handler"),
            input_key=node.input_key,
            key_check=_key_check(node),
            output_key=node.output_key,
            input_check=self._input_check(node.key),
            takes_one=not self.checked.gathers(node.key) and self._input_check(node.key) is None,
            merge=node.merge,
            label_sources=node.label_sources,
            assembler=node.assembler,
            empty=empty_value(self.checked.inputs[node.key]),
            timeout=node.timeout,
            retry=node.retry,
            name=node.name or "",
            input=self.checked.inputs[node.key],
            output=self.checked.outputs[node.key],
            takes=node.input,
            gives=node.output,
        )

    def _virtual(self, key: str, form: Any) -> NodePlan:
        index = self.keys[key]
        is_end = key == END.key
        return NodePlan(
            index=index,
            key=key,
            body=Body(form, form, "virtual", key),
            edges=tuple(self.edges[index]),
            branches=tuple(self.branches[index]),
            data_sources=tuple(self.sources[index]),
            relations=self.relations[index],
            has_control=index in self.controlled,
            input_check=self._input_check(key) if is_end else None,
            merge=self.spec.end_merge if is_end else None,
            assembler=self.spec.end_assembler if is_end else None,
            empty=empty_value(form),
            input=form,
            output=form,
            takes=form,
            gives=form,
        )

    def _upstream(self, join: int) -> frozenset[int]:
        successors: list[list[int]] = [[] for _ in range(self.checked.count)]
        for source, edges in self.edges.items():
            successors[source] += [e.target for e in edges]
        for source, branches in self.branches.items():
            successors[source] += [t for b in branches for t in b.targets]
        back = reversed_graph(successors)
        return frozenset(reachable(back, back[join], without=join))

    def _only_successor(self, index: int) -> int:
        """Give the node that gets this one's output directly, as its input and by nothing else; -1 if there is none."""
        target = _single(self.edges[index], self.branches[index])
        if not 0 <= target < self.end or target in self.fed_apart:
            return -1  # data may wait there already
        node = self.spec.nodes[self._key(target)]
        if self.checked.gathers(node.key) or (self.checked.trigger == "any" and node.trigger == "all"):
            return -1
        if self.checked.trigger == "all":
            return target if self.relations[target] == 1 else -1
        return -1 if self._input_check(node.key) is not None else target

    def _choice(self, index: int) -> BranchPlan | None:
        """Give the branch of a node whose one chosen end takes what comes, as it is and by nothing else."""
        if self.checked.trigger == "all" or self.edges[index] or len(self.branches[index]) != 1:
            return None
        branch = self.branches[index][0]
        asks_values = not branch.streams or branch.on_value is not None
        if not asks_values or not branch.data or branch.check is not None or branch.checks:
            return None
        return branch if all(self._takes_as_it_is(target) for target in branch.targets) else None

    def _takes_as_it_is(self, target: int) -> bool:
        key = self._key(target)
        if target in self.fed_apart or self.checked.gathers(key) or self._input_check(key) is not None:
            return False
        return target == self.end or self.spec.nodes[key].trigger != "all"


def _check(where: str, given: Any, wanted: Any) -> Check | None:
    return None if fits(given, wanted) is Fit.ALWAYS else check_for(where, wanted)


def _key_check(node: NodeSpec) -> Check | None:
    if node.input_key is None:
        return None
    return _check(f"the value under the key {node.input_key!r} in the input of node {node.key!r}", Any, node.input)


def _handler(spec: HandlerSpec | None, where: str) -> HandlerPlan | None:
    return None if spec is None else HandlerPlan(spec.call, spec.streams, where)


def _single(edges: list[EdgePlan], branches: list[BranchPlan]) -> int:
    if branches or len(edges) != 1:
        return -1
    edge = edges[0]
    return edge.target if edge.control and edge.data and edge.check is None else -1


def _runs_once(node: NodeSpec) -> bool:
    return node.timeout is None and node.retry is None


def _is_plain(node: NodeSpec, body: Body) -> bool:
    return _runs_once(node) and not body.blocking and body.invoke is not None and body.nested is None


def _is_handled(node: NodeSpec) -> bool:
    only_pre = node.post is None and node.input_key is None and node.output_key is None
    return only_pre and node.pre is not None and not node.pre.streams


def _is_bare(node: NodeSpec) -> bool:
    return node.pre is None and node.post is None and node.input_key is None and node.output_key is None
