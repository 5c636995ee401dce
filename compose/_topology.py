"""Questions about a graph as bare numbers: who reaches whom, where it goes in circles, what excludes what.

A graph here is a sequence of successor lists, one for each node's number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

Successors = Sequence[Sequence[int]]


def reachable(successors: Successors, starts: Iterable[int], *, without: int = -1) -> set[int]:
    """Give all nodes that can be reached from the starts (themselves included), never passing through one node."""
    seen = {s for s in starts if s != without}
    stack = list(seen)
    while stack:
        for target in successors[stack.pop()]:
            if target not in seen and target != without:
                seen.add(target)
                stack.append(target)
    return seen


def reversed_graph(successors: Successors) -> list[list[int]]:
    """Turn every edge round."""
    predecessors: list[list[int]] = [[] for _ in successors]
    for source, targets in enumerate(successors):
        for target in targets:
            predecessors[target].append(source)
    return predecessors


def topological_order(successors: Successors) -> tuple[list[int], list[int]]:
    """Order the nodes so that edges lead forward; the second list holds those that are on or behind a cycle."""
    degree = [0] * len(successors)
    for targets in successors:
        for target in targets:
            degree[target] += 1
    ready = deque(i for i, d in enumerate(degree) if d == 0)
    order: list[int] = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for target in successors[node]:
            degree[target] -= 1
            if degree[target] == 0:
                ready.append(target)
    done = set(order)
    return order, [i for i in range(len(successors)) if i not in done]


def cycles(successors: Successors, among: Iterable[int]) -> list[list[int]]:
    """Find a shortest cycle through each node that is on one, each cycle once; the first node is not repeated."""
    found: list[list[int]] = []
    covered: set[int] = set()
    inside = set(among)
    for start in sorted(inside):
        if start in covered:
            continue
        cycle = _shortest_cycle(successors, start, inside)
        if cycle:
            found.append(cycle)
            covered.update(cycle)
    return found


def _shortest_cycle(successors: Successors, start: int, inside: set[int]) -> list[int]:
    came_from: dict[int, int] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for target in successors[node]:
            if target == start:
                cycle = [node]
                while cycle[-1] != start:
                    cycle.append(came_from[cycle[-1]])
                return cycle[::-1]
            if target in inside and target not in came_from:
                came_from[target] = node
                queue.append(target)
    return []


Condition = tuple[int, int, int]
"""Source, number of its branch, end: "this branch chose this end"."""


def conditions(
    count: int, incoming: Sequence[Sequence[tuple[int, Condition | None]]], start: int
) -> list[set[Condition]]:
    """Say for each node which branch choices must have been made whenever it runs.

    ``incoming`` lists each node's relations: the source, and the choice that the relation stands for (None for an
    edge). A node runs if at least one relation led to it, so it needs what all of them need. Solved as a greatest
    fixed point, so that it holds in cycles too.
    """
    everything: set[Condition] | None = None
    needs: list[set[Condition] | None] = [everything] * count
    needs[start] = set()
    changed = True
    while changed:
        changed = False
        for node in range(count):
            if node == start:
                continue
            combined: set[Condition] | None = None
            for source, choice in incoming[node]:
                before = needs[source]
                if before is None:
                    continue  # not reached yet: it excludes nothing
                along = before | {choice} if choice is not None else before
                combined = set(along) if combined is None else combined & along
            if combined is not None and combined != needs[node]:
                needs[node] = combined
                changed = True
    return [n if n is not None else set() for n in needs]


def exclusive(first: set[Condition], second: set[Condition], single: set[tuple[int, int]]) -> bool:
    """Tell whether two relations can never both be live: one single choice would have to choose two ends."""
    return any(
        (source, branch) in single and source == other_source and branch == other_branch and end != other_end
        for source, branch, end in first
        for other_source, other_branch, other_end in second
    )


def depths(successors: Successors, start: int) -> dict[int, int]:
    """Give each node's shortest distance from the start."""
    depth = {start: 0}
    front: list[int] = [start]
    while front:
        following = [t for n in front for t in successors[n]]
        step = depth[front[0]] + 1
        front = []
        for target in following:
            if target not in depth:
                depth[target] = step
                front.append(target)
    return depth
