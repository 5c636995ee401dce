"""The JSON schema of a tool's arguments, as a model should see it: one object, described, without noise."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ._docstring import parse_docstring

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

__all__ = ("generate_schema", "object_schema")


def generate_schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Have pydantic write the JSON schema of what a type accepts, without titles made of field names."""
    return adapter.json_schema(schema_generator=_generator(), mode="validation")


@functools.cache
def _generator() -> type[GenerateJsonSchema]:
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        # A default that is no JSON value is not shown; that is nothing to warn of.
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Generator


def object_schema(schema: Mapping[str, Any], described: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Bring a schema into the form that is sent to models.

    The root is an object and no reference. What the docstrings of models say of their fields stands with the
    fields, and titles that only repeat a class's name are gone.

    Args:
        schema: What pydantic wrote.
        described: Texts for properties of the root that have none of their own.

    Returns:
        What the root says of itself, and the schema.
    """
    definitions = {key: _described(value, {}) for key, value in schema.get("$defs", {}).items()}
    root = {key: value for key, value in schema.items() if key != "$defs"}
    while "$ref" in root:
        key = root.pop("$ref").rpartition("/")[2]
        root = {**schema["$defs"][key], **root}
    root = _described(root, described)
    for key, definition in definitions.items():
        if key.rpartition("__")[2] == definition.get("title"):
            del definition["title"]
    root.pop("title", None)
    description = root.pop("description", "")
    result: dict[str, Any] = {"type": "object", "properties": {}, **root}
    if definitions:
        result["$defs"] = definitions
    return description, result


def _described(schema: Mapping[str, Any], described: Mapping[str, str]) -> dict[str, Any]:
    """Split the docstring of a model: the text about itself stays, the texts about its fields go to them."""
    result = dict(schema)
    documented = parse_docstring(schema.get("description"))
    if "description" in result:
        result["description"] = documented.description
    if not result.get("description"):
        result.pop("description", None)
    if "properties" in result:
        texts = {**documented.parameters, **described}
        result["properties"] = {
            name: {**value, "description": texts[name]} if _needs(value, name, texts) else value
            for name, value in cast("dict[str, Any]", result["properties"]).items()
        }
    return result


def _needs(schema: Any, name: str, texts: Mapping[str, str]) -> bool:
    return name in texts and isinstance(schema, dict) and "description" not in schema
