"""Message parsers. Numbers are those of the reference's cases."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from anabranch.schema._message import Message, ToolCall
from anabranch.schema._parser import MessageParser
from anabranch.schema._parts import ImagePart, TextPart
from anabranch.schema.errors import MissingExtraError, ParseError


class Tide(BaseModel):
    place: str
    metres: float = 0


def say(text: str) -> Message:
    return Message.assistant(text)


def calls(*arguments: str) -> Message:
    return Message.assistant(
        "not this", tool_calls=[ToolCall(id=str(i), name=f"f{i}", arguments=a) for i, a in enumerate(arguments)]
    )


def test_the_text_of_a_message_is_parsed_into_a_model() -> None:
    parse = MessageParser(Tide)
    assert parse(say('{"place": "Husum", "metres": 4}')) == Tide(place="Husum", metres=4)
    assert parse.parse(say('  {"place": "Husum"}\n')) == Tide(place="Husum")
    parts = Message.assistant([TextPart('{"place":'), ImagePart(url="x"), TextPart(' "Husum"}')])
    assert parse(parts) == Tide(place="Husum")


def test_any_type_that_pydantic_knows_may_be_asked_for() -> None:
    @dataclasses.dataclass
    class Point:
        x: int

    assert MessageParser(Point)(say('{"x": 1}')) == Point(1)
    assert MessageParser(list[int])(say("[1, 2]")) == [1, 2]
    assert MessageParser(Literal["yes", "no"])(say('"yes"')) == "yes"
    assert MessageParser(int | None)(say("null")) is None


def test_case_104_the_first_tool_calls_arguments_are_parsed() -> None:
    parse = MessageParser(Tide, source="tool_call")
    assert parse(calls('{"place": "A"}', '{"place": "B"}')) == Tide(place="A")
    with pytest.raises(ParseError, match="the assistant message has no tool call to parse"):
        parse(say('{"place": "A"}'))
    nested = MessageParser(Tide, source="tool_call", path="xx.yy")
    assert nested(calls('{"xx": {"yy": {"place": "C"}}}')) == Tide(place="C")


def test_no_arguments_are_an_empty_object() -> None:
    assert MessageParser(dict[str, int], source="tool_call")(calls("")) == {}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a", {"b": [{"c": 1}, {"c": 2}], "d.e": {"": 5}}),
        ("a.b[1].c", 2),
        ('["a"].b[0]["c"]', 1),
        ('a["d.e"][""]', 5),
        ("list[0][1]", 7),
        ("", None),
    ],
)
def test_a_path_leads_into_the_json(path: str, value: Any) -> None:
    data = {"a": {"b": [{"c": 1}, {"c": 2}], "d.e": {"": 5}}, "list": [[6, 7]]}
    assert MessageParser(Any, path=path)(say(json.dumps(data))) == (data if path == "" else value)


@pytest.mark.parametrize("path", ["a..b", ".a", "a.", "a[x]", "a[-1]", "a[", 'a["b]', "a]b", "a b.[0]"])
def test_a_malformed_path_is_refused_at_once(path: str) -> None:
    with pytest.raises(ValueError, match="is malformed at"):
        MessageParser(Tide, path=path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the assistant message has no text to parse"),
        (" \n", "has no text to parse"),
        (
            '{"place" "x"}',
            'the text of the assistant message: no JSON: expected `:` at line 1 column 10, near \'{"place"',
        ),
        ("```json\n{}\n```", "no JSON: expected value at line 1 column 1, near"),
        ('{"place": "x"} and more', "no JSON: trailing characters"),
        ('{"place": 3, "metres": "x"}', "does not fit:\n- place: should be a valid string, got 3\n- metres: "),
        ("[]", "does not fit:\n- the value: should be an object, got \\[\\]"),
    ],
)
def test_what_does_not_parse_is_an_error_that_quotes_the_place(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        MessageParser(Tide)(say(text))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": {"x": 1}}, "nothing at a.b: at a, the keys are x"),
        ({}, "nothing at a: at the top, the keys are none"),
        ({"a": {"b": [1]}}, r"nothing at a.b\[1\]: at a.b, the length of the list is 1"),
        ({"a": {"b": {"c": 1}}}, r'nothing at a.b\[1\]: at a.b, there is \{"c": 1\}'),
        ({"a": [1]}, r"nothing at a.b: at a, there is \[1\]"),
        ({"a": {"b": [0, "x"]}}, r"at a.b\[1\]: the JSON does not fit:\n- the value: should be a valid integer"),
    ],
)
def test_a_path_that_leads_nowhere_says_where_it_stops(data: Any, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        MessageParser(int, path="a.b[1]")(say(json.dumps(data)))


TIDE = Tide(place="Husum", metres=4)


@pytest.mark.parametrize(
    "text",
    [
        '{"place": "Husum", "metres": 4}',
        '```json\n{"place": "Husum", "metres": 4}\n```',
        '```\n{"place": "Husum", "metres": 4}\n```',
        '```python\nprint(1)\n```\nthen\n```json\r\n{"place": "Husum", "metres": 4}```',
        'Here it is: {"place": "Husum", "metres": 4}. Anything else?',
        'First [1], then {"metres": 1} and {"place": "Husum", "metres": 4}',
        '{"place": "Husum", "metres": 4',
        'So: {"place": "Husum", "metres": 4, "no',
        '```json\n{"place": "Husum", "metres": 4',
        '{"place": "Husum", "metres": 4} {"place": "Other"}',
        '{ not json } {"place": "Husum", "metres": 4}',
    ],
)
def test_lenient_parsers_find_the_json(text: str) -> None:
    assert MessageParser(Tide, lenient=True)(say(text)) == TIDE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing here", "no JSON"),
        ('{"place": "Husum" "metres": 4}', "no JSON: expected `,` or `}`"),
        ("{'place': 'Husum'}", "no JSON: key must be a string"),
        ('see {"place": 3} there', "does not fit:\n- place: should be a valid string, got 3"),
        ("[" * 10_000, "no JSON: recursion limit exceeded"),
    ],
)
def test_lenient_parsers_guess_nothing(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        MessageParser(Tide, lenient=True)(say(text))


@pytest.mark.parametrize(
    "text",
    [
        '{"place": "Husum" "metres": 4}',
        "{'place': 'Husum', 'metres': 4,}",
        'Sure! {place: "Husum", metres: 4}',
        '{"place": "Husum", "metres": 4}',
    ],
)
def test_repair_is_the_last_resort_where_it_is_asked_for(text: str) -> None:
    assert MessageParser(Tide, repair=True)(say(text)) == TIDE


def test_repair_cannot_make_something_of_nothing() -> None:
    with pytest.raises(ParseError):
        MessageParser(Tide, repair=True)(say("nothing here"))


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "json_repair", None)
    with pytest.raises(MissingExtraError, match=r"anabranch\[repair\]"):
        MessageParser(Tide, repair=True)


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(ValueError, match="source is 'content' or 'tool_call', not 'reasoning'"):
        MessageParser(Tide, source=cast("Any", "reasoning"))


def test_types_are_read_by_the_rules_of_json_also_at_a_path() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        pair: tuple[int, str]

    assert MessageParser(Strict, path="it")(say('{"it": {"pair": [1, "a"]}}')) == Strict(pair=(1, "a"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
words = st.text(st.characters(exclude_characters="{}[]`", exclude_categories=["Cs"]), max_size=20)


@given(json_values)
def test_a_strict_parser_gives_what_the_text_says(value: Any) -> None:
    assert MessageParser(Any)(say(json.dumps(value))) == value
    assert MessageParser(Any, path="a[0]")(say(json.dumps({"a": [value]}))) == value


@given(st.dictionaries(st.text(), json_values), words, words)
def test_a_lenient_parser_finds_an_object_between_words(value: dict[str, Any], before: str, after: str) -> None:
    parse = MessageParser(dict[str, Any], lenient=True)
    assert parse(say(f"{before}{json.dumps(value)}{after}")) == value
    assert parse(say(f"{before}\n```json\n{json.dumps(value)}\n```\n{after}")) == value


@given(st.text(min_size=1), st.sampled_from([{}, {"lenient": True}, {"repair": True}]))
def test_any_text_gives_a_value_or_a_parse_error(text: str, options: Any) -> None:
    def judged() -> str:
        try:
            return MessageParser(Tide, **options)(say(text)).place
        except ParseError as error:
            return str(error)

    assert isinstance(judged(), str)
