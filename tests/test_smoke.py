"""The short round through every package. It also runs against the built wheel."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

import anyio
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


def test_a_graph_runs_in_all_four_ways() -> None:
    from anabranch.compose import END, START, Graph
    from anabranch.schema import StreamReader

    graph = Graph[str, str]()
    graph.add_node("shout", str.upper, input=str, output=str)
    graph.add_edge(START, "shout")
    graph.add_edge("shout", END)
    app = graph.compile()

    async def all_four() -> list[str]:
        async with app.stream("tides") as streamed, app.transform(StreamReader.of("ti", "des")) as transformed:
            values = [await streamed.concat(), await transformed.concat()]
        return [await app.invoke("tides"), *values, await app.collect(StreamReader.of("ti", "des"))]

    assert anyio.run(all_four) == ["TIDES"] * 4


def test_a_function_becomes_a_tool_that_is_described_by_its_docstring() -> None:
    from anabranch.schema import tool

    @tool
    def depth(place: str) -> int:
        """Look up how deep the water is.

        Args:
            place: The name of the place.
        """
        return len(place)

    assert depth.info.description == "Look up how deep the water is."
    assert depth.info.parameters["properties"]["place"]["description"] == "The name of the place."


def test_the_command_answers_with_what_the_calculator_says_or_names_its_extra() -> None:
    program = Path(sys.executable).with_name("anabranch")
    command = [str(program), "ask", "What is (312 * 46) + 2280?"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if importlib.util.find_spec("cyclopts") is None:
        assert 'pip install "anabranch[cli]"' in done.stderr
        assert done.stderr.count("\n") == 1
        assert done.returncode != 0
    else:
        assert done.returncode == 0, done.stderr
        assert "16632" in done.stdout
