"""Ask a person in the middle of a run: a node or tool waits for a typed answer to a typed question.

The answer comes from a live handler, ``RunOptions(on_interrupt=…)``, while the node waits in place; or, in a run that
is kept, from whoever resumes it. An interrupt's address is where it is asked: the node's path and visit, the place of
the tool call in its message, and the number of the question within that; never the order in which several arrive, nor
only an id that a model made up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, overload

from pydantic import BaseModel, ConfigDict, TypeAdapter

from ._answers import UnknownAnswerTypeError, describe, resolve, validated
from ._codec import codec_for
from ._context import current_frame
from ._events import InterruptAnswered, InterruptRequested
from ._interrupted import Interrupted
from ._part import current_part
from ._state import caller
from ._tool_context import current_position
from ._types import checker
from .errors import DamagedRecordError, InterruptError, UnsavableTypeError, UnsavableValueError

if TYPE_CHECKING:
    from ._codec import Json
    from ._part import Part
    from ._record import Record
    from ._run import Run

T = TypeVar("T")


class Approval(BaseModel):
    """A question that is answered by yes or no: may this be done?

    Example:
        >>> Approval(action="delete", target="notes.txt").action
        'delete'
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, defer_build=True)

    action: str
    """What is to be done."""
    target: str | None = None
    """To what it is to be done."""
    details: str | None = None
    """What else the person should know."""


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """The payload of a pause that the graph was compiled with; it needs no answer."""

    node: str
    """The path of the node."""
    when: Literal["before", "after"]
    """Whether the node has still to run, or has run."""


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
async def interrupt(payload: Any, *, answer: type[T], name: str = "") -> T: ...
@overload
async def interrupt(payload: Any, *, name: str = "") -> Any: ...
async def interrupt(payload: Any, *, answer: Any = Any, name: str = "") -> Any:
    """Ask a person, and wait for the answer.

    With a live handler the code waits in place. In a run that is kept (``compile(store=…)``) and has none, the run is
    saved and stops, and :class:`Interrupted` comes out of it; when it is resumed with an answer, the node or tool runs
    again from its beginning with the input that it had, and gets the answer here.

    Args:
        payload: What is asked: a model such as :class:`Approval`, or any value.
        answer: The type of the answer. ``None``, ``False`` and empty values are answers like others.
        name: Stands for the question's number in its address; for code whose questions come in no fixed order.

    Returns:
        The answer, of that type.

    Raises:
        InterruptError: If nobody can be asked, the handler raises (that is the ``__cause__``), or the question is
            another one than was answered.
        AnswerTypeError: If the answer is of another type.
        Interrupted: To stop the run; it is no ``Exception``, let it pass.

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
    part = current_part.get()
    handler = _handler(run)
    if handler is None and part is None:
        raise InterruptError(
            f"node {path!r} asks a question, and nobody can be asked; run with RunOptions(on_interrupt=…), "
            "or compile with store=… to save the run until there is an answer"
        )
    if part is not None:
        question = _kept_question(part, payload, answer, name)
        found = _given(part, question)
        if found is not None:
            return found[0]
    else:
        question = _question(path, payload, answer, name)
    if run.observer is not None:
        run.observer.say(run, InterruptRequested, path, attempt, interrupt=question)
    if handler is None:
        assert part is not None, "somebody can be asked"
        _note(part, question)
        part.unanswered.append(question)
        raise Interrupted(part.record.id, [question])
    given = validated(question.id, answer, await _ask(handler, question))
    if part is not None:
        _note(part, question)
        part.record.put((*part.path, "asked", question.address[-1], "answer"), _encoded(question, given))
    if run.observer is not None:
        run.observer.say(run, InterruptAnswered, path, attempt, interrupt=question, answer=given)
    return given


async def _ask(handler: Callable[[Interrupt], Any], question: Interrupt) -> Any:
    """Let a live handler answer; that it fails is the program's fault and none of the tool's."""
    try:
        given = handler(question)
        return await given if hasattr(given, "__await__") else given
    except InterruptError:
        raise
    except Exception as error:
        raise InterruptError(
            f"on_interrupt failed at the question {question.id!r}: {type(error).__name__}: {error}"
        ) from error


def _handler(run: Run) -> Callable[[Interrupt], Any] | None:
    around: Run | None = run
    while around is not None:
        handler: Callable[[Interrupt], Any] | None = around.options.given.on_interrupt
        if handler is not None:
            return handler
        around = around.parent or caller(around)
    return None


def _question(path: str, payload: Any, answer: Any, name: str) -> Interrupt:
    counter = _asked.get()
    if counter is None:  # the context is the node's own, or the tool call's
        counter = [0]
        _asked.set(counter)
    position = current_position()
    place = () if position is None else (f"call {position}",)
    address = (*path.split("/"), *place, name or str(counter[0]))
    counter[0] += 1
    return Interrupt("/".join(address), address, payload, answer)


# -- in a run that is kept -------------------------------------------------------------------------------------


def _kept_question(part: Part, payload: Any, answer: Any, name: str) -> Interrupt:
    number = part.number("question")
    address = (*part.address, f"{part.prefix}{name or number}")
    return Interrupt("/".join(address), address, payload, answer)


def _note(part: Part, question: Interrupt) -> None:
    """Note in the record what is asked.

    Raises:
        InterruptError: If no answer could be tested or kept.
    """
    try:
        codec_for(question.answer_type)
        checker(question.answer_type)
    except (UnsavableTypeError, TypeError) as error:
        raise InterruptError(
            f"question {question.id!r}: answer={question.answer_type!r} is no type of answers: {error}"
        ) from error
    tree: Json = {
        "id": question.id,
        "address": list(question.address),
        "payload": payload_tree(question.payload),
        "answer_type": describe(question.answer_type),
    }
    part.put("asked", question.address[-1], tree)
    part.record.asked[question.id] = question
    part.record.asks = True


def _given(part: Part, question: Interrupt) -> tuple[Any] | None:
    """Give the answer that the record has, in a box, or None.

    Raises:
        InterruptError: If it is the answer to another question.
        AnswerTypeError: If it is of another type, which could not be known before.
    """
    label = question.address[-1]
    tree = part.get("asked", label)
    if not isinstance(tree, dict) or not ("answer" in tree or "raw" in tree):
        return None
    wanted = [payload_tree(question.payload), describe(question.answer_type)]
    asked = [tree.get("payload"), tree.get("answer_type")]
    if wanted != asked:
        raise InterruptError(
            f"the answer to {question.id!r} was given to the question {asked}, and the node asks {wanted} now; a node "
            "that is resumed has to ask as it did before (or give its questions names)"
        )
    if "answer" in tree:
        return (codec_for(question.answer_type).decode(tree["answer"]),)
    raw = codec_for(Any).decode(tree["raw"])
    part.record.remove((*part.path, "asked", label, "raw"))
    given = validated(question.id, question.answer_type, raw)
    part.record.put((*part.path, "asked", label, "answer"), _encoded(question, given))
    return (given,)


def _encoded(question: Interrupt, given: Any) -> Json:
    return codec_for(question.answer_type).encode(given)


def payload_tree(payload: Any) -> Json:
    """Say a payload in plain data."""
    if isinstance(payload, BaseModel):
        fields: Json = payload.model_dump(mode="json")
        try:
            return {"model": codec_for(BaseModel).encode(payload), "fields": fields}
        except UnsavableValueError:
            return {"fields": fields}
    if is_dataclass(payload) and not isinstance(payload, type):
        return {"fields": TypeAdapter(type(payload)).dump_python(payload, mode="json")}
    return {"value": codec_for(Any).encode(payload)}


def read_interrupt(record: Record, tree: Mapping[str, Any]) -> Interrupt:
    """Give a question that a record holds: as it was asked in this process, else what the record says of it."""
    id = tree["id"]
    asked = record.asked.get(id)
    if asked is not None:
        return asked
    address = tuple(tree["address"])
    kind = tree.get("kind")
    if kind in ("before", "after"):
        return Interrupt(id, address, Breakpoint("/".join(address[:-1]), kind), None)
    try:
        form = resolve(tree["answer_type"])
    except UnknownAnswerTypeError:
        form = Any
    return Interrupt(id, address, _read_payload(tree["payload"]), form)


def _read_payload(tree: Mapping[str, Any]) -> Any:
    if "model" in tree:
        try:
            return codec_for(BaseModel).decode(tree["model"])
        except DamagedRecordError:  # its class is not loaded here
            return tree["fields"]
    return tree["fields"] if "fields" in tree else codec_for(Any).decode(tree["value"])
