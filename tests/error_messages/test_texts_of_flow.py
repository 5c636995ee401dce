from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.server import MCPServer
from openai import AsyncOpenAI

from anabranch.compose import MemoryStore, interrupt
from anabranch.compose.testing import ScriptedModel
from anabranch.flow import ReactAgent
from anabranch.flow.models import OpenAIChat, model_named
from anabranch.flow.react import ThreadConflict
from anabranch.flow.tools import calculator, current_time, file_tools, mcp_tools
from anabranch.schema import Message, ToolCall, Usage, tool

CASES: dict[str, Callable[[], Any]] = {}


def case(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def note(provoke: Callable[[], Any]) -> Callable[[], Any]:
        CASES[name] = provoke
        return provoke

    return note


@tool
async def ask(question: str) -> str:
    """Ask the user."""
    return await interrupt(question, answer=str)


@tool
def tide(place: str) -> str:
    """Tell the tide."""
    return place


def calling(name: str = "tide", arguments: str = '{"place": "Dover"}') -> Message:
    calls = [ToolCall(id="c1", name=name, arguments=arguments)]
    return Message.assistant(tool_calls=calls, usage=Usage(input_tokens=10, output_tokens=1))


def agent(*answers: Any, **settings: Any) -> ReactAgent[Any]:
    return ReactAgent(ScriptedModel(list(answers)), tools=[tide, ask], **settings)


# -- agents ----------------------------------------------------------------------------------------------------


@case("RoundLimitExceeded")
async def _() -> None:
    await agent(calling(), calling(), max_rounds=1).generate("?")


@case("ToolCallLimitExceeded")
async def _() -> None:
    await agent(calling(), calling(), max_tool_calls=1).generate("?")


@case("TokenLimitExceeded")
async def _() -> None:
    await agent(calling(), calling(), max_tokens=5).generate("?")


@case("OutputInvalid")
async def _() -> None:
    await agent("seven", "eight", output=int, output_mode="text", output_retries=1).generate("?")


@case("ValueError, a name in return_directly")
def _() -> None:
    agent(return_directly={"tied"})


@case("TurnUnfinished")
async def _() -> None:
    kept = agent(calling("ask", '{"question": "Where?"}'), store=MemoryStore())
    with pytest.raises(BaseException, match="waits"):
        await kept.generate("?", thread="t1", run="r1")
    await kept.generate("hello?", thread="t1", run="r2")


@case("UnknownThreadError")
async def _() -> None:
    await agent(store=MemoryStore()).thread("t7", version=3)


@case("ThreadConflict")
async def _() -> None:
    begun = anyio.Event()

    class Slow(ScriptedModel):
        async def generate(self, *given: Any) -> Message:
            begun.set()
            await anyio.sleep_forever()
            return Message.assistant("never")

    kept = ReactAgent(Slow([]), store=MemoryStore())
    raised: list[Exception] = []
    async with anyio.create_task_group() as group:

        async def first() -> None:
            await kept.generate("?", thread="t1", run="r1")

        group.start_soon(first)
        await begun.wait()
        with pytest.raises(ThreadConflict) as caught:
            await kept.generate("?", thread="t1", run="r2")
        raised.append(caught.value)
        group.cancel_scope.cancel()
    raise raised[0]


# -- models ----------------------------------------------------------------------------------------------------


async def answered(status: int, body: Any = None, text: str = "", **headers: str) -> None:
    """Ask a model behind a server that answers like this."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        if status == 0:
            raise httpx2.ConnectError("connection refused")
        if status == 1:
            raise httpx2.ReadTimeout("nothing came")
        content: Any = {"json": body} if body is not None else {"text": text}
        return httpx2.Response(status, headers=headers, **content)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        client = AsyncOpenAI(api_key="k", base_url="http://models/v1", http_client=http, max_retries=0)
        await OpenAIChat("big", client=client).generate([Message.user("hi")])


def said(message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, "param": None}}


@case("MissingKey")
def _() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OPENAI_API_KEY", raising=False)
        patch.delenv("OPENAI_BASE_URL", raising=False)
        model_named("openai:big")


@case("ValueError, a provider")
def _() -> None:
    model_named("opnai:big")


@case("AccessDenied")
async def _() -> None:
    await answered(401, said("Incorrect API key provided.", "invalid_api_key"))


@case("RateLimited")
async def _() -> None:
    await answered(429, said("Rate limit reached.", "rate_limit_exceeded"), **{"retry-after": "20"})


@case("BadRequest")
async def _() -> None:
    await answered(404, said("The model `big` does not exist.", "model_not_found"))


@case("ContextTooLong")
async def _() -> None:
    await answered(400, said("This model's maximum context length is 10 tokens.", "context_length_exceeded"))


@case("Refused")
async def _() -> None:
    await answered(400, said("The prompt was flagged.", "content_filter"))


@case("Unavailable")
async def _() -> None:
    await answered(0)


@case("Unavailable, overloaded")
async def _() -> None:
    await answered(503, said("The server is overloaded."))


@case("TimedOut")
async def _() -> None:
    await answered(1)


@case("MalformedResponse")
async def _() -> None:
    await answered(200, text="<html>Bad gateway</html>")


# -- tools -----------------------------------------------------------------------------------------------------


@case("CalculationError, a name")
async def _() -> None:
    await calculator.run({"expression": "sqr(2)"})


@case("CalculationError, a value")
async def _() -> None:
    await calculator.run({"expression": "1 / 0"})


@case("UnknownTimezoneError")
async def _() -> None:
    await current_time.run({"timezone": "Europe/Berln"})


@case("FileAccessError, missing")
async def _() -> None:
    read = next(one for one in file_tools(Path(__file__).parent) if one.info.name == "read_file")
    await read.run({"path": "confest.py"})


@case("FileAccessError, outside")
async def _() -> None:
    read = next(one for one in file_tools(Path(__file__).parent) if one.info.name == "read_file")
    await read.run({"path": "../../pyproject.toml"})


@case("McpError")
async def _() -> None:
    server = MCPServer("files")
    server.add_tool(lambda: "", name="delete", description="Delete.")
    async with mcp_tools(server=server, include=["delte"]):
        pass


@case("McpConnectionError")
async def _() -> None:
    async with mcp_tools(stdio=[sys.executable, "-c", "pass"]):
        pass


@case("McpWarning")
async def _() -> None:
    server = Path(__file__).parent.parent / "flow" / "mcp" / "broken_server.py"
    async with mcp_tools(stdio=[sys.executable, "-I", "-S", str(server), "bad-schemas"]):
        pass


@pytest.mark.anyio
@pytest.mark.once
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_texts_of_flow(compare_texts: Any) -> None:
    await compare_texts("flow", CASES)
