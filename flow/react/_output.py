"""Typed answers: how the model is told what is wanted, and how its answer is read and sent back if it does not fit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar, cast, get_args

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypeForm

from ...compose import current_state, current_tool_call
from ...schema import (
    ChatModel,
    FunctionTool,
    Message,
    MessageParser,
    ParseError,
    StreamReader,
    ToolArgumentsError,
    ToolResult,
    ToolResultError,
    concat,
    tool,
    tool_text,
)
from ._state import AgentState
from .errors import OutputInvalid

T = TypeVar("T")

OutputMode = Literal["tool", "text", "schema"]
"""How the model gives a typed answer: by calling a tool whose arguments are the answer, as JSON in its text because
it is told to, or as JSON in its text because its provider holds it to the schema (``model.with_output``)."""

FINAL_ANSWER = "final_answer"
"""The name of the tool by which a typed answer is given."""

_ARGUMENTS = "final_answer_arguments"
"""Where a message keeps the arguments of the answer that count, if they are not those that the model wrote."""


class Output(Generic[T]):
    """What an agent's answer has to be."""

    def __init__(self, kind: TypeForm[T], mode: OutputMode, retries: int) -> None:
        if mode not in get_args(OutputMode):
            raise ValueError(f"output_mode is one of {get_args(OutputMode)}, not {mode!r}")
        if retries < 0:
            raise ValueError(f"output_retries={retries}: give 0 or more")
        self._retries = retries
        self._adapter: TypeAdapter[T] = TypeAdapter(kind)
        self._parser: MessageParser[T] = MessageParser(kind, lenient=True)
        self.tool: FinalTool | None = FinalTool(_final_tool(kind)) if mode == "tool" else None
        """The tool that takes the answer, if it is given that way."""
        self.prompt = _prompt(self._adapter) if mode == "text" else ""
        """What the model is told about the form of its answer."""
        self._held_by_provider = mode == "schema"

    def bound(self, model: ChatModel) -> ChatModel:
        """Give a model that is held to the schema, if that is how the answer is given.

        Raises:
            ValueError: The model has no schema mode.
        """
        if not self._held_by_provider:
            return model
        bind: Callable[..., ChatModel] | None = getattr(model, "with_output", None)
        if bind is None:
            raise ValueError(
                f'output_mode="schema": {type(model).__name__} has no with_output; use output_mode="tool" or "text"'
            )
        schema = self._adapter.json_schema()
        return bind(schema, strict=_all_required(schema))

    def read(self, message: Message, history: Sequence[Message]) -> T:
        """Read the value of an answer: what the call said whose arguments are the answer, and not what was made of it.

        Args:
            message: The answer.
            history: The messages up to it.

        Raises:
            ParseError: The message does not hold one.
            OutputInvalid: It is the result of another tool, and does not fit.
        """
        if message.role != "tool":
            return self._parser.parse(message)
        arguments = None if self.tool is None else _arguments_of(message, history)
        if self.tool is not None and arguments is not None:
            try:
                return cast("T", self.tool.validate(arguments)["answer"])
            except ToolArgumentsError:
                pass  # they are not kept as they were, as with redact=
        try:
            return self._adapter.validate_json(message.text)
        except ValidationError:
            pass
        try:
            return self._adapter.validate_python(message.text)  # a text that the tool gave as it is
        except ValidationError as error:
            why = f"the result of tool {message.name!r} is the answer, and does not fit the output type: {error}"
            raise OutputInvalid(self._retries, history, why) from error

    async def decide(self, message: StreamReader[Message]) -> Literal["tools", "correct", "end"]:
        """Go to the tools at the first tool call; a message that makes none is the answer if it fits."""
        chunks: list[Message] = []
        async for chunk in message:
            if chunk.tool_calls:
                return "tools"
            chunks.append(chunk)
        return "end" if self._problem(concat(chunks)) is None else "correct"

    async def correct(self, message: Message) -> list[Message]:
        """Tell the model what is wrong with its answer."""
        async with current_state(AgentState) as state:
            state.corrections += 1
            if state.corrections > self._retries:
                raise OutputInvalid(self._retries, state.messages)
        if self.tool is not None:
            return [Message.user(f"Give the final answer by calling the tool {FINAL_ANSWER!r}.")]
        return [Message.user(f"The answer does not fit: {self._problem(message)}\nAnswer again, with the JSON alone.")]

    def _problem(self, message: Message) -> str | None:
        try:
            self._parser.parse(message)
        except ParseError as error:
            return str(error)
        return None


class FinalTool:
    """The tool whose arguments are the answer."""

    apart = True
    streaming = False

    def __init__(self, made: FunctionTool[..., Any]) -> None:
        self._made = made
        self.info = made.info

    def validate(self, arguments: Mapping[str, Any] | str | bytes | None = None) -> FinalArguments:
        """Validate the answer.

        Raises:
            ToolArgumentsError: It does not fit; the text is for the model.
        """
        return FinalArguments(self._made.validate(arguments), arguments)

    async def run(self, arguments: Mapping[str, Any], /) -> Any:
        """Give the answer; and, where the history says something else than was validated, what that was."""
        valid = arguments if isinstance(arguments, FinalArguments) else self.validate(arguments)
        value, given = valid["answer"], valid.given
        if not isinstance(given, str):
            return value
        try:
            shown = tool_text(value)
        except ToolResultError:  # JSON cannot say it, but the model could
            value = shown = given
        id, messages = current_tool_call().id, current_state(AgentState).peek().messages
        calls = messages[-1].tool_calls if messages else ()
        if any(call.id == id and call.name == FINAL_ANSWER and call.arguments == given for call in calls):
            return value
        return ToolResult(cast("Any", shown), extra={_ARGUMENTS: given})


class FinalArguments(dict[str, Any]):
    """The arguments of an answer, validated, and what they were before."""

    __slots__ = ("given",)

    def __init__(self, valid: Mapping[str, Any], given: Mapping[str, Any] | str | bytes | None) -> None:
        super().__init__(valid)
        self.given = given


def _arguments_of(message: Message, history: Sequence[Message]) -> str | None:
    """Find the arguments of the answer that a tool's message gives; None if it gives the result of another tool."""
    kept = message.extra.get(_ARGUMENTS)
    if isinstance(kept, str):
        return kept
    for earlier in reversed(history):
        for call in earlier.tool_calls:
            if call.id == message.tool_call_id:
                return call.arguments if call.name == FINAL_ANSWER else None
    return None


def _final_tool(kind: Any) -> FunctionTool[..., Any]:
    async def final_answer(answer: Any) -> Any:
        return answer

    final_answer.__annotations__ = {"answer": kind, "return": Any}
    said = (getattr(kind, "__doc__", None) or "") if isinstance(kind, type) and kind.__module__ != "builtins" else ""
    description = "Give the final answer. Call this once, alone, when you know it."
    return tool(final_answer, name=FINAL_ANSWER, description=f"{description}\n\n{said.strip()}".strip())


def _all_required(schema: Any) -> bool:
    """Tell whether no object has an optional field, which a strict schema would have null instead of absent."""
    if isinstance(schema, list):
        return all(map(_all_required, schema))  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(schema, dict):
        return True
    given = cast("dict[str, Any]", schema)
    fields = given.get("properties")
    if isinstance(fields, dict) and set(cast("dict[str, Any]", fields)) - set(given.get("required", ())):
        return False
    return all(map(_all_required, given.values()))


def _prompt(adapter: TypeAdapter[Any]) -> str:
    schema = json.dumps(adapter.json_schema(), ensure_ascii=False)
    return f"Give the final answer as one JSON value that fits this JSON schema, without any words around it:\n{schema}"
