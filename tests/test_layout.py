"""The shape of the project: where files are, what they import, how long they are."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "anabranch"
PARTS = ("schema", "compose", "flow")
MODULES = sorted(path for part in PARTS for path in (PACKAGE / part).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

FOUNDATION = {"anyio", "pydantic", "pydantic_core", "typing_extensions"}
BELOW_FOUNDATION = {
    "annotated_types",
    "typing_inspection",
    "idna",
    "sniffio",
}  # what the foundation itself loads
# Packages of extras may be imported inside functions, and at the top of these modules, which nothing imports
# that does not need them.
NEEDS_EXTRAS = {
    "compose/_store_postgres_server": {"psycopg"},
    "flow/cli": {"cyclopts", "rich"},
    "flow/console/_screen": {"rich"},
    "flow/otel/_": {"opentelemetry"},
    "flow/tools/_mcp_http": {"httpx2"},
    "schema/_stream_trio": {"outcome", "trio"},
    "schema/_template_sandbox": {"jinja2"},
}

FILE_LIMIT = 500  # lines
FUNCTION_LIMIT = 60  # lines without docstring, comments and blank lines


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT).as_posix()


def top_level_imports(tree: ast.Module) -> Iterator[str]:
    """Give the top packages that importing this module imports, relative imports left out."""
    waiting: list[ast.stmt] = list(tree.body)
    for node in waiting:
        match node:
            case ast.Import(names):
                yield from (alias.name.split(".")[0] for alias in names)
            case ast.ImportFrom(module, _, 0):
                yield str(module).split(".")[0]
            case ast.Try() | ast.If() | ast.With() if not is_type_checking(node):
                waiting += node.body
            case _:
                pass


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def allowed_beyond_foundation(path: Path) -> set[str]:
    name = name_of(path)
    return {package for prefix, found in NEEDS_EXTRAS.items() if name.startswith(prefix) for package in found}


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if not body:
        return 0
    text = lines[body[0].lineno - 1 : function.end_lineno]
    return sum(1 for line in text if line.strip() and not line.strip().startswith("#"))


@pytest.mark.parametrize("part", PARTS)
def test_the_package_holds_each_part_and_the_checkout_holds_it_at_the_top(part: str) -> None:
    assert (PACKAGE / part / "__init__.py").is_file()
    if (ROOT / ".git").exists():  # the source distribution has real folders
        assert (PACKAGE / part).is_symlink()
        assert (PACKAGE / part).resolve() == ROOT / part


def test_the_bare_names_of_the_parts_are_never_imported() -> None:
    assert not {"schema", "compose", "flow"} & set(sys.modules)


@pytest.mark.once
def test_a_module_imports_only_the_foundation_when_it_is_imported() -> None:
    external = {
        name_of(path): found
        for path in MODULES
        if (
            found := set(top_level_imports(parsed(path)))
            - set(sys.stdlib_module_names)
            - FOUNDATION
            - allowed_beyond_foundation(path)
        )
    }
    assert external == {}


@pytest.mark.once
def test_inside_the_library_imports_of_its_own_code_are_relative() -> None:
    absolute = [
        (name_of(path), name)
        for path in MODULES
        for node in ast.walk(parsed(path))
        for name in imported_names(node)
        if name.split(".")[0] == "anabranch"
    ]
    assert absolute == []


def imported_names(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module, _, 0):
            return [str(module)]
        case _:
            return []


@pytest.mark.once
def test_a_file_has_a_size_that_can_be_read() -> None:
    lengths = {name_of(path): len(lines_of(path)) for path in [*MODULES, *TESTS]}
    assert {name: length for name, length in lengths.items() if length > FILE_LIMIT} == {}


@pytest.mark.once
def test_a_function_fits_on_a_screen() -> None:
    lengths = {
        (name_of(path), function.name): code_lines(function, lines_of(path))
        for path in [*MODULES, *TESTS]
        for function in functions(parsed(path))
    }
    assert {name: length for name, length in lengths.items() if length > FUNCTION_LIMIT} == {}


@pytest.mark.parametrize("part", ["anabranch", *(f"anabranch.{part}" for part in PARTS)])
def test_importing_a_package_loads_nothing_heavy(part: str) -> None:
    loaded = packages_after(f"import {part}") - packages_after("pass") - set(sys.stdlib_module_names)
    assert loaded <= {"anabranch"} | FOUNDATION | BELOW_FOUNDATION


def packages_after(statement: str) -> set[str]:
    program = f"{statement}; import sys; print(*(name.split('.')[0] for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name for name in done.stdout.split() if not name.startswith("_sysconfigdata")}


@pytest.mark.once
def test_an_error_about_a_missing_package_names_an_extra_that_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named: set[str] = set()
    for path in MODULES:
        for node in ast.walk(parsed(path)):
            match node:
                case ast.Call(ast.Name("MissingExtraError"), [_, ast.Constant(str(extra))]):
                    named.add(extra)
                case _:
                    pass
    assert named <= set(extras)


@pytest.mark.once
def test_the_constraints_cover_every_requirement_and_name_no_host() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    constraints = (ROOT / "scripts" / "constraints.txt").read_text(encoding="utf-8")
    lists = [settings["project"]["dependencies"], *settings["project"]["optional-dependencies"].values()]
    lists += settings["dependency-groups"].values()
    wanted = {requirement for found in lists for requirement in found if isinstance(requirement, str)}
    names = {re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower() for requirement in wanted} - {"anabranch"}
    assert names <= set(re.findall(r"^([\w.-]+)==", constraints, re.MULTILINE))
    assert "://" not in constraints


@pytest.mark.once
def test_ci_runs_the_command_that_the_readme_names() -> None:
    if not (ROOT / ".ci").exists():
        pytest.skip("the source distribution has no CI script")
    command = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1].removeprefix("exec ")
    assert command in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
