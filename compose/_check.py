"""Everything about a graph that can be wrong before it runs, found all at once.

Each check appends to one list of problems and goes on; where a check needs what another one refused (an unknown
node, say), it works on what is left.
"""

from __future__ import annotations

import difflib
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Union

from ._empty import empty_value
from ._flows import flow_fits
from ._keys import END, START, Trigger
from ._merge import mergeable, unmergeable_text
from ._plan import Plan
from ._spec import BranchSpec, EdgeSpec, GraphSpec, HandlerSpec, NodeSpec
from ._topology import conditions, cycles, depths, exclusive, reachable, reversed_graph, topological_order
from ._types import Fit, fits, type_name
from .errors import GraphCompileError, GraphWarning, Problem


class Checked:
    """A specification with its numbers, inferred types and problems.

    Numbers: the nodes in the order in which they were added, then END, then START.
    """

    def __init__(self, spec: GraphSpec, trigger: Trigger, around: tuple[GraphSpec, ...] = ()) -> None:
        self.spec = spec
        self.around = around
        self.nested: dict[str, Plan] = {}
        self.trigger: Trigger = trigger
        self.problems: list[Problem] = list(spec.problems)
        self.keys: dict[str, int] = {key: i for i, key in enumerate(spec.nodes)}
        self.keys[END.key] = len(spec.nodes)
        self.keys[START.key] = len(spec.nodes) + 1
        self.names = list(self.keys)
        self.count = len(self.keys)
        self.edges: list[EdgeSpec] = []
        self.branches: list[BranchSpec] = []
        self.branch_numbers: list[int] = []
        self._senders: dict[str, tuple[str, ...]] | None = None
        self._joined: set[tuple[int, int]] | None = None
        """The pairs of nodes that an edge joins, when somebody has asked."""
        self.inputs: dict[str, Any] = {END.key: spec.output}
        self.outputs: dict[str, Any] = {START.key: spec.input}

    def report(self, kind: str, text: str, node: str | None = None) -> None:
        """Add a problem."""
        self.problems.append(Problem(kind, text, node))

    def check(self) -> None:
        """Run all checks."""
        self._names()
        self._nested()
        self._infer_passthroughs()
        self._types()
        self._handlers()
        self._topology()
        self._fan_in()

    # -- names -------------------------------------------------------------------------------------------------

    def _names(self) -> None:
        seen: set[tuple[str, str, str]] = set()
        for edge in self.spec.edges:
            where = f"edge {edge.source!r} -> {edge.target!r}"
            if not self._ends_exist(where, edge.source, [edge.target]):
                continue
            if not edge.control and not edge.data:
                self.report("empty-edge", f"{where} carries neither control nor data; leave it out", edge.target)
                continue
            kinds = [k for k, on in (("control", edge.control), ("data", edge.data)) if on]
            doubled = [k for k in kinds if (edge.source, edge.target, k) in seen]
            if doubled:
                text = f"{where} was added twice ({' and '.join(doubled)}); once is enough"
                self.report("doubled-edge", text, edge.target)
                continue
            seen.update((edge.source, edge.target, k) for k in kinds)
            self.edges.append(edge)
        counts: dict[str, int] = defaultdict(int)
        for branch in self.spec.branches:
            where = f"branch {branch.name!r} of node {branch.source!r}"
            if self._ends_exist(where, branch.source, branch.ends.values()):
                self.branches.append(branch)
                self.branch_numbers.append(counts[branch.source])
                counts[branch.source] += 1

    def _ends_exist(self, where: str, source: str, targets: Iterable[str]) -> bool:
        good = True
        if source == END.key:
            good = False
            self.report("end-as-source", f"{where}: nothing comes after END; start from another node", source)
        for key in [source, *targets]:
            if key not in self.keys:
                good = False
                self.report("unknown-node", f"{where}: there is no node {key!r}{self._hint(key)}", key)
        if START.key in targets:
            good = False
            self.report("start-as-target", f"{where}: nothing leads into START; lead to the first node", source)
        return good

    def _hint(self, key: str) -> str:
        close = difflib.get_close_matches(key, self.names, n=3)
        if close:
            return f"; did you mean {' or '.join(map(repr, close))}?"
        return "; add it with add_node, or correct the key"

    def _nested(self) -> None:
        """Compile the graphs among the nodes, so that what is wrong with them is said here too."""
        from ._compile import compile_nested

        for key, node in self.spec.nodes.items():
            builder = node.body.to_compile
            if builder is None:
                continue
            if any(builder._given is spec for spec in (self.spec, *self.around)):
                self.report(
                    "nests-itself", f"node {key!r} is the graph that it is in; a graph cannot contain itself", key
                )
                continue
            try:
                self.nested[key] = compile_nested(builder, (self.spec, *self.around))
            except GraphCompileError as error:
                for problem in error.problems:
                    inner = f"{key}/{problem.node}" if problem.node else key
                    self.problems.append(Problem(problem.kind, f"in node {key!r}: {problem.text}", inner))

    # -- types -------------------------------------------------------------------------------------------------

    def _infer_passthroughs(self) -> None:
        waiting = [n for n in self.spec.nodes.values() if n.passthrough]
        for key, node in self.spec.nodes.items():
            if not node.passthrough:
                self.inputs[key] = node.outer_input
                self.outputs[key] = node.outer_output
        if not waiting:
            return
        flows = [(e.source, e.target) for e in self.edges if e.data]
        flows += [(b.source, end) for b in self.branches if b.data for end in b.ends.values()]
        self._forward(waiting, flows)
        self._backward(waiting, flows)
        for node in waiting:
            if node.key not in self.outputs:
                text = f"passthrough {node.key!r} has no type: none of its neighbours has one; join it to a typed node"
                self.report("untyped-passthrough", text, node.key)
                self._set(node, Any)

    def _set(self, node: NodeSpec, form: Any) -> None:
        self.inputs[node.key] = dict[str, Any] if node.input_key is not None else form
        self.outputs[node.key] = dict[str, Any] if node.output_key is not None else form
        node.input = node.output = form

    def _forward(self, waiting: Sequence[NodeSpec], flows: Sequence[tuple[str, str]]) -> None:
        for _ in range(len(waiting) + 1):
            changed = False
            for node in waiting:
                sources = [self.outputs[s] for s, t in flows if t == node.key and s in self.outputs]
                if not sources:
                    continue
                form = _union(sources)
                if node.input_key is not None:
                    form = Any
                if node.key not in self.outputs or self.inputs[node.key] != form:
                    changed = node.key not in self.outputs or changed
                    self._set(node, form)
            if not changed:
                return

    def _backward(self, waiting: Sequence[NodeSpec], flows: Sequence[tuple[str, str]]) -> None:
        for _ in range(len(waiting) + 1):
            for node in waiting:
                if node.key in self.outputs:
                    continue
                targets = [
                    self.inputs[t] for s, t in flows if s == node.key and t in self.inputs and not self.gathers(t)
                ]
                targets += [b.input for b in self.branches if b.source == node.key]
                if targets:
                    self._set(node, Any if node.output_key is not None else targets[0])

    def _types(self) -> None:
        for edge in self.edges:
            if edge.data:
                self._edge_type(edge.source, edge.target, f"edge {edge.source!r} -> {edge.target!r}")
        for branch in self.branches:
            where = f"branch {branch.name!r} of node {branch.source!r}"
            given = self.outputs[branch.source]
            if fits(given, branch.input) is Fit.NEVER:
                text = (
                    f"{where}: {branch.source!r} gives {type_name(given)}, the condition takes "
                    f"{type_name(branch.input)}; make the condition take what the node gives"
                )
                self.report("type", text, branch.source)
            if branch.data:
                for end in dict.fromkeys(branch.ends.values()):
                    self._edge_type(branch.source, end, f"{where} -> {end!r}")
        self._assemblers()

    def _edge_type(self, source: str, target: str, where: str) -> None:
        if self.gathers(target):
            return
        given, wanted = self.outputs[source], self.inputs[target]
        if flow_fits(given, wanted, self.spec.nodes.get(source)) is Fit.NEVER:
            who = "the graph" if source == START.key else repr(source)
            whom = repr(target)
            gives = f"{who} takes" if source == START.key else f"{who} gives"
            takes = "the graph's output is" if target == END.key else f"{whom} takes"
            fix = (
                f"declare {whom} with input={type_name(given)}"
                if target != END.key
                else "change the graph's output type"
            )
            text = (
                f"{where}: {gives} {type_name(given)}, {takes} {type_name(wanted)}; "
                f"add a node that turns one into the other, or {fix}"
            )
            self.report("type", text, target)

    def gathers(self, key: str) -> bool:
        """Tell whether a node makes its input of what arrives by itself, so that its type says nothing of that."""
        node = self.spec.nodes.get(key)
        if node is None:
            return self.spec.end_assembler is not None or self.spec.end_merge is not None
        return node.assembler is not None or node.merge is not None or node.label_sources

    def _assemblers(self) -> None:
        assemblers = {k: n.assembler for k, n in self.spec.nodes.items()} | {END.key: self.spec.end_assembler}
        for key, assembler in assemblers.items():
            if assembler is None:
                continue
            sources = {s: self.outputs[s] for s in self.data_sources(key) if s in self.outputs}
            for text in assembler.problems(sources, self.inputs[key]):
                self.report("mapping", f"node {key!r}: {text}", key)

    def _handlers(self) -> None:
        for key, node in self.spec.nodes.items():
            for which, handler, form in (("pre", node.pre, self.inputs[key]), ("post", node.post, self.outputs[key])):
                if handler is not None:
                    self._handler(f"the {which}-handler of node {key!r}", key, handler, form)

    def _handler(self, where: str, key: str, handler: HandlerSpec, form: Any) -> None:
        if self.spec.state is None:
            text = f"{where}: the graph has no state; give Graph(state=…), or leave the handler out"
            self.report("no-state", text, key)
        elif fits(self.spec.state_type, handler.state) is Fit.NEVER:
            text = (
                f"{where} takes the state as {type_name(handler.state)}, the graph's state is "
                f"{type_name(self.spec.state_type)}; make them the same"
            )
            self.report("state-type", text, key)
        if fits(form, handler.value) is Fit.NEVER:
            text = f"{where} takes {type_name(handler.value)}, and what passes there is {type_name(form)}"
            self.report("handler-type", text, key)
        elif handler.result is not None and fits(handler.result, form) is Fit.NEVER:
            text = f"{where} returns {type_name(handler.result)}, and what has to pass there is {type_name(form)}"
            self.report("handler-type", text, key)

    # -- topology ----------------------------------------------------------------------------------------------

    def _relations(self) -> list[tuple[int, int, bool, bool]]:
        """Give all relations: source, target, whether it carries control, whether it carries data."""
        found = [(self.keys[e.source], self.keys[e.target], e.control, e.data) for e in self.edges]
        for branch in self.branches:
            for end in dict.fromkeys(branch.ends.values()):
                found.append((self.keys[branch.source], self.keys[end], True, branch.data))
        return found

    def _topology(self) -> None:
        end, start = self.count - 2, self.count - 1
        relations = self._relations()
        controlled = {t for _, t, control, _ in relations if control}
        runs: list[list[int]] = [[] for _ in range(self.count)]
        all_ways: list[list[int]] = [[] for _ in range(self.count)]
        for source, target, control, _ in relations:
            all_ways[source].append(target)
            if control or target not in controlled:
                runs[source].append(target)
        if not runs[start]:
            self.report("no-start", "nothing leads out of START; add an edge from START to the first node", START.key)
        if not any(end in targets for targets in runs):
            self.report("no-end", "nothing leads into END; add an edge from the last node to END", END.key)
        reached = reachable(runs, [start]) if runs[start] else set(range(self.count))
        leading = reachable(reversed_graph(all_ways), [end])
        if self.trigger == "all":
            self._no_cycles(all_ways)
        self._unreachable(reached, runs)
        self._dead_ends(reached, leading, runs, end)
        if self.trigger == "any" and not self.problems:
            self._unequal_depth(relations, runs)

    def _no_cycles(self, ways: list[list[int]]) -> None:
        for cycle in cycles(ways, topological_order(ways)[1]):
            text = (
                f'cycle {self._path([*cycle, cycle[0]])}: with trigger="all" every node runs once; '
                'break the cycle, or compile with trigger="any"'
            )
            self.report("cycle", text, self.names[cycle[0]])

    def _path(self, nodes: Iterable[int]) -> str:
        return " -> ".join(self.names[n] for n in nodes)

    def _unreachable(self, reached: set[int], runs: list[list[int]]) -> None:
        for number, key in enumerate(self.names[:-2]):
            if number not in reached:
                self.report(
                    "unreachable", f"node {key!r} cannot be reached from START; lead an edge or a branch to it", key
                )

    def _dead_ends(self, reached: set[int], leading: set[int], runs: list[list[int]], end: int) -> None:
        if end not in reached and any(end in targets for targets in runs):
            self.report("no-path", "END cannot be reached from START; connect them", END.key)
        lost = {n for n in reached if n not in leading and n < end}
        if not any(end in targets for targets in runs):
            return  # said already: nothing leads into END at all
        on_cycles: set[int] = set()
        for cycle in cycles(runs, lost) if self.trigger == "any" else []:
            on_cycles.update(cycle)
            text = f"cycle {self._path([*cycle, cycle[0]])} has no way out; add a branch that leads to END"
            self.report("no-exit", text, self.names[cycle[0]])
        for number in sorted(lost - on_cycles):
            key = self.names[number]
            if not on_cycles & reachable(runs, [number]):
                self.report("no-path", f"node {key!r} leads nowhere: there is no path from it to END; add one", key)

    def _unequal_depth(self, relations: list[tuple[int, int, bool, bool]], runs: list[list[int]]) -> None:
        """Warn of nodes that senders of unequal depth reach, without waiting for each other."""
        joins = {self.keys[k] for k, n in self.spec.nodes.items() if n.trigger == "all"}
        incoming: dict[int, list[int]] = defaultdict(list)
        for edge in self.edges:
            if edge.control:
                incoming[self.keys[edge.target]].append(self.keys[edge.source])
        suspects = {t: s for t, s in incoming.items() if len(s) > 1 and t not in joins}
        if not suspects:
            return
        depth = depths(runs, self.count - 1)
        for target, sources in suspects.items():
            behind = reachable(runs, [target])
            forward = [s for s in sources if s not in behind and s in depth]
            needs = self._conditions()
            live = [s for s in forward if any(not self._excluded(needs, s, t) for t in forward if t != s)]
            if len({depth[s] for s in live}) > 1:
                senders = ", ".join(f"{self.names[s]!r} (after {depth[s]})" for s in live)
                what = (
                    "the run ends with the first of them, and drops the others"
                    if target == self.count - 2
                    else "it runs once for each"
                )
                wait = "lead them to a node with" if target == self.count - 2 else "give it"
                text = (
                    f"node {self.names[target]!r} is reached by senders after different numbers of steps: {senders}; "
                    f'{what}; {wait} trigger="all" to wait for them, or compile with trigger="all"'
                )
                warnings.warn(GraphWarning(text), stacklevel=8)

    # -- fan-in ------------------------------------------------------------------------------------------------

    def data_sources(self, key: str) -> Sequence[str]:
        """Give the nodes that send data to a node, in the order in which that was declared."""
        if self._senders is None:
            found: dict[str, dict[str, None]] = defaultdict(dict)
            for edge in self.edges:
                if edge.data:
                    found[edge.target][edge.source] = None
            for branch in self.branches:
                for end in branch.ends.values() if branch.data else ():
                    found[end][branch.source] = None
            self._senders = {target: tuple(sources) for target, sources in found.items()}
        return self._senders.get(key, ())

    def _fan_in(self) -> None:
        sources: dict[str, dict[str, None]] = defaultdict(dict)
        control_only: set[str] = set()
        for edge in self.edges:
            if edge.data:
                sources[edge.target][edge.source] = None
            else:
                control_only.add(edge.target)
        for branch in self.branches:
            for end in branch.ends.values():
                if branch.data:
                    sources[end][branch.source] = None
                else:
                    control_only.add(end)
        for key, senders in sources.items():
            if len(senders) > 1:
                self._mergeable(key, list(senders))
        for key in sorted(control_only, key=self.keys.__getitem__):
            self._has_empty(key, sources.get(key, {}))

    def _has_empty(self, key: str, senders: dict[str, None]) -> None:
        node = self.spec.nodes.get(key)
        if node is None or node.assembler is not None or empty_value(self.inputs[key]) is not None:
            return
        if senders and self.trigger == "all":
            return  # data arrive as well
        text = (
            f"node {key!r} can run without input (a control-only edge or branch leads to it), and "
            f"{type_name(self.inputs[key])} has no empty value; give it data, or a function without parameters"
        )
        self.report("no-input", text, key)

    def _mergeable(self, key: str, senders: list[str]) -> None:
        node = self.spec.nodes.get(key)
        if node is not None and (node.merge or node.assembler or node.label_sources):
            return
        if key == END.key and (self.spec.end_assembler or self.spec.end_merge):
            return
        bad = [s for s in senders if mergeable(self.outputs[s]) is Fit.NEVER]
        if not bad:
            return
        together = self._together(key, senders)
        clash = [s for s in senders if any({s, t} <= group for group in together for t in bad if t != s)]
        if clash:
            self.report("unmergeable", unmergeable_text(key, [(s, self.outputs[s]) for s in clash]), key)

    def _together(self, key: str, senders: list[str]) -> list[set[str]]:
        """Say which senders certainly (trigger "any") or possibly (trigger "all") deliver at the same time."""
        waits = self.trigger == "all" or (key in self.spec.nodes and self.spec.nodes[key].trigger == "all")
        if waits:
            needs = self._conditions()
            pairs: list[set[str]] = []
            for i, one in enumerate(senders):
                for other in senders[i + 1 :]:
                    if not self._excluded(needs, self.keys[one], self.keys[other], self.keys[key]):
                        pairs.append({one, other})
            return pairs
        certain = self._certain_steps()
        at: dict[int, set[str]] = defaultdict(set)
        edges = {(e.source, e.target) for e in self.edges if e.data}
        for sender in senders:
            if (sender, key) in edges:
                for step in certain.get(self.keys[sender], ()):
                    at[step].add(sender)
        return [group for group in at.values() if len(group) > 1]

    def _certain_steps(self) -> dict[int, set[int]]:
        """Say at which steps a node certainly runs, by unconditional edges alone, until END is reached."""
        steps: dict[int, set[int]] = defaultdict(set)
        end, front = self.count - 2, {self.count - 1}
        joins = {self.keys[k] for k, n in self.spec.nodes.items() if n.trigger == "all"}
        following: list[set[int]] = [set() for _ in range(self.count)]
        for edge in self.edges:
            if edge.control and self.keys[edge.target] not in joins:
                following[self.keys[edge.source]].add(self.keys[edge.target])
        for step in range(self.count):
            for node in front:
                steps[node].add(step)
            front = {t for node in front for t in following[node]}
            if end in front or not front:
                break
        return steps

    def _conditions(self) -> list[set[tuple[int, int, int]]]:
        incoming: list[list[tuple[int, tuple[int, int, int] | None]]] = [[] for _ in range(self.count)]
        for edge in self.edges:
            if edge.control:
                incoming[self.keys[edge.target]].append((self.keys[edge.source], None))
        for branch, number in zip(self.branches, self.branch_numbers, strict=True):
            source = self.keys[branch.source]
            for end in dict.fromkeys(branch.ends.values()):
                target = self.keys[end]
                incoming[target].append((source, (source, number, target)))
        return conditions(self.count, incoming, self.count - 1)

    def _excluded(self, needs: list[set[tuple[int, int, int]]], one: int, other: int, target: int = -1) -> bool:
        single = {
            (self.keys[b.source], number)
            for b, number in zip(self.branches, self.branch_numbers, strict=True)
            if not b.many
        }
        first, second = (set(needs[n]) | self._own_choice(n, target) for n in (one, other))
        return exclusive(first, second, single)

    def _own_choice(self, source: int, target: int) -> set[tuple[int, int, int]]:
        """Give the choice by which a source leads to a target, if it is a single branch and no edge."""
        if self._joined is None:
            self._joined = {(self.keys[edge.source], self.keys[edge.target]) for edge in self.edges}
        if (source, target) in self._joined:
            return set()
        choices = {
            (source, number, target)
            for b, number in zip(self.branches, self.branch_numbers, strict=True)
            if self.keys[b.source] == source and target in map(self.keys.__getitem__, b.ends.values())
        }
        return choices if len(choices) == 1 else set()


def _union(forms: Sequence[Any]) -> Any:
    distinct: list[Any] = []
    for form in forms:
        if form is Any or form is object:
            return form
        if form not in distinct:
            distinct.append(form)
    return distinct[0] if len(distinct) == 1 else Union[tuple(distinct)]  # noqa: UP007 - made at run time
