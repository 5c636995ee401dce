"""`anabranch ask`."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

from ...compose import RunEnded
from ...schema import ChatModel
from ...schema.errors import MissingExtraError
from ..models import MissingKey, OfflineModel, model_named
from ..react import ReactAgent
from ..tools import FileAccessError, calculator, current_time, file_tools
from ._output import Line
from ._trace import Trace
from .errors import UsageError


def ask_agent(question: str, *, folder: Path, model: str, stream: bool, trace: bool) -> Coroutine[Any, Any, None]:
    """Make the agent, and give what asks it.

    Args:
        question: The question.
        folder: What the file tools may read.
        model: The model's name.
        stream: Whether to print the answer while it is made.
        trace: Whether to show the steps on stderr.

    Returns:
        The work that is left to do.

    Raises:
        UsageError: If the question is empty, or there is no such folder or model; nothing has run.
    """
    if not question.strip():
        raise UsageError("the question is empty")
    try:
        tools = [calculator, current_time, *file_tools(folder)]
    except FileAccessError as error:
        raise UsageError(f"--folder: {error}") from error
    chat = _model(model)
    agent = ReactAgent(chat, tools=tools)
    if trace:
        return _closing(chat, _trace(agent, question))
    return _closing(chat, _stream(agent, question) if stream else _generate(agent, question))


def _model(name: str) -> ChatModel:
    """Make a model by its name; without a key, say so and take the offline one."""
    try:
        return model_named(name)
    except MissingKey as error:
        if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]  (None when it was closed)
            sys.stderr.write(f"{error}; until then the offline model answers\n")
        return OfflineModel()
    except (ValueError, MissingExtraError) as error:
        raise UsageError(f"--model: {error}") from error


async def _closing(model: ChatModel, work: Coroutine[Any, Any, None]) -> None:
    """Do the work, and close what connections the model has opened for it."""
    try:
        await work
    finally:
        if not isinstance(model, OfflineModel):
            await cast("Any", model).aclose()


async def _trace(agent: ReactAgent, question: str) -> None:
    """Show every step while it happens, and print the answer when it is known to be one."""
    line, trace = Line(), Trace()
    async with agent.events(question) as events:
        async for event in events:
            trace.show(event)
            if isinstance(event, RunEnded) and not event.path:
                line.write(event.output.text)
    line.end()


async def _generate(agent: ReactAgent, question: str) -> None:
    line = Line()
    line.write((await agent.generate(question)).text)
    line.end()


async def _stream(agent: ReactAgent, question: str) -> None:
    line = Line()
    async with agent.stream(question) as reader:
        async for chunk in reader:
            line.write(chunk.text)
    line.end()
