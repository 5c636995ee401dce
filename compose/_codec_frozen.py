"""How the read-only JSON that hangs on messages is written: as the JSON that it is.

What is no read-only JSON stands under ``$plain``, written as an untyped value; so a plain dict that somebody has put
in its place comes back as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..schema._frozen import EMPTY, FrozenDict, FrozenList
from ._codec_collections import decode_items, encode_items, encode_pairs
from ._codec_json import Json, is_tag
from ._codec_part import Part, Refused, class_of, guarded, pair, wrong_tree, wrong_value
from ._codec_scalars import decode_float, decode_int, encode_float, encode_int

_DIRECT = {str, bool, type(None)}
_NUMBERS: dict[Any, Any] = {int: encode_int, float: encode_float}


class FrozenJson:
    """The part for read-only JSON objects and lists."""

    def __init__(self, anything: Part) -> None:
        self._anything = anything
        self._keys = Part("Any", anything.kinds, (object,), self._write, self.read)
        self._inner = guarded(self._write_inner)

    def object_part(self) -> Part:
        """Make the part for a field that holds an object: read-only, or any other mapping."""
        return Part(
            "FrozenDict",
            frozenset({"object", "$dict", "$plain"}),
            (Mapping,),
            self._write_object,
            self._read_object,
            heirs=True,
        )

    def write(self, value: Any) -> Json:
        """Write a read-only object or list."""
        return self._inner(value) if value else self._write_inner(value)

    def _write_object(self, value: Any) -> Json:
        if value is EMPTY:
            return {}
        if type(value) is FrozenDict:
            return self._inner(value)
        if not isinstance(value, Mapping):
            raise wrong_value(value, "a mapping")
        return {"$plain": self._anything.encode(value)}

    def _read_object(self, tree: Any) -> Any:
        if tree.__class__ is not dict:
            raise wrong_tree(tree, "an object")
        found = self.read(tree)
        if not isinstance(found, Mapping):
            raise wrong_tree(tree, "an object")
        return found  # pyright: ignore[reportUnknownVariableType]

    def _write(self, value: Any) -> Json:
        cls = class_of(value)
        if cls in _DIRECT:
            return cast("Json", value)
        number = _NUMBERS.get(cls)
        if number is not None:
            return cast("Json", number(value))
        if cls is FrozenDict or cls is FrozenList:
            return self._inner(value)
        return {"$plain": self._anything.encode(value)}

    def _write_inner(self, value: Any) -> Json:
        if type(value) is FrozenList:
            return cast("Json", encode_items(value, self._write))
        out: dict[str, Json] = {}
        name: Any = None
        try:
            for name, item in cast("FrozenDict", value).items():
                if type(name) is not str:
                    break
                out[name] = self._write(item)
            else:
                if not is_tag(out):
                    return out
        except Refused as refused:
            refused.at(f"[{name!r:.60}]")
            raise
        return {"$dict": cast("Json", encode_pairs(value, self._anything, self._keys))}

    def read(self, tree: Any) -> Any:
        """Read what :meth:`write` wrote, or what stands in it."""
        cls = class_of(tree)
        if cls in _DIRECT or cls is int:
            return tree
        if cls is float:
            return decode_float(tree)
        if cls is list:
            return FrozenList(decode_items(tree, self.read, "a list"))
        if cls is not dict:
            raise wrong_tree(tree, "JSON")
        written = cast("dict[str, Any]", tree)
        if not written:
            return EMPTY
        if is_tag(written):
            return self._read_tag(*next(iter(written.items())))
        return FrozenDict((name, self._read_at(name, item)) for name, item in written.items())

    def _read_at(self, name: str, tree: Any) -> Any:
        try:
            return self.read(tree)
        except Refused as refused:
            refused.at(f"[{name!r:.60}]")
            raise

    def _read_tag(self, tag: str, written: Any) -> Any:
        if tag == "$int":
            return decode_int({tag: written})
        if tag == "$float":
            return decode_float({tag: written})
        if tag == "$plain":
            return self._anything.decode(written)
        if tag != "$dict":
            raise wrong_tree({tag: written}, "an object")
        pairs = [pair(entry, "a key and a value") for entry in decode_items(written, lambda item: item, "a list")]
        found = {self._anything.decode(key): self.read(item) for key, item in pairs}
        if len(found) != len(pairs):
            raise Refused("a key of a mapping stands there twice")
        return FrozenDict(found)
