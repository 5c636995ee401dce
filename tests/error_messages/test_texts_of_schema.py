from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from anabranch.schema import (
    ChatTemplate,
    Document,
    Message,
    MessageParser,
    StreamReader,
    ToolCall,
    concat,
    require_valid_history,
    tool,
    tool_text,
)

CASES: dict[str, Callable[[], Any]] = {}


class Tide(BaseModel):
    place: str
    height: float


def case(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def note(provoke: Callable[[], Any]) -> Callable[[], Any]:
        CASES[name] = provoke
        return provoke

    return note


@tool
def tide(place: str, day: int = 1) -> str:
    """Tell the tide."""
    return place + str(day)


@case("StreamError")
async def _() -> None:
    reader = StreamReader.of(1)
    reader.copy(2)
    await reader.receive()


@case("ConcatError, types")
def _() -> None:
    concat([1, "a"])


@case("ConcatError, messages")
def _() -> None:
    concat([Message.user("a"), Message.assistant("b")])


@case("EmptyStreamError")
def _() -> None:
    concat([])


@case("HistoryError")
def _() -> None:
    call = ToolCall(id="c1", name="tide", arguments="{}")
    require_valid_history([Message.assistant(tool_calls=[call]), Message.user("and?")])


@case("TemplateError, a variable that is missing")
def _() -> None:
    ChatTemplate.of(Message.user("When is the {tide}?")).format(tied="low")


@case("TemplateError, a malformed text")
def _() -> None:
    ChatTemplate.of(Message.user("When is the {tide?"))


@case("ToolDefinitionError")
def _() -> None:
    scope: dict[str, Any] = {}
    exec("def work(anything, *rest: int) -> str: return ''", scope)
    tool(scope["work"])


@case("ToolArgumentsError, a name")
async def _() -> None:
    await tide.run({"plaice": "Dover"})


@case("ToolArgumentsError, a type")
async def _() -> None:
    await tide.run({"place": "Dover", "day": "soon"})


@case("ToolResultError")
def _() -> None:
    tool_text(object())


@case("ParseError, no JSON")
async def _() -> None:
    MessageParser(Tide).parse(Message.assistant("It is high."))


@case("ParseError, does not fit")
async def _() -> None:
    MessageParser(Tide).parse(Message.assistant('{"place": "Dover", "height": "high"}'))


@case("ParseError, a path")
async def _() -> None:
    MessageParser(Tide, path="tides[0]").parse(Message.assistant('{"tide": []}'))


@case("DocumentError, a key")
def _() -> None:
    Document(id="d1", content="x", metadata={"source": "a.txt"}).require("sauce", str)


@case("DocumentError, a type")
def _() -> None:
    Document(id="d1", content="x", metadata={"page": "three"}).require("page", int)


@case("MissingExtraError")
def _() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "jinja2", None)
        patch.setitem(sys.modules, "anabranch.schema._template_sandbox", None)
        ChatTemplate.of(Message.user("{{ a }}"), format="jinja2").format(a=1)


@pytest.mark.anyio
@pytest.mark.once
async def test_the_texts_of_schema(compare_texts: Any) -> None:
    await compare_texts("schema", CASES)
