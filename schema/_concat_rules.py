"""The built-in rules of concatenation, by type, and the walk through nested values.

A rule gets the values of one place (none of them ``None``), and what was declared for that place. It never changes
them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, is_dataclass
from dataclasses import fields as dataclass_fields
from datetime import date, time, timedelta, tzinfo
from enum import Enum
from functools import lru_cache
from numbers import Number
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from typing_extensions import is_typeddict

from ._concat_message import concat_messages
from ._concat_parts import join_parts, join_same_part
from ._concat_policy import First, Last, Max, Merge, Min, Policies, Policy, merge_extras
from ._concat_tool_calls import join_calls
from ._message import Message, ToolCall
from ._parts import (
    AudioPart,
    FilePart,
    ImagePart,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolResultPart,
    VideoPart,
)
from ._usage import Usage, concat_usage
from .errors import ConcatError

__all__ = ()

# The values that pass through here are of any type: that is what the module is for.
Values = Sequence[Any]


class Declared:
    """What the annotation of a place says about its values.

    Args:
        hint: Their type, without ``Annotated`` and ``None``; ``None`` if nothing is known.
        policy: The policy declared for them.
    """

    __slots__ = ("hint", "policy")  # a named tuple would take its time at import

    def __init__(self, hint: Any = None, policy: Policy | None = None) -> None:
        self.hint = hint
        self.policy = policy


UNDECLARED = Declared()


class Rule:
    """How the values of some types come together.

    Args:
        family: What kind of values it takes; values of different families do not mix.
        join: Makes one value of one or more.
    """

    __slots__ = ("family", "join")

    def __init__(self, family: str, join: Callable[[Walk, Values, Declared], Any]) -> None:
        self.family: str = family
        self.join: Callable[[Walk, Values, Declared], Any] = join


class Walk:
    """One concatenation: what holds for it at every depth."""

    __slots__ = ("find_rule", "partial", "policies")

    def __init__(self, find_rule: Callable[[type[Any]], Rule | None], policies: Policies, partial: bool) -> None:
        self.find_rule = find_rule
        self.policies = policies
        self.partial = partial

    def join(self, values: Values, declared: Declared = UNDECLARED) -> Any:
        """Make one value of those of one place. ``None`` is neutral."""
        present = [value for value in values if value is not None]
        if not present:
            return None
        if declared.policy is not None and declared.policy is not Merge:
            return declared.policy(present)
        kinds = set(map(type, present))
        if kinds == _MESSAGE_ONLY:
            return concat_messages(present, self.policies, self.partial)
        rule = self.find_common_rule(present, kinds)
        return present[0] if rule is None else rule.join(self, present, declared)

    def find_common_rule(self, values: Values, kinds: set[type[Any]]) -> Rule | None:
        """Find the rule that takes all these values; ``None`` if there is but one value, and no rule for it."""
        rules = {kind: self.find_rule(kind) for kind in kinds}
        families = {None if rule is None else rule.family for rule in rules.values()}
        if len(families) > 1:
            names = [type(value).__name__ for value in values]
            shown = " and ".join(f"{name} (chunk {names.index(name)})" for name in dict.fromkeys(names))
            raise ConcatError(f"the chunks are of types that do not mix: {shown}; give chunks of one type")
        rule = next(iter(rules.values()))
        if rule is None and len(values) > 1:
            name = type(values[0]).__name__
            raise ConcatError(
                f"{len(values)} chunks of type {name} do not make one: there is no rule for it; "
                f"say how with default_registry.register({name}, rule), or declare a policy for the field"
            )
        return rule


def read_hint(hint: Any) -> Declared:
    """Read what an annotation says: a policy, and the type without ``Annotated`` and ``None``."""
    policy: Policy | None = None
    while True:
        origin = get_origin(hint)
        if origin is Annotated:
            hint, *notes = get_args(hint)
            policy = policy or next((note for note in notes if isinstance(note, Policy)), None)
        elif origin is Union or origin is UnionType:
            options = [option for option in get_args(hint) if option is not NoneType]
            if len(options) != 1:
                return Declared(None, policy)
            hint = options[0]
        elif hasattr(hint, "__supertype__"):  # a NewType
            hint = hint.__supertype__
        elif hasattr(hint, "__value__"):  # an alias made by a type statement, or by TypeAliasType
            hint = hint.__value__
        else:
            break
    if policy is None and (origin is Literal or (isinstance(hint, type) and issubclass(hint, Enum))):
        policy = Last
    return Declared(hint, policy)


def find_special_rule(kind: Any) -> Rule | None:
    """Find the rule of a type that its registered bases would lead astray."""
    if issubclass(kind, Enum):
        return Rule(_full_name(kind), _join_last)
    if _is_named_tuple(kind):
        return Rule(_full_name(kind), _join_named_tuples)
    if kind.__name__ == "ToolResult" and kind.__module__ == f"{__package__}._tool_result":
        return Rule("ToolResult", _join_tool_results)  # known by name: importing it here would be a circle
    return None


def _is_named_tuple(kind: Any) -> bool:
    return hasattr(kind, "_make") and issubclass(kind, tuple)


def find_structural_rule(kind: type[Any]) -> Rule | None:
    """Find the rule of a type that none of its bases is registered for."""
    if is_dataclass(kind):
        return Rule(_full_name(kind), _join_dataclasses)
    if issubclass(kind, Mapping):
        return _DICT
    if issubclass(kind, Number):
        return _NUMBER
    if kind.__module__ == "uuid":
        return Rule(_full_name(kind), _join_last)
    return None


def _full_name(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _join_last(_walk: Walk, values: Values, _declared: Declared) -> Any:
    return values[-1]


def _join_text(_walk: Walk, values: Values, _declared: Declared) -> str:
    return "".join(values)


def _join_bytes(_walk: Walk, values: Values, _declared: Declared) -> Any:
    return type(values[0])().join(values)


def _join_sets(_walk: Walk, values: Values, _declared: Declared) -> Any:
    return type(values[0])().union(*values)


def _join_tuples(_walk: Walk, values: Values, _declared: Declared) -> tuple[Any, ...]:
    return tuple(item for value in values for item in value)


# --- lists -----------------------------------------------------------------------------------------------------------


def _join_lists(walk: Walk, values: Values, declared: Declared) -> list[Any]:
    if _are_slots(values, declared.hint):
        return _join_slots(walk, values)
    return [item for value in values for item in value]


def _are_slots(values: Values, hint: Any) -> bool:
    """Whether lists have a place for each message of several, rather than items to append.

    The declared type decides; without one, the items do. A list of nothing but ``None`` could be either, so it only
    says that the others must be slots too: otherwise the answer would depend on how the stream was cut.
    """
    item = read_hint(get_args(hint)[0]).hint if get_origin(hint) is list else None
    if item is not None and item is not Any and item is not object and not isinstance(item, TypeVar):
        return isinstance(item, type) and issubclass(item, Message)
    kinds = {all(item is None or isinstance(item, Message) for item in value) for value in values if value}
    if len(kinds) > 1:
        raise ConcatError(
            "some chunks are lists of messages (or of nothing but None), which are put together place by place, and "
            "some are lists of other things, which are appended; say which with concat(..., of=list[...])"
        )
    return True in kinds


def _join_slots(walk: Walk, values: Values) -> list[Any]:
    filled = [(number, value) for number, value in enumerate(values) if value]
    if not filled:
        return []
    width = len(filled[0][1])
    for number, value in filled:
        if len(value) != width:
            raise ConcatError(
                f"chunk {filled[0][0]} has places for {width} messages and chunk {number} for {len(value)}; lists of "
                "messages are put together place by place (declare Append for a field to have them appended)"
            )
    return [walk.join([value[place] for _, value in filled]) for place in range(width)]


# --- dicts and records -----------------------------------------------------------------------------------------------


def _join_dicts(walk: Walk, values: Values, declared: Declared) -> dict[Any, Any]:
    known = _typed_dict_hints(declared.hint) if is_typeddict(declared.hint) else {}
    others = _value_hint(declared.hint)
    collected: dict[Any, list[Any]] = {}
    for value in values:
        for key, item in value.items():
            collected.setdefault(key, []).append(item)
    return {key: _join_at(walk, f"key {key!r}", items, known.get(key, others)) for key, items in collected.items()}


def _join_at(walk: Walk, where: str, values: Values, declared: Declared) -> Any:
    """Join the values of a key or field; an error says at which."""
    try:
        return walk.join(values, declared)
    except ConcatError as error:
        raise ConcatError(f"{where}: {error}") from error


def _value_hint(hint: Any) -> Declared:
    arguments = get_args(hint)
    return read_hint(arguments[1]) if len(arguments) == 2 else UNDECLARED


def _kind(value: Any) -> Any:
    """Take a value's type; what the library does not know, the checkers cannot know either."""
    return value.__class__


def _join_models(walk: Walk, values: Values, _declared: Declared, **done: Any) -> Any:
    """Join pydantic models over the fields that were set: what was left at its default says nothing."""
    kind = _kind(values[0])
    other = next((_kind(value) for value in values if type(value) is not kind), None)
    if other is not None:
        raise ConcatError(f"the chunks are models of two classes, {kind.__name__} and {other.__name__}")
    update: dict[str, Any] = {}
    for name, declared in _model_hints(kind).items():
        given = [getattr(value, name) for value in values if name in value.model_fields_set]
        if given and name not in done:
            update[name] = _join_at(walk, f"field {name!r}", given, declared)
    extras = [value.__pydantic_extra__ for value in values if value.__pydantic_extra__]
    if extras:
        update.update(_join_dicts(walk, extras, UNDECLARED))
    return values[0].model_copy(update={**update, **done})


def _join_dataclasses(walk: Walk, values: Values, _declared: Declared) -> Any:
    kind = _kind(values[0])
    hints = _class_hints(kind)
    new = copy.copy(values[0])
    for field in dataclass_fields(kind):
        given = [getattr(value, field.name) for value in values]
        default = field.default
        if default is MISSING and field.default_factory is not MISSING:
            default = field.default_factory()
        joined = _join_field(walk, field.name, given, hints.get(field.name, UNDECLARED), default)
        object.__setattr__(new, field.name, joined)
    return new


def _join_named_tuples(walk: Walk, values: Values, _declared: Declared) -> Any:
    kind = _kind(values[0])
    hints = _class_hints(kind)
    return kind._make(
        _join_field(walk, name, given, hints.get(name, UNDECLARED), kind._field_defaults.get(name, MISSING))
        for name, given in zip(kind._fields, map(list, zip(*values, strict=True)), strict=True)
    )


def _join_field(walk: Walk, name: str, given: Values, declared: Declared, default: Any) -> Any:
    """Join the values of a field of which nobody knows whether it was set: a default does not displace a value."""
    if default is not MISSING and _selects(walk, given, declared):
        given = [value for value in given if value != default] or [default]
    return _join_at(walk, f"field {name!r}", given, declared)


def _selects(walk: Walk, given: Values, declared: Declared) -> bool:
    """Whether joining picks one of the values instead of adding them up."""
    if declared.policy is not None:
        return declared.policy in (Last, First, Max, Min)
    kinds = {_kind(value) for value in given if value is not None}
    rules = [walk.find_rule(kind) for kind in kinds]
    return all(rule is not None and rule.join is _join_last for rule in rules)


def _join_tool_results(walk: Walk, values: Values, declared: Declared) -> Any:
    return _join_models(
        walk,
        values,
        declared,
        parts=join_parts([value.parts for value in values], walk.policies),
        is_error=any(value.is_error for value in values),
        extra=merge_extras([value.extra for value in values], walk.policies),
    )


# --- messages and what they are made of ------------------------------------------------------------------------------


def _join_messages(walk: Walk, values: Values, declared: Declared) -> Any:
    """Join messages of one subclass: the message's own fields by their rules, the others as of any model."""
    whole = concat_messages(values, walk.policies, walk.partial)
    if type(values[0]) is Message:
        return whole
    return _join_models(walk, values, declared, **whole.__dict__)


def _join_same_parts(walk: Walk, values: Values, _declared: Declared) -> Any:
    return join_same_part(cast("Sequence[Part]", values), walk.policies)


def _join_calls(walk: Walk, values: Values, _declared: Declared) -> Any:
    calls = join_calls(values, walk.policies)
    if len(calls) > 1:
        raise ConcatError(f"the chunks make {len(calls)} tool calls, not one; stream them as messages")
    return calls[0] if calls else values[0]


def _join_usages(_walk: Walk, values: Values, _declared: Declared) -> Any:
    return concat_usage(values)


# --- what is declared ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _model_hints(kind: Any) -> dict[str, Declared]:
    hints: dict[str, Declared] = {}
    for name, field in kind.model_fields.items():
        declared = read_hint(field.annotation)
        policy = next((note for note in field.metadata if isinstance(note, Policy)), declared.policy)
        hints[name] = Declared(declared.hint, policy)
    return hints


@lru_cache(maxsize=512)
def _class_hints(kind: Any) -> dict[str, Declared]:
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError as error:
        if any("Annotated" in str(note) for note in kind.__annotations__.values()):
            raise ConcatError(
                f"the policies of {kind.__name__} cannot be read: {error}; "
                "define the types that it names where they can be found, at the top of a module"
            ) from error
        return {}
    return {name: read_hint(hint) for name, hint in hints.items()}


@lru_cache(maxsize=512)
def _typed_dict_hints(kind: Any) -> dict[str, Declared]:
    return {name: read_hint(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}


_MESSAGE_ONLY = {Message}
_NUMBER = Rule("number", _join_last)
_DICT = Rule("dict", _join_dicts)
_PARTS = (TextPart, ImagePart, AudioPart, VideoPart, FilePart, ReasoningPart, ToolResultPart, ProviderPart)

BUILT_IN: dict[type[Any], Rule] = {
    str: Rule("str", _join_text),
    bytes: Rule("bytes", _join_bytes),
    bytearray: Rule("bytearray", _join_bytes),
    int: _NUMBER,
    float: _NUMBER,
    complex: _NUMBER,
    date: Rule("date", _join_last),
    time: Rule("time", _join_last),
    timedelta: Rule("timedelta", _join_last),
    tzinfo: Rule("tzinfo", _join_last),
    list: Rule("list", _join_lists),
    tuple: Rule("tuple", _join_tuples),
    set: Rule("set", _join_sets),
    frozenset: Rule("frozenset", _join_sets),
    dict: _DICT,
    BaseModel: Rule("model", _join_models),
    Message: Rule("Message", _join_messages),
    ToolCall: Rule("ToolCall", _join_calls),
    Usage: Rule("Usage", _join_usages),
    **{kind: Rule(kind.__name__, _join_same_parts) for kind in _PARTS},
}

NEUTRAL: dict[type[Any], Callable[[], Any]] = {
    **{kind: kind for kind in (str, bytes, bytearray, list, tuple, set, frozenset, dict)},
    Message: lambda: Message.assistant(""),
}
