"""What a model is told about a tool. Numbers are those of the reference's cases."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import Doc

from anabranch.schema._tool import FunctionTool, ToolInfo, tool


def properties(made: FunctionTool[..., Any]) -> dict[str, Any]:
    return dict(made.info.parameters["properties"])


def test_name_description_and_parameters_come_from_the_function() -> None:
    @tool
    def search(query: str, limit: int = 10) -> str:
        """Search the tide tables.

        Old ones too.

        Args:
            query: A place, or
                a harbour.
            limit: How many.

        Returns:
            A list.
        """
        return f"{query} {limit}"

    assert search.info == ToolInfo(
        name="search",
        description="Search the tide tables.\n\nOld ones too.",
        parameters={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "A place, or a harbour."},
                "limit": {"type": "integer", "default": 10, "description": "How many."},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    )


GOOGLE = """Do it.

    Args:
        a (int): the a
        b: the b

    Raises:
        ValueError: never
    """
NUMPY = """Do it.

    Parameters
    ----------
    a : int
        the a
    b : str, optional
        the b

    Returns
    -------
    str
        x
    """
REST = """Do it.

    :param int a: the a
    :param b: the b
    :returns: x
    """
EPYTEXT = """Do it.

    @param a: the a
    @param b: the b
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST, EPYTEXT])
def test_every_docstring_style_describes_the_parameters(docstring: str) -> None:
    def act(a: int, b: str = "") -> str:
        return f"{a}{b}"

    act.__doc__ = docstring
    made = tool(act)
    assert made.info.description == "Do it."
    assert {name: value["description"] for name, value in properties(made).items()} == {"a": "the a", "b": "the b"}


def test_numpy_docstrings_may_describe_two_parameters_at_once() -> None:
    @tool
    def act(a: int, b: int) -> int:
        """Do it.

        Parameters
        ----------
        a, b : int
            a number
        """
        return a + b

    assert [value["description"] for value in properties(act).values()] == ["a number", "a number"]


def test_lists_in_a_parameters_text_keep_their_lines() -> None:
    @tool
    def act(mode: str) -> str:
        """Do it.

        Args:
            mode: One of:
                - fast: at once
                - deep: with care
        """
        return mode

    assert properties(act)["mode"]["description"] == "One of:\n- fast: at once\n- deep: with care"


def test_a_docstring_without_sections_is_the_description() -> None:
    @tool
    def act() -> None:
        """Do it:

        now - and well.
        """

    assert act.info.description == "Do it:\n\nnow - and well."


def test_a_function_without_docstring_has_no_description() -> None:
    @tool
    def act() -> None: ...

    assert act.info.description == ""
    assert act.info.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Literal["fast", "deep"], {"enum": ["fast", "deep"], "type": "string"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Annotated[int, Field(ge=1, description="n")], {"type": "integer", "minimum": 1, "description": "n"}),
        (Annotated[int, "n"], {"type": "integer", "description": "n"}),
        (Annotated[int, Doc("n")], {"type": "integer", "description": "n"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Any, {}),
    ],
)
def test_annotations_become_json_schema(annotation: Any, schema: dict[str, Any]) -> None:
    def act(value: Any) -> None: ...

    act.__annotations__["value"] = annotation
    made = tool(act)
    assert properties(made) == {"value": schema}
    assert made.info.parameters["required"] == ["value"]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    """Where somebody lives.

    Attributes:
        street: With the number.
    """

    street: str
    colour: Colour = Colour.RED


def test_nested_models_stay_definitions_with_their_docstrings() -> None:
    @tool
    def move(to: Address, via: list[Address] | None = None) -> str:
        """Move."""
        return f"{to} {via}"

    schema = move.info.parameters
    assert schema["properties"]["to"] == {"$ref": "#/$defs/Address"}
    assert schema["$defs"]["Address"] == {
        "description": "Where somebody lives.",
        "type": "object",
        "properties": {
            "street": {"type": "string", "description": "With the number."},
            "colour": {"$ref": "#/$defs/Colour", "default": "red"},
        },
        "required": ["street"],
    }


def test_case_100_required_is_what_has_no_default_also_in_nested_objects() -> None:
    class A(BaseModel):
        z: int
        y: Literal["1"] = "1"

    @tool
    def act(b: list[str], a: A | None = None) -> str:
        return f"{a} {b}"

    schema = act.info.parameters
    assert list(schema["properties"]) == ["b", "a"]  # as declared: models read them in this order
    assert schema["required"] == ["b"]
    assert list(schema["$defs"]["A"]["properties"]) == ["z", "y"]
    assert schema["$defs"]["A"]["required"] == ["z"]


@pytest.mark.parametrize("parameters", [None, {}])
def test_case_101_no_parameters_and_empty_ones_are_an_object_without_properties(parameters: Any) -> None:
    info = ToolInfo(name="now", parameters=parameters)
    assert info.parameters == ToolInfo(name="now").parameters == {"type": "object", "properties": {}}
    assert ToolInfo.model_validate_json(info.model_dump_json()) == info


def test_case_106_a_description_may_have_commas() -> None:
    @tool
    def act(a: Annotated[int, Field(description="short, and whole")], b: int) -> int:
        """Do it.

        Args:
            b: desc, with comma
        """
        return a + b

    assert [value["description"] for value in properties(act).values()] == ["short, and whole", "desc, with comma"]


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


@pytest.mark.anyio
async def test_case_107_a_type_that_refers_to_itself_has_a_definition() -> None:
    @tool
    async def add_up(tree: Tree, depth: int = 1) -> int:
        return tree.value + depth

    schema = add_up.info.parameters
    assert schema["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    arguments = add_up.validate('{"tree": {"value": 1, "children": [{"value": 2}]}}')
    assert arguments["tree"].children == [Tree(value=2)]


def test_titles_that_only_repeat_a_name_are_left_out_and_others_kept() -> None:
    @tool
    def act(to: Address, n: Annotated[int, Field(title="Number")]) -> None: ...

    assert "title" not in act.info.parameters["$defs"]["Address"]
    assert properties(act)["n"] == {"type": "integer", "title": "Number"}


def test_parameters_may_be_named_like_what_models_reserve() -> None:
    @tool
    def act(model_config: int, schema: str, json: str = "", copy: bool = False, self_: int = 1) -> str:
        return f"{model_config}{schema}{json}{copy}{self_}"

    assert list(properties(act)) == ["model_config", "schema", "json", "copy", "self_"]
    assert act.validate({"model_config": 1, "schema": "x"})["schema"] == "x"


def test_an_alias_is_what_the_model_sees() -> None:
    @tool
    def mail(to: str, from_: Annotated[str, Field(alias="from")] = "me") -> str:
        return f"{from_} {to}"

    assert list(properties(mail)) == ["to", "from"]
    assert mail.validate('{"to": "you", "from": "her"}') == {"to": "you", "from_": "her"}


def test_a_field_may_be_the_default() -> None:
    @tool
    def act(n: int = Field(3, ge=1, description="How many."), m: str = Field(description="Which.")) -> str:
        return f"{n}{m}"

    assert properties(act)["n"] == {"type": "integer", "default": 3, "minimum": 1, "description": "How many."}
    assert act.info.parameters["required"] == ["m"]
    assert act.validate({"m": "x"}) == {"n": 3, "m": "x"}


def test_a_default_that_is_no_json_is_not_shown_but_used() -> None:
    marker = object()

    def act(x: Any = None) -> Any:
        return x

    act.__defaults__ = (marker,)
    made = tool(act)
    assert properties(made) == {"x": {}}
    assert made.validate(None)["x"] is marker


def test_a_mutable_default_is_not_shared_between_calls() -> None:
    @tool
    def act(xs: list[int] = []) -> list[int]:  # noqa: B006
        return xs

    act.validate(None)["xs"].append(1)
    assert act.validate(None) == {"xs": []}
