"""One node, once: its attempts, its time limit, and what observers see of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Coroutine, Sequence
from contextvars import Context
from typing import Any

import anyio
from anyio import EndOfStream

from ..schema import StreamReader
from ._body import Body
from ._context import current_frame, enter, resume_within, within, work_in
from ._crew import Crew
from ._packets import Packet
from ._part import current_part
from ._plan import BranchPlan, NodePlan
from ._route import chosen_ends
from ._run import Run
from ._spec import Retry
from ._state import StateCell
from ._streams import boxed, chunks_to_value, node_reader
from .errors import DurableError, GraphRunError, InterruptError, NodeTimeoutError, StepLimitExceeded

ONCE = Retry(attempts=1)
FINAL = (InterruptError, DurableError)
"""What will be no other at the next attempt: nobody can be asked, or nothing can be saved."""


async def run_node(run: Run, node: NodePlan, packet: Packet) -> Packet:
    """Run a node in place, with its handlers, inside a context of its own."""
    context = run.context(node)
    if node.handled and run.state is not None and run.state.free and not run.packets.streaming and not run.bodies:
        return await _run_handled(run, node, run.state, context, packet)
    packet = await prepared(run, node, context, packet)
    if node.plain and not run.packets.streaming and not run.bodies:
        packet = call_plain(run, node, context, packet)
        work = work_in(packet)
        if work is not None:
            packet = await within(context, finish_plain(run, node, work))
    elif node.flows and run.packets.streaming and not run.bodies:
        packet = await _flow(run, node, context, packet)
    else:
        packet = await within(context, execute(run, node, packet))
    return await finished(run, node, context, packet)


async def _flow(run: Run, node: NodePlan, context: Context, reader: StreamReader[Any]) -> StreamReader[Any]:
    """Run a node from a stream to a stream that nothing keeps from starting at once."""
    try:
        made = context.run(node.body.transform, reader)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        work = work_in(made)
        if work is not None:
            made = await within(context, work)
    except Exception as error:
        located = run.located(run.path(node), "node", error)
        raise located from located.__cause__
    return node_reader(run, node, made, reader, context)


async def prepared(run: Run, node: NodePlan, context: Context, packet: Packet) -> Packet:
    """Do what comes before the body."""
    if node.pre is not None:
        packet = await within(context, run.packets.before(run, node, packet))
    return packet if node.input_key is None else run.packets.pick(run, node, packet)


async def finished(run: Run, node: NodePlan, context: Context, packet: Packet) -> Packet:
    """Do what comes after the body."""
    if node.output_key is not None:
        packet = run.packets.wrap(run, node, packet)
    return packet if node.post is None else await within(context, run.packets.after(run, node, packet))


async def disband(run: Run, crew: Crew | None, held: Sequence[Packet]) -> None:
    """Cancel and await what is at work when a run ends, and give up what was made and not sent on."""
    try:
        if crew is not None:
            await crew.close()
    finally:
        if run.packets.streaming:
            outcomes = () if crew is None else crew.take_outcomes()
            for packet in (*held, *(made for _, made, error in outcomes if error is None)):
                await run.packets.drop(packet)


def count_step(run: Run, nodes: Sequence[int]) -> None:
    """Count a step and note who runs in it.

    Raises:
        StepLimitExceeded: If the run had all its steps already.
    """
    if run.steps >= run.max_steps:
        keys = run.plan.nodes
        trail = [tuple(keys[i].key for i in step) for step in run.trail]
        state = None if run.state is None else run.state.value
        raise run.fail(StepLimitExceeded(run.graph_path, run.max_steps, trail, [keys[i].key for i in nodes], state))
    run.steps += 1
    run.trail.append(nodes)


async def run_line(  # noqa: C901  (see below)
    run: Run, node: NodePlan, packet: Packet
) -> tuple[NodePlan, Packet, Collection[int] | None]:
    """Run a node whose step was counted, in place, and the line of nodes behind it; give the last and its output.

    Where a branch that was asked chose several ends, they come along; one that chose END gives END and its input.

    This is the hot path of chains and loops, and the one place where speed has cost some clearness: the contents of
    :func:`run_node` are written out for plain nodes, and nothing is sent anywhere while the one successor is known.
    Nothing else of the run may be at work or waiting.
    """
    if run.packets.streaming or run.bodies:
        return await _run_line_step_by_step(run, node, packet)
    nodes, base = run.plan.nodes, run.base
    while True:
        if node.bare:
            context = base.copy()
            try:
                packet = context.run(enter, (run, node, 1), node.body.invoke, packet)
                work = work_in(packet)
                if work is not None:
                    try:
                        trap = context.run(work.send, None)
                    except StopIteration as stop:
                        packet = stop.value
                    else:
                        packet = await resume_within(context, work, trap)
            except Exception as error:
                located = run.located(run.path(node), "node", error)
                raise located from located.__cause__
        else:
            packet = await run_node(run, node, packet)
        target = node.next
        if target < 0:
            ends = None if node.choice is None else await ask_in_place(run, node, node.choice, packet)
            if ends is None or len(ends) != 1:
                return node, packet, ends
            (target,) = ends
            if target == run.plan.end:
                return nodes[target], packet, None
        node = nodes[target]
        count_step(run, (target,))


async def _run_line_step_by_step(
    run: Run, node: NodePlan, packet: Packet
) -> tuple[NodePlan, Packet, Collection[int] | None]:
    """Run a line of nodes in stream mode, or one that is watched."""
    packet = await run_node(run, node, packet)
    while node.next >= 0:
        node = run.plan.nodes[node.next]
        count_step(run, (node.index,))
        packet = await run_node(run, node, packet)
    return node, packet, None


async def _run_handled(run: Run, node: NodePlan, state: StateCell, context: Context, packet: Packet) -> Packet:
    """Do the same for a plain node with a pre-handler of values, while nobody holds the state."""
    assert node.pre is not None, "that is what marks the node"
    packet = context.run(run.start_handler, node, node.pre, state, packet)
    work = work_in(packet)
    if work is not None:
        packet = await within(context, work)
    try:
        made: Packet = context.run(node.body.invoke, packet)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        work = work_in(made)
        if work is not None:
            made = await within(context, work)
    except Exception as error:
        located = run.located(run.path(node), "node", error)
        raise located from located.__cause__
    return made  # pyright: ignore[reportUnknownVariableType]


async def ask_in_place(run: Run, node: NodePlan, branch: BranchPlan, packet: Packet) -> Collection[int]:
    """Ask the one branch of a node about a value."""
    context = run.context(node)
    try:
        answer = context.run(branch.on_value or branch.condition, packet)
        work = work_in(answer)
        if work is not None:
            answer = await within(context, work)
    except Exception as error:
        located = run.located(run.path(node), f"branch {branch.name!r}", error)
        raise located from located.__cause__
    return chosen_ends(run, node, branch, answer)


def call_plain(run: Run, node: NodePlan, context: Context, value: Any) -> Any:
    """Call the function of a plain node; an ``async def`` gives its coroutine, for :func:`finish_plain`."""
    try:
        return context.run(node.body.invoke, value)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    except Exception as error:
        located = run.located(run.path(node), "node", error)
        raise located from located.__cause__


def failure(run: Run, node: NodePlan, error: BaseException) -> BaseException:
    """Locate what a node raised in a task of its own; what is no ``Exception`` passes as it is."""
    return run.located(run.path(node), "node", error) if isinstance(error, Exception) else error


async def finish_plain(run: Run, node: NodePlan, work: Coroutine[Any, Any, Any]) -> Any:
    """Await what a plain node's function gave."""
    try:
        return await work
    except Exception as error:
        located = run.located(run.path(node), "node", error)
        raise located from located.__cause__


async def execute(run: Run, node: NodePlan, packet: Packet) -> Packet:
    """Run a node's body, as often as its policy allows; inside the node's context."""
    body = run.bodies.get(node.index, node.body)
    if node.retry is None and node.timeout is None:
        return await _attempt(run, node, body, packet)
    policy = node.retry or ONCE
    value = packet
    if run.packets.streaming and policy.attempts > 1:
        value = await chunks_to_value(run, node, packet, node.takes)  # an attempt needs its input whole
    for attempt in range(1, policy.attempts + 1):
        if attempt > 1:
            await _pause(run, node, policy, attempt)
        try:
            given = boxed(value) if run.packets.streaming and policy.attempts > 1 else value
            return await _first_chunk_included(run, policy, await _timed(run, node, body, given))
        except Exception as error:
            original = error.__cause__ if isinstance(error, GraphRunError) and error.__cause__ else error
            if attempt == policy.attempts or not isinstance(original, policy.on):
                raise
            if isinstance(original, FINAL) or isinstance(error, FINAL):
                raise
    raise AssertionError("the last attempt returns or raises")


async def _pause(run: Run, node: NodePlan, policy: Retry, attempt: int) -> None:
    current_frame.set((run, node, attempt))
    part = current_part.get()
    if part is not None:
        part.rewind()
    delay = policy.delay_before(attempt)
    if delay > 0:
        await anyio.sleep(delay)


async def _timed(run: Run, node: NodePlan, body: Body, packet: Packet) -> Packet:
    if node.timeout is None:
        return await _attempt(run, node, body, packet)
    result: Packet = None
    begin = anyio.current_time()
    with anyio.move_on_after(node.timeout) as scope:
        result = await _attempt(run, node, body, packet)
    if scope.cancelled_caught:
        raise run.fail(NodeTimeoutError(run.path(node), node.timeout))
    if run.packets.streaming:
        return _timed_stream(run, node, result, node.timeout - (anyio.current_time() - begin))
    return result


def _timed_stream(run: Run, node: NodePlan, reader: StreamReader[Any], left: float) -> StreamReader[Any]:
    """Let a stream take no longer than what is left of its node's time, not counting the time that its reader takes."""
    assert node.timeout is not None, "only called where there is one"
    error = NodeTimeoutError(run.path(node), node.timeout)

    async def chunks() -> AsyncGenerator[Any, None]:
        nonlocal left
        async with reader:
            while True:
                begin = anyio.current_time()
                chunk: Any = None
                with anyio.move_on_after(left) as scope:
                    try:
                        chunk = await reader.receive()
                    except EndOfStream:
                        return
                if scope.cancelled_caught:
                    raise run.fail(error)
                left -= anyio.current_time() - begin
                yield chunk

    return StreamReader._from_generator(chunks(), feeds=(reader,))  # pyright: ignore[reportPrivateUsage]


async def _attempt(run: Run, node: NodePlan, body: Body, packet: Packet) -> Packet:
    try:
        return await run.packets.perform(run, node, body, packet)
    except Exception as error:
        located = run.located(run.path(node), "node", error)
        if located is error:
            raise
        raise located from located.__cause__


async def _first_chunk_included(run: Run, policy: Retry, packet: Packet) -> Packet:
    """Count an error before the first chunk as the attempt's; after that the chunks are out and stay out."""
    if not run.packets.streaming or policy.attempts == 1:
        return packet
    reader: StreamReader[Any] = packet
    try:
        first = await reader.receive()
    except EndOfStream:
        return StreamReader.from_iterable(list[Any]())
    return _with_first(first, reader)


def _with_first(first: Any, rest: StreamReader[Any]) -> StreamReader[Any]:
    async def chunks() -> AsyncGenerator[Any, None]:
        async with rest:
            yield first
            async for chunk in rest:
                yield chunk

    return StreamReader._from_generator(chunks(), feeds=(rest,))  # pyright: ignore[reportPrivateUsage]
