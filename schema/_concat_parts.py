"""Fragments of content parts: which of them belong together, and the parts that they make.

* The first part of a chunk continues the part before it, if both have no index and the two can be joined. Within one
  chunk such neighbours stay apart: whoever made a message of two texts meant two.
* Parts of one index are one block, wherever they stand. They are of one kind; within the block they are joined
  where they can be, and else stay apart, in their order.
* Blocks stand in the order of their index; a part without index is a border that no block crosses.
* A part that says nothing (no text, no data, no extra) vanishes.

What can be joined to what:

=================  ===================================================================================================
kind               joined when
=================  ===================================================================================================
text               always
reasoning          the first has no signature yet: a block that has its signature is complete
audio              both are bare data, and the second names no other type than the first
image, video,      as audio, but only within one index: without one, each is a picture, a film, a file of its own
file
provider           within one index, of one provider and type: ``text`` is joined, of ``data`` the last values count
tool_result        within one index, with the same call id: the contents one after the other
=================  ===================================================================================================

``extra`` is merged key by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from ._concat_policy import Policies, merge_extras
from ._frozen import EMPTY
from ._parts import AudioPart, MediaPart, Part, ProviderPart, ReasoningPart, ResultPart, TextPart, ToolResultPart
from .errors import ConcatError

__all__ = ()

PartT = TypeVar("PartT", bound=BaseModel)

_set = object.__setattr__


class _Run:
    """Neighbouring fragments that make one part."""

    __slots__ = ("first", "more", "signed")

    def __init__(self, first: Part) -> None:
        self.first = first
        self.more: list[Part] = []
        self.signed = isinstance(first, ReasoningPart) and bool(first.signature)

    def takes(self, part: Part) -> bool:
        """Whether the fragment continues this part."""
        first = self.first
        if type(part) is not type(first):
            return False
        if isinstance(part, TextPart):
            return True
        if isinstance(part, ReasoningPart):
            return not self.signed
        if isinstance(part, MediaPart):
            return _continues_medium(cast("MediaPart", first), part)
        if part.index is None:
            return False
        if isinstance(part, ProviderPart):
            known = cast("ProviderPart", first)
            return (known.provider, known.type) == (part.provider, part.type)
        return part.tool_call_id == cast("ToolResultPart", first).tool_call_id

    def add(self, part: Part) -> None:
        self.more.append(part)
        if isinstance(part, ReasoningPart) and part.signature:
            self.signed = True

    def build(self, policies: Policies) -> Part:
        first = self.first
        if not self.more and not _has_policy(first, policies):
            return first
        return _BUILD.get(type(first), _build_medium)([first, *self.more], policies)


def join_parts(chunks: Iterable[Iterable[Part]], policies: Policies) -> tuple[Part, ...]:
    """Make whole parts of the fragments, in the order in which they came.

    Args:
        chunks: The parts of each chunk of one message.
        policies: The policies for keys of ``extra``.

    Returns:
        The parts that they make.

    Raises:
        ConcatError: Two parts of one index are not of one kind.
    """
    # A stretch is a part without index, or the blocks (by index) between two such parts.
    stretches: list[_Run | dict[int, list[_Run]]] = []
    blocks: dict[int, list[_Run]] = {}
    for chunk in chunks:
        is_first = True
        for part in chunk:
            if is_empty_part(part):
                continue
            if part.index is None:
                before = stretches[-1] if is_first and stretches else None
                if isinstance(before, _Run) and before.takes(part):
                    before.add(part)
                else:
                    stretches.append(_Run(part))
            elif (block := blocks.get(part.index)) is not None:
                _add_to_block(block, part)
            else:
                if not stretches or isinstance(stretches[-1], _Run):
                    stretches.append({})
                stretch = cast("dict[int, list[_Run]]", stretches[-1])
                blocks[part.index] = stretch[part.index] = [_Run(part)]
            is_first = False
    return tuple(_flatten(stretches, policies))


def join_same_part(parts: Sequence[Part], policies: Policies) -> Part:
    """Make one part of a stream of parts.

    Raises:
        ConcatError: They make more than one.
    """
    whole = join_parts([[part] for part in parts], policies)
    if len(whole) > 1:
        raise ConcatError(
            f"the chunks make {len(whole)} parts ({', '.join(part.kind for part in whole)}), not one; "
            "stream them as the content of messages"
        )
    return whole[0] if whole else parts[0]


def _add_to_block(block: list[_Run], part: Part) -> None:
    last = block[-1]
    if last.first.kind != part.kind:
        raise ConcatError(
            f"the parts of index {part.index} are of two kinds, {last.first.kind!r} and {part.kind!r}; "
            "the model that streams them has to give each block an index of its own"
        )
    if last.takes(part):
        last.add(part)
    else:
        block.append(_Run(part))


def _flatten(stretches: list[_Run | dict[int, list[_Run]]], policies: Policies) -> Iterable[Part]:
    for stretch in stretches:
        if isinstance(stretch, _Run):
            yield stretch.build(policies)
            continue
        for index in sorted(stretch):
            for run in stretch[index]:
                yield run.build(policies)


def _has_policy(part: Part, policies: Policies) -> bool:
    """Whether even a part alone is to be brought into form."""
    if isinstance(part, ToolResultPart):
        return True
    if isinstance(part, ProviderPart) and not policies.keys().isdisjoint(part.data):
        return True
    return not policies.keys().isdisjoint(part.extra)


def is_empty_part(part: Part) -> bool:
    """Whether a part says nothing at all."""
    if part.extra:
        return False
    if isinstance(part, TextPart):
        return not part.text
    if isinstance(part, ReasoningPart):
        return not (part.text or part.signature)
    return False


def _continues_medium(first: MediaPart, part: MediaPart) -> bool:
    """Whether a medium's data are the next piece of another's, and it says nothing that the other does not."""
    if first.url is not None or part.url is not None:
        return False
    if part.index is None and (not isinstance(part, AudioPart) or first.data is None or part.data is None):
        return False
    return all(
        value in (None, "") or value == getattr(first, name) for name, value in part if name not in {"data", "extra"}
    )


def _build(part: PartT, **changes: Any) -> PartT:
    """Copy a part with some of its fields changed, without validation."""
    new = type(part).__new__(type(part))
    _set(new, "__dict__", {**part.__dict__, **changes})
    _set(new, "__pydantic_fields_set__", {*part.__pydantic_fields_set__, *changes})
    _set(new, "__pydantic_extra__", None)
    _set(new, "__pydantic_private__", None)
    return new


def _extra(parts: Sequence[Any], policies: Policies) -> Any:
    extras = [part.extra for part in parts if part.extra]
    return merge_extras(extras, policies) if extras else EMPTY


def _build_text(parts: Sequence[Any], policies: Policies) -> Part:
    return _build(cast("TextPart", parts[0]), text="".join([p.text for p in parts]), extra=_extra(parts, policies))


def _build_reasoning(parts: Sequence[Any], policies: Policies) -> Part:
    first = cast("ReasoningPart", parts[0])
    text = "".join([part.text for part in parts])
    return _build(first, text=text, signature=parts[-1].signature, extra=_extra(parts, policies))


def _build_medium(parts: Sequence[Any], policies: Policies) -> Part:
    pieces = [part.data for part in parts if part.data is not None]
    data = "".join(pieces) if pieces else None
    return cast("Part", _build(cast("MediaPart", parts[0]), data=data, extra=_extra(parts, policies)))


def _build_provider(parts: Sequence[Any], policies: Policies) -> Part:
    first = cast("ProviderPart", parts[0])
    data = merge_extras([part.data for part in parts if part.data], policies)
    return _build(first, text="".join([part.text for part in parts]), data=data, extra=_extra(parts, policies))


def _build_result(parts: Sequence[Any], policies: Policies) -> Part:
    first = cast("ToolResultPart", parts[0])
    content = join_parts([part.content for part in parts], policies)
    return _build(
        first,
        content=cast("tuple[ResultPart, ...]", content),
        name=next((part.name for part in parts if part.name), ""),
        is_error=any(part.is_error for part in parts),
        extra=_extra(parts, policies),
    )


_BUILD: dict[type[Any], Callable[[Sequence[Any], Policies], Part]] = {
    TextPart: _build_text,
    ReasoningPart: _build_reasoning,
    ToolResultPart: _build_result,
    ProviderPart: _build_provider,
}
