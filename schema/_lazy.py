"""Load what a package exports when it is first asked for, so that importing the package costs next to nothing.

Type checkers read the imports under ``TYPE_CHECKING``; at run time the table says where each name lives (PEP 562).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make a package's ``__getattr__`` and ``__dir__``.

    Args:
        package: The package's ``__name__``.
        modules: The names that each of its modules exports.

    Returns:
        The two functions.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home}"), name)
        setattr(sys.modules[package], name, value)  # the next one finds it without asking
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return load, names
