"""The numbered cases of state (115–125) and of the options of a run (127–131)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import anyio
import pytest

from anabranch.compose import (
    END,
    START,
    Graph,
    NodeError,
    RunOptions,
    RunOptionsError,
    StateError,
    StepLimitExceeded,
    current_state,
)
from anabranch.compose.testing import Scripted

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::anabranch.compose.GraphWarning")]


class Lines(list[str]):
    """What both states are."""


class Outer(Lines):
    """The state of an outer graph."""


class Inner(Lines):
    """The state of an inner graph."""


def same(text: str) -> str:
    return text


def line(node: Any, state: Any = None, **options: Any) -> Graph[str, str]:
    graph = Graph[str, str](state=state)
    graph.add_node("a", node, **options)
    graph.add_edge(START, "a")
    graph.add_edge("a", END)
    return graph


def until_three(text: str) -> Literal["again", "end"]:
    return "end" if len(text) == 3 else "again"


# -- state ---------------------------------------------------------------------------------------------------------


async def test_115_each_run_of_a_nested_graph_has_a_state_of_its_own() -> None:
    numbers = count(1)

    class Serial:
        def __init__(self) -> None:
            self.number = next(numbers)

    def append(text: str, state: Serial) -> str:
        return f"{text}{state.number}"

    graph = Graph[str, str]()
    graph.add_node("again", line(same, Serial, post=append))
    graph.add_edge(START, "again")
    graph.add_branch("again", until_three)
    assert await graph.compile().invoke("") == "123"


async def test_116_an_inner_node_reaches_both_states_and_of_one_type_the_inner_one() -> None:
    def note(text: str) -> str:
        with current_state(Lines) as nearest:
            nearest.append("nearest")
        with current_state(Outer) as outer, current_state(Inner) as inner:
            outer.append("outer")
            return f"{text} {outer} {inner}"

    assert await line(line(note, Inner), Outer).compile().invoke("x") == "x ['outer'] ['nearest']"


async def test_118_a_graph_that_a_node_calls_reaches_the_state_of_the_node() -> None:
    def note(text: str) -> str:
        with current_state(Outer) as outer:
            outer.append(text)
            return f"{text}{len(outer)}"

    standalone = line(note).compile()

    async def call(text: str) -> str:
        return await standalone.invoke(text)

    assert await line(call, Outer).compile().invoke("x") == "x1"


async def test_119_asking_for_a_state_that_is_not_there_says_what_is() -> None:
    def ask(text: str) -> str:
        with current_state(Outer):
            return text

    for graph, there in ((line(ask), "no graph around has a state"), (line(ask, Inner), "there are Inner")):
        with pytest.raises(NodeError, match=f"a state of type Outer was asked for; {there}") as caught:
            await graph.compile().invoke("x")
        assert isinstance(caught.value.__cause__, StateError)


async def test_119_what_a_handler_raises_is_the_cause() -> None:
    def refuse(text: str, state: Outer) -> str:
        raise KeyError(text)

    with pytest.raises(NodeError, match="pre-handler of node 'a' failed: KeyError: 'x'") as caught:
        await line(same, Outer, pre=refuse).compile().invoke("x")
    assert isinstance(caught.value.__cause__, KeyError)


async def test_122_a_failing_handler_fails_its_node_before_any_node_of_the_step_runs() -> None:
    def refuse(text: str, state: Outer) -> str:
        raise KeyError(text)

    other = Scripted(same)
    graph = Graph[str, dict[str, Any]](state=Outer)
    graph.add_node("a", same, pre=refuse, output_key="a")
    graph.add_node("b", other, output_key="b")
    for key in ("a", "b"):
        graph.add_edge(START, key)
        graph.add_edge(key, END)
    with pytest.raises(NodeError, match="pre-handler of node 'a'"):
        await graph.compile().invoke("x")
    assert other.calls == []


async def test_124_entering_the_state_again_from_within_is_an_error_and_never_a_hang() -> None:
    def again(text: str, state: Outer) -> str:
        with current_state(Outer):
            return text

    async def again_later(text: str, state: Outer) -> str:
        async with current_state(Outer):
            return text

    for handler in (again, again_later):
        with anyio.fail_after(5), pytest.raises(NodeError, match="the state was entered again from within"):
            await line(same, Outer, pre=handler).compile().invoke("x")


async def test_125_the_first_callback_of_a_graph_already_reaches_its_state() -> None:
    class Note:
        def on_start(self, info: Any, input: Any) -> None:
            if not info.path:
                with current_state(Outer) as lines:
                    lines.append("started")

    def show(text: str) -> str:
        with current_state(Outer) as lines:
            return f"{text} {lines}"

    assert await line(show, Outer).compile().invoke("x", RunOptions(callbacks=[Note()])) == "x ['started']"


# -- options -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Volume:
    """An option that some nodes take."""

    level: int = 0
    unit: str = ""

    def __or__(self, other: Volume) -> Volume:
        return Volume(other.level or self.level, other.unit or self.unit)


def play(text: str, options: Volume = Volume()) -> str:
    return f"{text} at {options.level}{options.unit}"


def nested() -> Graph[str, str]:
    graph = Graph[str, str]()
    graph.add_node("sub", line(play))
    graph.add_node("a", same)
    graph.add_edge(START, "sub")
    graph.add_edge("sub", "a")
    graph.add_edge("a", END)
    return graph


@pytest.mark.parametrize("at", [{"sub/a": Volume(3)}, {"sub": RunOptions(for_all=[Volume(3)])}])
async def test_127_options_reach_a_node_by_its_path_or_by_the_graph_around_it(at: Any) -> None:
    assert await nested().compile().invoke("x", RunOptions(at=at)) == "x at 3"


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ({"sub/zz": Volume(3)}, "options at 'sub/zz': there is no node 'sub/zz'; there are 'a'"),
        ({"a/x": Volume(3)}, "options at 'a/x': node 'a' is no graph, nothing is inside it"),
        ({"": Volume(3)}, "options at '': there is no node ''"),
        ({"subs": Volume(3)}, "options at 'subs': there is no node 'subs'; did you mean 'sub'"),
        ({"a": Volume(3)}, "options at 'a': node 'a' takes no options, got Volume"),
        ({"sub/a": 3}, "options at 'sub/a': node 'sub/a' takes Volume, got int"),
        ({"sub": Volume(3)}, "options at 'sub': it is a graph and takes RunOptions, got Volume"),
    ],
)
async def test_127_options_that_reach_nobody_are_refused_before_anything_runs(at: Any, text: str) -> None:
    node = Scripted(same)
    graph = nested()
    graph.add_node("first", node)
    graph.add_branch(START, lambda _: "first", ["first"])
    graph.add_edge("first", END)
    with pytest.raises(RunOptionsError, match=text):
        await graph.compile().invoke("x", RunOptions(at=at))
    assert node.calls == []


async def test_128_options_for_all_come_first_and_those_for_the_node_have_the_last_word() -> None:
    app = line(play).compile()
    options = RunOptions(for_all=[Volume(1, "dB")], at={"a": Volume(2)})
    assert await app.invoke("x", options) == "x at 2dB"


async def test_128_options_for_all_that_nobody_takes_are_refused() -> None:
    with pytest.raises(RunOptionsError, match="no node takes the option for all nodes of type float"):
        await nested().compile().invoke("x", RunOptions(for_all=[0.5]))


class Log:
    """Notes where something started."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def on_start(self, info: Any, input: Any) -> None:
        self.paths.append(info.path)


async def test_130_callbacks_may_be_given_for_the_run_for_a_graph_in_it_and_for_a_node() -> None:
    everywhere, inside, leaf = Log(), Log(), Log()
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("1", same))
    graph.add_edge("1", graph.add_node("2", nested()))
    graph.add_edge("2", END)
    at = {"2": RunOptions(callbacks=[inside]), "2/sub/a": RunOptions(callbacks=[leaf])}
    app = graph.compile()
    await app.invoke("x", RunOptions(callbacks=[everywhere], at=at))
    assert everywhere.paths == ["", "1", "2", "2/sub", "2/sub/a", "2/a"]
    assert inside.paths == ["2", "2/sub", "2/sub/a", "2/a"]
    assert leaf.paths == ["2/sub/a"]
    await app.invoke("x", RunOptions(at=at))
    assert (len(everywhere.paths), len(inside.paths), len(leaf.paths)) == (6, 8, 2)


async def test_131_a_bound_on_steps_for_a_nested_graph_bounds_that_graph() -> None:
    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("a", same))
    inner.add_edge("a", inner.add_node("b", same))
    inner.add_edge("b", END)
    outer = Graph[str, str]()
    outer.add_edge(START, outer.add_node("before", same))
    outer.add_edge("before", outer.add_node("sub", inner))
    outer.add_edge("sub", END)
    app = outer.compile()
    assert await app.invoke("x", RunOptions(at={"sub": RunOptions(max_steps=2)})) == "x"
    with pytest.raises(StepLimitExceeded, match="graph 'sub' took 1 steps") as caught:
        await app.invoke("x", RunOptions(at={"sub": RunOptions(max_steps=1)}))
    assert caught.value.path == "sub"
