"""Jinja2's sandbox, narrowed to plain data. Imported only where a template is in that format."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from typing import Any, cast

from jinja2 import StrictUndefined, Undefined
from jinja2.exceptions import SecurityError
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace
from typing_extensions import override

__all__ = ("make_environment",)

_METHODS: dict[type, frozenset[str]] = {
    dict: frozenset(("get", "items", "keys", "values")),
    list: frozenset(("count", "index")),
    tuple: frozenset(("count", "index")),
    str: frozenset(
        (
            *("capitalize", "casefold", "count", "endswith", "find", "index", "isalpha", "isdigit", "islower"),
            *("isspace", "isupper", "join", "lower", "lstrip", "partition", "removeprefix", "removesuffix"),
            *("replace", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip"),
            *("swapcase", "title", "upper"),
        )
    ),
}
# Jinja2's own helpers, whose attributes and methods it guards itself.
_HELPERS = (LoopContext, Cycler, Joiner, Namespace, Macro, Undefined)
# These read attributes, give something else each time, or show the inside of objects.
_CLOSED_FILTERS = ("attr", "random", "pprint")


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, with attributes closed for all but plain data and Jinja2's own helpers."""

    @override
    def getattr(self, obj: Any, attribute: str) -> Any:
        """Reach ``obj.attribute``: a method of plain data first, then a key."""
        _check_public(attribute)
        if isinstance(obj, _HELPERS):
            return super().getattr(obj, attribute)
        value: object = obj
        for kind, methods in _METHODS.items():
            if isinstance(value, kind) and attribute in methods:
                return getattr(value, attribute)
        return self._item(obj, attribute)

    @override
    def getitem(self, obj: Any, argument: Any) -> Any:
        """Reach ``obj[argument]``: a key or a position."""
        _check_public(argument)
        if isinstance(obj, _HELPERS):
            return super().getattr(obj, argument)
        return self._item(obj, argument)

    def _item(self, obj: Any, key: Any) -> Any:
        if isinstance(obj, Mapping):
            found = cast("Mapping[object, Any]", obj)
            return found[key] if key in found else self.undefined(obj=obj, name=key)
        if isinstance(obj, list | tuple | str):
            items = cast("list[Any]", obj)
            if isinstance(key, int) and -len(items) <= key < len(items):
                return items[key]
            return self.undefined(obj=obj, name=cast("Any", key))
        raise SecurityError(
            f"{key!r} of a value of type {type(obj).__name__} cannot be reached: only keys of mappings and "
            "positions of lists can; pass plain data"
        )

    @override
    def is_safe_callable(self, obj: Any) -> bool:
        """Allow calls of the helpers and of the methods that :meth:`getattr` gives."""
        if isinstance(obj, _HELPERS) or any(obj is helper for helper in self.globals.values()):
            return True
        owner = getattr(obj, "__self__", None)
        if isinstance(obj, types.BuiltinMethodType):
            return isinstance(owner, tuple(_METHODS))
        return isinstance(obj, types.MethodType) and isinstance(owner, _HELPERS)


def _check_public(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"{name!r} is not a public name")


def _to_json(value: Any, indent: int | None = None) -> str:
    """Write JSON for a prompt: Jinja2's own filter escapes it for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def make_environment() -> ImmutableSandboxedEnvironment:
    """Make the environment that all templates of this format share."""
    environment = _Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    del environment.globals["lipsum"]
    for name in _CLOSED_FILTERS:
        del environment.filters[name]
    environment.filters["tojson"] = _to_json
    return environment
