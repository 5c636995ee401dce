"""`anabranch draw --output`: real pictures, drawn by Mermaid in an embedded engine."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from anabranch.flow.cli import main

pytest.importorskip("cyclopts")

GRAPH = """
from __future__ import annotations
from typing import Literal
from anabranch.compose import END, START, Graph


def shout(text: str) -> str:
    return text.upper()


def loud_enough(text: str) -> Literal["again", "end"]:
    return "end"


graph = Graph[str, str]()
graph.add_node("again", shout, name='shout "<loud>"')
graph.add_edge(START, "again")
graph.add_branch("again", loud_enough)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "drawn.py").write_text(GRAPH)
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMMANDS = """
from anabranch.flow.cli import main
statuses = [main(["draw", "drawn.py:graph", "--output", name]) for name in ("graph.svg", "graph.PNG")]
raise SystemExit(max(statuses))
"""


@pytest.mark.once
@pytest.mark.timeout(180)
def test_pictures_are_written_in_the_kind_that_the_file_name_says(folder: Path) -> None:
    # In a process of its own, since the engine keeps its threads until the process ends.
    done = subprocess.run([sys.executable, "-c", COMMANDS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    text = " ".join(ElementTree.fromstring((folder / "graph.svg").read_text("utf-8")).itertext())
    assert 'shout "<loud>"' in text
    assert "start" in text
    picture = (folder / "graph.PNG").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(picture) > 2_000


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("graph.jpg", "--output: 'graph.jpg' must end in .svg or .png"),
        ("graph", "--output: 'graph' must end in .svg or .png"),
        ("nowhere/graph.svg", "--output: there is no folder 'nowhere'"),
    ],
)
def test_a_file_that_cannot_be_written_is_said_before_anything_is_drawn(
    folder: Path, capsys: pytest.CaptureFixture[str], output: str, text: str
) -> None:
    assert main(["draw", "drawn.py:graph", "--output", output]) == 2
    assert text in capsys.readouterr().err


def test_without_the_extra_the_command_names_it(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mermaidx", None)
    assert main(["draw", "drawn.py:graph", "--output", "graph.svg"]) == 1
    assert 'pip install "anabranch[draw]"' in capsys.readouterr().err
    assert not (folder / "graph.svg").exists()


def test_what_a_module_prints_is_no_part_of_the_drawing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "talks.py").write_text(f"{GRAPH}\nprint('hello')\n")
    capsys.readouterr()
    assert main(["draw", "talks.py:graph"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "hello\n"
    assert captured.out.startswith("flowchart")
