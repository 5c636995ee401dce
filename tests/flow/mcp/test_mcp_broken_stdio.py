"""A server that hangs, dies, lies or floods costs a call, never a run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from anabranch.compose import ToolsNode, ToolTimeoutError
from anabranch.flow.tools import McpConnectionError, McpError, McpTool, McpWarning, mcp_tools
from anabranch.schema import Message, TextPart, ToolCall, ToolResult

pytestmark = pytest.mark.anyio

Broken = Callable[..., AbstractAsyncContextManager[list[McpTool]]]
ByName = Callable[[list[McpTool]], dict[str, McpTool]]


SOON = 20.0
"""Seconds: far from what would end a call or a connection otherwise, also on a busy machine."""


def text_of(result: ToolResult) -> str:
    return "".join(part.text for part in result.parts if isinstance(part, TextPart))


@contextmanager
def within(seconds: float) -> Generator[None]:
    began = time.perf_counter()
    yield
    took = time.perf_counter() - began
    assert took < seconds, f"took {took:.2f} s"


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until_gone(pid: int) -> None:
    with anyio.fail_after(10):
        while is_running(pid):  # noqa: ASYNC110  (nobody tells us)
            await anyio.sleep(0.005)


async def until_noticed(tool: Any) -> None:
    """Wait until a tool's connection knows that its server is gone: a call before that is lost with it, and says so."""
    with anyio.fail_after(10):
        while (link := tool._connection._link) is not None and not link.is_over:  # noqa: ASYNC110
            await anyio.sleep(0.005)


# --- connecting ------------------------------------------------------------------------------------------------------


async def test_a_command_that_does_not_exist_is_named() -> None:
    with pytest.raises(McpConnectionError, match=r"no-such-program.*cannot be started: No such file"):
        async with mcp_tools(stdio=["no-such-program-here"]):
            pass


async def test_a_server_that_ends_at_once_is_reported_with_its_status_and_its_last_words(broken: Broken) -> None:
    with within(SOON), pytest.raises(McpConnectionError, match=r"exit status 7; its last words:\nno licence found"):
        async with broken("dead"):
            pass


async def test_a_server_that_hangs_while_connecting_is_given_up_in_time(broken: Broken) -> None:
    with within(SOON), pytest.raises(McpConnectionError, match=r"cannot connect to .*: no answer within 0\.5 s"):
        async with broken("hang-connect", connect_timeout=0.5):
            pass


async def test_a_server_that_hangs_while_listing_is_given_up_in_time(broken: Broken) -> None:
    with within(SOON), pytest.raises(McpConnectionError, match=r"did not list its tools within 0\.5 s"):
        async with broken("hang-list", list_timeout=0.5):
            pass


async def test_a_list_without_end_is_refused(broken: Broken) -> None:
    with within(SOON), pytest.raises(McpError, match="its list of tools does not end"):
        async with broken("endless-list"):
            pass


async def test_a_list_that_is_none_is_refused(broken: Broken) -> None:
    with pytest.raises(McpError, match=r"does not list its tools: tools: Input should be a valid list"):
        async with broken("no-list"):
            pass


async def test_tools_with_bad_schemas_are_left_out_and_named_in_a_warning(broken: Broken) -> None:
    connecting = broken("bad-schemas")
    with pytest.warns(McpWarning) as warned:
        tools = await connecting.__aenter__()
    await connecting.__aexit__(None, None, None)
    assert [tool.info.name for tool in tools] == ["good"]
    assert tools[0].info.parameters == {"type": "object"}
    said = str(warned[0].message)
    for name in ("no_object", "no_schema", "no_type", "no_list", "number 6", "number 7", "good", "", "  "):
        assert f"'{name}': " in said
    assert "at properties.a.type: 'strng' is not valid" in said


async def test_what_a_server_prints_between_its_messages_is_skipped(broken: Broken, by_name: ByName) -> None:
    async with broken("chatty") as tools:
        assert text_of(await by_name(tools)["echo"].run({"a": 1})) == '{"a": 1}'


async def test_all_pages_of_a_list_are_read(broken: Broken) -> None:
    async with broken() as tools:
        assert len(tools) == 13


# --- calling ---------------------------------------------------------------------------------------------------------


async def test_a_call_that_hangs_ends_in_time_and_a_server_that_lives_is_kept(broken: Broken, by_name: ByName) -> None:
    async with broken(call_timeout=1.0) as tools:
        tool = by_name(tools)
        before = text_of(await tool["pid"].run())
        with within(SOON), pytest.raises(ToolTimeoutError, match=r"'hang' took longer than 1 s"):
            await tool["hang"].run()
        assert text_of(await tool["pid"].run()) == before


async def test_a_server_that_hangs_for_good_is_replaced_when_it_is_needed(
    broken: Broken, by_name: ByName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.flow.tools._mcp_link._PROBE_SECONDS", 0.3)
    async with broken(call_timeout=1.0) as tools:
        tool = by_name(tools)
        before = text_of(await tool["pid"].run())
        with pytest.raises(ToolTimeoutError):
            await tool["slow"].run({"seconds": 60})
        with within(SOON):
            assert text_of(await tool["pid"].run()) != before
        assert not is_running(int(before))


async def test_a_server_that_hangs_under_a_time_limit_of_the_node_is_replaced_too(
    broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.flow.tools._mcp_link._PROBE_SECONDS", 0.3)

    async def told(node: ToolsNode, name: str, arguments: str = "{}") -> str:
        call = Message.assistant(tool_calls=[ToolCall(id="1", name=name, arguments=arguments)])
        return (await node.invoke(call))[0].text

    async with broken() as tools:
        patient, hasty = ToolsNode(tools), ToolsNode(tools, timeout=0.3)
        before = await told(patient, "pid")
        with within(SOON):
            assert "took longer than 0.3 s" in await told(hasty, "slow", '{"seconds": 60}')
            assert await told(patient, "pid") != before


async def test_a_server_in_doubt_is_not_given_up_while_it_works_on_another_call(
    broken: Broken, by_name: ByName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.flow.tools._mcp_link._PROBE_SECONDS", 0.1)
    results: list[str] = []
    async with broken() as tools:
        tool = by_name(tools)

        async def work() -> None:
            results.append(text_of(await tool["slow"].run({"seconds": 1})))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            await anyio.sleep(0.1)
            with anyio.move_on_after(0.1):
                await tool["hang"].run()
            results.append(text_of(await tool["echo"].run()))  # waits behind the first
    assert sorted(results) == ["at last", "{}"]


async def test_calls_beside_one_that_hangs_go_on(broken: Broken, by_name: ByName) -> None:
    answers: list[str] = []
    async with broken(call_timeout=0.5) as tools:
        tool = by_name(tools)

        async def ask(number: int) -> None:
            answers.append(text_of(await tool["echo"].run({"n": number})))

        async def hang() -> None:
            with pytest.raises(ToolTimeoutError):
                await tool["hang"].run()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hang)
            for number in range(5):
                tasks.start_soon(ask, number)
    assert sorted(answers) == [f'{{"n": {n}}}' for n in range(5)]


async def test_a_server_that_dies_in_a_call_fails_it_and_is_started_anew_for_the_next(
    broken: Broken, by_name: ByName
) -> None:
    async with broken() as tools:
        tool = by_name(tools)
        before = text_of(await tool["pid"].run())
        with within(SOON), pytest.raises(McpConnectionError, match="lost during the call") as raised:
            await tool["die"].run()
        assert "exit status 3" in str(raised.value)
        assert "I cannot go on." in str(raised.value)
        assert text_of(await tool["pid"].run()) != before


async def test_a_call_in_which_the_server_died_is_not_sent_again(
    broken: Broken, by_name: ByName, tmp_path: Path
) -> None:
    file = tmp_path / "count"
    async with broken() as tools:
        with pytest.raises(McpConnectionError, match="may or may not have had its effect"):
            await by_name(tools)["count"].run({"file": str(file), "die": True})
    assert file.read_text() == "x"


async def test_a_server_that_dies_between_calls_is_started_anew_unnoticed(broken: Broken, by_name: ByName) -> None:
    async with broken() as tools:
        tool = by_name(tools)
        for _ in range(3):
            pid = int(text_of(await tool["pid"].run()))
            assert text_of(await tool["last"].run()) == "my last answer"
            await until_gone(pid)
            await until_noticed(tool["pid"])


async def test_calls_at_once_after_a_death_share_one_new_server(broken: Broken, by_name: ByName) -> None:
    pids: set[str] = set()
    async with broken() as tools:
        tool = by_name(tools)
        pid = int(text_of(await tool["pid"].run()))
        await tool["last"].run()
        await until_gone(pid)
        await until_noticed(tool["pid"])

        async def ask() -> None:
            pids.add(text_of(await tool["pid"].run()))

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(ask)
    assert len(pids) == 1


async def test_a_server_that_cannot_be_started_again_fails_each_call(tmp_path: Path, by_name: ByName) -> None:
    script = tmp_path / "server.py"
    script.write_text((Path(__file__).parent / "broken_server.py").read_text())
    async with mcp_tools(stdio=[sys.executable, str(script)]) as tools:
        script.unlink()
        with pytest.raises(McpConnectionError):
            await by_name(tools)["die"].run()
        for _ in range(2):
            with within(SOON), pytest.raises(McpConnectionError, match="cannot connect"):
                await by_name(tools)["pid"].run()


@pytest.mark.parametrize("size", [100_000, 20_000_000])
async def test_an_answer_that_is_too_large_is_refused_and_costs_only_its_call(
    broken: Broken, by_name: ByName, size: int
) -> None:
    async with broken(max_message_bytes=50_000) as tools:
        tool = by_name(tools)
        before = text_of(await tool["pid"].run())
        with within(SOON), pytest.raises(McpError, match="too large and was refused"):
            await tool["huge"].run({"size": size})
        assert text_of(await tool["pid"].run()) == before


async def test_a_long_answer_is_cut_with_a_note(broken: Broken, by_name: ByName) -> None:
    async with broken(max_result_chars=1000) as tools:
        result = await by_name(tools)["huge"].run({"size": 5_000})
        assert text_of(result) == "x" * 1000 + "[cut: 1000 of 5000 characters are shown; ask for less, or for a part]"


async def test_an_answer_without_end_ends_with_the_time_of_the_call(
    broken: Broken, by_name: ByName, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.flow.tools._mcp_link._PROBE_SECONDS", 0.2)
    async with broken(call_timeout=0.5) as tools:
        tool = by_name(tools)
        with within(SOON), pytest.raises(ToolTimeoutError):
            await tool["endless"].run()
        assert text_of(await tool["echo"].run({})) == "{}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("refuse", "refused the call: not with me"),
        ("nonsense", "the answer of the MCP server .* makes no sense: .*content"),
        ("half", "the answer of the MCP server .* makes no sense: Invalid JSON: .*hex escape"),
    ],
)
async def test_an_answer_that_is_no_result_fails_the_call(
    broken: Broken, by_name: ByName, name: str, message: str
) -> None:
    async with broken() as tools:
        with pytest.raises(McpError, match=message):
            await by_name(tools)[name].run()
        assert text_of(await by_name(tools)["echo"].run()) == "{}"


async def test_a_result_that_says_it_is_an_error_is_a_failed_result(broken: Broken, by_name: ByName) -> None:
    async with broken() as tools:
        assert await by_name(tools)["fail"].run() == ToolResult("it is broken", is_error=True)


# --- the end ---------------------------------------------------------------------------------------------------------


async def test_a_server_that_does_not_want_to_end_is_ended(broken: Broken, by_name: ByName) -> None:
    with within(SOON):
        async with broken("stubborn") as tools:
            pid = int(text_of(await by_name(tools)["pid"].run()))
    assert not is_running(pid)


async def test_a_cancelled_block_leaves_no_process_behind(broken: Broken, by_name: ByName) -> None:
    pid = 0
    with within(SOON), anyio.move_on_after(5) as scope:
        async with broken() as tools:
            pid = int(text_of(await by_name(tools)["pid"].run()))
            scope.cancel()
            await by_name(tools)["hang"].run()
    assert scope.cancelled_caught
    assert not is_running(pid)


async def test_a_cancelled_call_ends_at_once_and_others_go_on(broken: Broken, by_name: ByName) -> None:
    async with broken() as tools:
        tool = by_name(tools)
        with within(SOON), anyio.move_on_after(0.1) as scope:
            await tool["hang"].run()
        assert scope.cancelled_caught
        assert text_of(await tool["echo"].run()) == "{}"


async def test_an_error_in_the_block_comes_out_as_it_is(broken: Broken) -> None:
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as raised:
        async with broken():
            raise error
    assert raised.value is error


async def test_tools_are_of_no_use_after_the_block(broken: Broken, by_name: ByName) -> None:
    async with broken() as tools:
        pass
    with pytest.raises(McpError, match="are closed; call them inside"):
        await by_name(tools)["echo"].run()


def test_tools_belong_to_the_event_loop_that_they_were_made_in(broken: Broken, by_name: ByName) -> None:
    async def elsewhere(tool: McpTool) -> None:
        with pytest.raises(McpError, match="belong to the event loop"):
            await tool.run()

    async def main() -> None:
        async with broken() as tools:
            await anyio.to_thread.run_sync(anyio.run, elsewhere, by_name(tools)["echo"])

    anyio.run(main)


# --- in a node -------------------------------------------------------------------------------------------------------


async def test_arguments_that_cannot_be_written_cost_only_their_call(broken: Broken, by_name: ByName) -> None:
    async with broken() as tools:
        echo = by_name(tools)["echo"]
        with pytest.raises(McpError, match=r"the arguments of 'echo' cannot be sent"):
            await echo.run({"a": "half \ud83d"})
        assert text_of(await echo.run({"a": 1})) == '{"a": 1}'


async def test_a_tools_node_tells_the_model_what_went_wrong_with_each_call(broken: Broken) -> None:
    names = ["echo", "hang", "fail", "refuse", "nonsense", "huge"]
    calls = [ToolCall(id=name, name=name, arguments='{"size": 200000}') for name in names]
    async with broken(call_timeout=0.5, max_message_bytes=100_000) as tools:
        with within(SOON):
            answers = await ToolsNode(tools).invoke(Message.assistant(tool_calls=calls))
    told = {answer.tool_call_id: answer.text for answer in answers}
    assert list(told) == names
    assert [answer.tool_call_id for answer in answers if answer.is_error] == names[1:]
    assert told["echo"] == '{"size": 200000}'
    assert told["hang"].startswith("The tool 'hang' took longer than 0.5 s and was stopped; there is no result.")
    assert told["fail"] == "it is broken"
    assert "refused the call: not with me" in told["refuse"]
    assert "ask it for less" in told["huge"]


async def test_a_tools_node_may_run_many_calls_of_a_server_at_once(broken: Broken) -> None:
    calls = [ToolCall(id=str(n), name="echo", arguments=f'{{"n": {n}}}') for n in range(50)]
    async with broken() as tools:
        answers: list[Any] = await ToolsNode(tools).invoke(Message.assistant(tool_calls=calls))
    assert [answer.text for answer in answers] == [f'{{"n": {n}}}' for n in range(50)]
