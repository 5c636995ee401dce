"""Run a plan from its input to its output, by the scheduler that its trigger asks for."""

from __future__ import annotations

from ._apart import CONTAINERS, apart
from ._packets import Packet
from ._run import Run


async def run_plan(run: Run, packet: Packet) -> Packet:
    """Run a graph and tell the observer, if there is one."""
    from ._eager import run_eagerly
    from ._rounds import run_in_rounds

    if run.parent is None and type(packet) in CONTAINERS:
        packet = apart(packet)  # the caller keeps what it gave as it was
    go = run_in_rounds if run.plan.trigger == "any" else run_eagerly
    if run.scope is not None:
        from ._durable import run_durably

        go = run_durably
    observer = run.observer
    if observer is None:
        return await go(run, packet)
    packet = await observer.graph_start(run, packet)
    try:
        result = await go(run, packet)
    except Exception as error:
        await observer.graph_error(run, error)
        raise
    except BaseException as error:
        observer.graph_stop(run, error)
        raise
    return await observer.graph_end(run, result)
