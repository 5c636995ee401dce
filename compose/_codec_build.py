"""From types to parts: which kind of part writes the values of a type.

A type that may contain itself is looked up again while its part is still being made; it then gets a stand-in. What a
part's trees may look like must not depend on that, so these parts are known by their kind before they are made.
"""

from __future__ import annotations

import importlib
import threading
from collections import Counter, OrderedDict, abc, defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import Any, get_args, get_origin
from uuid import UUID

import typing_extensions as te
from pydantic import BaseModel

from ..schema._frozen import FrozenDict, FrozenList
from ._codec_any import OWN_MODELS, Anything
from ._codec_choices import literal_part, union_part
from ._codec_collections import collection, mapping_rows, sequence_rows, solid_items, track_items, track_mapping
from ._codec_enums import enum_part
from ._codec_json import Json
from ._codec_limits import with_limits
from ._codec_models import MODEL_KINDS, model_part
from ._codec_names import heir_name, heir_named
from ._codec_part import (
    Decode,
    Encode,
    Part,
    Refused,
    class_of,
    never,
    pair,
    payload,
    standing_for,
    wrong_tree,
    wrong_value,
)
from ._codec_records import RECORD_KINDS, dataclass_part, named_tuple_part, tuple_part, typed_dict_part
from ._codec_scalars import (
    BOOL,
    BYTEARRAY,
    BYTES,
    COMPLEX,
    DECIMAL,
    FLOAT,
    IDENTIFIER,
    INT,
    NONE,
    NUMBER,
    STR,
    path_part,
    textual,
)
from ._codec_times import DATE, DATETIME, TIME, TIMEDELTA
from ._types import type_name
from ._types_classes import heirs_of, is_abstract, is_data, is_named_tuple, is_protocol, view
from ._types_forms import Form, JustComplex, JustFloat, Kind, Shape, is_alias, is_wrapped, shape, tuple_items

_LEAVES: dict[Any, Part] = {
    type(None): NONE,
    bool: BOOL,
    int: INT,
    float: FLOAT,
    str: STR,
    complex: COMPLEX,
    bytes: BYTES,
    bytearray: BYTEARRAY,
    Decimal: DECIMAL,
    UUID: IDENTIFIER,
    datetime: DATETIME,
    date: DATE,
    time: TIME,
    timedelta: TIMEDELTA,
    **{cls: path_part(cls) for cls in (PurePath, PurePosixPath, PureWindowsPath, Path)},
    JustFloat: FLOAT,
    JustComplex: COMPLEX,
}
_SEQUENCES: dict[Any, tuple[type, ...]] = {
    list: (list,),
    set: (set,),
    frozenset: (frozenset,),
    deque: (deque,),
    FrozenList: (),
    abc.Sequence: (list,),
    abc.MutableSequence: (list,),
    abc.Reversible: (list,),
    abc.Set: (set,),
    abc.MutableSet: (set,),
    abc.Collection: (list,),
    abc.Iterable: (list,),
    abc.Container: (list,),
}
"""Declared classes of items, and which of their values are written plainly."""
_MAPPINGS: dict[Any, tuple[type, ...]] = {
    dict: (dict,),
    OrderedDict: (OrderedDict,),
    defaultdict: (defaultdict,),
    Counter: (Counter,),
    MappingProxyType: (MappingProxyType,),
    abc.Mapping: (dict,),
    abc.MutableMapping: (dict,),
}
_STAND_FOR = {
    "EmailStr": str,
    "PastDate": date,
    "FutureDate": date,
    "PastDatetime": datetime,
    "FutureDatetime": datetime,
    "AwareDatetime": datetime,
    "NaiveDatetime": datetime,
}
"""Classes of pydantic that stand in annotations, and of what class the values are."""
_ADVICE = "declare plain data, a dataclass or a model instead, or keep it out of what is saved"

_lock = threading.RLock()


class Builder:
    """Makes the parts of types, each once."""

    def __init__(self, anything: Anything) -> None:
        self._anything = anything
        self._made: dict[Any, Part] = {}
        self._making: set[Any] = set()

    @property
    def anything(self) -> Part:
        """The part for what has no type."""
        return self._anything.part

    def part_at(self, step: str, form: Form, *, checked: bool = False) -> Part:
        """As :meth:`part`, for a type that stands inside of another one."""
        try:
            return self.part(form, checked=checked)
        except Refused as refused:
            refused.at(step)
            raise

    def part(self, form: Form, *, checked: bool = False) -> Part:
        """Give the part of a type; see :class:`~anabranch.compose._codec_part.Build`."""
        with _lock:
            before = None if self._making else set(self._made)
            try:
                return self._part(form, checked)
            except Refused:
                if before is not None:  # what was made on the way may lead to what could not be made
                    self._made = {key: part for key, part in self._made.items() if key in before}
                raise

    def _part(self, form: Form, checked: bool) -> Part:
        if is_wrapped(form):
            return self._wrapped(form, checked)
        key = (form, checked)
        try:
            known = self._made.get(key)
        except TypeError:  # a form that cannot be hashed
            return self._make(form, checked)
        if known is not None:
            return known
        if key in self._making:
            raise AssertionError("a type is made while it is made")
        kinds = self._kinds(form)
        if kinds is None:
            part = self._made[key] = self._make(form, checked)
            return part
        return self._make_recursive(key, form, checked, kinds)

    def _make_recursive(self, key: Any, form: Form, checked: bool, kinds: frozenset[str]) -> Part:
        """Make the part of a type in which it may be met again."""
        unfinished = Part(type_name(form), kinds, (_class_of(form),), _unfinished, _unfinished, heirs=True)
        self._made[key] = stand_in = standing_for(unfinished)
        self._making.add(key)
        try:
            part = self._make(form, checked)
        except BaseException:
            del self._made[key]
            raise
        finally:
            self._making.discard(key)
        unfinished.encode, unfinished.decode = part.encode, part.decode
        stand_in.classes, stand_in.heirs = part.classes, part.heirs
        if part.name != unfinished.name:  # it is found under one name, whether it is finished or not
            part = replace(part, name=unfinished.name)
        self._made[key] = part
        return part

    def _kinds(self, form: Form) -> frozenset[str] | None:
        """Give what the trees of a type that may contain itself look like; None for any other."""
        cls = _class_of(form)
        if issubclass(cls, BaseModel):
            return MODEL_KINDS
        if hasattr(cls, "__dataclass_fields__"):
            return RECORD_KINDS
        if is_alias(form) or te.is_typeddict(cls) or is_named_tuple(cls):
            return _Shallow(self._anything).kinds_of(form)
        return None

    def _wrapped(self, form: Form, checked: bool) -> Part:
        inner, *metadata = get_args(form)
        if FrozenDict in metadata:
            return self._anything.frozen.object_part()
        part = self.part(inner, checked=checked)
        return with_limits(part, metadata) if checked else part

    def _make(self, form: Form, checked: bool) -> Part:
        if form is float:
            return NUMBER
        if isinstance(form, type) and issubclass(form, BaseModel):  # an own class for each of its arguments
            return self._model(form)
        try:
            layer = shape(form)
        except TypeError as error:
            raise Refused(str(error)) from None
        make = _MAKERS.get(layer.kind)
        if make is None:
            raise Refused(f"values of {type_name(form)} are no data; {_ADVICE}")
        return make(self, layer, form, checked)

    # -- kinds of types ------------------------------------------------------------------------------------------------

    def _any(self, layer: Shape, form: Form, checked: bool) -> Part:
        return self._anything.part

    def _union(self, layer: Shape, form: Form, checked: bool) -> Part:
        members: dict[str, Part] = {}
        for member in _flat(layer):
            part = self.part(member, checked=checked)
            members.setdefault(f"{part.name} {id(part)}", part)
        parts = list(members.values())
        return parts[0] if len(parts) == 1 else union_part(parts)

    def _literal(self, layer: Shape, form: Form, checked: bool) -> Part:
        return literal_part(layer.args)

    def _new_type(self, layer: Shape, form: Form, checked: bool) -> Part:
        return self.part(layer.args[0], checked=checked)

    def _typed_dict(self, layer: Shape, form: Form, checked: bool) -> Part:
        return typed_dict_part(self, layer.origin, layer.args, type_name(form), checked=checked)

    def _tuple(self, layer: Shape, form: Form, checked: bool) -> Part:
        prefix, rest, suffix = tuple_items(layer.args)
        if rest is None:
            return tuple_part(self, [*prefix, *suffix], type_name(form), checked=checked)
        if prefix or suffix:
            raise Refused("a tuple with a part of any length inside; declare a list, or a tuple of one type")
        item = self.part_at("[]", rest, checked=checked)
        part = collection(tuple, type_name(form), sequence_rows(item), (tuple,))
        encode_heir, decode_heir = self.heirs(tuple, part.name)
        encode, decode = part.encode, part.decode
        return Part(
            part.name,
            part.kinds | {"$is"},
            (tuple,),
            lambda value: encode(value) if type(value) is tuple else encode_heir(value),
            lambda tree: decode_heir(tree) if tree.__class__ is dict else decode(tree),
            heirs=True,
            solid=solid_items(tuple, item),
            track=track_items(tuple, item),
        )

    def _class(self, layer: Shape, form: Form, checked: bool) -> Part:
        origin = layer.origin
        leaf = _LEAVES.get(origin)
        if leaf is not None:
            return leaf
        if origin is object:
            return self._anything.part
        if origin in _SEQUENCES:
            return self._sequence(layer, form, checked)
        if origin in _MAPPINGS:
            return self._mapping(layer, form, checked)
        if issubclass(origin, Enum):
            return enum_part(origin)
        if issubclass(origin, BaseModel):
            return self._model(origin[layer.args] if layer.args else origin)
        if origin is FrozenDict:
            return self._anything.frozen.object_part()
        return self._other_class(layer, form)

    def _other_class(self, layer: Shape, form: Form) -> Part:
        origin = layer.origin
        if hasattr(origin, "__dataclass_fields__") and not issubclass(origin, BaseException):
            return dataclass_part(self, origin, layer.args, type_name(form))
        if is_named_tuple(origin):
            return named_tuple_part(self, origin, layer.args, type_name(form))
        if origin.__module__.partition(".")[0] == "pydantic" and origin.__name__ in _STAND_FOR:
            return self.part(_STAND_FOR[origin.__name__])
        part = textual(origin)
        if part is not None:
            return part
        if is_abstract(origin) and not is_protocol(origin) and any(map(_is_declared, heirs_of(origin))):
            return self._heirs_only(origin)
        raise Refused(f"values of {type_name(form)} {_why_not(origin)}; {_ADVICE}")

    def _model(self, cls: type[BaseModel]) -> Part:
        if cls is not BaseModel:
            return model_part(self, cls)
        return self._heirs_only(cls)

    def _heirs_only(self, cls: type) -> Part:
        """Make the part of a class whose values are all of some subclass."""
        encode, decode = self.heirs(cls, cls.__name__)
        return Part(cls.__name__, frozenset({"$is"}), (cls,), encode, decode, heirs=True, solid=never)

    def _sequence(self, layer: Shape, form: Form, checked: bool) -> Part:
        origin = layer.origin
        item = self.part_at("[]", layer.args[0] if layer.args else Any, checked=checked)
        rows = [*sequence_rows(item), *(row for row in self._anything.rows if row.cls is FrozenList)]
        usual = _SEQUENCES[origin]
        if origin in {abc.Collection, abc.Iterable, abc.Container}:
            rows += [row for row in self._anything.rows if issubclass(row.cls, abc.Mapping)]
        part = collection(origin, type_name(form), rows, usual)
        part.solid = solid_items(origin, item)
        if list in usual:
            part.track = track_items(list, item)
        return part

    def _mapping(self, layer: Shape, form: Form, checked: bool) -> Part:
        origin = layer.origin
        key_form, item_form = view(origin, layer.args, abc.Mapping) or (Any, Any) if layer.args else (Any, Any)
        key = self.part_at("[key]", key_form, checked=checked)
        item = self.part_at("[]", item_form, checked=checked)
        rows = [*mapping_rows(key, item), *(row for row in self._anything.rows if row.cls is FrozenDict)]
        part = collection(origin, type_name(form), rows, _MAPPINGS[origin])
        part.solid = lambda value: False
        if dict in _MAPPINGS[origin]:
            part.track = track_mapping(key, item)
        return part

    # -- subclasses ----------------------------------------------------------------------------------------------------

    def heirs(self, base: type, wanted: str) -> tuple[Encode, Decode]:
        """Give how values of subclasses are written and read: with the name of their class."""
        known: dict[type, tuple[str, Part]] = {}
        named: dict[str, Part] = {}

        def part_of(cls: type) -> Part:
            try:
                return self.part(cls)
            except Refused as refused:
                where = f"{refused.path}: " if refused.path else ""
                raise Refused(f"it is a {cls.__qualname__}, which cannot be saved: {where}{refused.why}") from None

        def encode(value: Any) -> Json:
            cls = class_of(value)
            entry = known.get(cls)
            if entry is None:
                if not issubclass(cls, base):
                    raise wrong_value(value, wanted)
                entry = known[cls] = heir_name(base, cls), part_of(cls)  # type: ignore[arg-type]
            name, part = entry
            return {"$is": [name, part.encode(value)]}

        def decode(tree: Any) -> Any:
            name, content = pair(payload(tree, "$is", f"a {wanted}"), "the name of a class and what it holds")
            if type(name) is not str:
                raise wrong_tree(name, "the name of a class")
            part = named.get(name)
            if part is None:
                part = named[name] = part_of(heir_named(base, name))
            return part.decode(content)

        return encode, decode


class _Shallow(Builder):
    """Makes only the outermost part of a type: what its trees look like does not depend on what is inside."""

    def part(self, form: Form, *, checked: bool = False) -> Part:
        return self._anything.part

    def kinds_of(self, form: Form) -> frozenset[str]:
        return self._make(form, False).kinds


def _flat(layer: Shape) -> list[Form]:
    """Give the members of a union, also those of unions that have a name."""
    members: list[Form] = []
    for member in layer.args:
        inner = shape(member) if not is_wrapped(member) else None
        if inner is not None and inner.kind is Kind.NEW_TYPE and shape(inner.args[0]).kind is Kind.UNION:
            members += _flat(shape(inner.args[0]))
        else:
            members.append(member)
    return members


def _class_of(form: Form) -> type[Any]:
    origin: Any = get_origin(form)
    cls: Any = form if origin is None else origin
    return cls if isinstance(cls, type) else object


def _is_declared(cls: type) -> bool:
    """Tell whether a class says what its values hold."""
    return is_data(cls) or issubclass(cls, Enum)


def _why_not(cls: Any) -> str:
    if issubclass(cls, BaseException):
        return "are exceptions, which hold whatever was on the way"
    if is_protocol(cls) or cls.__module__ in {"collections.abc", "typing"}:
        return "can be of any class"
    if cls.__module__ == "pydantic.types" and cls.__name__.startswith("Secret"):
        return "are secrets, and would be written for everybody to read"
    return "do not say what they hold"


def _unfinished(value: Any) -> Any:
    raise Refused("its codec is not finished")


_Maker = Callable[[Builder, Shape, Form, bool], Part]
_MAKERS: dict[Kind, _Maker] = {
    Kind.ANY: Builder._any,  # pyright: ignore[reportPrivateUsage]
    Kind.UNION: Builder._union,  # pyright: ignore[reportPrivateUsage]
    Kind.LITERAL: Builder._literal,  # pyright: ignore[reportPrivateUsage]
    Kind.NEW_TYPE: Builder._new_type,  # pyright: ignore[reportPrivateUsage]
    Kind.TYPED_DICT: Builder._typed_dict,  # pyright: ignore[reportPrivateUsage]
    Kind.TUPLE: Builder._tuple,  # pyright: ignore[reportPrivateUsage]
    Kind.CLASS: Builder._class,  # pyright: ignore[reportPrivateUsage]
}


@cache
def shared() -> Anything:
    """Give the part for values without a type, which knows the models of ours."""
    with _lock:
        anything = Anything()
        builder = Builder(anything)
        library = __name__.rsplit(".", 2)[0]
        for module, name in OWN_MODELS:
            cls = getattr(importlib.import_module(f"{library}.{module}"), name)
            anything.add_own(name, builder.part(cls))
        return anything
