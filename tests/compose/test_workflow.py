"""Workflows: the numbered cases of Eino's workflow."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from anabranch.compose import (
    START,
    GraphCompileError,
    Workflow,
    field,
)
from anabranch.compose.testing import assert_paradigms_agree
from anabranch.schema import StreamReader

pytestmark = pytest.mark.anyio


def add(text: str) -> Callable[[str], str]:
    def node(given: str) -> str:
        return given + text

    return node


async def each_upper(reader: StreamReader[str]) -> AsyncIterator[str]:
    async for chunk in reader:
        yield chunk.upper()


def same(given: dict[str, Any]) -> dict[str, Any]:
    return dict(given)


def joined(given: dict[str, str]) -> str:
    return "_".join(given[key] for key in sorted(given))


def problems(workflow: Workflow[Any, Any], **options: Any) -> list[str]:
    with pytest.raises(GraphCompileError) as caught:
        workflow.compile(**options)
    return [problem.text for problem in caught.value.problems]


# -- the numbered cases --------------------------------------------------------------------------------------------


async def test_case_82_a_node_may_wait_for_one_node_and_take_its_input_from_another() -> None:
    def useless(_: str) -> str:
        return "useless"

    workflow = Workflow[str, str]()
    workflow.add_node("0", useless).input(START)
    workflow.add_node("1", add("_done")).after("0").input(START, control=False)
    workflow.end.input("1")
    assert await assert_paradigms_agree(workflow.compile(), "hello", chunks=["hel", "lo"]) == "hello_done"


async def test_case_83_data_reach_a_node_past_those_that_it_waits_for() -> None:
    def twice(text: str) -> str:
        return f"{text}_{text}"

    workflow = Workflow[str, dict[str, str]]()
    one = workflow.add_node("1", twice).input(START)
    two = workflow.add_node("2", joined).input(one, field(to="1")).input(START, field(to="start"), control=False)
    workflow.end.input(two, field(to="2")).input(one, field(to="1"), control=False)
    output = await assert_paradigms_agree(workflow.compile(), "query", chunks=["que", "ry"])
    assert output == {"1": "query_query", "2": "query_query_query"}


async def test_case_85_a_static_value_stands_beside_a_mapped_one() -> None:
    workflow = Workflow[str, dict[str, Any]]()
    workflow.add_node("0", same).input(START, field(to="start")).static("prefilled", "yo-ho")
    workflow.end.input("0")
    app = workflow.compile()
    assert await assert_paradigms_agree(app, "hello", chunks=["he", "llo"]) == {"start": "hello", "prefilled": "yo-ho"}


async def test_case_86_static_values_alone_make_the_input_of_a_node_that_only_waits() -> None:
    workflow = Workflow[str, dict[str, Any]]()
    node = workflow.add_node("0", same).after(START)
    node.static("a.b", 1).static("c.d", 2).static("a.d", 3)
    workflow.end.input(node)
    assert await assert_paradigms_agree(workflow.compile(), "x") == {"a": {"b": 1, "d": 3}, "c": {"d": 2}}


async def test_case_88_static_values_alone_fill_a_model_or_a_dataclass() -> None:
    class Wish(BaseModel):
        what: str
        times: int = 1

    @dataclass
    class Order:
        what: str
        times: int = 1

    def of_wish(wish: Wish) -> str:
        return wish.what * wish.times

    def of_order(order: Order) -> str:
        return order.what * order.times

    for node in (of_wish, of_order):
        workflow = Workflow[str, str]()
        workflow.add_node("0", node).after(START).static("what", "ho").static("times", 2)
        workflow.end.input("0")
        assert await assert_paradigms_agree(workflow.compile(), "x") == "hoho"
        wrong = Workflow[str, str]()
        wrong.add_node("0", node).after(START).static("times", "2")
        wrong.end.input("0")
        assert problems(wrong) == [
            f"node '0': nothing fills what of the input ({'Wish' if node is of_wish else 'Order'}), which is required",
            "node '0': the static value at times is str, and int is wanted there",
        ]


async def test_case_89_what_a_skipped_node_would_have_filled_is_absent() -> None:
    def choose(items: list[int]) -> Literal["1", "end"]:
        return "1" if items else "end"

    def first(items: list[int]) -> int:
        return items[0]

    def up(number: int) -> int:
        return number + 1

    workflow = Workflow[list[int], dict[str, int]]()
    workflow.add_branch(START, choose)
    workflow.add_node("1", up).input(START, field(extract=first), control=False)
    workflow.end.input("1", field(to="output")).static("static", 2)
    app = workflow.compile()
    assert await assert_paradigms_agree(app, []) == {"static": 2}
    assert await assert_paradigms_agree(app, [1]) == {"output": 2, "static": 2}


async def test_case_91_a_skipped_node_satisfies_those_that_wait_for_its_data() -> None:
    def choose(text: str) -> Literal["a", "b"]:
        return "b"

    workflow = Workflow[str, dict[str, Any]]()
    workflow.add_branch(START, choose)
    workflow.add_node("a", add("a")).input(START, control=False)
    workflow.add_node("b", add("b")).input(START, control=False)
    node = workflow.add_node("c", same)
    node.input("b", field(to="fromb")).input("a", field(to="froma"), control=False)
    workflow.end.input(node)
    assert await assert_paradigms_agree(workflow.compile(), "x", chunks=["x", ""]) == {"fromb": "xb"}


@pytest.mark.parametrize(("forth", "back"), [(True, True), (True, False), (False, False)])
async def test_case_92_a_cycle_is_found_when_compiled_also_if_only_data_go_round(forth: bool, back: bool) -> None:
    workflow = Workflow[str, str]()
    one, two = workflow.add_node("a", joined), workflow.add_node("b", add("b"))
    one.input(START, field(to="start")).input(two, field(to="b"), control=back)
    two.input(one, control=forth)
    if not forth:
        two.after(START)
    workflow.end.input(two)
    assert problems(workflow) == [
        'cycle a -> b -> a: with trigger="all" every node runs once; break the cycle, or compile with trigger="any"'
    ]


async def test_case_94_data_alone_make_a_node_run_when_nothing_else_leads_to_it() -> None:
    # Eino refuses this ("no start"). Here a node that no control leads to runs when its data come.
    workflow = Workflow[str, str]()
    workflow.add_node("a", add("a")).input(START, control=False)
    workflow.end.input("a")
    assert await assert_paradigms_agree(workflow.compile(), "x", chunks=["x", ""]) == "xa"


async def test_case_95_a_dataclass_put_together_of_streams_needs_no_rule_for_its_chunks() -> None:
    @dataclass
    class Both:
        A: str
        B: str

    async def chunks(text: str) -> AsyncIterator[str]:
        yield text
        yield "!"

    def show(both: Both) -> str:
        return f"{both.A},{both.B}"

    workflow = Workflow[str, str]()
    one = workflow.add_node("a", chunks).input(START)
    two = workflow.add_node("b", add("b")).input(START)
    workflow.add_node("c", show).input(one, field(to="A")).input(two, field(to="B"))
    workflow.end.input("c")
    assert await assert_paradigms_agree(workflow.compile(), "x", chunks=["x", ""]) == "x!,xb"


async def test_case_97_a_branch_to_an_unknown_node_is_a_problem_like_any_other() -> None:
    def choose(text: str) -> Literal["a", "b"]:
        return "a"

    workflow = Workflow[str, str]()
    workflow.add_node("a", add("a")).input(START, control=False)
    workflow.add_branch(START, choose)
    workflow.end.input("a")
    (text,) = problems(workflow)
    assert text.startswith("branch 'choose' of node 'start': there is no node 'b'")


async def test_case_98_a_passthrough_has_the_type_of_what_is_put_together_in_it() -> None:
    workflow = Workflow[str, dict[str, Any]]()
    before = workflow.add_passthrough("p").input(START, field(to="x")).static("y", "1")
    workflow.end.input(workflow.add_node("after", same).input(before))
    for _ in range(3):
        app = workflow.compile()
        assert app.graph_info().node("p").output == dict[str, Any]
        assert await assert_paradigms_agree(app, "a", chunks=["a", ""]) == {"x": "a", "y": "1"}
    picked = Workflow[dict[str, str], str]()
    picked.end.input(picked.add_passthrough("p").input(START, field("k")))
    assert picked.compile().graph_info().node("p").output is str
    assert await assert_paradigms_agree(picked.compile(), {"k": "a"}, chunks=[{"k": "a"}, {"z": "b"}]) == "a"


async def test_case_98_a_passthrough_without_mappings_takes_the_type_of_its_neighbours() -> None:
    workflow = Workflow[str, int]()
    one = workflow.add_passthrough("p").input(START)
    two = workflow.add_passthrough("q").input(one)
    workflow.end.input(two)
    assert "edge 'q' -> 'end': 'q' gives str, the graph's output is int" in problems(workflow)[0]
