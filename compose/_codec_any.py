"""How values without a declared type are written: what they are stands with them, from a closed table.

The table has plain data, the values of the standard library that are like them, and the models of
:mod:`anabranch.schema` by their names. Classes of anybody else are not in it: these have to be declared.
"""

from __future__ import annotations

from typing import Any, cast

from ..schema._frozen import FrozenDict, FrozenList
from ._codec_collections import (
    Row,
    decode_items,
    decode_mapping,
    encode_items,
    encode_mapping,
    mapping_rows,
    sequence_rows,
    track_mapping,
)
from ._codec_frozen import FrozenJson
from ._codec_json import Json, is_tag
from ._codec_part import (
    EVERY_KIND,
    ByClass,
    Decode,
    Encode,
    Items,
    Part,
    Refused,
    class_of,
    guarded,
    listed,
    pair,
    wrong_tree,
)
from ._codec_scalars import SCALARS, decode_float, decode_int, encode_float, encode_int
from ._codec_times import TIMES, prepare
from ._types import value_type_name

_OWN = {
    "schema._message": "Message ToolCall",
    "schema._parts": ("TextPart ReasoningPart ImagePart AudioPart VideoPart FilePart ProviderPart ToolResultPart"),
    "schema._usage": "Usage",
    "schema._document": "Document",
    "schema._tool_result": "ToolResult",
    "schema._tool_info": "ToolInfo",
    "schema._components": "ModelOptions RetrieverOptions NamedTool",
    "compose._interrupt": "Approval",
}
OWN_MODELS = [(module, name) for module, names in _OWN.items() for name in names.split()]
"""The models of ours that are known by name."""


class Anything:
    """The part for values without a declared type."""

    def __init__(self) -> None:
        prepare()
        self.part = Part("Any", EVERY_KIND, (object,), self._encode, self._decode, heirs=True, solid=self._is_solid)
        self.part.track = ByClass({list: Items(list, self.part), dict: track_mapping(self.part, self.part)})
        self.frozen = FrozenJson(self.part)
        self.rows: list[Row] = [*sequence_rows(self.part), *mapping_rows(self.part, self.part), *self.frozen_rows()]
        """The collections that may stand anywhere."""
        self._writers: dict[type, Encode] = {
            **dict.fromkeys((type(None), bool, str), _as_it_is),
            int: encode_int,
            float: encode_float,
            list: guarded(lambda value: cast("Json", encode_items(value, self._encode))),
            dict: guarded(lambda value: encode_mapping(value, self.part, self.part)),
        }
        self._readers: dict[str, Decode] = {}
        self._solid: set[type] = {type(None), bool, str, int, float, FrozenDict, FrozenList}
        for row in self.rows:
            if row.cls not in self._writers:
                self._add(row.cls, row.tag, guarded(row.encode), row.decode)
        for tag, part in (*SCALARS, *TIMES):
            for cls in part.classes:
                self._add(cls, tag, part.encode, part.decode)
                if part.solid(None):
                    self._solid.add(cls)
        self._own: dict[str, Part] = {}

    def frozen_rows(self) -> list[Row]:
        """Give the read-only containers of our own."""
        return [
            Row(FrozenDict, "$frozendict", self.frozen.write, self._reader_of(FrozenDict), frozenset({"object"})),
            Row(FrozenList, "$frozenlist", self.frozen.write, self._reader_of(FrozenList), frozenset({"list"})),
        ]

    def _reader_of(self, cls: type) -> Decode:
        def read(tree: Any) -> Any:
            found = self.frozen.read(tree)
            if type(found) is not cls:
                raise wrong_tree(tree, f"a {cls.__name__}")
            return found

        return read

    def add_own(self, name: str, part: Part) -> None:
        """Let a model of ours stand anywhere, by its name."""
        (cls,) = part.classes
        self._own[name] = part
        self._writers[cls] = lambda value: {"$value": [name, part.encode(value)]}
        if part.solid(None):
            self._solid.add(cls)

    def _add(self, cls: type, tag: str, encode: Encode, decode: Decode) -> None:
        self._writers[cls] = lambda value: {tag: encode(value)}
        self._readers[tag] = decode

    def _is_solid(self, value: Any) -> bool:
        return type(value) in self._solid

    def _encode(self, value: Any) -> Json:
        write = self._writers.get(class_of(value))
        if write is None:
            raise Refused(
                f"it is of type {value_type_name(value)}, and no type is declared here; "
                "declare the type (a model, a dataclass, an enum …), or use plain data"
            )
        return write(value)

    def _decode(self, tree: Any) -> Any:
        cls = class_of(tree)
        if cls is str or tree is None or cls is bool or cls is int:
            return tree
        if cls is float:
            return decode_float(tree)
        if cls is list:
            return decode_items(tree, self._decode, "a list")
        if cls is not dict:
            raise wrong_tree(tree, "JSON")
        if not is_tag(tree) or "$dict" in tree:
            return decode_mapping(tree, self.part, self.part)
        return self._decode_tag(*next(iter(cast("dict[str, Any]", tree).items())))

    def _decode_tag(self, tag: str, written: Any) -> Any:
        if tag == "$int":
            return decode_int({tag: written})
        if tag == "$float":
            return decode_float({tag: written})
        if tag == "$value":
            name, content = pair(written, "a name and a model")
            if type(name) is not str or name not in self._own:
                raise Refused(f"there is no model {name!r:.60}; there are {listed(self._own)}")
            return self._own[name].decode(content)
        read = self._readers.get(tag)
        if read is None:
            raise wrong_tree({tag: written}, "a value")
        return read(written)


def _as_it_is(value: Any) -> Json:
    return cast("Json", value)
