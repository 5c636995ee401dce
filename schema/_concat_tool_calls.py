"""Fragments of tool calls: which of them belong to one call, and the whole calls that they make.

Servers differ in what they send with every fragment, so no single key will do. The fragments are taken in the order
in which they came, and each either continues a call or starts one:

======================================================  =========================================================
the fragment has                                        it belongs to
======================================================  =========================================================
an index                                                the last call of that index
no index, an id                                         the last call of that id; if there is none, it starts one
no index, no id, a name                                 the last call without index if that is its name and its
                                                        arguments are not complete; else it starts one
no index, no id, no name                                the last call, whichever
======================================================  =========================================================

A fragment that has a name starts a *new* call beside the one it would belong to

* when both have an id and these differ,
* when its name is another one and the call has got arguments already, and
* when the call's arguments are a complete JSON object and the fragment brings a further one (the same one, under the
  same id, is the whole call sent once more: it adds nothing).

A fragment without a name never starts a call of an index that has one, not even with another id: some servers make up
a fresh id for every fragment. The first id counts.

Names: an equal one is a repetition, a longer one that begins with what is there replaces it (cumulative reports), and
any other that comes before the first argument is the next piece of the name. Arguments are joined and never judged:
whether they are valid JSON is for whoever runs the call.

The calls without index come first, in the order of their first fragments, then the others by index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from ._concat_policy import Policies, merge_extras
from ._frozen import EMPTY
from ._message import ToolCall, build_call
from .errors import ConcatError

__all__ = ()


class _Call:
    """A call that is being put together."""

    __slots__ = ("arguments", "extras", "id", "index", "name")

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.extras: list[Mapping[str, Any]] = []

    def add(self, fragment: ToolCall) -> None:
        """Take what the fragment brings."""
        if fragment.id and not self.id:
            self.id = fragment.id
        if fragment.name:
            self.name = self.name if self.arguments and self.name else _join_name(self.name, fragment.name)
        if fragment.arguments and not self.has_all(fragment):
            self.arguments.append(fragment.arguments)
        if fragment.extra:
            self.extras.append(fragment.extra)

    def is_complete(self) -> bool:
        """Whether the arguments so far are a whole JSON object."""
        # The cheap test comes first: this is asked for every fragment of a server that repeats the name.
        end = next((piece for piece in reversed(self.arguments) if not piece.isspace()), "")
        if not end.rstrip().endswith("}"):
            return False
        self.arguments = ["".join(self.arguments)]
        try:
            return isinstance(from_json(self.arguments[0]), dict)
        except ValueError:
            return False

    def has_all(self, fragment: ToolCall) -> bool:
        """Whether a fragment only sends the whole call once more: its id, and all of its arguments."""
        if not self.id or self.id != fragment.id or not _opens_object(fragment) or not self.is_complete():
            return False
        return self.arguments[0].strip() == fragment.arguments.strip()

    def build(self, policies: Policies) -> ToolCall:
        extra = merge_extras(self.extras, policies) if self.extras else EMPTY
        return build_call(self.id, self.name, "".join(self.arguments), self.index, extra)


class _Assembly:
    """The calls so far, and by what a further fragment finds the one that it belongs to."""

    __slots__ = ("_by_id", "_by_index", "_last", "_last_plain", "calls")

    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._last: _Call | None = None  # the call that the fragment before belonged to
        self._last_plain: _Call | None = None  # the same among the calls without index

    def add(self, fragment: ToolCall) -> None:
        """Give the fragment to the call that it continues, or start one with it."""
        call = self._find(fragment)
        starts = call is None
        if call is None:
            call = _Call(fragment.index)
            self.calls.append(call)
        if fragment.index is not None:
            self._by_index[fragment.index] = call
        if fragment.id and (starts or fragment.id not in self._by_id):
            self._by_id[fragment.id] = call
        if call.index is None:
            self._last_plain = call
        self._last = call
        call.add(fragment)

    def _find(self, fragment: ToolCall) -> _Call | None:
        """Find the call that a fragment continues; ``None`` if it starts one."""
        if fragment.index is not None:
            call = self._by_index.get(fragment.index)
        elif fragment.id:
            call = self._by_id.get(fragment.id) or self._find_without_id(fragment)
        elif fragment.name:
            call = self._last_plain
            return call if call is not None and _repeats(call, fragment) else None
        else:
            return self._last
        return None if call is None or (fragment.name and _starts_call(call, fragment)) else call

    def _find_without_id(self, fragment: ToolCall) -> _Call | None:
        """Find the call whose id comes only now, after its name."""
        call = self._last_plain
        return None if call is None or call.id or fragment.name else call


def join_calls(fragments: Sequence[ToolCall], policies: Policies) -> tuple[ToolCall, ...]:
    """Make whole calls of the fragments, in the order in which they came.

    Args:
        fragments: The tool calls of all chunks of one message.
        policies: The policies for keys of ``extra``.

    Returns:
        The calls. One whose name never came has none.

    Raises:
        ConcatError: A fragment contradicts the call that it belongs to.
    """
    whole = _assemble(fragments, policies)
    # Whole calls that look as if they belonged together do, or a further concatenation would give something else.
    while len(whole) > 1 and len(again := _assemble(whole, policies)) < len(whole):
        whole = again
    return tuple(whole)


def _assemble(fragments: Sequence[ToolCall], policies: Policies) -> list[ToolCall]:
    assembly = _Assembly()
    for fragment in fragments:
        if not _is_empty(fragment):
            assembly.add(fragment)
    whole = [call.build(policies) for call in assembly.calls]
    whole.sort(key=lambda call: (call.index is not None, call.index or 0))
    return whole


def _is_empty(fragment: ToolCall) -> bool:
    """Whether a fragment says nothing, an index apart."""
    return not (fragment.id or fragment.name or fragment.arguments or fragment.extra)


def keep_fragments(fragments: Sequence[ToolCall], policies: Policies) -> tuple[ToolCall, ...]:
    """Make the fragments fewer without deciding anything that a fragment before them could change.

    Neighbours of one index (or both without) that bring arguments only are joined: they belong to one call, whichever.
    """
    kept: list[ToolCall] = []
    run: _Call | None = None
    for fragment in fragments:
        if _is_empty(fragment):
            continue
        if fragment.id or fragment.name:
            if run is not None:
                kept.append(run.build(policies))
                run = None
            kept.append(fragment)
            continue
        if run is not None and run.index != fragment.index:
            kept.append(run.build(policies))
            run = None
        if run is None:
            run = _Call(fragment.index)
        run.add(fragment)
    if run is not None:
        kept.append(run.build(policies))
    return tuple(kept)


def require_heads(calls: Sequence[ToolCall]) -> None:
    """Refuse a fragment that says in no way which call it belongs to, when no call came before it."""
    for call in calls:
        if call.index is None and not call.id and not call.name:
            shown = call.arguments if len(call.arguments) <= 40 else call.arguments[:40] + "…"
            raise ConcatError(
                f"the tool-call fragment with arguments {shown!r} fits nowhere: it has no index, no id and no name, "
                "and no call came before it; if more chunks belong in front of these, use concat(..., partial=True)"
            )


def _starts_call(call: _Call, fragment: ToolCall) -> bool:
    """Whether a named fragment is the first of a new call beside the one of its index or id."""
    if call.id and fragment.id and call.id != fragment.id:
        return True
    if not call.arguments:
        return False
    same_id = bool(call.id) and call.id == fragment.id
    if fragment.name == call.name:
        return _opens_object(fragment) and call.is_complete() and not call.has_all(fragment)
    if same_id and not call.name:
        return False
    if same_id and not call.is_complete():
        raise ConcatError(
            f"the tool call {call.id!r} is named {call.name!r} and then, within its arguments, {fragment.name!r}; "
            "the model that streams it has mixed up two calls"
        )
    return True


def _repeats(call: _Call, fragment: ToolCall) -> bool:
    """Whether a fragment that has a name only goes on with the last call instead of starting one."""
    if not call.name:
        return not call.arguments
    return fragment.name == call.name and not (_opens_object(fragment) and call.is_complete())


def _opens_object(fragment: ToolCall) -> bool:
    return fragment.arguments.lstrip().startswith("{")


def _join_name(known: str, more: str) -> str:
    """Put a name together: a repetition and a cumulative report are not glued on, a further piece is."""
    if more.startswith(known):
        return more
    return known + more
