"""The same line of nodes in the libraries that people use today, those of them that are installed (``peers.txt``).

They are never a dependency: each is imported in the function that makes its contestant, and left out if it is not
there. None of them is typed in a way that says what is passed on here, hence the ``Any``.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .graphs import async_step, chain, chain_by_hand, running
from .harness import Contestant, Limit, Workload

Run = Callable[[], Awaitable[Any]]


def langgraph(size: int) -> Run:
    """A StateGraph over a dict with one key."""
    graphs: Any = import_module("langgraph.graph")

    async def step(state: dict[str, Any]) -> dict[str, Any]:
        return {"x": state["x"]}

    graph = graphs.StateGraph(dict)
    for number in range(size):
        graph.add_node(f"n{number}", step)
    for one, other in zip(["__start__", *names(size)], [*names(size), "__end__"], strict=True):
        graph.add_edge(one, other)
    app = graph.compile()
    return lambda: app.ainvoke({"x": "x"}, {"recursion_limit": size + 10})


def burr(size: int) -> Run:
    """Actions on a state with one field."""
    core: Any = import_module("burr.core")

    async def step(state: Any) -> Any:
        return state.update(x=state["x"])

    action = core.action(reads=["x"], writes=["x"])(step)
    keys = names(size)

    async def run() -> None:
        made = core.ApplicationBuilder().with_actions(**dict.fromkeys(keys, action)).with_state(x="x")
        app = made.with_transitions(*itertools.pairwise(keys)).with_entrypoint(keys[0]).build()
        await app.arun(halt_after=[keys[-1]])

    return run


def pydantic_graph(size: int) -> Run:
    """Steps in a builder's graph."""
    library: Any = import_module("pydantic_graph")
    builder = library.GraphBuilder(input_type=str, output_type=str)

    async def step(context: Any) -> str:
        text: str = context.inputs
        return text

    steps = [builder.step(step, node_id=key) for key in names(size)]
    line = [builder.start_node, *steps, builder.end_node]
    builder.add(*(builder.edge_from(one).to(other) for one, other in itertools.pairwise(line)))
    graph = builder.build()
    return lambda: graph.run(inputs="x")


def haystack(size: int) -> Run:
    """Components in a pipeline."""
    library: Any = import_module("haystack")

    def run(self: Any, text: str) -> dict[str, str]:
        return {"text": text}

    step = library.component(type("Step", (), {"run": library.component.output_types(text=str)(run)}))
    pipeline = library.Pipeline()
    keys = names(size)
    for key in keys:
        pipeline.add_component(key, step())
    for one, other in itertools.pairwise(keys):
        pipeline.connect(f"{one}.text", f"{other}.text")
    return lambda: pipeline.run_async({keys[0]: {"text": "x"}})


def names(size: int) -> list[str]:
    """Name the nodes."""
    return [f"n{number}" for number in range(size)]


def contestant(make: Callable[[int], Run]) -> Contestant:
    """Build once for each size, and run."""
    made = cache(make)

    async def run(size: int) -> None:
        await made(size)()

    return run


INSTALLED = {
    make.__name__: contestant(make) for make in (langgraph, burr, pydantic_graph, haystack) if find_spec(make.__name__)
}

WORKLOADS = [
    Workload(
        "linear chain, ours and the peers",
        "node",
        {"ours": running(chain, async_step, "any"), "hand-written": chain_by_hand, **INSTALLED},
        (10, 100),
        Limit(micros=3.0),
        lambda _: 3,
    )
]
