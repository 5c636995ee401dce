"""Every example of README.md and docs/ runs, and every link between the pages leads somewhere.

Python blocks run from top to bottom; the blocks of a page share their names, and may ``await`` at the top. A function
``test_…`` of a page is called too. A Mermaid block follows ``<!-- draw_mermaid(app) -->`` and is what that draws at
this place of the page. In shell blocks the lines that call ``anabranch`` run. If such a line starts with ``$ ``, the
lines after it are the output expected on stdout (``...`` stands for anything). ``<!-- skip: next -->`` before a block
leaves it out.
"""

from __future__ import annotations

import ast
import doctest
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest
from sybil import Document, Example
from sybil.parsers.markdown import CodeBlockParser, SkipParser

from anabranch.compose import draw_mermaid

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELLS = ("console", "bash", "sh", "shell")
DRAWING = re.compile(r"<!-- (?P<code>draw_mermaid\(.*\)) -->\s*\Z")
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture
def page_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Give the module in which a page's examples run; classes that look for their module find it."""
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    return module


@pytest.fixture
def copy_of_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the examples run where they find the pages, and may leave files."""
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("copy_of_the_pages")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_examples_of_a_page_run(
    page: Path, page_module: ModuleType, run_code: Callable[[CodeType, dict[str, Any]], None]
) -> None:
    def run_python(example: Example) -> None:
        first_line = example.line + example.parsed.line_offset
        code = compile(
            "\n" * first_line + str(example.parsed),
            example.path,
            "exec",
            flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            dont_inherit=True,
        )
        run_code(code, vars(page_module))

    def check_picture(example: Example) -> None:
        drawing = DRAWING.search(example.document.text[: example.start])
        assert drawing, (
            f"{example.path}:{example.line}: say above the picture what draws it: <!-- draw_mermaid(app) -->"
        )
        drawn = eval(drawing["code"], {"draw_mermaid": draw_mermaid, **vars(page_module)})
        assert str(example.parsed) == drawn, f"{example.path}:{example.line}: the picture is now\n{drawn}"

    parsers = [CodeBlockParser(shell, run_shell) for shell in SHELLS]
    parsers += [CodeBlockParser("python", run_python), CodeBlockParser("mermaid", check_picture)]
    for example in Document.parse(str(page), *parsers, SkipParser()):
        example.evaluate()
    text = page.read_text(encoding="utf-8")
    for name, value in list(vars(page_module).items()):
        if name.startswith("test_") and f"\n{name}()" not in text:
            value()


def run_shell(example: Example) -> None:
    """Run the ``anabranch`` commands of a shell block."""
    for command, expected in commands(str(example.parsed)):
        program, *arguments = shlex.split(command)
        path = Path(sys.executable).with_name(program)
        done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
        where = f"{example.path}:{example.line}: {command}"
        assert done.returncode == 0, f"{where}\n{done.stdout}{done.stderr}"
        if expected is not None:
            options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            same = doctest.OutputChecker().check_output(expected, done.stdout, options)
            assert same, f"{where}\nexpected:\n{expected}\ngot:\n{done.stdout}"


def commands(block: str) -> Iterator[tuple[str, str | None]]:
    """Give each call of ``anabranch`` and the output that the page shows for it, None where it shows none."""
    session = re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)
    if len(session) == 1:
        yield from ((line, None) for line in session[0].splitlines() if line.startswith("anabranch "))
    for part in session[1:]:
        command, _, output = part.partition("\n")
        if command.startswith("anabranch "):
            yield command, output if output.strip() else None


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)  # code has brackets of its own
    targets = [match["target"].partition("#")[0] for match in LINK.finditer(text)]
    local = [target for target in targets if target and "://" not in target and not target.startswith("mailto:")]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_commands_of_a_shell_block_and_their_output_are_told_apart() -> None:
    block = "$ anabranch draw a.py:g\ngraph TD\n  a --> b\n$ ls\nx\n$ anabranch --help\n"
    assert list(commands(block)) == [
        ("anabranch draw a.py:g", "graph TD\n  a --> b\n"),
        ("anabranch --help", None),
    ]
    assert list(commands("pip install anabranch\nanabranch ask 'x' \\\n  --trace\n")) == [
        ("anabranch ask 'x'    --trace", None)
    ]
