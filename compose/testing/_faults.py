"""Faults to plant into valid graphs: every kind that ``compile()`` reports, each with the name it reports.

A fault takes a sketch and gives another one with the fault in it, and a word that must stand in the message: the key
of a node, mostly. Where it cannot be planted it gives None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from .._keys import END, START
from . import pieces
from ._growth import Dice
from ._sketch import BranchSketch, EdgeSketch, GraphSketch, Itself, NodeSketch, Raw
from .pieces import ITEMS, TEXT, Choice, Handler, Piece

__all__ = ("FAULTS", "plant")

Planted = tuple[GraphSketch, str]
Fault = Callable[[Dice, GraphSketch], Planted | None]

INCREMENT: Final = Raw("increment", pieces.increment)
ALONE: Final = Raw("alone", pieces.alone)
COUNTING: Final = Raw("counting", pieces.counting)


def plant(dice: Dice, sketch: GraphSketch, fault: str) -> Planted | None:
    """Plant a fault by its name."""
    return FAULTS[fault](dice, sketch)


def with_node(sketch: GraphSketch, *nodes: NodeSketch) -> GraphSketch:
    """Add nodes."""
    return replace(sketch, nodes=(*sketch.nodes, *nodes))


def with_edges(sketch: GraphSketch, *edges: tuple[str, str]) -> GraphSketch:
    """Add edges."""
    return replace(sketch, edges=(*sketch.edges, *(EdgeSketch(source, target) for source, target in edges)))


def with_change(sketch: GraphSketch, key: str, **changes: Any) -> GraphSketch:
    """Change a node."""
    nodes = tuple(replace(node, **changes) if node.key == key else node for node in sketch.nodes)
    return replace(sketch, nodes=nodes)


def taking_the_input(sketch: GraphSketch) -> Piece:
    """Make a piece that takes what the graph takes, and gives what never merges."""
    return Piece("swap" if sketch.input is TEXT else "glue" if sketch.input == ITEMS else "show")


def a_key(dice: Dice, sketch: GraphSketch) -> str:
    """Choose a node."""
    return dice.pick([node.key for node in sketch.nodes])


def a_working_node(dice: Dice, sketch: GraphSketch) -> NodeSketch | None:
    """Choose a node that is a piece without an input key."""
    found = [node for node in sketch.nodes if isinstance(node.work, Piece) and node.input_key is None]
    return dice.pick(found) if found else None


# -- names -----------------------------------------------------------------------------------------------------


def unknown_node(dice: Dice, sketch: GraphSketch) -> Planted:
    """Lead to a node that does not exist, by an edge or a branch, or from one."""
    key = a_key(dice, sketch)
    if dice.rarely():
        branch = BranchSketch(key, Choice("by_size", ("nowhere", key)), ("nowhere", key))
        return replace(sketch, branches=(*sketch.branches, branch)), "nowhere"
    return with_edges(sketch, dice.pick([(key, "nowhere"), ("nowhere", key)])), "nowhere"


def end_as_source(dice: Dice, sketch: GraphSketch) -> Planted:
    """Lead on from END."""
    key = a_key(dice, sketch)
    return with_edges(sketch, (END.key, key)), key


def start_as_target(dice: Dice, sketch: GraphSketch) -> Planted:
    """Lead into START."""
    key = a_key(dice, sketch)
    return with_edges(sketch, (key, START.key)), key


def doubled_edge(dice: Dice, sketch: GraphSketch) -> Planted | None:
    """Add an edge twice."""
    if not sketch.edges:
        return None
    edge = dice.pick(sketch.edges)
    return replace(sketch, edges=(*sketch.edges, edge)), edge.target


def empty_edge(dice: Dice, sketch: GraphSketch) -> Planted:
    """Add an edge that carries nothing."""
    key = a_key(dice, sketch)
    return replace(sketch, edges=(*sketch.edges, EdgeSketch(START.key, key, control=False, data=False))), key


def doubled_key(dice: Dice, sketch: GraphSketch) -> Planted:
    """Add a second node of one key."""
    key = a_key(dice, sketch)
    return with_node(sketch, NodeSketch(key, Piece("swap"))), key


def reserved_key(dice: Dice, sketch: GraphSketch) -> Planted:
    """Add a node with the key of START or END."""
    key = dice.pick((START.key, END.key))
    return with_node(sketch, NodeSketch(key, Piece("swap"))), key


def bad_key(dice: Dice, sketch: GraphSketch) -> Planted:
    """Add a node whose key is a path, or nothing."""
    key = dice.pick(("a/b", ""))
    return with_node(sketch, NodeSketch(key, Piece("swap"))), repr(key)


# -- nodes -----------------------------------------------------------------------------------------------------


def bad_node(dice: Dice, sketch: GraphSketch) -> Planted:
    """Add a node that is no function, or one with too many parameters."""
    work = dice.pick((Raw("42", 42), COUNTING))
    return with_edges(with_node(sketch, NodeSketch("wrong", work)), (START.key, "wrong"), ("wrong", END.key)), "wrong"


def bad_branch(dice: Dice, sketch: GraphSketch) -> Planted:
    """Add a branch that does not say where it leads."""
    key = a_key(dice, sketch)
    branch = BranchSketch(key, Choice("by_size", (key, END.key)), (), declares=False)
    return replace(sketch, branches=(*sketch.branches, branch)), key


def bad_handler(dice: Dice, sketch: GraphSketch) -> Planted:
    """Give a node a handler that does not take the state."""
    key = a_key(dice, sketch)
    changed = with_change(replace(sketch, state=True), key, **{dice.pick(("pre", "post")): ALONE})
    return changed, key


def nests_itself(dice: Dice, sketch: GraphSketch) -> Planted:
    """Put the graph into itself."""
    return with_edges(with_node(sketch, NodeSketch("itself", Itself())), (START.key, "itself")), "itself"


def untyped_passthrough(dice: Dice, sketch: GraphSketch) -> Planted:
    """Add passthroughs that only have each other."""
    return with_edges(with_node(sketch, NodeSketch("this"), NodeSketch("that")), ("this", "that")), "this"


def no_state(dice: Dice, sketch: GraphSketch) -> Planted | None:
    """Give a node a handler in a graph without state."""
    node = a_working_node(dice, sketch)
    if node is None:
        return None
    handler = Handler("remember", node.work.rule.input)
    return with_change(replace(sketch, state=False), node.key, pre=handler), node.key


def state_type(dice: Dice, sketch: GraphSketch) -> Planted:
    """Give a node a handler that takes another state."""
    key = a_key(dice, sketch)
    return with_change(replace(sketch, state=True), key, pre=COUNTING), key


def handler_type(dice: Dice, sketch: GraphSketch) -> Planted | None:
    """Give a node a handler that takes something else than the node."""
    node = a_working_node(dice, sketch)
    if node is None:
        return None
    return with_change(replace(sketch, state=True), node.key, pre=Handler("remember", int)), node.key


# -- types -----------------------------------------------------------------------------------------------------


def wrong_type(dice: Dice, sketch: GraphSketch) -> Planted:
    """Let a node get, or the graph give, what does not fit."""
    if dice.pick((True, False)):
        changed = with_node(sketch, NodeSketch("wrong", INCREMENT))
        return with_edges(changed, (START.key, "wrong")), "wrong"
    return replace(sketch, output=int), END.key


def unmergeable(dice: Dice, sketch: GraphSketch) -> Planted | None:
    """Let two nodes send at the same time what does not merge."""
    if any((e.source, e.target) == (START.key, END.key) for e in sketch.edges):
        return None
    piece = taking_the_input(sketch)
    takes = Piece("swap")
    changed = with_node(sketch, NodeSketch("one", piece), NodeSketch("two", piece), NodeSketch("both", takes))
    edges = [(START.key, "one"), (START.key, "two"), ("one", "both"), ("two", "both")]
    return with_edges(changed, *edges), "both"


def no_input(dice: Dice, sketch: GraphSketch) -> Planted:
    """Let a node run without input that has no value for that."""
    changed = with_node(sketch, NodeSketch("hungry", INCREMENT))
    return replace(changed, edges=(*changed.edges, EdgeSketch(START.key, "hungry", data=False))), "hungry"


# -- topology --------------------------------------------------------------------------------------------------


def no_start(dice: Dice, sketch: GraphSketch) -> Planted:
    """Let nothing lead out of START."""
    edges = tuple(e for e in sketch.edges if e.source != START.key)
    branches = tuple(b for b in sketch.branches if b.source != START.key)
    return replace(sketch, edges=edges, branches=branches), "START"


def no_end(dice: Dice, sketch: GraphSketch) -> Planted:
    """Let nothing lead into END."""
    edges = tuple(e for e in sketch.edges if e.target != END.key)
    branches = tuple(b for b in sketch.branches if END.key not in b.ends)
    return replace(sketch, edges=edges, branches=branches), "END"


def cycle(dice: Dice, sketch: GraphSketch) -> Planted | None:
    """Lead back, where every node runs once."""
    if sketch.trigger != "all":
        return None
    inner = [(e.target, e.source) for e in sketch.edges if {START.key, END.key}.isdisjoint((e.source, e.target))]
    key = a_key(dice, sketch)
    back = dice.pick([(key, key), *inner])
    return with_edges(sketch, back), f"{back[0]} -> "


def unreachable(dice: Dice, sketch: GraphSketch) -> Planted:
    """Add a node to which nothing leads."""
    return with_edges(with_node(sketch, NodeSketch("lost", Piece("swap"))), ("lost", END.key)), "lost"


def no_path(dice: Dice, sketch: GraphSketch) -> Planted:
    """Add a node that leads nowhere."""
    changed = with_node(sketch, NodeSketch("stuck", taking_the_input(sketch)))
    return with_edges(changed, (START.key, "stuck")), "stuck"


def no_exit(dice: Dice, sketch: GraphSketch) -> Planted | None:
    """Add a loop that nothing leads out of."""
    if sketch.trigger != "any":
        return None
    changed = with_node(sketch, NodeSketch("ping", taking_the_input(sketch)), NodeSketch("pong"))
    return with_edges(changed, (START.key, "ping"), ("ping", "pong"), ("pong", "ping")), "ping"


# -- options ---------------------------------------------------------------------------------------------------


def bad_option(dice: Dice, sketch: GraphSketch) -> Planted:
    """Give an option that does not exist, or contradicts another one."""
    key = a_key(dice, sketch)
    wrong: list[Planted] = [
        (replace(sketch, trigger="some"), "'some'"),
        (replace(sketch, max_steps=0), "max_steps=0"),
        (with_change(sketch, key, trigger="some"), key),
        (with_change(sketch, key, timeout=-1.0), key),
    ]
    if sketch.trigger == "all":
        wrong += [(replace(sketch, max_steps=5), "max_steps"), (with_change(sketch, key, trigger="any"), key)]
    return dice.pick(wrong)


FAULTS: Final[dict[str, Fault]] = {
    "unknown-node": unknown_node,
    "end-as-source": end_as_source,
    "start-as-target": start_as_target,
    "doubled-edge": doubled_edge,
    "empty-edge": empty_edge,
    "doubled-key": doubled_key,
    "reserved-key": reserved_key,
    "bad-key": bad_key,
    "bad-node": bad_node,
    "bad-branch": bad_branch,
    "bad-handler": bad_handler,
    "nests-itself": nests_itself,
    "untyped-passthrough": untyped_passthrough,
    "no-state": no_state,
    "state-type": state_type,
    "handler-type": handler_type,
    "type": wrong_type,
    "unmergeable": unmergeable,
    "no-input": no_input,
    "no-start": no_start,
    "no-end": no_end,
    "cycle": cycle,
    "unreachable": unreachable,
    "no-path": no_path,
    "no-exit": no_exit,
    "bad-option": bad_option,
}
