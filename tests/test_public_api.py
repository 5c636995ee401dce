"""What the packages export exists, is described, and does what the examples in its description show."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import anyio
import pydantic
import pytest

import anabranch

HOME = Path(anabranch.__file__).parent
PARTS = ("schema", "compose", "flow")
MODULES = sorted(
    ".".join(path.relative_to(HOME.parent).with_suffix("").parts).removesuffix(".__init__")
    for part in PARTS
    for path in (HOME / part).rglob("*.py")
    if path.stem != "__main__"
)
PACKAGES = [name for name in MODULES if "._" not in name and (HOME.parent / name.replace(".", "/")).is_dir()]


def described(module: ModuleType, name: str) -> bool:
    """Say whether a public name has a description, if it is of a kind that can carry one."""
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value):
        return bool(value.__doc__)
    return True  # constants and type aliases are described where they are assigned


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_exists_once_and_is_public(package: str) -> None:
    module = importlib.import_module(package)
    names = list(module.__all__)
    assert [name for name in names if not hasattr(module, name)] == []
    assert len(names) == len(set(names))
    assert [name for name in names if name.startswith("_")] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_is_described(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__doc__
    assert [name for name in module.__all__ if not described(module, name)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_method_of_an_exported_class_is_described(package: str) -> None:
    module = importlib.import_module(package)
    silent = [
        f"{name}.{member}"
        for name in module.__all__
        if inspect.isclass(found := getattr(module, name)) and found.__module__.startswith("anabranch")
        for member, value in vars(found).items()
        if not member.startswith("_") and inspect.isfunction(value) and not inspect.getdoc(getattr(found, member))
    ]
    assert silent == []


def what_a_user_has(module_name: str) -> dict[str, Any]:
    """Give the names that an example may use without importing them, beside those of its own module.

    They are what its own package exports, and the packages around and below that.
    """
    names: dict[str, Any] = {"anyio": anyio, "BaseModel": pydantic.BaseModel, "Field": pydantic.Field}
    part = next(part for part in PARTS if module_name.startswith(f"anabranch.{part}"))
    below = [f"anabranch.{name}" for name in PARTS[: PARTS.index(part)]]
    around = [package for package in PACKAGES if f"{module_name}.".startswith(f"{package}.")]
    for package in [*below, *around]:
        module = importlib.import_module(package)
        names |= {name: getattr(module, name) for name in module.__all__}
    return names


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(
    name: str, run_code: Callable[[CodeType, dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(name)
    # doctest calls the builtin exec, which cannot run an `await` at the top; its own global goes first.
    monkeypatch.setattr(doctest, "exec", run_code, raising=False)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(optionflags=options)
    report: list[str] = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs=what_a_user_has(name)):
        runner.run(test, compileflags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, out=report.append)
    assert runner.failures == 0, "".join(report)
