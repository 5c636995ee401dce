"""How enums are written: by the names of their members."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, Flag
from functools import lru_cache
from typing import Any, cast

from ._codec_json import Json
from ._codec_names import heir_name, heir_named
from ._codec_part import Part, Refused, class_of, listed, pair, payload, wrong_tree, wrong_value


@lru_cache(maxsize=1024)
def enum_part(cls: type[Enum]) -> Part:
    """Make the part of an enum."""
    if issubclass(cls, Flag):
        return _flag_part(cls)
    members = cls._member_map_  # pyright: ignore[reportPrivateUsage]
    if not members:  # the base of enums
        return Part(
            cls.__name__,
            frozenset({"$is"}),
            (cls,),
            lambda value: encode_enum_heir(cls, value),
            lambda tree: decode_enum_heir(cls, tree),
            heirs=True,
        )

    def encode(value: Any) -> Json:
        if type(value) is not cls:
            raise wrong_value(value, cls.__name__)
        name: str = value._name_
        if members.get(name) is not value:
            raise Refused(f"{value!r} is no member of {cls.__name__}")
        return name

    def decode(tree: Any) -> Any:
        if type(tree) is not str or tree not in members:
            raise Refused(f"{tree!r:.60} is no member of {cls.__name__}, which has {listed(members)}")
        return members[tree]

    return Part(cls.__name__, frozenset({"str"}), (cls,), encode, decode)


def _flag_part(cls: type[Flag]) -> Part:
    """Make the part of a set of flags: the names of those that are set, and what is left over as a number."""
    members: Any = cls._member_map_  # pyright: ignore[reportPrivateUsage]

    def encode(value: Any) -> Json:
        if type(value) is not cls:
            raise wrong_value(value, cls.__name__)
        names = [flag._name_ for flag in value]  # pyright: ignore[reportPrivateUsage]
        rest = value._value_
        for name in names:
            rest &= ~members[name]._value_
        return cast("Json", names if not rest else {"$bits": [names, rest]})

    def decode(tree: Any) -> Any:
        names, bits = pair(tree["$bits"], "flags") if tree.__class__ is dict and "$bits" in tree else (tree, 0)
        if names.__class__ is not list or type(bits) is not int:
            raise wrong_tree(tree, "a list of flags")
        for name in names:
            if type(name) is not str or name not in members:
                raise Refused(f"{name!r:.60} is no member of {cls.__name__}, which has {listed(members)}")
            bits |= members[name]._value_
        found: Any = cls._value2member_map_.get(bits)  # pyright: ignore[reportPrivateUsage]
        found = cls(bits) if found is None else found
        if type(found) is not cls:
            raise wrong_tree(tree, f"flags of {cls.__name__}")
        return found

    return Part(cls.__name__, frozenset({"list", "$bits"}), (cls,), encode, decode)


def encode_enum_heir(base: type, value: Any) -> Json:
    """Write the member of an enum that stands where its base, such as ``str``, is declared."""
    cls = class_of(value)
    if not (issubclass(cls, Enum) and issubclass(cls, base)):
        raise wrong_value(value, base.__name__)
    return {"$is": [heir_name(base, cls), enum_part(cls).encode(value)]}


def decode_enum_heir(bases: type | Iterable[type], tree: Any) -> Any:
    """Read what :func:`encode_enum_heir` wrote."""
    wanted = (bases,) if isinstance(bases, type) else tuple(bases)
    name, content = pair(payload(tree, "$is", f"a {wanted[0].__name__}"), "a name and a member")
    for base in wanted[:-1]:
        try:
            cls = heir_named(base, name)
            break
        except Refused:
            continue
    else:
        cls = heir_named(wanted[-1], name)
    if not issubclass(cls, Enum):
        raise Refused(f"{cls.__name__} is no enum")
    return enum_part(cls).decode(content)
