"""May a value of one type flow into another: always, never, or that depends on the value.

The graph compiler asks :func:`fits` about every edge. *Never* is an error when compiling; *always* needs no further
thought; on a *may* edge :func:`checker` looks at each value that passes.

Values that flow are read, not written. Four rules follow, and they are what this file decides differently from a
static type checker:

- **Containers and data classes are covariant**: a ``list[bool]`` may be read as a ``list[int]``. Other generic
  classes go by the variance of their type variables; an invariant one fits always if the arguments are equivalent,
  and may fit if they overlap, since no object remembers its arguments.
- **The wider into the narrower may fit**: ``object`` into ``str``, ``Base`` into ``Derived``, ``float`` into ``int``
  (PEP 484 lets an ``int`` pass for a ``float``), ``int`` into a ``NewType`` of it.
- **Unrelated classes never fit** as long as no class exists that inherits from both; two abstract ones may. Likewise a
  class never fits a protocol if neither it nor an heir has the methods; attributes may come with ``__init__``. A
  built-in class or standard container is taken at its word, without heirs. Two ``NewType`` s of one class never fit.
- **The empty container counts for nothing**: ``list[int]`` never fits ``list[str]``, although ``[]`` is both.

Laws (with ``check = checker(b)``): what fits always passes the check; what never fits fails it, save where no value
carries its type (an empty container, a ``NewType``, a callable's signature, the arguments of a plain generic class)
and save what an heir of a built-in class has beyond it.
*Always* is reflexive and transitive. Recursive types are compared by coinduction: a question that comes up again
while it is being answered is answered by yes.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import Any

import typing_extensions as te
from pydantic import BaseModel

from ._types_classes import (
    IS_HEAP_TYPE,
    class_hints,
    has_member,
    heirs_of,
    is_abstract,
    is_data,
    is_protocol,
    is_subclass,
    literals_of,
    may_share_an_heir,
    parameters,
    typed_dict_keys,
    variance,
    view,
)
from ._types_forms import CACHE_SIZE, CALLABLE, Form, Kind, Shape, bindings, is_top, shape, substitute, tuple_items

__all__ = ("Fit", "fits")

_DEPTH = 60


class Fit(Enum):
    """Whether a value of one type may flow into another."""

    ALWAYS = "always"
    NEVER = "never"
    MAY = "may"


def fits(source: Form, target: Form) -> Fit:
    """Decide whether a value of type ``source`` may flow into ``target``.

    Args:
        source: What is given; a type as in an annotation, with its names resolved.
        target: What is wanted.

    Returns:
        ``ALWAYS``, ``NEVER``, or ``MAY`` if it depends on the value.

    Raises:
        TypeError: If one of the two is not a type.
    """
    if source is target:
        return Fit.ALWAYS
    try:
        verdict = _cached_fits(source, target)
    except TypeError:  # a form that cannot be hashed; if it is no type at all, the next line raises again
        return _Comparison().fits(source, target)
    if verdict is Fit.NEVER:  # a class may have got an heir in the meantime
        return _Comparison().fits(source, target)
    return verdict


@lru_cache(maxsize=CACHE_SIZE)
def _cached_fits(source: Form, target: Form) -> Fit:
    return _Comparison().fits(source, target)


def _all(verdicts: Iterable[Fit]) -> Fit:
    """Join the verdicts on parts that must all fit: the worst counts."""
    worst = Fit.ALWAYS
    for verdict in verdicts:
        if verdict is Fit.NEVER:
            return verdict
        if verdict is Fit.MAY:
            worst = verdict
    return worst


def _either(verdicts: Iterable[Fit]) -> Fit:
    """Join the verdicts on alternatives of which one will come: where they differ, it depends."""
    seen: Fit | None = None
    for verdict in verdicts:
        if verdict is Fit.MAY or (seen is not None and seen is not verdict):
            return Fit.MAY
        seen = verdict
    return Fit.ALWAYS if seen is None else seen


def _weaken(verdict: Fit) -> Fit:
    """What was certain to fit now depends on the value."""
    return Fit.NEVER if verdict is Fit.NEVER else Fit.MAY


class _Comparison:
    """One question, and all those that it leads to."""

    def __init__(self) -> None:
        self.open: set[Any] = set()
        """The pairs that are being compared right now, outermost to innermost."""

    def fits(self, source: Form, target: Form) -> Fit:
        if source is target:
            return Fit.ALWAYS
        pair: Any = (source, target)
        try:
            repeated = pair in self.open
        except TypeError:
            pair = (id(source), id(target))
            repeated = pair in self.open
        if repeated:
            return Fit.ALWAYS
        if len(self.open) >= _DEPTH:  # a type that grows with every turn of its recursion
            return Fit.MAY
        self.open.add(pair)
        try:
            return self.decide(source, target)
        finally:
            self.open.discard(pair)

    def decide(self, source: Form, target: Form) -> Fit:  # noqa: C901  one line per rule, in their order
        given, wanted = shape(source), shape(target)
        if given.kind is Kind.NEVER or wanted.kind is Kind.ANY or wanted.origin is object:
            return Fit.ALWAYS
        if wanted.kind is Kind.NEVER:
            return Fit.NEVER
        if given.kind is Kind.UNION:
            return _either(self.fits(member, target) for member in given.args)
        if given.kind is Kind.LITERAL:
            return _either(self.literal(value, target) for value in given.args)
        if wanted.kind is Kind.UNION:
            return self.into_union(source, target)
        if given.kind is Kind.ANY or given.origin is object:
            return Fit.MAY
        if given.kind is Kind.NEW_TYPE or wanted.kind is Kind.NEW_TYPE:
            return self.new_types(source, target)
        if wanted.kind is Kind.LITERAL:
            return self.into_literal(source, target)
        if wanted.kind is Kind.CALLABLE:
            return self.into_callable(given, wanted)
        if wanted.kind is Kind.TYPE:
            return self.into_type(given, wanted)
        if wanted.kind is Kind.TYPED_DICT:
            return self.into_typed_dict(given, wanted)
        if given.kind is Kind.TYPED_DICT:
            return self.typed_dict_as_dict(given, wanted)
        return self.classes(given, wanted)

    # --- alternatives and values -----------------------------------------------------------------------------

    def into_union(self, source: Form, target: Form) -> Fit:
        best = Fit.NEVER
        for member in shape(target).args:
            verdict = self.fits(source, member)
            if verdict is Fit.ALWAYS:
                return verdict
            if verdict is Fit.MAY:
                best = verdict
        values = literals_of(shape(source).origin)
        if best is Fit.MAY and values is not None:  # bool fits Literal[True] | Literal[False]
            return _either(self.literal(value, target) for value in values)
        return best

    def into_literal(self, source: Form, target: Form) -> Fit:
        wanted = shape(target).args
        if all(self.literal(value, source) is Fit.NEVER for value in wanted):
            return Fit.NEVER
        values = literals_of(shape(source).origin)
        return Fit.MAY if values is None else _either(self.literal(value, target) for value in values)

    def literal(self, value: object, target: Form) -> Fit:
        """One value, whose class is exactly known."""
        wanted = shape(target)
        if wanted.kind is Kind.UNION:
            verdicts = {self.literal(value, member) for member in wanted.args}
            return next((fit for fit in (Fit.ALWAYS, Fit.MAY) if fit in verdicts), Fit.NEVER)
        if wanted.kind is Kind.LITERAL:
            same = any(type(value) is type(other) and value == other for other in wanted.args)
            return Fit.ALWAYS if same else Fit.NEVER
        if wanted.kind is Kind.NEW_TYPE:
            return _weaken(self.literal(value, wanted.args[0]))
        verdict = self.fits(type(value), target)
        nominal = wanted.kind is Kind.CLASS and not is_protocol(wanted.origin)
        other = nominal and not is_subclass(type(value), wanted.origin)
        return Fit.NEVER if verdict is Fit.MAY and other else verdict

    def new_types(self, source: Form, target: Form) -> Fit:
        given, wanted = shape(source), shape(target)
        if given.kind is not Kind.NEW_TYPE:
            return _weaken(self.fits(source, wanted.args[0]))
        if wanted.kind is not Kind.NEW_TYPE:
            return self.fits(given.args[0], target)
        if wanted.origin in _ancestry(given):
            return Fit.ALWAYS
        return Fit.MAY if given.origin in _ancestry(wanted) else Fit.NEVER

    # --- callables and classes as values ---------------------------------------------------------------------

    def into_callable(self, given: Shape, wanted: Shape) -> Fit:
        params, result = wanted.args
        if given.kind is Kind.CALLABLE:
            own_params, own_result = given.args
            return _all((self.parameters(own_params, params), self.fits(own_result, result)))
        if given.kind is Kind.TYPE:
            return _all((self.parameters(..., params), self.fits(given.args[0], result)))
        if given.kind is not Kind.CLASS:
            return Fit.NEVER
        if is_subclass(given.origin, CALLABLE):
            return Fit.ALWAYS if params is ... and is_top(result) else Fit.MAY
        return self.reverse(given, Shape(Kind.CLASS, CALLABLE))

    def parameters(self, own: Any, wanted: Any) -> Fit:
        """A callable that takes ``own`` will be called with ``wanted``."""
        if wanted is ...:
            return Fit.ALWAYS
        if own is ...:
            return Fit.MAY
        if len(own) != len(wanted):
            return Fit.NEVER
        return _all(self.fits(passed, taken) for passed, taken in zip(wanted, own, strict=True))

    def into_type(self, given: Shape, wanted: Shape) -> Fit:
        if given.kind is Kind.TYPE:
            return self.fits(given.args[0], wanted.args[0])
        if given.kind is Kind.CALLABLE:
            return Fit.MAY
        if given.kind is not Kind.CLASS:
            return Fit.NEVER
        if is_subclass(given.origin, type):
            return Fit.ALWAYS if is_top(wanted.args[0]) else Fit.MAY
        return self.reverse(given, Shape(Kind.CLASS, type))

    def reverse(self, given: Shape, wanted: Shape) -> Fit:
        """Whether the wider ``given`` may hold something of the narrower ``wanted``; *always* is out of question."""
        if is_protocol(given.origin):
            return _weaken(self.follows(wanted, given))
        related = is_subclass(wanted.origin, given.origin) or may_share_an_heir(given.origin, wanted.origin)
        return Fit.MAY if related else Fit.NEVER

    # --- typed dicts -----------------------------------------------------------------------------------------

    def into_typed_dict(self, given: Shape, wanted: Shape) -> Fit:
        if given.kind is Kind.TYPED_DICT:
            return self.typed_dicts(given, wanted)
        if given.kind is not Kind.CLASS:
            return Fit.NEVER
        if is_subclass(given.origin, dict):
            given = Shape(Kind.CLASS, dict, view(given.origin, given.args, dict) or ())
        return _weaken(self.typed_dict_as_dict(wanted, given))

    def typed_dicts(self, given: Shape, wanted: Shape) -> Fit:
        if given.origin is wanted.origin and not wanted.args:
            return Fit.ALWAYS
        own = _keys(given)
        verdicts: list[Fit] = []
        for name, (form, required) in _keys(wanted).items():
            if name in own:
                mine, certain = own[name]
                verdict = self.fits(mine, form)
                verdicts.append(verdict if certain else _either((verdict, _absent(required))))
            elif required and (_is_closed(given) or not _extends(wanted, given)):
                return Fit.NEVER
            elif not _is_closed(given):
                verdicts.append(Fit.MAY)
        if _is_closed(wanted):
            verdicts.append(_surplus(given, wanted))
        return _all(verdicts)

    def typed_dict_as_dict(self, given: Shape, wanted: Shape) -> Fit:
        """At run time it is a ``dict``, which may hold more than the declared keys."""
        verdicts = [] if _is_closed(given) else [self.classes(_dict_of(object), wanted)]
        for form, certain in _keys(given).values():
            verdict = self.classes(_dict_of(form), wanted)
            verdicts.append(verdict if certain or verdict is not Fit.NEVER else Fit.MAY)
        return _all(verdicts) if verdicts else self.classes(_dict_of(te.Never), wanted)

    # --- classes ---------------------------------------------------------------------------------------------

    def classes(self, given: Shape, wanted: Shape) -> Fit:
        given, wanted = _as_class(given), _as_class(wanted)
        if wanted.origin is abc.Hashable:
            return _hashable(given.origin)
        if is_subclass(given.origin, wanted.origin):
            return self.arguments(view(given.origin, given.args, wanted.origin), wanted)
        if is_protocol(wanted.origin):
            return self.follows(given, wanted)
        if is_subclass(wanted.origin, given.origin):
            seen = view(wanted.origin, wanted.args, given.origin)
            return _weaken(self.arguments(seen, given))
        if is_protocol(given.origin):
            return _weaken(self.follows(wanted, given))
        return Fit.MAY if may_share_an_heir(given.origin, wanted.origin) else Fit.NEVER

    def arguments(self, given: tuple[Form, ...] | None, wanted: Shape) -> Fit:
        """Compare the arguments of one class, given and wanted; ``None`` stands for unknown ones."""
        if wanted.origin is tuple:
            return Fit.MAY if given is None else self.tuples(given, wanted.args)
        if any(isinstance(variable, te.TypeVarTuple) for variable in parameters(wanted.origin)):
            return Fit.ALWAYS if not wanted.args or given == wanted.args else Fit.MAY
        verdicts: list[Fit] = []
        for place, form in enumerate(wanted.args):
            if given is None:
                verdicts.append(Fit.ALWAYS if is_top(form) else Fit.MAY)
            else:
                own = given[place] if place < len(given) else Any
                verdicts.append(self.argument(own, form, variance(wanted.origin, place)))
        return _all(verdicts)

    def argument(self, own: Form, form: Form, variance: int) -> Fit:
        if isinstance(form, list | tuple) or form is ... or isinstance(own, list | tuple) or own is ...:
            return Fit.ALWAYS if own == form or form is ... else Fit.MAY  # what stands for a ParamSpec
        if variance > 0:
            return self.fits(own, form)
        if variance < 0:
            return self.fits(form, own)
        if shape(form).kind is Kind.ANY:
            return Fit.ALWAYS
        if shape(own).kind is Kind.ANY:
            return Fit.MAY
        there, back = self.fits(own, form), self.fits(form, own)
        if Fit.NEVER in {there, back}:
            return Fit.NEVER
        return there if there is back else Fit.MAY

    def tuples(self, given: tuple[Form, ...], wanted: tuple[Form, ...]) -> Fit:
        own, want = tuple_items(given), tuple_items(wanted)
        shortest = len(own[0]) + len(own[2])
        least = len(want[0]) + len(want[2])
        longest = len(own[0]) + len(want[0]) + len(own[2]) + len(want[2]) + 1  # from here on nothing new comes
        first = max(shortest, least, int(own[1] is not None and want[1] is not None))
        last = min(
            longest if own[1] is not None else shortest,
            longest if want[1] is not None else least,
        )
        if first > last:
            return Fit.NEVER
        verdict = _either(
            _all(map(self.fits, _stretch(own, length), _stretch(want, length))) for length in range(first, last + 1)
        )
        other_lengths = own[1] is not None and (want[1] is None or shortest < least)
        return _weaken(verdict) if other_lengths else verdict

    def follows(self, given: Shape, wanted: Shape) -> Fit:
        """Whether a class, or failing that one of its heirs, has what a protocol asks for."""
        verdict = self.members(given, wanted)
        if verdict is Fit.NEVER:
            heirs = (Shape(Kind.CLASS, heir) for heir in heirs_of(given.origin))
            return Fit.MAY if any(self.members(heir, wanted) is not Fit.NEVER for heir in heirs) else Fit.NEVER
        return verdict

    def members(self, given: Shape, wanted: Shape) -> Fit:
        """Whether a class has the members of a protocol: methods by name, annotated attributes by type too."""
        own, asked = class_hints(given.origin), class_hints(wanted.origin)
        bound = bindings(parameters(given.origin), given.args)
        asked_bound = bindings(parameters(wanted.origin), wanted.args)
        verdicts: list[Fit] = []
        for name in te.get_protocol_members(wanted.origin):
            if not has_member(given.origin, name, own, is_attribute=name in asked):
                verdicts.append(_unseen(given.origin, is_method=callable(getattr(wanted.origin, name, None))))
            elif name in own and name in asked:
                form = substitute(asked[name], asked_bound)
                verdicts.append(self.fits(substitute(own[name], bound), form))
            elif not all(map(is_top, wanted.args)):
                verdicts.append(Fit.MAY)
        return _all(verdicts)


def _ancestry(new_type: Shape) -> list[Any]:
    chain: list[Any] = []
    while new_type.kind is Kind.NEW_TYPE:
        chain.append(new_type.origin)
        new_type = shape(new_type.args[0])
    return chain


def _stretch(items: tuple[tuple[Form, ...], Form | None, tuple[Form, ...]], length: int) -> tuple[Form, ...]:
    prefix, rest, suffix = items
    return (*prefix, *[rest] * (length - len(prefix) - len(suffix)), *suffix)


def _keys(typed_dict: Shape) -> dict[str, tuple[Form, bool]]:
    keys = typed_dict_keys(typed_dict.origin)
    variables = parameters(typed_dict.origin)
    if not variables:
        return keys
    bound = bindings(variables, typed_dict.args)
    return {name: (substitute(form, bound), required) for name, (form, required) in keys.items()}


def _absent(required: bool) -> Fit:
    return Fit.NEVER if required else Fit.ALWAYS


def _surplus(given: Shape, wanted: Shape) -> Fit:
    """Whether a ``TypedDict`` may hold only the keys of another, which is closed."""
    surplus = [required for name, (_, required) in _keys(given).items() if name not in _keys(wanted)]
    if any(surplus):
        return Fit.NEVER
    return Fit.ALWAYS if _is_closed(given) and not surplus else Fit.MAY


def _is_closed(typed_dict: Shape) -> bool:
    return bool(getattr(typed_dict.origin, "__closed__", False))


def _extends(narrow: Shape, wide: Shape) -> bool:
    """Whether one ``TypedDict`` has all the keys that another must have."""
    return all(name in _keys(narrow) for name, (_, required) in _keys(wide).items() if required)


def _dict_of(form: Form) -> Shape:
    return Shape(Kind.CLASS, dict, (str, form))


def _as_class(layer: Shape) -> Shape:
    if layer.kind is Kind.TUPLE:
        return Shape(Kind.CLASS, tuple, layer.args)
    if layer.kind is Kind.CALLABLE:
        return Shape(Kind.CLASS, CALLABLE)
    if layer.kind is Kind.TYPE:
        inner = shape(layer.args[0])
        return Shape(Kind.CLASS, type(inner.origin) if isinstance(inner.origin, type) else type)
    return layer


def _unseen(cls: type, *, is_method: bool) -> Fit:
    """Whether an instance may have a member that its class does not show."""
    dynamic = getattr(cls, "__getattr__", None) not in {None, getattr(BaseModel, "__getattr__", None)}
    if is_abstract(cls) or dynamic or type in cls.__mro__:
        return Fit.MAY
    if is_data(cls):
        extra: Any = getattr(cls, "model_config", {})
        fixed = extra.get("extra") != "allow" and not hasattr(cls, "__post_init__")
    else:
        fixed = not cls.__flags__ & IS_HEAP_TYPE
    return Fit.NEVER if is_method or fixed else Fit.MAY  # an attribute may be set by __init__


def _hashable(cls: type) -> Fit:
    """A class that only has the ``__hash__`` of ``object`` may have heirs that are not hashable, as ``list`` is."""
    own: Any = cls.__hash__
    if own is None:
        return Fit.MAY if is_abstract(cls) else Fit.NEVER
    inherited = own is object.__hash__ and cls.__flags__ & IS_HEAP_TYPE
    return Fit.MAY if inherited and not issubclass(cls, type) else Fit.ALWAYS
