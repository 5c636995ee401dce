from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from anabranch.flow.models import OfflineModel
from anabranch.flow.models._abilities import judge, survey
from anabranch.flow.tools import calculator, current_time, file_tools
from anabranch.schema import (
    ChatModel,
    Message,
    ModelOptions,
    NamedTool,
    ToolCall,
    ToolInfo,
    check_history,
    concat,
)

ASK = Message.user


def make(*tools: Any, choice: Any = "auto") -> OfflineModel:
    """Make a model that may call these tools and says nothing on stderr."""
    return OfflineModel(notice=False).with_tools([getattr(tool, "info", tool) for tool in tools], choice)


async def converse(model: OfflineModel, tools: Sequence[Any], *messages: Message) -> list[Message]:
    """Let the model call tools until it answers; gives all that was added to the messages."""
    by_name = {tool.info.name: tool for tool in tools}
    history = list(messages)
    for _ in range(10):
        answer = await model.generate(history)
        history.append(answer)
        if not answer.tool_calls:
            assert check_history(history) == []
            return history[len(messages) :]
        for call in answer.tool_calls:
            try:
                text, failed = str(await by_name[call.name].run(call.arguments)), False
            except Exception as error:  # noqa: BLE001  (whatever a tool raises, the model is told)
                text, failed = str(error), True
            history.append(Message.tool(text, tool_call_id=call.id, name=call.name, is_error=failed))
    raise AssertionError("no answer after ten rounds")


def calls_of(message: Message) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, json.loads(call.arguments)) for call in message.tool_calls]


def info(name: str, description: str = "", **parameters: Any) -> ToolInfo:
    """Describe a tool; a parameter is required unless its schema has a default."""
    required = [key for key, schema in parameters.items() if "default" not in schema]
    schema = {"type": "object", "properties": parameters, "required": required}
    return ToolInfo(name=name, description=description, parameters=schema)


TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
CLOCK = info("get_current_time", "Get the current time in a timezone.", timezone=TEXT)
SEARCH = info("search_docs", "Search the documents.", query=TEXT)
READ = info("open_document", "Read a document.", path=TEXT)
CALC = info("compute", "Evaluate an arithmetic expression.", expression=TEXT)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "boats.md").write_text("# Boats\n\nBoats float because water pushes them up.\n\nThey are red.\n")
    (tmp_path / "locks.md").write_text("# Locks\n\nA lock is a chamber that lifts boats.\nIt has two gates.\n")
    return tmp_path


# --- choosing -------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_an_expression_goes_to_the_calculator() -> None:
    added = await converse(make(calculator), [calculator], ASK("What is (312 * 46) + 2280?"))
    assert calls_of(added[0]) == [("calculator", {"expression": "(312 * 46) + 2280"})]
    assert added[0].finish_reason == "tool_calls"
    assert added[-1].text == "(312 * 46) + 2280 = 16632"
    assert added[-1].finish_reason == "stop"


@pytest.mark.anyio
async def test_two_expressions_are_calculated_at_once() -> None:
    added = await converse(make(calculator), [calculator], ASK("What is 2 + 3, and 7 squared?"))
    assert calls_of(added[0]) == [
        ("calculator", {"expression": "2 + 3"}),
        ("calculator", {"expression": "7 ** 2"}),
    ]
    assert added[-1].text == "2 + 3 = 5\n\n7 ** 2 = 49"


@pytest.mark.anyio
async def test_a_calculation_and_the_time_are_asked_at_once() -> None:
    tools = [current_time, calculator]
    added = await converse(make(*tools), tools, ASK("What is 2+3 and what time is it in Tokyo and Berlin?"))
    assert calls_of(added[0]) == [
        ("calculator", {"expression": "2+3"}),
        ("current_time", {"timezone": "Asia/Tokyo"}),
        ("current_time", {"timezone": "Europe/Berlin"}),
    ]
    assert added[-1].text.startswith("2+3 = 5\n\nTime in Asia/Tokyo: ")


@pytest.mark.anyio
async def test_everything_else_is_searched_and_the_best_hit_is_read(library: Path) -> None:
    tools = [calculator, *file_tools(library), current_time]
    added = await converse(make(*tools), tools, ASK("What is a lock?"))
    assert [calls_of(message) for message in added if message.tool_calls] == [
        [("search_files", {"query": "lock"})],
        [("read_file", {"path": "locks.md", "start_line": 1, "end_line": 61})],
    ]
    assert added[-1].text == (
        "locks.md:1-4 says:\n\n> # Locks\n>\n> A lock is a chamber that lifts boats.\n> It has two gates."
    )


@pytest.mark.anyio
async def test_what_is_quoted_stands_in_the_file(library: Path) -> None:
    tools = file_tools(library)
    answer = (await converse(make(*tools), tools, ASK("Why do boats float?")))[-1].text
    assert answer.startswith("boats.md:1-3 says:")
    lines = (library / "boats.md").read_text().split("\n")
    assert [line[2:] for line in answer.split("\n") if line.startswith("> ")] == [lines[0], lines[2]]


@pytest.mark.anyio
async def test_it_says_when_nothing_was_found(library: Path) -> None:
    tools = file_tools(library)
    added = await converse(make(*tools), tools, ASK("Who invented xyzzy plugh?"))
    assert [calls_of(message) for message in added if message.tool_calls] == [
        [("search_files", {"query": "invented xyzzy plugh"})],
        [("search_files", {"query": "invented"})],
    ]
    assert added[-1].text == (
        "I searched for 'invented xyzzy plugh' and for 'invented' and found nothing, so I cannot answer this."
    )


@pytest.mark.anyio
async def test_it_says_when_what_was_found_is_not_quite_what_was_asked(library: Path) -> None:
    tools = file_tools(library)
    answer = (await converse(make(*tools), tools, ASK("Which famous painter liked wooden boats?")))[-1].text
    assert answer.startswith("I found no passage that plainly answers this. The closest one is ")


@pytest.mark.anyio
async def test_a_failed_tool_is_reported_and_the_others_count() -> None:
    added = await converse(make(calculator), [calculator], ASK("What is 1/0 and 2+3?"))
    assert added[-1].text == "I could not calculate 1/0. calculator reported: division by zero\n\n2+3 = 5"


@pytest.mark.anyio
async def test_an_unknown_place_is_left_to_the_tool_to_refuse() -> None:
    answer = (await converse(make(current_time), [current_time], ASK("What time is it in Gotham City?")))[-1]
    assert answer.text.startswith("I could not get the time in Gotham City. current_time reported: ")


@pytest.mark.anyio
async def test_a_hit_that_cannot_be_read_is_followed_by_the_next() -> None:
    history = [
        ASK("What is a lock?"),
        Message.assistant("", tool_calls=[ToolCall(id="a", name="search_docs", arguments='{"query":"lock"}')]),
        Message.tool("one.md:3: A lock holds.\ntwo.md:9: A lock lifts.", tool_call_id="a"),
    ]
    model = make(SEARCH, READ)
    first = await model.generate(history)
    assert calls_of(first) == [("open_document", {"path": "one.md"})]
    history += [first, Message.tool("gone", tool_call_id=first.tool_calls[0].id, is_error=True)]
    second = await model.generate(history)
    assert calls_of(second) == [("open_document", {"path": "two.md"})]
    history += [second, Message.tool("moved", tool_call_id=second.tool_calls[0].id, is_error=True)]
    assert (await model.generate(history)).text == (
        "one.md:3 says:\n\n> A lock holds.\n\nopen_document reported: gone\n\nopen_document reported: moved"
        "\n\nSee also: two.md:9"
    )


@pytest.mark.anyio
async def test_without_a_reading_tool_it_quotes_the_hit() -> None:
    history = [
        ASK("What is a lock?"),
        Message.assistant("", tool_calls=[ToolCall(id="a", name="search_docs", arguments='{"query":"lock"}')]),
        Message.tool("one.md:3: A lock holds.", tool_call_id="a"),
    ]
    assert (await make(SEARCH).generate(history)).text == "one.md:3 says:\n\n> A lock holds."


@pytest.mark.anyio
@pytest.mark.parametrize(
    "result",
    [
        "A lock is a chamber.\n\nBoats go in.",
        '[{"content": "A lock is a chamber."}]',
    ],
)
async def test_a_search_tool_may_give_passages_instead_of_places(result: str) -> None:
    history = [
        ASK("What is a lock?"),
        Message.assistant("", tool_calls=[ToolCall(id="a", name="search_docs", arguments='{"query":"lock"}')]),
        Message.tool(result, tool_call_id="a"),
    ]
    answer = (await make(SEARCH, READ).generate(history)).text
    assert answer.startswith("search_docs says:\n\n> ")
    assert "A lock is a chamber." in answer


@pytest.mark.anyio
async def test_hits_in_json_are_understood() -> None:
    history = [
        ASK("What is a lock?"),
        Message.assistant("", tool_calls=[ToolCall(id="a", name="search_docs", arguments='{"query":"lock"}')]),
        Message.tool('{"results": [{"path": "x.md", "line": 7, "text": "a lock"}]}', tool_call_id="a"),
    ]
    assert calls_of(await make(SEARCH, READ).generate(history)) == [("open_document", {"path": "x.md"})]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("question", "tools", "start"),
    [
        ("What is 2+3?", [], "I am the offline model: I answer only from what tools give me, and I was given no tools"),
        ("What is love?", [CALC, CLOCK], "I am the offline model: I know nothing myself, and none of my tools (comp"),
        ("", [CALC], "There is no question"),
        ("   ", [], "There is no question"),
    ],
)
async def test_without_a_fitting_tool_it_says_so(question: str, tools: list[ToolInfo], start: str) -> None:
    message = await make(*tools).generate([ASK(question)])
    assert message.text.startswith(start)
    assert not message.tool_calls


@pytest.mark.anyio
async def test_an_expression_is_searched_when_there_is_no_calculator() -> None:
    assert calls_of(await make(SEARCH).generate([ASK("What is 2+3?")])) == [("search_docs", {"query": "2 3"})]


# --- choosing by what tools say of themselves -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "purpose", "parameter"),
    [
        (calculator.info, "calculate", "expression"),
        (current_time.info, "clock", "timezone"),
        (CLOCK, "clock", "timezone"),
        (SEARCH, "search", "query"),
        (READ, "read", "path"),
        (CALC, "calculate", "expression"),
        (info("now", "Give the date and time."), "clock", None),
        (info("math_eval", "", formula=TEXT), "calculate", "formula"),
        (info("solve", "Calculate a formula.", formula=TEXT), "calculate", "formula"),
        (info("getTime", "The time.", timeZone=TEXT), "clock", "timeZone"),
        (info("lookup", "Look up a subject in the wiki.", subject=TEXT), "search", "subject"),
        (info("grep", "", pattern=TEXT, path={**TEXT, "default": "."}), "search", "pattern"),
        (info("fetch", "Read a page.", url=TEXT), "read", "url"),
        (info("cat", "", filename={"anyOf": [TEXT, {"type": "null"}]}), "read", "filename"),
        (info("write_file", "Write a file.", path=TEXT), None, None),
        (info("delete_document", "Delete a document that was read.", path=TEXT), None, None),
        (info("read_and_replace", "", path=TEXT, replacement=TEXT), None, None),
        (info("convert_time", "Convert time.", timezone=TEXT, time=TEXT), None, None),
        (info("get_weather", "The weather in a city.", city=TEXT), None, None),
        (info("add", "Add two numbers.", a=NUMBER, b=NUMBER), None, None),
        (info("ping"), None, None),
    ],
    ids=lambda value: value.name if isinstance(value, ToolInfo) else repr(value),
)
def test_a_tool_is_judged_by_its_schema(tool: ToolInfo, purpose: str | None, parameter: str | None) -> None:
    judged = judge(tool)
    if purpose is None:
        assert judged is None
    else:
        assert judged is not None
        assert (judged[1].purpose, judged[1].parameter) == (purpose, parameter)


def test_references_in_a_schema_are_followed() -> None:
    tool = ToolInfo(
        name="search",
        parameters={
            "type": "object",
            "properties": {"query": {"$ref": "#/$defs/Query"}},
            "required": ["query"],
            "$defs": {"Query": {"type": "string"}},
        },
    )
    assert survey([tool])["search"].parameter == "query"


@pytest.mark.anyio
async def test_a_parameter_that_takes_a_list_gets_one() -> None:
    tool = info("search", "", queries={"type": "array", "items": TEXT})
    assert calls_of(await make(tool).generate([ASK("What is a lock?")])) == [("search", {"queries": ["lock"]})]


# --- tool choice and options ----------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_with_choice_none_it_calls_nothing() -> None:
    message = await make(calculator, choice="none").generate([ASK("What is 2+3?")])
    assert not message.tool_calls
    assert "I may not call one here" in message.text


@pytest.mark.anyio
async def test_with_choice_none_it_still_answers_from_what_was_observed() -> None:
    history = [
        ASK("What is 2+3?"),
        Message.assistant("", tool_calls=[ToolCall(id="a", name="calculator", arguments='{"expression":"2+3"}')]),
        Message.tool("5", tool_call_id="a"),
    ]
    options = ModelOptions(tool_choice="none")
    assert (await make(calculator).generate(history, options)).text == "2+3 = 5"


@pytest.mark.anyio
@pytest.mark.parametrize("question", ["Hello!", "What is 2+3?", ""])
async def test_with_choice_required_it_always_calls(question: str) -> None:
    assert (await make(CALC, CLOCK, choice="required").generate([ASK(question)])).tool_calls


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (CLOCK, {"timezone": "UTC"}),
        (SEARCH, {"query": "2 3"}),
        (CALC, {"expression": "2+3"}),
        (info("paint", "", color={"enum": ["red", "blue"]}, size=NUMBER), {"color": "red", "size": 2}),
        (info("note", "", text=TEXT, tags={"type": "array"}), {"text": "What is 2+3?", "tags": []}),
        (info("flag", "", on={"type": "boolean"}, of={"type": "object"}), {"on": False, "of": {}}),
        (info("free", "", anything={}, fixed={"const": 7}), {"anything": "What is 2+3?", "fixed": 7}),
    ],
    ids=lambda value: value.name if isinstance(value, ToolInfo) else "",
)
async def test_with_a_named_choice_it_calls_that_tool(tool: ToolInfo, arguments: dict[str, Any]) -> None:
    model = make(calculator, tool, choice=NamedTool(name=tool.name))
    assert calls_of(await model.generate([ASK("What is 2+3?")])) == [(tool.name, arguments)]


@pytest.mark.anyio
@pytest.mark.parametrize("choice", ["required", NamedTool(name="other")])
async def test_a_choice_that_cannot_be_kept_is_an_error(choice: Any) -> None:
    tools = [] if choice == "required" else [calculator]
    with pytest.raises(ValueError, match="but the tools are: "):
        await make(*tools, choice=choice).generate([ASK("What is 2+3?")])


@pytest.mark.anyio
async def test_a_choice_in_the_options_counts_more_than_the_model_s() -> None:
    model = make(calculator, choice="none")
    assert (await model.generate([ASK("What is 2+3?")], ModelOptions(tool_choice="auto"))).tool_calls


@pytest.mark.anyio
async def test_max_tokens_cut_the_answer_also_within_a_tool_call() -> None:
    whole = await make(calculator).generate([ASK("What is 2+3?")])
    assert whole.usage is not None
    for limit in range(whole.usage.output_tokens):
        cut = await make(calculator).generate([ASK("What is 2+3?")], ModelOptions(max_tokens=limit))
        assert cut.finish_reason == "length"
        assert cut.usage is not None
        assert cut.usage.output_tokens == limit
        assert whole.text.startswith(cut.text)
        if cut.tool_calls:
            assert whole.tool_calls[0].arguments.startswith(cut.tool_calls[0].arguments)


@pytest.mark.anyio
async def test_it_stops_at_a_stop_text() -> None:
    message = await make().generate([ASK("What is 2+3?")], ModelOptions(stop=("I answer", "zzz")))
    assert message.text == "I am the offline model: "
    assert message.finish_reason == "stop"


# --- the shape of what it says --------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_it_streams_text_then_fragments_of_calls_then_usage() -> None:
    chunks = [chunk async for chunk in make(calculator).stream([ASK("What is 2+3, and 4*5?")])]
    fragments = [call for chunk in chunks for call in chunk.tool_calls]
    heads = [call for call in fragments if call.id]
    assert [(call.index, call.id, call.name, call.arguments) for call in heads] == [
        (0, "call_1", "calculator", ""),
        (1, "call_2", "calculator", ""),
    ]
    rest = [call for call in fragments if not call.id]
    assert all(call.name == "" and call.arguments for call in rest)
    assert len(rest) >= 4
    assert [chunk.text for chunk in chunks[:2]] == ["I calculate with", " calculator."]
    assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == ["tool_calls"]
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.mode == "cumulative"
    assert all(chunk.role == "assistant" and chunk.extra == {"offline": True} for chunk in chunks)


@pytest.mark.anyio
async def test_an_answer_comes_in_several_chunks_and_is_marked() -> None:
    model = make(CALC)
    chunks = [chunk async for chunk in model.stream([ASK("Who are you?")])]
    assert len(chunks) > 5
    assert concat(chunks) == await model.generate([ASK("Who are you?")])
    assert (await model.generate([ASK("Who are you?")])).extra == {"offline": True}


@pytest.mark.anyio
async def test_ids_are_new_in_the_history_and_the_same_every_time() -> None:
    history = [
        ASK("x"),
        Message.assistant(
            "",
            tool_calls=[
                ToolCall(id="call_1", name="calculator", arguments="{}"),
                ToolCall(id="call_3", name="calculator", arguments="{}"),
            ],
        ),
        Message.tool("?", tool_call_id="call_1"),
        Message.tool("?", tool_call_id="call_3"),
        ASK("What is 1+1, and 2+2?"),
    ]
    model = make(calculator)
    first = await model.generate(history)
    assert [call.id for call in first.tool_calls] == ["call_4", "call_5"]
    assert await model.generate(history) == first


@pytest.mark.anyio
async def test_it_answers_the_last_question_of_a_conversation() -> None:
    history = [ASK("What is 2+3?")]
    history += await converse(make(calculator), [calculator], *history)
    history.append(ASK("What is 4*5?"))
    added = await converse(make(calculator), [calculator], *history)
    assert added[-1].text == "4*5 = 20"


@pytest.mark.anyio
async def test_more_input_costs_more_tokens() -> None:
    short = await make().generate([ASK("a")])
    long = await make().generate([Message.system("one two three"), ASK("a")])
    assert short.usage is not None
    assert long.usage is not None
    assert long.usage.input_tokens > short.usage.input_tokens > 0


def test_it_is_a_chat_model_and_binding_tools_does_not_change_it() -> None:
    model = OfflineModel(notice=False)
    assert isinstance(model, ChatModel)
    assert repr(model.with_tools([CALC])) == "OfflineModel(tools=['compute'])"
    assert repr(model) == "OfflineModel(tools=[])"


def test_a_negative_delay_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        OfflineModel(delay=-1)


@pytest.mark.anyio
async def test_the_notice_is_given_once_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.flow.models._offline._Notice.said_on_stderr", False)
    for _ in range(2):
        model = OfflineModel()
        for _ in range(2):
            await model.with_tools([CALC]).generate([ASK("x")])
    captured = capsys.readouterr()
    assert captured.err.startswith("offline model: ")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.anyio
async def test_the_notice_goes_to_a_function_once_per_model(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    model = OfflineModel(notice=said.append)
    await model.generate([ASK("x")])
    await model.with_tools([CALC]).generate([ASK("x")])
    assert len(said) == 1
    await OfflineModel(notice=False).generate([ASK("x")])
    assert capsys.readouterr().err == ""
