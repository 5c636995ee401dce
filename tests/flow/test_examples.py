from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from anabranch.compose import NodeError, draw_mermaid
from anabranch.flow.models import OfflineModel
from anabranch.flow.react import ReactAgent
from anabranch.flow.tools import calculator, current_time, file_tools
from anabranch.schema import NO_OPTIONS, Message, ModelOptions, ToolChoice, ToolInfo, concat

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

if not EXAMPLES.is_dir():
    pytest.skip("the examples are not here", allow_module_level=True)


def load(name: str) -> ModuleType:
    """Load an example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


text_report: Any = load("text_report")
react_by_hand: Any = load("react_by_hand")


class Listening:
    """A model that keeps what it was asked and what it answered."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.heard: list[list[Message]] = []
        self.said: list[Message] = []

    def with_tools(self, tools: Sequence[ToolInfo], choice: ToolChoice = "auto") -> Listening:
        self._model = self._model.with_tools(tools, choice)
        return self

    async def generate(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS) -> Message:
        self.heard.append(list(messages))
        self.said.append(await self._model.generate(messages, options))
        return self.said[-1]

    async def stream(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS) -> AsyncIterator[Message]:
        self.heard.append(list(messages))
        chunks: list[Message] = []
        async for chunk in self._model.stream(messages, options):
            chunks.append(chunk)
            yield chunk
        self.said.append(concat(chunks))


async def in_all_four_ways(app: Any, value: Any) -> list[Any]:
    """Run a graph in each paradigm and give the four results."""
    results = [await app.invoke(value)]
    async with app.stream(value) as reader:
        results.append(await reader.concat())
    results.append(await app.collect([value]))
    async with app.transform([value]) as reader:
        results.append(await reader.concat())
    return results


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.md"
    path.write_text("# Boats\n\nA boat floats. The red boat floats on the wide river!\n\n```\ncode is left out\n```\n")
    return str(path)


REPORT = """\
# Report on {path}

12 words in 3 sentences.

## Most frequent words

- boat: 2
- floats: 2
- boats: 1
- red: 1
- river: 1
- wide: 1

## Readability

Reading ease 104.1: easy.

## Longest sentences

1. The red boat floats on the wide river!
2. A boat floats.
3. # Boats
"""


@pytest.mark.anyio
async def test_the_report_is_the_same_in_all_four_ways(text: str) -> None:
    results = await in_all_four_ways(text_report.graph, text)
    assert results == [REPORT.format(path=text)] * 4


@pytest.mark.anyio
async def test_the_report_streams_section_by_section(text: str) -> None:
    async with text_report.graph.stream(text) as reader:
        chunks = [chunk async for chunk in reader]
    assert len(chunks) > 5
    assert chunks[0].startswith("# Report on ")


@pytest.mark.anyio
async def test_an_empty_text_has_a_report_too(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    assert "0 words in 0 sentences" in await text_report.graph.invoke(str(tmp_path / "empty.txt"))


@pytest.mark.anyio
async def test_a_missing_text_is_an_error_of_the_node_that_reads(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="read") as caught:
        await text_report.graph.invoke(str(tmp_path / "none.txt"))
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_the_report_fans_out_and_in() -> None:
    drawing = draw_mermaid(text_report.graph)
    for key in ["size", "frequent", "readability", "longest"]:
        assert key in drawing


QUESTIONS = [
    "What is (312 * 46) + 2280?",
    "What is 1/0, and 2+3?",
    "What is a lock?",
    "Who is xyzzy plugh?",
    "What time is it in Gotham City?",
]


@pytest.fixture
def tools(tmp_path: Path) -> list[Any]:
    (tmp_path / "locks.md").write_text("# Locks\n\nA lock is a chamber that lifts boats.\n")
    return [calculator, current_time, *file_tools(tmp_path)]


@pytest.mark.anyio
@pytest.mark.parametrize("question", QUESTIONS)
async def test_the_loop_by_hand_is_the_same_in_all_four_ways(tools: list[Any], question: str) -> None:
    app = react_by_hand.build(OfflineModel(notice=False), tools).compile()
    results = await in_all_four_ways(app, [Message.user(question)])
    assert results == [results[0]] * 4
    assert results[0].finish_reason == "stop"


@pytest.mark.anyio
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("streaming", [False, True])
async def test_the_loop_by_hand_and_the_agent_give_the_same_messages(
    tools: list[Any], question: str, streaming: bool
) -> None:
    by_hand, in_agent = Listening(OfflineModel(notice=False)), Listening(OfflineModel(notice=False))
    app = react_by_hand.build(by_hand, tools).compile()
    agent = ReactAgent(in_agent, tools=tools)
    if streaming:
        async with app.stream([Message.user(question)]) as reader:
            first = [chunk async for chunk in reader]
        async with agent.stream(question) as reader:
            second = [chunk async for chunk in reader]
    else:
        first = [await app.invoke([Message.user(question)])]
        second = [await agent.generate(question)]
    assert first == second
    assert by_hand.heard == in_agent.heard
    assert by_hand.said == in_agent.said


@pytest.mark.anyio
async def test_the_loop_by_hand_streams_its_answer(tools: list[Any]) -> None:
    app = react_by_hand.build(OfflineModel(notice=False), tools).compile()
    async with app.stream([Message.user("What is a lock?")]) as reader:
        chunks = [chunk async for chunk in reader]
    assert len([chunk for chunk in chunks if chunk.text]) > 3
    assert not any(chunk.tool_calls for chunk in chunks)


def test_the_loop_by_hand_is_about_fifty_lines() -> None:
    source = (EXAMPLES / "react_by_hand.py").read_text()
    code = [line for line in source.splitlines() if line.strip() and not line.strip().startswith(('"""', "#"))]
    assert len(code) <= 60


def run_script(name: str, *arguments: str) -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_the_report_runs_as_a_script(text: str) -> None:
    assert run_script("text_report", text) == (0, REPORT.format(path=text), "")


def test_the_loop_by_hand_runs_as_a_script() -> None:
    status, out, err = run_script("react_by_hand", "What is 6 * 7?")
    assert (status, out) == (0, "6 * 7 = 42\n")
    assert err.startswith("offline model: ")


# --- edit_files ------------------------------------------------------------------------------------------------------


def start_editing(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, str(EXAMPLES / "edit_files.py"), str(folder), "lock", "sluice lock", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("edits", [1, 7])
def test_an_agent_that_edits_files_is_killed_and_goes_on(tmp_path: Path, edits: int) -> None:
    for number in range(12):
        (tmp_path / f"{number:02}.md").write_text(f"# Page {number}\n\nA lock is a lock.\n")
    (tmp_path / "other.md").write_text("nothing here\n")

    asking = start_editing(tmp_path)
    out, _ = asking.communicate(timeout=60)
    assert asking.returncode == 3
    assert out.count("call the tool 'replace_text'") == 12
    assert "sluice" not in (tmp_path / "00.md").read_text()

    editing = start_editing(tmp_path, "--answer", "yes")
    assert editing.stderr is not None
    for _ in range(edits):
        assert editing.stderr.readline().startswith("edited ")
    editing.kill()
    editing.communicate(timeout=60)

    going_on = start_editing(tmp_path)
    out, _ = going_on.communicate(timeout=60)
    assert (going_on.returncode, out) == (0, "I have changed 12 of 12 files.\n")
    for number in range(12):
        expected = f"# Page {number}\n\nA sluice lock is a sluice lock.\n"
        assert (tmp_path / f"{number:02}.md").read_text() == expected
    assert (tmp_path / "other.md").read_text() == "nothing here\n"


def test_edits_that_are_not_allowed_are_not_made(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("A lock.\n")
    asking = start_editing(tmp_path)
    asking.communicate(timeout=60)
    assert asking.returncode == 3
    refusing = start_editing(tmp_path, "--answer", "no")
    out, _ = refusing.communicate(timeout=60)
    assert (refusing.returncode, out) == (0, "I have changed 0 of 1 files.\n")
    assert (tmp_path / "a.md").read_text() == "A lock.\n"
