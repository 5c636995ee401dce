"""What a model is told about a tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import Field, field_validator

from ._frozen import EMPTY, Extra, Value, freeze_mapping

__all__ = ("ToolInfo",)

_NO_PARAMETERS = freeze_mapping({"type": "object", "properties": {}})


class ToolInfo(Value, frozen=True):
    """What a model is told about a tool.

    Example:
        >>> ToolInfo(name="now", description="Tell the time.").parameters
        {'type': 'object', 'properties': {}}
    """

    name: str = Field(min_length=1)
    """By what the model calls it."""
    description: str = ""
    """What it does and when to use it."""
    parameters: Extra = _NO_PARAMETERS
    """The JSON schema of its arguments, an object. ``None`` or an empty one: it takes none."""
    strict: bool = False
    """Whether providers that can hold a model to the schema should do so."""
    extra: Extra = EMPTY
    """What else a provider or a program wants to know of it (a JSON object)."""

    @field_validator("parameters", mode="before")
    @classmethod
    def _is_object(cls, value: Any) -> Any:
        if value is None or value == {}:
            return _NO_PARAMETERS
        if not isinstance(value, Mapping):
            return value
        schema = cast("Mapping[str, Any]", value)
        if schema.get("type", "object") != "object":
            raise ValueError(f"the arguments of a tool are an object, not of type {schema['type']!r}")
        return schema if "type" in schema or "$ref" in schema else {"type": "object", **schema}

    def strict_parameters(self) -> dict[str, Any]:
        """Rewrite the schema for the strict modes of OpenAI and Anthropic.

        Returns:
            A schema in which every object is closed and every property required. What may be left out may be
            null instead; limits that a provider would refuse are said in the descriptions.

        Raises:
            ToolDefinitionError: A part of the schema has no strict equivalent, such as a ``dict`` with free keys.

        Example:
            >>> class Query(BaseModel):
            ...     text: str
            ...     limit: int = 10
            >>> strict = tool(Query).info.strict_parameters()
            >>> strict["required"], strict["properties"]["limit"]["anyOf"]
            (['text', 'limit'], [{'type': 'integer'}, {'type': 'null'}])
        """
        from ._tool_strict import strict_schema

        return strict_schema(self.parameters, self.name)
