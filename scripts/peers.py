"""Install and run the npm packages that tests talk to: mocks and servers that others wrote.

Needs the standard library only. Each folder of tests that needs a package names it, with its version, in a
``package.json``. It is installed once per machine, below the user's cache. A server that was started ends with
whoever started it, however that ends.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 150  # that one attempt may take
ATTEMPTS = 3
START_SECONDS = 30  # that a server may take to listen
STOP_SECONDS = 10
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


@dataclass
class Server:
    """A program that serves a port of loopback, and that can be stopped and started again at the same one."""

    command: Sequence[str]
    port: int
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start it, on a leash, and wait until it listens.

        Raises:
            PeerError: If it ends, or does not listen in time.
        """
        leash = [sys.executable, "-I", "-S", str(ROOT / "scripts" / "leash.py"), *self.command]
        environment = {**os.environ, **self.environment}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                leash, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT
            )
        latest = time.monotonic() + START_SECONDS
        while not self._listens():
            if self.process.poll() is not None or time.monotonic() > latest:
                self.stop()
                raise PeerError(f"{self.command} does not start: {self.log.read_text(errors='replace')}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Kill it; does nothing when it does not run."""
        process, self.process = self.process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


@contextmanager
def running(command: Callable[[int], Sequence[str]], folder: Path, **environment: str) -> Generator[Server]:
    """Run a server at a free port while the block lasts.

    Args:
        command: Gives the command for a port, which the program also finds in its variable ``PORT``.
        folder: Where its log is written.
        environment: Further variables.

    Yields:
        The server, which listens.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    server = Server(command(port), port, folder / "log", {"PORT": str(port), **environment})
    server.start()
    try:
        yield server
    finally:
        server.stop()
