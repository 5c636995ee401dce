from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.flow.cli import main

pytest.importorskip("cyclopts")

GRAPHS = """
from __future__ import annotations
import sys
from collections.abc import AsyncIterator
from typing import Any, Literal
import anyio
from pydantic import BaseModel
from anabranch.compose import END, START, Graph
from anabranch.schema import Message


class Point(BaseModel):
    x: int
    y: int = 0


def line(function, *, of=Graph[Any, Any]):
    graph = of()
    graph.add_edge(START, graph.add_node("work", function))
    graph.add_edge("work", END)
    return graph


def shout(text: str) -> str:
    return text.upper()


def double(numbers: list[int]) -> list[int]:
    return [2 * number for number in numbers]


def move(point: Point) -> Point:
    return Point(x=point.x + 1, y=point.y)


def answer(text: str) -> Message:
    return Message.assistant(text)


async def spell(text: str) -> AsyncIterator[str]:
    for letter in text:
        yield letter + "\\n"


async def count(limit: int) -> AsyncIterator[list[int]]:
    for number in range(limit):
        yield [number]


async def forever(text: str) -> AsyncIterator[str]:
    while True:
        yield text + "\\n"
        await anyio.sleep(0)


def fail(text: str) -> str:
    raise ValueError("the moon is down")


async def wait(text: str) -> str:
    sys.stderr.write("ready\\n")
    sys.stderr.flush()
    try:
        await anyio.sleep_forever()
    finally:
        sys.stderr.write("closed\\n")
    return text


shouting = line(shout, of=Graph[str, str])
compiled = shouting.compile()
doubling = line(double, of=Graph[list[int], list[int]])
moving = line(move, of=Graph[Point, Point])
answering = line(answer, of=Graph[str, Message])
spelling = line(spell, of=Graph[str, str])
counting = line(count, of=Graph[int, list[int]])
endless = line(forever, of=Graph[str, str])
failing = line(fail, of=Graph[str, str])
waiting = line(wait, of=Graph[str, str])
anything = line(lambda value: value)
choosing = line(lambda value: value, of=Graph[Literal["a", "b"], Any])
either = line(lambda value: value, of=Graph[int | str, Any])
broken = Graph[str, str]()
number = 7


class holder:
    graph = shouting


def make():
    return line(shout, of=Graph[str, str])


def make_with(text):
    return text
"""


@pytest.fixture
def graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a file of graphs, as the current one; what it puts on the path is taken off again."""
    (tmp_path / "graphs.py").write_text(GRAPHS)
    (tmp_path / "syntax.py").write_text("x = = 1\n")
    (tmp_path / "raising.py").write_text("raise RuntimeError('not today')\n")
    (tmp_path / "importing.py").write_text("import anabranch_no_such_thing\n")
    (tmp_path / "empty.py").touch()
    (tmp_path / "input.txt").write_text("from a file\n")
    (tmp_path / "numbers.json").write_text("[1, 2]")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name in {"graphs", "syntax", "raising", "importing"} or name.startswith("_anabranch_target_"):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the offline model say its line in each test anew."""
    monkeypatch.setattr("anabranch.flow.models._offline._Notice.said_on_stderr", False)


Run = tuple[int, str, str]


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> Run:
    """Run the command line in this process: exit status, stdout, stderr."""
    capsys.readouterr()
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start the command line in a process of its own."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [sys.executable, "-m", "anabranch.flow.cli", *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> Run:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


# --- in general -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_names_the_commands(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    status, out, err = call(capsys, *arguments)
    assert status == 0
    assert all(word in out for word in ["ask", "run", "draw", "--version"])
    assert err == ""


@pytest.mark.parametrize("command", ["ask", "run", "draw"])
def test_each_command_explains_its_options(capsys: pytest.CaptureFixture[str], command: str) -> None:
    status, out, _ = call(capsys, command, "--help")
    assert status == 0
    assert "--debug" in out


def test_it_tells_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    from anabranch import __version__

    assert call(capsys, "--version") == (0, f"anabranch {__version__}\n", "")


def test_help_does_not_load_what_the_commands_need() -> None:
    code = (
        "import sys; from anabranch.flow.cli import main; main(['--help']);"
        "sys.exit(any(name in sys.modules for name in ['anabranch.flow.tools', 'anabranch.flow.models']))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.parametrize("missing", ["cyclopts", "rich"])
def test_without_the_extra_it_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    status, out, err = call(capsys, "ask", "hello")
    assert (status, out) == (2, "")
    assert err == 'anabranch: the command line needs an extra; run: pip install "anabranch[cli]"\n'


MISUSED: list[tuple[list[str], str]] = [
    (["aks", "x"], 'Did you mean "ask"?'),
    (["--bogus"], "--bogus"),
    (["ask"], "QUESTION requires an argument"),
    (["ask", "x", "--fodler", "y"], "Did you mean --folder?"),
    (["ask", "two", "words"], "Put a text with spaces into quotes"),
    (["ask", "x", "--stream=perhaps"], "perhaps"),
    (["ask", ""], "the question is empty"),
    (["ask", "x", "--folder", "nowhere"], "--folder: 'nowhere' is not a folder"),
    (["ask", "x", "--model", "ofline"], "there is no model 'ofline'; did you mean 'offline'?"),
    (["ask", "x", "--model", "gpt"], "there is: 'offline'"),
    (["run"], "TARGET requires an argument"),
    (["run", "graphs.py"], "'graphs.py' is no target: give FILE_OR_MODULE:GRAPH"),
    (["run", ":x"], "is no target"),
    (["run", "graphs.py:"], "is no target"),
    (["run", "nowhere.py:graph"], "the file 'nowhere.py' does not exist"),
    (["run", "./:graph"], "is a folder"),
    (["run", "nowhere:graph"], "there is no module 'nowhere'"),
    (["run", "grafs.sub:graph"], "there is no module 'grafs.sub'"),
    (["run", "input.txt:graph"], "'input.txt' is no Python file"),
    (["run", "syntax.py:graph"], "'syntax.py' is no valid Python, line 1"),
    (["run", "syntax:graph"], "'syntax' is no valid Python, line 1"),
    (["run", "raising.py:graph"], "'raising.py' cannot be loaded: RuntimeError: not today"),
    (["run", "importing.py:graph"], "No module named 'anabranch_no_such_thing'"),
    (["run", "importing:graph"], "No module named 'anabranch_no_such_thing'"),
    (["run", "empty.py:graph"], "there is no 'graph' in 'empty.py'; it has no graph"),
    (["run", "graphs.py:shoutin"], "did you mean 'shouting'"),
    (["run", "graphs.py:zzz"], "its graphs: "),
    (["run", "graphs.py:holder.grap"], "there is no 'holder.grap'"),
    (["run", "graphs.py:number"], "'number' is an int, not a graph"),
    (["run", "graphs.py:make_with"], "cannot be called without arguments"),
    (["run", "graphs.py:shouting"], "the graph takes str: give it with --input"),
    (["run", "graphs.py:shouting", "--input"], "--input requires an argument"),
    (["run", "graphs.py:shouting", "--input", "@nowhere"], "cannot read 'nowhere'"),
    (["run", "graphs.py:shouting", "--input", "@latin.txt"], "is not text in UTF-8"),
    (["run", "graphs.py:doubling", "--input", '{"a": 1}'], "expected list[int], got an object"),
    (["run", "graphs.py:doubling", "--input", "[1, 2"], "expected list[int], got text '[1, 2'"),
    (["run", "graphs.py:doubling", "--input", '[1, "2"]'], "got a list '[1, \"2\"]' (1: Input should be a valid int"),
    (["run", "graphs.py:doubling", "--input", "null"], "got null"),
    (
        ["run", "graphs.py:moving", "--input", '{"y": 1}'],
        "expected Point, got an object '{\"y\": 1}' (x: Field required)",
    ),
    (["run", "graphs.py:choosing", "--input", "c"], "expected Literal['a', 'b'], got text 'c'"),
    (["run", "graphs.py:counting", "--input", "true"], "expected int, got a boolean 'true'"),
    (["draw", "graphs.py:zzz"], "there is no 'zzz'"),
    (["draw", "graphs.py:shouting", "--input", "x"], "--input"),
]


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize(("arguments", "message"), MISUSED, ids=[" ".join(given) for given, _ in MISUSED])
def test_wrong_use_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    status, out, err = call(capsys, *arguments)
    assert message in err
    assert err.startswith("anabranch: ")
    assert err.count("\n") == 1
    assert (status, out) == (2, "")


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize(
    "arguments",
    [["run", "graphs.py:zzz"], ["run", "graphs.py:failing", "--input", "x"], ["ask", "x", "--folder", "nowhere"]],
    ids=" ".join,
)
def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    plain = call(capsys, *arguments)
    assert "Traceback" not in plain[2]
    status, out, err = call(capsys, *arguments, "--debug")
    assert (status, out) == plain[:2]
    assert "Traceback" in err
    assert err.endswith(plain[2])


# --- ask ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--stream"], ["--no-stream"]])
def test_ask_prints_the_answer(capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    status, out, err = call(capsys, "ask", "What is (312 * 46) + 2280?", *options)
    assert (status, out) == (0, "(312 * 46) + 2280 = 16632\n")
    assert err.startswith("offline model: ")
    assert err.count("\n") == 1


def test_ask_answers_from_the_files_of_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "locks.md").write_text("# Locks\n\nA lock is a chamber that lifts boats.\n")
    status, out, _ = call(capsys, "ask", "What is a lock?", "--folder", str(tmp_path))
    assert (status, out) == (0, "locks.md:1-3 says:\n\n> # Locks\n>\n> A lock is a chamber that lifts boats.\n")


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_trace_shows_the_steps_on_stderr_as_plain_lines(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, stream: str
) -> None:
    (tmp_path / "locks.md").write_text("A lock lifts boats.\n" + "It has gates.\n" * 20)
    status, out, err = call(capsys, "ask", "What is a lock?", "--folder", str(tmp_path), "--trace", stream)
    assert status == 0
    assert out.startswith("locks.md:1-")
    assert err.split("\n")[1:8] == [
        "thought: I search for 'lock'.",
        'action: search_files(query="lock")',
        "observation (search_files): locks.md:1: A lock lifts boats.",
        "  (searched 1 text file)",
        "thought: I read locks.md around line 1.",
        'action: read_file(path="locks.md", start_line=1, end_line=61)',
        "observation (read_file): locks.md, lines 1-21 of 21",
    ]
    assert err.endswith("\n  … 10 more lines\n")


def test_trace_shows_failed_tools(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, "ask", "What is 1/0?", "--trace")
    assert status == 0
    assert out.startswith("I could not calculate 1/0.")
    assert "\nfailed (calculator): " in err


def test_trace_is_coloured_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    _, out, err = call(capsys, "ask", "What is [2] + 3?", "--trace")
    assert "\x1b[" in err
    assert "\x1b[" not in out


# --- run ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize(
    ("target", "given", "printed"),
    [
        ("graphs.py:shouting", "tides", "TIDES\n"),
        ("graphs:shouting", "tides", "TIDES\n"),
        ("graphs.py:compiled", '"tides"', '"TIDES"\n'),
        ("graphs.py:make", "tides", "TIDES\n"),
        ("graphs.py:holder.graph", "tides", "TIDES\n"),
        ("graphs.py:shouting", "@input.txt", "FROM A FILE\n"),
        ("graphs.py:shouting", "- a list", "- A LIST\n"),
        ("graphs.py:shouting", "--no", "--NO\n"),
        ("graphs.py:shouting", "", "\n"),
        ("graphs.py:doubling", "@numbers.json", "[\n  2,\n  4\n]\n"),
        ("graphs.py:moving", '{"x": 1}', '{\n  "x": 2,\n  "y": 0\n}\n'),
        ("graphs.py:choosing", "a", "a\n"),
        ("graphs.py:choosing", '"b"', "b\n"),
        ("graphs.py:either", "12", "12\n"),
        ("graphs.py:either", "twelve", "twelve\n"),
        ("graphs.py:anything", "null", "null\n"),
        ("graphs.py:anything", "caf\u00e9", "caf\u00e9\n"),
        ("graphs.py:anything", "[1, {}]", "[\n  1,\n  {}\n]\n"),
        ("graphs.py:spelling", "abc", "a\nb\nc\n"),
    ],
)
def test_run_prints_text_as_it_is_and_the_rest_as_json(
    capsys: pytest.CaptureFixture[str], target: str, given: str, printed: str
) -> None:
    assert call(capsys, "run", target, "--input", given) == (0, printed, "")


@pytest.mark.usefixtures("graphs")
def test_run_prints_a_message_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "run", "graphs.py:answering", "--input", "hello")
    assert status == 0
    assert json.loads(out)["content"] == "hello"


@pytest.mark.usefixtures("graphs")
def test_run_streams_text_as_it_is_and_other_chunks_as_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "run", "graphs.py:spelling", "--input", "ab", "--stream") == (0, "a\nb\n", "")
    assert call(capsys, "run", "graphs.py:counting", "--input", "2", "--stream") == (0, "[0]\n[1]\n", "")
    assert call(capsys, "run", "graphs.py:shouting", "--input", "ab", "--stream") == (0, "AB\n", "")


@pytest.mark.usefixtures("graphs")
def test_run_reads_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("piped"))
    assert call(capsys, "run", "graphs.py:shouting", "--input", "@-") == (0, "PIPED\n", "")


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_a_failing_run_is_one_line_with_the_node_and_status_1(
    capsys: pytest.CaptureFixture[str], stream: list[str]
) -> None:
    status, out, err = call(capsys, "run", "graphs.py:failing", "--input", "x", *stream)
    assert status == 1
    assert out in {"", "\n"}
    assert "work" in err
    assert "the moon is down" in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize(
    "command", [["run", "graphs.py:broken", "--input", "x"], ["draw", "graphs.py:broken"]], ids=" ".join
)
def test_a_graph_that_does_not_compile_is_wrong_use(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    status, out, err = call(capsys, *command)
    assert (status, out) == (2, "")
    assert "cannot be compiled" in err
    assert "Traceback" not in err


@pytest.mark.usefixtures("graphs")
def test_draw_prints_mermaid(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, "draw", "graphs.py:shouting")
    assert (status, err) == (0, "")
    assert out.startswith(("flowchart", "graph", "---"))
    assert "work" in out


# --- in a process of its own ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("graphs")
@pytest.mark.parametrize("stream", [[], ["--stream"]])
def test_ctrl_c_cancels_closes_and_gives_status_130(stream: list[str]) -> None:
    process = start("run", "graphs.py:waiting", "--input", "x", *stream)
    assert process.stderr is not None
    assert process.stderr.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert finish(process) == (130, "", "closed\nanabranch: interrupted\n")


@pytest.mark.usefixtures("graphs")
def test_a_reader_that_stops_reading_ends_the_run_quietly() -> None:
    process = start("run", "graphs.py:endless", "--input", "again", "--stream")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "again\n"
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    with process.stderr as errors:
        assert errors.read() == ""


@pytest.mark.usefixtures("graphs")
def test_without_a_standard_output_it_still_runs() -> None:
    command = f"{sys.executable} -m anabranch.flow.cli run graphs.py:shouting --input x >&-"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("graphs")
def test_what_the_output_cannot_show_is_escaped() -> None:
    process = start("run", "graphs.py:anything", "--input", "caf\u00e9", PYTHONIOENCODING="ascii")
    assert finish(process)[:2] == (0, "caf\\xe9\n")


def test_a_piped_trace_has_no_colours(tmp_path: Path) -> None:
    status, out, err = finish(start("ask", "What is 2+3?", "--trace", "--folder", str(tmp_path)))
    assert (status, out) == (0, "2+3 = 5\n")
    assert err.split("\n")[1:] == [
        "thought: I calculate with calculator.",
        'action: calculator(expression="2+3")',
        "observation (calculator): 5",
        "",
    ]


@pytest.mark.usefixtures("graphs")
def test_what_is_printed_is_json_also_where_a_number_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys, "run", "graphs.py:anything", "--input", '{"a": [NaN, -Infinity, 1.5]}')
    assert (status, json.loads(out, parse_constant=pytest.fail)) == (0, {"a": ["NaN", "-Infinity", 1.5]})


@pytest.mark.usefixtures("graphs")
def test_an_error_of_several_lines_is_one_report(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = call(capsys, "run", "graphs.py:broken", "--input", "x")
    first, *rest = err.splitlines()
    assert (status, first.startswith("anabranch: ")) == (2, True)
    assert rest
    assert all(line.startswith("  ") for line in rest)
