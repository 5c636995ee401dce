"""The examples of docs/models.md that need a provider, and the command line, against the mock."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

from anabranch.flow.cli import main

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
README_EXAMPLE = re.search(r"```python\n(from anabranch.flow import ReactAgent\n.*?)```", README, re.DOTALL)
README_LINES = re.findall(r"^\| .* \| `(\w+\(.*\),)` \| .* \|$", README, re.MULTILINE)
PAGE = Path(__file__).parents[3] / "docs" / "models.md"
NEEDS_A_PROVIDER = re.compile(r"<!-- skip: next -->\n+```python\n(.*?)```", re.DOTALL)
VARIABLES = [
    *("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_BASE_URL"),
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
]


@pytest.fixture
def environment(mock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the usual variables, so that they lead to the mock."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{mock.base_url}/v1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", mock.base_url)


@pytest.mark.usefixtures("environment")
def test_the_example_runs_with_every_provider(
    mock: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    run_code: Callable[[CodeType, dict[str, Any]], None],
) -> None:
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    exec("from anabranch.schema import Message", vars(module))
    examples = NEEDS_A_PROVIDER.findall(PAGE.read_text(encoding="utf-8"))
    for example in examples:
        source = example.replace("http://localhost:11434", mock.base_url)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        run_code(compile(source, str(PAGE), "exec", flags=flags, dont_inherit=True), vars(module))
    assert capsys.readouterr().out == "It is mild there.\n" * 3 + "One, two, and so on."
    asked = [entry["body"]["model"] for entry in mock.journal()][-7:]
    assert asked == ["gpt-5.2"] * 2 + ["claude-sonnet-5-5"] * 2 + ["qwen3"] * 2 + ["gpt-5.2"]


def test_only_one_line_differs_between_the_providers() -> None:
    agents = [example.split("async with ") for example in NEEDS_A_PROVIDER.findall(PAGE.read_text(encoding="utf-8"))][
        :3
    ]
    bodies = {body.partition("\n")[2] for _, body in agents}
    assert len(bodies) == 1


def test_the_readme_shows_one_line_for_each_provider() -> None:
    assert [line.partition("(")[0] for line in README_LINES] == ["OpenAIChat", "AnthropicChat", "OpenAIChat"]


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("line", README_LINES)
def test_the_example_of_the_readme_runs_with_another_model_by_changing_one_line(
    line: str, mock: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert README_EXAMPLE is not None
    example = README_EXAMPLE[1]
    assert example.count("    OfflineModel(),\n") == 1
    changed = example.replace("    OfflineModel(),\n", f"    {line.replace('http://localhost:11434', mock.base_url)}\n")
    changed = changed.replace("import OfflineModel", f"import {line.partition('(')[0]}")
    exec(compile(changed, "README.md", "exec", dont_inherit=True), {})
    assert capsys.readouterr().out == "It is 16632.\n"
    assert mock.journal()[-1]["body"]["model"] in line


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic"])
@pytest.mark.parametrize("how", ["--stream", "--no-stream", "--trace"])
def test_the_command_line_asks_a_provider(provider: str, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "say hello", "--model", f"{provider}:mock-model", how]) == 0
    out, err = capsys.readouterr()
    assert out == "Hello, and welcome to the river.\n"
    assert err == ""


@pytest.mark.usefixtures("environment")
def test_the_command_line_says_what_a_provider_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "too long", "--model", "openai:mock-model"]) == 1
    err = capsys.readouterr().err
    assert "maximum context length" in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("variable", ["OPENAI", "ANTHROPIC"])
def test_without_a_key_the_command_line_gives_a_hint_and_answers_offline(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("anabranch.flow.models._offline._Notice.said_on_stderr", False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    for name in ("API_KEY", "BASE_URL"):
        monkeypatch.delenv(f"{variable}_{name}")
    assert main(["ask", "What is 6 * 7?", "--model", f"{variable.lower()}:some-model"]) == 0
    out, err = capsys.readouterr()
    assert "42" in out
    hint, notice = err.splitlines()
    assert f"has no key: set {variable}_API_KEY" in hint
    assert notice.startswith("offline model: ")
