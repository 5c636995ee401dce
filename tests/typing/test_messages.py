"""What type checkers say of the lines in this folder that must be refused.

Such a line silences the error; above it stand the words of mypy (``# M:``) and of pyright (``# P:``). Here the lines
are checked without their silencers.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SILENCER = re.compile(r"  # type: ignore\[[\w-]+\]$")
EXPECTED = re.compile(r"^ *# ([MP]): (.*)$")
FILES = sorted(
    path for path in HERE.glob("*.py") if re.search("^ *# M: ", path.read_text(encoding="utf-8"), re.MULTILINE)
)

Messages = Mapping[int, str]


def refused(path: Path) -> dict[str, Messages]:
    """Give what each checker is expected to say, by line."""
    found: dict[str, dict[int, str]] = {"M": {}, "P": {}}
    above: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := EXPECTED.match(line):
            above[match[1]] = match[2]
        elif SILENCER.search(line):
            assert set(above) == {"M", "P"}, f"{path.name}:{number}: what do the checkers say?"
            for checker, text in above.items():
                found[checker][number] = text
            above = {}
    return dict(found)


def mypy(path: Path) -> Messages:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(ROOT / "pyproject.toml"),
        "--no-error-summary",
        str(path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said: defaultdict[int, str] = defaultdict(str)
    for line in done.stdout.splitlines():
        if match := re.match(r".*?:(\d+): error: (.*)", line):
            said[int(match[1])] += match[2] + "\n"
    return said


def pyright(path: Path) -> Messages:
    program = str(Path(sys.executable).with_name("pyright"))
    command = [program, "--outputjson", "--pythonpath", sys.executable, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said: defaultdict[int, str] = defaultdict(str)
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        said[one["range"]["start"]["line"] + 1] += one["message"] + "\n"
    return said


def differences(expected: Messages, said: Messages) -> list[str]:
    """Give the lines of which something else is said than expected."""
    wrong = [f"{number}: not expected: {text}" for number, text in said.items() if number not in expected]
    for number, text in expected.items():
        pattern = ".*".join(map(re.escape, text.split("…")))
        if not re.search(pattern, re.sub(r"\s+", " ", said.get(number, ""))):
            wrong.append(f"{number}: expected: {text}\n  got: {said.get(number, 'nothing')}")
    return wrong


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_line_that_is_refused_is_refused_in_these_words(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    lines = path.read_text(encoding="utf-8").splitlines()
    copy.write_text("\n".join(SILENCER.sub("", line) for line in lines) + "\n", encoding="utf-8")
    expected = refused(path)
    wrong = [*differences(expected["M"], mypy(copy)), *differences(expected["P"], pyright(copy))]
    assert not wrong, "\n".join(wrong)
