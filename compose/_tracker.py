"""What of a value changed since it was last stored, so that what is stored grows with what is new.

A tracker remembers a value as a tree of nodes. A node for what never changes keeps the value itself and sees by its
identity that it is the same; any other keeps what was written of it and compares that, so that changes made in place
are noticed. Fields and keys have nodes of their own, and a list keeps its items, so that one more item costs a look
at the others but writes only itself. In a list of messages, or of other frozen models of ours, one that equals the
one that stood in its place counts as the same: a look at a thousand takes 2 µs then, and not 20.

Looking changes nothing: what was seen becomes what is remembered with :meth:`Tracker.commit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ._codec_json import Json, same
from ._codec_part import ByClass, Entries, Items, Maybe, Part, Refused, always, class_of, guarded
from ._tracker_lists import Later, ListNode, is_loose
from ._tracker_ops import Op, Path, apply, diff, keeps_order, set_op
from .errors import UnsavableValueError

__all__ = ("Op", "Tracker", "apply")

_NOT_SEEN: Any = object()


class Tracker:
    """Tells what of a value changed; made by :meth:`Codec.tracker() <anabranch.compose._codec.Codec.tracker>`."""

    __slots__ = ("_later", "_node", "_part")

    def __init__(self, part: Part) -> None:
        self._part = part
        self._node: _Node | None = None
        self._later: Later = []

    def changes(self, value: Any) -> list[Op]:
        """Give what changed since the last :meth:`commit`; all there is, if there was none.

        Raises:
            UnsavableValueError: The value cannot be written. Nothing is forgotten by that.
        """
        later: Later = []
        ops: list[Op] = []
        try:
            if self._node is None:
                node = _node_for(self._part)
                ops.append(set_op((), node.first(value, later)))
                later.append(lambda: self._remember(node))
            else:
                self._node.look(value, (), ops, later)
        except Refused as refused:
            self._later = []
            raise UnsavableValueError(refused.path, refused.why) from None
        except RecursionError:
            self._later = []
            raise UnsavableValueError("", "it is nested too deeply, or contains itself") from None
        except Exception as error:  # from methods of the value's own
            self._later = []
            raise UnsavableValueError("", f"it cannot be looked at: {type(error).__name__}: {error}") from error
        self._later = later
        return ops

    def commit(self) -> None:
        """Remember what :meth:`changes` saw last: it is stored."""
        later, self._later = self._later, []
        for remember in later:
            remember()

    def rollback(self) -> None:
        """Forget what :meth:`changes` saw last: it was not stored, and comes again."""
        self._later = []

    def _remember(self, node: _Node) -> None:
        self._node = node


class _Node(Protocol):
    """What is remembered of one place."""

    def first(self, value: Any, later: Later) -> Json:
        """Write a value that stands here for the first time."""
        ...

    def look(self, value: Any, path: Path, ops: list[Op], later: Later) -> None:
        """Add what changed."""
        ...


def _node_for(part: Part) -> _Node:
    track = part.track
    if part.solid is always and not isinstance(track, Items):
        track = None  # what never changes is compared as a whole
    node: _Node
    if isinstance(track, Items):
        node = ListNode(part, track)
    elif isinstance(track, Entries):
        node = _Keyed(part, track)
    elif isinstance(track, Maybe):
        node = _Optional(track.inner)
    elif isinstance(track, ByClass):
        node = _Untyped(part, track)
    else:
        node = _Leaf(part)
    return node if part.check is None or isinstance(node, _Leaf) else _Checked(node, part.check)


class _Leaf:
    """A value that is compared as a whole: by identity if it never changes, else by what is written of it."""

    __slots__ = ("_part", "_tree", "_value")

    def __init__(self, part: Part) -> None:
        self._part = part
        self._value: Any = _NOT_SEEN
        self._tree: Json = None

    def first(self, value: Any, later: Later) -> Json:
        tree = self._part.encode(value)
        later.append(lambda: self._remember(value, tree))
        return tree

    def look(self, value: Any, path: Path, ops: list[Op], later: Later) -> None:
        if value is self._value:
            return
        tree = self._part.encode(value)
        if not same(self._tree, tree):
            diff(self._tree, tree, path, ops)
            later.append(lambda: self._remember(value, tree))

    def _remember(self, value: Any, tree: Json) -> None:
        self._tree = tree
        self._value = value if self._part.solid(value) and not is_loose(tree) else _NOT_SEEN


class _Checked:
    """A value that must keep within limits besides."""

    __slots__ = ("_check", "_node")

    def __init__(self, node: _Node, check: Callable[[Any], None]) -> None:
        self._node = node
        self._check = check

    def first(self, value: Any, later: Later) -> Json:
        self._check(value)
        return self._node.first(value, later)

    def look(self, value: Any, path: Path, ops: list[Op], later: Later) -> None:
        self._check(value)
        self._node.look(value, path, ops, later)


class _Optional:
    """A value that may be None."""

    __slots__ = ("_inner", "_node")

    def __init__(self, inner: Part) -> None:
        self._inner = inner
        self._node: _Node | None = None

    def first(self, value: Any, later: Later) -> Json:
        node = None if value is None else _node_for(self._inner)
        later.append(lambda: self._remember(node))
        return None if node is None else node.first(value, later)

    def look(self, value: Any, path: Path, ops: list[Op], later: Later) -> None:
        if value is not None and self._node is not None:
            self._node.look(value, path, ops, later)
        elif value is not self._node:  # one of them is None
            ops.append(set_op(path, self.first(value, later)))

    def _remember(self, node: _Node | None) -> None:
        self._node = node


class _Untyped:
    """A value without a declared type: a list and a dict have their nodes, until something else stands there."""

    __slots__ = ("_cls", "_node", "_part", "_track")

    def __init__(self, part: Part, track: ByClass) -> None:
        self._part = part
        self._track = track
        self._cls: type | None = None
        self._node: _Node = _Leaf(part)

    def first(self, value: Any, later: Later) -> Json:
        cls = class_of(value)
        track = self._track.tracks.get(cls)
        if track is None:
            node: _Node = _Leaf(self._part)
            tree = node.first(value, later)
        else:
            node = ListNode(self._part, track) if isinstance(track, Items) else _Keyed(self._part, track)
            first = node.first
            tree = guarded(lambda value: first(value, later))(value)
        later.append(lambda: self._remember(node, None if track is None else cls))
        return tree

    def look(self, value: Any, path: Path, ops: list[Op], later: Later) -> None:
        cls = class_of(value)
        if self._cls is None and cls not in self._track.tracks:
            self._node.look(value, path, ops, later)
        elif self._cls is cls:
            guarded(lambda value: self._node.look(value, path, ops, later))(value)
        else:
            ops.append(set_op(path, self.first(value, later)))

    def _remember(self, node: _Node, cls: type | None) -> None:
        self._node, self._cls = node, cls


class _Keyed:
    """A value that is written as an object: a model, a dataclass, a dict with text for keys."""

    __slots__ = ("_nodes", "_part", "_track", "_tree")

    def __init__(self, part: Part, track: Entries) -> None:
        self._part = part
        self._track = track
        self._nodes: dict[str, _Node] | None = None
        self._tree: Json = None
        """What was written, when it was no such object."""

    def first(self, value: Any, later: Later) -> Json:
        held = self._track.plain(value)
        if held is None:
            tree = self._part.encode(value)
            later.append(lambda: self._remember(None, tree))
            return tree
        nodes: dict[str, _Node] = {}
        out = {key: self._add(key, item, nodes, later) for key, item in held.items()}
        later.append(lambda: self._remember(nodes, None))
        return out

    def look(self, value: Any, path: Path, ops: list[Op], later: Later) -> None:
        nodes = self._nodes
        held = self._track.plain(value)
        if held is None and nodes is None:
            tree = self._part.encode(value)
            diff(self._tree, tree, path, ops)
            later.append(lambda: self._remember(None, tree))
        elif held is None or nodes is None or not keeps_order(nodes, held):
            ops.append(set_op(path, self.first(value, later)))
        else:
            self._look_inside(nodes, held, path, ops, later)

    def _look_inside(
        self, nodes: dict[str, _Node], held: Mapping[str, Any], path: Path, ops: list[Op], later: Later
    ) -> None:
        gone = [key for key in nodes if key not in held]
        added: dict[str, _Node] = {}
        ops += [["-", [*path, key]] for key in gone]
        key = ""
        try:
            for key, item in held.items():
                node = nodes.get(key)
                if node is not None:
                    node.look(item, (*path, key), ops, later)
        except Refused as refused:
            refused.at(self._track.step.format(key))
            raise
        for key, item in held.items():
            if key not in nodes:
                ops.append(set_op((*path, key), self._add(key, item, added, later)))
        if gone or added:
            kept = {key: node for key, node in nodes.items() if key in held}
            later.append(lambda: self._remember({**kept, **added}, None))

    def _add(self, key: str, item: Any, nodes: dict[str, _Node], later: Later) -> Json:
        node = nodes[key] = _node_for(self._track.part(key))
        try:
            return node.first(item, later)
        except Refused as refused:
            refused.at(self._track.step.format(key))
            raise

    def _remember(self, nodes: dict[str, _Node] | None, tree: Json) -> None:
        self._nodes = nodes
        self._tree = tree
