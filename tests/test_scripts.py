"""The README's first command works in a fresh checkout; what the scripts start for tests does not stay."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from peers import PeerError, running

ROOT = Path(__file__).resolve().parent.parent
LEFT_BY_TOOLS = shutil.ignore_patterns(
    "__pycache__", ".git", ".venv*", "*.db*", "*.egg-info", ".*_cache", ".hypothesis", "build", "dist", "node_modules"
)


@pytest.mark.skipif(
    importlib.util.find_spec("check_wheel_contents") is None, reason="once, in the main development environment"
)
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_first_command_sets_up_and_shows_an_agent_and_a_graph(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT, checkout, symlinks=True, ignore=LEFT_BY_TOOLS)
    clean = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    command = [sys.executable, "scripts/demo.py"]
    done = subprocess.run(command, cwd=checkout, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "16632" in done.stdout
    assert done.stdout.count("$ anabranch") == 3


LISTEN = """
import os, socket, time
with socket.create_server(("127.0.0.1", int(os.environ["PORT"]))):
    time.sleep(100)
"""

OWNER = f"""
import sys, time
from pathlib import Path
from peers import running

with running(lambda port: [sys.executable, "-c", {LISTEN!r}], Path(sys.argv[1])) as server:
    print(server.port, flush=True)
    time.sleep(100)
"""


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_a_server_is_stopped_and_started_again_and_ends_with_its_block(tmp_path: Path) -> None:
    with running(lambda _: [sys.executable, "-c", LISTEN], tmp_path) as server:
        assert listens(server.port)
        server.stop()
        assert not listens(server.port)
        server.start()
        assert listens(server.port)
    assert not listens(server.port)


def test_a_server_does_not_outlive_an_owner_that_is_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    command = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        port = int(owner.stdout.readline())
        assert listens(port)
        owner.send_signal(signal.SIGKILL)
    latest = time.monotonic() + 10
    while listens(port):
        assert time.monotonic() < latest
        time.sleep(0.01)


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    program = "raise SystemExit('no licence found')"
    with (
        pytest.raises(PeerError, match="no licence found"),
        running(lambda _: [sys.executable, "-c", program], tmp_path),
    ):
        pass
