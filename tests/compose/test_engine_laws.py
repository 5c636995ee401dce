"""The engine against the reference interpreter: generated graphs, all paradigms, many orders, both backends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from anabranch.compose import Runnable
from anabranch.compose.testing import (
    GraphCase,
    assert_as_interpreted,
    assert_paradigms_agree,
    explore,
    graphs,
    interpret,
)

pytestmark = pytest.mark.anyio

many_runs_each = settings(max_examples=settings.default.max_examples // 3)  # type: ignore[union-attr]


@given(graphs())
async def test_a_graph_does_what_the_interpreter_says(case: GraphCase) -> None:
    await assert_as_interpreted(case.compile(), case.input)


@given(graphs(failing=True))
async def test_a_graph_whose_nodes_fail_fails_as_the_interpreter_says(case: GraphCase) -> None:
    await assert_as_interpreted(case.compile(), case.input)


@given(graphs())
async def test_the_paradigms_agree_with_each_other_and_with_the_interpreter(case: GraphCase) -> None:
    app = case.compile()
    output = await assert_paradigms_agree(app, case.input, chunks=case.chunks)
    expected = interpret(app, case.input)
    assert expected.failures or output == expected.output


@many_runs_each
@given(graphs(failing=True))
async def test_the_paradigms_agree_on_failures(case: GraphCase) -> None:
    await assert_paradigms_agree(case.compile(), case.input, chunks=case.chunks)


@many_runs_each
@given(graphs(nodes=6))
async def test_the_order_in_which_nodes_finish_changes_nothing(case: GraphCase) -> None:
    app = case.compile()
    expected = interpret(app, case.input)
    for run in await explore(app, case.input, orders=12):
        if expected.failures:
            assert run.error is not None, run.order
            assert any(failure.matches(run.error) for failure in expected.failures), (run.order, run.error)
        else:
            assert (run.output, run.error) == (expected.output, None), run.order


@many_runs_each
@given(graphs(nodes=6))
async def test_the_order_in_which_chunks_come_changes_nothing_of_the_whole(case: GraphCase) -> None:
    app = case.compile()
    expected = interpret(app, case.input)
    for run in await explore(app, case.input, orders=6, paradigm="transform", chunks=case.chunks):
        if not expected.failures:
            assert (run.output, run.error) == (expected.output, None), run.order


@many_runs_each
@given(graphs(trigger="all", nesting=0, streams=False, nodes=7))
async def test_with_trigger_all_a_node_starts_as_soon_as_all_before_it_have_ended(case: GraphCase) -> None:
    app = case.compile()
    expected = interpret(app, case.input)
    silent = passthroughs(app)
    nodes = expected.after.keys() - silent - {"start", "end"}
    for run in await explore(app, case.input, orders=6):
        finished: set[str] = set()
        for path, waiting in zip(run.order, run.waiting, strict=True):
            ready = {key for key in nodes if expected.after[key] - silent <= finished}
            assert set(waiting) == ready - finished, f"when {finished} had finished"
            finished.add(path)


@many_runs_each
@given(graphs(trigger="any", nesting=0, streams=False, nodes=7))
async def test_with_trigger_any_a_superstep_ends_before_the_next_one_begins(case: GraphCase) -> None:
    app = case.compile()
    expected = interpret(app, case.input)
    silent = passthroughs(app)
    steps = [] if expected.failures else [set(step) - silent for step in expected.steps]
    for run in await explore(app, case.input, orders=6):
        order = iter(run.order)
        assert [{next(order) for _ in step} for step in steps] == steps, run.order


def passthroughs(app: Runnable[Any, Any]) -> set[str]:
    """Name the nodes that the explorer never sees: they hand on what they get at once."""
    return {node.key for node in app.plan.nodes if node.body.component == "passthrough"}
