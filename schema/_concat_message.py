"""The chunks of a streamed message, made into the message.

==================  ==========================================================================================
field               over the chunks
==================  ==========================================================================================
role                one and the same, else an error
name, tool_call_id  the first that is given; a different later one is an error
content             text joined; parts as in ``_concat_parts``; text among parts counts as a text part
tool_calls          fragments put together as in ``_concat_tool_calls``
is_error            whether any chunk says so
usage               cumulative reports: the largest counts; deltas: their sum; both kinds at once: an error
finish_reason       the last that is given
extra               the last value of each key, or what the policy declared for it says
==================  ==========================================================================================

All of it is one pass over the chunks that collects, and one join at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._concat_parts import is_empty_part, join_parts
from ._concat_policy import Policies, merge_extras
from ._concat_tool_calls import join_calls, keep_fragments, require_heads
from ._frozen import EMPTY
from ._message import Message, ToolCall, build_message
from ._parts import Part, TextPart
from ._usage import Usage, concat_usage
from .errors import ConcatError

__all__ = ()


def concat_messages(chunks: Sequence[Message], policies: Policies, partial: bool) -> Message:
    """Make one message of one or more chunks.

    Args:
        chunks: The chunks in their order.
        policies: The policies declared for keys of ``extra``.
        partial: Whether more chunks may come in front of these; then nothing is decided that these could change.

    Returns:
        A new message.

    Raises:
        ConcatError: The chunks contradict each other, or a tool-call fragment fits nowhere.
    """
    contents: list[str | tuple[Part, ...]] = []
    fragments: list[ToolCall] = []
    usages: list[Usage] = []
    extras: list[Mapping[str, Any]] = []
    rare: dict[str, dict[str, int]] = {}  # role, name and the like: each value, and the chunk that first gave it
    finish_reason: str | None = None
    is_error = False
    role = chunks[0].role
    for number, chunk in enumerate(chunks):
        # The fields are read from where pydantic keeps them: this loop runs for every token that a model writes.
        fields = chunk.__dict__
        if fields["role"] != role or fields["name"] or fields["tool_call_id"]:
            _note(rare, fields, number)
        if fields["content"]:
            contents.append(fields["content"])
        if fields["tool_calls"]:
            fragments += fields["tool_calls"]
        if fields["usage"] is not None:
            usages.append(fields["usage"])
        if fields["finish_reason"]:
            finish_reason = fields["finish_reason"]
        if fields["extra"]:
            extras.append(fields["extra"])
        if fields["is_error"]:
            is_error = True
    agreed = _agree(rare, role)
    return build_message(
        role,
        _join_content(contents, policies),
        _join_fragments(fragments, policies, partial) if fragments else (),
        agreed.get("tool_call_id"),
        agreed.get("name"),
        is_error,
        concat_usage(usages),
        finish_reason,
        merge_extras(extras, policies) if extras else EMPTY,
    )


def _join_content(contents: list[str | tuple[Part, ...]], policies: Policies) -> str | tuple[Part, ...]:
    """Join text to text; once a chunk has parts that say something, all of it is parts."""
    texts = [content for content in contents if isinstance(content, str)]
    if len(texts) == len(contents):
        return "".join(texts)
    chunks = [content for content in contents if not isinstance(content, str)]
    if all(is_empty_part(part) for parts in chunks for part in parts):
        return "".join(texts)
    if not texts:
        return join_parts(chunks, policies)
    mixed: list[Sequence[Part]] = []
    pending: list[str] = []
    for content in contents:
        if isinstance(content, str):
            pending.append(content)
            continue
        if pending:
            mixed.append([TextPart("".join(pending))])
            pending = []
        mixed.append(content)
    if pending:
        mixed.append([TextPart("".join(pending))])
    return join_parts(mixed, policies)


def _join_fragments(fragments: list[ToolCall], policies: Policies, partial: bool) -> tuple[ToolCall, ...]:
    if partial:
        return keep_fragments(fragments, policies)
    calls = join_calls(fragments, policies)
    require_heads(calls)
    return calls


def _note(rare: dict[str, dict[str, int]], fields: Mapping[str, Any], number: int) -> None:
    for name in ("role", "name", "tool_call_id"):
        if fields[name]:
            rare.setdefault(name, {}).setdefault(fields[name], number)


def _agree(rare: dict[str, dict[str, int]], role: str) -> dict[str, str]:
    """Take what the chunks agree on, or say where they differ."""
    roles = rare.get("role", {})
    if roles:
        roles.setdefault(role, 0)
    for field, values in rare.items():
        if len(values) > 1:
            told = " and ".join(
                f"{value!r} (chunk {number})" for value, number in sorted(values.items(), key=lambda kv: kv[1])[:2]
            )
            raise ConcatError(f"the chunks of one message differ in their {field}: {told}; are two streams mixed up?")
    return {field: next(iter(values)) for field, values in rare.items()}
