"""How a subclass that stands in the place of its base is named, and found again.

Names are looked up among the classes that exist below the declared one. Nothing is imported for a name: a record can
choose among the program's own classes, and only among those that the declared type allows.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ._codec_part import Refused


def name_of(cls: type) -> str:
    """Name a class by its module and its place in it."""
    return f"{cls.__module__}:{cls.__qualname__}"


def find_heirs(base: type, name: str) -> list[type]:
    """Give the classes of a name below a class.

    Where there are several, the one that its module knows by this name counts: ``@dataclass(slots=True)`` makes a
    second class, and so does whoever runs a cell of a notebook again; the first one is still there for a while.
    """
    found = _all_heirs(base, name)
    if len(found) < 2:
        return found
    known = _known_as(name)
    return [cls for cls in found if cls is known] or found


def _known_as(name: str) -> Any:
    """Give what a module that is there calls by a name."""
    module, _, path = name.partition(":")
    found: object = sys.modules.get(module)
    for part in path.split("."):
        scope: Mapping[str, object] = getattr(found, "__dict__", {})
        found = scope.get(part)
    return found


def _all_heirs(base: type, name: str) -> list[type]:
    found: list[type] = []
    seen: set[type] = set()
    waiting: list[type] = [base]
    while waiting:
        heirs: list[type] = type.__subclasses__(waiting.pop())
        for heir in heirs:
            if heir not in seen:
                seen.add(heir)
                waiting.append(heir)
                if name_of(heir) == name:
                    found.append(heir)
    return found


@lru_cache(maxsize=1024)
def heir_name(base: type, cls: type) -> str:
    """Give the name under which a class is found again.

    Raises:
        Refused: It would not be.
    """
    name = name_of(cls)
    if "<locals>" in name:
        raise Refused(
            f"its class {cls.__qualname__} was made inside a function, so it is not found again in another process; "
            "define it at module level"
        )
    found = find_heirs(base, name)
    if found != [cls]:
        raise Refused(f"there are {len(found)} classes called {name}; give them different names")
    return name


def heir_named(base: type, name: object) -> type:
    """Find a class by its name.

    Raises:
        Refused: There is none, or more than one.
    """
    found = find_heirs(base, name) if type(name) is str else []
    if len(found) != 1:
        count = "no class" if not found else f"{len(found)} classes"
        raise Refused(f"there is {count} {name!r:.100} below {base.__name__}")
    return found[0]
