"""The offline model reads questions: what to calculate, where it is what time, what to look for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.flow.models import OfflineModel
from anabranch.flow.models._observations import read_hits, says_nothing_found
from anabranch.flow.models._questions import find_expressions, find_zones
from anabranch.flow.tools._arithmetic import CONSTANTS, FUNCTIONS
from anabranch.flow.tools._expression import parse_expression
from anabranch.schema import (
    Message,
    ModelOptions,
    ToolCall,
    ToolInfo,
    concat,
)

ASK = Message.user


def make(*tools: Any, choice: Any = "auto") -> OfflineModel:
    """Make a model that may call these tools and says nothing on stderr."""
    return OfflineModel(notice=False).with_tools([getattr(tool, "info", tool) for tool in tools], choice)


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


@pytest.mark.parametrize(
    ("question", "expressions"),
    [
        ("What is (312 * 46) + 2280?", ["(312 * 46) + 2280"]),
        ("12 plus 30 times 2", ["12 + 30 * 2"]),
        ("What is 15% of 80?", ["(15 / 100 * 80)"]),
        ("the square root of 144", ["sqrt(144)"]),
        ("What's 6 x 7?", ["6 * 7"]),
        ("5!", ["factorial(5)"]),
        ("2 ^ 10 = ?", ["2 ^ 10"]),
        ("compute: 1,234 * 2", ["1,234 * 2"]),
        ("sqrt(2) + pi*2", ["sqrt(2) + pi*2"]),
        ("What is max(1, 2) + 3, and 7 squared?", ["max(1, 2) + 3", "7 ** 2"]),
        ("7 divided by 2 minus 1", ["7 / 2 - 1"]),
        ("2 to the power of 8", ["2 ** 8"]),
        ("(see 3 + 4)", ["3 + 4"]),
        ("((2+3)*4", ["(2+3)*4"]),
        ("10 - 3", ["10 - 3"]),
        ("how much is 10 - 3", ["10 - 3"]),
        ("What is 24/7?", ["24/7"]),
        ("24/7 support", []),
        ("pages 3-5 of the docs", []),
        ("I have 10 - 3 apples", []),
        ("2024-05-01", []),
        ("What is 2024-05-01?", []),
        ("C++ 11 features", []),
        ("HTTP/1.1 and HTTP/2", []),
        ("v1.2.3-4", []),
        ("What is 42?", []),
        ("in python 3.11", []),
        ("2+3 and 2+3", ["2+3"]),
        ("", []),
    ],
)
def test_calculations_are_found_in_a_question(question: str, expressions: list[str]) -> None:
    assert list(find_expressions(question)) == expressions


@pytest.mark.parametrize(
    ("question", "zones"),
    [
        ("What time is it in Tokyo?", ["Asia/Tokyo"]),
        ("time in New York and Berlin", ["America/New_York", "Europe/Berlin"]),
        ("What's the date?", ["UTC"]),
        ("what time is it", ["UTC"]),
        ("In Paris, what time is it now?", ["Europe/Paris"]),
        ("What day is it today?", ["UTC"]),
        ("What is the current date in Europe/Berlin and UTC?", ["Europe/Berlin", "UTC"]),
        ("current time in san francisco", ["America/Los_Angeles"]),
        ("What time is it in São Paulo?", ["America/Sao_Paulo"]),
        ("what time is it in the UK", ["Europe/London"]),
        ("Tell me the time in US/Pacific", ["US/Pacific"]),
        ("What time is it in Gotham City?", ["Gotham City"]),
        ("Which year is it?", ["UTC"]),
        ("What is the current time limit?", []),
        ("What is the time complexity of merge?", []),
        ("what is the time in the log file?", []),
        ("How many times does it retry?", []),
        ("What does the timeout do?", []),
        ("What is the date format?", []),
        ("What time do nodes run?", []),
        ("Where is Tokyo?", []),
    ],
)
def test_questions_for_the_time_are_told_from_others(question: str, zones: list[str]) -> None:
    assert find_zones(question) == zones


@pytest.mark.parametrize(
    ("text", "nothing"),
    [
        ("No line matches 'x'.\n(searched 3 text files)", True),
        ("no results", True),
        ("Nothing found.", True),
        ("[]", True),
        ("", True),
        ("0 matches", True),
        ("No node may await: it matches nothing else here.", True),
        ("notes.md:3: nothing was found", False),
        ("Locks lift boats.", False),
    ],
)
def test_a_search_without_result_is_recognised(text: str, nothing: bool) -> None:
    assert says_nothing_found(text) is nothing


def test_places_are_read_from_several_forms() -> None:
    assert [(hit.path, hit.line) for hit in read_hits("a b.md:3: x\n- c.md:12\nhttp://x:y\n")] == [
        ("a b.md", 3),
        ("c.md", 12),
    ]
    assert [(hit.path, hit.line) for hit in read_hits("docs/a.md\ndocs/b.md\n")] == [
        ("docs/a.md", None),
        ("docs/b.md", None),
    ]
    assert [(hit.path, hit.line) for hit in read_hits('["docs/a.md", {"file": "b.md"}, 3]')] == [
        ("docs/a.md", None),
        ("b.md", None),
    ]


# --- any history ----------------------------------------------------------------------------------------------

words = st.sampled_from(["what", "is", "2+3", "the", "time", "in", "Tokyo", "lock", "a.md:3: lock", "(", "[]", "?"])
texts = st.lists(words, max_size=6).map(" ".join)
names = st.sampled_from(["compute", "get_current_time", "search_docs", "open_document", "unknown"])
ids = st.sampled_from(["", "call_1", "call_2", "call_3"])
raw_arguments = st.sampled_from(
    ["", "{}", "[1]", "{broken", '{"query": "lock"}', '{"path": "a.md"}', '{"expression": "2+3"}']
)
calls = st.builds(ToolCall, id=ids, name=names, arguments=raw_arguments)


def say(text: str, calls: list[ToolCall]) -> Message:
    return Message.assistant(text, tool_calls=calls)


def tell(text: str, call_id: str, failed: bool) -> Message:
    return Message.tool(text, tool_call_id=call_id, is_error=failed)


messages = st.one_of(
    texts.map(Message.user),
    texts.map(Message.system),
    st.builds(say, texts, st.lists(calls, max_size=3)),
    st.builds(tell, texts, ids, st.booleans()),
)
choices = st.sampled_from(["auto", "none"])


@pytest.mark.anyio
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(history=st.lists(messages, max_size=8), choice=choices, limit=st.none() | st.integers(0, 30))
async def test_whatever_the_history_it_answers_the_same_in_both_ways(
    history: list[Message], choice: Any, limit: int | None
) -> None:
    model = make(CALC, CLOCK, SEARCH, READ, choice=choice)
    options = ModelOptions(max_tokens=limit)
    message = await model.generate(history, options)
    assert message == concat([chunk async for chunk in model.stream(history, options)])
    assert message.role == "assistant"
    assert message.extra == {"offline": True}
    used = {call.id for m in history for call in m.tool_calls}
    new = [call.id for call in message.tool_calls]
    assert len(set(new)) == len(new)
    assert not used & set(new)
    if limit is None:
        assert message.text or message.tool_calls
        assert (message.finish_reason == "tool_calls") == bool(message.tool_calls)
        for call in message.tool_calls:
            assert isinstance(json.loads(call.arguments), dict)


@pytest.mark.anyio
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(question=texts, results=st.lists(texts, min_size=1, max_size=6), failing=st.booleans())
async def test_whatever_the_tools_give_it_comes_to_an_answer(question: str, results: list[str], failing: bool) -> None:
    model = make(CALC, CLOCK, SEARCH, READ)
    history = [ASK(question)]
    rounds = 0
    while (message := await model.generate(history)).tool_calls:
        rounds += 1
        assert rounds <= 6
        history.append(message)
        for number, call in enumerate(message.tool_calls):
            text = results[(rounds + number) % len(results)]
            history.append(Message.tool(text, tool_call_id=call.id, is_error=failing))
    assert message.text


@settings(deadline=None)
@given(st.text(alphabet="0123456789+-*/^%().,= \nexpisqrtandwha?!", max_size=60))
def test_reading_a_question_never_fails(text: str) -> None:
    for expression in find_expressions(text):
        parse_expression(expression, FUNCTIONS, CONSTANTS)
    find_zones(text)
