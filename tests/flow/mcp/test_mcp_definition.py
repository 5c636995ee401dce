"""Which tools of a server are taken, what they are called, and what may be said about them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp_types import ToolAnnotations

import anabranch.flow.tools
from anabranch.compose import END, START, Graph, Interrupt, RunOptions, ToolsNode
from anabranch.flow.tools import McpError, confirm_risky, mcp_tools
from anabranch.flow.tools._mcp_servers import label_of_command, label_of_url
from anabranch.schema import Message, MissingExtraError, Risk, Tool, ToolCall, ToolDefinitionError


def server_with(*names: str, **annotations: ToolAnnotations) -> MCPServer:
    server = MCPServer("files")

    def nothing() -> str:
        return ""

    for name in (*names, *annotations):
        server.add_tool(nothing, name=name, description=f"Do {name}.", annotations=annotations.get(name))
    return server


async def names_of(server: MCPServer, **settings: Any) -> list[str]:
    async with mcp_tools(server=server, **settings) as tools:
        return [tool.info.name for tool in tools]


@pytest.mark.anyio
async def test_tools_are_chosen_by_name_and_by_pattern() -> None:
    server = server_with("get_file", "get_folder", "delete_file", "move")
    assert await names_of(server) == ["get_file", "get_folder", "delete_file", "move"]
    assert await names_of(server, include=["move", "get_*"]) == ["get_file", "get_folder", "move"]
    assert await names_of(server, exclude=["delete_*"]) == ["get_file", "get_folder", "move"]
    assert await names_of(server, include="get_*", exclude="*_folder") == ["get_file"]
    assert await names_of(server, include=[]) == []


@pytest.mark.anyio
async def test_a_name_to_include_that_no_tool_has_is_an_error_that_lists_them() -> None:
    with pytest.raises(
        McpError, match=r"has no tool 'delte', which is to be included; its tools are: 'delete', 'move'"
    ):
        await names_of(server_with("delete", "move"), include=["delte"])


@pytest.mark.anyio
async def test_names_are_made_such_that_every_provider_takes_them_and_none_is_doubled() -> None:
    long = "n" * 80
    server = server_with("a.b", "a/b", long, long + "m", "plain-1_x")
    names = await names_of(server, prefix="p_")
    assert names[0] == "p_a_b"
    assert names[1].startswith("p_a_b_")
    assert names[2].startswith("p_nnnn")
    assert names[4] == "p_plain-1_x"
    assert len(set(names)) == 5
    assert all(len(name) <= 64 for name in names)
    assert names == await names_of(server, prefix="p_")  # the same every time


@pytest.mark.anyio
async def test_a_renamed_tool_is_called_by_the_name_that_the_server_knows() -> None:
    async with mcp_tools(server=server_with("a.b"), prefix="p_") as (tool,):
        assert (tool.info.name, tool.remote_name) == ("p_a_b", "a.b")
        assert not (await tool.run()).is_error


HINTS = {
    "reads": ToolAnnotations(read_only_hint=True),
    "adds": ToolAnnotations(read_only_hint=False, destructive_hint=False),
    "deletes": ToolAnnotations(destructive_hint=True),
    "unsure": ToolAnnotations(title="Unsure"),
}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("given", "risks"),
    [
        (None, ["destructive", "safe", "sensitive", "destructive", "destructive"]),
        ("sensitive", ["sensitive"] * 5),
        ({"*": "safe"}, ["safe"] * 5),
        ({"silent": "safe", "del*": "sensitive"}, ["safe", "safe", "sensitive", "sensitive", "destructive"]),
    ],
)
async def test_the_risk_of_a_tool_is_what_is_given_or_else_what_the_server_says(
    given: Risk | Mapping[str, Risk] | None, risks: list[Risk]
) -> None:
    async with mcp_tools(server=server_with("silent", **HINTS), risk=given) as tools:
        assert [tool.risk for tool in tools] == risks


@pytest.mark.anyio
async def test_a_person_is_asked_before_a_tool_of_a_server_that_may_destroy_something() -> None:
    asked: list[str] = []

    def decide(question: Interrupt) -> bool:
        asked.append(question.payload.tool)
        return False

    async with mcp_tools(server=server_with(**HINTS)) as tools:
        graph = Graph[Message, list[Message]]()
        graph.add_edge(START, graph.add_node("tools", ToolsNode(tools, middlewares=[confirm_risky()])))
        graph.add_edge("tools", END)
        calls = Message.assistant(tool_calls=[ToolCall(id=name, name=name) for name in HINTS])
        answers = await graph.compile().invoke(calls, RunOptions(on_interrupt=decide))
    assert sorted(asked) == ["adds", "deletes", "unsure"]
    assert [answer.is_error for answer in answers] == [False, True, True, True]


@pytest.mark.anyio
async def test_a_tool_says_what_it_is() -> None:
    async with mcp_tools(server=server_with(unsure=HINTS["unsure"])) as (tool,):
        assert isinstance(tool, Tool)
        assert tool.info.description == "Do unsure."
        assert tool.info.extra["mcp"]["title"] == "Unsure"
        assert tool.info.extra["mcp"]["annotations"] == {"title": "Unsure"}
        assert repr(tool) == "<tool 'unsure' of files>"
        assert ToolsNode([tool]).infos == (tool.info,)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, r"takes one of stdio=, url= and server=; given: none of them"),
        ({"stdio": ["x"], "url": "http://x"}, r"given: stdio, url"),
        ({"stdio": "python -m x"}, r"a list of the command and its arguments"),
        ({"stdio": []}, r"a list of the command and its arguments"),
        ({"url": "localhost:80"}, r"starts with http:// or https://; got 'localhost:80'"),
        ({"url": "http://x", "env": {}}, r"env= has no meaning with url="),
        ({"stdio": ["x"], "headers": {}}, r"headers= has no meaning with stdio="),
        ({"stdio": ["x"], "prefix": "a b"}, r"prefix is at most 32 of the characters"),
        ({"stdio": ["x"], "connect_timeout": 0}, r"connect_timeout is more than 0, not 0"),
        ({"stdio": ["x"], "call_timeout": -1}, r"call_timeout is more than 0, not -1"),
        ({"stdio": ["x"], "risk": "none"}, r"risk is one of safe, sensitive, destructive, not 'none'"),
        ({"stdio": ["x"], "risk": {"a": "none"}}, r"risk is one of"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_at_once(settings: Any, message: str) -> None:
    with pytest.raises(ToolDefinitionError, match=message):
        mcp_tools(**settings)


@pytest.mark.parametrize(
    ("command", "label"),
    [
        (["/usr/bin/python3", "-m", "server", "--key=secret"], "python3 -m server"),
        (["npx", "-y", "@scope/server", "secret"], "npx @scope/server"),
        (["./server", "--token", "secret"], "server"),
    ],
)
def test_a_server_is_named_without_what_may_be_secret(command: list[str], label: str) -> None:
    assert label_of_command(command) == label


def test_an_address_is_named_without_what_may_be_secret() -> None:
    assert label_of_url("https://user:pass@example.org:8080/mcp?key=1#x") == "https://example.org:8080/mcp"


@pytest.mark.anyio
async def test_without_the_sdk_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.delitem(sys.modules, "mcp.client.client")
    with pytest.raises(MissingExtraError, match=r'pip install "anabranch\[mcp\]"'):
        async with mcp_tools(stdio=["x"]):
            pass


def test_importing_the_tools_does_not_import_the_sdk() -> None:
    program = (
        "import anabranch.flow.tools, sys; sys.exit('mcp' in sys.modules or 'anabranch.flow.tools.mcp' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_name_that_the_tools_do_not_have_is_an_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        getattr(anabranch.flow.tools, "nonsense")  # noqa: B009  (type checkers know that there is none)
