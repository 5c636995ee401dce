"""Who is at work on a run: this process, another one of this machine that lives or not, or another machine."""

from __future__ import annotations

import os
import socket
import time
from functools import lru_cache
from itertools import count
from pathlib import Path

LEASE = 600.0
"""For how many seconds after its last step a run of another machine is taken to be at work."""

active: set[tuple[int, str]] = set()
"""The runs that this process is at work on: the identity of the store, and the id."""

at_work: set[str] = set()
"""Those who are at work in this process, each on one run; by which store makes no difference."""
_numbers = count(1)


@lru_cache(maxsize=1)
def _of_process(pid: int) -> str:
    return f"{machine()} {pid} {_started(pid)}"


def me() -> str:
    """Name this process."""
    return _of_process(os.getpid())  # by number, since a process may have forked


def one_of_me() -> str:
    """Name one who is at work in this process: a run that another one here goes on with meanwhile has two of them."""
    return f"{me()} {next(_numbers)}"


@lru_cache(maxsize=1)
def machine() -> str:
    """Name this machine, as long as it is up."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = "-"
    try:
        space = os.readlink("/proc/self/ns/pid")  # in another one the numbers of processes say nothing
    except OSError:
        space = "-"
    return f"{socket.gethostname()}:{boot}:{space}"


def _started(pid: int) -> str:
    """Say when a process of this machine began, so that another one with its number is not taken for it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "-"
    fields = stat.rpartition(")")[2].split()
    return "ended" if fields[0] in ("Z", "X") else fields[19]  # nobody has asked yet how it has ended


def is_at_work(owner: str | None, updated: float, store: int, run: str) -> bool:
    """Tell whether somebody may still be at work on a run."""
    if owner is None:
        return False
    if owner == me():
        return (store, run) in active
    if owner.startswith(f"{me()} "):
        return owner in at_work
    host, _, rest = owner.partition(" ")
    if host != machine():
        return time.time() - updated < LEASE
    number, _, started = rest.partition(" ")
    return number.isdigit() and _lives(int(number), started.partition(" ")[0])


def _lives(pid: int, started: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is another user's
    return _started(pid) == started
