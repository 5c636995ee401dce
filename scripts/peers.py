"""Install the npm packages that tests talk to: mocks and servers that others wrote. Needs the standard library only.

Each folder of tests that needs one names it, with its version, in a ``package.json``. It is installed once per machine,
below the user's cache.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 150  # that one attempt may take
ATTEMPTS = 3
INSTALL = ["install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]


class PeerError(Exception):
    """What the tests talk to cannot be installed; the text says why."""


def package_files() -> Iterator[Path]:
    """Find the ``package.json`` of every peer that the tests need."""
    yield from sorted((ROOT / "tests").rglob("package.json"))


def install_peer(package: Path) -> Path:
    """Install what a ``package.json`` names, if it is not there yet.

    Args:
        package: The file.

    Returns:
        The folder that has ``node_modules``.

    Raises:
        PeerError: If there is no npm, or it fails, or takes too long, several times.
    """
    wanted = package.read_bytes()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "anabranch-tests"
    folder = caches / f"{package.parent.name}-{hashlib.sha256(wanted).hexdigest()[:12]}"
    if folder.exists():
        return folder
    npm = shutil.which("npm")
    if npm is None:
        raise PeerError("these tests need Node and npm")
    caches.mkdir(parents=True, exist_ok=True)
    # Two processes may do so at once: each works apart, and the first to be ready gives the folder its name.
    with tempfile.TemporaryDirectory(dir=caches) as place:
        inside = Path(place) / "ready"
        inside.mkdir()
        (inside / "package.json").write_bytes(wanted)
        _try_to_install([npm, *INSTALL], inside)
        try:
            inside.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    return folder


def _try_to_install(command: list[str], folder: Path) -> None:
    said = ""
    log = folder.parent / "log"
    for _ in range(ATTEMPTS):
        with log.open("wb") as output:  # no pipe, which what npm starts could keep open
            process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            try:
                status: int | None = process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                status = None
        if status == 0:
            return
        end = f"status {status}" if status is not None else f"no end after {SECONDS} s"
        said = f"{log.read_text(errors='replace')}\n{end}"
    raise PeerError(f"{' '.join(command)} failed {ATTEMPTS} times: {said}")
