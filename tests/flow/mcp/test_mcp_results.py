"""What a server answers, and what a model and a program get of it."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server import MCPServer
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from anabranch.compose import ToolsNode
from anabranch.flow.tools import McpError, mcp_tools
from anabranch.flow.tools._mcp_results import tool_result
from anabranch.schema import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    ToolResult,
    VideoPart,
)


def blob(uri: str, kind: str | None, data: str = "QUJD") -> EmbeddedResource:
    return EmbeddedResource(resource=BlobResourceContents(uri=uri, mime_type=kind, blob=data))


LINK = ResourceLink(name="tides", uri="https://example.org/tides.csv", mime_type="text/csv", description="All tides.")
LINK_FIELDS = {
    "name": "tides",
    "uri": "https://example.org/tides.csv",
    "mime_type": "text/csv",
    "description": "All tides.",
}


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (TextContent(text="high"), TextPart("high")),
        (ImageContent(data="QUJD", mime_type="image/png"), ImagePart(data="QUJD", mime_type="image/png")),
        (AudioContent(data="QUJD", mime_type="audio/wav"), AudioPart(data="QUJD", mime_type="audio/wav")),
        (
            LINK,
            TextPart(
                "[resource tides (text/csv) at https://example.org/tides.csv: All tides.]",
                extra={"resource_link": LINK_FIELDS},
            ),
        ),
        (
            ResourceLink(name="x", uri="demo://x"),
            TextPart("[resource x at demo://x]", extra={"resource_link": {"name": "x", "uri": "demo://x"}}),
        ),
        (
            EmbeddedResource(resource=TextResourceContents(uri="demo://t", mime_type="text/plain", text="low")),
            TextPart("low", extra={"resource": {"uri": "demo://t", "mime_type": "text/plain"}}),
        ),
        (
            blob("demo://a/b.png", "image/png"),
            ImagePart(
                data="QUJD",
                mime_type="image/png",
                extra={"resource": {"uri": "demo://a/b.png", "mime_type": "image/png"}},
            ),
        ),
        (
            blob("demo://a", "audio/ogg"),
            AudioPart(
                data="QUJD", mime_type="audio/ogg", extra={"resource": {"uri": "demo://a", "mime_type": "audio/ogg"}}
            ),
        ),
        (
            blob("demo://v", "video/mp4"),
            VideoPart(
                data="QUJD", mime_type="video/mp4", extra={"resource": {"uri": "demo://v", "mime_type": "video/mp4"}}
            ),
        ),
        (
            blob("file:///a/report.pdf", "application/pdf"),
            FilePart(
                data="QUJD",
                mime_type="application/pdf",
                name="report.pdf",
                extra={"resource": {"uri": "file:///a/report.pdf", "mime_type": "application/pdf"}},
            ),
        ),
        (blob("demo://n", None), FilePart(data="QUJD", extra={"resource": {"uri": "demo://n"}})),
        (
            blob("demo://n", "text/plain"),
            TextPart("ABC", extra={"resource": {"uri": "demo://n", "mime_type": "text/plain"}}),
        ),
        (
            blob("demo://n", "text/plain", "not base64"),
            FilePart(
                data="not base64",
                mime_type="text/plain",
                extra={"resource": {"uri": "demo://n", "mime_type": "text/plain"}},
            ),
        ),
    ],
)
def test_each_kind_of_content_is_a_part(block: Any, part: Any) -> None:
    assert tool_result(CallToolResult(content=[block]), 1000).parts == (part,)


@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        (['{"a": 1, "b": [true, null]}'], {"b": [True, None], "a": 1}),
        (["sunny"], {"result": "sunny"}),
        (["1", "2", "3"], {"result": [1, 2, 3]}),
        (["It is 22.5 degrees in Paris."], {"place": "Paris", "degrees": 22.5}),
        (["[]"], []),
    ],
)
def test_structured_content_that_the_text_says_too_is_not_said_twice(texts: list[str], structured: Any) -> None:
    answer = CallToolResult(content=[TextContent(text=text) for text in texts], structured_content=structured)
    result = tool_result(answer, 1000)
    assert result.parts == tuple(TextPart(text) for text in texts)
    assert result.extra["structured_content"] == structured


@pytest.mark.parametrize(
    ("texts", "structured", "written"),
    [
        ([], {"a": 1}, '{"a": 1}'),
        (["done"], {"tide": "höher"}, '{"tide": "höher"}'),
        (["done"], [1, 2], "[1, 2]"),
        (["it is 1"], {"value": 1, "unit": "metre"}, '{"value": 1, "unit": "metre"}'),
        (["x"], False, "false"),
    ],
)
def test_structured_content_that_no_text_says_is_shown_to_the_model(
    texts: list[str], structured: Any, written: str
) -> None:
    answer = CallToolResult(content=[TextContent(text=text) for text in texts], structured_content=structured)
    assert tool_result(answer, 1000).parts == (*map(TextPart, texts), TextPart(written))


def test_a_failure_without_words_gets_some() -> None:
    expected = ToolResult("The tool failed and did not say why.", is_error=True)
    assert tool_result(CallToolResult(content=[], is_error=True), 1000) == expected


def test_an_answer_without_content_is_an_empty_result() -> None:
    assert tool_result(CallToolResult(content=[]), 1000) == ToolResult()


def test_what_the_server_says_about_the_answer_is_kept_for_the_program() -> None:
    meta: dict[str, Any] = {"cost": 3, "io.modelcontextprotocol/serverInfo": {"name": "x"}}
    answer = CallToolResult(content=[TextContent(text="x")], _meta=meta)
    assert tool_result(answer, 1000).extra == {"meta": {"cost": 3}}


def test_long_text_is_cut_over_all_parts_and_media_are_kept() -> None:
    picture = ImageContent(data="QUJD" * 100, mime_type="image/png")
    content: list[Any] = [TextContent(text="a" * 60), picture, TextContent(text="b" * 60), TextContent(text="c" * 60)]
    result = tool_result(CallToolResult(content=content), 100)
    assert result.parts == (
        TextPart("a" * 60),
        ImagePart(data="QUJD" * 100, mime_type="image/png"),
        TextPart("b" * 40),
        TextPart("[cut: 100 of 180 characters are shown; ask for less, or for a part]"),
    )


def test_structured_content_that_is_too_long_is_not_kept_beside_its_text() -> None:
    result = tool_result(CallToolResult(content=[], structured_content={"a": "x" * 500}), 100)
    assert "structured_content" not in result.extra
    assert isinstance(result.parts[0], TextPart)
    assert len(result.parts[0].text) == 100


# --- through a server ------------------------------------------------------------------------------------------------


def server_of_all_sorts() -> MCPServer:
    server = MCPServer("sorts")

    @server.tool()
    def forecast(city: str) -> dict[str, float]:
        """Forecast the weather."""
        return {"degrees": 22.5 if city == "Paris" else 10.0}

    @server.tool(structured_output=False)
    def everything() -> list[Any]:
        """Give all there is."""
        return [
            "text",
            ImageContent(data="QUJD", mime_type="image/png"),
            AudioContent(data="QUJD", mime_type="audio/wav"),
            LINK,
            blob("demo://f/a.bin", "application/octet-stream"),
        ]

    @server.tool()
    def broken() -> str:
        """Fail."""
        raise ValueError("secret")

    return server


@pytest.mark.anyio
async def test_a_server_in_this_process_needs_no_transport() -> None:
    async with mcp_tools(server=server_of_all_sorts()) as tools:
        assert [tool.info.name for tool in tools] == ["forecast", "everything", "broken"]
        assert (await tools[0].run({"city": "Paris"})).extra["structured_content"] == {"degrees": 22.5}
        kinds = [type(part) for part in (await tools[1].run()).parts]
        assert kinds == [TextPart, ImagePart, AudioPart, TextPart, FilePart]
        assert (await tools[2].run()).is_error


@pytest.mark.anyio
async def test_parts_reach_the_model_as_parts_of_the_tool_message() -> None:
    calls = [ToolCall(id="1", name="everything"), ToolCall(id="2", name="broken"), ToolCall(id="3", name="forecast")]
    async with mcp_tools(server=server_of_all_sorts()) as tools:
        answers = await ToolsNode(tools).invoke(Message.assistant(tool_calls=calls))
    assert [part.kind for part in answers[0].parts] == ["text", "image", "audio", "text", "file"]
    assert [answer.is_error for answer in answers] == [False, True, True]
    assert "city" in answers[2].text


@pytest.mark.anyio
async def test_structured_content_that_breaks_its_own_schema_fails_the_call() -> None:
    from mcp.server.lowlevel import Server
    from mcp_types import ListToolsResult, Tool

    async def list_tools(*_: Any) -> ListToolsResult:
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        return ListToolsResult(tools=[Tool(name="t", input_schema={"type": "object"}, output_schema=schema)])

    async def call_tool(*_: Any) -> CallToolResult:
        return CallToolResult(content=[], structured_content={"a": "one"})

    server: Any = Server("liar", on_list_tools=list_tools, on_call_tool=call_tool)
    async with mcp_tools(server=server) as tools:
        with pytest.raises(McpError, match="makes no sense: Invalid structured content returned by tool t: 'one'"):
            await tools[0].run()
