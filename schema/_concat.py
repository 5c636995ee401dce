"""Concatenation: the one value that the chunks of a stream make.

For every type the same laws hold:

* *associative*: the chunks may be put together in any grouping,
* *neutral*: the empty chunk of a type, and ``None``, change nothing,
* *normal*: one chunk is brought into the same form as many,
* nothing that a chunk says is lost, and no chunk is changed.

What decides is the type of the values, not what was declared, so ``Any`` and unions work:

==========================  ==================================================================================
type of the chunks          the value
==========================  ==================================================================================
``str``, ``bytes``          joined
numbers, ``bool``           the last one; ``int``, ``float`` and the like may be mixed
dates, times, enums, UUIDs  the last one
``list``, ``tuple``         one after the other
``list`` of messages        slot by slot: each chunk has a place for every message, ``None`` where it adds nothing
``set``, ``frozenset``      the union
``dict``, mappings          key by key, in the order of their first appearance, each by the type of its values
pydantic models             field by field, over the fields that were set
dataclasses, named tuples   field by field; where the last, first, largest or smallest counts, a default is not a value
:class:`Message`            see ``_concat_message``, ``_concat_parts``, ``_concat_tool_calls``
:class:`ToolResult`         its parts as those of a message
anything else               a single chunk as it is; several are an error until a rule is registered
==========================  ==================================================================================

A field declares another policy with ``Annotated[str, Last]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast, get_origin

from typing_extensions import is_typeddict

from ._concat_policy import Append, Merge, Policies, Policy
from ._concat_rules import (
    BUILT_IN,
    NEUTRAL,
    Declared,
    Rule,
    Values,
    Walk,
    find_special_rule,
    find_structural_rule,
    read_hint,
)
from .errors import ConcatError, EmptyStreamError

__all__ = ("ConcatRegistry", "concat", "default_registry")

T = TypeVar("T")


class ConcatRegistry:
    """Rules for types, and policies for the keys of ``extra``.

    There is one for the whole process, :data:`default_registry`. Another one falls back to it for what it does not
    say itself, and may say something else about the same type.

    Args:
        parent: Where to look for what is not registered here; the default registry if not given.

    Example:
        >>> registry = ConcatRegistry()
        >>> registry.register(complex, sum)
        >>> concat([1 + 1j, 2 + 0j], registry)
        (3+1j)
    """

    def __init__(self, parent: ConcatRegistry | None = None) -> None:
        self._rules: dict[type[Any], Rule] = {}
        self._neutral: dict[type[Any], Callable[[], Any]] = {}
        self._keys: dict[str, Policy] = {}
        self._chain: tuple[ConcatRegistry, ...] = (self, *(parent or default_registry)._chain)

    @classmethod
    def built_in(cls) -> ConcatRegistry:
        """Make a registry that holds the built-in rules and falls back to no other."""
        registry = cls.__new__(cls)
        registry._rules = dict(BUILT_IN)
        registry._neutral = dict(NEUTRAL)
        registry._keys = dict.fromkeys(("annotations", "citations", "logprobs"), Append)
        registry._chain = (registry,)
        return registry

    def register(
        self,
        kind: type[T],
        rule: Callable[[Sequence[T]], T],
        *,
        neutral: Callable[[], T] | None = None,
    ) -> None:
        """Say how chunks of a type make one value.

        Args:
            kind: The type; its subclasses count too, unless they have a rule of their own.
            rule: Makes one value of one or more, none of them ``None``. It must be associative, and change none.
            neutral: Makes the value of an empty stream of this type, if it has one.

        Raises:
            ConcatError: The type has a rule in this registry already.
        """
        if kind in self._rules:
            raise ConcatError(
                f"{kind.__name__} has a rule in this registry already; "
                "for another one in some places, make a ConcatRegistry of your own and pass it there"
            )
        self._rules[kind] = Rule(f"{kind.__module__}.{kind.__qualname__}", _guarded(kind, rule))
        if neutral is not None:
            self._neutral[kind] = neutral

    def declare_key(self, key: str, policy: Policy) -> None:
        """Say how the values of a key of ``extra`` come together, in messages, parts and tool calls.

        Args:
            key: The key. In :attr:`ProviderPart.data` it counts too.
            policy: :data:`Append` for a list that comes in pieces, :data:`Join` for text, and so on.

        Raises:
            ConcatError: The key has a policy in this registry already.
        """
        if key in self._keys:
            raise ConcatError(f"the key {key!r} has a policy in this registry already: {self._keys[key]}")
        if policy is Merge:
            policy = Policy("Merge", lambda values: concat(values, self))
        self._keys[key] = policy

    @property
    def policies(self) -> Policies:
        """The policies for keys that hold here, those of the registries behind this one included."""
        found: dict[str, Policy] = {}
        for registry in reversed(self._chain):
            found.update(registry._keys)
        return found

    def find_rule(self, kind: type[Any]) -> Rule | None:
        """Find the rule for a type: its own, else that of its nearest base that has one."""
        rule = self._find_own(kind) or find_special_rule(kind)
        if rule is not None:
            return rule
        for base in kind.__mro__[1:-1]:
            rule = self._find_own(base)
            if rule is not None:
                return rule
        return find_structural_rule(kind)

    def find_neutral(self, kind: type[Any]) -> Callable[[], Any] | None:
        """Find what makes the value of an empty stream of a type."""
        for registry in self._chain:
            if kind in registry._neutral:
                return registry._neutral[kind]
        return None

    def _find_own(self, kind: type[Any]) -> Rule | None:
        for registry in self._chain:
            rule = registry._rules.get(kind)
            if rule is not None:
                return rule
        return None


def concat(
    chunks: Iterable[T], registry: ConcatRegistry | None = None, *, of: object = None, partial: bool = False
) -> T:
    """Make the one value that the chunks of a stream stand for.

    Args:
        chunks: The chunks, in order. ``None`` among them changes nothing.
        registry: The rules; the process-wide ones if not given.
        of: The declared type, such as ``list[Message]``, where the chunks alone do not tell: for an empty stream, and
            for lists. ``Annotated`` policies in it count.
        partial: Whether this is only a piece of a stream, which more chunks may come in front of. The result stands
            for these chunks in a further ``concat``; fragments of tool calls stay fragments. Without it, the result
            is final.

    Returns:
        A new value; where there is a single chunk, it is brought into the same form as many.

    Raises:
        ConcatError: The chunks do not make one value; the text says which, where, and why.
        EmptyStreamError: There is no chunk, and no neutral element is known.

    Example:
        >>> concat(["tid", "es"])
        'tides'
        >>> concat([{"text": "a", "n": 1}, {"text": "b", "n": None}])
        {'text': 'ab', 'n': 1}
    """
    if registry is not None and not isinstance(registry, ConcatRegistry):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"registry= takes a ConcatRegistry, got {registry!r}; a type is given as of=")
    rules = registry or default_registry
    values: Values = list(chunks)
    declared = Declared() if of is None else read_hint(of)
    walk = Walk(rules.find_rule, rules.policies, partial)
    return cast("T", walk.join(values, declared) if values else _make_neutral(rules, of, declared))


def _make_neutral(registry: ConcatRegistry, of: object, declared: Declared) -> Any:
    kind: Any = dict if is_typeddict(declared.hint) else get_origin(declared.hint) or declared.hint
    make = registry.find_neutral(kind) if kind is not None else None
    if make is not None:
        return make()
    what = "nothing says of which type" if of is None else f"{getattr(of, '__name__', of)} has no neutral element"
    raise EmptyStreamError(
        f"the stream ended without a chunk, and {what}; send a chunk, or register the type with neutral=..."
    )


def _guarded(kind: type[T], rule: Callable[[Sequence[T]], T]) -> Callable[[Walk, Values, Declared], Any]:
    """Call a registered rule so that whatever it raises says where it comes from."""

    def join(_walk: Walk, values: Values, _declared: Declared) -> Any:
        try:
            return rule(values)
        except ConcatError:
            raise
        except Exception as error:
            raise ConcatError(f"the rule registered for {kind.__name__} failed: {error}") from error

    return join


default_registry: ConcatRegistry = ConcatRegistry.built_in()
"""The rules of this process. What is registered here holds wherever no other registry is passed."""
