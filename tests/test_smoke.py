"""The short round through every package. It also runs against the built wheel."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import anabranch

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize("name", ["anabranch.schema", "anabranch.compose", "anabranch.flow"])
def test_each_package_gives_what_it_exports(name: str) -> None:
    package = importlib.import_module(name)
    assert package.__all__
    for exported in package.__all__:
        assert getattr(package, exported) is not None


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(anabranch.__file__).parent / "py.typed").is_file()


def test_the_version_is_that_of_the_distribution() -> None:
    assert anabranch.__version__ == importlib.metadata.version("anabranch")


def test_the_command_answers_with_what_the_calculator_says() -> None:
    program = Path(sys.executable).with_name("anabranch")
    command = [str(program), "ask", "What is (312 * 46) + 2280?"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "16632" in done.stdout
