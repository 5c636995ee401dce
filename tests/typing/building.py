# P: reportUnnecessaryTypeIgnoreComment=true
"""What is known of chains, workflows, state, tools, templates and compiled graphs, checked by mypy and pyright.

What handlers, state and field mappings are about is known only when a graph is compiled; here they have to be of the
right shape.

Above a line that must be refused stands what mypy (M) and pyright (P) say, "…" for anything between; a test compares.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, assert_type

from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    Chain,
    Done,
    Graph,
    Interrupt,
    Lambda,
    Map,
    MemoryStore,
    Node,
    Paused,
    Runnable,
    RunOptions,
    Workflow,
    WorkflowNode,
    current_state,
    field,
    interrupt,
    step,
)
from anabranch.flow import ReactAgent
from anabranch.schema import (
    ChatModel,
    ChatTemplate,
    FunctionTool,
    Message,
    MessageParser,
    Placeholder,
    StreamReader,
    tool,
)


class Notes(BaseModel):
    count: int = 0


def count(text: str) -> int:
    return len(text)


async def count_later(text: str) -> int:
    return len(text)


async def words(text: str) -> AsyncIterator[str]:
    for word in text.split():
        yield word


def double(number: int) -> int:
    return 2 * number


def chains(model: ChatModel, template: ChatTemplate) -> None:
    assert_type(Chain[str, str]() | words | count | double, Chain[str, int])
    assert_type(Chain[str, str]() | Lambda(invoke=count), Chain[str, int])
    assert_type(Chain[str, str]() | (Chain[str, str]() | count), Chain[str, int])
    assert_type(Chain[str, str]() | (Chain[str, str]() | count).compile(), Chain[str, int])
    assert_type(Chain[str, str]() | {"a": count, "b": words}, Chain[str, dict[str, Any]])
    assert_type(Chain[str, list[Message]]() | model, Chain[str, Message])
    assert_type((Chain[str, str]() | count_later).compile(), Runnable[str, int])
    # M: Unsupported operand types for |…"Chain[str, str]"
    # P: Operator "|" not supported for types "Chain[str, str]" and "(number: int) -> int"
    Chain[str, str]() | double  # type: ignore[operator]
    # M: Unsupported operand types for |…"Chain[str, str]" and "Chain[int, int]"
    # P: Operator "|" not supported for types "Chain[str, str]" and "Chain[int, int]"
    Chain[str, str]() | Chain[int, int]()  # type: ignore[operator]
    # M: No overload variant of "__or__" of "Chain" matches argument type "ChatModel"
    # P: Operator "|" not supported for types "Chain[str, str]" and "ChatModel"
    Chain[str, str]() | model  # type: ignore[operator]


def compiled(app: Runnable[str, int]) -> None:
    graph = Graph[str, int]()
    assert_type(graph.add_node("app", app), Node[str, int])
    assert_type(graph.add_node("chain", Chain[str, str]() | count), Node[str, int])
    assert_type(graph.compile(store=MemoryStore()), Runnable[str, int])
    # M: Unexpected keyword argument "max_step" for "compile"
    # P: No parameter named "max_step"
    graph.compile(max_step=3)  # type: ignore[call-arg]
    # M: Argument "trigger" to "compile"… expected "Literal['any', 'all']"
    # P: "Literal['both']" is not assignable to type "Trigger"
    graph.compile(trigger="both")  # type: ignore[arg-type]


async def running(app: Runnable[str, int], reader: StreamReader[str]) -> None:
    assert_type(await app.invoke("x", RunOptions(max_steps=3), run="r1"), int)
    async with app.transform(reader) as out:
        assert_type(out, StreamReader[int])
    assert_type(await app.resume("r1", answer=True), int)
    outcome = await app.start("x", run="r1")
    assert_type(outcome, Done[int] | Paused)
    if isinstance(outcome, Done):
        assert_type(outcome.value, int)
    # M: Argument 1 to "invoke" of "Runnable" has incompatible type "bytes"; expected "str"
    # P: "Literal[b"x"]" is not assignable to "str"
    await app.invoke(b"x")  # type: ignore[arg-type]
    # M: Incompatible types in assignment (expression has type "int", variable has type "str")
    # P: "int" is not assignable to "str"
    answer: str = await app.invoke("x")  # type: ignore[assignment]
    # M: Argument "max_steps" to "RunOptions" has incompatible type "str"
    # P: "Literal['3']" is not assignable to "int"
    RunOptions(max_steps="3")  # type: ignore[arg-type]
    assert answer


def branches() -> None:
    graph = Graph[str, str]()
    counted = graph.add_node("count", count)

    def is_long(number: int) -> str:
        return "count" if number > 3 else "end"

    def is_loud(text: str) -> str:
        return "count" if text.isupper() else "end"

    graph.add_branch(counted, is_long, ["count", END])
    graph.add_branch(START, is_loud, ["count", END])
    # M: Argument 2 to "add_branch" of "Graph" has incompatible type "Callable[[str], str]"
    # P: "(text: str) -> str" cannot be assigned to parameter "condition"
    graph.add_branch(counted, is_loud, ["count", END])  # type: ignore[arg-type]


def handlers() -> None:
    def before(text: str, state: Notes) -> str:
        state.count += 1
        return text

    graph = Graph[str, int](state=Notes)
    assert_type(graph.add_node("count", count, pre=before), Node[str, int])
    # M: Argument "pre" to "add_node" of "Graph" has incompatible type "Callable[[str], int]"
    # P: No overloads for "add_node" match
    graph.add_node("again", count, pre=count)  # type: ignore[arg-type]
    # M: No overload variant of "add_node" of "Graph" matches
    # P: No overloads for "add_node" match
    graph.add_node("more", count, retrys=1)  # type: ignore[call-overload]
    # M: Argument "state" to "Graph" has incompatible type "Notes"
    # P: "Notes" is not assignable to type "() -> Any"
    Graph[str, int](state=Notes())  # type: ignore[arg-type]


async def state() -> None:
    with current_state(Notes) as notes:
        assert_type(notes, Notes)
        # M: "Notes" has no attribute "cuont"
        # P: Cannot access attribute "cuont" for class "Notes"
        notes.cuont += 1  # type: ignore[attr-defined]
    async with current_state(Notes) as notes:
        assert_type(notes.count, int)


async def asking(question: Interrupt) -> None:
    assert_type(await interrupt("sure?", answer=bool), bool)
    assert_type(await step("count", count_later, "x"), int)
    # M: No overload variant of "step" matches
    # P: "Literal[7]" is not assignable to "str"
    await step("count", count_later, 7)  # type: ignore[call-overload]
    assert_type(question.id, str)


def workflows() -> None:
    workflow = Workflow[dict[str, str], int]()
    node = workflow.add_node("count", count)
    assert_type(node.input(START, field("text")).after("other").static("lang", "en"), WorkflowNode)
    assert_type(workflow.compile(), Runnable[dict[str, str], int])
    # M: Argument 2 to "input" of "WorkflowNode" has incompatible type "int"; expected "FieldMapping | str"
    # P: "Literal[7]" is not assignable to type "FieldMapping | str"
    node.input(START, 7)  # type: ignore[arg-type]
    # M: Argument "extract" to "field" has incompatible type "str"
    # P: "Literal['text']" is not assignable to type "((Any) -> Any) | None"
    field(extract="text")  # type: ignore[arg-type]


def maps() -> None:
    graph = Graph[list[str], list[int]]()
    assert_type(graph.add_node("each", Map(count), input=list[str], output=list[int]), Node[list[str], list[int]])
    # M: Argument "on_error" to "Map" has incompatible type "Literal['skip']"
    # P: "Literal['skip']" is not assignable to type "Literal['raise', 'collect']"
    Map(count, on_error="skip")  # type: ignore[arg-type]


@tool
def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


@tool(risk="safe")
async def fetch(url: str) -> str:
    """Fetch a page."""
    return url


async def tools() -> None:
    assert_type(add(1, b=2), int)
    assert_type(await fetch("x"), str)
    made: FunctionTool[[str], Coroutine[Any, Any, str]] = fetch
    assert_type(made.info.name, str)
    # M: Argument 1 to "__call__" of "FunctionTool" has incompatible type "str"; expected "int"
    # P: "Literal['1']" is not assignable to "int"
    add("1")  # type: ignore[arg-type]
    # M: Unexpected keyword argument "c"
    # P: No parameter named "c"
    add(1, c=2)  # type: ignore[call-arg]
    # M: No overload variant of "tool" matches
    # P: "Literal['high']" is not assignable to type "Risk"
    tool(count, risk="high")  # type: ignore[call-overload]


def templates(template: ChatTemplate) -> None:
    assert_type(ChatTemplate.of(Message.user("{a}"), Placeholder("history")), ChatTemplate)
    assert_type(template.format(a=1), list[Message])
    assert_type(template.partial(a=1), ChatTemplate)
    assert_type(MessageParser(Notes).parse(Message.user("x")), Notes)
    # M: Argument 1 to "of" of "ChatTemplate" has incompatible type "str"; expected "Message | Placeholder"
    # P: "Literal['a']" is not assignable to type "Message | Placeholder"
    ChatTemplate.of("a")  # type: ignore[arg-type]
    # M: Argument "format" to "of" of "ChatTemplate" has incompatible type
    # P: "Literal['mustache']" is not assignable to type "TemplateFormat"
    ChatTemplate.of(Message.user("a"), format="mustache")  # type: ignore[arg-type]


async def agents(model: ChatModel, history: Sequence[Message]) -> None:
    agent = ReactAgent(model, tools=[add, fetch], output=Notes)
    assert_type(await agent.generate("x"), Message)
    assert_type((await agent.run(history)).output, Notes)
    # M: List item 0 has incompatible type "Callable[[str], int]"; expected "Tool"
    # P: "list[(text: str) -> int]" cannot be assigned to parameter "tools"
    ReactAgent(model, tools=[count])  # type: ignore[list-item]
