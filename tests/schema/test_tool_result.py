"""What a tool gives, as the content of a message. Numbers are those of the reference's cases."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import uuid
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from anabranch.schema._message import Message
from anabranch.schema._parts import ImagePart, TextPart
from anabranch.schema._tool import ToolResult, tool_text
from anabranch.schema.errors import ToolResultError


class Tide(BaseModel):
    place: str
    day: datetime.date


@dataclasses.dataclass
class Point:
    x: int


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ('{"k":1}', '{"k":1}'),
        (42, "42"),
        (None, "null"),
        (True, "true"),
        (4.5, "4.5"),
        ("", ""),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        ("Flut über alles 🌊", "Flut über alles 🌊"),
        ({"w": "Flut 🌊"}, '{"w": "Flut 🌊"}'),
    ],
)
def test_case_110_text_stays_and_everything_else_is_json(result: Any, text: str) -> None:
    assert tool_text(result) == text


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (Tide(place="Husum", day=datetime.date(2026, 1, 2)), {"place": "Husum", "day": "2026-01-02"}),
        ([Point(1), Colour.RED], [{"x": 1}, "red"]),
        ({"at": datetime.datetime(2026, 1, 2, 3, 4)}, {"at": "2026-01-02T03:04:00"}),
        ({"id": uuid.UUID(int=1), "n": Decimal("1.50")}, {"id": str(uuid.UUID(int=1)), "n": "1.50"}),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        ({"deep": [{"x": frozenset({3, 1, 2})}]}, {"deep": [{"x": [1, 2, 3]}]}),
        ((1, 2), [1, 2]),
        (b"text", "text"),
        ({datetime.date(2026, 1, 2): 1}, {"2026-01-02": 1}),
        ([], []),
        ({1: "a"}, {"1": "a"}),
    ],
)
def test_models_dataclasses_and_the_like_are_json(result: Any, value: Any) -> None:
    text = tool_text(result)
    assert isinstance(text, str)
    assert json.loads(text) == value


def test_a_tool_result_is_its_parts_and_a_single_text_is_text() -> None:
    picture = ImagePart(url="https://example.org/a.png")
    assert tool_text(ToolResult("plain")) == "plain"
    assert tool_text(ToolResult()) == ""
    assert tool_text(ToolResult(["look:", picture])) == (TextPart("look:"), picture)
    assert tool_text(ToolResult(picture)) == tool_text(picture) == tool_text([picture]) == (picture,)
    assert tool_text(ToolResult((TextPart("a"), TextPart("b")))) == (TextPart("a"), TextPart("b"))
    assert tool_text(Message.assistant("done")) == "done"


def test_a_tool_result_survives_json() -> None:
    result = ToolResult(["a", ImagePart(data="AAAA", mime_type="image/png")], is_error=True, extra={"k": [1]})
    assert ToolResult.model_validate_json(result.model_dump_json()) == result
    assert result.is_error
    assert hash(result) == hash(ToolResult.model_validate_json(result.model_dump_json()))


class Opaque:
    pass


async def chunks() -> AsyncIterator[int]:
    yield 1


def loop() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (Opaque(), "a tool gave a value of type Opaque, which cannot be written as JSON"),
        ({"a": [Opaque()]}, "a tool gave a value of type dict, which cannot be written as JSON.*Opaque"),
        (b"\xff\xfe", "a tool gave a value of type bytes"),
        (loop(), "a tool gave a value of type list.*Circular reference"),
        (chunks(), "it is a stream; concatenate its chunks first"),
    ],
)
def test_what_json_cannot_say_is_an_error_that_names_the_type(result: Any, message: str) -> None:
    with pytest.raises(ToolResultError, match=message):
        tool_text(result)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(json_values)
def test_json_values_come_back_from_the_text(value: Any) -> None:
    text = tool_text(value)
    assert isinstance(text, str)
    assert (text if isinstance(value, str) else json.loads(text)) == value


@given(st.sets(st.text() | st.integers()))
def test_sets_are_written_in_an_order_of_their_own(value: set[Any]) -> None:
    assert tool_text(value) == tool_text(frozenset(reversed(list(value))))


@given(st.text(st.characters(exclude_categories=())))
def test_lone_surrogates_are_replaced_and_all_else_stays(text: str) -> None:
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    message = Message.tool(text, tool_call_id="c1")
    given_as = [text, ToolResult(text), TextPart(text), message, ["x", text], {text: text}]
    for result in given_as:
        content = tool_text(result)
        assert isinstance(content, str)
        content.encode()
    assert tool_text(text) == tool_text(ToolResult(text)) == paired
    picture = ImagePart(url="https://example.org/a.png")
    assert tool_text(ToolResult([text, picture])) == (TextPart(paired), picture)
