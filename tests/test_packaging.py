"""The wheel and the source distribution hold exactly what they should, and the wheel works on its own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("schema", "compose", "flow")
TOP = (
    "CHANGELOG.md",
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "pyproject.toml",
    "docs",
    "scripts",
    "src",
    "tests",
)
TEST_TOOLS = ("hypothesis", "looptime", "pytest", "pytest-timeout", "pytest-xdist", "trio")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("packaging"),
    pytest.mark.skipif(
        importlib.util.find_spec("check_wheel_contents") is None,
        reason="the tools that build are installed once, in the main development environment",
    ),
]


def run(*command: str | Path, cwd: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def files_below(folder: Path) -> set[str]:
    """Give what a fresh checkout would have here: a file's path through links, without what tools left."""
    found: set[str] = set()
    for path in folder.iterdir():
        if path.name in {"__pycache__", "anabranch.egg-info", ".DS_Store"} or path.suffix == ".pyc":
            continue
        found |= {f"{path.name}/{name}" for name in files_below(path)} if path.is_dir() else {path.name}
    return found


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the checkout, links and all, and put the usual litter beside the sources."""
    copy = tmp_path_factory.mktemp("tree")
    ignore = shutil.ignore_patterns("__pycache__", "anabranch.egg-info")
    for name in (*TOP, *(part for part in PARTS if (ROOT / part).exists())):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(ROOT / name, copy / name)
    for litter in (
        ".env",
        ".venv/lib/secret.py",
        "build/report.html",
        "notes.txt",
        "src/anabranch/schema/__pycache__/x.pyc",
    ):
        (copy / litter).parent.mkdir(parents=True, exist_ok=True)
        (copy / litter).write_text("litter", encoding="utf-8")
    return copy


@pytest.fixture(scope="module")
def built(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution, and the wheel from that, as an index would get them."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, cwd=tree)
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def unpacked(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the source distribution."""
    (archive,) = built.glob("*.tar.gz")
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (found,) = folder.iterdir()
    return found


def test_the_wheel_holds_the_package_and_its_metadata_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    metadata = {name for name in names if PurePosixPath(name).parts[0].endswith(".dist-info")}
    assert names - metadata == {f"anabranch/{name}" for name in files_below(ROOT / "src" / "anabranch")}
    assert {PurePosixPath(*PurePosixPath(name).parts[1:]).as_posix() for name in metadata} == {
        "METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt",
    }  # fmt: skip


def test_a_wheel_made_straight_from_the_checkout_is_the_same(wheel: Path, tree: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, cwd=tree)
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(tmp_path / wheel.name) as other:
        assert {i.filename: i.CRC for i in one.infolist()} == {i.filename: i.CRC for i in other.infolist()}


def test_the_source_distribution_holds_the_code_once_and_all_that_belongs_to_it(unpacked: Path) -> None:
    expected = {name for name in TOP if (ROOT / name).is_file()}
    expected |= {f"{name}/{file}" for name in TOP if (ROOT / name).is_dir() for file in files_below(ROOT / name)}
    assert files_below(unpacked) == expected | {"PKG-INFO", "setup.cfg"}


def test_the_distributions_are_fit_to_be_published(built: Path, wheel: Path, tree: Path) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(built.iterdir()), cwd=tree)
    run(Path(sys.executable).with_name("check-wheel-contents"), wheel, cwd=tree)


def test_the_smoke_tests_pass_against_the_installed_wheel_without_and_with_the_command_line(
    wheel: Path, unpacked: Path, tmp_path: Path
) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    constraints = ROOT / "scripts" / "constraints.txt"
    pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    smoke = ["-m", "pytest", "-m", "smoke", "-o", "pythonpath=", "tests/test_smoke.py"]
    for requirements in ([wheel, *TEST_TOOLS], [f"{wheel}[cli]"]):
        run(*pip, "--constraint", constraints, *requirements, cwd=tmp_path)
        where = run(python, "-c", "import anabranch; print(anabranch.__file__)", cwd=unpacked)
        assert Path(where.strip()).is_relative_to(tmp_path / "venv")
        assert " passed" in run(python, *smoke, cwd=unpacked)
