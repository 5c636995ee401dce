"""The README's first command works in a fresh checkout."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
