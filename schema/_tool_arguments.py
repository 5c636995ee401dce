"""The arguments of a tool: as a JSON schema for the model, and as a validator whose errors the model can act on.

pydantic does both. The parameters of a function become the fields of a model that is made for it. One parameter
that is itself an object (a pydantic model, a dataclass, a ``TypedDict``) is the arguments as a whole, so that the
model sees its fields and not an object in an object.

An argument that may be left out may also be null where its type knows no null: models in strict mode have to send
every argument, and null then stands for the default, at any depth.
"""

from __future__ import annotations

import copy
import inspect
import typing
from collections.abc import Mapping
from typing import Annotated, Any, cast

import typing_extensions
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, from_json, to_json

from ._tool_schema import generate_schema, object_schema
from ._tool_signature import Parameter, is_object_type
from .errors import ToolArgumentsError, ToolDefinitionError

__all__ = ("Arguments", "ValidArguments")


class ValidArguments(dict[str, Any]):
    """Arguments by parameter name that :meth:`Arguments.validate` has passed; they are not validated again."""

    __slots__ = ("owner",)
    owner: Arguments


class Arguments:
    """What a tool takes."""

    __slots__ = ("_allowed", "_check_names", "_names", "_tool", "_validator", "_whole", "description", "schema")

    schema: dict[str, Any]
    """The JSON schema of the arguments: an object."""
    description: str
    """What the one object says of itself, where it is the arguments as a whole."""

    def __init__(self, tool: str, parameters: tuple[Parameter, ...], described: Mapping[str, str]) -> None:
        """Make schema and validator.

        Args:
            tool: The tool's name, for errors.
            parameters: What the function takes.
            described: The texts that its docstring has for them.

        Raises:
            ToolDefinitionError: pydantic cannot make a JSON schema of a parameter's type.
        """
        self._tool = tool
        self._names = [(f"p{number}", parameter.name) for number, parameter in enumerate(parameters)]
        self._whole = len(parameters) == 1 and parameters[0].is_required and is_object_type(parameters[0].annotation)
        try:
            kind = parameters[0].annotation if self._whole else _model_of(tool, parameters)
            adapter = TypeAdapter[Any](kind)
            schema = generate_schema(adapter)
        except _REFUSED as error:
            raise _refusal(tool, parameters, error) from error
        self._validator = adapter.validator
        self.description, self.schema = object_schema(schema, described)
        self._allowed = _names_of(kind) | self.schema["properties"].keys()
        # A type that says nothing of further keys would ignore them, and with them what a model misspelt.
        self._check_names = self._whole and _extra_of(kind) is None and "additionalProperties" not in self.schema
        if self._check_names:
            self.schema["additionalProperties"] = False

    def of_tool(self, name: str) -> Arguments:
        """Give the same arguments for a tool of another name."""
        made = copy.copy(self)
        made._tool = name
        return made

    def validate(self, arguments: Mapping[str, Any] | str | bytes | None) -> ValidArguments:
        """Turn arguments into the values that the function is called with.

        Args:
            arguments: A JSON text or a mapping. An empty text, ``null`` and ``None`` stand for no arguments.

        Raises:
            ToolArgumentsError: They do not fit; the text tells the model each problem in a line.
        """
        if type(arguments) is ValidArguments and arguments.owner is self:
            return arguments
        if not self._check_names and arguments is not None:
            try:
                if isinstance(arguments, str | bytes):
                    return self._valid(self._validator.validate_json(arguments))
                return self._valid(self._validator.validate_python(dict(arguments)))
            except ValidationError:
                pass  # the long way finds out what may be done
        return self._validate_closely(arguments)

    def _valid(self, value: Any) -> ValidArguments:
        if self._whole:
            valid = ValidArguments({self._names[0][1]: value})
        else:
            values = value.__dict__
            valid = ValidArguments([(name, values[key]) for key, name in self._names])
        valid.owner = self
        return valid

    def _validate_closely(self, arguments: Mapping[str, Any] | str | bytes | None) -> ValidArguments:
        """Validate where nulls may stand for defaults and names may be wrong, and tell what does not fit."""
        from ._tool_problems import list_problems, unknown_name

        given = self._object(arguments)
        closed = self.schema.get("additionalProperties") is False
        unknown = [name for name in given if closed and name not in self._allowed]
        problems = [unknown_name(name, self.schema["properties"]) for name in unknown]
        value = {name: item for name, item in given.items() if name not in unknown}
        error: ValidationError | None = None
        found: list[str] = []
        while True:
            try:
                valid = self._valid(self._attempt(value, is_text=isinstance(arguments, str | bytes)))
                if not problems:
                    return valid
                found = []
                break
            except ValidationError as failed:
                error = failed
                found = _told(found, list_problems(failed, value, "the arguments"))
                value, before = _without_nulls(value, failed), value
                if value == before:
                    break
        head = f"The arguments of {self._tool!r} do not fit:"
        raise ToolArgumentsError("\n- ".join([head, *problems, *found])) from error

    def _attempt(self, value: dict[str, Any], *, is_text: bool) -> Any:
        if is_text:
            return self._validator.validate_json(to_json(value))
        try:
            return self._validator.validate_python(value)
        except ValidationError:
            # What came as a mapping is JSON all the same, where the rules for JSON are laxer (dates, bytes).
            try:
                text = to_json(value)
            except PydanticSerializationError:
                text = None
            if text is None:
                raise
            return self._validator.validate_json(text)

    def _object(self, arguments: Mapping[str, Any] | str | bytes | None) -> dict[str, Any]:
        """Read the arguments as a JSON object."""
        if isinstance(arguments, Mapping):
            return dict(arguments)
        data = arguments.encode(errors="replace") if isinstance(arguments, str) else arguments or b""
        text = data.decode(errors="replace")
        try:
            value = from_json(text) if text.strip() else None
        except ValueError as error:
            from ._tool_problems import where_in

            cut = "they are cut off: " if str(error).startswith("EOF") else ""
            reason = f"{cut}{where_in(text, str(error))}"
            message = f"The arguments of {self._tool!r} are not valid JSON: {reason}. Send {self._wanted()}."
            raise ToolArgumentsError(message) from error
        if value is None:
            return {}
        if not isinstance(value, dict):
            got = "a list" if isinstance(value, list) else "a text" if isinstance(value, str) else "a single value"
            raise ToolArgumentsError(f"The arguments of {self._tool!r} are {got}. Send {self._wanted()}.")
        return cast("dict[str, Any]", value)

    def _wanted(self) -> str:
        required = self.schema.get("required", ())
        names = [f"{name} (required)" if name in required else name for name in self.schema["properties"]]
        return f"one JSON object with {', '.join(names)}" if names else "an empty JSON object, {}"


# What pydantic raises for a type that it cannot validate or describe, and for limits that do not fit the type.
_REFUSED = (PydanticUserError, TypeError, ValueError, LookupError, NameError)


def _refusal(tool: str, parameters: tuple[Parameter, ...], error: Exception) -> ToolDefinitionError:
    """Find the parameters that pydantic refuses, and name them."""
    problems: list[str] = []
    for parameter in parameters:
        try:
            generate_schema(TypeAdapter[Any](parameter.annotation))
        except _REFUSED as found:
            reason = str(found).strip().partition("\n")[0].rstrip(".")
            kind = parameter.annotation
            problems.append(
                f"parameter {parameter.name!r}: no JSON schema can be made of its type "
                f"{getattr(kind, '__qualname__', kind)}: {reason}; use JSON types, models or dataclasses, "
                "or bind it with functools.partial"
            )
    return ToolDefinitionError("\n- ".join([f"tool {tool!r} cannot be made:", *(problems or [str(error)])]))


def _model_of(tool: str, parameters: tuple[Parameter, ...]) -> type[BaseModel]:
    """Make a model with a field for each parameter; its own names are apart from what models reserve."""
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(parameters):
        metadata: tuple[Any, ...] = getattr(parameter.annotation, "__metadata__", ())
        known = [item for item in (*metadata, parameter.default) if isinstance(item, FieldInfo)]
        added: list[Any] = []
        if not any(info.alias or info.validation_alias for info in known):
            added.append(Field(alias=parameter.name))
        texts = [text for item in metadata if (text := _text(item))]
        if texts and not any(info.description for info in known):
            added.append(Field(description=texts[0]))
        annotation = Annotated[(parameter.annotation, *added)] if added else parameter.annotation
        fields[f"p{number}"] = (annotation, ... if parameter.default is inspect.Parameter.empty else parameter.default)
    return create_model(f"{tool}_arguments", __config__=ConfigDict(extra="forbid"), **fields)


def _text(metadata: Any) -> str:
    """Take ``Annotated[int, "how many"]`` and ``Annotated[int, Doc("how many")]`` as descriptions."""
    if isinstance(metadata, typing_extensions.Doc):
        return metadata.documentation
    return metadata if isinstance(metadata, str) else ""


def _extra_of(kind: Any) -> Any:
    kind = typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind
    kind = typing.get_origin(kind) or kind
    config: Mapping[str, Any] | None = getattr(kind, "model_config", getattr(kind, "__pydantic_config__", None))
    return config.get("extra") if config else None


def _names_of(kind: Any) -> frozenset[str]:
    """List the names under which a model takes its fields, beside those in its schema."""
    kind = typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return frozenset()
    names: set[str] = set()
    by_name = kind.model_config.get("validate_by_name") or kind.model_config.get("populate_by_name")
    for name, info in kind.model_fields.items():
        alias = info.validation_alias
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
        names |= {str(c if isinstance(c, str) else c.path[0]) for c in choices if c is not None}
        names |= {name} if by_name else set()
    return frozenset(names)


def _told(before: list[str], now: list[str]) -> list[str]:
    """Keep what was said of a null that turned out to be required."""
    known = {line.partition(": ")[0]: line for line in before}
    return [known.get(place, line) for line in now if (place := line.partition(": ")[0])]


def _without_nulls(value: dict[str, Any], error: ValidationError) -> dict[str, Any]:
    """Leave out the nulls that an error complains of, so that defaults take their place."""
    result = value
    for problem in error.errors(include_url=False, include_context=False):
        if problem["input"] is None:
            result = _dropped(result, problem["loc"])
    return result


def _dropped(value: Any, place: tuple[int | str, ...]) -> Any:
    """Copy a value without the null at a place, if there is one in an object there."""
    for number, step in enumerate(place):
        if isinstance(value, dict) and step in value:
            found = cast("dict[int | str, Any]", value)
            if found[step] is None:
                return {key: item for key, item in found.items() if key != step}
            return {**found, step: _dropped(found[step], place[number + 1 :])}
        if isinstance(value, list) and isinstance(step, int):
            items = list(cast("list[object]", value))
            items[step : step + 1] = [_dropped(item, place[number + 1 :]) for item in items[step : step + 1]]
            return items
    return cast("Any", value)
