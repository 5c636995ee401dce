"""Workflows: inputs and what is waited for, branches, skipped senders, and compiling again and again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal, TypedDict

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    Graph,
    GraphCompileError,
    NodeError,
    RunStalledError,
    Workflow,
    WorkflowNode,
    current_state,
    field,
)
from anabranch.compose.testing import Scripted, assert_order_does_not_matter, assert_paradigms_agree
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


# -- relations -----------------------------------------------------------------------------------------------------


async def test_relations_to_one_node_are_one_edge_that_carries_what_both_do() -> None:
    workflow = Workflow[str, dict[str, Any]]()
    node = workflow.add_node("a", same)
    node.input(START, field(to="x"), control=False).after(START).input(START, field(to="y"))
    workflow.end.input(node)
    app = workflow.compile()
    assert len(app.graph_info().edges) == 2
    assert app.graph_info().edges[0].control
    assert app.graph_info().edges[0].data
    assert await assert_paradigms_agree(app, "1") == {"x": "1", "y": "1"}


async def test_whole_inputs_are_merged_in_the_order_in_which_they_were_asked_for() -> None:
    def gathered(values: Sequence[str]) -> str:
        return "|".join(values)

    for order in (("a", "b", "c"), ("c", "b", "a")):
        workflow = Workflow[str, str]()
        for key in "abc":
            workflow.add_node(key, add(key)).input(START)
        node = workflow.add_node("all", add("."), merge=gathered)
        node.after("b")  # what it waits for says nothing about the order of what it gets
        for key in order:
            node.input(key)
        workflow.end.input(node)
        app = workflow.compile()
        assert await assert_paradigms_agree(app, "x") == "|".join(f"x{key}" for key in order) + "."
        assert await assert_order_does_not_matter(app, "x") == "|".join(f"x{key}" for key in order) + "."


async def test_a_mapping_of_the_whole_to_the_whole_is_no_mapping() -> None:
    """W-3."""
    workflow = Workflow[str, str]()
    workflow.end.input(workflow.add_node("a", add("a")).input(START, field()), field())
    app = workflow.compile()
    assert app.graph_info().end_mappings == ()
    assert await assert_paradigms_agree(app, "x", chunks=["x", ""]) == "xa"


async def test_a_whole_input_said_twice_is_a_problem() -> None:
    workflow = Workflow[str, str]()
    workflow.end.input(START).input(START)
    (text,) = problems(workflow)
    assert text.startswith("node 'end': 'start' ((all) -> (all)) and 'start' ((all) -> (all)) both fill (all)")


async def test_options_that_contradict_a_workflow_are_problems() -> None:
    workflow = Workflow[str, dict[str, Any]]()
    workflow.add_node("a", same, merge=lambda values: values[0]).input(START, field(to="x"))
    workflow.end.input("a")
    assert problems(workflow) == [
        "node 'a': merge= and field mappings or static values contradict each other; choose one"
    ]
    assert 'a workflow always has trigger="all"; leave it out' in problems(workflow, trigger="any")[1]
    assert "max_steps bounds the loops" in problems(workflow, max_steps=2)[1]


async def test_all_problems_come_at_once() -> None:
    def choose(text: str) -> str:
        return text

    workflow = Workflow[str, dict[str, int]]()
    workflow.add_node("a", add("a")).input("nobody").static("x", 1)
    workflow.add_node("a", add("b"))
    workflow.add_node("end", add("c"))
    workflow.add_node("lonely", add("d"))
    workflow.add_node("b", add("e")).input(START)
    workflow.add_branch("a", choose)
    workflow.end.input("a", field(to="x"), field("y", to="z"))
    found = problems(workflow)
    for text in (
        "node 'a' was added twice",
        "node key 'end' is reserved",
        "there is no node 'nobody'",
        "node 'a': the static value at x: the input is str, and at x, str has no fields",
        "node 'lonely' cannot be reached from START",
        "branch 'choose' of node 'a': its ends are unknown",
        "node 'a' cannot be reached from START",
        "node 'end': 'a' ((all) -> x): it gives str, and int is wanted there",
        "node 'end': 'a' (y -> z): 'a' gives str; at y, str has no fields",
    ):
        assert [line for line in found if text in line], text


async def test_a_workflow_starts_a_node_as_soon_as_what_it_waits_for_has_settled() -> None:
    slow, quick, after = (Scripted(str.upper, input=str, output=str, name=name) for name in ("slow", "quick", "after"))
    workflow = Workflow[str, dict[str, str]]()
    workflow.add_node("slow", slow).input(START)
    workflow.add_node("quick", quick).input(START)
    workflow.add_node("after", after).after("quick").input(START, control=False)
    workflow.end.input("slow", field(to="slow")).input("after", field(to="after"))

    async with anyio.create_task_group() as group:
        group.start_soon(workflow.compile().invoke, "x")
        await quick.started()
        assert after.running == 0
        quick.finish()
        await after.started()
        assert slow.running == 1
        after.finish()
        slow.finish()


# -- branches ------------------------------------------------------------------------------------------------------


async def test_the_ends_of_a_branch_declare_their_own_inputs_and_get_empty_ones_otherwise() -> None:
    def choose(text: str) -> list[Literal["a", "b"]]:
        return [key for key in ("a", "b") if key in text]

    workflow = Workflow[str, dict[str, str]]()
    workflow.add_branch(START, choose)
    workflow.add_node("a", add("a"))
    workflow.add_node("b", add("b")).input(START, control=False)
    workflow.end.input("a", field(to="a")).input("b", field(to="b"))
    app = workflow.compile()
    assert await assert_paradigms_agree(app, "ab") == {"a": "a", "b": "abb"}
    assert await assert_paradigms_agree(app, "b") == {"b": "bb"}
    with pytest.raises(RunStalledError, match="every way to END was skipped"):
        await app.invoke("x")


async def test_a_node_that_waits_for_another_runs_although_a_branch_of_that_one_did_not_choose_it() -> None:
    """W-6."""

    def choose(text: str) -> Literal["a", "b"]:
        return "b"

    workflow = Workflow[str, dict[str, str]]()
    workflow.add_branch(START, choose)
    workflow.add_node("a", add("a")).input(START)
    workflow.add_node("b", add("b")).input(START, control=False)
    workflow.end.input("a", field(to="a")).input("b", field(to="b"))
    assert await assert_paradigms_agree(workflow.compile(), "x", chunks=["x", ""]) == {"a": "xa", "b": "xb"}


async def test_an_end_that_needs_an_input_and_declares_none_is_found() -> None:
    def choose(text: str) -> Literal["a", "end"]:
        return "a"

    def up(number: int) -> str:
        return str(number)

    workflow = Workflow[str, str]()
    workflow.add_branch(START, choose)
    workflow.add_node("a", up)
    workflow.end.input("a")
    assert "node 'a' can run without input" in problems(workflow)[0]


async def test_a_whole_input_whose_sender_was_skipped_is_the_empty_value_of_its_type() -> None:
    def choose(text: str) -> Literal["a", "end"]:
        return "a" if text else "end"

    def wrapped(text: str) -> dict[str, str]:
        return {"k": text}

    workflow = Workflow[str, str]()
    workflow.add_branch(START, choose)
    workflow.add_node("a", wrapped).input(START, control=False)
    workflow.end.input("a", field("k"))
    app = workflow.compile()
    assert await assert_paradigms_agree(app, "x") == "x"
    assert await assert_paradigms_agree(app, "") == ""


async def test_a_required_field_whose_sender_was_skipped_is_an_error_that_names_it() -> None:
    class Model(BaseModel):
        x: str
        y: str = "-"

    def choose(text: str) -> list[Literal["a", "b"]]:
        return ["a", "b"] if text == "both" else ["b"]

    class Dict(TypedDict):
        x: str
        y: str

    for output in (Model, Dict):
        workflow = Workflow[str, Any](output=output)
        workflow.add_branch(START, choose)
        workflow.add_node("a", add("a")).input(START, control=False)
        workflow.add_node("b", add("b")).input(START, control=False)
        workflow.end.input("a", field(to="x")).input("b", field(to="y"))
        app = workflow.compile()
        made = await assert_paradigms_agree(app, "both")
        assert made == (Model(x="botha", y="bothb") if output is Model else {"x": "botha", "y": "bothb"})
        assert await assert_paradigms_agree(app, "one") is None
        for paradigm in (app.invoke("one"), app.collect(["one"])):
            with pytest.raises(NodeError, match=f"{output.__name__} needs x, and nothing that ran has filled it"):
                await paradigm


# -- compiling -----------------------------------------------------------------------------------------------------


async def test_compiling_again_and_nesting_twice_change_nothing() -> None:
    class Wish(BaseModel):
        what: str
        lang: str

    def say(wish: Wish) -> str:
        return f"{wish.lang}:{wish.what}"

    inner = Workflow[str, str]()
    inner.add_node("say", say).input(START, field(to="what")).static("lang", "en")
    inner.end.input("say")
    first = inner.compile()
    assert first.graph_info() == inner.compile().graph_info()
    outer = Graph[str, str]()
    outer.add_edge(START, outer.add_node("one", inner))
    outer.add_edge("one", outer.add_node("two", inner))
    outer.add_edge("two", END)
    assert await assert_paradigms_agree(outer.compile(), "x", chunks=["x", ""]) == "en:en:x"
    assert await assert_paradigms_agree(outer.compile(), "y") == "en:en:y"


async def test_what_is_declared_after_a_compile_counts_for_the_next_one_only() -> None:
    workflow = Workflow[str, dict[str, Any]]()
    node = workflow.add_node("a", same).input(START, field(to="x"))
    workflow.end.input(node)
    first = workflow.compile()
    node.static("y", 1)
    workflow.end.input(START, field(to="z"))
    assert await first.invoke("1") == {"x": "1"}
    assert "both fill (all)" in problems(workflow)[0]
    assert await first.invoke("2") == {"x": "2"}


@given(st.permutations(["a", "b", "c", "end"]), st.permutations(range(5)))
async def test_the_order_in_which_nodes_are_added_and_joined_changes_nothing(keys: list[str], order: list[int]) -> None:
    workflow = Workflow[str, dict[str, str]]()
    nodes = {"a": add("a"), "b": each_upper, "c": joined}
    handles = {key: workflow.add_node(key, nodes[key]) for key in keys if key != "end"} | {"end": workflow.end}
    declared: list[Callable[[], WorkflowNode]] = [
        lambda: handles["a"].input(START),
        lambda: handles["b"].input("a"),
        lambda: handles["c"].input("a", field(to="1")).input("b", field(to="2")),
        lambda: handles["end"].input("c", field(to="c")),
        lambda: handles["end"].input(START, field(to="start"), control=False).static("s", "!"),
    ]
    for number in order:
        declared[number]()
    output = await assert_paradigms_agree(workflow.compile(), "xy", chunks=["x", "y"])
    assert output == {"c": "xya_XYA", "start": "xy", "s": "!"}


async def test_nodes_of_a_workflow_have_keys_handlers_and_the_state_like_any_other() -> None:
    def before(given: dict[str, Any], seen: list[Any]) -> dict[str, Any]:
        seen.append(sorted(given))
        return given

    def after(given: dict[str, Any], seen: list[Any]) -> dict[str, Any]:
        seen.append(given)
        return given

    def look(text: str) -> str:
        with current_state() as seen:
            return f"{text} {seen}"

    workflow = Workflow[str, str](state=list)
    node = workflow.add_node("a", add("a"), input_key="k", output_key="o", pre=before, post=after)
    node.input(START, field(to="k")).static("z", 2)
    workflow.add_node("look", look).input(node, field("o"))
    workflow.end.input("look")
    app = workflow.compile()
    assert await assert_paradigms_agree(app, "1", chunks=["1", ""]) == "1a [['k', 'z'], {'o': '1a'}]"
