"""Ids for the calls of a message, so that each answer can refer to one call."""

from __future__ import annotations

from ..schema import Message, ToolCall

UNKNOWN_TOOL = "unknown_tool"


def with_call_ids(message: Message, stem: str = "call") -> Message:
    """Give every tool call of a message an id of its own, and a name.

    The first call with an id keeps it. An empty or doubled id is made up from the stem and the call's place, so the
    same message gets the same ids. A call that names no tool gets the name ``unknown_tool``.

    Args:
        message: The message.
        stem: What made-up ids begin with; make it different for each message of a history.

    Returns:
        The message; where nothing is wrong with its calls, the very same.

    Example:
        >>> calls = [ToolCall(id="a", name="x"), ToolCall(id="a", name="y"), ToolCall(name="z")]
        >>> [call.id for call in with_call_ids(Message.assistant(tool_calls=calls)).tool_calls]
        ['a', 'call_1', 'call_2']
    """
    calls = message.tool_calls
    if len(calls) == 1 and calls[0].id and calls[0].name:
        return message
    ids = {call.id for call in calls}
    if len(ids) == len(calls) and "" not in ids and all(call.name for call in calls):
        return message
    seen: set[str] = set()
    made: list[ToolCall] = []
    for position, call in enumerate(calls):
        changes: dict[str, object] = {}
        if not call.name:
            changes["name"] = UNKNOWN_TOOL
        if not call.id or call.id in seen:
            fresh = f"{stem}_{position}"
            while fresh in ids:
                fresh += "_"
            ids.add(fresh)
            changes["id"] = fresh
        seen.add(call.id)
        made.append(call.model_copy(update=changes) if changes else call)
    return message.model_copy(update={"tool_calls": tuple(made)})
