"""A model asks the user, and a person is asked before a call that is not safe."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from anabranch.compose import (
    END,
    START,
    Approval,
    Graph,
    Interrupt,
    InterruptError,
    InterruptRequested,
    Middleware,
    NextCall,
    NodeError,
    Runnable,
    RunOptions,
    ToolsNode,
)
from anabranch.compose.testing import ScriptedModel
from anabranch.flow import ReactAgent
from anabranch.flow.tools import (
    ChoiceQuestion,
    ConfirmQuestion,
    Decision,
    InputQuestion,
    MultiChoiceQuestion,
    ToolApproval,
    ask_choice,
    ask_confirm,
    ask_input,
    ask_multi_choice,
    confirm_risky,
)
from anabranch.schema import (
    FunctionTool,
    ImagePart,
    Message,
    Risk,
    TextPart,
    Tool,
    ToolCall,
    ToolOutput,
    ToolResult,
    check_history,
    concat,
    tool,
)

pytestmark = pytest.mark.anyio

Runner = Runnable[Message, list[Message]]
NO_ANSWER = "The user did not answer this question. Go on without the answer, or end here."


def node_of(*tools: Tool, middlewares: list[Middleware] | None = None, **settings: Any) -> Runner:
    graph = Graph[Message, list[Message]]()
    graph.add_edge(START, graph.add_node("tools", ToolsNode(tools, middlewares=middlewares or [], **settings)))
    graph.add_edge("tools", END)
    return graph.compile()


def calls(*made: tuple[str, dict[str, Any]]) -> Message:
    return Message.assistant(
        tool_calls=[ToolCall(id=f"c{n}", name=name, arguments=json.dumps(args)) for n, (name, args) in enumerate(made)]
    )


async def asked(asking: Tool, arguments: dict[str, Any], answer: Any) -> tuple[Interrupt, str]:
    """Let a model call a tool that asks; give the question and what the model gets."""
    questions: list[Interrupt] = []

    def handler(question: Interrupt) -> Any:
        questions.append(question)
        return answer

    (told,) = await node_of(asking).invoke(calls((asking.info.name, arguments)), RunOptions(on_interrupt=handler))
    assert not told.is_error
    (question,) = questions
    return question, told.text


# --- the tools that ask ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asking", "arguments", "payload", "answer", "told"),
    [
        (ask_input, {"question": "Who?"}, InputQuestion(question="Who?"), "Ada", "Ada"),
        (ask_input, {"question": "Who?"}, InputQuestion(question="Who?"), None, NO_ANSWER),
        (ask_input, {"question": "Who?"}, InputQuestion(question="Who?"), "", "The user gave an empty answer."),
        (ask_input, {"question": "Who?", "default": "Bo"}, InputQuestion(question="Who?", default="Bo"), "", "Bo"),
        (
            ask_choice,
            {"question": "Which?", "options": ["ebb", "flow", "ebb"]},
            ChoiceQuestion(question="Which?", options=("ebb", "flow")),
            "flow",
            "flow",
        ),
        (
            ask_choice,
            {"question": "Which?", "options": ["ebb", "flow"]},
            ChoiceQuestion(question="Which?", options=("ebb", "flow")),
            None,
            NO_ANSWER,
        ),
        (
            ask_multi_choice,
            {"question": "Which?", "options": ["a", "b", "c"]},
            MultiChoiceQuestion(question="Which?", options=("a", "b", "c")),
            ["c", "a", "a"],
            '["a", "c"]',
        ),
        (
            ask_multi_choice,
            {"question": "Which?", "options": ["a", "b"]},
            MultiChoiceQuestion(question="Which?", options=("a", "b")),
            [],
            "[]",
        ),
        (ask_confirm, {"question": "Sure?"}, ConfirmQuestion(question="Sure?"), True, "yes"),
        (ask_confirm, {"question": "Sure?"}, ConfirmQuestion(question="Sure?"), False, "no"),
    ],
)
async def test_a_question_reaches_the_handler_with_its_type_and_the_answer_the_model(
    asking: FunctionTool[..., Any], arguments: dict[str, Any], payload: BaseModel, answer: Any, told: str
) -> None:
    question, text = await asked(asking, arguments, answer)
    assert question.payload == payload
    assert text == told


@pytest.mark.parametrize(
    ("asking", "arguments", "wrong"),
    [
        (ask_input, {"question": "?"}, 3),
        (ask_choice, {"question": "?", "options": ["a", "b"]}, "c"),
        (ask_multi_choice, {"question": "?", "options": ["a", "b"]}, ["a", "c"]),
        (ask_multi_choice, {"question": "?", "options": ["a", "b"]}, "a"),
        (ask_confirm, {"question": "?"}, "yes"),
    ],
)
async def test_an_answer_of_another_type_fails_the_run_and_is_not_told_to_the_model(
    asking: FunctionTool[..., Any], arguments: dict[str, Any], wrong: Any
) -> None:
    with pytest.raises(NodeError, match="must be") as raised:
        await asked(asking, arguments, wrong)
    assert isinstance(raised.value.__cause__, InterruptError)


@pytest.mark.parametrize("asking", [ask_choice, ask_multi_choice])
async def test_a_choice_without_alternatives_is_told_to_the_model(asking: FunctionTool[..., Any]) -> None:
    call = calls((asking.info.name, {"question": "?", "options": ["only"]}))
    (told,) = await node_of(asking).invoke(call, RunOptions(on_interrupt=lambda _: pytest.fail("asked")))
    assert told.is_error
    assert "options" in told.text


async def test_where_nobody_can_be_asked_the_run_fails_at_once_and_says_what_to_do() -> None:
    with pytest.raises(NodeError, match=r"RunOptions\(on_interrupt="):
        await node_of(ask_confirm).invoke(calls(("ask_confirm", {"question": "?"})))


async def test_two_questions_of_one_message_are_asked_at_once_and_each_gets_its_own_answer() -> None:
    second_asked = anyio.Event()

    async def handler(question: Interrupt) -> str:
        if question.payload.question == "second":
            second_asked.set()
        else:
            await second_asked.wait()  # answered only when the other one was asked too
        return f"<{question.payload.question}>"

    message = calls(("ask_input", {"question": "first"}), ("ask_input", {"question": "second"}))
    told = await node_of(ask_input).invoke(message, RunOptions(on_interrupt=handler))
    assert [answer.text for answer in told] == ["<first>", "<second>"]


async def test_questions_of_two_calls_have_addresses_of_their_own() -> None:
    questions: list[Interrupt] = []

    def handler(question: Interrupt) -> bool:
        questions.append(question)
        return True

    message = calls(("ask_confirm", {"question": "a"}), ("ask_confirm", {"question": "b"}))
    await node_of(ask_confirm).invoke(message, RunOptions(on_interrupt=handler))
    assert sorted(question.id for question in questions) == ["tools/call 0/0", "tools/call 1/0"]


@pytest.mark.virtual_time
async def test_a_time_limit_of_the_node_does_not_hurry_the_user() -> None:
    async def handler(question: Interrupt) -> str:
        await anyio.sleep(3600)
        return "at last"

    app = node_of(ask_input, timeout=5)
    (told,) = await app.invoke(calls(("ask_input", {"question": "?"})), RunOptions(on_interrupt=handler))
    assert told.text == "at last"


async def test_an_agent_asks_the_user_and_goes_on_with_the_answer() -> None:
    model = ScriptedModel([calls(("ask_input", {"question": "Which port?"})), Message.assistant("Leith it is.")])
    agent = ReactAgent(model, tools=[ask_input])
    options = RunOptions(on_interrupt=lambda question: "Leith")
    async with agent.events("Plan a trip.", options) as events:
        kinds = [event async for event in events if isinstance(event, InterruptRequested)]
    assert [event.interrupt.payload for event in kinds] == [InputQuestion(question="Which port?")]
    assert not check_history(model.calls[1].messages)
    assert model.calls[1].messages[-1].text == "Leith"


@pytest.mark.parametrize(
    "payload",
    [
        InputQuestion(question="?", default="x"),
        ChoiceQuestion(question="?", options=("a", "b")),
        MultiChoiceQuestion(question="?", options=("a", "b")),
        ConfirmQuestion(question="?"),
        ToolApproval(action="call", target="t", tool="t", arguments={"a": [1]}, risk="sensitive"),
        Decision(approved=True, arguments={"a": 1}, reason="fine"),
    ],
)
async def test_questions_and_decisions_are_frozen_and_survive_json(payload: BaseModel) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(type(payload))
    assert adapter.validate_json(adapter.dump_json(payload)) == payload
    with pytest.raises(ValidationError, match="frozen"):
        setattr(payload, next(iter(type(payload).model_fields)), "other")


# --- before a call ---------------------------------------------------------------------------------------------------


def deleting(log: list[str], risk: Risk = "destructive") -> FunctionTool[..., Any]:
    @tool(risk=risk)
    async def delete(path: str, force: bool = False) -> str:
        """Delete a file.

        Args:
            path: Which one.
            force: Even if it is needed.
        """
        log.append(path)
        return f"deleted {path}"

    return delete


DELETE = calls(("delete", {"path": "a.txt"}))


def answering(answer: Any, seen: list[Any]) -> RunOptions:
    def handler(question: Interrupt) -> Any:
        seen.append(question.payload)
        return answer

    return RunOptions(on_interrupt=handler)


@pytest.mark.parametrize("answer", [True, Decision(approved=True), {"approved": True}])
async def test_a_risky_call_runs_when_a_person_allows_it(answer: Any) -> None:
    log: list[str] = []
    seen: list[Any] = []
    app = node_of(deleting(log), middlewares=[confirm_risky()])
    (told,) = await app.invoke(DELETE, answering(answer, seen))
    assert (told.text, log) == ("deleted a.txt", ["a.txt"])
    assert seen == [
        ToolApproval(
            action="call the tool 'delete'",
            target="delete",
            tool="delete",
            arguments={"path": "a.txt"},
            risk="destructive",
        )
    ]
    assert isinstance(seen[0], Approval)


@pytest.mark.parametrize(
    ("answer", "why"),
    [(False, ""), (Decision(approved=False, reason="We need it."), " They said: We need it.")],
)
async def test_a_risky_call_that_is_refused_does_not_run_and_the_model_is_told(answer: Any, why: str) -> None:
    log: list[str] = []
    app = node_of(deleting(log), middlewares=[confirm_risky()])
    (told,) = await app.invoke(DELETE, answering(answer, []))
    expected = "The user did not allow this call of 'delete'. Do not make it again unless they ask for it."
    assert (told.text, told.is_error, log) == (expected + why, True, [])


async def test_the_answer_may_change_the_arguments_and_the_model_learns_of_it() -> None:
    log: list[str] = []
    app = node_of(deleting(log), middlewares=[confirm_risky()])
    (told,) = await app.invoke(DELETE, answering(Decision(approved=True, arguments={"path": "b.txt"}), []))
    assert log == ["b.txt"]
    assert told.text == '[The user changed the arguments of this call to {"path": "b.txt"}.]\ndeleted b.txt'


async def test_changed_arguments_are_validated_again() -> None:
    log: list[str] = []
    app = node_of(deleting(log), middlewares=[confirm_risky()])
    (told,) = await app.invoke(DELETE, answering(Decision(approved=True, arguments={"file": "b.txt"}), []))
    assert told.is_error
    assert "path" in told.text
    assert not log


async def test_arguments_that_are_given_back_as_they_were_are_no_change() -> None:
    log: list[str] = []
    app = node_of(deleting(log), middlewares=[confirm_risky()])
    (told,) = await app.invoke(DELETE, answering(Decision(approved=True, arguments={"path": "a.txt"}), []))
    assert told.text == "deleted a.txt"


@pytest.mark.parametrize(
    ("risk", "middleware", "asks"),
    [
        ("safe", confirm_risky(), False),
        ("sensitive", confirm_risky(), True),
        ("destructive", confirm_risky(), True),
        ("sensitive", confirm_risky(risks=["destructive"]), False),
        ("safe", confirm_risky(tools=["delete"]), True),
        ("destructive", confirm_risky(risks=[], tools=["other"]), False),
    ],
)
async def test_only_calls_of_the_given_risks_and_tools_are_asked_for(
    risk: Risk, middleware: Middleware, asks: bool
) -> None:
    seen: list[Any] = []
    (told,) = await node_of(deleting([], risk), middlewares=[middleware]).invoke(DELETE, answering(True, seen))
    assert told.text == "deleted a.txt"
    assert bool(seen) == asks


async def test_a_call_that_could_not_run_is_not_asked_for() -> None:
    app = node_of(deleting([]), middlewares=[confirm_risky()])
    message = calls(("delete", {"file": "a.txt"}), ("remove", {}))
    told = await app.invoke(message, RunOptions(on_interrupt=lambda _: pytest.fail("asked")))
    assert [answer.is_error for answer in told] == [True, True]


async def test_a_person_sees_what_will_run_also_under_an_alias_and_behind_other_middlewares() -> None:
    async def redirect(call: ToolCall, next: NextCall) -> ToolOutput:
        return await next(call.model_copy(update={"arguments": '{"path": "/tmp/a.txt"}'}))

    log: list[str] = []
    seen: list[Any] = []
    app = node_of(deleting(log), middlewares=[redirect, confirm_risky()], aliases={"delete": ["rm"]})
    await app.invoke(calls(("rm", {"path": "a.txt"})), answering(True, seen))
    assert (seen[0].tool, seen[0].arguments, log) == ("delete", {"path": "/tmp/a.txt"}, ["/tmp/a.txt"])


async def test_a_call_that_a_middleware_sent_to_another_tool_is_asked_for() -> None:
    @tool
    async def look(path: str) -> str:
        """Look."""
        return "seen"

    async def redirect(call: ToolCall, next: NextCall) -> ToolOutput:
        return await next(call.model_copy(update={"name": "delete"}))

    log: list[str] = []
    seen: list[Any] = []
    app = node_of(look, deleting(log), middlewares=[redirect, confirm_risky()])
    (told,) = await app.invoke(calls(("look", {"path": "a.txt"})), answering(False, seen))
    assert (seen[0].tool, seen[0].risk, told.is_error, log) == ("delete", "destructive", True, [])


async def test_a_risky_call_without_arguments_is_asked_for_too() -> None:
    @tool(risk="destructive")
    async def wipe() -> str:
        """Delete all."""
        return "all gone"

    seen: list[Any] = []
    message = Message.assistant(tool_calls=[ToolCall(id="c", name="wipe", arguments="")])
    (told,) = await node_of(wipe, middlewares=[confirm_risky()]).invoke(message, answering(True, seen))
    assert told.text == "all gone"
    assert seen[0].arguments == {}


async def test_where_nobody_can_be_asked_a_risky_call_does_not_run() -> None:
    log: list[str] = []
    with pytest.raises(NodeError, match=r"RunOptions\(on_interrupt="):
        await node_of(deleting(log), middlewares=[confirm_risky()]).invoke(DELETE)
    assert not log


async def test_the_note_of_a_change_stands_before_whatever_the_tool_gives() -> None:
    @tool(risk="sensitive")
    async def stream(n: int) -> AsyncIterator[str]:
        """Count."""
        for number in range(n):
            yield f"{number} "

    @tool(risk="sensitive")
    async def picture(n: int) -> ToolResult:
        """Draw."""
        return ToolResult([ImagePart(url=f"https://example.org/{n}")], is_error=n > 5)

    @tool(risk="sensitive")
    async def parts(n: int) -> list[ImagePart]:
        """Draw more."""
        return [ImagePart(url=f"https://example.org/{n}")]

    @tool(risk="sensitive")
    async def number(n: int) -> dict[str, int]:
        """Tell."""
        return {"n": n}

    app = node_of(stream, picture, parts, number, middlewares=[confirm_risky()])
    message = calls(*((name, {"n": 1}) for name in ("stream", "picture", "parts", "number")))
    options = answering(Decision(approved=True, arguments={"n": 9}), [])
    told = await app.invoke(message, options)
    note = '[The user changed the arguments of this call to {"n": 9}.]\n'
    assert told[0].text == note + "0 1 2 3 4 5 6 7 8 "
    assert told[1].parts == (TextPart(note), ImagePart(url="https://example.org/9"))
    assert told[1].is_error
    assert told[2].parts == (TextPart(note), ImagePart(url="https://example.org/9"))
    assert told[3].text == note + '{"n": 9}'
    async with app.stream(message, options) as reader:
        assert concat([chunk async for chunk in reader]) == told


async def test_an_agent_accepts_a_refusal_and_its_history_stays_valid() -> None:
    log: list[str] = []
    model = ScriptedModel([DELETE, Message.assistant("Then I leave it.")])
    agent = ReactAgent(model, tools=[deleting(log)], middlewares=[confirm_risky()], return_directly={"delete"})
    result = await agent.run("Tidy up.", RunOptions(on_interrupt=lambda _: False))
    assert result.message.text == "Then I leave it."  # what was refused is not returned as if it were done
    assert not log
    assert not check_history(result.messages)


async def test_two_risky_calls_are_decided_one_by_one() -> None:
    log: list[str] = []
    decide: Callable[[Interrupt], bool] = lambda question: question.payload.arguments["path"] == "b"  # noqa: E731
    app = node_of(deleting(log), middlewares=[confirm_risky()])
    told = await app.invoke(calls(*(("delete", {"path": path}) for path in "abc")), RunOptions(on_interrupt=decide))
    assert [answer.is_error for answer in told] == [True, False, True]
    assert log == ["b"]
