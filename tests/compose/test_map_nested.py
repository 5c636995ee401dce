"""Map over graphs: when they are compiled, their state, options for their nodes, and who sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from anabranch.compose import (
    END,
    START,
    Chain,
    Graph,
    GraphCompileError,
    GraphRunError,
    Interrupt,
    Map,
    NodeEnded,
    NodeFailed,
    NodeStarted,
    RunInfo,
    Runnable,
    RunOptions,
    RunOptionsError,
    RunStarted,
    current_state,
    draw_mermaid,
    emit,
    interrupt,
)
from anabranch.compose.testing import (
    ScriptedModel,
    assert_paradigms_agree,
)
from anabranch.schema import Message, ModelOptions, StreamReader

pytestmark = pytest.mark.anyio

Texts = list[str]


def around(node: Map[Any, Any], *, input: Any = Texts, output: Any = Texts, **options: Any) -> Runnable[Any, Any]:
    graph = Graph[Any, Any](input=input, output=output, **options)
    graph.add_edge(START, graph.add_node("each", node))
    graph.add_edge("each", END)
    return graph.compile()


def upper(text: str) -> str:
    return text.upper()


async def upper_later(text: str) -> str:
    await anyio.lowlevel.checkpoint()
    return text.upper()


async def letters(text: str) -> AsyncIterator[str]:
    for letter in text:
        yield letter.upper()


async def collected(reader: StreamReader[str]) -> str:
    return "".join([chunk.upper() async for chunk in reader])


async def transformed(reader: StreamReader[str]) -> AsyncIterator[str]:
    async for chunk in reader:
        yield chunk.upper()


def picky(text: str) -> str:
    if text == "x":
        raise ValueError("no x")
    return text.upper()


def exclaim(text: str) -> str:
    return text + "!"


def line(*nodes: Any, **options: Any) -> Chain[Any, Any]:
    chain = Chain[str, str](**options)
    for node in nodes:
        chain.append(node)
    return chain


# -- nested graphs -------------------------------------------------------------------------------------------------


async def test_a_graph_inside_is_compiled_with_the_graph_around_and_not_before() -> None:
    inner = line()
    node = Map(inner)
    inner.append(upper)
    graph = Graph[Texts, Texts]()
    graph.add_edge(START, graph.add_node("each", node))
    graph.add_edge("each", END)
    inner.append(picky)
    app = graph.compile()
    inner.append(exclaim)
    assert await app.invoke(["a"]) == ["A"]
    assert await graph.compile().invoke(["a"]) == ["A!"]


async def test_what_is_wrong_with_a_graph_inside_is_reported_with_everything_else() -> None:
    def number(_: str) -> int:
        return 1

    graph = Graph[Texts, Texts]()
    graph.add_edge(START, graph.add_node("each", Map(Map(line(number, upper)))))
    graph.add_edge("nobody", END)
    with pytest.raises(GraphCompileError) as caught:
        graph.compile()
    texts = [problem.text for problem in caught.value.problems]
    assert any(text.startswith("in node 'each': edge 'node_0' -> 'node_1': 'node_0' gives int") for text in texts)
    assert any("there is no node 'nobody'" in text for text in texts)


async def test_a_graph_cannot_be_mapped_over_by_itself() -> None:
    graph = Graph[Texts, Texts]()
    graph.add_edge(START, graph.add_node("each", Map(graph, input=str, output=str)))
    graph.add_edge("each", END)
    with pytest.raises(GraphCompileError, match="node 'each' is the graph that it is in"):
        graph.compile()


async def test_maps_nest() -> None:
    app = around(Map(Map(line(upper))), input=list[Texts], output=list[Texts])
    assert await assert_paradigms_agree(app, [["a", "b"], [], ["c"]]) == [["A", "B"], [], ["C"]]
    paths = [info.path for info in await watched(app, [["a"], ["b", "c"]])]
    assert {"each/0/0/node_0", "each/1/0/node_0", "each/1/1/node_0"} <= set(paths)


async def test_items_reach_the_state_of_the_graph_around_and_have_their_own_inside() -> None:
    class Outer:
        def __init__(self) -> None:
            self.texts: list[str] = []

    class Inner:
        def __init__(self) -> None:
            self.count = 0

    async def note(text: str) -> str:
        async with current_state(Outer) as seen:
            seen.texts.append(text)
        with current_state(Inner) as own:
            own.count += 1
            return f"{text}{own.count}"

    app = around(Map(line(note, note, state=Inner)), state=Outer)
    assert await assert_paradigms_agree(app, ["a", "b"]) == ["a12", "b12"]

    def look(text: str) -> str:
        with current_state(Outer) as seen:
            seen.texts.append(text)
            return "".join(seen.texts)

    assert await around(Map(look, concurrency=1), state=Outer).invoke(["a", "b", "c"]) == ["a", "ab", "abc"]


async def test_each_item_has_context_variables_of_its_own_and_sees_those_of_the_caller() -> None:
    mark: ContextVar[str] = ContextVar("mark", default="none")

    async def note(text: str) -> str:
        before = mark.get()
        mark.set(text)
        await anyio.lowlevel.checkpoint()
        return f"{before}-{mark.get()}"

    mark.set("caller")
    assert await assert_paradigms_agree(around(Map(note)), ["a", "b"]) == ["caller-a", "caller-b"]
    assert mark.get() == "caller"


async def test_each_item_may_ask_by_an_address_of_its_own() -> None:
    async def ask(text: str) -> str:
        return f"{text}{await interrupt(text, answer=int)}"

    asked: list[str] = []

    def answer(question: Interrupt) -> int:
        asked.append(question.id)
        return len(asked)

    app = around(Map(line(ask), concurrency=1))
    assert await app.invoke(["a", "b"], RunOptions(on_interrupt=answer)) == ["a1", "b2"]
    assert len(set(asked)) == 2
    assert [address.startswith(f"each/{n}/node_0") for n, address in enumerate(asked)] == [True, True]


async def test_a_retry_of_the_node_runs_the_whole_list_again() -> None:
    runs: list[str] = []

    def once_wrong(text: str) -> str:
        runs.append(text)
        if len(runs) == 1:
            raise ValueError("not yet")
        return text.upper()

    graph = Graph[Texts, Texts]()
    graph.add_edge(START, graph.add_node("each", Map(once_wrong, concurrency=1), retries=1))
    graph.add_edge("each", END)
    for paradigm in ("invoke", "collect"):
        given: Any = ["a", "b"] if paradigm == "invoke" else [["a"], ["b"]]
        assert await getattr(graph.compile(), paradigm)(given) == ["A", "B"]
        assert runs == ["a", "a", "b"]
        runs.clear()


# -- options and observers -----------------------------------------------------------------------------------------


class Log:
    def __init__(self) -> None:
        self.started: list[RunInfo] = []

    def on_start(self, info: RunInfo, given: Any) -> None:
        self.started.append(info)


async def watched(app: Runnable[Any, Any], value: Any) -> list[RunInfo]:
    log = Log()
    await app.invoke(value, RunOptions(callbacks=[log]))
    return log.started


async def test_observers_see_each_item_and_each_node_inside() -> None:
    app = around(Map(line(upper), concurrency=1))
    seen = [(info.path, info.component) for info in await watched(app, ["a", "b"])]
    assert seen == [
        ("", "graph"),
        ("each", "map"),
        ("each/0", "chain"),
        ("each/0/node_0", "function"),
        ("each/1", "chain"),
        ("each/1/node_0", "function"),
    ]
    plain = around(Map(upper, concurrency=1))
    assert [info.path for info in await watched(plain, ["a", "b"])] == ["", "each", "each/0", "each/1"]


async def test_events_carry_the_path_of_the_item() -> None:
    def noting(text: str) -> str:
        emit(text)
        return picky(text)

    app = around(Map(line(noting), concurrency=1, on_error="collect"), output=list[str | GraphRunError])
    async with app.events(["a", "x"]) as events:
        found = [(type(event).__name__, event.path) async for event in events]
    inside = [pair for pair in found if pair[1].startswith("each/")]
    assert inside == [
        (RunStarted.__name__, "each/0"),
        (NodeStarted.__name__, "each/0/node_0"),
        ("Custom", "each/0/node_0"),
        (NodeEnded.__name__, "each/0/node_0"),
        ("RunEnded", "each/0"),
        (RunStarted.__name__, "each/1"),
        (NodeStarted.__name__, "each/1/node_0"),
        ("Custom", "each/1/node_0"),
        (NodeFailed.__name__, "each/1/node_0"),
        ("RunFailed", "each/1"),
    ]


async def test_options_reach_the_nodes_of_every_item() -> None:
    def ask(text: str) -> list[Message]:
        return [Message.user(text)]

    for options, heat in (
        (RunOptions(at={"each/chat": ModelOptions(temperature=0.5)}), 0.5),
        (RunOptions(for_all=[ModelOptions(temperature=0.7)]), 0.7),
        (RunOptions(at={"each": RunOptions(at={"chat": ModelOptions(temperature=0.2)})}), 0.2),
        (None, None),
    ):
        model = ScriptedModel([Message.assistant("1"), Message.assistant("2")])
        chain = Chain[str, Message]().append(ask).append(model, key="chat")
        app = around(Map(chain, concurrency=1), output=list[Message])
        assert [message.text for message in await app.invoke(["a", "b"], options)] == ["1", "2"]
        assert [call.options.temperature for call in model.calls] == [heat, heat]


async def test_options_reach_a_component_that_is_mapped_itself() -> None:
    model = ScriptedModel([Message.assistant("1"), Message.assistant("2")])
    app = around(Map(model, concurrency=1), input=list[list[Message]], output=list[Message])
    histories = [[Message.user("a")], [Message.user("b")]]
    await app.invoke(histories, RunOptions(at={"each": ModelOptions(temperature=0.5)}))
    assert [call.options.temperature for call in model.calls] == [0.5, 0.5]
    with pytest.raises(RunOptionsError, match="node 'each' is no graph, nothing is inside it"):
        await app.invoke(histories, RunOptions(at={"each/chat": ModelOptions()}))


def test_the_graph_inside_is_described_and_drawn() -> None:
    app = around(Map(line(upper, name="loud")))
    info = app.graph_info().node("each")
    assert (info.component, info.graph and info.graph.name) == ("map", "loud")
    assert 'subgraph n1["each (each item)"]' in draw_mermaid(app)
