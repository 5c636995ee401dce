"""How unions and literals are written.

A member of a union is written as if it stood alone, if its tree can be of no other member; else its name stands with
it. Which member a tree without a name belongs to is decided by an order of the members that does not depend on the
order in which they are written in the annotation: ``A | B`` and ``B | A`` are one type.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from types import NoneType
from typing import Any

from ._codec_json import Json, kind_of
from ._codec_part import Maybe, Part, Refused, always, class_of, never, pair, wrong_tree, wrong_value
from ._codec_scalars import NONE, decode_int, encode_int
from ._types import value_type_name

# -- unions ----------------------------------------------------------------------------------------------------------

_FIRST = {"None": 0, "bool": 1, "int": 2, "float": 3, "str": 4}


class _Member:
    """A member of a union, and the trees of which it is the owner: those that stand without its name."""

    def __init__(self, name: str, part: Part, own: frozenset[str]) -> None:
        self.name = name
        self.part = part
        self.own = own
        self.encode = part.encode if part.kinds <= own else self._encode

    def _encode(self, value: Any) -> Json:
        tree = self.part.encode(value)
        return tree if kind_of(tree) in self.own else {"$of": [self.name, tree]}


def union_part(parts: Sequence[Part]) -> Part:
    """Make the part of a union of others."""
    if len(parts) == 2 and NONE in parts:
        inner = parts[0] if parts[1] is NONE else parts[1]
        if "null" not in inner.kinds and "$of" not in inner.kinds:
            return _optional(inner)
    return _Union(parts).part


def _optional(inner: Part) -> Part:
    encode, decode = inner.encode, inner.decode
    return Part(
        f"{inner.name} | None",
        inner.kinds | {"null"},
        (*inner.classes, NoneType),
        lambda value: None if value is None else encode(value),
        lambda tree: None if tree is None else decode(tree),
        inner.heirs,
        inner.solid,
        Maybe(inner),
    )


def _named(parts: Sequence[Part]) -> dict[str, Part]:
    """Give the members by name, in the order that decides; two of one name are told apart by their modules."""
    names = [part.name for part in parts]
    found: dict[str, Part] = {}
    for part in parts:
        name = part.name
        if names.count(name) > 1 and len(part.classes) == 1:
            name = f"{part.classes[0].__module__}:{name}"
        if name in found:
            raise Refused(f"two members of the union are called {name!r}; give them different names")
        found[name] = part
    return dict(sorted(found.items(), key=lambda entry: (_FIRST.get(entry[0], 9), entry[0])))


class _Union:
    def __init__(self, parts: Sequence[Part]) -> None:
        owners: dict[str, Part] = {}
        named = _named(parts)
        for part in named.values():
            for kind in part.kinds - {"$of"}:
                owners.setdefault(kind, part)
        self._members = {
            name: _Member(name, part, frozenset(kind for kind in part.kinds if owners.get(kind) is part))
            for name, part in named.items()
        }
        self._owners = owners
        self._known: dict[type, list[_Member]] = {}
        self._name = " | ".join(part.name for part in parts)
        self.part = Part(
            self._name,
            frozenset(owners) | {"$of"},
            tuple(cls for part in parts for cls in part.classes),
            self._encode,
            self._decode,
            any(part.heirs for part in parts),
            always if all(part.solid is always for part in parts) else never,
        )

    def _members_for(self, cls: type) -> list[_Member]:
        """Give the members that may take values of a class: first those that name it."""
        found = self._known.get(cls)
        if found is None:
            taking = [member for member in self._members.values() if member.part.takes(cls)]
            found = self._known[cls] = sorted(taking, key=lambda member: cls not in member.part.classes)
        return found

    def _encode(self, value: Any) -> Json:
        members = self._members_for(class_of(value))
        if len(members) == 1:
            return members[0].encode(value)
        reasons: list[Refused] = []
        for member in members:
            try:
                return member.encode(value)
            except Refused as refused:
                reasons.append(refused)
        if not reasons:
            raise wrong_value(value, self._name)
        said = "; ".join(
            f"{member.name}: {refused.path + ': ' if refused.path else ''}{refused.why}"
            for member, refused in zip(members, reasons, strict=True)
        )
        raise Refused(f"it is of type {value_type_name(value)}, and fits no member of {self._name} ({said})")

    def _decode(self, tree: Any) -> Any:
        kind = kind_of(tree)
        if kind != "$of":
            owner = self._owners.get(kind)
            if owner is None:
                raise wrong_tree(tree, self._name)
            return owner.decode(tree)
        name, content = pair(tree["$of"], "a member of a union")
        if type(name) is not str or name not in self._members:
            raise Refused(f"{name!r:.60} is no member of {self._name}")
        return self._members[name].part.decode(content)


# -- literals --------------------------------------------------------------------------------------------------------

_TAG: Any = object()  # stands in the place of the class of what is written under its tag
_DIRECT = {str, bool, NoneType}


def _literal_key(value: Any) -> tuple[Any, Any]:
    """Give what a value of a literal is told by: its class and itself, or under a tag its name."""
    if isinstance(value, Enum):
        return _TAG, f"{type(value).__name__}.{value.name}"
    if type(value) is bytes:
        return _TAG, value.hex()
    if class_of(value) is int or class_of(value) in _DIRECT:
        return class_of(value), value
    raise Refused(f"the literal {value!r} is of a type that literals do not have")


def _literal_tree(value: Any) -> Json:
    kind, said = _literal_key(value)
    return {"$literal": said} if kind is _TAG else encode_int(said) if kind is int else said


def literal_part(values: tuple[Any, ...]) -> Part:
    """Make the part of a ``Literal``."""
    trees = {(class_of(value), value): _literal_tree(value) for value in values}
    found = {_literal_key(value): value for value in values}
    name = f"Literal[{', '.join(map(repr, values))}]"
    if len(found) < len(trees):
        raise Refused(f"two values of {name} have one name")

    def encode(value: Any) -> Json:
        try:
            return trees[type(value), value]
        except (KeyError, TypeError):
            raise Refused(f"it is {value!r:.60}, which is not in {name}") from None

    def decode(tree: Any) -> Any:
        key = (class_of(tree), tree)
        if tree.__class__ is dict:
            key = (_TAG, tree["$literal"]) if "$literal" in tree else (int, decode_int(tree))
        try:
            return found[key]
        except (KeyError, TypeError):
            raise Refused(f"{tree!r:.60} is not in {name}") from None

    kinds = frozenset(map(kind_of, trees.values()))
    return Part(name, kinds, tuple({class_of(value) for value in values}), encode, decode)
