"""JSON schemas that the strict modes of model providers accept.

OpenAI and Anthropic hold a model to a tool's schema only if it stays within a small part of JSON Schema. What
both accept is the intersection: every object closed and every property required, one root object, ``anyOf``
as the only composition, few formats, no limits on numbers, lengths or counts. :func:`strict_schema` rewrites
a schema into that part. A property that may be left out becomes one that may be null; a keyword that is not
accepted is said in words in the description, for the model to follow and for our own validation to check.
What has no equivalent at all (an object with free keys, a value of any type) is an error with its path.

OpenAI takes recursive definitions, Anthropic (by its documentation) does not: a recursive schema stays one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, cast

from .errors import ToolDefinitionError

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ("strict_schema",)

_Schema = Mapping[str, Any]
_Path = tuple[str, ...]

# Accepted by both; `uri` by Anthropic only.
_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
# Lookaround, named groups, back references, word boundaries and large counts are refused.
_HARD_PATTERN = re.compile(r"\(\?|\\[bB1-9]|\{\d{3,}|,\d{3,}\}")

_NUMBERS, _STRINGS, _ARRAYS, _OBJECTS = ("number", "integer"), ("string",), ("array",), ("object",)
# Keywords that a provider may refuse: the types that they speak about, and how they are said in words.
_LIMITS: dict[str, tuple[tuple[str, ...], str]] = {
    "minimum": (_NUMBERS, "at least {}"),
    "exclusiveMinimum": (_NUMBERS, "more than {}"),
    "maximum": (_NUMBERS, "at most {}"),
    "exclusiveMaximum": (_NUMBERS, "less than {}"),
    "multipleOf": (_NUMBERS, "a multiple of {}"),
    "minLength": (_STRINGS, "at least {} characters"),
    "maxLength": (_STRINGS, "at most {} characters"),
    "pattern": (_STRINGS, "matching the regular expression {}"),
    "format": (("string", "number", "integer"), "format {}"),
    "contentEncoding": (_STRINGS, "encoded as {}"),
    "contentMediaType": (_STRINGS, "of media type {}"),
    "minItems": (_ARRAYS, "at least {} items"),
    "maxItems": (_ARRAYS, "at most {} items"),
    "uniqueItems": (_ARRAYS, "no item twice"),
    "contains": (_ARRAYS, "contains {}"),
    "minProperties": (_OBJECTS, "at least {} keys"),
    "maxProperties": (_OBJECTS, "at most {} keys"),
    "not": ((), "not {}"),
    "examples": ((), "for example {}"),
    "deprecated": ((), "deprecated: {}"),
}
_SHAPES = {
    "items": _ARRAYS,
    "prefixItems": _ARRAYS,
    "properties": _OBJECTS,
    "required": _OBJECTS,
    "additionalProperties": _OBJECTS,
}
# What is said of a union as a whole, not of its variants.
_OF_THE_WHOLE = frozenset(("description", "default", "title", "discriminator", "examples", "deprecated"))
_TYPED_BY = ("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "properties", "items")


def strict_schema(schema: _Schema, name: str = "") -> dict[str, Any]:
    """Rewrite the JSON schema of a tool's parameters for a provider's strict mode.

    Args:
        schema: The schema of an object. It is not changed.
        name: The tool's name, for the error.

    Returns:
        A new schema. It allows what ``schema`` allows, apart from limits that could only be put in words, and
        null for each property that may be left out.

    Raises:
        ToolDefinitionError: A part of the schema has no strict equivalent; the text names the path.
    """
    work = _Rewrite(schema, name)
    root = work.node(work.resolved(_without(schema, "$defs", "definitions")), ())
    if root.get("type") != "object":
        work.refuse((), "the parameters are not one object", "wrap them in a model with named fields")
    definitions = work.definitions()
    return {**root, "$defs": definitions} if definitions else root


class _Rewrite:
    """One rewriting: the definitions that the schema has, and those that the result needs."""

    def __init__(self, root: _Schema, name: str) -> None:
        self._name = name
        self._known: dict[str, Any] = {**root.get("definitions", {}), **root.get("$defs", {})}
        self._needed: dict[str, None] = {}
        # Definitions whose text is being put in place of a reference; within it, the reference stays.
        self._open: list[str] = []

    def refuse(self, path: _Path, what: str, instead: str) -> NoReturn:
        """Raise the error that says what cannot be strict, where, and what to do."""
        tool = f"tool {self._name!r}" if self._name else "the schema"
        where = ".".join(path) or "parameters"
        raise ToolDefinitionError(f"{tool} cannot be strict: {where}: {what}; {instead}")

    def definitions(self) -> dict[str, Any]:
        """Rewrite the definitions that something refers to, and those that these refer to."""
        done: dict[str, Any] = {}
        while missing := [key for key in self._needed if key not in done]:
            for key in missing:
                with self._opened(key):
                    done[key] = self.node(self.resolved(self._known[key]), (key,))
        return {key: done[key] for key in self._known if key in done}

    @contextmanager
    def _opened(self, key: str) -> Generator[None]:
        self._open.append(key)
        yield
        self._open.pop()

    def resolved(self, schema: Any) -> Any:
        """Put the definition in place of a reference; keywords beside the reference win."""
        seen: set[str] = set()
        while isinstance(schema, Mapping) and "$ref" in schema:
            found = cast("_Schema", schema)
            key = _target(found)
            if key in seen or key not in self._known:
                self.refuse((key,), f"{found['$ref']!r} leads nowhere", "define it in $defs")
            seen.add(key)
            schema = {**self._known[key], **_without(found, "$ref")}
        return cast("Any", schema)

    def node(self, schema: Any, path: _Path) -> dict[str, Any]:
        """Rewrite one schema and all below it."""
        if not isinstance(schema, Mapping) or not any(key in schema for key in _TYPED_BY):
            self.refuse(path, "it may be a value of any type", "give it a type")
        schema = cast("_Schema", schema)
        if "$ref" in schema:
            return self._reference(schema, path)
        if "allOf" in schema:
            schema = self._united(schema, path)
        variants = _variants(schema)
        if variants is None:
            return _described(self._plain(schema, path), schema)
        union = _any_of([self.node(variant, path) for variant in variants])
        return _described(union, {k: v for k, v in schema.items() if k in _OF_THE_WHOLE})

    def _reference(self, schema: _Schema, path: _Path) -> dict[str, Any]:
        # OpenAI allows no keyword beside `$ref`, so a reference with a text of its own is written out.
        key, resolved = _target(schema), self.resolved(schema)
        has_text = schema.get("default") is not None or any(k in schema for k in ("description", "examples"))
        if not has_text or key in self._open:
            self._needed[key] = None
            return {"$ref": f"#/$defs/{key}"}
        with self._opened(key):
            return self.node(resolved, path)

    def _united(self, schema: _Schema, path: _Path) -> dict[str, Any]:
        """Make one schema of the members of ``allOf``, where they do not contradict each other."""
        united: dict[str, Any] = {}
        for member in [*schema["allOf"], _without(schema, "allOf")]:
            for key, value in cast("_Schema", self.resolved(member)).items():
                if key == "properties":
                    united[key] = {**united.get(key, {}), **value}
                elif key == "required":
                    united[key] = [*united.get(key, ()), *value]
                elif key in united and united[key] != value and key not in _OF_THE_WHOLE:
                    self.refuse(path, f"the members of allOf differ in {key!r}", "write it as one schema")
                else:
                    united[key] = value
        return united

    def _plain(self, schema: _Schema, path: _Path) -> dict[str, Any]:
        """Rewrite a schema of one type."""
        if "enum" in schema or "const" in schema:
            return self._literal(schema, path)
        kind = schema.get("type") or ("object" if "properties" in schema else "array")
        if kind == "object":
            return self._object(schema, path)
        if kind == "array":
            return self._array(schema, path)
        result: dict[str, Any] = {"type": kind}
        if kind == "string" and schema.get("format") in _FORMATS:
            result["format"] = schema["format"]
        if kind == "string" and "pattern" in schema and not _HARD_PATTERN.search(schema["pattern"]):
            result["pattern"] = schema["pattern"]
        return result

    def _literal(self, schema: _Schema, path: _Path) -> dict[str, Any]:
        values: list[Any] = [schema["const"]] if "const" in schema else list(schema["enum"])
        kinds = {_kind(value) for value in values}
        if not values or kinds & {"object", "array"}:
            self.refuse(path, "the choice is not among strings, numbers or booleans", "name the choices")
        kind = kinds.pop()
        if kind == "null":
            return {"type": "null"}
        return {"type": kind, "const": values[0]} if "const" in schema else {"type": kind, "enum": values}

    def _object(self, schema: _Schema, path: _Path) -> dict[str, Any]:
        properties: dict[str, Any] = dict(schema.get("properties", {}))
        extra = schema.get("additionalProperties", bool(path))
        if schema.get("patternProperties") or (not properties and extra is not False):
            instead = "use a model with named fields, or a list of pairs of key and value"
            self.refuse(path, "an object with free keys", instead)
        required = schema.get("required", ())
        return {
            "type": "object",
            "properties": {k: self._property(v, k in required, (*path, k)) for k, v in properties.items()},
            "required": list(properties),
            "additionalProperties": False,
        }

    def _property(self, schema: Any, required: bool, path: _Path) -> dict[str, Any]:
        if required or self._allows_null(schema, ()):
            return self.node(schema, path)
        default: Any = None
        if isinstance(schema, Mapping):
            default = cast("_Schema", schema).get("default")
            schema = _without(schema, "default")
        note = "null to leave it out" if default is None else f"null for the default, {_json(default)}"
        return _noted(_any_of([self.node(schema, path), {"type": "null"}]), [note])

    def _allows_null(self, schema: Any, seen: _Path) -> bool:
        if not isinstance(schema, Mapping):
            return False
        schema = cast("_Schema", schema)
        if "$ref" in schema:
            key = _target(schema)
            return key not in seen and self._allows_null(self._known.get(key), (*seen, key))
        kind = schema.get("type")
        return (
            kind == "null"
            or (isinstance(kind, list) and "null" in kind)
            or (schema.get("const", ...) is None)
            or None in schema.get("enum", ())
            or any(self._allows_null(v, seen) for v in (*schema.get("anyOf", ()), *schema.get("oneOf", ())))
        )

    def _array(self, schema: _Schema, path: _Path) -> dict[str, Any]:
        below = (*path[:-1], f"{path[-1] if path else ''}[]")
        first: list[Any] = schema.get("prefixItems", [])
        members = [*first, *([schema["items"]] if schema.get("items") else ())]
        if not members:
            self.refuse(below, "it may be a value of any type", "say what the list holds, as in list[str]")
        result: dict[str, Any] = {"type": "array", "items": _any_of([self.node(m, below) for m in members])}
        if schema.get("minItems") in (0, 1):
            result["minItems"] = schema["minItems"]
        if first:
            kinds = ", ".join(str(member.get("type", "value")) for member in first)
            return _noted(result, [f"in this order: {kinds}"])
        return result


def _variants(schema: _Schema) -> list[Any] | None:
    """List what a union is made of: ``anyOf``, ``oneOf``, several types, or values of several types."""
    rest = {k: v for k, v in schema.items() if k not in ("anyOf", "oneOf", "type") and k not in _OF_THE_WHOLE}
    kinds: Any = schema.get("type")
    for key in ("anyOf", "oneOf"):
        if key in schema:
            rest = rest if kinds is None else {"type": kinds, **rest}
            return [{**rest, **variant} if rest else variant for variant in schema[key]]
    if "enum" in schema:
        groups: dict[str, list[Any]] = {}
        for value in schema["enum"]:
            groups.setdefault(_kind(value), []).append(value)
        return [{"enum": values} for values in groups.values()] if len(groups) > 1 else None
    if isinstance(kinds, list):
        return [
            {"type": kind, **{k: v for k, v in rest.items() if not _types_of(k) or kind in _types_of(k)}}
            for kind in cast("list[str]", kinds)
        ]
    return None


def _types_of(keyword: str) -> tuple[str, ...]:
    return _SHAPES.get(keyword) or _LIMITS.get(keyword, ((), ""))[0]


def _target(schema: _Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2].replace("~1", "/").replace("~0", "~")


def _without(schema: Any, *keys: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in keys}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _kind(value: Any) -> str:
    """Name the JSON type of a value."""
    if value is None:
        return "null"
    for python, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string")):
        if isinstance(value, python):
            return name
    return "object"


def _any_of(variants: list[dict[str, Any]]) -> dict[str, Any]:
    """Unite variants: unions in unions are flattened, doubles dropped, and one alone is no union."""
    flat: list[dict[str, Any]] = []
    texts: list[str] = []
    for variant in variants:
        if "anyOf" in variant and "description" in variant:
            texts.append(variant["description"])
        flat += [v for v in variant.get("anyOf", [variant]) if v not in flat]
    if len(flat) == 1:
        return flat[0]
    if len(flat) == 2 and flat[1] == {"type": "null"} and "description" in flat[0]:
        # It speaks of the property, so it stands there and not with the one variant.
        texts.append(flat[0]["description"])
        flat[0] = _without(flat[0], "description")
    return {"anyOf": flat, "description": " ".join(texts)} if texts else {"anyOf": flat}


def _described(result: dict[str, Any], schema: _Schema) -> dict[str, Any]:
    """Give the result the schema's description, and in words what it could not keep."""
    notes = [
        text.format(" or ".join(map(_json, cast("list[Any]", value))) if key == "examples" else _json(value))
        for key, (_, text) in _LIMITS.items()
        if (value := schema.get(key)) is not None and value is not False and result.get(key) != value
    ]
    if schema.get("default") is not None:
        notes.append(f"default: {_json(schema['default'])}")
    own = str(schema.get("description") or "").strip()
    if own:
        inner = result.get("description")
        result = {**result, "description": f"{own} {inner}" if inner else own}
    return _noted(result, notes)


def _noted(result: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    if not notes:
        return result
    text = f"({', '.join(notes)})"
    return {**result, "description": f"{result['description']} {text}" if "description" in result else text}
