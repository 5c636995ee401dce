"""Every public error is in one of the files beside this one, but for those that only stand above others."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

PARTS = ("schema", "compose", "flow")
BASES = {
    "AgentLimitExceeded", "AnabranchError", "DurableError", "GraphRunError", "LimitExceeded", "MessageError",
    "ModelError",
}  # fmt: skip


def public_errors(part: str) -> set[str]:
    package = importlib.import_module(f"anabranch.{part}")
    names = [package.__name__] + [
        found.name
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if found.ispkg and "._" not in found.name
    ]
    modules = [importlib.import_module(name) for name in names]
    classes = {getattr(module, name) for module in modules for name in module.__all__}
    return {c.__name__ for c in classes if inspect.isclass(c) and issubclass(c, BaseException)}


@pytest.mark.once
@pytest.mark.parametrize("part", PARTS)
def test_every_public_error_is_shown(part: str) -> None:
    files = Path(__file__).parent.glob(f"{part}*.txt")
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    shown = {line[3:].partition(",")[0] for line in text.splitlines() if line.startswith("== ")}
    missing = public_errors(part) - shown - BASES
    assert missing == set(), "provoke them in one of the files beside this one"


def test_each_base_stands_above_an_error_that_is_shown() -> None:
    assert {error for part in PARTS for error in public_errors(part)} >= BASES
