"""Who watches a run: callback handlers, and the event stream.

A run that is watched runs decorated bodies: the observer wraps each paradigm of each node, so the scheduler knows
nothing of it, and a run that nobody watches pays nothing. Which methods of a handler are called follows from the
paradigm that the node has: a function from a value to a value has a start and an end, a stream is passed on chunk by
chunk, and the end comes when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio

from ..schema import NO_VALUE, EmptyStreamError, Message, StreamReader, concat
from ._body import Body
from ._context import current_frame
from ._events import (
    Custom,
    Event,
    MessageDelta,
    NodeChunk,
    NodeEnded,
    NodeFailed,
    NodeStarted,
    RunEnded,
    RunFailed,
    RunStarted,
)
from ._options import RunOptions

if TYPE_CHECKING:
    from ..schema import StreamScope
    from ._plan import NodePlan
    from ._run import Run

EventT = TypeVar("EventT", bound=Event)
StopReason = Literal["paused", "cancelled", "closed"]
"""Why something ended that neither gave its whole output nor failed; "closed": nobody read its stream to the end."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Where a callback comes from."""

    run: str
    """The id of the run."""
    path: str
    """The path of the node or nested graph; ``""`` for the outermost graph."""
    name: str
    """The display name: the node's ``name=`` or key, or the graph's name."""
    component: str
    """What it is: ``"graph"``, ``"chain"``, ``"workflow"``, ``"function"``, ``"lambda"``, ``"model"``, ``"tools"`` …"""
    attempt: int = 1
    tags: Sequence[str] = ()
    metadata: Any = field(default_factory=dict[str, Any])
    target: Any = None
    """The user's object that is the node: the function, the model, the tools node …; of a graph, its compiled plan."""


class Callbacks:
    """The methods that a callback handler may have, each ``def`` or ``async def``; any class with some of them is one.

    Handlers are called in the order in which they are given. What they raise fails the run, with the handler named.

    Example:
        >>> from anabranch.compose import END, START, Graph, RunOptions
        >>> class Log:
        ...     def on_end(self, info, output):
        ...         print(info.path or "graph", "->", output)
        >>> graph = Graph[str, str]()
        >>> graph.add_edge(START, graph.add_node("shout", str.upper, input=str, output=str))
        >>> graph.add_edge("shout", END)
        >>> graph.compile().invoke_sync("tides", RunOptions(callbacks=[Log()]))
        shout -> TIDES
        graph -> TIDES
        'TIDES'
    """

    def on_start(self, info: RunInfo, input: Any) -> Any:
        """Something begins; the input is None where it is a stream and the handler takes no stream."""

    def on_end(self, info: RunInfo, output: Any) -> Any:
        """Something has its whole output; of a stream it is the concatenation, when the stream has ended."""

    def on_error(self, info: RunInfo, error: BaseException) -> Any:
        """Something failed."""

    def on_stream_input(self, info: RunInfo, reader: StreamReader[Any]) -> Any:
        """Something begins whose input is a stream: a copy of it, in place of ``on_start``."""

    def on_stream_output(self, info: RunInfo, reader: StreamReader[Any]) -> Any:
        """Something gives a stream: a copy of it, in place of ``on_end``."""

    def on_stop(self, info: RunInfo, reason: StopReason) -> None:
        """Something ends before its end, since the run pauses, is cancelled, or its stream is not read on.

        It is no error, and what is inside it has ended too, whether that was told or not. This cannot be ``async``.
        """

    def on_event(self, info: RunInfo, event: Event) -> None:
        """Something has happened: what :meth:`Runnable.events` gives, in the same order, at once and in place.

        This cannot be ``async``.
        """


METHODS = ("on_start", "on_end", "on_error", "on_stream_input", "on_stream_output", "on_stop", "on_event")


class Observer:
    """All who watch one run."""

    def __init__(
        self, options: RunOptions, sink: Callable[[Event], None] | None = None, around: Observer | None = None
    ) -> None:
        self.options = options
        self._sink = sink
        self._sequence = 0
        self._root: Observer = self if around is None else around._root
        """The observer of the whole run, which counts the events."""
        outer = {m: [] if around is None else around._handlers[m] for m in METHODS}
        own = {m: [f for h in options.callbacks if (f := getattr(h, m, None)) is not None] for m in METHODS}
        self._handlers: dict[str, list[Callable[..., Any]]] = {m: [*outer[m], *own[m]] for m in METHODS}
        self._over = False
        self._begun: tuple[Run, RunInfo] | None = None
        """The outermost graph, once it has begun."""
        self._reading = 0
        self._read: anyio.Event | None = None
        self._failure: Exception | None = None
        """What the first handler of a stream that failed has raised."""
        self.scope: StreamScope | None = None
        """Where handlers that read copies of streams run; set by whoever opens the run."""

    def inside(self, options: RunOptions) -> Observer:
        """Give the observer of a part of the run, which more handlers watch."""
        if not (options.callbacks or options.tags or options.metadata):
            return self
        tags = (*self.options.tags, *options.tags)
        metadata = {**self.options.metadata, **options.metadata}
        return Observer(replace(options, tags=tags, metadata=metadata), None, self)

    # -- events ------------------------------------------------------------------------------------------------

    def say(
        self, run: Run, kind: type[EventT], path: str, attempt: int = 1, *, info: RunInfo | None = None, **data: Any
    ) -> None:
        """Add an event, and tell it to the handlers of events, with where it comes from if that is known."""
        root = self._root
        listeners = self._handlers["on_event"]
        if root._sink is None and not listeners:
            return
        event = kind(run=run.id, path=path, attempt=attempt, sequence=root._sequence, **data)
        root._sequence += 1
        if root._sink is not None:
            root._sink(event)
        if listeners:
            name = data.get("tool") or path.rpartition("/")[2]
            component = "tool" if "tool" in data else ""
            self._tell(run, info or self._info(run, path, name, component, attempt), "on_event", event)

    def _stops(self, run: Run, info: RunInfo, reason: StopReason) -> None:
        if self._handlers["on_stop"]:
            self._tell(run, info, "on_stop", reason)

    def _tell(self, run: Run, info: RunInfo, method: str, given: Any) -> None:
        """Call a method that cannot be async."""
        for handler in self._handlers[method]:
            try:
                answer = handler(info, given)
                if hasattr(answer, "__await__"):
                    getattr(answer, "close", bool)()
                    raise TypeError(f"{method} is called in place and cannot be async; make it a plain def")
            except Exception as error:
                located = run.located(info.path, _name_of(handler, method), error)
                raise located from located.__cause__

    # -- graphs ------------------------------------------------------------------------------------------------

    async def graph_start(self, run: Run, packet: Any) -> Any:
        """Note that a graph begins; give its input, for a stream one that is watched."""
        info = self._graph_info(run)
        streams = isinstance(packet, StreamReader)
        if run.parent is None:
            self._begun = (run, info)
        self.say(run, RunStarted, info.path, info=info, input=None if streams else packet)
        return await self._starts(run, info, packet)

    async def graph_end(self, run: Run, packet: Any) -> Any:
        """Note a graph's output; a stream is watched to its end."""
        info = self._graph_info(run)
        if run.packets.streaming:
            return await self._watched(run, info, packet, None)
        await self._ends(run, info, packet)
        self.say(run, RunEnded, info.path, info=info, output=packet)
        return packet

    async def graph_error(self, run: Run, error: BaseException) -> None:
        """Note that a graph failed."""
        info = self._graph_info(run)
        await self._fails(run, info, error)
        self.say(run, RunFailed, info.path, info=info, error=error)

    def graph_stop(self, run: Run, error: BaseException) -> None:
        """Note that a graph stopped: a pause, or cancellation."""
        self._stops(run, self._graph_info(run), _reason(error))

    def _graph_info(self, run: Run) -> RunInfo:
        plan = run.plan
        return self._info(run, run.graph_path, plan.name or plan.kind, plan.kind, 1, plan)

    def _info(self, run: Run, path: str, name: str, component: str, attempt: int, target: Any = None) -> RunInfo:
        return RunInfo(run.id, path, name, component, attempt, self.options.tags, self.options.metadata, target)

    # -- nodes -------------------------------------------------------------------------------------------------

    def decorate(self, node: NodePlan, body: Body) -> Body:
        """Make a body that tells what happens to it; graphs tell it themselves, and passthroughs do nothing."""
        if body.nested is not None or body.component in ("passthrough", "virtual"):
            return body
        changes: dict[str, Any] = {}
        if body.invoke is not None:
            changes["invoke"] = self._one_value(node, body, body.invoke)
        if body.collect is not None:
            changes["collect"] = self._one_value(node, body, body.collect)
        if body.stream is not None:
            changes["stream"] = self._one_stream(node, body.stream)
        if body.transform is not None:
            changes["transform"] = self._one_stream(node, body.transform)
        return replace(body, blocking=False, **changes)

    def _one_value(self, node: NodePlan, body: Body, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def watched(value: Any) -> Any:
            from ._packets import in_thread

            run, info = self._node_info(node)
            value = await self._node_starts(run, node, info, value)
            try:
                result = await in_thread(call, value) if body.blocking else call(value)
                result = await result if hasattr(result, "__await__") else result
            except Exception as error:
                await self._node_fails(run, node, info, error)
                raise
            except BaseException as error:
                self._stops(run, info, _reason(error))
                raise
            await self._ends(run, info, result)
            self.say(run, NodeEnded, info.path, info.attempt, info=info, component=info.component, output=result)
            return result

        return watched

    def _one_stream(self, node: NodePlan, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def watched(value: Any) -> Any:
            run, info = self._node_info(node)
            value = await self._node_starts(run, node, info, value)
            try:
                made = call(value)
                made = await made if hasattr(made, "__await__") else made
            except Exception as error:
                await self._node_fails(run, node, info, error)
                raise
            except BaseException as error:
                self._stops(run, info, _reason(error))
                raise
            return await self._watched(run, info, StreamReader.from_iterable(made), node)

        return watched

    def _node_info(self, node: NodePlan) -> tuple[Run, RunInfo]:
        frame = current_frame.get()
        assert frame is not None, "a body runs inside a frame"
        run, _, attempt = frame
        body = node.body
        return run, self._info(run, run.path(node), node.name or node.key, body.component, attempt, body.target)

    async def _node_starts(self, run: Run, node: NodePlan, info: RunInfo, value: Any) -> Any:
        shown = None if isinstance(value, StreamReader) else value
        self.say(run, NodeStarted, info.path, info.attempt, info=info, component=info.component, input=shown)
        return await self._starts(run, info, value)

    async def _node_fails(self, run: Run, node: NodePlan, info: RunInfo, error: Exception) -> None:
        await self._fails(run, info, error)
        retry = node.retry
        again = retry is not None and info.attempt < retry.attempts and isinstance(error, retry.on)
        about = {"component": info.component, "error": error, "will_retry": again}
        self.say(run, NodeFailed, info.path, info.attempt, info=info, **about)

    # -- components that are no nodes --------------------------------------------------------------------------

    @property
    def has_handlers(self) -> bool:
        """Whether any callback handler watches, and not only the events."""
        return any(self._handlers.values())

    async def tell_handlers(
        self, run: Run, path: str, name: str, component: str, attempt: int, method: str, given: Any
    ) -> None:
        """Call a method of the handlers for a component that is no node: one call of a tool."""
        await self._call(run, self._info(run, path, name, component, attempt), method, given)

    # -- what both share ---------------------------------------------------------------------------------------

    async def _starts(self, run: Run, info: RunInfo, value: Any) -> Any:
        if not isinstance(value, StreamReader):
            await self._call(run, info, "on_start", value)
            return value
        reader = self._copied(run, info, "on_stream_input", value)  # pyright: ignore[reportUnknownArgumentType]
        if not self._handlers["on_stream_input"]:
            await self._call(run, info, "on_start", None)
        return reader

    async def _ends(self, run: Run, info: RunInfo, value: Any) -> None:
        await self._call(run, info, "on_end", value)

    async def _fails(self, run: Run, info: RunInfo, error: BaseException) -> None:
        await self._call(run, info, "on_error", error)

    def _copied(self, run: Run, info: RunInfo, method: str, reader: StreamReader[Any]) -> StreamReader[Any]:
        """Give each handler of a stream a copy, read in a task of its own."""
        handlers = self._handlers[method]
        root = self._root
        if not handlers or root.scope is None:
            return reader
        reader, *copies = reader.copy(len(handlers) + 1)
        for handler, copy in zip(handlers, copies, strict=True):
            root._reading += 1
            root.scope.start_soon(self._read_copy, run, info, method, handler, copy)
        return reader

    async def _read_copy(
        self, run: Run, info: RunInfo, method: str, handler: Callable[..., Any], copy: StreamReader[Any]
    ) -> None:
        root = self._root
        try:
            async with copy:
                await self._guarded(run, info, method, handler, copy)
        except Exception as error:
            root._failure = root._failure or error  # raised when the run has ended, like any other error of it
        finally:
            root._reading -= 1
            if not root._reading and root._read is not None:
                root._read.set()

    async def settled_if_over(self) -> None:
        """Do as :meth:`settled` if the run's output was read to its end; else the handlers end with the run."""
        if self._over:
            await self.settled()
        elif self._begun is not None:
            self._stops(*self._begun, "closed")

    async def settled(self) -> None:
        """Wait until the handlers that read copies of streams have ended; called when the run has."""
        while self._reading:
            self._read = anyio.Event()
            await self._read.wait()
        if self._failure is not None:
            raise self._failure

    async def _watched(
        self, run: Run, info: RunInfo, reader: StreamReader[Any], node: NodePlan | None
    ) -> StreamReader[Any]:
        """Pass a stream on; tell of each chunk, and of its end or error."""
        chunks: list[Any] = []
        copied = bool(self._handlers["on_stream_output"])

        def tap(chunk: Any) -> Any:
            chunks.append(chunk)
            if node is not None:
                if isinstance(chunk, Message):
                    self.say(run, MessageDelta, info.path, info.attempt, info=info, delta=chunk)
                else:
                    self.say(run, NodeChunk, info.path, info.attempt, info=info, chunk=chunk)
            return chunk

        async def ended() -> Any:
            self._root._over = self._root._over or (node is None and run.parent is None)
            whole = _whole(chunks)
            if not copied:
                await self._ends(run, info, whole)
            if node is None:
                self.say(run, RunEnded, info.path, info=info, output=whole)
            else:
                self.say(run, NodeEnded, info.path, info.attempt, info=info, component=info.component, output=whole)
            return NO_VALUE

        async def failed(error: Exception) -> Any:
            self._root._over = self._root._over or (node is None and run.parent is None)
            if node is None:
                await self.graph_error(run, error)
            else:
                await self._node_fails(run, node, info, error)
            raise error

        return self._copied(run, info, "on_stream_output", reader.convert(tap, on_end=ended, on_error=failed))

    async def _call(self, run: Run, info: RunInfo, method: str, given: Any) -> None:
        for handler in self._handlers[method]:
            await self._guarded(run, info, method, handler, given)

    async def _guarded(self, run: Run, info: RunInfo, method: str, handler: Callable[..., Any], given: Any) -> None:
        outside = current_frame.get()
        if outside is None or outside[0] is not run:  # a handler of the graph, which no node runs
            current_frame.set((run, run.plan.nodes[run.plan.start], 1))
        try:
            answer = handler(info, given)
            if hasattr(answer, "__await__"):
                await answer
        except Exception as error:
            located = run.located(info.path, _name_of(handler, method), error)
            raise located from located.__cause__
        finally:
            current_frame.set(outside)


def _name_of(handler: Callable[..., Any], method: str) -> str:
    return f"callback {type(getattr(handler, '__self__', handler)).__name__}.{method}"


def _reason(error: BaseException) -> StopReason:
    from ._interrupted import is_pause

    return "paused" if is_pause(error) else "cancelled"


def _whole(chunks: Sequence[Any]) -> Any:
    """Concatenate what was seen; where chunks make no whole, the list of them says more than nothing."""
    try:
        return concat(chunks)
    except EmptyStreamError:
        return None
    except Exception:
        return list(chunks)


def emit(data: Any) -> None:
    """Add an event of one's own to the run's event stream, from inside a node, tool, handler or condition.

    Nothing happens where nobody watches the events.

    Args:
        data: What to tell; it is carried as :attr:`Custom.data`.

    Raises:
        RuntimeError: If it is called outside of a run.
    """
    frame = current_frame.get()
    if frame is None:
        raise RuntimeError(
            "emit() was called outside of a run; call it inside a node, a tool, a handler or a condition"
        )
    run, node, attempt = frame
    if run.observer is not None:
        run.observer.say(run, Custom, run.path(node), attempt, data=data)
