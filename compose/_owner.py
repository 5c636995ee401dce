"""Who is at work on a run: this process, another one of this machine that lives or not, or another machine."""

from __future__ import annotations

import os
import socket
import time
from functools import lru_cache
from pathlib import Path

LEASE = 60.0
"""For how many seconds after its last step a run of another machine is taken to be at work."""

active: set[tuple[int, str]] = set()
"""The runs that this process is at work on: the identity of the store, and the id."""


@lru_cache(maxsize=1)
def _of_process(pid: int) -> str:
    return f"{machine()} {pid} {_started(pid)}"


def me() -> str:
    """Name this process."""
    return _of_process(os.getpid())  # by number, since a process may have forked


@lru_cache(maxsize=1)
def machine() -> str:
    """Name this machine, as long as it is up."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = "-"
    return f"{socket.gethostname()}:{boot}"


def _started(pid: int) -> str:
    """Say when a process of this machine began, so that another one with its number is not taken for it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "-"
    return stat.rpartition(")")[2].split()[19]


def is_at_work(owner: str | None, updated: float, store: int, run: str) -> bool:
    """Tell whether somebody may still be at work on a run."""
    if owner is None:
        return False
    if owner == me():
        return (store, run) in active
    host, _, rest = owner.partition(" ")
    if host != machine():
        return time.time() - updated < LEASE
    number, _, started = rest.partition(" ")
    return number.isdigit() and _lives(int(number), started)


def _lives(pid: int, started: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is another user's
    return _started(pid) == started
