"""Make the docstrings of the library readable for the site: roles become links, examples become code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import griffe

API = Path(__file__).resolve().parent.parent / "docs" / "api"
PUBLIC = [f"anabranch.{page.stem.replace('-', '.')}" for page in sorted(API.glob("*.md"))]
ROLE = re.compile(r":(?:class|func|meth|attr|mod|exc|data|obj):`(?P<short>~)?(?P<name>[^`]+)`")
LITERAL = re.compile(r"``([^`]+)``")
EXAMPLE = re.compile(r"^(?P<indent> *)Example:[ ]*$", re.MULTILINE)


class Readable(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def __init__(self) -> None:
        super().__init__()
        self._homes = {name: package for package in PUBLIC for name in importlib.import_module(package).__all__}

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            text = ROLE.sub(self._link, obj.docstring.value)
            obj.docstring.value = EXAMPLE.sub(r"\g<indent>Examples:", LITERAL.sub(r"`\1`", text))

    def _link(self, role: re.Match[str]) -> str:
        """Give a link where the name is public, else the name as code."""
        name = role["name"].removeprefix("anabranch.")
        shown = name.rpartition(".")[2] if role["short"] else name
        first = name.partition(".")[0]
        if first in self._homes:
            return f"[`{shown}`][{self._homes[first]}.{first}]"
        return f"`{shown}`"
