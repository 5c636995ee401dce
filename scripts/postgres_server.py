"""A PostgreSQL server for tests: the real one, on loopback, in a folder of its own, gone when it is stopped.

The programs are looked for on the path and where Debian puts them. Where they are missing, :func:`install` gets them
with ``apt-get``, which needs root. Every step has a time-out.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

USER = "app"
LEASH = Path(__file__).with_name("leash.py")
STEP_SECONDS = 60
INSTALL_SECONDS = 240


class PostgresError(Exception):
    """The server cannot be installed or started; the text says why."""


class PostgresMissingError(PostgresError):
    """The server is not installed, and this is no place where it may be."""


def find_programs() -> Path | None:
    """Give the folder with ``initdb`` and ``postgres``, the newest there is; None if there is none."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name.zfill(4))[::-1]
    return next((folder for folder in folders if all((folder / name).exists() for name in PROGRAMS)), None)


PROGRAMS = ("initdb", "pg_ctl", "postgres")


def install() -> Path:
    """Give the folder of the programs, installed first if they are missing and this may be done."""
    found = find_programs()
    if found is not None:
        return found
    if shutil.which("apt-get") is None or not is_root():
        raise PostgresMissingError("PostgreSQL is not installed; install your system's package, such as 'postgresql'")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "postgresql"]):
        _run(command, INSTALL_SECONDS, environment)
    found = find_programs()
    if found is None:
        raise PostgresError("apt-get has installed 'postgresql', and initdb is still missing")
    return found


def is_root() -> bool:
    """Tell whether this is root, whom the server refuses to run as."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


class Server:
    """One server. It is stopped by :meth:`remove`; by itself it ends a minute after its folder has gone.

    Args:
        durable: Whether it writes through to the disk, which costs time and matters in a power cut only.
    """

    def __init__(self, *, durable: bool = False) -> None:
        self._programs = install()
        self._durable = durable
        self._folder = Path(tempfile.mkdtemp(prefix="anabranch-postgres-"))
        self._data = self._folder / "data"
        self._port = 0
        self._leash = self._put_on_leash()
        if is_root():
            shutil.chown(self._folder, "postgres")
        try:
            self._call("initdb", "-D", self._data, "-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync")
        except BaseException:
            self.remove()
            raise

    @property
    def dsn(self) -> str:
        """The connection string of the database that every server has."""
        return f"host=127.0.0.1 port={self._port} user={USER} dbname=postgres"

    def start(self) -> None:
        """Start the server and wait until it takes connections; after a stop, on the same port."""
        left = 0 if self._port else 4
        port = self._port or _free_port()
        while True:
            try:
                self._start(port)
            except PostgresError:  # for a new server: somebody else may have taken the port before it had it
                if not left:
                    raise
                left, port = left - 1, _free_port()
            else:
                self._port = port
                return

    def _start(self, port: int) -> None:
        sync = "" if self._durable else "-c fsync=off -c full_page_writes=off"
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' {sync}"
        log = self._folder / "log"
        try:
            self._pg_ctl("start", "-l", log, "-o", options)
        except PostgresError as error:
            raise PostgresError(f"{error}\n{log.read_text(encoding='utf-8') if log.exists() else ''}") from error

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop the server: ``"fast"`` breaks connections off, ``"immediate"`` is as good as a crash."""
        self._pg_ctl("stop", "-m", mode)

    def restart(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop the server and start it again."""
        self.stop(mode)
        self.start()

    def remove(self) -> None:
        """Stop the server if it runs, and delete its folder."""
        try:
            if (self._data / "postmaster.pid").exists():
                self.stop("immediate")
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._leash.kill()
            self._leash.communicate()

    def _put_on_leash(self) -> subprocess.Popen[bytes]:
        """Start what removes the server when this process has ended without doing so."""
        stop = [*self._as_user(), str(self._programs / "pg_ctl"), "stop", "-m", "immediate", "-D", str(self._data)]
        clean_up = f"cd /; {shlex.join(stop)}; rm -rf {shlex.quote(str(self._folder))}"
        command = [sys.executable, "-I", "-S", str(LEASH), "--at-end", "sh", "-c", clean_up]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True)

    def _pg_ctl(self, action: str, *arguments: str | Path) -> None:
        self._call("pg_ctl", action, "-D", self._data, "-w", "-t", str(STEP_SECONDS // 2), *arguments)

    def _as_user(self) -> list[str]:
        return ["runuser", "-u", "postgres", "--"] if is_root() else []

    def _call(self, program: str, *arguments: str | Path) -> None:
        _run([*self._as_user(), str(self._programs / program), *map(str, arguments)], STEP_SECONDS)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _run(command: Sequence[str], seconds: float, environment: dict[str, str] | None = None) -> None:
    # The server inherits what it writes to, so a pipe would stay open as long as it runs; a file does not.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        try:
            done = subprocess.run(
                command,
                cwd="/",
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=seconds,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PostgresError(f"{' '.join(command)}: {error}") from error
        if done.returncode != 0:
            output.seek(0)
            raise PostgresError(f"{' '.join(command)} failed:\n{output.read()}")
