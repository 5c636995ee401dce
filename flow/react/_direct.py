"""Tool results that are the answer: which tool asked for it, and the node that gives its result."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, cast

from ...compose import ToolsNode, current_state, current_tool_call
from ...schema import Message, StreamReader, concat
from ._state import AgentState


def set_return_directly() -> None:
    """Let the result of the tool that calls this be the agent's answer, if the tool succeeds.

    Call it inside a tool that an agent runs, or in what the tool calls. Where several tools of one message do so, the
    last one counts; it comes before those named in ``return_directly=``. With an agent inside of an agent's
    tool, the inner one is meant.

    Raises:
        RuntimeError: Outside of a tool call.
        StateError: The tool is not run by an agent, or it holds the agent's state.

    Example:
        >>> from anabranch.schema import tool
        >>> @tool
        ... async def lookup(word: str) -> str:
        ...     '''Look a word up; if it is there, that is the answer.'''
        ...     if word == "tide":
        ...         set_return_directly()
        ...         return "The rise and fall of the sea."
        ...     return "not found"
    """
    call = current_tool_call()
    with current_state(AgentState) as state:
        state.marked.append(call.position)
    call.before_next = [*(call.before_next or ()), lambda: _take_back(call.position)]


def _take_back(position: int) -> None:
    with current_state(AgentState) as state:
        state.marked = [marked for marked in state.marked if marked != position]


class DirectReturn:
    """Decides whether a tool's result ends the run, and gives it then."""

    def __init__(self, tools: ToolsNode, names: frozenset[str]) -> None:
        self._tools = tools
        self._names = names

    def after_tools(self, results: list[Message]) -> Literal["chat", "direct_return"]:
        """Choose, of the calls that succeeded, the last that asked to be returned, else the first that is named."""
        state = current_state(AgentState).peek()
        if not state.marked and not self._names:
            return "chat"
        wanted = [position for position in reversed(state.marked) if not results[position].is_error]
        if not wanted:
            wanted = [p for p, result in enumerate(results) if not result.is_error and self._is_named(result)]
        state.answer = wanted[0] if wanted else -1
        return "direct_return" if wanted else "chat"

    async def give(self, results: list[Message]) -> Message:
        """Add the results of all calls to the history, and give the one that is the answer."""
        async with current_state(AgentState) as state:
            state.messages += results
            return results[state.answer]

    async def give_chunks(self, results: StreamReader[list[Message]]) -> AsyncIterator[Message]:
        """Do the same as the chunks of all results pass."""
        async with current_state(AgentState) as state:
            position = state.answer
        passed: list[list[Message]] = []
        async for slots in results:
            passed.append(slots)
            piece = cast("Message | None", slots[position])  # a chunk fills one place
            if piece is not None:
                yield piece
        async with current_state(AgentState) as state:
            state.messages += concat(passed)

    def _is_named(self, result: Message) -> bool:
        return self._tools.resolve(result.name or "") in self._names


def names_of(tools: ToolsNode, given: Mapping[str, Any] | Any) -> frozenset[str]:
    """Check the names of tools whose results are returned directly, and give the tools' own names.

    Raises:
        ValueError: There is no such tool.
    """
    names: set[str] = set()
    for name in (given,) if isinstance(given, str) else given:
        found = tools.resolve(name)
        if found is None:
            known = ", ".join(sorted(info.name for info in tools.infos)) or "none"
            raise ValueError(f"return_directly: there is no tool {name!r}; the tools are: {known}")
        names.add(found)
    return frozenset(names)
