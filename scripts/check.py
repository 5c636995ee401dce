"""Set up the development environment and run every check of the project: this is what CI runs.

python3.11 scripts/check.py [--here] [PYTEST ARGUMENTS]

Lint, format, layers, mypy, pyright and the site of docs/ once; then the test suite: in full on this Python and,
unless ``--here`` is given, without what is slow or the same on every Python, and with fewer examples, on each other
supported Python that is found. All failures are shown, the exit status is 1 if there was one, and pytest's summary
comes last.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, STDOUT

from environment import ROOT, SetupError, check_machine, find_interpreter, prepare, program
from peers import PeerError, install_peer, package_files

SUPPORTED = ("3.11", "3.12", "3.13")
CHECKS = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "lint-imports": ["lint-imports"],
    "mypy": ["mypy"],
    "pyright": ["pyright"],
    "public types": ["pyright", "--verifytypes", "anabranch", "--ignoreexternal"],
    "site": ["python", "scripts/build_site.py"],
}
# A worker that dies ends the suite: with another in its place the rest may wait for ever.
TOGETHER = ["--numprocesses=2", "--dist=loadgroup", "--max-worker-restart=0", "-m", "not benchmark"]
ELSEWHERE = [*TOGETHER[:-1], "not benchmark and not slow and not once"]  # on the other Pythons
ALONE = ["-m", "benchmark"]  # what measures time does not share the machine
NO_TESTS = 5  # pytest's exit status when nothing was selected
SUITE_SECONDS = 1500  # after which a suite is taken to hang


@dataclass
class Report:
    """What was run, how long it took, and what failed."""

    times: dict[str, float] = field(default_factory=dict[str, float])
    failed: list[str] = field(default_factory=list[str])

    def add(self, name: str, status: int, started: float) -> None:
        """Note the end of one step."""
        self.times[name] = time.monotonic() - started
        if status:
            self.failed.append(name)

    def show(self) -> None:
        """Print one line for each step."""
        print("\n==> summary")
        for name, seconds in self.times.items():
            print(f"{'FAILED' if name in self.failed else 'ok':>8}  {name}  {seconds:.0f} s", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run everything; give the exit status."""
    here_only = "--here" in arguments
    extra = [argument for argument in arguments if argument != "--here"]
    report = Report()
    try:
        check_machine()
        python = prepare(ROOT / ".venv", extras="all", groups=["dev"])
        run_checks(python, report)
        install_peers(report)
        if not here_only:
            run_on_other_versions(extra, report)
    except (SetupError, PeerError) as error:
        print(error, file=sys.stderr)
        return 1
    run_benchmarks(python, report)
    run_suite("benchmarks", python, [*ALONE, *extra], report)
    last_line = run_suite(f"pytest on {running_version()}", python, [*TOGETHER, *extra], report)
    report.show()
    print(last_line, flush=True)
    return 1 if report.failed else 0


def run_checks(python: Path, report: Report) -> None:
    """Run the checks that need no running code, two at a time, and print the output of each in one piece."""

    def run(name: str) -> None:
        started = time.monotonic()
        command = [program(python, CHECKS[name][0]), *CHECKS[name][1:]]
        environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
        if name == "public types":  # it asks the first Python of the path where packages are
            path = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
            environment |= {"PATH": path, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        report.add(name, done.returncode, started)
        print(f"\n==> {name}\n{done.stdout.strip()}", flush=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, CHECKS))


def install_peers(report: Report) -> None:
    """Install the npm packages that tests talk to, so that no test waits for that."""
    started = time.monotonic()
    for package in package_files():
        print(f"\n==> npm packages for {package.parent.relative_to(ROOT)}", flush=True)
        install_peer(package)
    report.add("npm packages", 0, started)


def run_benchmarks(python: Path, report: Report) -> None:
    """Run every workload once, shortly: they only have to come to their end."""
    print("\n==> workloads", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [str(python), "-m", "tests.benchmarks", "--quick", "--json", str(Path(folder) / "figures.json")]
        try:
            status = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False, timeout=180).returncode
        except subprocess.TimeoutExpired:
            status = 1
    report.add("workloads", status, started)


def run_on_other_versions(extra: Sequence[str], report: Report) -> None:
    """Run the suite on each other supported version, in an environment of its own."""
    for version in SUPPORTED:
        if version == running_version():
            continue
        found = find_interpreter(version)
        if found is None:
            print(f"\n==> Python {version} is not on this machine: not tested", flush=True)
            continue
        python = prepare(ROOT / f".venv-{version}", python=found, extras="all", groups=["test"])
        run_suite(f"pytest on {version}", python, [*ELSEWHERE, *extra], report, profile="quick")


def run_suite(name: str, python: Path, arguments: Sequence[str], report: Report, profile: str = "ci") -> str:
    """Run pytest, pass its output on as it comes, and give the last line of it."""
    print(f"\n==> {name}", flush=True)
    started = time.monotonic()
    colour = ["--color=yes"] if sys.stdout.isatty() else []
    command = [str(python), "-m", "pytest", *colour, *arguments]
    environment = {"HYPOTHESIS_PROFILE": profile, **os.environ}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=PIPE, stderr=STDOUT, start_new_session=True
    )
    lines = [""]
    reader = threading.Thread(target=pass_on, args=(process, lines), daemon=True)
    reader.start()
    try:
        status = process.wait(SUITE_SECONDS)
    except subprocess.TimeoutExpired:
        status = 1
        lines.append(f"no end after {SUITE_SECONDS} s")
    finally:
        with suppress(ProcessLookupError):  # what tests have left running would keep the pipe open
            os.killpg(process.pid, signal.SIGKILL)
        reader.join(10)
    if status < 0:
        lines.append(f"pytest was ended by signal {-status}")
        print(f"\n{lines[-1]}", flush=True)
    report.add(name, 0 if status == NO_TESTS else status, started)
    return lines[-1]


def pass_on(process: subprocess.Popen[str], lines: list[str]) -> None:
    """Print what a process says, line by line, and keep the last one that is not empty."""
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        lines[-1] = line.rstrip() or lines[-1]


def running_version() -> str:
    """Give the minor version of this interpreter, ``3.11``."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
