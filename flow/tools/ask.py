"""Tools by which a model asks the user, and a middleware that asks before a call that is not safe.

All of them ask by :func:`~anabranch.compose.interrupt`: with ``RunOptions(on_interrupt=…)`` the handler gets a question
of a type below, and what it returns is checked against the type of the answer.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from types import GenericAlias
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from ...compose import Approval, Middleware, NextCall, current_tool_call, interrupt
from ...schema import Risk, TextPart, ToolCall, ToolOutput, ToolResult, tool, tool_text

__all__ = (
    "ChoiceQuestion",
    "ConfirmQuestion",
    "Decision",
    "InputQuestion",
    "MultiChoiceQuestion",
    "ToolApproval",
    "ask_choice",
    "ask_confirm",
    "ask_input",
    "ask_multi_choice",
    "confirm_risky",
)

_FOREVER = float("inf")  # people take their time; a limit that a node sets for its tools is not meant for them
_NO_ANSWER = "The user did not answer this question. Go on without the answer, or end here."
_FROZEN = ConfigDict(frozen=True, defer_build=True)


# --- questions -------------------------------------------------------------------------------------------------------


class InputQuestion(BaseModel):
    """Asks for words; the answer is a text, or None from a user who does not want to answer."""

    model_config = _FROZEN

    kind: Literal["input"] = "input"
    question: str
    default: str | None = None
    """What an empty answer stands for."""


class ChoiceQuestion(BaseModel):
    """Asks for one of several options; the answer is that option, or None from a user who wants none."""

    model_config = _FROZEN

    kind: Literal["choice"] = "choice"
    question: str
    options: tuple[str, ...]


class MultiChoiceQuestion(BaseModel):
    """Asks for any of several options; the answer is a list of those that the user wants, which may be empty."""

    model_config = _FROZEN

    kind: Literal["multi_choice"] = "multi_choice"
    question: str
    options: tuple[str, ...]


class ConfirmQuestion(BaseModel):
    """Asks for yes or no; the answer is a ``bool``."""

    model_config = _FROZEN

    kind: Literal["confirm"] = "confirm"
    question: str


class ToolApproval(Approval):
    """Asks whether a tool may be called; the answer is a ``bool``, or a :class:`Decision`."""

    model_config = _FROZEN

    tool: str
    """The tool's name."""
    arguments: Mapping[str, Any]
    """What it would be called with."""
    risk: Risk
    """What the call may do."""


class Decision(BaseModel):
    """An answer to a :class:`ToolApproval` that says more than yes or no.

    Example:
        >>> Decision(approved=True, arguments={"path": "old.txt"}).arguments
        {'path': 'old.txt'}
    """

    model_config = _FROZEN

    approved: bool
    arguments: Mapping[str, Any] | None = None
    """What to call the tool with instead."""
    reason: str = ""
    """Why; for the model."""


# --- tools -----------------------------------------------------------------------------------------------------------


@tool(timeout=_FOREVER)
async def ask_input(question: str, default: str | None = None) -> str:
    """Ask the user a question, and wait for an answer in their own words.

    Use it for what only the user can know or decide; do not ask for what you can find out by yourself.

    Args:
        question: One clear question.
        default: What an empty answer means, if that is clear.
    """
    answer: str | None = await _ask(InputQuestion(question=question, default=default), str | None)
    if answer is None:
        return _NO_ANSWER
    return answer or default or "The user gave an empty answer."


@tool(timeout=_FOREVER)
async def ask_choice(question: str, options: Annotated[list[str], Field(min_length=2)]) -> str:
    """Ask the user to choose one of several options.

    Args:
        question: One clear question.
        options: What the user can choose from, each in a few words.
    """
    given = tuple(dict.fromkeys(options))
    answer: str | None = await _ask(ChoiceQuestion(question=question, options=given), _one_of(given) | None)
    return _NO_ANSWER if answer is None else answer


@tool(timeout=_FOREVER)
async def ask_multi_choice(question: str, options: Annotated[list[str], Field(min_length=2)]) -> list[str]:
    """Ask the user to choose any number of several options, or none.

    Args:
        question: One clear question.
        options: What the user can choose from, each in a few words.
    """
    given = tuple(dict.fromkeys(options))
    answer: list[str] = await _ask(
        MultiChoiceQuestion(question=question, options=given), GenericAlias(list, _one_of(given))
    )
    return [option for option in given if option in answer]


@tool(timeout=_FOREVER)
async def ask_confirm(question: str) -> str:
    """Ask the user a question that is answered by yes or no.

    Args:
        question: One clear question.
    """
    return "yes" if await _ask(ConfirmQuestion(question=question), bool) else "no"


def _one_of(options: tuple[str, ...]) -> Any:
    """Make the type of an answer that is one of these texts."""
    literal: Any = Literal
    return literal[options]


async def _ask(question: BaseModel, answer: Any) -> Any:
    return await interrupt(question, answer=answer)


# --- before a call ---------------------------------------------------------------------------------------------------


def confirm_risky(risks: Collection[Risk] = ("sensitive", "destructive"), *, tools: Collection[str] = ()) -> Middleware:
    """Make a middleware that asks a person before a call that is not safe.

    The question is a :class:`ToolApproval`. The answer is ``True``, ``False``, or a :class:`Decision`, which may change
    the arguments. A call that is refused does not run, and the model is told.

    Args:
        risks: The risks of tools for which to ask.
        tools: Names of tools for which to ask whatever their risk.

    Returns:
        The middleware. Put it last: what stands inside of it could change the call after it was approved.

    Example:
        >>> from anabranch.compose import END, START, Graph, RunOptions, ToolsNode
        >>> from anabranch.schema import Message
        >>> @tool(risk="destructive")
        ... async def delete(path: str) -> str:
        ...     '''Delete a file.'''
        ...     return f"deleted {path}"
        >>> graph = Graph[Message, list[Message]]()
        >>> node = graph.add_node("tools", ToolsNode([delete], middlewares=[confirm_risky()]))
        >>> graph.add_edge(START, node)
        >>> graph.add_edge(node, END)
        >>> call = Message.assistant(tool_calls=[ToolCall(id="c1", name="delete", arguments='{"path": "a.txt"}')])
        >>> options = RunOptions(on_interrupt=lambda question: question.payload.arguments["path"] != "a.txt")
        >>> (await graph.compile().invoke(call, options))[0].text
        "The user did not allow this call of 'delete'. Do not make it again unless they ask for it."
    """

    async def ask_first(call: ToolCall, next: NextCall) -> ToolOutput:
        current = current_tool_call()
        name, risk = current.tool, current.risk
        if call.name != current.name:  # a middleware sent it to another tool, of which nothing is known here
            name, risk = call.name, "destructive"
        if risk not in risks and name not in tools:
            return await next(call)
        arguments: dict[str, Any] = from_json(call.arguments) if call.arguments.strip() else {}
        question = ToolApproval(
            action=f"call the tool {name!r}", target=name, tool=name, arguments=arguments or {}, risk=risk
        )
        decision: bool | Decision = await _ask(question, bool | Decision)
        if isinstance(decision, bool):
            decision = Decision(approved=decision)
        if not decision.approved:
            return _refused(name, decision.reason)
        if decision.arguments is None or dict(decision.arguments) == arguments:
            return await next(call)
        written = json.dumps(dict(decision.arguments), ensure_ascii=False)
        output = await next(call.model_copy(update={"arguments": written}))
        return _with_note(f"[The user changed the arguments of this call to {written}.]\n", output)

    return ask_first


def _refused(name: str, reason: str) -> ToolResult:
    why = f" They said: {reason}" if reason else ""
    return ToolResult(
        f"The user did not allow this call of {name!r}. Do not make it again unless they ask for it.{why}",
        is_error=True,
    )


def _with_note(note: str, output: ToolOutput) -> ToolOutput:
    """Put words in front of what a tool gave, so that the model knows what it answers."""
    if hasattr(output, "__anext__"):
        return _noted(note, output)
    if isinstance(output, ToolResult):
        return output.model_copy(update={"parts": (TextPart(note), *output.parts)})
    content = tool_text(output)
    return note + content if isinstance(content, str) else ToolResult(cast("Any", (TextPart(note), *content)))


async def _noted(note: str, output: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    try:
        yield note
        async for chunk in output:
            yield chunk
    finally:
        close = getattr(output, "aclose", None)
        if close is not None:
            await close()
