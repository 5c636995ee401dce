"""What the offline model does next: a pure function of the history and the tools.

First round: one call for each thing that the question asks for, all at once. Then, for what is searched, reading
the best hit that was not read yet; if nothing was found, one more search by the most telling word. Then the answer,
made only of the question and of what the tools gave.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...schema import Message, NamedTool, ToolChoice, ToolInfo
from ._abilities import Ability, Purpose, arguments_for, fill_in, judge, survey
from ._observations import Found, Step, definitions_first, last_question, read_hits, read_steps, says_nothing_found
from ._questions import Question, read_question
from ._reply import compose_reply, refuse

_MOST_READS = 3
_MOST_SEARCHES = 2


class PlannedCall(NamedTuple):
    """A tool call that is to be made."""

    name: str
    arguments: Mapping[str, Any]
    thought: str
    """Why, for a reader."""


class Decision(NamedTuple):
    """What to say and which tools to call."""

    text: str
    calls: tuple[PlannedCall, ...] = ()


def decide(messages: Sequence[Message], tools: Sequence[ToolInfo], choice: ToolChoice) -> Decision:
    """Decide what to say next.

    Args:
        messages: The history.
        tools: What may be called.
        choice: Whether something may, must or must not be called.

    Returns:
        Some calls and the thought behind them, or the answer.

    Raises:
        ValueError: If a tool must be called that is not among the tools.
    """
    text, later = last_question(messages)
    may_call = choice != "none"
    plan = _Plan(read_question(text), tools if may_call else (), read_steps(later))
    calls = plan.next_calls()
    if choice == "required" or isinstance(choice, NamedTool):
        calls = _forced(calls, plan, tools, choice)
    if calls:
        return Decision(" ".join(dict.fromkeys(call.thought for call in calls)), tuple(calls))
    if plan.steps:
        purposes: dict[str, Purpose] = {tool.name: judged[1].purpose for tool in tools if (judged := judge(tool))}
        return Decision(compose_reply(plan.question, plan.steps, lambda step: purposes.get(step.call.name)))
    return Decision(refuse(plan.question, [tool.name for tool in tools], may_call=may_call))


class _Plan:
    """Which calls a question needs, and which of them were made."""

    def __init__(self, question: Question, tools: Sequence[ToolInfo], steps: Sequence[Step]) -> None:
        self.question = question
        self.steps = steps
        self._abilities = survey(tools)
        self._made = {_key(step.call.name, step.arguments) for step in steps}

    def next_calls(self) -> list[PlannedCall]:
        """Give what is to be called now; nothing if it is time to answer."""
        if not self.question.text:
            return []
        direct = [*self._calculations(), *self._clock_readings()]
        calls = direct or self._lookups()
        return [call for call in calls if _key(call.name, call.arguments) not in self._made]

    def main_values(self) -> dict[Purpose, str]:
        """Give what a tool of each purpose would be asked."""
        values: dict[Purpose, str] = {
            "calculate": next(iter(self.question.expressions), self.question.text),
            "clock": next(iter(self.question.zones), "UTC"),
            "search": " ".join(self.question.keywords) or self.question.text,
        }
        hits = self._hits()
        if hits:
            values["read"] = hits[0].path
        return values

    def _calculations(self) -> list[PlannedCall]:
        ability = self._abilities.get("calculate")
        if ability is None:
            return []
        thought = f"I calculate with {ability.tool.name}."
        return [_plan(ability, expression, thought) for expression in self.question.expressions]

    def _clock_readings(self) -> list[PlannedCall]:
        ability = self._abilities.get("clock")
        if ability is None:
            return []
        thought = f"I ask {ability.tool.name} for the time."
        zones = self.question.zones if ability.parameter else self.question.zones[:1]
        return [_plan(ability, zone, thought) for zone in zones]

    def _lookups(self) -> list[PlannedCall]:
        """Search, or read the best hit that was not read, or search once more."""
        search = self._abilities.get("search")
        if search is None:
            return []
        query = " ".join(self.question.keywords) or self.question.text
        searches = [step for step in self.steps if self._purpose_of(step) == "search"]
        if not searches:
            return [_plan(search, query, f"I search for {query!r}.")]
        hits = self._hits()
        if hits:
            return self._reading(hits)
        shorter = max(self.question.keywords, key=len, default=query)
        if shorter == query or len(searches) >= _MOST_SEARCHES or all(step.failed for step in searches):
            return []
        return [_plan(search, shorter, f"I found nothing and search for {shorter!r}.")]

    def _reading(self, hits: Sequence[Found]) -> list[PlannedCall]:
        """Read around the best hit; if that failed, around the next one."""
        read = self._abilities.get("read")
        tries = [step for step in self.steps if self._purpose_of(step) == "read"]
        if read is None or len(tries) >= _MOST_READS or any(not step.failed for step in tries):
            return []
        tried = {step.arguments.get(read.parameter or "") for step in tries}
        for hit in hits:
            if hit.path not in tried:
                where = hit.path if hit.line is None else f"{hit.path} around line {hit.line}"
                return [_plan(read, hit.path, f"I read {where}.", hit.line)]
        return []

    def _purpose_of(self, step: Step) -> Purpose | None:
        """Say what a step was for."""
        name = step.call.name
        return next((purpose for purpose, a in self._abilities.items() if a.tool.name == name), None)

    def _hits(self) -> list[Found]:
        """Collect the hits of all searches."""
        texts = [step.text for step in self.steps if self._purpose_of(step) == "search" and not step.failed]
        hits = [hit for text in texts if not says_nothing_found(text) for hit in read_hits(text)]
        return definitions_first(hits, self.question.text)


def _forced(calls: list[PlannedCall], plan: _Plan, tools: Sequence[ToolInfo], choice: ToolChoice) -> list[PlannedCall]:
    """Keep to a choice that demands a call."""
    named = choice.name if isinstance(choice, NamedTool) else None
    allowed = [tool for tool in tools if named is None or tool.name == named]
    if not allowed:
        what = "a tool call is required" if named is None else f"the tool {named!r} must be called"
        names = ", ".join(repr(tool.name) for tool in tools) or "none"
        raise ValueError(f"{what}, but the tools are: {names}")
    kept = [call for call in calls if named is None or call.name == named]
    if kept:
        return kept
    tool = next((tool for tool in allowed if judge(tool) is not None), allowed[0])
    arguments = fill_in(tool, plan.main_values(), plan.question.text)
    return [PlannedCall(tool.name, arguments, f"I must call a tool and take {tool.name}.")]


def _plan(ability: Ability, value: str, thought: str, line: int | None = None) -> PlannedCall:
    return PlannedCall(ability.tool.name, arguments_for(ability, value, line), thought)


def _key(name: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
    """Tell whether two calls are the same."""
    return name, json.dumps(arguments, sort_keys=True, default=str)
