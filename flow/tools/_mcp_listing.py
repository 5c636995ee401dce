"""From what an MCP server lists to the tools that a model may call."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...schema import Risk, ToolInfo
from ...schema._near import did_you_mean
from ._mcp_link import Link, listed_tools, short, words_of
from .errors import McpError

if TYPE_CHECKING:
    from mcp_types import Tool as ListedTool

__all__ = ()

_LONGEST_NAME = 64
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


async def usable_tools(link: Link) -> list[ListedTool]:
    """Ask a server for its tools; what is not usable goes to ``link.left_out``."""
    assert link.client is not None, "the link is ready"
    found: dict[str, ListedTool] = {}
    for tool in await listed_tools(link.client):
        problem = "a tool of this name is listed already" if tool.name in found else _problem_of(tool)
        if problem is None:
            found[tool.name] = tool
        else:
            link.left_out[tool.name] = problem
    return list(found.values())


def _problem_of(tool: ListedTool) -> str | None:
    """Say what is wrong with a tool, so that no model could be told of it."""
    if not tool.name.strip():
        return "it has no name"
    try:
        tool.name.encode()
        info_of("any", tool)
    except ValueError as error:
        return words_of(error)
    return _problem_of_schema(tool.input_schema)


def _problem_of_schema(schema: Mapping[str, Any]) -> str | None:
    """Say what is wrong with the schema of a tool's arguments: a provider would refuse the whole request for it."""
    jsonschema: Any = import_module("jsonschema")
    newest = jsonschema.Draft202012Validator
    try:
        jsonschema.validators.validator_for(schema, default=newest).check_schema(schema)
    except jsonschema.SchemaError as error:
        place = ".".join(str(step) for step in error.absolute_path)
        return f"its schema is not valid{f' at {place}' if place else ''}: {short(error.message, 120)}"
    except RecursionError:
        return "its schema is nested too deeply"
    return None


def chosen(tools: Sequence[ListedTool], include: Collection[str] | None, exclude: Collection[str]) -> list[ListedTool]:
    """Give the tools that are wanted; names may be patterns such as ``get_*``.

    Raises:
        McpError: A name or pattern that is to be included fits no tool.
    """
    for pattern in include or ():
        if not any(fnmatchcase(tool.name, pattern) for tool in tools):
            names = ", ".join(repr(tool.name) for tool in tools) or "none"
            hint = did_you_mean(pattern, [tool.name for tool in tools])
            raise McpError(f"it has no tool {pattern!r}, which is to be included; its tools are: {names}{hint}")
    return [tool for tool in tools if (include is None or _fits(tool.name, include)) and not _fits(tool.name, exclude)]


def _fits(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def named(tools: Sequence[ListedTool], prefix: str) -> Iterator[tuple[str, ListedTool]]:
    """Give each tool a name that every provider takes, and that no other has."""
    taken: set[str] = set()
    for tool in tools:
        name = _FOREIGN.sub("_", prefix + tool.name)
        if len(name) > _LONGEST_NAME or name in taken:
            mark = sha256(tool.name.encode()).hexdigest()[:8]
            name = f"{name[: _LONGEST_NAME - 9]}_{mark}"
        taken.add(name)
        yield name, tool


def info_of(name: str, tool: ListedTool) -> ToolInfo:
    """Describe a tool to a model; the schema is the server's own."""
    about = tool.annotations
    extra: dict[str, Any] = {"name": tool.name}
    title = tool.title or (about.title if about is not None else None)
    if title:
        extra["title"] = title
    if about is not None:
        extra["annotations"] = about.model_dump(mode="json", by_alias=True, exclude_none=True)
    if tool.output_schema is not None:
        extra["output_schema"] = tool.output_schema
    return ToolInfo(
        name=name,
        description=tool.description or title or "",
        parameters=tool.input_schema,
        extra={"mcp": extra},
    )


def risk_of(tool: ListedTool, given: Risk | Mapping[str, Risk] | None) -> Risk:
    """Tell the risk of a tool: what was given for it, else what the server says, with the protocol's own defaults."""
    if isinstance(given, str):
        return given
    for pattern, risk in (given or {}).items():
        if fnmatchcase(tool.name, pattern):
            return risk
    about = tool.annotations
    if about is not None and about.read_only_hint:
        return "safe"
    return "sensitive" if about is not None and about.destructive_hint is False else "destructive"
