"""What a caller may ask of a tools node in one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from ..schema import Tool
from ._tool_set import ToolAlias


@dataclass(frozen=True, slots=True)
class ToolsOptions:
    """Options of one run for a :class:`ToolsNode`; None leaves a thing as the node has it.

    Attributes:
        tools: The tools, in place of the node's; an empty sequence means that there are none.
        aliases: The aliases, in place of all of the node's.
        sequential: Whether the calls of a message run one after the other.
        timeout: Seconds that a call may take whose tool says nothing else.

    Example:
        >>> from anabranch.compose import RunOptions
        >>> options = RunOptions(at={"tools": ToolsOptions(sequential=True)})
    """

    tools: Sequence[Tool] | None = None
    aliases: Mapping[str, ToolAlias | Sequence[str]] | None = None
    sequential: bool | None = None
    timeout: float | None = None

    def __or__(self, other: ToolsOptions) -> ToolsOptions:
        """Lay other options over these: what is set there counts."""
        given = {f.name: value for f in fields(other) if (value := getattr(other, f.name)) is not None}
        return replace(self, **given)
