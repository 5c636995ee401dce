"""Schemas for strict modes: what providers accept, what cannot be, and that what a strict model sends fits."""

from __future__ import annotations

import datetime
import enum
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model

from anabranch.schema._tool import FunctionTool, ToolInfo, tool
from anabranch.schema._tool_strict import strict_schema
from anabranch.schema.errors import ToolDefinitionError

# What OpenAI and Anthropic both document as supported.
KEYWORDS = {
    "object": {"type", "properties", "required", "additionalProperties", "description", "$defs"},
    "array": {"type", "items", "minItems", "description"},
    "string": {"type", "enum", "const", "format", "pattern", "description"},
    "number": {"type", "enum", "const", "description"},
    "integer": {"type", "enum", "const", "description"},
    "boolean": {"type", "enum", "const", "description"},
    "null": {"type", "description"},
}
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


def assert_strict(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> None:
    """Check a schema against the rules that both providers document."""
    if root is None:
        root = schema
        assert schema["type"] == "object"
        for definition in schema.get("$defs", {}).values():
            assert_strict(definition, root)
    if "$ref" in schema:
        assert set(schema) == {"$ref"}, "no keyword may stand beside a reference"
        assert schema["$ref"].removeprefix("#/$defs/") in root["$defs"]
    elif "anyOf" in schema:
        assert set(schema) <= {"anyOf", "description"}
        assert len(schema["anyOf"]) > 1
        for variant in schema["anyOf"]:
            assert "anyOf" not in variant
            assert_strict(variant, root)
    else:
        kind = schema["type"]
        assert set(schema) <= KEYWORDS[kind], (kind, set(schema) - KEYWORDS[kind])
        assert schema.get("format", "date") in FORMATS
        assert schema.get("minItems", 0) in (0, 1)
        if kind == "object":
            assert schema["additionalProperties"] is False
            assert schema["required"] == list(schema["properties"])
            for value in schema["properties"].values():
                assert_strict(value, root)
        if kind == "array":
            assert_strict(schema["items"], root)


def strict_properties(function: Any) -> dict[str, Any]:
    strict = tool(function).info.strict_parameters()
    assert_strict(strict)
    return cast("dict[str, Any]", strict["properties"])


def test_all_is_required_and_what_may_be_left_out_may_be_null() -> None:
    def act(a: str, b: int = 3, c: int | None = None, d: list[str] = [], e: int | None = 4) -> None: ...  # noqa: B006

    assert strict_properties(act) == {
        "a": {"type": "string"},
        "b": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "(null for the default, 3)"},
        "c": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "d": {
            "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
            "description": "(null for the default, [])",
        },
        "e": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "(default: 4)"},
    }


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Annotated[int, Field(ge=1, le=5)], "(at least 1, at most 5)"),
        (Annotated[float, Field(gt=0, lt=1)], "(more than 0, less than 1)"),
        (Annotated[int, Field(multiple_of=3)], "(a multiple of 3)"),
        (Annotated[str, Field(min_length=2, max_length=9)], "(at least 2 characters, at most 9 characters)"),
        (Annotated[list[int], Field(min_length=2, max_length=9)], "(at least 2 items, at most 9 items)"),
        (set[int], "(no item twice)"),
        (Annotated[str, Field(pattern=r"\bto\b")], r'(matching the regular expression "\\bto\\b")'),
        (Annotated[int, Field(description="How many.", ge=1)], "How many. (at least 1)"),
        (Annotated[int, Field(examples=[3, 4])], "(for example 3 or 4)"),
        (tuple[int, str], "(in this order: integer, string) (at least 2 items, at most 2 items)"),
    ],
)
def test_limits_that_are_not_supported_are_said_in_words(annotation: Any, words: str) -> None:
    def act(x: Any) -> None: ...

    act.__annotations__["x"] = annotation
    assert strict_properties(act)["x"]["description"] == words


def test_simple_patterns_common_formats_and_lists_that_are_not_empty_stay() -> None:
    def act(
        a: Annotated[str, Field(pattern="^[a-z]+$")], b: datetime.date, c: Annotated[list[int], Field(min_length=1)]
    ) -> None: ...

    assert strict_properties(act) == {
        "a": {"type": "string", "pattern": "^[a-z]+$"},
        "b": {"type": "string", "format": "date"},
        "c": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
    }


class Node(BaseModel):
    """A node."""

    value: int
    parent: Node | None = Field(default=None, description="Above.")
    children: list[Node] = []


def test_definitions_are_kept_and_recursion_with_them() -> None:
    def act(node: Node, other: Annotated[Node, Field(description="Another.")]) -> None: ...

    strict = tool(act).info.strict_parameters()
    assert_strict(strict)
    assert strict["properties"]["node"] == {"$ref": "#/$defs/Node"}
    # A reference with a text of its own is written out: OpenAI allows nothing beside `$ref`.
    assert strict["properties"]["other"]["description"] == "Another."
    assert strict["properties"]["other"]["properties"] == strict["$defs"]["Node"]["properties"]
    assert strict["$defs"]["Node"]["properties"]["parent"] == {
        "anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}],
        "description": "Above.",
    }


def test_definitions_that_nothing_refers_to_any_more_are_dropped() -> None:
    class Leaf(BaseModel):
        x: int

    def act(leaf: Annotated[Leaf, Field(description="It.")], n: int = 0) -> None: ...

    assert "$defs" not in tool(act).info.strict_parameters()


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]


def test_unions_literals_and_enums_are_flat_any_ofs_of_one_type_each() -> None:
    def act(
        a: Mixed,
        b: Annotated[Cat | Dog, Field(discriminator="kind")],
        c: Literal["x"] | Literal["y", 3] | None,
        d: Decimal,
    ) -> None: ...

    properties = strict_properties(act)
    assert properties["b"] == {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}
    assert {"type": "null"} in properties["c"]["anyOf"]


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": ["string", "null"], "maxLength": 3}, [{"type": "string"}, {"type": "null"}]),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, [{"type": "string"}, {"type": "integer"}]),
        ({"enum": ["a", 1, None]}, None),
        ({"const": 4}, {"type": "integer", "const": 4}),
        ({"allOf": [{"type": "string"}], "description": "d"}, {"type": "string", "description": "d"}),
        ({"allOf": [{"$ref": "#/definitions/S"}]}, {"type": "string", "format": "date"}),
        ({"$ref": "#/definitions/S"}, {"$ref": "#/$defs/S"}),
        ({"properties": {"q": {"type": "boolean"}}}, None),
        ({"type": "string", "format": "uri"}, {"type": "string", "description": '(format "uri")'}),
        ({"anyOf": [{"minimum": 1}, {"maximum": 9}], "type": "integer"}, None),
        ({"type": "string", "x-odd": {"a": 1}, "title": "T", "$comment": "c"}, {"type": "string"}),
    ],
)
def test_schemas_of_others_are_understood(schema: Any, strict: Any) -> None:
    whole = {
        "type": "object",
        "properties": {"x": schema},
        "required": ["x"],
        "definitions": {"S": {"type": "string", "format": "date"}},
    }
    before = json.dumps(whole)
    result = strict_schema(whole)
    assert json.dumps(whole) == before
    assert_strict(result)
    got = result["properties"]["x"]
    if strict is not None:
        assert (got["anyOf"] if isinstance(strict, list) else got) == strict


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "object", "additionalProperties": True}, "x: an object with free keys; use a model"),
        ({"type": "object"}, "x: an object with free keys"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "x: an object with free keys"),
        ({"type": "object", "properties": {"a": {}}}, "x.a: it may be a value of any type; give it a type"),
        ({}, "x: it may be a value of any type"),
        (True, "x: it may be a value of any type"),
        ({"type": "array"}, r"x\[\]: it may be a value of any type; say what the list holds"),
        ({"type": "array", "items": {"type": "array", "items": {}}}, r"x\[\]\[\]: it may be"),
        ({"enum": [{"a": 1}]}, "x: the choice is not among"),
        ({"$ref": "#/$defs/Nowhere"}, "Nowhere: '#/\\$defs/Nowhere' leads nowhere"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "x: the members of allOf differ in 'type'"),
    ],
)
def test_what_has_no_strict_equivalent_is_an_error_with_its_path(schema: Any, message: str) -> None:
    info = ToolInfo(name="act", parameters={"type": "object", "properties": {"x": schema}, "required": ["x"]})
    with pytest.raises(ToolDefinitionError, match=f"tool 'act' cannot be strict: {message}"):
        info.strict_parameters()


def test_a_strict_tool_that_cannot_be_is_refused_when_it_is_made() -> None:
    with pytest.raises(ToolDefinitionError, match="cannot be strict: headers: an object with free keys"):

        @tool(strict=True)
        def fetch(url: str, headers: dict[str, str]) -> None: ...

    @tool(strict=True)
    def get(url: str, retries: int = 3) -> None: ...

    assert get.info.strict
    assert "retries" in get.info.parameters["properties"]


def test_a_root_that_is_no_object_is_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="the parameters are not one object"):
        strict_schema({"anyOf": [{"type": "string"}, {"type": "null"}]})


# --- laws: random models, and what a model in strict mode may send for them


class Pair(BaseModel):
    left: int
    right: str = "r"


def list_of(kind: Any) -> Any:
    return cast("Any", list)[kind]


def or_none(kind: Any) -> Any:
    return kind | None


def either(kinds: tuple[Any, Any]) -> Any:
    return kinds[0] | kinds[1]


plain_types = st.sampled_from([int, str, bool, float, Literal["a", "b"], Mixed, datetime.date, Pair, Node])
types = st.recursive(
    plain_types,
    lambda inner: inner.map(list_of) | inner.map(or_none) | st.tuples(inner, inner).map(either),
    max_leaves=3,
)
fields = st.dictionaries(
    st.from_regex(r"[a-z]{1,6}", fullmatch=True).filter(lambda name: not hasattr(BaseModel, name)),
    st.tuples(types, st.booleans()),
    max_size=4,
)
DEFAULT = object()


@st.composite
def models(draw: st.DrawFn) -> type[BaseModel]:
    """Make a model whose optional fields have defaults that nothing else is equal to."""
    drawn = draw(fields).items()
    made: dict[str, Any] = {name: (kind, ... if required else DEFAULT) for name, (kind, required) in drawn}
    return create_model("Made", **made)


def strictly_sent(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Give the values that a model held to a strict schema may send."""
    if "$ref" in schema:
        definition = root["$defs"][schema["$ref"].rpartition("/")[2]]
        return st.deferred(lambda: strictly_sent(definition, root, depth + 1))
    if "anyOf" in schema:
        variants = schema["anyOf"]
        if depth > 3 and {"type": "null"} in variants:
            return st.none()
        return st.one_of([strictly_sent(variant, root, depth) for variant in variants])
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    match schema["type"]:
        case "object":
            return st.fixed_dictionaries(
                {name: strictly_sent(value, root, depth + 1) for name, value in schema["properties"].items()}
            )
        case "array":
            return st.lists(strictly_sent(schema["items"], root, depth + 1), max_size=2 if depth < 3 else 0)
        case "string" if schema.get("format") == "date":
            return st.dates().map(str)
        case kind:
            simple: dict[str, st.SearchStrategy[Any]] = {
                "string": st.text(max_size=5),
                "integer": st.integers(-(2**40), 2**40),
                "number": st.floats(allow_nan=False, allow_infinity=False),
                "boolean": st.booleans(),
                "null": st.none(),
            }
            return simple[kind]


@given(models(), st.data())
def test_what_fits_the_strict_schema_fits_the_tool_and_null_gives_the_default(
    model: type[BaseModel], data: st.DataObject
) -> None:
    made: FunctionTool[..., Any] = tool(model)
    strict = made.info.strict_parameters()
    assert_strict(strict)
    assert strict == ToolInfo.model_validate_json(made.info.model_dump_json()).strict_parameters()
    sent = data.draw(strictly_sent(strict, strict))
    value = made.validate(json.dumps(sent))["value"]
    for name, field in model.model_fields.items():
        knows_null = re.search(r"None|Optional", str(field.annotation)) is not None
        if sent[name] is None and not field.is_required() and not knows_null:
            assert getattr(value, name) is DEFAULT
        if sent[name] is not None:
            assert getattr(value, name) is not DEFAULT
