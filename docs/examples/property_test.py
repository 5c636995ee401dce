"""Property-test a graph: an order is priced, discounted and shipped, and whatever is ordered, the laws hold.

The first half is the graph, the second half are its tests: `pytest docs/examples/property_test.py` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from anabranch.compose import END, START, Graph
from anabranch.compose.testing import (
    assert_as_interpreted,
    assert_leaves_nothing_behind,
    assert_order_does_not_matter,
    assert_paradigms_agree,
    assert_resumes_anywhere,
    interpret,
)


class Order(BaseModel):
    """What is ordered: prices in cents."""

    prices: list[int]
    express: bool = False


class Bill(BaseModel):
    """What is to be paid, in cents."""

    goods: int
    discount: int
    shipping: int

    @property
    def total(self) -> int:
        """The sum."""
        return self.goods - self.discount + self.shipping


def add_up(order: Order) -> int:
    """Add the prices."""
    return sum(order.prices)


def find_discount(order: Order) -> int:
    """Give the cheapest of three or more for nothing."""
    return min(order.prices) if len(order.prices) >= 3 else 0


def choose_carrier(order: Order) -> Literal["express", "post"]:
    """Send it as it was asked for."""
    return "express" if order.express else "post"


def send_express(order: Order) -> int:
    """Tell what a courier takes."""
    return 1900


def send_by_post(order: Order) -> int:
    """Tell what the post takes; large orders are free."""
    return 0 if sum(order.prices) >= 10_000 else 490


def write_bill(parts: dict[str, Any]) -> Bill:
    """Put the parts together."""
    return Bill(**parts)


def build() -> Graph[Order, Bill]:
    """Join the functions: goods and discount at once, and one of the two carriers."""
    graph = Graph[Order, Bill](name="billing")
    bill = graph.add_node("bill", write_bill)
    for key, work in (("goods", add_up), ("discount", find_discount)):
        node = graph.add_node(key, work, output_key=key)
        graph.add_edge(START, node)
        graph.add_edge(node, bill)
    for key, work in (("express", send_express), ("post", send_by_post)):
        graph.add_edge(graph.add_node(key, work, output_key="shipping"), bill)
    graph.add_branch(START, choose_carrier)
    graph.add_edge(bill, END)
    return graph


app = build().compile(trigger="all")
orders = st.builds(Order, prices=st.lists(st.integers(1, 5000), max_size=8), express=st.booleans())


@given(orders)
def test_nobody_pays_less_than_nothing_or_more_than_goods_and_shipping(order: Order) -> None:
    """A law of the business: needs no event loop."""
    bill: Bill = interpret(app, order).output
    assert 0 <= bill.discount <= bill.goods
    assert bill.total <= sum(order.prices) + 1900


@given(orders)
def test_exactly_one_carrier_is_asked(order: Order) -> None:
    """A law of the graph: what a branch does not choose does not run."""
    counts = interpret(app, order).counts
    assert counts["express" if order.express else "post"] == 1
    assert sum(counts.get(key, 0) for key in ("express", "post")) == 1


def holds(check: Callable[[Any, Order], Any], examples: int) -> None:
    """Let Hypothesis try an assertion of the toolkit on orders."""

    @settings(max_examples=examples, deadline=None)
    @given(orders)
    def tried(order: Order) -> None:
        anyio.run(check, app, order)

    tried()


def test_the_engine_does_what_the_interpreter_says() -> None:
    """The same output and the same runs of nodes."""
    holds(assert_as_interpreted, 20)


def test_values_and_streams_agree() -> None:
    """All four ways to run give the same bill."""
    holds(assert_paradigms_agree, 20)


def test_it_does_not_matter_which_node_is_slow() -> None:
    """Nodes are finished in every order."""
    holds(assert_order_does_not_matter, 10)


def test_nothing_is_left_behind() -> None:
    """Wherever a run is broken off, no task and no open stream stays."""
    holds(assert_leaves_nothing_behind, 5)


def test_it_may_stop_anywhere_and_go_on() -> None:
    """A run that is paused anywhere gives the bill that it would have given."""
    holds(assert_resumes_anywhere, 3)
