"""The agent's model as a node: the models behind it, and what it notes of every answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, cast

from ...compose import current_state, current_tools, with_call_ids
from ...schema import (
    NO_OPTIONS,
    ChatModel,
    ConcatError,
    Message,
    ModelOptions,
    ReasoningPart,
    StreamReader,
    TextPart,
    ToolInfo,
    concat,
)
from ._state import AgentState, model_state


class AgentModel:
    """A chat model that asks the agent's model, falls back to others, and adds the answer to the history.

    A model that fails is followed by the next one, as long as nothing of its answer is out: no content, no reasoning,
    no tool call. What else it has said by then, such as its usage, is dropped.
    """

    def __init__(
        self,
        models: Sequence[ChatModel],
        tools: Sequence[ToolInfo],
        fallback_on: tuple[type[Exception], ...],
    ) -> None:
        self._models = models
        self._tools = tuple(tools)
        self._bound = self._bind(self._tools)
        self._fallback_on = fallback_on
        self._generates = all(hasattr(model, "generate") for model in models)
        self.name = str(getattr(models[0], "name", None) or type(models[0]).__name__)

    def with_tools(self, tools: Sequence[ToolInfo], choice: Any = "auto") -> AgentModel:
        """Make one that knows these tools."""
        return AgentModel(self._models, tools, self._fallback_on)

    async def generate(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS) -> Message:
        """Answer with one message, and note it."""
        models = self._models_of_run()
        for position, model in enumerate(models, 1):
            try:
                message = await (
                    model.generate(messages, options) if self._generates else _collect(model, messages, options)
                )
                state = model_state.get() or current_state(AgentState).peek()
                message = _whole(state, message, model)
            except self._fallback_on:
                if position == len(models):
                    raise
            else:
                return _note(state, message)
        raise AssertionError("the last model answers or raises")

    async def stream(
        self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS
    ) -> AsyncGenerator[Message, None]:
        """Answer chunk by chunk, and note the whole."""
        models = self._models_of_run()
        for position, model in enumerate(models, 1):
            chunks: list[Message] = []
            held: list[Message] = []  # what is no answer yet, and would be in the way of another model's
            is_out = position == len(models)  # nobody is asked after the last one
            try:
                async with aclosing(_stream(model, messages, options)) as stream:
                    async for chunk in stream:
                        if _is_mixed_up(chunk):
                            chunk = _kept_apart(chunk, _stem(current_state(AgentState).peek()))
                        chunks.append(chunk)
                        held.append(chunk)
                        is_out = is_out or _answers(chunk)
                        while is_out and held:
                            yield held.pop(0)
                whole = _joined(chunks, model)
            except self._fallback_on:
                if is_out:
                    raise
                continue
            for chunk in held:
                yield chunk
            _note(current_state(AgentState).peek(), whole)
            return

    def _bind(self, tools: Sequence[ToolInfo]) -> Sequence[ChatModel]:
        return [model.with_tools(tools) if tools else model for model in self._models]

    def _models_of_run(self) -> Sequence[ChatModel]:
        tools = current_tools("tools")
        return self._bound if tools is None or tools == self._tools else self._bind(tools)


async def _collect(model: ChatModel, messages: Sequence[Message], options: ModelOptions) -> Message:
    """Ask a model of which it is not known that it can answer as a whole."""
    if hasattr(model, "generate"):
        return await model.generate(messages, options)
    return _joined([chunk async for chunk in _stream(model, messages, options)], model)


def _joined(chunks: Sequence[Message], model: ChatModel) -> Message:
    """Put an answer together; chunks that contradict each other, or are none, are the model's failure."""
    try:
        return concat(chunks)
    except ConcatError as error:
        from ..models.errors import MalformedResponse

        name = str(getattr(model, "model", "") or getattr(model, "name", ""))
        text = f"the pieces of the answer do not fit together: {error}"
        raise MalformedResponse(text, provider=str(getattr(model, "provider", "")), model=name) from error


def _answers(chunk: Message) -> bool:
    """Tell whether a chunk has something of the answer itself."""
    if chunk.tool_calls or isinstance(chunk.content, str):
        return bool(chunk.tool_calls or chunk.content)
    return any(not isinstance(part, TextPart | ReasoningPart) or part.text for part in chunk.content)


async def _stream(
    model: ChatModel, messages: Sequence[Message], options: ModelOptions
) -> AsyncGenerator[Message, None]:
    if not hasattr(model, "stream"):
        yield await model.generate(messages, options)
        return
    made: Any = model.stream(messages, options)
    if hasattr(made, "__await__"):
        made = await made
    async with StreamReader.from_iterable(made) as reader:
        async for chunk in reader:
            yield cast("Message", chunk)


def _note(state: AgentState, message: Message) -> Message:
    """Add an answer to the history, each of its calls with an id of its own."""
    if message.tool_calls:
        message = with_call_ids(message, _stem(state))
    state.messages.append(message)
    if message.usage is not None:
        state.usage += message.usage
    return message


def _stem(state: AgentState) -> str:
    return f"call_{len(state.messages)}"


def _whole(state: AgentState, message: Message, model: ChatModel) -> Message:
    """Bring a whole message into the form that its stream would make, where it may differ from it."""
    if _is_mixed_up(message):
        return _joined([_kept_apart(message, _stem(state))], model)
    if type(message.content) is str and all(call.id and call.index is None for call in message.tool_calls):
        return message
    return _joined([message], model)


def _is_mixed_up(chunk: Message) -> bool:
    """Tell whether a chunk has several whole calls that concatenation would take for fragments of one."""
    calls = chunk.tool_calls
    if len(calls) < 2:
        return False
    heads = [call.id for call in calls if call.name and call.index is None]
    return len(set(heads)) < len(heads)


def _kept_apart(chunk: Message, stem: str) -> Message:
    """Give those calls ids of their own; other fragments stay as they are."""
    heads = [n for n, call in enumerate(chunk.tool_calls) if call.name and call.index is None]
    alone = with_call_ids(chunk, stem).tool_calls
    calls = [alone[n] if n in heads else call for n, call in enumerate(chunk.tool_calls)]
    return chunk.model_copy(update={"tool_calls": tuple(calls)})
