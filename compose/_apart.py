"""Values of one's own: what a node does to its input is seen neither by its siblings nor by the caller.

Lists, dicts and sets (these very classes, however nested in each other) are copied where a value goes to several nodes,
and where it comes from the caller. Everything else is shared: texts, numbers and frozen models cannot change, and what
copying an object of the user's own class means, nobody knows but the user. A condition gets the value itself.
"""

from __future__ import annotations

from typing import Any, cast

CONTAINERS = frozenset({list, dict, set})


def apart(value: Any) -> Any:
    """Copy a container, and the containers in it; give anything else as it is."""
    kind: Any = type(cast("object", value))
    if kind is list:
        return [apart(item) if type(item) in CONTAINERS else item for item in value]
    if kind is dict:
        return {key: apart(item) if type(item) in CONTAINERS else item for key, item in value.items()}
    return set(value) if kind is set else value
