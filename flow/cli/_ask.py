"""`anabranch ask`."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ...compose import CheckpointStore, Interrupted, RunEnded, RunOptions, RunPaused
from ...schema import ChatModel, Message
from ...schema.errors import MissingExtraError
from ..models import MissingKey, OfflineModel, model_named
from ..react import ReactAgent, TurnOptions, Waiting
from ..tools import Decision, FileAccessError, calculator, confirm_risky, current_time, file_tools
from ._asked import ask_on_the_spot, is_interactive
from ._kept import Settings, check_name, open_store, show_stream, show_text, waiting_told
from ._output import Line
from ._trace import Trace
from .errors import UsageError


@dataclass(frozen=True, slots=True)
class Keep:
    """What `anabranch ask` is told about keeping the run."""

    store: Path | None
    run: str | None
    thread: str | None
    waiting: Waiting

    def check(self) -> None:
        """Refuse what does not fit together.

        Raises:
            UsageError: If there is no store where one is needed, or no such folder.
        """
        for option, name in (("--run", self.run), ("--thread", self.thread)):
            if name is not None and self.store is None:
                raise UsageError(f"{option} needs a store; add --store runs.db")
            check_name(option, name)

    def options(self) -> TurnOptions:
        """Give what the agent is told."""
        given: TurnOptions = {}
        if self.run is not None:
            given["run"] = self.run
        if self.thread is not None:
            given["thread"] = self.thread
            given["waiting"] = self.waiting
        return given


@dataclass(frozen=True, slots=True)
class Asked:
    """The agent that is asked, and how its questions are answered."""

    agent: ReactAgent
    options: RunOptions | None


def ask_agent(
    question: str,
    *,
    folder: Path,
    model: str,
    confirm: Sequence[str],
    keep: Keep,
    stream: bool,
    trace: bool,
) -> Coroutine[Any, Any, None]:
    """Make the agent, and give what asks it.

    Args:
        question: The question.
        folder: What the file tools may read.
        model: The model's name.
        confirm: The names of the tools whose calls a person has to allow.
        keep: How the run is kept.
        stream: Whether to print the answer while it is made.
        trace: Whether to show the steps on stderr.

    Returns:
        The work that is left to do.

    Raises:
        UsageError: If the question is empty, or there is no such folder, tool or model; nothing has run.
    """
    if not question.strip():
        raise UsageError("the question is empty")
    keep.check()
    interactive = is_interactive()
    if confirm and keep.store is None and not interactive:
        raise UsageError("--confirm needs somebody to ask: run it in a terminal, or add --store runs.db")
    store = None if keep.store is None else open_store(keep.store)
    # What does not hold for every machine and folder is said at once; the name of a model is kept as it was given.
    settings = Settings(folder=str(folder.absolute() if store else folder), model=model, confirm=list(confirm))
    chat = _model(model)
    agent = _agent(settings, chat, store)
    asked = Asked(agent, _options(interactive=interactive))
    said = Message.user(question) if store is None else settings.question(question)
    return _ask(asked, said, keep, store, chat, stream=stream, trace=trace)


async def _ask(
    asked: Asked, question: Message, keep: Keep, store: Any, chat: ChatModel, *, stream: bool, trace: bool
) -> None:
    agent, options = asked.agent, asked.options
    kept = keep.options()
    async with _closing(chat, store), waiting_told(keep.store):
        if trace:
            with Trace() as steps:
                await show(agent.events(question, steps.added_to(options), **kept), steps)
        elif stream:
            await show_stream(agent.stream(question, options, **kept))
        else:
            await show_text((await agent.generate(question, options, **kept)).text)


@asynccontextmanager
async def make_agent(settings: Settings, store: CheckpointStore, *, interactive: bool) -> AsyncGenerator[Asked, None]:
    """Make the agent again that was asked.

    Raises:
        UsageError: If there is no such folder, tool or model any more.
    """
    chat = _model(settings.model)
    async with _closing(chat, None):
        yield Asked(_agent(settings, chat, store), _options(interactive=interactive))


def _agent(settings: Settings, chat: ChatModel, store: CheckpointStore | None) -> ReactAgent:
    try:
        tools = [calculator, current_time, *file_tools(settings.folder)]
    except FileAccessError as error:
        raise UsageError(f"--folder: {error}") from error
    names = [tool.info.name for tool in tools]
    for name in settings.confirm:
        if name not in (*names, "all"):
            raise UsageError(f"--confirm: there is no tool {name!r}; there are {', '.join(names)}, and all")
    asked_before = names if "all" in settings.confirm else settings.confirm
    middlewares = [confirm_risky(tools=asked_before)] if asked_before else []
    if store is None:
        return ReactAgent(chat, tools=tools, middlewares=middlewares)
    return ReactAgent(chat, tools=tools, middlewares=middlewares, store=store, answers=[bool, Decision])


def _options(*, interactive: bool) -> RunOptions | None:
    return RunOptions(on_interrupt=ask_on_the_spot) if interactive else None


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


@asynccontextmanager
async def _closing(model: ChatModel, store: Any) -> AsyncGenerator[None, None]:
    """Close what connections the model and the store have opened, after the work."""
    try:
        yield
    finally:
        if not isinstance(model, OfflineModel):
            await cast("Any", model).aclose()
        if store is not None:
            await store.aclose()


async def show(opened: Any, trace: Trace) -> None:
    """Show every step while it happens, and print the answer when it is known to be one.

    Args:
        opened: The events.
        trace: What shows them.

    Raises:
        Interrupted: The run has stopped for an answer.
    """
    line = Line()
    async with opened as events:
        async for event in events:
            trace.show(event)
            if isinstance(event, RunPaused):
                raise Interrupted(event.run, event.interrupts)
            if isinstance(event, RunEnded) and not event.path:
                line.write(event.output.text)
    line.end()
