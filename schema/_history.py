"""The grammar of a history, its breaches, and how they are mended.

Every tool call is answered once, directly after its message, in any order among the calls of that message; nothing else
is a tool message. Providers answer a history that breaks this with an error 400.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ._message import Message, ToolCall
from .errors import HistoryError

__all__ = ("HistoryProblem", "HistoryProblemKind", "check_history", "repair_history", "require_valid_history")

HistoryProblemKind = Literal[
    "unanswered_call",
    "orphan_answer",
    "misplaced_answer",
    "doubled_answer",
    "doubled_call_id",
    "missing_call_id",
    "missing_tool_name",
    "misplaced_calls",
]
"""What can be wrong:

* ``unanswered_call``: no tool message for it directly after its message
* ``orphan_answer``: a tool message for a call that no message before it makes
* ``misplaced_answer``: a tool message that does not directly follow the message that makes the call
* ``doubled_answer``: a further tool message for a call that is answered
* ``doubled_call_id``: two calls of one message with the same id
* ``missing_call_id``: a call, or a tool message, without a call id
* ``missing_tool_name``: a call that names no tool
* ``misplaced_calls``: tool calls in a message that is not an assistant's
"""

UNKNOWN_TOOL = "unknown_tool"
NO_ANSWER = "There is no result: this call was not completed."


@dataclass(frozen=True)
class HistoryProblem:
    """One breach of the grammar."""

    index: int
    """The number of the message that is wrong, from 0."""
    kind: HistoryProblemKind
    """What is wrong."""
    text: str
    """The same in words."""


def check_history(messages: Iterable[Message]) -> list[HistoryProblem]:
    """Report every breach of the grammar of a history.

    Args:
        messages: The history.

    Returns:
        The problems, in the order of the messages; none if the history is fine.

    Example:
        >>> ask = Message.assistant(tool_calls=[ToolCall(id="c1", name="search", arguments="{}")])
        >>> check_history([Message.user("hi"), ask])[0].text
        "message 1: the call 'c1' of 'search' is not answered directly after its message"
    """
    history = list(messages)
    problems = [
        _problem(at, "misplaced_calls", f"a {message.role} message cannot make tool calls")
        for at, message in enumerate(history)
        if message.role != "assistant" and message.tool_calls
    ]
    made: set[str] = set()
    answered: set[str] = set()
    at = 0
    while at < len(history):
        message = history[at]
        answers = _count_answers(history, at)
        if message.role == "tool":
            problems += _check_stray(at, message, made, answered)
        elif message.role == "assistant" and message.tool_calls:
            problems += _check_turn(at, message, history[at + 1 : at + 1 + answers], made, answered)
            at += answers
        at += 1
    problems.sort(key=lambda problem: problem.index)
    return problems


def require_valid_history(messages: Iterable[Message]) -> None:
    """Refuse a history that breaks the grammar.

    Raises:
        HistoryError: It does; the error carries the ``problems``.
    """
    problems = check_history(messages)
    if problems:
        raise HistoryError(problems)


def repair_history(messages: Iterable[Message], *, placeholder: str = NO_ANSWER) -> list[Message]:
    """Make a history that a provider accepts, with as little change as possible.

    * A call without an answer gets a placeholder that says so, marked as an error.
    * An answer that stands elsewhere after its call is moved there, if only one call can be meant; else it is dropped,
      as are answers to no call and second answers.
    * Calls of one message with the same id, or without one, get ids of their own, and their answers with them, in
      order.
    * A call that names no tool gets the name ``unknown_tool``; calls in other messages than an assistant's are dropped.

    Args:
        messages: The history; it is not changed.
        placeholder: The text of the answers that are made up.

    Returns:
        A valid history: ``check_history(repair_history(h)) == []``. A valid one comes back as it is.
    """
    history = list(messages)
    if not check_history(history):
        return history
    turns, strays = _take_apart(history)
    for at, stray in strays:
        _place(at, stray, turns)
    return [message for turn in turns for message in turn.emit(placeholder)]


# --- checking --------------------------------------------------------------------------------------------------------


def _problem(index: int, kind: HistoryProblemKind, text: str) -> HistoryProblem:
    return HistoryProblem(index, kind, f"message {index}: {text}")


def _count_answers(history: Sequence[Message], at: int) -> int:
    """Count the tool messages that follow a message directly."""
    end = at + 1
    while end < len(history) and history[end].role == "tool":
        end += 1
    return end - at - 1


def _check_turn(
    at: int, message: Message, answers: Sequence[Message], made: set[str], answered: set[str]
) -> Iterator[HistoryProblem]:
    """Check a message that makes calls, and the tool messages that follow it."""
    yield from _check_calls(at, message.tool_calls)
    ids = {call.id for call in message.tool_calls if call.id}
    answered -= ids
    made |= ids
    for offset, answer in enumerate(answers, start=1):
        if answer.tool_call_id in ids - answered:
            answered.add(answer.tool_call_id or "")
        else:
            yield from _check_stray(at + offset, answer, made - ids, answered)
    for call in message.tool_calls:
        if call.id in ids - answered:
            ids.discard(call.id)  # reported once
            text = f"the call {call.id!r} of {call.name!r} is not answered directly after its message"
            yield _problem(at, "unanswered_call", text)


def _check_calls(at: int, calls: Sequence[ToolCall]) -> Iterator[HistoryProblem]:
    """Check the calls of one message by themselves."""
    counts = Counter(call.id for call in calls)
    for call in calls:
        if not call.id:
            yield _problem(at, "missing_call_id", f"a call of {call.name!r} has no id, so no answer can refer to it")
        elif counts[call.id] > 1:
            yield _problem(at, "doubled_call_id", f"{counts.pop(call.id)} calls have the same id {call.id!r}")
        if not call.name:
            yield _problem(at, "missing_tool_name", f"the call {call.id!r} names no tool")


def _check_stray(at: int, answer: Message, made: set[str], answered: set[str]) -> Iterator[HistoryProblem]:
    """Say what is wrong with a tool message that does not follow its call."""
    call_id = answer.tool_call_id
    if not call_id:
        yield _problem(at, "missing_call_id", "this tool message does not say which call it answers")
    elif call_id in answered:
        yield _problem(at, "doubled_answer", f"the call {call_id!r} is answered a second time")
    elif call_id in made:
        text = f"this answers the call {call_id!r}, but does not stand directly after the message that makes it"
        yield _problem(at, "misplaced_answer", text)
    else:
        yield _problem(at, "orphan_answer", f"this answers {call_id!r}, but no message before it makes that call")


# --- mending ---------------------------------------------------------------------------------------------------------


class _Turn:
    """A message that is no tool message, and the answers to its calls."""

    def __init__(self, at: int, message: Message) -> None:
        self.at = at
        self.message = message
        self.calls: list[ToolCall] = []  # as they will be
        self.asked: list[str] = []  # the ids that they had
        self.answers: dict[int, Message] = {}  # by the number of the call, in the order in which they stand

    def find_open(self, call_id: str) -> int | None:
        """Find the first unanswered call that had this id."""
        for number, asked in enumerate(self.asked):
            if asked == call_id and number not in self.answers:
                return number
        return None

    def emit(self, placeholder: str) -> Iterator[Message]:
        """Give the message and its answers."""
        calls = tuple(self.calls)
        yield self.message if calls == self.message.tool_calls else _with(self.message, tool_calls=calls)
        for number, answer in self.answers.items():
            call_id = calls[number].id
            yield answer if answer.tool_call_id == call_id else _with(answer, tool_call_id=call_id)
        for number, call in enumerate(calls):
            if number not in self.answers:
                yield Message.tool(placeholder, tool_call_id=call.id, name=call.name, is_error=True)


def _with(message: Message, **changes: object) -> Message:
    return message.model_copy(update=changes)


def _take_apart(history: Sequence[Message]) -> tuple[list[_Turn], list[tuple[int, Message]]]:
    """Split a history into its turns, and the tool messages that follow no call of theirs."""
    taken = {call.id for message in history for call in message.tool_calls}
    taken |= {message.tool_call_id or "" for message in history}
    turns: list[_Turn] = []
    strays: list[tuple[int, Message]] = []
    for at, message in enumerate(history):
        if message.role != "tool":
            turn = _Turn(at, message)
            if message.role == "assistant":
                turn.asked = [call.id for call in message.tool_calls]
                turn.calls = list(_name_calls(at, message.tool_calls, taken))
            turns.append(turn)
            continue
        answer = _with(message, tool_calls=()) if message.tool_calls else message
        number = turns[-1].find_open(answer.tool_call_id or "") if turns else None
        if number is None:
            strays.append((at, answer))
        else:
            turns[-1].answers[number] = answer
    return turns, strays


def _name_calls(at: int, calls: Sequence[ToolCall], taken: set[str]) -> Iterator[ToolCall]:
    """Give each call an id of its own, and a name."""
    seen: set[str] = set()
    for number, call in enumerate(calls):
        changes: dict[str, object] = {}
        if not call.name:
            changes["name"] = UNKNOWN_TOOL
        if not call.id or call.id in seen:
            stem = call.id or f"call_{at}_{number}"
            names = (stem if call.id == "" else f"{stem}_2", *(f"{stem}_{count}" for count in range(3, len(taken) + 4)))
            changes["id"] = next(name for name in names if name not in taken)
            taken.add(str(changes["id"]))
        seen.add(call.id)
        yield call.model_copy(update=changes) if changes else call


def _place(at: int, stray: Message, turns: Sequence[_Turn]) -> None:
    """Move an answer to its call, if there is just one before it that can be meant."""
    call_id = stray.tool_call_id
    if not call_id:
        return
    found = [(turn, turn.find_open(call_id)) for turn in turns if turn.at < at]
    open_calls = [(turn, number) for turn, number in found if number is not None]
    if len(open_calls) == 1:
        turn, number = open_calls[0]
        turn.answers[number] = stray
