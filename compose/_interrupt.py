"""Ask a person in the middle of a run: a node or tool waits for a typed answer to a typed question.

Today the answer comes from a live handler, ``RunOptions(on_interrupt=…)``, while the node waits in place. An
interrupt's address is where it is asked: the node's path, the place of the tool call in its message, and the number of
the question within that; never the order in which several arrive, nor only an id that a model made up.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ._context import current_frame
from ._events import InterruptAnswered, InterruptRequested
from ._tool_context import current_position
from ._types import checker, type_name, value_type_name
from .errors import InterruptError

if TYPE_CHECKING:
    from ._run import Run

T = TypeVar("T")


class Approval(BaseModel):
    """A question that is answered by yes or no: may this be done?

    Example:
        >>> Approval(action="delete", target="notes.txt").action
        'delete'
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    action: str
    """What is to be done."""
    target: str | None = None
    """To what it is to be done."""
    details: str | None = None
    """What else the person should know."""


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question that a run waits for; a live handler gets it."""

    id: str
    """The address as one text; unique in the run."""
    address: tuple[str, ...]
    """Where it is asked: the keys of the nodes from the outermost graph, a tool call's place, the question's number."""
    payload: Any
    """What is asked."""
    answer_type: Any
    """The type that the answer must have."""


_asked: ContextVar[list[int] | None] = ContextVar("anabranch_asked", default=None)


@overload
async def interrupt(payload: Any, *, answer: type[T]) -> T: ...
@overload
async def interrupt(payload: Any) -> Any: ...
async def interrupt(payload: Any, *, answer: Any = Any) -> Any:
    """Ask a person, and wait for the answer.

    Args:
        payload: What is asked: a model such as :class:`Approval`, or any value.
        answer: The type of the answer. ``None``, ``False`` and empty values are answers like others.

    Returns:
        The answer, of that type.

    Raises:
        InterruptError: If nobody can be asked (no ``RunOptions(on_interrupt=…)``), or the answer is of another type.

    Example:
        >>> from anabranch.compose import END, START, Graph, RunOptions
        >>> async def delete(path: str) -> str:
        ...     sure = await interrupt(Approval(action="delete", target=path), answer=bool)
        ...     return "deleted" if sure else "kept"
        >>> graph = Graph[str, str]()
        >>> graph.add_edge(START, graph.add_node("delete", delete))
        >>> graph.add_edge("delete", END)
        >>> graph.compile().invoke_sync("notes.txt", RunOptions(on_interrupt=lambda question: False))
        'kept'
    """
    frame = current_frame.get()
    if frame is None:
        raise InterruptError("interrupt() was called outside of a run; call it inside a node or a tool")
    run, node, attempt = frame
    path = run.path(node)
    handler = _handler(run)
    if handler is None:
        raise InterruptError(
            f"node {path!r} asks a question, and nobody can be asked; run with RunOptions(on_interrupt=…)"
        )
    question = _question(path, payload, answer)
    if run.observer is not None:
        run.observer.say(run, InterruptRequested, path, attempt, interrupt=question)
    given = handler(question)
    given = await given if hasattr(given, "__await__") else given
    given = _validated(question, given)
    if run.observer is not None:
        run.observer.say(run, InterruptAnswered, path, attempt, interrupt=question, answer=given)
    return given


def _handler(run: Run) -> Callable[[Interrupt], Any] | None:
    around: Run | None = run
    while around is not None:
        handler: Callable[[Interrupt], Any] | None = around.options.given.on_interrupt
        if handler is not None:
            return handler
        around = around.parent
    return None


def _question(path: str, payload: Any, answer: Any) -> Interrupt:
    counter = _asked.get()
    if counter is None:  # the context is the node's own, or the tool call's
        counter = [0]
        _asked.set(counter)
    position = current_position()
    place = () if position is None else (f"call {position}",)
    address = (*path.split("/"), *place, str(counter[0]))
    counter[0] += 1
    return Interrupt("/".join(address), address, payload, answer)


def _validated(question: Interrupt, given: Any) -> Any:
    """Check an answer; a model may also be given as the dict that makes it."""
    if checker(question.answer_type)(given):
        return given
    try:
        return TypeAdapter(question.answer_type).validate_python(given, strict=True)
    except ValidationError as error:
        wanted, got = type_name(question.answer_type), value_type_name(given)
        raise InterruptError(f"the answer to {question.id!r} must be {wanted}, got {got}") from error
