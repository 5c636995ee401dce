"""`anabranch ask --trace` on a terminal, which is a real one for the program."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")


def test_the_steps_are_a_tree_on_the_terminal_and_the_answer_is_apart(tmp_path: Path) -> None:
    ours, its = pty.openpty()
    program = Path(sys.executable).with_name("anabranch")
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "NO_COLOR": "1"}
    command = [str(program), "ask", "What is 2+3?", "--trace", "--folder", str(tmp_path)]
    process = subprocess.Popen(command, stdin=its, stdout=subprocess.PIPE, stderr=its, env=environment)
    os.close(its)
    shown = b""
    while True:
        try:
            found = os.read(ours, 65_536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not found:
            break
        shown += found
    os.close(ours)
    assert process.stdout is not None
    assert (process.stdout.read(), process.wait(10)) == (b"2+3 = 5\n", 0)
    process.stdout.close()
    left = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode().rpartition("\x1b[?25h")[2])
    assert "├─ ✓ chat" in left
    assert '(expression="2+3") -> 5' in left
    assert "tokens" in left
