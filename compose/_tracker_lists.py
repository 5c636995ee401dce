"""What of a list changed since it was last stored: what was added or replaced, also where others have gone.

The items are told apart by identity first. So a history of which the oldest messages were dropped, or made into a
summary, is not written again; what is written are the summary and the number of those that it replaces.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from operator import is_
from typing import Any, NamedTuple

from ._codec_json import Json
from ._codec_part import Items, Part, Refused, at, class_of
from ._tracker_ops import Op, Path, diff, set_op

Later = list[Callable[[], None]]
"""What to do when the changes are stored."""

_LOOSE = frozenset({"$plain", "$is"})
_FEW = 4  # a list of which more than one in so many items was replaced is written again from the first of them on


def is_loose(tree: Any) -> bool:
    """Tell whether something stands in a tree that is not of the class declared, and so may change after all."""
    if tree.__class__ is dict:
        return not _LOOSE.isdisjoint(tree) or any(map(is_loose, tree.values()))
    return tree.__class__ is list and any(map(is_loose, tree))


class Run(NamedTuple):
    """Items that stand together, as they did."""

    old: int
    new: int
    length: int


def aligned(old: list[Any], new: Any) -> list[Run]:
    """Find the same objects in two lists, as far as they are in the same order."""
    places: dict[int, list[int]] = {}
    for index, item in enumerate(old):
        places.setdefault(id(item), []).append(index)
    runs: list[Run] = []
    after = 0
    for index, item in enumerate(new):
        found = places.get(id(item), ())
        place = bisect_left(found, after)
        if place == len(found):
            continue
        after = found[place] + 1
        last = runs[-1] if runs else None
        if last is not None and last.old + last.length == found[place] and last.new + last.length == index:
            runs[-1] = last._replace(length=last.length + 1)
        else:
            runs.append(Run(found[place], index, 1))
    return runs


class ListNode:
    """A list, or a tuple that new ones replace: its items, and what was written of those that may change."""

    __slots__ = ("_items", "_loose", "_part", "_track", "_tree")

    def __init__(self, part: Part, track: Items) -> None:
        self._part = part
        self._track = track
        self._items: list[Any] | None = None
        self._loose: dict[int, Json] = {}
        self._tree: Json = None
        """What was written, when it was no list of the class declared."""

    def first(self, value: Any, later: Later) -> Json:
        """Write a value that stands here for the first time."""
        if class_of(value) is not self._track.cls:
            tree = self._part.encode(value)
            later.append(lambda: self._remember_tree(tree))
            return tree
        trees, loose = self._write(value, 0)
        items = list(value)
        later.append(lambda: self._remember(items, loose))
        return trees

    def _write(self, value: Any, start: int, end: int | None = None) -> tuple[list[Any], dict[int, Json]]:
        """Write the items from one on to another, and give those that may change."""
        trees: list[Any] = []
        loose: dict[int, Json] = {}
        item_part = self._track.item
        try:
            for item in value[start:end]:
                tree = item_part.encode(item)
                if not item_part.solid(item) or is_loose(tree):
                    loose[start + len(trees)] = tree
                trees.append(tree)
        except Refused as refused:
            refused.at(f"[{start + len(trees)}]")
            raise
        return trees, loose

    def look(self, value: Any, path: Path, ops: list[Op], later: Later) -> None:
        """Add what changed."""
        items = self._items
        if items is None or class_of(value) is not self._track.cls:
            if items is None and class_of(value) is not self._track.cls:
                tree = self._part.encode(value)
                diff(self._tree, tree, path, ops)
                later.append(lambda: self._remember_tree(tree))
            else:
                ops.append(set_op(path, self.first(value, later)))
            return
        count = len(items)
        if len(value) >= count and self._all_same(items, value) and not self._loose:
            if len(value) > count:
                self._append(value, count, path, ops, later)
            return
        self._compare(items, value, path, ops, later)

    def _all_same(self, items: list[Any], value: Any) -> bool:
        if not self._track.fixed:
            return all(map(is_, items, value))
        shared = value if len(value) == len(items) else value[: len(items)]
        return bool(items == (shared if type(shared) is list else list(shared)))

    def _append(self, value: Any, count: int, path: Path, ops: list[Op], later: Later) -> None:
        trees, loose = self._write(value, count)
        ops.append(["+", list(path), count, trees])
        added = list(value[count:])
        later.append(lambda: self._extend(added, loose))

    def _compare(self, items: list[Any], value: Any, path: Path, ops: list[Op], later: Later) -> None:
        """Find out where the items are now, and write those that are new and those that are not what they were."""
        runs = aligned(items, value)
        unmoved = sum(map(is_, items, value))
        loose: dict[int, Json] = {}
        if sum(run.length for run in runs) > unmoved:
            self._splice(items, value, runs, path, ops, loose)
        else:
            self._compare_in_place(items, value, path, ops, loose)
        kept = list(value)
        later.append(lambda: self._remember(kept, loose))

    def _splice(
        self, items: list[Any], value: Any, runs: list[Run], path: Path, ops: list[Op], loose: dict[int, Json]
    ) -> None:
        inside: list[Op] = []
        old = new = 0
        for run in [*runs, Run(len(items), len(value), 0)]:
            if run.old > old or run.new > new:
                trees, found = self._write(value, new, run.new)
                loose.update(found)
                ops.append(["~", list(path), new, run.old - old, trees])
            old, new = run.old + run.length, run.new + run.length
            for index in range(run.old, old):
                if index in self._loose:
                    self._look_at(self._loose[index], value, index - run.old + run.new, path, inside, loose)
        ops += inside

    def _compare_in_place(
        self, items: list[Any], value: Any, path: Path, ops: list[Op], loose: dict[int, Json]
    ) -> None:
        shared = min(len(items), len(value))
        differing = [index for index in range(shared) if items[index] is not value[index]]
        keep = differing[0] if len(differing) > 1 and len(differing) * _FEW > shared else shared
        for index in range(keep):
            if index in self._loose:
                self._look_at(self._loose[index], value, index, path, ops, loose)
            elif items[index] is not value[index]:
                self._look_at(self._track.item.encode(items[index]), value, index, path, ops, loose)
        if keep < len(items) or keep < len(value):
            trees, found = self._write(value, keep)
            loose.update(found)
            ops.append(["+", list(path), keep, trees])

    def _look_at(self, old: Json, value: Any, index: int, path: Path, ops: list[Op], loose: dict[int, Json]) -> None:
        """Compare one item with what was written of it, or of the one that stood in its place."""
        part, item = self._track.item, value[index]
        tree = at(f"[{index}]", part.encode, item)
        diff(old, tree, (*path, index), ops)
        if not part.solid(item) or is_loose(tree):
            loose[index] = tree

    def _extend(self, added: list[Any], loose: dict[int, Json]) -> None:
        if self._items is not None:
            self._items += added
            self._loose.update(loose)

    def _remember(self, items: list[Any], loose: dict[int, Json]) -> None:
        self._items, self._loose, self._tree = items, loose, None

    def _remember_tree(self, tree: Json) -> None:
        self._items, self._loose, self._tree = None, {}, tree
