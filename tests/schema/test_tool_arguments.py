"""The arguments of a call: what fits, what null stands for, and what the model is told when they do not fit."""

from __future__ import annotations

import datetime
import json
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator

from anabranch.schema._tool import FunctionTool, tool
from anabranch.schema.errors import ToolArgumentsError


class Filter(BaseModel):
    field: str
    values: list[int] = []
    case: Literal["keep", "fold"] = "keep"


@tool
def search(
    query: str,
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
    mode: Literal["fast", "deep"] = "fast",
    filters: list[Filter] = [],  # noqa: B006  (pydantic copies it)
    within: Filter | int | None = None,
) -> str:
    return f"{query}{limit}{mode}{filters}{within}"


def complaint(made: FunctionTool[..., Any], arguments: Any) -> list[str]:
    """Give what the model is told, in lines."""
    with pytest.raises(ToolArgumentsError) as caught:
        made.validate(arguments)
    return str(caught.value).splitlines()


def test_defaults_fill_in_what_is_not_given() -> None:
    assert search.validate('{"query": "tides"}') == {
        "query": "tides",
        "limit": 10,
        "mode": "fast",
        "filters": [],
        "within": None,
    }


def test_values_are_converted_where_no_doubt_is_possible() -> None:
    arguments = search.validate({"query": "x", "limit": "3", "filters": [{"field": "a", "values": [1.0]}]})
    assert arguments["limit"] == 3
    assert arguments["filters"] == [Filter(field="a", values=[1])]


def test_each_problem_is_a_line_with_the_place_what_is_wrong_and_what_came() -> None:
    arguments = {
        "query": 3,
        "limit": 99,
        "mode": "slow",
        "filters": [{"values": ["a"]}, {"field": "f", "case": "up"}],
    }
    lines = [
        "The arguments of 'search' do not fit:",
        "- query: should be a valid string, got 3",
        "- limit: should be less than or equal to 50, got 99",
        "- mode: should be 'fast' or 'deep', got \"slow\"",
        "- filters[0].field: is required",
        '- filters[0].values[0]: should be a valid integer, unable to parse string as an integer, got "a"',
        "- filters[1].case: should be 'keep' or 'fold', got \"up\"",
    ]
    assert complaint(search, arguments) == lines
    assert complaint(search, json.dumps(arguments)) == lines


def test_unknown_names_are_told_with_what_may_be_meant_and_what_there_is() -> None:
    assert complaint(search, '{"query": "x", "limt": 3, "zzz": null}')[1:] == [
        "- limt: is not a known name, did you mean 'limit'? allowed: filters, limit, mode, query, within",
        "- zzz: is not a known name; allowed: filters, limit, mode, query, within",
    ]


def test_unknown_names_and_wrong_values_are_told_together() -> None:
    assert complaint(search, {"qery": "x", "limit": 0})[1:] == [
        "- qery: is not a known name, did you mean 'query'? allowed: filters, limit, mode, query, within",
        "- query: is required",
        "- limit: should be greater than or equal to 1, got 0",
    ]


def test_the_members_of_a_union_are_told_in_one_line_for_each_place() -> None:
    (line,) = complaint(search, {"query": "x", "within": "here"})[1:]
    wanted = "should be an object or should be a valid integer, unable to parse string as an integer"
    assert line == f'- within: {wanted}, got "here"'


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ('{"query": "x", "limit": 1', "are not valid JSON: they are cut off: EOF while parsing an object"),
        ('{"query" "x"}', 'are not valid JSON: expected `:` at line 1 column 10, near \'{"query" "x"}\''),
        ('{"query": "x"} {}', "are not valid JSON: trailing characters at line 1 column 16"),
        ("query=x", "are not valid JSON: expected value at line 1 column 1, near 'query=x'"),
        ('"{}"', "are a text."),
        ("[1]", "are a list."),
        ("3", "are a single value."),
        ("\ud800", "are not valid JSON: expected value"),
        ("[" * 5000, "are not valid JSON: recursion limit exceeded"),
    ],
)
def test_text_that_is_no_json_object_is_told_with_the_place_and_what_to_send(text: str, start: str) -> None:
    (line,) = complaint(search, text)
    assert line.startswith(f"The arguments of 'search' {start}")
    assert line.endswith("Send one JSON object with query (required), limit, mode, filters, within.")


def test_the_place_is_found_in_long_texts_of_several_lines() -> None:
    text = '{"query": "' + "x" * 500 + '",\n "limit": }'
    (line,) = complaint(search, text)
    assert "expected value at line 2 column 11, near" in line
    assert '"limit": }' in line
    assert len(line) < 300


def test_a_tool_without_parameters_says_that_it_takes_none() -> None:
    @tool
    def now() -> str:
        return "noon"

    assert complaint(now, "[]") == ["The arguments of 'now' are a list. Send an empty JSON object, {}."]
    assert complaint(now, {"zone": 1})[1:] == ["- zone: is not a known name; allowed: none"]


def test_long_values_are_cut_in_the_text() -> None:
    (_, line) = complaint(search, {"query": ["y" * 1000]})
    assert line.startswith("- query: should be a valid string, got [")
    assert len(line) < 120


def test_what_a_validator_of_the_user_says_is_told() -> None:
    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def _even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("n has to be even")
            return n

    @tool
    def act(even: Even) -> None: ...

    assert complaint(act, '{"n": 3}')[1:] == ["- n: n has to be even, got 3"]


# --- null


def test_null_stands_for_a_default_where_the_type_knows_no_null_at_any_depth() -> None:
    text = '{"query": "x", "limit": null, "mode": null, "filters": [{"field": "f", "values": null, "case": null}]}'
    assert search.validate(text) == {**search.validate('{"query": "x"}'), "filters": [Filter(field="f")]}
    assert search.validate(json.loads(text)) == search.validate(text)


def test_null_inside_a_union_stands_for_a_default() -> None:
    assert search.validate('{"query": "x", "within": {"field": "f", "case": null}}')["within"] == Filter(field="f")


def test_null_for_what_is_required_is_told_and_defaults_beside_it_are_not() -> None:
    assert complaint(search, '{"query": null, "limit": null}')[1:] == ["- query: should be a valid string, got null"]
    assert complaint(search, '{"limit": null}')[1:] == ["- query: is required"]


def test_null_in_a_list_is_no_default() -> None:
    assert complaint(search, {"query": "x", "filters": [None]})[1:] == ["- filters[0]: should be an object, got null"]


def test_null_is_a_value_where_the_type_says_so() -> None:
    @tool
    def act(n: int | None = 3, anything: Any = 4) -> None: ...

    assert act.validate('{"n": null, "anything": null}') == {"n": None, "anything": None}


# --- names


def test_a_model_that_says_what_to_do_with_further_keys_is_obeyed() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int = 0

    class Lax(BaseModel):
        model_config = ConfigDict(extra="ignore")
        a: int = 0

    @tool
    def opened(it: Open) -> None: ...
    @tool
    def lax(it: Lax) -> None: ...

    assert opened.validate('{"b": 1}')["it"].model_extra == {"b": 1}
    assert opened.info.parameters["additionalProperties"] is True
    assert lax.validate('{"b": 1}')["it"] == Lax()


def test_all_names_that_a_model_takes_are_known() -> None:
    class Several(BaseModel):
        model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)
        a: int = Field(default=0, validation_alias=AliasChoices("alpha", "Alpha"))
        b: int = Field(default=0, alias="beta")

    @tool
    def act(it: Several) -> None: ...

    for name in ("alpha", "Alpha", "a"):
        assert act.validate({name: 3})["it"].a == 3
    assert act.validate({"b": 3})["it"].b == act.validate({"beta": 3})["it"].b == 3
    assert "- gamma: is not a known name" in complaint(act, {"gamma": 1})[1]


# --- laws

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
filters = st.fixed_dictionaries({"field": st.text(), "values": st.lists(st.integers())})
optional: dict[str, st.SearchStrategy[Any]] = {
    "limit": st.integers(1, 50),
    "mode": st.sampled_from(["fast", "deep"]),
    "filters": st.lists(filters, max_size=3),
}
good = st.fixed_dictionaries({"query": st.text()}, optional=optional)


@given(good)
def test_fitting_arguments_come_back_as_they_are_from_text_and_from_a_mapping(arguments: dict[str, Any]) -> None:
    from_mapping = search.validate(arguments)
    for name, value in arguments.items():
        got = from_mapping[name]
        assert ([item.model_dump(exclude_unset=True) for item in got] if name == "filters" else got) == value
    assert search.validate(json.dumps(arguments)) == from_mapping
    assert search.validate(from_mapping) is from_mapping


def judged(arguments: Any) -> dict[str, Any] | str:
    """Give the values, or what the model is told."""
    try:
        return search.validate(arguments)
    except ToolArgumentsError as error:
        return str(error)


@given(st.text() | json_values.map(json.dumps))
def test_any_text_either_fits_or_is_a_complaint_for_the_model(text: str) -> None:
    outcome = judged(text)
    if isinstance(outcome, str):
        assert outcome.startswith("The arguments of 'search' ")
    else:
        assert isinstance(outcome["query"], str)


@given(st.dictionaries(st.sampled_from(["query", "limit", "mode", "filters", "within", "x"]), json_values))
def test_any_mapping_either_fits_or_is_a_complaint_for_the_model(arguments: dict[str, Any]) -> None:
    outcome = judged(arguments)
    if isinstance(outcome, str):
        first, *lines = outcome.splitlines()
        assert first == "The arguments of 'search' do not fit:"
        assert lines


def test_a_mapping_may_hold_what_json_says_as_text() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        day: datetime.date

    @tool
    def act(it: Strict, other: int = 0) -> None: ...

    arguments = {"it": {"day": "2026-01-02"}}
    assert act.validate(arguments) == act.validate(json.dumps(arguments))
    assert act.validate({"it": Strict(day=datetime.date(2026, 1, 2))})["it"].day.year == 2026
