"""Make and fill the virtual environments that the other scripts work in. Needs the standard library only."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "scripts" / "constraints.txt"
STAMP = "anabranch-installed.json"  # in an environment: what was installed, from which settings
FLOOR = (3, 11)


class SetupError(Exception):
    """Something is missing on this machine; the text says what to do."""


def check_machine() -> None:
    """Refuse an interpreter that is too old, and a checkout whose links did not survive."""
    if sys.version_info < FLOOR:
        raise SetupError("anabranch needs Python 3.11 or newer: run this script with python3.11")
    for name in ("schema", "compose", "flow"):
        if not (ROOT / "src" / "anabranch" / name / "__init__.py").is_file():
            raise SetupError(
                f"src/anabranch/{name} does not lead to {name}/: this checkout has no symbolic links. "
                "Clone again with: git clone -c core.symlinks=true …"
            )


def prepare(folder: Path, *, python: str = sys.executable, extras: str, groups: Sequence[str] = ()) -> Path:
    """Give the interpreter of an environment that has this checkout (editable), the extras and the groups.

    What was installed before is kept, and nothing is done when it was installed from the same settings.
    """
    version = interpreter_version(python)
    if version is None:
        raise SetupError(f"{python} does not run")
    inside = _interpreter_of(folder)
    stamp = folder / STAMP
    if not _same_minor(interpreter_version(str(inside)), version):
        if folder.exists() and not stamp.exists():
            raise SetupError(f"{folder} is in the way: it is no environment for Python {version}; remove it")
        print(f"==> making {folder.name} for Python {version}", flush=True)
        _make(folder, python)
    wanted = [f"[{extras}]", *groups]
    have = _read(stamp)
    if not set(wanted) <= set(have):
        print(f"==> installing anabranch[{extras}] {' '.join(groups)} into {folder.name}", flush=True)
        _install(inside, extras, groups)
        stamp.write_text(json.dumps({"settings": _settings(), "have": sorted({*have, *wanted})}), encoding="utf-8")
    return inside


def program(python: Path, name: str) -> str:
    """Give the path of a console script that was installed beside this interpreter."""
    return str(python.with_name(name + (".exe" if os.name == "nt" else "")))


def find_interpreter(version: str) -> str | None:
    """Find an interpreter of this minor version that really runs, on the path or among pyenv's.

    Being on the path is not enough: pyenv puts a stand-in there for each version that it knows, and it fails.
    """
    return next((found for found in _candidates(version) if _same_minor(interpreter_version(found), version)), None)


def interpreter_version(python: str) -> str | None:
    """Ask an interpreter for its version, ``3.12.1``; None if it does not run."""
    question = "import platform; print(platform.python_version())"
    try:
        answer = subprocess.run([python, "-c", question], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def _candidates(version: str) -> Iterator[str]:
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        yield on_path
    for folder in ("/usr/bin", "/usr/local/bin"):
        yield f"{folder}/python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for installed in sorted(pyenv.glob(f"versions/{version}*/bin/python"), reverse=True):
        yield str(installed)


def _same_minor(found: str | None, version: str) -> bool:
    return found is not None and found.split(".")[:2] == version.split(".")[:2]


def _interpreter_of(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _make(folder: Path, python: str) -> None:
    try:
        _run([python, "-m", "venv", "--clear", str(folder)])
    except SetupError:
        shutil.rmtree(folder, ignore_errors=True)  # half of an environment would be taken for one next time
        raise


def _install(inside: Path, extras: str, groups: Sequence[str]) -> None:
    pip = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    if groups:
        _run([*pip, "--upgrade", "pip>=25.1"])  # the first that knows dependency groups
    chosen = [part for group in groups for part in ("--group", group)]
    _run([*pip, "--constraint", str(CONSTRAINTS), "--editable", f"{ROOT}[{extras}]", *chosen])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SetupError(f"{done.stdout}{done.stderr}\nthis command failed: {' '.join(command)}")


def _settings() -> str:
    """Name the state of everything that decides what is installed, the place of the checkout included."""
    parts = [str(ROOT).encode(), (ROOT / "pyproject.toml").read_bytes(), CONSTRAINTS.read_bytes()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _read(stamp: Path) -> list[str]:
    """Give what is installed from the present settings."""
    try:
        written = json.loads(stamp.read_text(encoding="utf-8"))
        return list(written["have"]) if written["settings"] == _settings() else []
    except (OSError, ValueError, KeyError):
        return []
