"""Typed answers of the ReAct agent: by the tool ``final_answer``, or as JSON in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import pytest
from pydantic import BaseModel, Field

from anabranch.compose import RunOptions, ToolsOptions
from anabranch.compose.testing import ScriptedModel
from anabranch.flow.react import OutputInvalid, OutputMode, ReactAgent, RoundLimitExceeded
from anabranch.schema import Message, ToolCall, ToolDefinitionError, check_history, concat, tool

pytestmark = pytest.mark.anyio


class Tide(BaseModel):
    """The tide at a place."""

    city: str
    metres: float = Field(gt=0)


@dataclass
class Pair:
    a: int
    b: int


@tool
async def look(city: str) -> str:
    """Look the tide up."""
    return f"{city}: 4.2 m"


def calls(name: str, arguments: str) -> Message:
    return Message.assistant(tool_calls=[ToolCall(id="c1", name=name, arguments=arguments)])


def final(arguments: str) -> Message:
    return calls("final_answer", arguments)


GOOD = '{"city": "Husum", "metres": 4.2}'
BAD = '{"city": "Husum", "metres": -1}'


async def test_the_answer_is_a_value_and_the_model_knows_the_tool_that_takes_it() -> None:
    model = ScriptedModel([calls("look", '{"city": "Husum"}'), final(GOOD)])
    agent = ReactAgent(model, tools=[look], output=Tide)

    result = await agent.run("How high?")

    assert result.output == Tide(city="Husum", metres=4.2)
    assert result.output.city == "Husum"
    assert Tide.model_validate_json(result.message.text) == result.output
    info = model.calls[0].tools[1]
    assert (model.calls[0].tools[0], info.name) == (look.info, "final_answer")
    assert "The tide at a place." in info.description
    assert list(info.parameters["properties"]) == ["city", "metres"]
    assert check_history(result.messages) == []


class SchemaModel(ScriptedModel):
    """A scripted model whose provider could hold it to a schema."""

    held_to: tuple[Any, bool] | None = None

    def with_output(self, output: Any, *, name: str = "answer", strict: bool = True) -> SchemaModel:
        self.held_to = output, strict
        return self


async def test_a_provider_is_told_the_schema_strictly_only_where_nothing_is_optional() -> None:
    class Note(BaseModel):
        text: str
        tags: list[str] = []

    for kind, strict in ((Tide, True), (Note, False)):
        model = SchemaModel([GOOD if kind is Tide else '{"text": "x"}'])
        result = await ReactAgent(model, output=kind, output_mode="schema").run("q")
        assert model.held_to == (kind.model_json_schema(), strict)
        assert isinstance(result.output, kind)


def test_a_model_without_a_schema_mode_is_refused_for_it() -> None:
    with pytest.raises(ValueError, match="ScriptedModel has no with_output"):
        ReactAgent(ScriptedModel([]), output=Tide, output_mode="schema")


@pytest.mark.parametrize("mode", get_args(OutputMode))
async def test_an_answer_that_does_not_fit_goes_back_with_what_is_wrong(mode: OutputMode) -> None:
    script = [final(BAD), final(GOOD)] if mode == "tool" else [BAD, f"Here: {GOOD}"]
    model = SchemaModel(script * 2)
    agent = ReactAgent(model, output=Tide, output_mode=mode)

    result = await agent.run("q")
    async with agent.stream("q") as reader:
        streamed = await reader.concat()

    assert result.output == Tide(city="Husum", metres=4.2)
    assert streamed == result.message
    assert model.calls[:2] == model.calls[2:]
    assert "metres: should be greater than 0, got -1" in model.calls[1][-1].text
    assert check_history(result.messages) == []


async def test_text_instead_of_the_tool_is_taken_if_it_fits_and_else_the_model_is_asked_for_the_tool() -> None:
    fits = ReactAgent(ScriptedModel([f"```json\n{GOOD}\n```"]), output=Tide)
    assert (await fits.run("q")).output == Tide(city="Husum", metres=4.2)

    model = ScriptedModel(["About four metres.", final(GOOD)])
    assert (await ReactAgent(model, output=Tide).run("q")).output.metres == 4.2
    assert model.calls[1][-1] == Message.user("Give the final answer by calling the tool 'final_answer'.")


@pytest.mark.parametrize("mode", get_args(OutputMode))
async def test_a_model_that_does_not_learn_is_given_up_with_the_history(mode: OutputMode) -> None:
    for way in ("run", "stream"):
        model = SchemaModel(["no"] * 9)
        agent = ReactAgent(model, output=Tide, output_mode=mode, output_retries=2)
        with pytest.raises(OutputInvalid, match="told 2 times") as failed:
            await (agent.run("q") if way == "run" else read(agent))
        assert len(model.calls) == 3
        assert [m.role for m in failed.value.messages] == ["user", *["assistant", "user"] * 2, "assistant"]
    tool_calls = ReactAgent(ScriptedModel([final(BAD)] * 9), output=Tide, max_rounds=3)
    with pytest.raises(RoundLimitExceeded):
        await tool_calls.run("q")


async def read(agent: ReactAgent[Any]) -> Message:
    async with agent.stream("q") as reader:
        return concat([chunk async for chunk in reader])


@pytest.mark.parametrize(
    ("kind", "arguments", "value"),
    [
        (list[int], '{"answer": [1, 2]}', [1, 2]),
        (str, '{"answer": "42"}', "42"),
        (int, '{"answer": 42}', 42),
        (Literal["yes", "no"], '{"answer": "yes"}', "yes"),
        (Pair, '{"a": 1, "b": 2}', Pair(1, 2)),
        (dict[str, float], '{"answer": {"a": 1}}', {"a": 1.0}),
        (int | None, '{"answer": null}', None),
    ],
)
async def test_any_type_that_pydantic_knows_will_do(kind: Any, arguments: str, value: Any) -> None:
    result: Any = await ReactAgent(ScriptedModel([final(arguments)]), output=kind).run("q")

    assert result.output == value
    assert type(result.output) is type(value)


def be_good(history: list[Message]) -> str:
    return "Be good."


async def test_in_text_mode_the_model_is_told_the_schema_beside_its_system_prompt() -> None:
    model = ScriptedModel([GOOD] * 4)
    prompts: list[Any] = [None, "Be good.", Message.system("Be good."), be_good]
    for prompt in prompts:
        await ReactAgent(model, output=Tide, output_mode="text", system_prompt=prompt).run("q")
    history = [Message.system("Mine."), Message.user("q")]
    model_with_history = ScriptedModel([GOOD])
    await ReactAgent(model_with_history, output=Tide, output_mode="text").run(history)

    for asked, first in zip([*model.calls, *model_with_history.calls], ["", *["Be good."] * 3, "Mine."], strict=True):
        assert asked[0].role == "system"
        assert asked[0].text.startswith(f"{first}\n\nGive the final answer" if first else "Give the final answer")
        assert '"metres"' in asked[0].text
        assert [m.role for m in asked] == ["system", "user"]
    assert history[0] == Message.system("Mine.")


async def test_the_tool_for_the_answer_stays_where_a_run_brings_other_tools() -> None:
    model = ScriptedModel([calls("look", '{"city": "Husum"}'), final(GOOD)])
    agent = ReactAgent(model, output=Tide)

    result = await agent.run("q", RunOptions(at={"tools": ToolsOptions(tools=[look])}))

    assert result.output.city == "Husum"
    assert [info.name for info in model.calls[0].tools] == ["look", "final_answer"]


async def test_what_cannot_work_is_refused_when_the_agent_is_made() -> None:
    @tool
    async def final_answer() -> str:
        return ""

    with pytest.raises(ToolDefinitionError, match="two tools are called 'final_answer'"):
        ReactAgent(ScriptedModel([]), tools=[final_answer], output=Tide)
    with pytest.raises(ValueError, match="output_mode"):
        ReactAgent(ScriptedModel([]), output=Tide, output_mode="guess")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="output_retries"):
        ReactAgent(ScriptedModel([]), output=Tide, output_retries=-1)
