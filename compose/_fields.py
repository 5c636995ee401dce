"""The fields of types and of values: where a path of names leads, and how a value is made of its parts.

A step of a path is a key of a mapping, or a field of a pydantic model, a dataclass, a named tuple or a ``TypedDict``.
What is only *read* may also be an annotated attribute or a property of any class; a union is read where at least one
of its members has the name. What is *made* has to be known exactly: of a union the one member that has all the names.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from types import NoneType
from typing import Any, Literal, NamedTuple, Union

from pydantic import BaseModel, RootModel

from ._merge import as_mapping, class_of
from ._types import Fit, fits, resolve_hints, substitute, type_name, value_type_name
from ._types_classes import class_hints, is_named_tuple, parameters, typed_dict_keys, view
from ._types_forms import Form, Kind, Shape, bindings, shape

Path = tuple[str, ...]


class FieldError(ValueError):
    """A path leads nowhere, in a type or in a value."""


class Maker(NamedTuple):
    """How a value of one type is made of its parts."""

    form: Form
    part_forms: Mapping[str, Form]
    required: tuple[str, ...]
    """The fields without which it cannot be made, in the order of their declaration."""
    make: Callable[[dict[str, Any]], Any]
    merges: bool
    """Whether it is a dict, so that dicts of single parts concatenate to it."""


def shown(path: Path) -> str:
    """Write a path as one would in :func:`~anabranch.compose.field`; names that hold a dot are quoted."""
    return ".".join(repr(name) if "." in name else name for name in path) or "(all)"


# -- types ---------------------------------------------------------------------------------------------------------


class _Field(NamedTuple):
    form: Form
    required: bool = False
    given: bool = True
    """Whether it is given when a value is made (not so a dataclass field with ``init=False``)."""


def read_form(form: Form, path: Path) -> Form:
    """Give the type of what is at a path of a value of a type.

    Raises:
        FieldError: If no value of the type can have it.
    """
    for depth, name in enumerate(path):
        try:
            form = _read_step(form, name)
        except FieldError as error:
            raise FieldError(f"at {shown(path[: depth + 1])}, {error}") from None
    return form


def reads_by_key(form: Form, path: Path) -> bool:
    """Tell whether a path leads through dicts alone, so that what is at it can be read chunk by chunk."""
    for name in path:
        layer = shape(form)
        if layer.kind is not Kind.TYPED_DICT and not (_is_mapping(layer) and issubclass(dict, layer.origin)):
            return False
        form = _read_step(form, name)
    return True


def _read_step(form: Form, name: str) -> Form:
    layer = shape(form)
    match layer.kind:
        case Kind.ANY:
            return Any
        case Kind.UNION:
            return _read_union(form, layer, name)
        case Kind.NEW_TYPE:
            return _read_step(layer.args[0], name)
        case Kind.TYPED_DICT | Kind.CLASS:
            return _read_class(form, layer, name)
        case _:
            raise FieldError(f"{type_name(form)} has no fields")


def _read_union(form: Form, layer: Shape, name: str) -> Form:
    found: list[Form] = []
    members = [member for member in layer.args if shape(member).origin is not NoneType]
    for member in members:
        try:
            found.append(_read_step(member, name))
        except FieldError:
            if len(members) == 1:
                raise
    if not found:
        raise FieldError(f"no member of {type_name(form)} has {name!r}")
    return Any if Any in found else Union[tuple(found)]  # noqa: UP007 - made at run time


def _read_class(form: Form, layer: Shape, name: str) -> Form:
    if layer.origin is object:
        return Any
    value = _value_form(form, layer, name)
    if value is not None:
        return value
    fields = _fields(layer)
    if fields is not None and name in fields:
        return fields[name].form
    member = _member(layer, name)
    if member is not None:
        return member
    if fields is None:
        raise FieldError(f"{type_name(form)} has no fields")
    if _takes_extras(layer):
        return Any
    raise FieldError(_no_field(form, fields, name))


def _value_form(form: Form, layer: Shape, name: str) -> Form | None:
    """Give the type of a mapping's values, or None for what is no mapping."""
    if not _is_mapping(layer):
        return None
    key, value = view(layer.origin, layer.args, Mapping) or (Any, Any)
    named: Any = Literal[name]
    if fits(named, key) is Fit.NEVER:
        raise FieldError(f"the keys of {type_name(form)} are {type_name(key)}, and {name!r} is none")
    return value


def _is_mapping(layer: Shape) -> bool:
    return layer.kind is Kind.CLASS and issubclass(layer.origin, Mapping)


def _is_model(layer: Shape, kind: type[BaseModel] = BaseModel) -> bool:
    return layer.kind is Kind.CLASS and issubclass(layer.origin, kind)


def _fields(layer: Shape) -> dict[str, _Field] | None:
    """Give the fields of a type that declares all it holds, or None for any other."""
    origin: Any = layer.origin
    if layer.kind is Kind.TYPED_DICT:
        found = {name: _Field(form, needed) for name, (form, needed) in typed_dict_keys(origin).items()}
    elif _is_model(layer):
        hints = class_hints(origin)
        found = {name: _Field(hints[name], info.is_required()) for name, info in origin.model_fields.items()}
    elif hasattr(origin, "__dataclass_fields__"):
        hints = class_hints(origin)
        found = {f.name: _Field(hints[f.name], _is_needed(f), f.init) for f in dataclasses.fields(origin)}
    elif is_named_tuple(origin):
        hints = class_hints(origin)
        found = {name: _Field(hints.get(name, Any), name not in origin._field_defaults) for name in origin._fields}
    else:
        return None
    bound = bindings(parameters(origin), layer.args)
    return {name: field._replace(form=substitute(field.form, bound)) for name, field in found.items()}


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    return field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _takes_extras(layer: Shape) -> bool:
    return _is_model(layer) and layer.origin.model_config.get("extra") == "allow"


def _member(layer: Shape, name: str) -> Form | None:
    """Give the type of an attribute or property that a class declares beside its fields."""
    if layer.kind is not Kind.CLASS or name.startswith("_"):
        return None
    hints = class_hints(layer.origin)
    if name in hints:
        return substitute(hints[name], bindings(parameters(layer.origin), layer.args))
    found = inspect.getattr_static(layer.origin, name, None)
    getter: Any = found.fget if isinstance(found, property) else getattr(found, "func", None)
    if not isinstance(found, property | cached_property):
        return None
    try:
        return resolve_hints(getter).get("return", Any)
    except NameError:
        return Any


def _no_field(form: Form, known: Iterable[str], name: str) -> str:
    there = list(known)
    close = difflib.get_close_matches(name, there, n=3)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"it has {_listed(there)}"
    return f"{type_name(form)} has no field {name!r}; {hint}"


def _listed(names: Iterable[str]) -> str:
    there = list(map(repr, names))
    return (", ".join(there[:5]) + (", …" if len(there) > 5 else "")) or "none"


# -- what is made of parts -----------------------------------------------------------------------------------------


def maker_of(form: Form, names: Iterable[str]) -> Maker:
    """Say how a value of a type is made of parts with these names.

    Raises:
        FieldError: If it cannot be; there is one error for all names.
    """
    wanted = list(names)
    members = list(_members(form))
    makers: list[Maker] = []
    for member in members:
        try:
            makers.append(_maker(member, wanted))
        except FieldError:
            if len(members) == 1:
                raise
    if len(makers) == 1:
        return makers[0]
    which = "more than one" if makers else "none"
    raise FieldError(f"{which} of {type_name(form)} has {_listed(wanted)}, so it is not known what to make")


def _members(form: Form) -> Iterable[Form]:
    """Give what a type may be, without None; a ``NewType`` is made as what it stands for."""
    layer = shape(form)
    if layer.kind is Kind.UNION:
        for member in layer.args:
            yield from _members(member)
    elif layer.kind is Kind.NEW_TYPE:
        yield from _members(layer.args[0])
    elif layer.origin is not NoneType:
        yield form


def _maker(form: Form, names: list[str]) -> Maker:
    layer = shape(form)
    if layer.kind is Kind.ANY or layer.origin is object:
        return Maker(form, dict.fromkeys(names, Any), (), dict, merges=True)
    if layer.kind not in (Kind.TYPED_DICT, Kind.CLASS):
        raise FieldError(f"{type_name(form)} has no fields")
    if _is_mapping(layer):
        if not issubclass(dict, layer.origin):
            raise FieldError(f"{type_name(form)} is not made of parts; take a dict")
        forms = {name: _value_form(form, layer, name) for name in names}
        return Maker(form, forms, (), dict, merges=True)
    fields = None if layer.origin is BaseModel or _is_model(layer, RootModel) else _fields(layer)
    if fields is None:
        raise FieldError(f"{type_name(form)} has no fields")
    return Maker(
        form,
        {name: _part_form(form, layer, fields, name) for name in names},
        tuple(name for name, field in fields.items() if field.required),
        _constructor(layer),
        merges=layer.kind is Kind.TYPED_DICT,
    )


def _part_form(form: Form, layer: Shape, fields: Mapping[str, _Field], name: str) -> Form:
    if name not in fields:
        if _takes_extras(layer):
            return Any
        raise FieldError(_no_field(form, [n for n, field in fields.items() if field.given], name))
    if not fields[name].given:
        raise FieldError(f"the field {name!r} of {type_name(form)} sets itself (init=False)")
    return fields[name].form


def _constructor(layer: Shape) -> Callable[[dict[str, Any]], Any]:
    cls: Any = layer.origin
    if layer.kind is Kind.TYPED_DICT:
        return dict
    if _is_model(layer):
        concrete: Any = cls[layer.args] if layer.args else cls
        return partial(concrete.model_validate, by_alias=False, by_name=True)
    return lambda parts: cls(**parts)


# -- values --------------------------------------------------------------------------------------------------------


def read_value(value: Any, path: Path) -> Any:
    """Give what is at a path of a value.

    Raises:
        FieldError: If there is nothing.
    """
    for depth, name in enumerate(path):
        keyed = as_mapping(value)
        if keyed is not None:
            if name not in keyed:
                raise FieldError(f"{_place(path[:depth])} has no {name!r}; it has {_listed(map(str, keyed))}")
            value = keyed[name]
        elif has_field(value, name):
            value = getattr(value, name)
        else:
            raise FieldError(f"{_place(path[:depth])} is {value_type_name(value)} and has no {name!r}")
    return value


def _place(path: Path) -> str:
    return shown(path) if path else "it"


def has_field(value: Any, name: str) -> bool:
    """Tell whether a value has a field: no method, and nothing private that its type does not declare as a field."""
    cls = class_of(value)
    if not name.startswith("_") and not inspect.isroutine(getattr(cls, name, None)):
        return value is not None and hasattr(value, name)
    layer = shape(cls)
    return layer.kind is Kind.CLASS and name in (_fields(layer) or ())
