"""Patches of JSON trees: what they are made of, how they are applied, and the one that leads from a tree to another.

``["=", path, tree]`` sets what stands at a path, ``["-", path]`` takes a key away, ``["+", path, keep, items]`` keeps
so many items of a list and adds others behind them, ``["~", path, start, count, items]`` puts items in the place of
some others. A path is a list of keys and indexes; the empty one is the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from ._codec_json import Json, same
from .errors import DamagedRecordError

Op = list[Any]
"""One change; itself a JSON tree, so that it can be stored."""
Path = tuple[str | int, ...]

_FEW = 4  # a list whose items changed in more than one of so many places is written again from the first on


def set_op(path: Path, tree: Json) -> Op:
    """Make the change that sets what stands at a path."""
    return ["=", list(path), tree]


def diff(old: Json, new: Json, path: Path, ops: list[Op]) -> None:
    """Add the changes that make one tree of another."""
    if same(old, new):
        return
    if type(old) is dict and type(new) is dict:
        _diff_objects(old, new, path, ops)
    elif type(old) is list and type(new) is list:
        _diff_lists(old, new, path, ops)
    else:
        ops.append(set_op(path, new))


def keeps_order(old: Iterable[str], new: Iterable[str]) -> bool:
    """Tell whether keys that are taken away and keys that are added at the end make one order of the other."""
    before, after = list(old), list(new)
    if before == after:
        return True
    there = set(after)
    kept = [key for key in before if key in there]
    return bool(kept) and kept == after[: len(kept)]


def _diff_objects(old: dict[str, Json], new: dict[str, Json], path: Path, ops: list[Op]) -> None:
    if not keeps_order(old, new):
        ops.append(set_op(path, new))
        return
    ops += [["-", [*path, key]] for key in old if key not in new]
    for key, tree in new.items():
        if key in old:
            diff(old[key], tree, (*path, key), ops)
        else:
            ops.append(set_op((*path, key), tree))


def _diff_lists(old: list[Json], new: list[Json], path: Path, ops: list[Op]) -> None:
    shared = min(len(old), len(new))
    changed = [index for index in range(shared) if not same(old[index], new[index])]
    keep = shared
    if len(changed) > 1 and len(changed) * _FEW > shared:
        keep = changed[0]
    for index in changed:
        if index < keep:
            diff(old[index], new[index], (*path, index), ops)
    if keep < len(old) or keep < len(new):
        ops.append(["+", list(path), keep, new[keep:]])


def apply(tree: Json, ops: Iterable[Op]) -> Json:
    """Make the changes to a tree.

    Args:
        tree: What is there; it is not changed itself, but what did not change is shared with the result.
        ops: The changes, in their order; those of many patches can be given at once, which is faster.

    Raises:
        DamagedRecordError: A change does not fit what is there.
    """
    root: list[Any] = [tree]
    owned: dict[int, Any] = {}  # the containers that were copied here, and may be changed in place
    for number, op in enumerate(cast("Iterable[Any]", ops)):
        try:
            _apply(root, op, owned)
        except (_Misfit, LookupError, TypeError, ValueError) as error:
            raise DamagedRecordError(f"change {number}", str(error) or type(error).__name__) from None
    return cast("Json", root[0])


class _Misfit(Exception):
    pass


def _apply(root: list[Any], op: Any, owned: dict[int, Any]) -> None:
    if op.__class__ is not list or len(op) < 2 or op[1].__class__ is not list:
        raise _Misfit(f"{op!r:.60} is no change")
    kind, path, *rest = op
    holder, key = _way(root, path, owned)
    if kind == "=" and len(rest) == 1:
        if holder.__class__ is list:
            _index(holder, key)
        holder[key] = rest[0]
    elif kind == "-" and not rest and path and holder.__class__ is dict:
        del holder[key]
    elif kind == "+" and len(rest) == 2:
        _splice(holder, key, rest[0], None, rest[1], owned)
    elif kind == "~" and len(rest) == 3:
        _splice(holder, key, rest[0], rest[1], rest[2], owned)
    else:
        raise _Misfit(f"{op!r:.60} is no change")


def _splice(holder: Any, key: Any, start: Any, count: Any, items: Any, owned: dict[int, Any]) -> None:
    """Put items in the place of some others, or of all that are left."""
    _index(holder, key)
    there = holder[key]
    if there.__class__ is not list or items.__class__ is not list or type(start) is not int:
        raise _Misfit("items are added to a list, from a place in it on")
    count = len(there) - start if count is None else count
    if type(count) is not int or start < 0 or count < 0 or start + count > len(there):
        raise _Misfit(f"there are no items {start} to {start}+{count} in a list of {len(there)}")
    _own(holder, key, owned)[start : start + count] = items


def _way(root: list[Any], path: list[Any], owned: dict[int, Any]) -> tuple[Any, Any]:
    """Go to what holds the end of a path; copies what it goes through."""
    holder: Any = root
    key: Any = 0
    for step in path:
        _index(holder, key)
        holder = _own(holder, key, owned)
        if type(step) is not (str if holder.__class__ is dict else int):
            raise _Misfit(f"{step!r:.60} is no step into a {holder.__class__.__name__}")
        key = step
    return holder, key


def _index(holder: Any, key: Any) -> None:
    """See that there is something under a key."""
    if holder.__class__ is list:
        if not 0 <= key < len(holder):
            raise _Misfit(f"there is no item {key}")
    elif key not in holder:
        raise _Misfit(f"there is no key {key!r:.60}")


def _own(holder: Any, key: Any, owned: dict[int, Any]) -> Any:
    """Give a container that may be changed: a copy of it, once."""
    there = holder[key]
    if id(there) in owned:
        return there
    if there.__class__ not in {dict, list}:
        raise _Misfit(f"{there!r:.60} holds nothing")
    copy = there.copy()
    owned[id(copy)] = copy
    holder[key] = copy
    return copy
