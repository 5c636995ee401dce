"""How pydantic models are written: their fields by name, and beside them what else belongs to a model.

``$fields`` are the names of the fields that were set, where these are not all; ``$extra`` and ``$private`` are what
stands in further fields and in private attributes. A model is put together again without its validators and its
``__init__``, since a record must not start anybody's code, and since what a validator makes of a value that has been
through it before may be another value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, cast

from pydantic import BaseModel

from ..schema._frozen import Value
from ._codec_collections import decode_items, is_plain
from ._codec_fields import MISSING, Default, default_of, fill, unknown
from ._codec_json import Json
from ._codec_part import Build, Decode, Encode, Entries, Part, Refused, always, at, class_of, never, wrong_tree
from ._codec_scalars import decode_str
from ._types_classes import class_hints

MODEL_KINDS = frozenset({"object", "$fields", "$extra", "$private", "$is"})
"""What the tree of a model may look like."""

_make = object.__new__
_set = object.__setattr__
_NOWHERE: Any = object()
_LIBRARY = __name__.rsplit(".", 2)[0] + "."
_STEPS = {"$fields": "", "$extra": ".model_extra", "$private": ""}
_BESIDES = _STEPS.keys()
_NOTHING: dict[str, Any] = {}
_NAMES = Part("list[str]", frozenset({"list"}), (list,), lambda value: value, lambda tree: tree)


class _Field(NamedTuple):
    name: str
    part: Part
    implied: Any
    """The value that is left out when it stands there; for models of ours alone, whose defaults do not change."""


def model_part(build: Build, cls: type[BaseModel]) -> Part:
    """Make the part of a pydantic model."""
    _complete(cls)
    own = issubclass(cls, Value) and cls.__module__.startswith(_LIBRARY)
    fields: list[_Field] = []
    defaults: dict[str, Default | None] = {}
    for name, info in cls.model_fields.items():
        form: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
        part = build.part_at(f".{name}", form, checked=True)
        default = MISSING if info.is_required() else info.default
        implied = default if own and info.default_factory is None and part.solid(default) else _NOWHERE
        fields.append(_Field(name, part, implied))
        defaults[name] = (
            _always_gives(implied) if implied is not _NOWHERE else default_of(part, default, info.default_factory)
        )
    if any(field.name.startswith("$") for field in fields):
        raise Refused("the name of a field begins with '$'")
    return _Model(build, cls, fields, defaults).part


def _always_gives(value: Any) -> Default:
    return lambda: value


def _complete(cls: type[BaseModel]) -> None:
    """See to it that the types of the fields are known."""
    if not getattr(cls, "__pydantic_fields_complete__", True):
        cls.model_rebuild(raise_errors=False)
        if not cls.__pydantic_fields_complete__:
            raise Refused(f"the annotations of {cls.__name__} cannot be resolved; call {cls.__name__}.model_rebuild()")


class _Model:
    def __init__(
        self, build: Build, cls: type[BaseModel], fields: list[_Field], defaults: dict[str, Default | None]
    ) -> None:
        self._cls = cls
        self._fields = fields
        self._names = frozenset(field.name for field in fields)
        self._parts = {field.name: field.part for field in fields}
        self._defaults = defaults
        self._extra = build.anything if cls.model_config.get("extra") == "allow" else None
        hints = class_hints(cls)
        private = {name: build.part_at(f".{name}", hints.get(name, Any)) for name in cls.__private_attributes__}
        self._private = attributes_part(cls, private) if private else None
        self._no_extra: dict[str, Any] | None = None if self._extra is None else {}
        self._no_private: dict[str, Any] | None = None if self._private is None else {}
        self._whole = self._extra is None and self._private is None and all(f.implied is _NOWHERE for f in fields)
        """Whether there is nothing to be written but all fields."""
        self._encode_heir, self._decode_heir = build.heirs(cls, cls.__name__)
        solid = (
            bool(cls.model_config.get("frozen"))
            and self._private is None
            and self._extra is None
            and all(field.part.solid is always for field in fields)
        )
        self.part = Part(
            cls.__name__,
            MODEL_KINDS,
            (cls,),
            self._encoder(),
            self._decoder(),
            heirs=True,
            solid=always if solid else never,
            track=Entries(self._plain, self._part_of, ".{}"),
        )

    # -- writing -------------------------------------------------------------------------------------------------------

    def _encoder(self) -> Encode:
        cls, encode_heir, add, names = self._cls, self._encode_heir, self._add, self._names
        no_extra, no_private = self._no_extra, self._no_private
        rows = [(field.name, field.part.encode, field.implied) for field in self._fields]

        def encode(value: Any) -> Json:
            if class_of(value) is not cls:
                return encode_heir(value)
            held: dict[str, Any] = value.__dict__
            out: dict[str, Json] = {}
            name = ""
            try:
                for name, encode_field, implied in rows:
                    item = held[name]
                    if item is not implied:
                        out[name] = encode_field(item)
            except Refused as refused:
                refused.at(f".{name}")
                raise
            except KeyError:
                raise Refused(f"its field {name!r} is not set") from None
            if (
                value.__pydantic_fields_set__ != names
                or value.__pydantic_private__ != no_private
                or value.__pydantic_extra__ != no_extra
            ):
                add(value, out)
            return out

        return encode

    def _add(self, value: Any, out: dict[str, Any]) -> None:
        """Write what a model has besides its fields."""
        for key, content in self._besides(value).items():
            out[key] = content if key == "$fields" else at(_STEPS[key], self._part_of(key).encode, content)

    def _besides(self, value: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        given, private, extra = value.__pydantic_fields_set__, value.__pydantic_private__, value.__pydantic_extra__
        if given != self._names:
            found["$fields"] = sorted(given)
        if extra != self._no_extra:
            found["$extra"] = extra
        if private != self._no_private:
            found["$private"] = private
        return found

    # -- reading -------------------------------------------------------------------------------------------------------

    def _decoder(self) -> Decode:
        wanted, finish, total = f"a {self._cls.__name__}", self._put_together, len(self._fields)
        rows = [(field.name, field.part.decode, field.implied) for field in self._fields]

        def decode(tree: Any) -> Any:
            if tree.__class__ is not dict:
                raise wrong_tree(tree, wanted)
            held: dict[str, Any] = {}
            found = 0
            name = ""
            try:
                for name, decode_field, implied in rows:
                    content = tree.get(name, MISSING)
                    if content is not MISSING:
                        held[name] = decode_field(content)
                        found += 1
                    elif implied is not _NOWHERE:
                        held[name] = implied
            except Refused as refused:
                refused.at(f".{name}")
                raise
            return finish(tree, held, found == len(tree) and len(held) == total)

        return decode

    def _put_together(self, written: dict[str, Any], held: dict[str, Any], complete: bool) -> Any:
        besides: dict[str, Any] = _NOTHING
        if not complete:
            if "$is" in written and len(written) == 1:
                return self._decode_heir(written)
            if len(held) < len(self._fields):
                fill(held, self._defaults, self._cls)
                held = {name: held[name] for name in self._parts}
            besides = {key: item for key, item in written.items() if key not in self._parts}
            if not besides.keys() <= _BESIDES:
                raise unknown(besides, dict.fromkeys(_BESIDES), self._cls)
        model = _make(self._cls)
        _set(model, "__dict__", held)
        _set(model, "__pydantic_fields_set__", self._read_given(besides) if besides else set(self._names))
        _set(model, "__pydantic_extra__", self._read(self._extra, "$extra", besides))
        _set(model, "__pydantic_private__", self._read(self._private, "$private", besides))
        return model

    def _read_given(self, besides: dict[str, Any]) -> set[str]:
        if "$fields" not in besides:
            return set(self._names)
        return set(decode_items(besides["$fields"], decode_str, "a list of names"))

    def _read(self, part: Part | None, key: str, besides: dict[str, Any]) -> Any:
        if part is None:
            if key in besides:
                raise Refused(f"{self._cls.__name__} has nothing to stand under {key}")
            return None
        if key not in besides:
            return {}
        found = part.decode(besides[key])
        if found is not None and type(found) is not dict:
            raise wrong_tree(besides[key], "an object")
        return cast("dict[str, Any] | None", found)

    # -- in parts ------------------------------------------------------------------------------------------------------

    def _plain(self, value: Any) -> Mapping[str, Any] | None:
        """Give what stands under each key of the tree."""
        if class_of(value) is not self._cls:
            return None
        held: dict[str, Any] = value.__dict__
        if not held.keys() >= self._names:
            return None
        if self._whole and held.keys() == self._names and value.__pydantic_fields_set__ == self._names:
            return held
        kept = {field.name: held[field.name] for field in self._fields if held[field.name] is not field.implied}
        return {**kept, **self._besides(value)}

    def _part_of(self, key: str) -> Part:
        if key == "$fields":
            return _NAMES
        if key == "$extra" and self._extra is not None:
            return self._extra
        if key == "$private" and self._private is not None:
            return self._private
        if key not in self._parts:
            raise Refused(f"{self._cls.__name__} has nothing to stand under {key}")
        return self._parts[key]


def attributes_part(cls: type, parts: Mapping[str, Part]) -> Part:
    """Make the part of the private attributes of a model, seen as a dict."""

    def encode(value: Any) -> Json:
        if value is None:
            return None
        out: dict[str, Json] = {}
        for name, content in value.items():
            if name not in parts:
                raise Refused(f"{cls.__name__} declares no private attribute {name!r}")
            out[name] = at(f".{name}", parts[name].encode, content)
        return out

    def decode(tree: Any) -> Any:
        if tree is None:
            return None
        if tree.__class__ is not dict:
            raise wrong_tree(tree, "private attributes")
        if not tree.keys() <= parts.keys():
            raise unknown(tree, parts, cls)
        return {name: at(f".{name}", parts[name].decode, content) for name, content in tree.items()}

    def plain(value: Any) -> Mapping[str, Any] | None:
        return value if value is not None and is_plain(value) and value.keys() <= parts.keys() else None

    names = Entries(plain, parts.__getitem__, ".{}")
    return Part("dict", frozenset({"object", "null"}), (dict,), encode, decode, solid=never, track=names)
