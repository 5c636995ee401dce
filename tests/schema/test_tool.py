"""What can be a tool and what cannot."""

from __future__ import annotations

import dataclasses
import functools
import threading
import typing
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from anabranch.schema._tool import FunctionTool, ToolInfo, tool
from anabranch.schema.errors import ToolArgumentsError, ToolDefinitionError


def properties(made: FunctionTool[..., Any]) -> dict[str, Any]:
    return dict(made.info.parameters["properties"])


class Order(BaseModel):
    """An order."""

    item: str
    count: int = 1


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Named(TypedDict):
    name: str


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "arguments", "value"),
    [
        (Order, {"item": "a"}, Order(item="a")),
        (Point, {"x": 1}, Point(1, 0)),
        (Named, {"name": "n"}, {"name": "n"}),
    ],
)
async def test_one_object_as_the_only_parameter_is_the_arguments(kind: Any, arguments: Any, value: Any) -> None:
    async def act(it: Any) -> Any:
        """Act."""
        return it

    act.__annotations__["it"] = kind
    made = tool(act)
    assert set(properties(made)) >= set(arguments)
    assert made.info.parameters["additionalProperties"] is False
    assert made.info.description == "Act."
    assert await made.run(arguments) == value
    with pytest.raises(ToolArgumentsError, match="colour: is not a known name"):
        made.validate({**arguments, "colour": "red"})


def test_one_object_that_may_be_missing_is_a_parameter_like_others() -> None:
    @tool
    def act(order: Order | None = None) -> str:
        return str(order)

    assert list(properties(act)) == ["order"]


def test_a_recursive_object_as_the_only_parameter_is_the_root_itself() -> None:
    @tool
    def act(tree: Tree) -> None: ...

    assert act.info.parameters["type"] == "object"
    assert set(properties(act)) == {"value", "children"}


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [Order, Point, Named])
async def test_a_class_is_a_tool_that_gives_its_instance(kind: Any) -> None:
    made = tool(kind)
    assert made.info.name == kind.__name__
    arguments: Any = {Order: {"item": "a"}, Point: {"x": 1}, Named: {"name": "n"}}[kind]
    assert await made.run(arguments) == kind(**arguments)


def test_the_description_of_a_class_is_its_docstring() -> None:
    assert tool(Order).info.description == "An order."
    assert tool(Point).info.description == ""  # the one that dataclasses write says nothing


class Shop:
    def __init__(self, price: int) -> None:
        self.price = price

    @tool
    async def cost(self, count: int) -> int:
        """Tell the cost."""
        return self.price * count

    @tool(name="slow_cost")
    def blocking_cost(self, count: int) -> int:
        return self.price * count

    @staticmethod
    @tool
    async def hello(name: str) -> str:
        return f"hello {name}"

    def plain(self, count: int) -> int:
        return self.price + count

    @classmethod
    def made(cls, price: int) -> str:
        return f"{cls.__name__}{price}"

    async def __call__(self, question: str) -> str:
        """Answer."""
        return f"{question}{self.price}"


@pytest.mark.anyio
async def test_a_decorated_method_is_bound_by_its_instance() -> None:
    cheap, dear = Shop(1), Shop(100)
    assert await cheap.cost.run({"count": 3}) == 3
    assert await dear.cost.run({"count": 3}) == 300
    assert await dear.cost(count=2) == 200
    assert await dear.blocking_cost.run({"count": 2}) == 200
    assert dear.cost.info is cheap.cost.info
    assert list(properties(dear.cost)) == ["count"]
    assert await Shop.hello.run({"name": "x"}) == "hello x"


@pytest.mark.anyio
async def test_a_method_without_its_instance_says_so() -> None:
    assert Shop.cost.info.name == "cost"
    with pytest.raises(ToolDefinitionError, match=r"tool 'cost' is a method; run it on an instance"):
        await Shop.cost.run({"count": 1})


@pytest.mark.anyio
async def test_bound_methods_partials_and_callable_objects_are_functions() -> None:
    shop = Shop(2)
    assert await tool(shop.plain).run({"count": 1}) == 3
    assert await tool(Shop.made).run({"price": 1}) == "Shop1"
    assert await tool(shop).run({"question": "x"}) == "x2"
    assert (tool(shop).info.name, tool(shop).info.description) == ("Shop", "Answer.")


@pytest.mark.anyio
async def test_what_a_partial_binds_is_hidden_from_the_model() -> None:
    async def ask(question: str, database: threading.Thread, limit: int = 1) -> str:
        """Ask."""
        return f"{question} {database.name} {limit}"

    made = tool(functools.partial(ask, database=threading.Thread(name="db"), limit=7))
    assert (made.info.name, made.info.description, list(properties(made))) == ("ask", "Ask.", ["question"])
    assert await made.run({"question": "x"}) == "x db 7"
    with pytest.raises(ToolArgumentsError, match="limit: is not a known name"):
        made.validate({"question": "x", "limit": 3})


@pytest.mark.anyio
async def test_a_decorated_function_keeps_the_signature_of_what_it_wraps() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    async def act(n: int) -> int:
        """Act."""
        return n

    assert list(properties(act)) == ["n"]
    assert await act.run({"n": "3"}) == 3


def test_annotations_may_name_what_is_local_to_the_maker() -> None:
    class Local(BaseModel):
        x: int

    @tool(description="by a call of the decorator")
    def act(local: Local, n: int = 0) -> Local:
        return local

    assert act.validate({"local": {"x": 1}})["local"] == Local(x=1)
    assert tool(act.__wrapped__).info.name == "act"


def test_a_return_type_that_cannot_be_resolved_is_of_no_account() -> None:
    def act(n: int) -> Any:
        return n

    act.__annotations__["return"] = "Nowhere"
    assert tool(act).info.name == "act"


def test_calling_a_tool_calls_the_function_and_validates_nothing() -> None:
    @tool
    def act(n: int) -> list[int]:
        return [n]

    assert act(3) == [3]
    assert typing.cast("Any", act)("x") == ["x"]
    assert (act.__name__, act.__module__) == ("act", __name__)
    assert repr(act) == "<tool 'act'>"


@pytest.mark.anyio
async def test_a_tool_may_be_had_under_other_options() -> None:
    @tool(risk="sensitive", retries=2)
    async def act(n: int) -> int:
        """Act."""
        return n

    other = act.with_options(name="do", timeout=3, extra={"a": 1})
    assert (other.info.name, other.info.description, other.info.extra) == ("do", "Act.", {"a": 1})
    assert (other.risk, other.retries, other.timeout) == ("sensitive", 2, 3)
    assert (act.info.name, act.timeout) == ("act", None)
    assert await other.run(act.validate({"n": 1})) == 1
    with pytest.raises(ToolArgumentsError, match="The arguments of 'do' do not fit"):
        other.validate({})
    with pytest.raises(ToolArgumentsError, match="The arguments of 'act' do not fit"):
        act.validate({})
    with pytest.raises(ToolDefinitionError, match="retries is a count"):
        act.with_options(retries=-1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nmae'"):
        act.with_options(**typing.cast("Any", {"nmae": "x"}))
    assert await Shop(3).cost.with_options(name="price").run({"count": 2}) == 6


def test_options_are_kept() -> None:
    @tool(name="rm", description="Remove.", risk="destructive", parallel=False, timeout=3, retries=2, extra={"a": 1})
    async def remove(path: str) -> None: ...

    assert (remove.info.name, remove.info.description, remove.info.extra) == ("rm", "Remove.", {"a": 1})
    assert (remove.risk, remove.parallel, remove.timeout, remove.retries) == ("destructive", False, 3, 2)
    assert not remove.streaming


def bare(x: Any) -> None: ...
def positional(x: int, /) -> None: ...
def many(*xs: int) -> None: ...
def free(**xs: int) -> None: ...
def unknown(x: Any) -> None: ...
def unfit(fine: int, x: Callable[[], int]) -> None: ...
def unfit_class(x: threading.Thread) -> None: ...


del bare.__annotations__["x"]
unknown.__annotations__["x"] = "Nowhere"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (bare, "parameter 'x': it has no annotation"),
        (positional, "parameter 'x': it can be given by position only"),
        (many, r"parameter 'xs': '\*' takes arguments by position"),
        (free, r"parameter 'xs': '\*\*' takes any name"),
        (unknown, "parameter 'x': its annotation 'Nowhere' cannot be evaluated: name 'Nowhere' is not defined"),
        (unfit, "tool 'unfit' cannot be made:\n- parameter 'x': no JSON schema"),
        (unfit_class, "parameter 'x': no JSON schema can be made of its type Thread"),
        (lambda: 1, "the name is not 1 to 64"),
        (Shop, "the class is no model"),
        (3, "an? int cannot be called"),
        (dict.fromkeys, "signature cannot be read|by position"),
    ],
)
def test_a_wrong_signature_is_an_error_that_names_the_parameter(function: Any, message: str) -> None:
    with pytest.raises(ToolDefinitionError, match=message):
        tool(function)


def test_all_wrong_parameters_are_named_at_once_with_the_place() -> None:
    def act(a: Any, b: int, *c: int, d: Any = 3) -> None: ...

    del act.__annotations__["a"], act.__annotations__["d"]
    with pytest.raises(ToolDefinitionError) as caught:
        tool(act)
    text = str(caught.value)
    assert "test_tool.py:" in text
    assert [line.partition(":")[0] for line in text.splitlines()[1:]] == [
        "- parameter 'a'",
        "- parameter 'c'",
        "- parameter 'd'",
    ]
    assert "'d: int'" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "a b"}, "the name is not"),
        ({"name": "x" * 65}, "the name is not"),
        ({"risk": "high"}, "risk is one of safe, sensitive, destructive, not 'high'"),
        ({"retries": -1}, "retries is a count"),
        ({"timeout": 0}, "timeout is in seconds"),
        ({"in_thread": True}, "is async and runs in place"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: Any, message: str) -> None:
    async def act() -> None: ...

    with pytest.raises(ToolDefinitionError, match=message):
        tool(act, **options)


def test_a_tool_of_a_tool_and_of_a_class_method_are_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="it is a tool already"):
        tool(tool(Order))
    with pytest.raises(ToolDefinitionError, match="a class method is bound by its class"):
        tool(vars(Shop)["made"])
    with pytest.raises(TypeError, match="unexpected keyword argument 'nmae'"):
        tool(Order, **typing.cast("Any", {"nmae": "x"}))


@pytest.mark.parametrize("parameters", [{"type": "string"}, {"type": "array", "items": {}}])
def test_the_arguments_of_a_tool_are_an_object(parameters: Any) -> None:
    with pytest.raises(ValueError, match="the arguments of a tool are an object"):
        ToolInfo(name="x", parameters=parameters)


def test_a_tools_description_cannot_be_changed() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"type": "string"}}}
    info = ToolInfo(name="x", parameters=schema)
    schema["properties"]["a"]["type"] = "integer"
    assert info.parameters == {"type": "object", "properties": {"a": {"type": "string"}}}
    with pytest.raises(TypeError):
        typing.cast("Any", info.parameters)["type"] = "array"
    with pytest.raises(ValueError, match="frozen"):
        typing.cast("Any", info).name = "y"
