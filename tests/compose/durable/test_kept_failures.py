"""A run that is kept and failed goes on where it failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from anabranch.compose import END, START, Graph, GraphRunError, Map, MemoryStore

pytestmark = pytest.mark.anyio

Make = Callable[..., Callable[[str], Any]]


class State(BaseModel):
    """A state."""


class Nodes:
    """Nodes, handlers, conditions and merges, of which those at one place fail until they are mended."""

    def __init__(self, place: str, log: list[str]) -> None:
        self.place = place
        self.log = log
        self.mended = False

    def at(self, name: str) -> None:
        if name == self.place:
            self.log.append(name)
            if not self.mended:
                raise ValueError(name)

    async def first(self, text: str) -> Literal["a"]:
        self.at("start")
        return "a"

    async def b(self, text: str) -> str:
        self.log.append("b")
        self.at("node")
        return text + "b"

    def pre(self, text: str, state: State) -> str:
        self.at("pre")
        return text

    def post(self, text: str, state: State) -> str:
        self.at("post")
        return text

    async def which(self, text: str) -> Literal["join"]:
        self.at("condition")
        return "join"

    def merged(self, texts: Sequence[str]) -> str:
        self.at("merge")
        return "|".join(texts)

    async def item(self, text: str) -> str:
        self.log.append(f"item {text}")
        if text == "1":
            self.at("item")
        return text

    def ends(self, parts: Sequence[list[str]]) -> list[str]:
        self.at("end")
        return [text for part in parts for text in part]

    def nested(self, text: str) -> str:
        self.at("nested")
        return text


def two(text: str) -> list[str]:
    return ["0", "1"]


def same(items: list[str]) -> list[str]:
    return items


def graph_of(nodes: Nodes, say: Make) -> Graph[str, list[str]]:
    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("i", say("i")))
    inner.add_edge("i", inner.add_node("j", nodes.nested))
    inner.add_edge("j", END)

    graph = Graph[str, list[str]](state=State)
    graph.add_branch(START, nodes.first)
    graph.add_node("a", say("a"))
    graph.add_edge("a", graph.add_node("b", nodes.b, pre=nodes.pre, post=nodes.post))
    graph.add_edge("a", graph.add_node("c", inner))
    graph.add_branch("b", nodes.which)
    graph.add_node("join", two, merge=nodes.merged, trigger="all")
    graph.add_edge("c", "join")
    graph.add_edge("join", graph.add_node("each", Map(nodes.item, concurrency=1)))
    graph.add_edge("each", graph.add_node("d", same))
    graph.add_edge("each", graph.add_node("e", same))
    graph.add_node("last", same, merge=nodes.ends)
    graph.add_edge("d", "last")
    graph.add_edge("e", "last")
    graph.add_edge("last", END)
    return graph


@pytest.mark.parametrize("durability", ["step", "pause"])
@pytest.mark.parametrize("trigger", ["any", "all"])
@pytest.mark.parametrize("place", ["start", "condition", "merge", "end", "pre", "post", "node", "item", "nested"])
async def test_what_had_ended_when_something_failed_does_not_run_again(
    place: str, trigger: Any, durability: Any, say: Make, log: list[str]
) -> None:
    nodes = Nodes(place, log)
    app = graph_of(nodes, say).compile(trigger=trigger, store=MemoryStore(), durability=durability)
    for _ in range(2):
        with pytest.raises(GraphRunError):
            await (app.resume("r") if log.count(place) else app.invoke("x", run="r"))
    nodes.mended = True
    assert await app.resume("r") == ["0", "1", "0", "1"]
    again = {"node": {"b"}, "item": {"item 1"}}.get(place, set())
    for name in ("a", "b", "i", "item 0", "item 1"):
        assert log.count(name) == (3 if name in again else 1), (name, log)


async def test_an_error_at_the_end_of_a_graph_is_told_again(say: Make, log: list[str]) -> None:
    triggers: list[Literal["any", "all"]] = ["any", "all"]
    for trigger in triggers:
        log.clear()
        graph = Graph[str, dict[str, str]]()
        for name in "ab":
            graph.add_edge(START, graph.add_node(name, say(name), output_key="same"))
            graph.add_edge(name, END)
        app = graph.compile(trigger=trigger, store=MemoryStore())
        for resumes in (False, True, True):
            with pytest.raises(GraphRunError, match="same"):
                await (app.resume("r") if resumes else app.invoke("x", run="r"))
        assert sorted(log) == ["a", "b"]
