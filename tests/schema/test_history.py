"""The grammar of a history: what is reported, and how it is mended."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.schema import (
    HistoryError,
    Message,
    MessageError,
    ToolCall,
    check_history,
    repair_history,
    require_valid_history,
)

USER = Message.user("hi")
SYSTEM = Message.system("be kind")
DONE = Message.assistant("done")


def ask(*ids: str, name: str = "f") -> Message:
    return Message.assistant(tool_calls=[ToolCall(id=call_id, name=name, arguments="{}") for call_id in ids])


def answer(call_id: str, text: str = "ok") -> Message:
    return Message.tool(text, tool_call_id=call_id)


def missing(call_id: str, name: str = "f") -> Message:
    text = "There is no result: this call was not completed."
    return Message.tool(text, tool_call_id=call_id, name=name, is_error=True)


def kinds(history: list[Message]) -> list[tuple[int, str]]:
    return [(problem.index, problem.kind) for problem in check_history(history)]


VALID = {
    "nothing": [],
    "no calls": [SYSTEM, USER, DONE],
    "a call and its answer": [USER, ask("a"), answer("a"), DONE],
    "answers in any order": [ask("a", "b"), answer("b"), answer("a"), USER],
    "system messages anywhere": [USER, SYSTEM, DONE, SYSTEM],
    "an answer at the end": [USER, ask("a"), answer("a")],
    "the same id in two turns": [ask("a"), answer("a"), ask("a"), answer("a")],
    "two assistants after one another": [DONE, ask("a"), answer("a"), DONE, DONE],
}

# history, the problems as (message, kind), the mended history
BROKEN: dict[str, tuple[list[Message], list[tuple[int, str]], list[Message]]] = {
    "a call at the end": ([USER, ask("a")], [(1, "unanswered_call")], [USER, ask("a"), missing("a")]),
    "a call before a user's message": (
        [ask("a", "b"), answer("b"), USER],
        [(0, "unanswered_call")],
        [ask("a", "b"), answer("b"), missing("a"), USER],
    ),
    "an answer after a user's message": (
        [ask("a"), USER, answer("a", "late")],
        [(0, "unanswered_call"), (2, "misplaced_answer")],
        [ask("a"), answer("a", "late"), USER],
    ),
    "an answer to nothing": ([USER, answer("x"), DONE], [(1, "orphan_answer")], [USER, DONE]),
    "an answer to nothing among others": (
        [ask("a", "b"), answer("a"), answer("x"), answer("b")],
        [(2, "orphan_answer")],
        [ask("a", "b"), answer("a"), answer("b")],
    ),
    "an answer before its call": (
        [answer("a"), ask("a"), answer("a", "2")],
        [(0, "orphan_answer")],
        [ask("a"), answer("a", "2")],
    ),
    "a second answer": (
        [ask("a"), answer("a", "1"), answer("a", "2")],
        [(2, "doubled_answer")],
        [ask("a"), answer("a", "1")],
    ),
    "a second answer later": (
        [ask("a"), answer("a", "1"), USER, answer("a", "2")],
        [(3, "doubled_answer")],
        [ask("a"), answer("a", "1"), USER],
    ),
    "two late answers": (
        [ask("a"), USER, answer("a", "1"), answer("a", "2")],
        [(0, "unanswered_call"), (2, "misplaced_answer"), (3, "misplaced_answer")],
        [ask("a"), answer("a", "1"), USER],
    ),
    "a late answer that two calls could be meant by": (
        [ask("a"), ask("a"), USER, answer("a")],
        [(0, "unanswered_call"), (1, "unanswered_call"), (3, "misplaced_answer")],
        [ask("a"), missing("a"), ask("a"), missing("a"), USER],
    ),
    "two calls with one id": (
        [ask("a", "a"), answer("a", "1"), answer("a", "2")],
        [(0, "doubled_call_id"), (2, "doubled_answer")],
        [ask("a", "a_2"), answer("a", "1"), answer("a_2", "2")],
    ),
    "two calls with one id, and the new one taken": (
        [ask("a", "a", "a_2"), answer("a"), answer("a_2")],
        [(0, "doubled_call_id")],
        [ask("a", "a_3", "a_2"), answer("a"), answer("a_2"), missing("a_3")],
    ),
    "calls and answers without ids": (
        [USER, ask("", ""), answer("", "1"), answer("", "2")],
        [(1, "missing_call_id"), (1, "missing_call_id"), (2, "missing_call_id"), (3, "missing_call_id")],
        [USER, ask("call_1_0", "call_1_1"), answer("call_1_0", "1"), answer("call_1_1", "2")],
    ),
    "a tool message that answers nothing": (
        [USER, Message(role="tool", content="x")],
        [(1, "missing_call_id")],
        [USER],
    ),
    "a call without a name": (
        [ask("a", name=""), answer("a")],
        [(0, "missing_tool_name")],
        [ask("a", name="unknown_tool"), answer("a")],
    ),
    "calls in a user's message": (
        [Message(role="user", content="hi", tool_calls=[ToolCall(id="a", name="f")]), answer("a")],
        [(0, "misplaced_calls"), (1, "orphan_answer")],
        [USER],
    ),
    "calls in a tool message": (
        [ask("a"), answer("a").model_copy(update={"tool_calls": (ToolCall(id="b", name="f"),)})],
        [(1, "misplaced_calls")],
        [ask("a"), answer("a")],
    ),
}


@pytest.mark.parametrize("history", VALID.values(), ids=VALID.keys())
def test_a_valid_history_has_no_problems_and_comes_back_as_it_is(history: list[Message]) -> None:
    assert check_history(history) == []
    assert repair_history(history) == history
    require_valid_history(history)


@pytest.mark.parametrize(("history", "problems", "mended"), BROKEN.values(), ids=BROKEN.keys())
def test_each_breach_is_reported_precisely_and_mended(
    history: list[Message], problems: list[tuple[int, str]], mended: list[Message]
) -> None:
    assert kinds(history) == problems
    assert repair_history(history) == mended


def test_problems_are_told_in_words() -> None:
    history = [ask("a", "b"), answer("b"), USER, answer("a"), answer("x"), answer("b")]
    assert [problem.text for problem in check_history(history)] == [
        "message 0: the call 'a' of 'f' is not answered directly after its message",
        "message 3: this answers the call 'a', but does not stand directly after the message that makes it",
        "message 4: this answers 'x', but no message before it makes that call",
        "message 5: the call 'b' is answered a second time",
    ]


def test_a_history_can_be_refused() -> None:
    with pytest.raises(HistoryError, match=r"message 0: the call 'a' .*; repair_history\(\) gives") as caught:
        require_valid_history([ask("a"), *[answer("x")] * 8])
    assert isinstance(caught.value, MessageError)
    assert [problem.index for problem in caught.value.problems] == list(range(9))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.problems, str(again)) == (caught.value.problems, str(caught.value))


def test_the_placeholder_can_be_worded() -> None:
    assert repair_history([ask("a")], placeholder="cancelled")[1].text == "cancelled"


ids = st.sampled_from(["", "a", "b", "a_2", "call_0_0", "call_0_0_3"])
calls = st.builds(ToolCall, id=ids, name=st.sampled_from(["", "f", "f", "f"]))
histories = st.lists(
    st.just(USER)
    | st.builds(answer, ids, st.text("xyz", max_size=2))
    | st.builds(ask, ids)
    | st.builds(
        Message,
        role=st.sampled_from(["assistant", "assistant", "assistant", "tool", "user", "system"]),
        content=st.text("xyz", max_size=2),
        tool_calls=st.lists(calls, max_size=3),
        tool_call_id=st.none() | ids,
    ),
    max_size=8,
)


@given(histories)
def test_what_is_mended_is_valid_and_mending_it_again_changes_nothing(history: list[Message]) -> None:
    before = list(history)
    mended = repair_history(history)
    assert check_history(mended) == []
    assert repair_history(mended) == mended
    assert history == before


@given(histories)
def test_mending_keeps_every_message_that_is_no_answer_and_every_call_of_an_assistant(history: list[Message]) -> None:
    mended = repair_history(history)
    assert [m.content for m in mended if m.role != "tool"] == [m.content for m in history if m.role != "tool"]
    made = [len(m.tool_calls) for m in history if m.role == "assistant"]
    assert [len(m.tool_calls) for m in mended if m.role == "assistant"] == made


def is_valid(history: list[Message]) -> bool:
    """Whether a history is valid, by the grammar word for word."""
    at = 0
    while at < len(history):
        message = history[at]
        if message.role == "tool" or (message.tool_calls and message.role != "assistant"):
            return False
        wanted = [call.id for call in message.tool_calls]
        answers = history[at + 1 : at + 1 + len(wanted)]
        if not all(call.id and call.name for call in message.tool_calls) or len(set(wanted)) < len(wanted):
            return False
        if any(answer.role != "tool" or answer.tool_calls for answer in answers):
            return False
        if sorted(wanted) != sorted(answer.tool_call_id or "" for answer in answers):
            return False
        at += 1 + len(wanted)
    return True


@given(histories)
def test_a_history_has_problems_exactly_when_it_breaks_the_grammar(history: list[Message]) -> None:
    problems = check_history(history)
    assert (not problems) == is_valid(history)
    assert all(0 <= problem.index < len(history) for problem in problems)
