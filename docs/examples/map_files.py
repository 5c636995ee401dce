"""Map and reduce over files: look into every module of a folder, eight at a time, and sum up what was found.

Run it with `python docs/examples/map_files.py schema`; see it with `anabranch draw docs/examples/map_files.py:graph`.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from pydantic import BaseModel

from anabranch.compose import Chain, GraphRunError, Map


class Module(BaseModel):
    """What one file has."""

    path: str
    lines: int
    functions: int
    documented: int


def find_modules(folder: str) -> list[str]:
    """List the files."""
    return sorted(str(path) for path in Path(folder).rglob("*.py"))


def look_into(path: str) -> Module:
    """Count the public functions and classes of a file, and those that have a docstring."""
    text = Path(path).read_text(encoding="utf-8")
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds) and not node.name.startswith("_")]
    documented = sum(ast.get_docstring(node) is not None for node in found)
    return Module(path=path, lines=text.count("\n"), functions=len(found), documented=documented)


def sum_up(found: list[Module | GraphRunError]) -> str:
    """Write one line for all files, and one for each that could not be read."""
    modules = [module for module in found if isinstance(module, Module)]
    lines, functions = sum(module.lines for module in modules), sum(module.functions for module in modules)
    documented = sum(module.documented for module in modules)
    total = f"{len(modules)} modules, {lines} lines, {documented} of {functions} public functions documented"
    failures = [f"{error.path}: {error.__cause__}" for error in found if isinstance(error, GraphRunError)]
    return "\n".join([total, *failures])


each = Map(look_into, concurrency=8, on_error="collect", blocking=True)
graph = Chain[str, str](name="map_files").append(find_modules).append(each).append(sum_up).compile()

if __name__ == "__main__":
    print(graph.invoke_sync(sys.argv[1] if len(sys.argv) > 1 else "docs/examples"))
