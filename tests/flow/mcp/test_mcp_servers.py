"""Servers that others wrote, over each transport: standard streams, streamable HTTP, and SSE."""

from __future__ import annotations

import json
import sys
from base64 import b64decode
from collections.abc import Callable
from gzip import decompress

import anyio
import pytest

from anabranch.compose import ToolsNode, ToolTimeoutError
from anabranch.compose.testing import ScriptedModel
from anabranch.flow import ReactAgent
from anabranch.flow.tools import McpConnectionError, McpTool, mcp_tools
from anabranch.schema import FilePart, ImagePart, Message, TextPart, ToolCall, ToolResult, check_history
from peers import Server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.once,
    pytest.mark.may_leak,  # the SDK and its HTTP client drop the generators that read events in the middle
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]

ByName = Callable[[list[McpTool]], dict[str, McpTool]]

TIME = [sys.executable, "-m", "mcp_server_time"]


def text_of(result: ToolResult) -> str:
    return "".join(part.text for part in result.parts if isinstance(part, TextPart))


# --- mcp-server-time, over standard streams --------------------------------------------------------------------------


async def test_the_time_server_lists_its_tools_and_answers_over_standard_streams(by_name: ByName) -> None:
    async with mcp_tools(stdio=TIME, prefix="time_") as tools:
        tool = by_name(tools)
        assert list(tool) == ["time_get_current_time", "time_convert_time"]
        info = tool["time_convert_time"].info
        assert info.description == "Convert time between timezones"
        assert info.parameters["required"] == ["source_timezone", "time", "target_timezone"]
        assert info.parameters["properties"]["time"]["type"] == "string"
        assert tool["time_convert_time"].risk == "safe"
        assert tool["time_convert_time"].remote_name == "convert_time"

        arguments = {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "Asia/Kolkata"}
        result = await tool["time_convert_time"].run(arguments)
        assert not result.is_error
        assert result.extra["structured_content"]["time_difference"] == "-3.5h"
        assert json.loads(text_of(result)) == result.extra["structured_content"]  # said once, not twice

        failed = await tool["time_get_current_time"].run({"timezone": "Mars/Olympus"})
        assert failed.is_error
        assert "Invalid timezone" in text_of(failed)


async def test_an_agent_uses_the_time_server_and_gets_over_a_mistake() -> None:
    def ask(number: int, zone: str) -> Message:
        arguments = json.dumps({"source_timezone": zone, "time": "12:00", "target_timezone": "Asia/Kolkata"})
        return Message.assistant(tool_calls=[ToolCall(id=f"c{number}", name="convert_time", arguments=arguments)])

    model = ScriptedModel([ask(1, "Mars/Olympus"), ask(2, "Asia/Tokyo"), Message.assistant("It is 8:30.")])
    async with mcp_tools(stdio=TIME) as tools:
        result = await ReactAgent(model, tools=tools).run("Noon in Tokyo is when in Kolkata?")
    assert result.message.text == "It is 8:30."
    assert not check_history(result.messages)
    answers = [message for message in result.messages if message.role == "tool"]
    assert [answer.is_error for answer in answers] == [True, False]
    assert "-3.5h" in answers[1].text


# --- server-everything, over streamable HTTP and over SSE ------------------------------------------------------------


@pytest.fixture(params=["http", "sse"])
def address(request: pytest.FixtureRequest) -> str:
    """Give the address of the npm server; the one that knows only SSE is reached by falling back."""
    return str(request.getfixturevalue("everything" if request.param == "http" else "old_everything"))


async def test_every_kind_of_content_becomes_parts(address: str, by_name: ByName) -> None:
    async with mcp_tools(url=address) as tools:
        tool = by_name(tools)
        assert await tool["echo"].run({"message": "hello"}) == ToolResult("Echo: hello")

        picture = (await tool["get-tiny-image"].run()).parts
        assert [type(part) for part in picture] == [TextPart, ImagePart, TextPart]
        assert isinstance(picture[1], ImagePart)
        assert (picture[1].mime_type, picture[1].to_bytes()[:4]) == ("image/png", b"\x89PNG")

        weather = await tool["get-structured-content"].run({"location": "Chicago"})
        assert weather.extra["structured_content"]["temperature"] == 36
        assert json.loads(text_of(weather)) == weather.extra["structured_content"]

        links = (await tool["get-resource-links"].run({"count": 2})).parts
        assert [part.extra["resource_link"]["uri"] for part in links[1:]] == [
            "demo://resource/dynamic/blob/1",
            "demo://resource/dynamic/text/2",
        ]
        assert isinstance(links[2], TextPart)
        assert links[2].text == (
            "[resource Text Resource 2 (text/plain) at demo://resource/dynamic/text/2: Resource 2: plaintext resource]"
        )

        for kind in ("Text", "Blob"):
            embedded = (await tool["get-resource-reference"].run({"resourceType": kind, "resourceId": 1})).parts[1]
            assert isinstance(embedded, TextPart)
            assert embedded.text.startswith("Resource 1: This is a ")
            assert embedded.extra["resource"]["uri"] == f"demo://resource/dynamic/{kind.lower()}/1"

        zipped = await tool["gzip-file-as-resource"].run({"data": "data:text/plain,tide", "outputType": "resource"})
        (file,) = zipped.parts
        assert isinstance(file, FilePart)
        assert (file.name, file.mime_type) == ("README.md.gz", "application/gzip")
        assert decompress(b64decode(file.data or "")) == b"tide"


async def test_arguments_that_do_not_fit_are_told_in_the_words_of_the_server(address: str, by_name: ByName) -> None:
    async with mcp_tools(url=address, include=["get-sum"]) as tools:
        assert text_of(await tools[0].run({"a": 2, "b": 3})) == "The sum of 2 and 3 is 5."
        failed = await tools[0].run({"a": "two", "b": 3})
    assert failed.is_error
    assert "expected number" in text_of(failed)


async def test_calls_run_at_once(address: str) -> None:
    arguments = '{"duration": 0.5, "steps": 1}'
    calls = [ToolCall(id=str(n), name="trigger-long-running-operation", arguments=arguments) for n in range(8)]
    async with mcp_tools(url=address) as tools:
        node = ToolsNode(tools)
        with anyio.fail_after(3):
            answers = await node.invoke(Message.assistant(tool_calls=calls))
    assert all("completed" in answer.text for answer in answers)


async def test_an_operation_that_takes_too_long_is_given_up_and_the_session_goes_on(
    address: str, by_name: ByName
) -> None:
    async with mcp_tools(url=address, call_timeout=1.5) as tools:
        tool = by_name(tools)
        with pytest.raises(ToolTimeoutError):
            await tool["trigger-long-running-operation"].run({"duration": 60, "steps": 1})
        assert text_of(await tool["echo"].run({"message": "still here"})) == "Echo: still here"


async def test_two_servers_give_their_tools_to_one_node(everything: str) -> None:
    async with (
        mcp_tools(url=everything, prefix="web_", include=["echo"]) as web,
        mcp_tools(url=everything, prefix="other_", include=["echo", "get-sum"]) as other,
    ):
        node = ToolsNode([*web, *other])
        assert [info.name for info in node.infos] == ["web_echo", "other_echo", "other_get-sum"]
        calls = [ToolCall(id=name, name=name, arguments='{"message": "x"}') for name in ("web_echo", "other_echo")]
        answers = await node.invoke(Message.assistant(tool_calls=calls))
    assert [answer.text for answer in answers] == ["Echo: x", "Echo: x"]


async def test_a_server_that_is_restarted_is_connected_to_anew(restartable: Server, by_name: ByName) -> None:
    async with mcp_tools(url=f"http://127.0.0.1:{restartable.port}/mcp") as tools:
        echo = by_name(tools)["echo"]
        assert text_of(await echo.run({"message": "1"})) == "Echo: 1"
        restartable.stop()
        with pytest.raises(McpConnectionError, match="cannot be reached"):
            await echo.run({"message": "2"})
        restartable.start()
        assert text_of(await echo.run({"message": "3"})) == "Echo: 3"
        restartable.stop()
        restartable.start()  # now it knows nothing of the session, and says so
        assert text_of(await echo.run({"message": "4"})) == "Echo: 4"


async def test_a_server_that_is_killed_in_a_call_costs_that_call(restartable: Server, by_name: ByName) -> None:
    async with mcp_tools(url=f"http://127.0.0.1:{restartable.port}/mcp", call_timeout=10) as tools:
        tool = by_name(tools)

        async def call() -> None:
            with pytest.raises(McpConnectionError, match="may or may not have had its effect"):
                await tool["trigger-long-running-operation"].run({"duration": 60, "steps": 1})

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await anyio.sleep(0.3)
            await anyio.to_thread.run_sync(restartable.stop)
        await anyio.to_thread.run_sync(restartable.start)
        assert text_of(await tool["echo"].run({"message": "back"})) == "Echo: back"


async def test_a_server_of_the_old_protocol_that_is_killed_in_a_call_costs_that_call(
    old_restartable: Server, by_name: ByName
) -> None:
    async with mcp_tools(url=f"http://127.0.0.1:{old_restartable.port}/sse", call_timeout=10) as tools:
        tool = by_name(tools)

        async def call() -> None:
            with pytest.raises(McpConnectionError, match="may or may not have had its effect"):
                await tool["trigger-long-running-operation"].run({"duration": 60, "steps": 1})

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await anyio.sleep(0.3)
                await anyio.to_thread.run_sync(old_restartable.stop)
        await anyio.to_thread.run_sync(old_restartable.start)
        assert text_of(await tool["echo"].run({"message": "back"})) == "Echo: back"
