from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import anyio
import pytest
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    Approval,
    Chain,
    Graph,
    Map,
    MemoryStore,
    RunOptions,
    ToolsNode,
    Workflow,
    current_state,
    emit,
    field,
    interrupt,
)
from anabranch.schema import Message, ModelOptions, ToolCall, tool

CASES: dict[str, Callable[[], Any]] = {}


def case(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def note(provoke: Callable[[], Any]) -> Callable[[], Any]:
        CASES[name] = provoke
        return provoke

    return note


class Notes(BaseModel):
    count: int = 0


class User(BaseModel):
    name: str


@tool(timeout=0.001)
async def slow(place: str) -> str:
    """Take long."""
    await anyio.sleep(60)
    return place


@tool
def tide(place: str) -> str:
    """Tell the tide."""
    raise ValueError(f"no tide in {place}")


async def shout(text: str) -> str:
    return text.upper()


async def ask(text: str) -> bool:
    return await interrupt(Approval(action="delete", target=text), answer=bool)


def line(node: Any, output: Any = str, **options: Any) -> Graph[str, Any]:
    """Make a graph of one node."""
    graph: Graph[str, Any] = Graph(input=str, output=output, state=Notes)
    graph.add_node("work", node, **options)
    graph.add_edge(START, "work")
    graph.add_edge("work", END)
    return graph


async def run(node: Any, value: str = "x", options: RunOptions | None = None, **settings: Any) -> Any:
    return await line(node, Any, **settings).compile().invoke(value, options)


def failing(error: Exception) -> Any:
    async def work(text: str) -> str:
        raise error

    return work


# -- graphs that cannot be compiled ----------------------------------------------------------------------------


@case("GraphCompileError, names")
def _() -> None:
    graph = Graph[str, str]()
    graph.add_node("draft", shout)
    graph.add_edge(START, "daft")
    graph.add_edge("draft", END)
    graph.add_node("draft", shout)
    graph.add_node("end", shout)

    def good(text: str) -> Literal["draft", "ned"]:
        return "draft"

    graph.add_branch("draft", good)
    graph.compile()


@case("GraphCompileError, types")
def _() -> None:
    async def size(text: str) -> int:
        return len(text)

    def remember(value: str, state: User) -> str:
        return value

    graph = Graph[str, str](state=Notes)
    graph.add_node("size", size, pre=remember)
    graph.add_node("shout", shout)
    graph.add_edge(START, "size")
    graph.add_edge("size", "shout")
    graph.add_edge("shout", END)
    graph.compile()


@case("GraphCompileError, ways")
def _() -> None:
    graph = Graph[str, str]()
    for key in ("a", "b", "lost"):
        graph.add_node(key, shout)
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    graph.add_edge("b", "a")
    graph.compile(trigger="all")


@case("GraphCompileError, fields")
def _() -> None:
    workflow = Workflow[User, str]()
    workflow.add_node("shout", shout).input(START, field("nmae"))
    workflow.end.input("shout")
    workflow.compile()


@case("GraphCompileError, an unmergeable fan-in")
def _() -> None:
    graph = Graph[str, str]()
    for key in ("a", "b"):
        graph.add_edge(START, graph.add_node(key, shout))
        graph.add_edge(key, END)
    graph.compile()


@case("GraphCompileError, a chain")
def _() -> None:
    (Chain[int, str]() | shout).compile()


@case("GraphCompileError, what a store could not keep")
def _() -> None:
    graph = Graph[str, str](state=asyncio.Lock)
    graph.add_node("work", shout)
    graph.add_edge(START, "work")
    graph.add_edge("work", END)
    graph.compile(store=MemoryStore())


@case("GraphWarning")
def _() -> None:
    graph = Graph[str, dict[str, Any]]()
    for key in ("a", "b", "c"):
        graph.add_node(key, shout, output_key=key) if key != "b" else graph.add_node(key, shout)
    graph.add_edge(START, "a")
    graph.add_edge(START, "b")
    graph.add_edge("b", "c")
    graph.add_edge("a", END)
    graph.add_edge("c", END)
    graph.compile()


# -- runs that fail --------------------------------------------------------------------------------------------


@case("NodeError")
async def _() -> None:
    await run(line(failing(ValueError("no such tide"))))


@case("NodeError, a condition")
async def _() -> None:
    graph = Graph[str, str]()
    graph.add_node("work", shout)
    graph.add_edge(START, "work")
    scores: dict[object, str] = {}
    graph.add_branch("work", lambda text: scores[text], ends=["end"], name="good enough")
    await graph.compile().invoke("x")


@case("NodeError, an item of a map")
async def _() -> None:
    async def size(text: str) -> int:
        raise ValueError(text)

    graph = Graph[list[str], list[int]]()
    graph.add_edge(START, graph.add_node("each", Map(size)))
    graph.add_edge("each", END)
    await graph.compile().invoke(["a"])


@case("NodeTimeoutError")
async def _() -> None:
    async def work(text: str) -> str:
        await anyio.sleep(60)
        return text

    await run(work, timeout=0.001)


@case("ValueTypeError, the input")
async def _() -> None:
    await line(shout).compile().invoke(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@case("ValueTypeError, an edge")
async def _() -> None:
    async def maybe(text: str) -> str | int:
        return len(text)

    graph = Graph[str, str]()
    graph.add_node("maybe", maybe)
    graph.add_node("shout", shout)
    graph.add_edge(START, "maybe")
    graph.add_edge("maybe", "shout")
    graph.add_edge("shout", END)
    await graph.compile().invoke("x")


@case("MergeError")
async def _() -> None:
    async def say(text: str) -> dict[str, Any]:
        return {"text": text}

    graph = Graph[str, dict[str, Any]]()
    for key in ("a", "b"):
        graph.add_edge(START, graph.add_node(key, say))
        graph.add_edge(key, END)
    await graph.compile().invoke("x")


@case("MissingKeyError")
async def _() -> None:
    graph = Graph[dict[str, str], str]()
    graph.add_node("work", shout, input_key="text")
    graph.add_edge(START, "work")
    graph.add_edge("work", END)
    await graph.compile().invoke({"txet": "x"})


@case("UnknownTargetError")
async def _() -> None:
    graph = Graph[str, str]()
    graph.add_node("draft", shout)
    graph.add_edge(START, "draft")
    graph.add_branch("draft", lambda text: "daft", ends=["draft", "end"], name="good enough")
    await graph.compile().invoke("x")


@case("StepLimitExceeded")
async def _() -> None:
    graph = Graph[str, str](max_steps=3)
    graph.add_node("draft", shout)
    graph.add_edge(START, "draft")
    graph.add_branch("draft", lambda text: "draft", ends=["draft", "end"])
    await graph.compile().invoke("x")


@case("RunStalledError")
async def _() -> None:
    graph = Graph[str, str]()
    graph.add_node("a", shout)
    graph.add_node("b", shout)
    graph.add_edge(START, "a")
    graph.add_branch("a", lambda text: [], ends=["b", "end"])
    graph.add_edge("b", END)
    await graph.compile().invoke("x")


@case("RunOptionsError, a path")
async def _() -> None:
    await run(shout, options=RunOptions(at={"wrok": ModelOptions()}))


@case("RunOptionsError, a kind")
async def _() -> None:
    await run(shout, options=RunOptions(at={"work": ModelOptions()}))


@case("RunOptionsError, for all")
async def _() -> None:
    await run(shout, options=RunOptions(for_all=[ModelOptions(temperature=0)]))


@case("RunOptionsError, a run's id without a store")
async def _() -> None:
    await line(shout).compile().invoke("x", run="r1")


@case("InterruptError, nobody to ask")
async def _() -> None:
    await run(ask)


@case("InterruptError, outside of a run")
async def _() -> None:
    await ask("notes.txt")


@case("StateError, another type")
async def _() -> None:
    async def work(text: str) -> str:
        with current_state(User) as user:
            return user.name

    await run(work)


@case("StateError, entered twice")
async def _() -> None:
    async def work(text: str) -> str:
        with current_state(Notes), current_state(Notes):
            return text

    await run(work)


@case("StateError, held across an await")
async def _() -> None:
    async def work(text: str) -> str:
        with current_state(Notes):
            await anyio.lowlevel.checkpoint()
        return text

    await run(work)


@case("RuntimeError, emit outside of a run")
def _() -> None:
    emit("x")


@case("TypeError, an unknown option of a node")
def _() -> None:
    Graph[str, str]().add_node("work", shout, retrys=2)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


# -- tools -----------------------------------------------------------------------------------------------------


async def call(name: str, arguments: str = '{"place": "Dover"}', **message: Any) -> str:
    """Give what a model is told about a call."""
    graph = Graph[Message, list[Message]]()
    graph.add_edge(START, graph.add_node("tools", ToolsNode([tide, slow], on_error="raise")))
    graph.add_edge("tools", END)
    calls = [ToolCall(id="c1", name=name, arguments=arguments)]
    (answer,) = await graph.compile().invoke(Message.assistant(tool_calls=calls, **message))
    return answer.text


@case("ToolFailedError")
async def _() -> None:
    await call("tide")


@case("UnknownToolError")
async def _() -> None:
    await call("tied")


@case("ToolTimeoutError")
async def _() -> None:
    await call("slow")


@case("ToolCallCutError")
async def _() -> None:
    await call("tide", '{"pla', finish_reason="length")


@pytest.mark.anyio
@pytest.mark.once
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_texts_of_compose(compare_texts: Any) -> None:
    await compare_texts("compose", CASES)
