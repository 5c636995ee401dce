"""What the tools at hand are good for, judged by their names, descriptions and JSON schemas.

The judgement is a sum of small signs, never the identity of a tool: any calculator, clock, search or reading tool
will do, whoever wrote it. A tool whose name says that it changes something is never chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from ...schema import ToolInfo
from ..tools._words import stem

Purpose = Literal["calculate", "clock", "search", "read"]


class Ability(NamedTuple):
    """A tool, and what it is good for."""

    tool: ToolInfo
    purpose: Purpose
    parameter: str | None
    """The parameter that takes the expression, the zone, the query or the path; a clock may have none."""


class _Signs(NamedTuple):
    """Words that speak for a purpose."""

    in_name: frozenset[str]
    in_parameter: frozenset[str]
    in_description: frozenset[str]


def _signs(in_name: str, in_parameter: str, in_description: str) -> _Signs:
    return _Signs(
        frozenset(in_name.split()),
        frozenset(in_parameter.split()),
        frozenset(stem(word) for word in in_description.split()),
    )


_SIGNS: dict[Purpose, _Signs] = {
    "calculate": _signs(
        "calculator calculate calculation calc math maths arithmetic evaluate eval compute expression",
        "expression expr formula equation calculation arithmetic math",
        "calculate arithmetic mathematical expression formula",
    ),
    "clock": _signs(
        "time clock date now today datetime timezone",
        "timezone tz zone place location city",
        "time date clock timezone",
    ),
    "search": _signs(
        "search find lookup grep retrieve retriever retrieval query knowledge",
        "query queries q search keywords keyword terms term pattern question topic text",
        "search find look retrieve match",
    ),
    "read": _signs(
        "read open fetch get load cat view show file document page",
        "path paths file filename filepath document doc uri url page",
        "read content file document text page",
    ),
}
_CHANGES = """
    add append book buy cancel clear convert create delete deploy drop edit execute insert kill list move order pay
    post publish put remove rename reset run save send set shell start stop store update upload write
"""
_CHANGES_SOMETHING = frozenset(_CHANGES.split())
_LINE_START = frozenset({"start_line", "line_start", "from_line", "first_line", "start"})
_LINE_END = frozenset({"end_line", "line_end", "to_line", "last_line", "end"})
_ENOUGH = 4
_LINES_BEFORE, _LINES_AFTER = 20, 40


def survey(tools: Iterable[ToolInfo]) -> dict[Purpose, Ability]:
    """Choose for each purpose the tool that suits it best.

    Args:
        tools: What the tools say of themselves; the first one wins among equals.

    Returns:
        The purposes that are served, and by what. A tool serves one purpose.
    """
    best: dict[Purpose, tuple[int, Ability]] = {}
    for tool in tools:
        judged = judge(tool)
        if judged is None:
            continue
        score, ability = judged
        if ability.purpose not in best or score > best[ability.purpose][0]:
            best[ability.purpose] = (score, ability)
    return {purpose: ability for purpose, (_, ability) in best.items()}


def judge(tool: ToolInfo) -> tuple[int, Ability] | None:
    """Say what a tool is good for.

    Args:
        tool: What the tool says of itself.

    Returns:
        How plain it is, and the ability; `None` if the tool is good for nothing that is wanted here.
    """
    name_words = _words_of(tool.name)
    if not name_words.isdisjoint(_CHANGES_SOMETHING):
        return None
    verdicts = [verdict for purpose in _SIGNS if (verdict := _judge_for(tool, purpose, name_words))]
    return max(verdicts, key=lambda verdict: verdict[0], default=None)


def properties_of(tool: ToolInfo) -> Mapping[str, Mapping[str, Any]]:
    """Give the schemas of a tool's parameters, with references into the schema followed."""
    properties = cast("Mapping[str, Any]", tool.parameters.get("properties") or {})
    return {name: _resolve(schema, tool.parameters) for name, schema in properties.items()}


def required_of(tool: ToolInfo) -> Sequence[str]:
    """Give the names of the parameters that a call must have."""
    return cast("Sequence[str]", tool.parameters.get("required") or ())


def takes_text(schema: Mapping[str, Any]) -> bool:
    """Whether a parameter takes a text, or a list of texts."""
    return bool({"string", "array"} & _types_of(schema)) or not _types_of(schema)


def arguments_for(ability: Ability, value: str, line: int | None = None) -> dict[str, Any]:
    """Make the arguments of a call.

    Args:
        ability: The tool and its main parameter.
        value: The expression, zone, query or path.
        line: For reading: the line that must be among those read.

    Returns:
        The arguments, by the names that the tool has for them.
    """
    properties = properties_of(ability.tool)
    arguments: dict[str, Any] = {}
    if ability.parameter is not None:
        as_list = "string" not in _types_of(properties[ability.parameter]) and "array" in _types_of(
            properties[ability.parameter]
        )
        arguments[ability.parameter] = [value] if as_list else value
    if ability.purpose == "read" and line is not None:
        for name in properties:
            if name in _LINE_START:
                arguments[name] = max(1, line - _LINES_BEFORE)
            elif name in _LINE_END:
                arguments[name] = max(1, line - _LINES_BEFORE) + _LINES_BEFORE + _LINES_AFTER
    return arguments


def fill_in(tool: ToolInfo, main: Mapping[Purpose, str], question: str) -> dict[str, Any]:
    """Make arguments for a tool that must be called whatever it is good for.

    Args:
        tool: The tool.
        main: What to give a tool by its purpose.
        question: What the user said.

    Returns:
        Arguments for the required parameters, as good as they can be guessed from the schema.
    """
    judged = judge(tool)
    arguments: dict[str, Any] = {}
    if judged is not None and judged[1].purpose in main:
        arguments = arguments_for(judged[1], main[judged[1].purpose])
    properties = properties_of(tool)
    for name in required_of(tool):
        if name not in arguments:
            arguments[name] = _guess(properties.get(name, {}), question)
    return arguments


def _judge_for(tool: ToolInfo, purpose: Purpose, name_words: set[str]) -> tuple[int, Ability] | None:
    """Add up the signs for one purpose."""
    signs = _SIGNS[purpose]
    score = 3 * (not name_words.isdisjoint(signs.in_name))
    description = {stem(word) for word in re.findall(r"\w+", tool.description)}
    score += not description.isdisjoint(signs.in_description)
    parameter, weight = _main_parameter(tool, signs)
    score += weight
    if parameter is None and not (purpose == "clock" and not required_of(tool)):
        return None
    others = {name for name in required_of(tool) if name != parameter}
    if purpose == "read":
        others -= _LINE_START | _LINE_END
    if others or score < _ENOUGH:
        return None
    return score, Ability(tool, purpose, parameter)


def _main_parameter(tool: ToolInfo, signs: _Signs) -> tuple[str | None, int]:
    """Choose the parameter that a purpose is about: by its name, else the only required text."""
    texts = [name for name, schema in properties_of(tool).items() if takes_text(schema)]
    for name in texts:
        if not _words_of(name).isdisjoint(signs.in_parameter) or name.replace("_", "") in signs.in_parameter:
            return name, 3
    required = [name for name in required_of(tool) if name in texts]
    return (required[0], 0) if len(required) == 1 else (None, 0)


def _words_of(name: str) -> set[str]:
    """Cut a name in snake, kebab or camel case into its words."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return {word.casefold() for word in re.split(r"[^A-Za-z0-9]+", spaced) if word}


def _resolve(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a reference into the same schema, a few steps at most."""
    for _ in range(5):
        if not isinstance(schema, Mapping):
            return {}
        found = cast("Mapping[str, Any]", schema)
        reference = found.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return found
        schema = root
        for step in reference[2:].split("/"):
            schema = cast("Mapping[str, Any]", schema).get(step, {}) if isinstance(schema, Mapping) else {}
    return {}


def _types_of(schema: Mapping[str, Any]) -> set[str]:
    """Collect the JSON types that a parameter takes."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return {str(item) for item in cast("list[object]", kind)}
    alternatives = cast("list[Any]", schema.get("anyOf") or schema.get("oneOf") or [])
    return {
        name
        for item in alternatives
        if isinstance(item, Mapping)
        for name in _types_of(cast("Mapping[str, Any]", item))
    }


def _guess(schema: Mapping[str, Any], question: str) -> Any:
    """Guess a value for a parameter of which nothing is known but its schema."""
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    allowed = schema.get("enum")
    if isinstance(allowed, list) and allowed:
        values = cast("list[object]", allowed)
        mentioned = [value for value in values if str(value).casefold() in question.casefold()]
        return (mentioned or values)[0]
    types = _types_of(schema)
    if not types or "string" in types:
        return question
    if types & {"integer", "number"}:
        numbers = re.findall(r"-?[0-9]+", question)
        return int(numbers[0]) if numbers else schema.get("minimum", 1)
    empty: dict[str, Any] = {"boolean": False, "array": [], "object": {}}
    return next((empty[kind] for kind in ("boolean", "array", "object") if kind in types), None)
