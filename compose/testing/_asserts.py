"""What must hold for any graph of pure functions, as assertions about a graph of your own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._plan import Plan
from .._runnable import Runnable
from ..errors import GraphRunError
from ._explore import explore
from ._instrument import UNSEEN, recorded
from ._interpret import interpret
from ._interpretation import Interpretation
from ._paradigms import PARADIGMS, Paradigm, run_paradigm

__all__ = ("assert_as_interpreted", "assert_order_does_not_matter", "assert_paradigms_agree")

Outcome = tuple[Any, Exception | None]


async def outcome_of(app: Runnable[Any, Any], input: Any, paradigm: Paradigm, chunks: Sequence[Any] | None) -> Outcome:
    """Run a graph and give its output or its error."""
    try:
        return await run_paradigm(app, input, paradigm, chunks), None
    except Exception as error:
        return None, error


def shown(outcome: Outcome) -> str:
    """Write an outcome for a message."""
    output, error = outcome
    return f"raised {type(error).__name__}: {error}" if error is not None else f"gave {output!r}"


async def assert_paradigms_agree(app: Runnable[Any, Any], input: Any, *, chunks: Sequence[Any] | None = None) -> Any:
    """Assert that a graph says the same as values and as streams.

    ``invoke(input)``, ``stream(input)``, ``collect(chunks)`` and ``transform(chunks)`` must give the same output, once
    streams are concatenated. If ``invoke`` fails, the others must fail too. There is one exception: with
    ``trigger="any"`` a stream that nobody has read when something reaches END is dropped, and an error that would have
    come out of it with it; so where a whole value fails, a stream may give an output.

    Args:
        app: The compiled graph.
        input: Its input.
        chunks: The input in chunks; by default it is one chunk.

    Returns:
        The output, or None if the run fails.

    Raises:
        AssertionError: If they do not agree; it says what each of them did.
    """
    outcomes = {paradigm: await outcome_of(app, input, paradigm, chunks) for paradigm in PARADIGMS}
    wanted, failure = outcomes["invoke"]
    for output, error in outcomes.values():
        if failure is None:
            agrees = error is None and output == wanted
        else:
            agrees = error is not None or _may_drop_streams(app.plan)
        if not agrees:
            each = "\n".join(f"  {paradigm:9} {shown(outcome)}" for paradigm, outcome in outcomes.items())
            raise AssertionError(f"the paradigms do not agree on the input {input!r}:\n{each}") from (error or failure)
    return wanted


def _may_drop_streams(plan: Plan) -> bool:
    nested = [node.body.nested for node in plan.nodes if node.body.nested is not None]
    return plan.trigger == "any" or any(map(_may_drop_streams, nested))


async def assert_as_interpreted(app: Runnable[Any, Any], input: Any) -> Interpretation:
    """Assert that a graph does what the reference interpreter says: same output, same runs of each node.

    Args:
        app: The compiled graph.
        input: Its input.

    Returns:
        What the interpreter said.

    Raises:
        AssertionError: If the engine did something else.
    """
    expected = interpret(app, input)
    log: dict[str, list[Any]] = {}
    outcome = await outcome_of(recorded(app, log), input, "invoke", None)
    assert_is(outcome, expected)
    if not expected.failures:
        _assert_same_runs(app, expected, log)
    return expected


def assert_is(outcome: Outcome, expected: Interpretation) -> None:
    """Assert that a run ended as the interpreter says."""
    output, error = outcome
    if expected.failures:
        ways = " or ".join(map(str, expected.failures))
        if error is None or not any(failure.matches(error) for failure in expected.failures):
            raise AssertionError(f"the run {shown(outcome)}; the interpreter says that it fails with {ways}") from error
    elif error is not None or output != expected.output:
        raise AssertionError(f"the run {shown(outcome)}; the interpreter says {expected.output!r}") from error


def _assert_same_runs(app: Runnable[Any, Any], expected: Interpretation, log: dict[str, list[Any]]) -> None:
    functions = {path: given for path, given in expected.runs.items() if path in log or not is_silent(app, path)}
    counts = {path: len(given) for path, given in log.items()}
    wanted = {path: len(given) for path, given in functions.items()}
    if counts != wanted:
        raise AssertionError(f"the nodes ran {counts} times; the interpreter says {wanted}")
    for path, given in functions.items():
        got = log[path]
        if any(one is not UNSEEN and one != other for one, other in zip(got, given, strict=True)):
            raise AssertionError(f"node {path!r} was given {got!r}; the interpreter says {given!r}")


def is_silent(app: Runnable[Any, Any], path: str) -> bool:
    """Tell whether a node is one that no log mentions: a passthrough, a graph, or an item of a map."""
    plan: Plan | None = app.plan
    *around, key = path.split("/")
    for outer in around:
        plan = None if plan is None else plan.nodes[plan.keys[outer]].body.nested
    if plan is None or key not in plan.keys:
        return True
    body = plan.nodes[plan.keys[key]].body
    return body.nested is not None or body.component == "passthrough"


async def assert_order_does_not_matter(
    app: Runnable[Any, Any],
    input: Any,
    *,
    orders: int = 50,
    seed: int = 0,
    paradigm: Paradigm = "invoke",
    chunks: Sequence[Any] | None = None,
) -> Any:
    """Assert that a graph gives the same output in whatever order its nodes finish.

    Where several nodes fail, which of their errors comes out may depend on the order; it must be an error in all.

    Args:
        app: The compiled graph.
        input: Its input.
        orders: How many orders to try at most, see :func:`explore`.
        seed: Decides which, where there are more.
        paradigm: How to run it.
        chunks: The input in chunks, for ``collect`` and ``transform``.

    Returns:
        The output, or None if the run fails.

    Raises:
        AssertionError: If two orders differ; it says which, and what each gave.
    """
    first = None
    for run in await explore(app, input, orders=orders, seed=seed, paradigm=paradigm, chunks=chunks):
        first = first or run
        failed = isinstance(run.error, GraphRunError), isinstance(first.error, GraphRunError)
        if failed[0] != failed[1] or run.output != first.output or (run.error and not failed[0]):
            both = "\n".join(f"  {' '.join(r.order)}: {shown((r.output, r.error))}" for r in (first, run))
            raise AssertionError(f"the order in which nodes finish matters, on the input {input!r}:\n{both}")
    return None if first is None else first.output
