"""What one node does, from a value to a value: handlers, keys, body; and what is around it: conditions and merging."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any

from ...schema import StreamReader, concat
from .._body import Body
from .._context import current_frame, within
from .._empty import empty_value
from .._merge import DEFAULT_MERGES
from .._options import NO_OPTIONS, ResolvedOptions
from .._packets import VALUES
from .._spec import BranchSpec, GraphSpec, HandlerSpec, NodeSpec
from .._state import StateCell
from .._types import checker
from ..errors import GraphRunError, MissingKeyError, NodeError, ValueTypeError
from ._await import awaited
from ._interpretation import Failure

__all__ = ()


class Unmergeable(Exception):
    """Values do not merge."""


class Wrong(Exception):
    """The run fails, in one of these ways."""

    def __init__(self, *failures: Failure) -> None:
        super().__init__(*failures)
        self.failures = failures


class Frame:
    """Where user code finds itself: it answers as a run does to ``current_state()``, ``emit()``, tools and the like."""

    observer = None
    packets = VALUES
    bodies: Mapping[int, Body] = {}
    options = ResolvedOptions({}, None, None, NO_OPTIONS)

    def __init__(self, spec: GraphSpec, around: Frame | None, key: str) -> None:
        self.parent = around
        self.root: Frame = self if around is None else around.root
        self.graph_path = "" if around is None else around.path_of(key)
        self.base = copy_context()
        nodes = list(spec.nodes.values())
        self.plan = SimpleNamespace(keys={node.key: place for place, node in enumerate(nodes)}, nodes=nodes)
        self.state: StateCell | None = None
        if spec.state is not None:
            try:
                self.state = StateCell(spec.state())
            except Exception as error:
                raise Wrong(Failure(NodeError, self.graph_path, error)) from error

    def path_of(self, key: str) -> str:
        """Give a node's path from the outermost graph."""
        return f"{self.graph_path}/{key}" if self.graph_path else key

    def path(self, node: NodeSpec) -> str:
        """Do as a run does."""
        return self.path_of(node.key)

    def fail(self, error: GraphRunError) -> GraphRunError:
        """Mark an error as one that says already where it was."""
        error.__dict__["_run"] = self.root
        return error

    def user_error(self, key: str, error: BaseException) -> Wrong:
        """Make the failure that an exception of the user's is."""
        if isinstance(error, Wrong):
            return error
        if isinstance(error, GraphRunError) and error.__dict__.get("_run") is self.root:
            return Wrong(Failure(type(error), error.path))
        if isinstance(error, NodeError):  # of a compiled graph that the node called
            return Wrong(Failure(NodeError, f"{self.path_of(key)}/{error.path}", error.__cause__))
        return Wrong(Failure(NodeError, self.path_of(key), error))


async def inside(frame: Frame, key: str, work: Callable[..., Any], *given: Any) -> Any:
    """Call a function of the user's as part of a node, and await what it gives."""

    async def call() -> Any:
        current_frame.set((frame, SimpleNamespace(key=key), 1))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        return await awaited(work(*given))

    try:
        return await within(copy_context(), call())
    except Exception as error:
        raise frame.user_error(key, error) from error


async def value_of(chunks: Any, form: Any) -> Any:
    """Make one value of a stream."""
    found = [chunk async for chunk in chunks] if hasattr(chunks, "__aiter__") else list(chunks)
    if found:
        return concat(found)
    empty = empty_value(form)
    return concat(found) if empty is None or empty() is None else empty()


async def run_pre(frame: Frame, node: NodeSpec, value: Any) -> Any:
    """Do what comes before a node's body: its pre-handler, then its input key."""
    if node.pre is not None:
        value = await _handled(frame, node, node.pre, value, node.outer_input)
    if node.input_key is None:
        return value
    if not isinstance(value, Mapping):
        raise Wrong(Failure(ValueTypeError, frame.path_of(node.key)))
    if node.input_key not in value:
        raise Wrong(Failure(MissingKeyError, frame.path_of(node.key)))
    picked = value[node.input_key]  # pyright: ignore[reportUnknownVariableType]
    if not node.passthrough and not accepts(node.input, picked):
        raise Wrong(Failure(ValueTypeError, frame.path_of(node.key)))
    return picked  # pyright: ignore[reportUnknownVariableType]


async def run_post(frame: Frame, node: NodeSpec, value: Any) -> Any:
    """Do what comes after a node's body: its output key, then its post-handler."""
    if node.output_key is not None:
        value = {node.output_key: value}
    return value if node.post is None else await _handled(frame, node, node.post, value, node.outer_output)


async def _handled(frame: Frame, node: NodeSpec, handler: HandlerSpec, value: Any, form: Any) -> Any:
    async def call() -> Any:
        state = frame.state and frame.state.value
        result = await awaited(handler.call(StreamReader.of(value) if handler.streams else value, state))
        return await value_of(result, form) if handler.streams else result

    return await inside(frame, node.key, call)


async def run_body(frame: Frame, node: NodeSpec, value: Any, log: list[Any]) -> Any:
    """Call what a node does, again as often as its policy allows."""
    attempts = node.retry.attempts if node.retry else 1
    for left in reversed(range(attempts)):
        log.append(value)
        try:
            return await inside(frame, node.key, call_body, node.body, value)
        except Wrong as wrong:
            cause = wrong.failures[0].cause
            if not left or node.retry is None or not isinstance(cause, node.retry.on):
                raise
    raise AssertionError("the last attempt returns or raises")


async def call_body(body: Body, value: Any) -> Any:
    """Use the first paradigm that there is, from a value to a value."""
    for call, takes_stream, gives_stream in (
        (body.invoke, False, False),
        (body.stream, False, True),
        (body.collect, True, False),
        (body.transform, True, True),
    ):
        if call is None:
            continue
        result = await awaited(call(StreamReader.of(value) if takes_stream else value))
        return await value_of(result, body.output) if gives_stream else result
    raise AssertionError("a body has at least one paradigm")


async def ask(frame: Frame, branch: BranchSpec, value: Any) -> Any:
    """Ask a condition; of one that takes values and streams, the function for values."""
    condition = branch.condition if branch.on_value is None else branch.on_value
    given = StreamReader.of(value) if branch.streams and branch.on_value is None else value
    try:
        return await inside(frame, branch.source, condition, given)
    finally:
        if isinstance(given, StreamReader):
            await given.aclose()  # pyright: ignore[reportUnknownMemberType]


def accepts(form: Any, value: Any) -> bool:
    """Tell whether a value is of a type."""
    accept: Callable[[object], bool] = checker(form)
    return accept(value)


def nothing(form: Any) -> Any:
    """Give the input of a node that is called without being sent anything."""
    empty = empty_value(form)
    return None if empty is None else empty()


def merged(sent: Mapping[str, Any], merge: Callable[[Sequence[Any]], Any] | None) -> Any:
    """Make one value of those that were sent, in the order of the senders.

    Raises:
        Unmergeable: If they do not merge.
    """
    values = list(sent.values())
    if merge is not None:
        return merge(values)
    if len(values) == 1:
        return values[0]
    if all(isinstance(value, Mapping) for value in values):
        keys = [key for value in values for key in value]
        if len(set(keys)) < len(keys):
            raise Unmergeable("a key was sent twice")
        return {key: item for value in values for key, item in value.items()}
    kinds: list[type[Any]] = [type(value) for value in values]
    functions = {id(f): f for kind in kinds if (f := DEFAULT_MERGES.find(kind))}
    if len(functions) != 1:
        raise Unmergeable("there is no rule for these types")
    (function,) = functions.values()
    return function(values)
