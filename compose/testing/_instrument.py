"""A compiled graph again, with something around what its nodes do: how the other tools watch and steer a run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from copy import copy
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import Any, Protocol

from ...schema import StreamReader
from .._body import Body
from .._packets import in_thread
from .._plan import Plan
from .._runnable import Runnable
from ._await import awaited

__all__ = ()


class Guard(Protocol):
    """What is told of a node that works, and may make it wait, fail or stop there."""

    async def started(self, path: str) -> None:
        """A node begins."""
        ...

    async def ended(self, path: str, error: BaseException | None) -> None:
        """A node has its result, or an error, and has not handed it over yet."""
        ...

    async def chunk(self, path: str) -> None:
        """A node has a chunk, and has not handed it over yet."""
        ...

    def opened(self, generator: Any) -> None:
        """A node has made a stream."""
        ...


def with_bodies(app: Runnable[Any, Any], change: Callable[[str, Body], Body]) -> Runnable[Any, Any]:
    """Make a compiled graph again with other bodies, those of nested graphs too; passthroughs stay as they are."""
    changed = copy(app)
    changed.plan = _changed(app.plan, "", change)
    return changed


def _changed(plan: Plan, prefix: str, change: Callable[[str, Body], Body]) -> Plan:
    nodes = list(plan.nodes)
    for place, node in enumerate(nodes[: plan.end]):
        path, body = prefix + node.key, node.body
        if body.nested is not None:
            body = replace(body, nested=_changed(body.nested, f"{path}/", change))
        elif body.component != "passthrough":
            body = _change(path, body, change)
        nodes[place] = replace(node, body=body)
    return replace(plan, nodes=tuple(nodes))


def _change(path: str, body: Body, change: Callable[[str, Body], Body]) -> Body:
    changed, bind = change(path, body), body.bind
    if bind is None:
        return changed

    def bound(options: Any) -> Body:
        return change(path, bind(options))

    return replace(changed, bind=bound)


def guarded(app: Runnable[Any, Any], guard: Guard) -> Runnable[Any, Any]:
    """Make a compiled graph again whose nodes report to a guard; all of them are asynchronous then."""
    return with_bodies(app, lambda path, body: _guarded_body(guard, path, body))


def _guarded_body(guard: Guard, path: str, body: Body) -> Body:
    changes: dict[str, Any] = {"blocking": False}
    for paradigm in ("invoke", "collect"):
        call = getattr(body, paradigm)
        if call is not None:
            changes[paradigm] = _guarded_value(guard, path, call, in_worker=body.blocking and paradigm == "invoke")
    for paradigm in ("stream", "transform"):
        call = getattr(body, paradigm)
        if call is not None:
            changes[paradigm] = _guarded_stream(guard, path, call)
    return replace(body, **changes)


def _guarded_value(
    guard: Guard, path: str, call: Callable[[Any], Any], *, in_worker: bool
) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    async def work(value: Any) -> Any:
        await guard.started(path)
        try:
            result = await in_thread(call, value) if in_worker else await awaited(call(value))
        except Exception as error:
            await guard.ended(path, error)
            raise
        await guard.ended(path, None)
        return result

    return work


def _guarded_stream(guard: Guard, path: str, call: Callable[[Any], Any]) -> Callable[[Any], AsyncIterator[Any]]:
    async def work(value: Any) -> AsyncIterator[Any]:
        await guard.started(path)
        made = await awaited(call(value))
        guard.opened(made)
        reader: StreamReader[Any] = StreamReader.from_iterable(made)
        async with reader:
            async for chunk in reader:
                await guard.chunk(path)
                yield chunk
        await guard.ended(path, None)

    def opened(value: Any) -> AsyncIterator[Any]:
        generator = work(value)
        guard.opened(generator)
        return generator

    return opened


UNSEEN = object()
"""In a log, the input of a node that took it as a stream."""


def recorded(app: Runnable[Any, Any], log: dict[str, list[Any]]) -> Runnable[Any, Any]:
    """Make a compiled graph again that writes down what its nodes are given; what was plain stays plain."""

    def change(path: str, body: Body) -> Body:
        def noted(call: Callable[[Any], Any], *, streams: bool) -> Callable[[Any], Any]:
            def plain(value: Any) -> Any:
                log.setdefault(path, []).append(UNSEEN if streams else value)
                return call(value)

            async def asynchronous(value: Any) -> Any:
                return await plain(value)

            return asynchronous if iscoroutinefunction(call) else plain

        paradigms = {"invoke": False, "stream": False, "collect": True, "transform": True}
        calls = {p: (getattr(body, p), streams) for p, streams in paradigms.items()}
        changes: dict[str, Any] = {p: noted(call, streams=s) for p, (call, s) in calls.items() if call is not None}
        return replace(body, **changes)

    return with_bodies(app, change)
