"""The tools of a node, by the names under which they may be called, with what was decided about each.

Everything that can be decided is decided here, when the node is made: who answers to which name, how arguments are
renamed and validated, how long a call may take, and what becomes of a failure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from pydantic_core import from_json

from ..schema import Risk, Tool, ToolArgumentsError, ToolDefinitionError, ToolInfo
from .errors import UnknownToolError

ErrorPolicy = Literal["tell_model", "raise"]
"""What becomes of a failed call: the model gets a message that says what went wrong, or the node fails."""

FailureKind = Literal["unknown", "cut", "json", "arguments", "exception", "timeout"]
"""What can go wrong with a call: a name that no tool has, a call that the token limit cut off, arguments that are no
JSON object, arguments that do not fit, an exception, and too much time."""

ErrorPolicies = ErrorPolicy | Mapping[FailureKind, ErrorPolicy]
"""One policy for every failure, or policies by kind; what is not named is told to the model."""


@dataclass(frozen=True, slots=True)
class ToolAlias:
    """Further names under which a tool and its arguments may be called.

    Attributes:
        names: Names that the model may call the tool by.
        arguments: For an argument's own name, the names that stand for it too.

    Example:
        >>> ToolAlias(names=("find",), arguments={"query": ("q", "text")}).names
        ('find',)
    """

    names: Sequence[str] = ()
    arguments: Mapping[str, Sequence[str]] | None = None


class Entry:
    """A tool and what was decided about it."""

    __slots__ = (
        "apart",
        "name",
        "parallel",
        "plain",
        "policies",
        "renames",
        "retries",
        "risk",
        "run",
        "timeout",
        "tool",
        "validate",
    )

    def __init__(self, tool: Tool, policies: Mapping[str, ErrorPolicy], timeout: float | None) -> None:
        self.tool = tool
        self.name = tool.info.name
        self.run = tool.run
        self.validate: Callable[[str], Mapping[str, Any]] = getattr(tool, "validate", None) or self._parse
        own: float | None = getattr(tool, "timeout", None)
        self.timeout = timeout if own is None else own
        self.retries: int = getattr(tool, "retries", 0)
        self.parallel: bool = getattr(tool, "parallel", True)
        self.risk: Risk = getattr(tool, "risk", "safe")
        self.apart: bool = getattr(tool, "apart", False)
        """Whether it is no tool of the user's: policies and middlewares of the node are not for it."""
        self.policies = policies_of("tell_model", "") if self.apart else policies
        self.renames: Mapping[str, str] = {}
        self.plain = self.timeout is None and not self.retries
        """Whether running the tool is nothing but validating and calling."""

    def _parse(self, text: str) -> Mapping[str, Any]:
        """Read the arguments of a tool that validates them itself: a JSON object."""
        try:
            value: object = from_json(text) if text.strip() else {}
        except ValueError as error:
            raise ToolArgumentsError(
                f"The arguments of {self.name!r} are not valid JSON: {error}. Send one JSON object."
            ) from error
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise ToolArgumentsError(f"The arguments of {self.name!r} are no JSON object. Send one JSON object.")
        return cast("dict[str, Any]", value)

    def rename(self, text: str) -> str:
        """Call arguments by their own names; what is no JSON object, and names that are taken, stay as they are."""
        if not self.renames:
            return text
        try:
            value: object = from_json(text)
        except ValueError:
            return text
        if not isinstance(value, dict):
            return text
        given = cast("dict[str, Any]", value)
        names: dict[str, str] = {}
        for name, own in self.renames.items():
            if name in given and own not in given and own not in names.values():
                names[name] = own
        if not names:
            return text
        return json.dumps({names.get(name, name): item for name, item in given.items()}, ensure_ascii=False)


class ToolSet:
    """Tools by name and alias."""

    __slots__ = ("_by_name", "entries", "infos")

    def __init__(
        self,
        tools: Sequence[Tool],
        aliases: Mapping[str, ToolAlias | Sequence[str]],
        policies: Callable[[str], Mapping[str, ErrorPolicy]],
        timeout: float | None,
    ) -> None:
        self.entries: dict[str, Entry] = {}
        for tool in tools:
            _require_tool(tool)
            name = tool.info.name
            if name in self.entries:
                raise ToolDefinitionError(f"two tools are called {name!r}; give one of them another name")
            self.entries[name] = Entry(tool, policies(name), timeout)
        self.infos: tuple[ToolInfo, ...] = tuple([tool.info for tool in tools])
        """What a model is told about the tools."""
        self._by_name = dict(self.entries)
        for name, alias in aliases.items():
            entry = self.entries.get(name)
            if entry is not None:
                self._add_alias(entry, ToolAlias((alias,)) if isinstance(alias, str) else alias)

    def find(self, name: str) -> Entry | None:
        """Find the tool that answers to a name or alias."""
        return self._by_name.get(name)

    def unknown(self, name: str) -> UnknownToolError:
        """Make the error for a name that no tool has."""
        return UnknownToolError(name, sorted(self.entries))

    def _add_alias(self, entry: Entry, alias: ToolAlias | Sequence[str]) -> None:
        given = alias if isinstance(alias, ToolAlias) else ToolAlias(alias)
        for name in given.names:
            _require_word(name, f"an alias of tool {entry.name!r}")
            if self._by_name.setdefault(name, entry) is not entry:
                other = self._by_name[name].name
                raise ToolDefinitionError(
                    f"{name!r} cannot be an alias of tool {entry.name!r}: it is a name or alias of {other!r} already"
                )
        entry.renames = _renames(entry, given.arguments or {})
        entry.plain = entry.plain and not entry.renames


def _renames(entry: Entry, arguments: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    own_names: Mapping[str, Any] = entry.tool.info.parameters.get("properties", {})
    renames: dict[str, str] = {}
    for own, names in arguments.items():
        _require_word(own, f"an argument of tool {entry.name!r}")
        for name in (names,) if isinstance(names, str) else names:
            _require_word(name, f"an alias of argument {own!r} of tool {entry.name!r}")
            if name in own_names:
                raise ToolDefinitionError(
                    f"tool {entry.name!r}: {name!r} cannot stand for the argument {own!r}, as it is an argument itself"
                )
            if renames.setdefault(name, own) != own:
                raise ToolDefinitionError(
                    f"tool {entry.name!r}: {name!r} stands for both {renames[name]!r} and {own!r}"
                )
    return renames


def _require_word(name: str, what: str) -> None:
    if not name.strip() or "." in name:
        raise ToolDefinitionError(f"{what} is {name!r}; it must not be blank and must not hold a dot")


def _require_tool(tool: object) -> None:
    if isinstance(getattr(tool, "info", None), ToolInfo) and callable(getattr(tool, "run", None)):
        return
    hint = "decorate it with @tool, or wrap it: tool(function)" if callable(tool) else "a tool has `info` and `run`"
    raise ToolDefinitionError(f"{tool!r} is no tool; {hint}")


def policies_of(given: ErrorPolicies, what: str) -> Mapping[str, ErrorPolicy]:
    """Write policies out, by kind of failure.

    Raises:
        ToolDefinitionError: There is no such policy or kind.
    """
    kinds: tuple[FailureKind, ...] = get_args(FailureKind)
    found: dict[str, ErrorPolicy] = dict.fromkeys(kinds, given if isinstance(given, str) else "tell_model")
    if not isinstance(given, str):
        found.update({str(kind): policy for kind, policy in given.items()})
    for kind, policy in found.items():
        if kind not in kinds:
            raise ToolDefinitionError(f"{what}: there is no failure of kind {kind!r}; the kinds are {', '.join(kinds)}")
        if policy not in get_args(ErrorPolicy):
            raise ToolDefinitionError(f'{what}: the policy is "tell_model" or "raise", not {policy!r}')
    return found
