"""Typed answers of the ReAct agent: the value is the one that was validated, also after a resume."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, computed_field

from anabranch.compose import (
    MemoryStore,
    Paused,
    RepairArguments,
    ToolAlias,
    ToolsNode,
    interrupt,
    truncate_results,
)
from anabranch.compose.testing import ScriptedModel
from anabranch.flow.react import OutputInvalid, ReactAgent, ToolCallLimitExceeded, set_return_directly
from anabranch.schema import Message, ToolCall, ToolOutput, tool

pytestmark = pytest.mark.anyio


class Login(BaseModel):
    name: str
    password: SecretStr


class Square(BaseModel):
    model_config = ConfigDict(extra="forbid")
    side: int

    @computed_field
    def area(self) -> int:
        return self.side**2


class Hidden(BaseModel):
    shown: int
    kept: int = Field(exclude=True)


class Renamed(BaseModel):
    city: str = Field(serialization_alias="town")


class Upper(BaseModel):
    city: str = Field(alias="cityName")


CASES: list[tuple[Any, str, Any]] = [
    (str, '{"answer": "\\"hi\\""}', '"hi"'),
    (str, '{"answer": "null"}', "null"),
    (str | int, '{"answer": "42"}', "42"),
    (str | int, '{"answer": 42}', 42),
    (str | None, '{"answer": "null"}', "null"),
    (str | None, '{"answer": null}', None),
    (list[int], '{"answer": [1, 2]}', [1, 2]),
    (Login, '{"name": "Ada", "password": "s3cret"}', Login(name="Ada", password=SecretStr("s3cret"))),
    (Square, '{"side": 3}', Square(side=3)),
    (Hidden, '{"shown": 1, "kept": 2}', Hidden(shown=1, kept=2)),
    (Renamed, '{"city": "Husum"}', Renamed(city="Husum")),
    (Upper, '{"cityName": "Husum"}', Upper(cityName="Husum")),
]


def call(name: str, arguments: str = "{}", id: str = "c1") -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


def calls(*given: ToolCall) -> Message:
    return Message.assistant(tool_calls=given)


@tool
async def ask() -> str:
    """Ask."""
    answer: str = await interrupt("which?", answer=str)
    return answer


@tool
async def broken() -> str:
    """Fail."""
    raise ValueError("gone")


@pytest.mark.parametrize(("kind", "arguments", "value"), CASES)
async def test_the_answer_is_the_value_that_was_validated(kind: Any, arguments: str, value: Any) -> None:
    agent = ReactAgent(ScriptedModel([calls(call("final_answer", arguments))]), output=kind)
    output = (await agent.run("q")).output
    assert (output, type(output)) == (value, type(value))


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize(("kind", "arguments", "value"), CASES)
async def test_it_is_so_when_another_process_goes_on(kind: Any, arguments: str, value: Any, thread: bool) -> None:
    store = MemoryStore()
    script = [calls(call("ask")), calls(call("final_answer", arguments))]
    first = ReactAgent(ScriptedModel(script), tools=[ask], output=kind, store=store)
    kept: Any = {"thread": "t1"} if thread else {}
    assert isinstance(await first.start("q", run="r1", **kept), Paused)

    other = ReactAgent(ScriptedModel(script[1:]), tools=[ask], output=kind, store=store)
    output = (await other.resume_run("r1", answer="left")).output
    assert (output, type(output)) == (value, type(value))


async def test_the_arguments_that_count_are_read_where_they_were_mended_or_renamed() -> None:
    alias = ToolAlias(("done",), {"name": ["user"]})
    mended = ToolsNode([], middlewares=[RepairArguments()], aliases={"final_answer": alias})
    for name, arguments in (
        ("final_answer", "{'name': 'Ada', 'password': 's3cret',}"),
        ("done", '{"name": "Ada", "password": "s3cret"}'),
        ("final_answer", '{"user": "Ada", "password": "s3cret"}'),
    ):
        result = await ReactAgent(ScriptedModel([calls(call(name, arguments))]), tools=mended, output=Login).run("q")
        assert result.output == Login(name="Ada", password=SecretStr("s3cret"))
        assert "s3cret" not in result.message.text


@pytest.mark.parametrize("marks", [False, True])
@pytest.mark.parametrize("mode", ["tool", "text"])
async def test_another_tools_result_that_does_not_fit_is_an_error_with_the_history(mode: Any, marks: bool) -> None:
    @tool
    async def look() -> str:
        """Look."""
        if marks:
            set_return_directly()
        return "no JSON"

    directly = [] if marks else ["look"]
    agent = ReactAgent(
        ScriptedModel([calls(call("look"))]), tools=[look], output=Square, output_mode=mode, return_directly=directly
    )
    with pytest.raises(OutputInvalid, match="the result of tool 'look' is the answer, and does not fit") as caught:
        await agent.run("q")
    assert [message.role for message in caught.value.messages] == ["user", "assistant", "tool"]
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.why, again.messages) == (str(caught.value), caught.value.why, caught.value.messages)


async def test_the_result_of_another_tool_that_fits_is_the_answer() -> None:
    @tool
    async def look() -> dict[str, int]:
        """Look."""
        return {"side": 3}

    agent = ReactAgent(ScriptedModel([calls(call("look"))]), tools=[look], output=Square, return_directly=["look"])
    assert (await agent.run("q")).output == Square(side=3)


async def test_middlewares_and_policies_are_not_for_the_tool_of_the_answer() -> None:
    seen: list[str] = []

    async def watch(call: ToolCall, next: Any) -> ToolOutput:
        seen.append(call.name)
        return await next(call)

    node = ToolsNode([ask, broken], on_error="raise", middlewares=[watch, truncate_results(2)])
    answers = ('{"side": "long"}', "{", '{"side": 300}')
    model = ScriptedModel([calls(call("final_answer", arguments)) for arguments in answers])
    result = await ReactAgent(model, tools=node, output=Square).run("q")
    assert result.output == Square(side=300)
    assert "90000" in result.message.text
    assert "side" in model.calls[1][-1].text
    assert "not valid JSON" in model.calls[2][-1].text
    assert seen == []


async def test_the_answer_does_not_count_as_a_tool_call() -> None:
    wrong, right = call("final_answer", "{}"), call("final_answer", '{"side": 3}')
    result = await ReactAgent(ScriptedModel([calls(wrong), calls(right)]), output=Square, max_tool_calls=0).run("q")
    assert result.output == Square(side=3)
    agent = ReactAgent(
        ScriptedModel([calls(right, call("broken", id="c2"))]), tools=[broken], output=Square, max_tool_calls=0
    )
    with pytest.raises(ToolCallLimitExceeded):
        await agent.run("q")


@pytest.mark.parametrize("by_middleware", [False, True])
async def test_a_mark_of_an_attempt_that_failed_does_not_count(by_middleware: bool) -> None:
    from anabranch.compose import retry_calls

    attempts: list[int] = []

    @tool(retries=0 if by_middleware else 1)
    async def look() -> str:
        """Mark at the first attempt only."""
        attempts.append(1)
        if len(attempts) % 2:
            set_return_directly()
            raise OSError("busy")
        return "not it"

    agent = ReactAgent(
        ScriptedModel([calls(call("look")), "the answer"] * 2),
        tools=[look],
        middlewares=[retry_calls(1)] if by_middleware else [],
    )
    assert (await agent.generate("q")).text == "the answer"
    async with agent.stream("q") as reader:
        assert (await reader.concat()).text == "the answer"
