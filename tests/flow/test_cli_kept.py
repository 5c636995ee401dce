"""The command line with a store: runs that stop for an answer and go on in another process, and conversations."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from anabranch.compose import Approval, Breakpoint, Interrupt, Interrupted, SqliteStore
from anabranch.compose.testing import ScriptedModel
from anabranch.flow.cli import main
from anabranch.flow.react import ReactAgent
from anabranch.flow.tools import Decision, ask_input
from anabranch.schema import Message, ToolCall

pytest.importorskip("cyclopts")

Run = tuple[int, str, str]
SUM = "What is 6 * 7?"
STORE = ("--store", "runs.db")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "locks.md").write_text("# Locks\n\nA lock is a chamber that lifts boats.\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], folder: Path) -> Callable[..., Run]:
    """Run the command line in this process: exit status, stdout, stderr."""

    def run(*arguments: str) -> Run:
        capsys.readouterr()
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def start(*arguments: str, **streams: Any) -> subprocess.Popen[str]:
    """Start the command line in a process of its own."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    given: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [sys.executable, "-m", "anabranch.flow.cli", *arguments],
        env={**os.environ, "PYTHONPATH": path},
        text=True,
        **{**given, **streams},
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = process.communicate(timeout=60)
    return process.returncode, out


# --- pausing and going on --------------------------------------------------------------------------------------------


def test_a_run_stops_for_an_approval_and_goes_on_in_another_process(call: Callable[..., Run]) -> None:
    asked = start("ask", SUM, "--confirm", "calculator", *STORE, "--run", "r1")
    status, out = finish(asked)
    assert status == 3
    assert out.splitlines() == [
        "run 'r1' waits for an answer",
        "  tools/call 0/0",
        '    call the tool \'calculator\' with {"expression":"6 * 7"}',
        "go on with: anabranch resume r1 --store runs.db --answer yes",
    ]
    assert finish(start("resume", "r1", *STORE, "--answer", "yes")) == (0, "6 * 7 = 42\n")
    assert call("resume", "r1", *STORE, "--answer", "yes")[:2] == (2, "")


@pytest.mark.parametrize("way", [[], ["--no-stream"], ["--trace"]])
def test_it_stops_and_goes_on_however_the_answer_is_printed(call: Callable[..., Run], way: list[str]) -> None:
    status, out, _ = call("ask", SUM, "--confirm", "all", *STORE, "--run", "r1", *way)
    assert (status, out.splitlines()[1]) == (3, "  tools/call 0/0")
    status, out, err = call("resume", "r1", *STORE, "--answer", "no", *way)
    assert status == 0
    assert "42" not in out
    if way == ["--trace"]:
        assert "did not allow" in err


def test_the_settings_of_the_run_are_those_of_its_beginning(call: Callable[..., Run], folder: Path) -> None:
    call("ask", "What is a lock?", "--folder", "docs", "--confirm", "search_files", *STORE, "--run", "r1")
    os.chdir(folder / "docs")
    assert call("resume", "r1", "--store", "../runs.db", "--answer", "y")[:2] == (
        0,
        "locks.md:1-3 says:\n\n> # Locks\n>\n> A lock is a chamber that lifts boats.\n",
    )


def test_a_person_may_change_the_arguments(call: Callable[..., Run]) -> None:
    call("ask", SUM, "--confirm", "calculator", *STORE, "--run", "r1")
    decision = json.dumps({"approved": True, "arguments": {"expression": "6 * 8"}})
    status, out, _ = call("resume", "r1", *STORE, "--answer", f"tools/call 0/0={decision}")
    assert status == 0
    assert "48" in out


def test_without_an_answer_it_says_again_what_is_waited_for(call: Callable[..., Run]) -> None:
    call("ask", SUM, "--confirm", "calculator", *STORE, "--run", "r1")
    status, out, _ = call("resume", "r1", *STORE)
    assert status == 3
    assert "tools/call 0/0" in out
    assert call("resume", "r1", *STORE, "--answer", "yes")[:2] == (0, "6 * 7 = 42\n")


def test_a_conversation_is_remembered_and_waits(call: Callable[..., Run]) -> None:
    assert call("ask", SUM, *STORE, "--thread", "c1")[0] == 0
    call("ask", "What is 6 * 8?", *STORE, "--thread", "c1", "--run", "r2", "--confirm", "all")
    status, _, err = call("ask", "What is 6 * 9?", *STORE, "--thread", "c1")
    assert status == 1
    assert "waits for answers to 'tools/call 0/0'" in err
    status, out, _ = call("ask", "What is 6 * 9?", *STORE, "--thread", "c1", "--waiting", "queue")
    assert status == 3
    assert "anabranch resume r2" in out
    status, out, _ = call("resume", "r2", *STORE, "--answer", "yes")  # with its settings, also for what waited
    assert status == 3
    assert '"6 * 9"' in out
    following = out.split("'")[1]
    assert call("resume", following, *STORE, "--answer", "yes")[:2] == (0, "6 * 9 = 54\n")

    async def history() -> list[Message]:
        async with SqliteStore("runs.db") as store:
            return await ReactAgent(ScriptedModel([]), store=store).thread("c1")

    said = [message.text for message in anyio.run(history) if message.role in {"user", "assistant"} and message.text]
    assert [text for text in said if "=" in text] == ["6 * 7 = 42", "6 * 8 = 48", "6 * 9 = 54"]


def test_runs_are_listed(call: Callable[..., Run]) -> None:
    call("ask", SUM, *STORE, "--run", "r1")
    call("ask", SUM, *STORE, "--run", "r2", "--thread", "c1", "--confirm", "all")
    status, out, _ = call("runs", *STORE)
    lines = [line.split("  ") for line in out.splitlines()]
    assert status == 0
    assert [line[:2] for line in lines] == [["r1", "done"], ["r2", "paused"]]
    assert lines[1][3:] == ["thread c1", "waits for tools/call 0/0"]
    listed = json.loads(call("runs", *STORE, "--json", "--thread", "c1")[1])
    assert [(run["id"], run["status"], run["thread"]) for run in listed] == [("r2", "paused", "c1")]
    assert [one["id"] for one in listed[0]["interrupts"]] == ["tools/call 0/0"]


MISUSED: list[tuple[list[str], str]] = [
    (["ask", SUM, "--run", "r1"], "--run needs a store"),
    (["ask", SUM, "--thread", "c1"], "--thread needs a store"),
    (["ask", SUM, "--confirm", "all"], "--confirm needs somebody to ask"),
    (["ask", SUM, "--confirm", "calcluator", *STORE], "there is no tool 'calcluator'"),
    (["ask", SUM, "--store", "nowhere/runs.db"], "--store: there is no folder"),
    (["ask", SUM, *STORE, "--run", ""], "--run: a name has"),
    (["resume", "r1", *STORE], "--store: there is no file 'runs.db'"),
    (["runs", *STORE], "--store: there is no file 'runs.db'"),
    (["resume", "r1"], "--store"),
]


@pytest.mark.parametrize(("arguments", "message"), MISUSED, ids=[" ".join(given) for given, _ in MISUSED])
def test_wrong_use_is_one_line_and_status_2(call: Callable[..., Run], arguments: list[str], message: str) -> None:
    status, out, err = call(*arguments)
    assert message in err
    assert (status, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none", "--answer", "yes"], "there is no such run"),
        (["r1", "--answer", "perhaps"], "the answer to 'tools/call 0/0' is bool | Decision, not 'perhaps'"),
        (["r1", "--answer", "yes", "--answer", "no"], "is answered twice"),
        (["other", "--answer", "yes"], "was not begun by `anabranch ask`"),
    ],
)
def test_what_does_not_fit_a_run_is_status_2_and_nothing_runs(
    call: Callable[..., Run], arguments: list[str], message: str
) -> None:
    async def begin_another() -> None:
        async with SqliteStore("runs.db") as store:
            asks = Message.assistant(tool_calls=[ToolCall(id="c1", name="ask_input", arguments='{"question": "?"}')])
            agent = ReactAgent(ScriptedModel([asks]), tools=[ask_input], store=store)
            await agent.start("q", run="other")

    anyio.run(begin_another)
    call("ask", SUM, "--confirm", "calculator", *STORE, "--run", "r1")
    status, out, err = call("resume", *arguments, *STORE)
    assert message in err
    assert (status, out) == (2, "")
    assert call("resume", "r1", *STORE, "--answer", "yes")[:2] == (0, "6 * 7 = 42\n")


# --- a terminal ------------------------------------------------------------------------------------------------------


class Terminal:
    """A pseudo-terminal at which somebody types."""

    def __init__(self, *arguments: str) -> None:
        self._mine, theirs = pty.openpty()
        self.process = start(*arguments, stdin=theirs, stderr=theirs)
        os.close(theirs)

    def wait_for(self, text: str) -> str:
        """Read what is shown until a text has come."""
        shown = ""
        while text not in shown:
            try:
                shown += os.read(self._mine, 1024).decode()
            except OSError:  # it has ended
                break
        return shown

    def type(self, text: str) -> None:
        os.write(self._mine, text.encode())

    def end(self) -> tuple[int, str]:
        try:
            return finish(self.process)
        finally:
            os.close(self._mine)


@pytest.mark.usefixtures("folder")
def test_somebody_at_a_terminal_is_asked_on_the_spot() -> None:
    terminal = Terminal("ask", SUM, "--confirm", "calculator")
    assert 'calculator\' with {"expression":"6 * 7"}' in terminal.wait_for("yes/no: ")
    terminal.type("perhaps\n")
    assert "not 'perhaps'" in terminal.wait_for("yes/no: ")
    terminal.type("yes\n")
    assert terminal.end() == (0, "6 * 7 = 42\n")


@pytest.mark.parametrize("way", ["Ctrl-C", "Ctrl-D"])
def test_who_leaves_the_question_open_finds_it_again(call: Callable[..., Run], way: str) -> None:
    terminal = Terminal("ask", SUM, "--confirm", "calculator", *STORE, "--run", "r1")
    terminal.wait_for("yes/no: ")
    if way == "Ctrl-C":
        terminal.process.send_signal(signal.SIGINT)
    else:
        terminal.type("\x04")
    assert terminal.end() == (130, "")
    assert call("resume", "r1", *STORE)[:1] == (3,)
    assert call("resume", "r1", *STORE, "--answer", "yes")[:2] == (0, "6 * 7 = 42\n")


# --- questions and answers -------------------------------------------------------------------------------------------


class Trip(BaseModel):
    days: int


def question(wanted: Any, payload: Any = "?", id: str = "a/0") -> Interrupt:
    return Interrupt(id, tuple(id.split("/")), payload, wanted)


@pytest.mark.parametrize(
    ("text", "wanted", "value"),
    [
        ("yes", bool, True),
        ("N", bool, False),
        ("false", Any, False),
        ("yes", str, "yes"),
        ("7", int, 7),
        ("7", str, "7"),
        ("-1.5", float, -1.5),
        ("null", str | None, None),
        ("", str | None, ""),
        ("[1, 2]", list[int], [1, 2]),
        ('{"days": 3}', Trip, Trip(days=3)),
        ("yes", bool | Decision, True),
        ('{"approved": false, "reason": "no"}', bool | Decision, Decision(approved=False, reason="no")),
        ("plain words", Any, "plain words"),
    ],
)
def test_answers_are_read_as_what_is_asked_for(text: str, wanted: Any, value: Any) -> None:
    from anabranch.flow.cli._asked import read_answers

    read = read_answers([text], [question(wanted)], "r1")
    assert read == {"a/0": value}
    assert type(read["a/0"]) is type(value)


def test_several_answers_are_told_apart_by_their_ids() -> None:
    from anabranch.flow.cli._asked import command_to_go_on, read_answers
    from anabranch.flow.cli.errors import UsageError

    asked = [question(bool), question(str, id="a/0/1"), question(None, Breakpoint("b", "before"), "b/before")]
    assert read_answers(["a/0/1=x=y", "a/0=no"], asked, "r1") == {"a/0/1": "x=y", "a/0": False}
    with pytest.raises(UsageError, match="waits for 'a/0', 'a/0/1': give --answer ID=VALUE"):
        read_answers(["yes"], asked, "r1")
    command = "anabranch resume 'r 1' --store runs.db --answer a/0=yes --answer a/0/1=ANSWER"
    assert command_to_go_on("r 1", "runs.db", asked) == command


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ("which?", "which?"),
        (Approval(action="delete", target="a.txt", details="it is old"), "delete a.txt\nit is old"),
        ({"action": "call 'x'", "target": "x", "arguments": {"n": 1}}, "call 'x' with {\"n\":1}"),
        (Trip(days=2), '{"days":2}'),
        (Breakpoint("tools", "before"), "a pause before node 'tools'; it needs no answer"),
    ],
)
def test_questions_are_written_in_words(payload: Any, text: str) -> None:
    from anabranch.flow.cli._asked import described

    assert described(payload) == text


def test_an_interrupt_of_a_run_is_no_error_of_the_command_line() -> None:
    assert not issubclass(Interrupted, Exception)
