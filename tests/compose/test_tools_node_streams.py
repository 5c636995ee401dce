"""``ToolsNode``: what the model gets of the chunks of a tool that streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from anabranch.compose import END, START, Graph, ToolEnded, ToolsNode, truncate_results
from anabranch.schema import (
    ImagePart,
    Message,
    TextPart,
    Tool,
    ToolCall,
    ToolResult,
    concat,
    stream_scope,
    tool,
    tool_text,
)

pytestmark = pytest.mark.anyio


class Row(BaseModel):
    """A row."""

    row: int


PICTURE = ImagePart(url="https://example.org/a.png")
CALL = Message.assistant(tool_calls=[ToolCall(id="c1", name="give")])

CASES: list[tuple[Sequence[Any], str]] = [
    ([{"row": 1}, {"row": 2}], '{"row": 1}\n{"row": 2}'),
    ([1, 2, 3], "1\n2\n3"),
    ([Row(row=1), Row(row=2)], '{"row":1}\n{"row":2}'.replace(":", ": ")),
    ([[1], [2, 3]], "[1]\n[2, 3]"),
    ([None, True], "null\ntrue"),
    (["a", 1, "b", "c", 2], "a\n1\nbc\n2"),
    (["a\n", 1, "\nb"], "a\n1\nb"),
    ([1, "", 2], "1\n2"),
    (["a", "b"], "ab"),
    ([{"one": 1}], '{"one": 1}'),
    ([ToolResult("a"), 1, ToolResult("b")], "a\n1\nb"),
    (["broken \ud800"], "broken \ufffd"),
    ([], ""),
]


def giving(chunks: Sequence[Any], failure: Exception | None = None) -> Tool:
    @tool
    async def give() -> AsyncIterator[Any]:
        for chunk in chunks:
            yield chunk
        if failure is not None:
            raise failure

    return give


async def both_ways(made: Tool) -> Message:
    node = ToolsNode([made])
    answer = (await node.invoke(CALL))[0]
    async with stream_scope():
        assert concat([chunk async for chunk in node.stream(CALL)]) == [answer]
    return answer


@pytest.mark.parametrize(("chunks", "text"), CASES)
async def test_the_model_gets_every_chunk_in_its_order(chunks: Sequence[Any], text: str) -> None:
    assert (await both_ways(giving(chunks))).content == text


@pytest.mark.parametrize(("chunks", "text"), CASES)
async def test_the_event_of_the_end_has_what_the_model_gets(chunks: Sequence[Any], text: str) -> None:
    graph = Graph[Message, list[Message]]()
    graph.add_edge(START, graph.add_node("tools", ToolsNode([giving(chunks)])))
    graph.add_edge("tools", END)
    async with graph.compile().events(CALL) as events:
        ended = [event.result async for event in events if isinstance(event, ToolEnded)]
    assert [tool_text(result) for result in ended] == [text]


async def test_parts_stand_among_the_lines_where_they_came() -> None:
    answer = await both_ways(giving(["a", {"row": 1}, PICTURE, {"row": 2}, [TextPart("b"), PICTURE], "c"]))
    assert answer.parts == (TextPart('a\n{"row": 1}'), PICTURE, TextPart('{"row": 2}\nb'), PICTURE, TextPart("c"))


async def test_what_came_before_a_failure_stays() -> None:
    answer = await both_ways(giving([{"row": 1}, {"row": 2}], ValueError("gone")))
    assert answer.is_error
    assert answer.text == '{"row": 1}\n{"row": 2}\nThe tool \'give\' failed: ValueError: gone'


async def test_long_streams_of_values_are_cut_too() -> None:
    made = giving([{"row": n} for n in range(1000)])
    answer = (await ToolsNode([made], middlewares=[truncate_results(25)]).invoke(CALL))[0]
    assert answer.text.startswith('{"row": 0}\n{"row": 1}\n[cut after 25 characters')
