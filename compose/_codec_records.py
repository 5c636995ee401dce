"""How dataclasses, named tuples and typed dicts are written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, cast

from ._codec_collections import decode_mapping, is_plain
from ._codec_fields import Default, dataclass_default, field_forms, fill, unknown
from ._codec_json import Json, is_tag
from ._codec_limits import with_limits
from ._codec_part import Build, Encode, Entries, Part, Refused, always, at, never, wrong_tree, wrong_value
from ._codec_scalars import STR
from ._types_classes import IS_HEAP_TYPE, parameters, typed_dict_keys
from ._types_forms import Form, bindings, substitute

RECORD_KINDS = frozenset({"object", "$is"})
"""What the tree of a dataclass may look like."""

_make = object.__new__
_set = object.__setattr__
_new_tuple: Any = tuple.__new__  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
_NOTHING: dict[str, Any] = {}
_NOT_SET: Any = object()


# -- dataclasses -----------------------------------------------------------------------------------------------------


def dataclass_part(build: Build, cls: type, args: tuple[Form, ...], name: str) -> Part:
    """Make the part of a dataclass."""
    for base in cls.__mro__[:-1]:
        if not base.__flags__ & IS_HEAP_TYPE:
            raise Refused(f"it is a {base.__name__} too, and what that holds is in no field")
    fields = dataclasses.fields(cls)
    forms = field_forms(cls, args, [field.name for field in fields])
    validated: Mapping[str, Any] = getattr(cls, "__pydantic_fields__", {})
    parts: dict[str, Part] = {}
    for field in fields:
        part = build.part_at(f".{field.name}", forms[field.name], checked=bool(validated))
        info = validated.get(field.name)
        parts[field.name] = part if info is None else with_limits(part, info.metadata)
    slots = _slots(cls)
    hidden = slots - parts.keys()
    if hidden:
        raise Refused(f"it has the slot {min(hidden)!r}, which is no field")
    return _Dataclass(
        build, cls, parts, {f.name: f for f in fields}, name, slotted=bool(slots) or not _has_dict(cls)
    ).part


def _has_dict(cls: Any) -> bool:
    return bool(cls.__dictoffset__)


def _slots(cls: type) -> set[str]:
    found: set[str] = set()
    for base in cls.__mro__:
        slots: Any = base.__dict__.get("__slots__", ())
        found.update((slots,) if isinstance(slots, str) else slots)
    return found - {"__dict__", "__weakref__"}


class _Dataclass:
    def __init__(
        self,
        build: Build,
        cls: Any,
        parts: dict[str, Part],
        fields: dict[str, dataclasses.Field[Any]],
        name: str,
        *,
        slotted: bool,
    ) -> None:
        self._cls = cls
        self._parts = parts
        self._slotted = slotted
        self._decoders = [(name, part.decode) for name, part in parts.items()]
        self._optional = {
            field.name
            for field in fields.values()
            if not field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
        """Fields that may be unset: nobody has to give them."""
        self._defaults: dict[str, Default | None] = {
            name: dataclass_default(parts[name], field) for name, field in fields.items() if name not in self._optional
        }
        self._encode_heir, self._decode_heir = build.heirs(cls, cls.__name__)
        frozen = cls.__dataclass_params__.frozen and all(part.solid is always for part in parts.values())
        self.part = Part(
            name,
            RECORD_KINDS,
            (cls,),
            self._encoder(),
            self._decode,
            heirs=True,
            solid=always if frozen else never,
            track=Entries(self._plain, parts.__getitem__, ".{}"),
        )

    def _held(self, value: Any) -> dict[str, Any]:
        """Give what the fields hold, without running a property."""
        parts = self._parts
        inside: dict[str, Any] = getattr(value, "__dict__", _NOTHING)
        if not self._slotted and inside.keys() == parts.keys():
            return inside
        if self._slotted:
            held = {name: getattr(value, name, _NOT_SET) for name in parts}
            held = {name: item for name, item in held.items() if item is not _NOT_SET}
        else:
            held = {name: inside[name] for name in parts if name in inside}
        for name in parts:
            if name not in held and name not in self._optional:
                raise Refused(f"its field {name!r} is not set")
        for name in inside:
            if name not in parts and not isinstance(getattr(self._cls, name, None), cached_property):
                raise Refused(f"its attribute {name!r} is no field of {self._cls.__name__}; declare it as one")
        return held

    def _encoder(self) -> Encode:
        cls, encode_heir, held_by, slotted = self._cls, self._encode_heir, self._held, self._slotted
        encoders = {name: part.encode for name, part in self._parts.items()}
        keys = encoders.keys()

        def encode(value: Any) -> Json:
            if type(value) is not cls:
                return encode_heir(value)
            held: dict[str, Any] = _NOTHING if slotted else value.__dict__
            if held.keys() != keys:
                held = held_by(value)
            out: dict[str, Json] = {}
            name = ""
            try:
                for name, item in held.items():
                    out[name] = encoders[name](item)
            except Refused as refused:
                refused.at(f".{name}")
                raise
            return out

        return encode

    def _decode(self, tree: Any) -> Any:
        if tree.__class__ is not dict:
            raise wrong_tree(tree, f"a {self._cls.__name__}")
        written = cast("dict[str, Any]", tree)
        if is_tag(written):
            return self._decode_heir(written)
        held: dict[str, Any] = {}
        name = ""
        try:
            for name, decode in self._decoders:
                if name in written:
                    held[name] = decode(written[name])
        except Refused as refused:
            refused.at(f".{name}")
            raise
        if len(held) < len(written):
            raise unknown(written, self._parts, self._cls)
        if len(held) < len(self._parts):
            fill(held, self._defaults, self._cls)
        made: Any = _make(self._cls)
        if self._slotted:
            for name, item in held.items():
                _set(made, name, item)
        else:
            made.__dict__.update(held)
        return made

    def _plain(self, value: Any) -> Mapping[str, Any] | None:
        return self._held(value) if type(value) is self._cls else None


# -- named tuples ----------------------------------------------------------------------------------------------------


def named_tuple_part(build: Build, cls: Any, args: tuple[Form, ...], name: str) -> Part:
    """Make the part of a named tuple: its items in their order."""
    names: tuple[str, ...] = cls._fields
    forms = field_forms(cls, args, list(names))
    parts = [build.part_at(f".{field}", forms[field]) for field in names]
    encode_heir, decode_heir = build.heirs(cls, cls.__name__)

    def encode(value: Any) -> Json:
        if type(value) is not cls:
            return encode_heir(value)
        if getattr(value, "__dict__", None):
            raise Refused(f"it has the attribute {next(iter(value.__dict__))!r}, which is no field")
        return _each(value, [part.encode for part in parts], names)

    def decode(tree: Any) -> Any:
        if tree.__class__ is dict:
            return decode_heir(tree)
        if tree.__class__ is not list or len(tree) != len(parts):
            raise wrong_tree(tree, f"the {len(parts)} items of a {cls.__name__}")
        return _new_tuple(cls, _each(tree, [part.decode for part in parts], names))

    solid = always if all(part.solid is always for part in parts) else never
    return Part(name, frozenset({"list", "$is"}), (cls,), encode, decode, heirs=True, solid=solid)


def tuple_part(build: Build, items: list[Form], name: str, *, checked: bool) -> Part:
    """Make the part of a tuple with a fixed number of items."""
    parts = [build.part_at(f"[{number}]", form, checked=checked) for number, form in enumerate(items)]
    encode_heir, decode_heir = build.heirs(tuple, name)

    def encode(value: Any) -> Json:
        if type(value) is not tuple:
            return encode_heir(value)
        held = cast("tuple[Any, ...]", value)  # type: ignore[redundant-cast]
        if len(held) != len(parts):
            raise Refused(f"it has {len(held)} items, and {name} has {len(parts)}")
        return _each(held, [part.encode for part in parts], None)

    def decode(tree: Any) -> Any:
        if tree.__class__ is dict:
            return decode_heir(tree)
        if tree.__class__ is not list or len(tree) != len(parts):
            raise wrong_tree(tree, f"the {len(parts)} items of a {name}")
        return tuple(_each(tree, [part.decode for part in parts], None))

    solid = always if all(part.solid is always for part in parts) else never
    return Part(name, frozenset({"list", "$is"}), (tuple,), encode, decode, heirs=True, solid=solid)


def _each(items: Any, functions: list[Callable[[Any], Any]], names: tuple[str, ...] | None) -> list[Any]:
    out: list[Any] = []
    try:
        for item, function in zip(items, functions, strict=True):
            out.append(function(item))
    except Refused as refused:
        refused.at(f".{names[len(out)]}" if names else f"[{len(out)}]")
        raise
    return out


# -- typed dicts -----------------------------------------------------------------------------------------------------


class _TypedDict:
    def __init__(self, build: Build, cls: Any, parts: Mapping[str, Part], required: list[str], name: str) -> None:
        self._parts = parts
        self._required = required
        self._closed = bool(getattr(cls, "__closed__", False))
        self._anything = build.anything
        self._name = name
        track = Entries(self._plain, self._part_of, "[{!r}]")
        kinds = frozenset({"object", "$dict"})
        self.part = Part(name, kinds, (dict,), self._encode, self._decode, solid=never, track=track)

    def _part_of(self, key: str) -> Part:
        return self._parts.get(key, self._anything)

    def _examine(self, value: Mapping[Any, Any]) -> None:
        for key in self._required:
            if key not in value:
                raise Refused(f"the key {key!r} of {self._name} is missing")
        for key in value:
            if type(key) is not str:
                raise Refused(f"its key {key!r:.60} is no text")
            if self._closed and key not in self._parts:
                raise Refused(f"{self._name} has no key {key!r:.60}")

    def _encode(self, value: Any) -> Json:
        if type(value) is not dict:
            raise wrong_value(value, self._name)
        held = cast("dict[str, Any]", value)
        self._examine(held)
        out: dict[str, Json] = {}
        key = ""
        try:
            for key, item in held.items():
                out[key] = self._part_of(key).encode(item)
        except Refused as refused:
            refused.at(f"[{key!r:.60}]")
            raise
        return out if not is_tag(out) else {"$dict": [[key, item] for key, item in out.items()]}

    def _decode(self, tree: Any) -> Any:
        written = decode_mapping(tree, STR, _UNREAD)
        self._examine(written)
        return {key: at(f"[{key!r:.60}]", self._part_of(key).decode, item) for key, item in written.items()}

    def _plain(self, value: Any) -> Mapping[str, Any] | None:
        if value.__class__ is not dict or not is_plain(value):
            return None
        self._examine(value)
        return cast("dict[str, Any]", value)


def typed_dict_part(build: Build, cls: Any, args: tuple[Form, ...], name: str, *, checked: bool) -> Part:
    """Make the part of a ``TypedDict``; keys that it does not declare are written as untyped values."""
    bound = bindings(parameters(cls), args)
    keys = typed_dict_keys(cls)
    parts = {
        key: build.part_at(f"[{key!r}]", substitute(form, bound), checked=checked) for key, (form, _) in keys.items()
    }
    return _TypedDict(build, cls, parts, [key for key, (_, needed) in keys.items() if needed], name).part


_UNREAD = Part("JSON", frozenset(), (), lambda value: value, lambda tree: tree)
