"""How lists, sets, mappings and their like are written.

A declared class is written plainly. What else may stand in its place (a subclass of the standard library, or any
collection where the declaration is abstract) comes from a closed table and carries its tag.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from ..schema._frozen import Value
from ._codec_json import Json, is_tag, text_of
from ._codec_part import (
    Decode,
    Encode,
    Entries,
    Items,
    Part,
    Refused,
    always,
    class_of,
    pair,
    wrong_tree,
    wrong_value,
)
from ._codec_scalars import INT, STR

# -- one after the other ---------------------------------------------------------------------------------------------


def encode_items(items: Iterable[Any], encode: Encode) -> list[Any]:
    """Write items in their order."""
    out: list[Any] = []
    try:
        for item in items:
            out.append(encode(item))
    except Refused as refused:
        refused.at(f"[{len(out)}]")
        raise
    return out


def decode_items(tree: Any, decode: Decode, wanted: str) -> list[Any]:
    """Read items in their order."""
    if tree.__class__ is not list:
        raise wrong_tree(tree, wanted)
    return encode_items(tree, decode)


def _sorted(trees: list[Any]) -> list[Any]:
    """Bring what has no order of its own into one, so that equal sets are written alike."""
    if len(set(map(type, trees))) == 1 and type(trees[0]) in {str, int}:
        return sorted(trees)
    return sorted(trees, key=text_of)


def _encode_set(items: Iterable[Any], encode: Encode) -> list[Any]:
    out: list[Any] = []
    for item in items:
        try:
            out.append(encode(item))
        except Refused as refused:
            refused.at("[…]")
            raise
    return _sorted(out)


def _decode_set(tree: Any, decode: Decode, cls: Any) -> Any:
    items = decode_items(tree, decode, "a list of the members of a set")
    found = cls(items)
    if len(found) != len(items):
        raise Refused("a member of a set stands there twice")
    return found


# -- by key ----------------------------------------------------------------------------------------------------------


_TEXT: set[type] = {str}


def is_plain(value: Mapping[Any, Any]) -> bool:
    """Tell whether a mapping can be written as an object: its keys are text, and it does not look like a tag."""
    return set(map(type, value)) <= _TEXT and not is_tag(value)


def encode_pairs(value: Mapping[Any, Any], key: Part, item: Part) -> list[Any]:
    """Write a mapping with any keys, as pairs in its order."""
    pairs: list[Any] = []
    for name, content in value.items():
        try:
            pairs.append([key.encode(name), item.encode(content)])
        except Refused as refused:
            refused.at(f"[{name!r:.60}]")
            raise
    return pairs


def encode_mapping(value: Mapping[Any, Any], key: Part, item: Part) -> Json:
    """Write a mapping: an object if its keys are text, else pairs."""
    out: dict[str, Json] = {}
    encode = item.encode
    any_text = key is STR
    name: Any = None
    try:
        for name, content in value.items():
            if type(name) is not str or not (any_text or key.encode(name) == name):
                break
            out[name] = encode(content)
        else:
            if not is_tag(out):
                return out
    except Refused as refused:
        refused.at(f"[{name!r:.60}]")
        raise
    return {"$dict": cast("Json", encode_pairs(value, key, item))}


def decode_pairs(tree: Any, key: Part, item: Part) -> dict[Any, Any]:
    """Read what :func:`encode_pairs` wrote."""
    if tree.__class__ is not list:
        raise wrong_tree(tree, "a list of keys and values")
    found: dict[Any, Any] = {}
    for number, entry in enumerate(tree):
        try:
            name, content = pair(entry, "a key and a value")
            found[key.decode(name)] = item.decode(content)
        except Refused as refused:
            refused.at(f"[{number}]")
            raise
    if len(found) != len(tree):
        raise Refused("a key of a mapping stands there twice")
    return found


def decode_mapping(tree: Any, key: Part, item: Part) -> dict[Any, Any]:
    """Read what :func:`encode_mapping` wrote."""
    if tree.__class__ is not dict:
        raise wrong_tree(tree, "an object")
    written = cast("dict[str, Any]", tree)
    if is_tag(written):
        if "$dict" not in written:
            raise wrong_tree(written, "a mapping")
        return decode_pairs(written["$dict"], key, item)
    out: dict[Any, Any] = {}
    decode = item.decode
    any_text = key is STR
    name = ""
    try:
        for name, content in written.items():
            out[name if any_text else key.decode(name)] = decode(content)
    except Refused as refused:
        refused.at(f"[{name!r:.60}]")
        raise
    return out


# -- the classes -----------------------------------------------------------------------------------------------------

_FACTORIES: dict[str, Any] = {
    cls.__name__: cls for cls in (list, dict, set, frozenset, tuple, int, float, str, bool, bytes, deque, Counter)
}


@dataclass(frozen=True, slots=True)
class Row:
    """How the values of exactly one class are written, where that class is declared."""

    cls: Any
    tag: str
    encode: Encode
    decode: Decode
    kinds: frozenset[str]


_LIST, _OBJECT = frozenset({"list"}), frozenset({"object", "$dict"})


def sequence_rows(item: Part) -> list[Row]:
    """Give the classes whose items stand one after the other."""

    def items(value: Any) -> Any:
        return encode_items(value, item.encode)

    def members(value: Any) -> Any:
        return _encode_set(value, item.encode)

    def encode_deque(value: deque[Any]) -> Any:
        written = encode_items(value, item.encode)
        return written if value.maxlen is None else {"$deque": [value.maxlen, written]}

    def decode_deque(tree: Any) -> deque[Any]:
        if tree.__class__ is not dict:
            return deque(decode_items(tree, item.decode, "a list"))
        longest, written = pair(tree.get("$deque"), "a length and a list")
        if type(longest) is not int:
            raise wrong_tree(longest, "a length")
        found = decode_items(written, item.decode, "a list")
        if len(found) > longest:
            raise Refused("a deque is longer than its greatest length")
        return deque(found, longest)

    return [
        Row(list, "$list", items, lambda tree: decode_items(tree, item.decode, "a list"), _LIST),
        Row(tuple, "$tuple", items, lambda tree: tuple(decode_items(tree, item.decode, "a list")), _LIST),
        Row(set, "$set", members, lambda tree: _decode_set(tree, item.decode, set), _LIST),
        Row(frozenset, "$frozenset", members, lambda tree: _decode_set(tree, item.decode, frozenset), _LIST),
        Row(deque, "$deque", encode_deque, decode_deque, _LIST | {"$deque"}),
    ]


def mapping_rows(key: Part, item: Part) -> list[Row]:
    """Give the classes that have keys."""

    def plain(value: Any) -> Any:
        return encode_mapping(value, key, item)

    def read(tree: Any) -> Any:
        return decode_mapping(tree, key, item)

    def encode_default(value: defaultdict[Any, Any]) -> Any:
        factory: Any = value.default_factory
        name = None if factory is None else factory.__name__ if factory in _FACTORIES.values() else ""
        if name == "":
            raise Refused(f"its default factory {factory!r} is none of {', '.join(_FACTORIES)}")
        return [name, encode_mapping(value, key, item)]

    def decode_default(tree: Any) -> defaultdict[Any, Any]:
        name, written = pair(tree, "a default factory and a mapping")
        if name is not None and (type(name) is not str or name not in _FACTORIES):
            raise wrong_tree(name, "the name of a default factory")
        return defaultdict(None if name is None else _FACTORIES[name], decode_mapping(written, key, item))

    def decode_counter(tree: Any) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for name, count in decode_mapping(tree, key, INT).items():
            found[name] = count
        return found

    return [
        Row(dict, "$plain", plain, read, _OBJECT),
        Row(
            OrderedDict,
            "$ordereddict",
            lambda value: encode_pairs(value, key, item),
            lambda tree: OrderedDict(decode_pairs(tree, key, item)),
            _LIST,
        ),
        Row(defaultdict, "$defaultdict", encode_default, decode_default, _LIST),
        Row(Counter, "$counter", lambda value: encode_mapping(value, key, INT), decode_counter, _OBJECT),
        Row(MappingProxyType, "$mappingproxy", plain, lambda tree: MappingProxyType(read(tree)), _OBJECT),
    ]


def collection(declared: Any, name: str, rows: list[Row], usual: tuple[type, ...]) -> Part:
    """Make the part of a declared class of collections, concrete or abstract.

    Args:
        declared: The class.
        name: What it is called.
        rows: The classes that there are.
        usual: Those that are written plainly.
    """
    taken = [row for row in rows if issubclass(row.cls, declared)]
    plain = {row.cls: row for row in taken if row.cls in usual}
    tagged = {row.cls: row for row in taken if row.cls not in usual}
    by_tag = {row.tag: row for row in tagged.values()}
    by_kind = {kind: row for row in plain.values() for kind in row.kinds}

    def encode(value: Any) -> Json:
        cls = class_of(value)
        row = plain.get(cls)
        if row is not None:
            return row.encode(value)
        row = tagged.get(cls)
        if row is not None:
            return {row.tag: row.encode(value)}
        raise wrong_value(value, name)

    def decode(tree: Any) -> Any:
        if tree.__class__ is dict and is_tag(tree):
            ((tag, written),) = cast("dict[str, Any]", tree).items()
            row = by_tag.get(tag)
            if row is not None:
                return row.decode(written)
            row = by_kind.get(tag)
        else:
            row = by_kind.get("object" if tree.__class__ is dict else "list")
        if row is None:
            raise wrong_tree(tree, f"a {name}")
        return row.decode(tree)

    kinds = frozenset(by_kind) | frozenset(by_tag)
    return Part(name, kinds, tuple(row.cls for row in taken), encode, decode)


def solid_items(cls: type, item: Part) -> Callable[[Any], bool]:
    """Tell whether an immutable collection never changes: if its items do not."""
    return always if item.solid is always and cls in {tuple, frozenset} else lambda value: False


def track_items(cls: type, item: Part) -> Items:
    """Say how a tracker sees a list or tuple."""
    return Items(cls, item, item.solid is always and any(issubclass(kind, Value) for kind in item.classes))


def track_mapping(key: Part, item: Part) -> Entries:
    """Say how a tracker sees a dict."""

    def plain(value: Any) -> Mapping[str, Any] | None:
        if value.__class__ is not dict or not is_plain(value):
            return None
        keyed = cast("dict[str, Any]", value)
        return keyed if key is STR or all(key.encode(name) == name for name in keyed) else None

    return Entries(plain, lambda _: item, "[{!r}]")
