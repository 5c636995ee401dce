"""Durable steps: what was done once in a node or tool is not done again when the run is resumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload
from uuid import uuid4

from ._codec import codec_for
from ._context import class_of, current_frame
from ._part import current_part, inside_step, numbered
from ._types import resolve_hints
from .errors import StepMismatchError, StepResultError, UnsavableTypeError, UnsavableValueError

if TYPE_CHECKING:
    from ._codec import Codec, Json
    from ._part import Part

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """The durable step that the code which asks is part of; :func:`current_step` gives it."""

    name: str
    key: str
    """The same whenever this step of this run is tried: an idempotency key for the outside world."""


_step: ContextVar[Step | None] = ContextVar("anabranch_step", default=None)


@overload
async def step(name: str, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T: ...
@overload
async def step(name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...
async def step(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Do something once in a run: its result is saved, and given again when the node or tool runs again.

    In a run that nobody keeps it simply calls the function. Between the effect and the moment when the result is
    saved a process can die, and then the step is tried again: give :attr:`Step.key` to whoever makes the effect, who
    can tell by it that it was made already.

    Args:
        name: What the step is called in its node; a second one with the same name counts as another step, so steps
            that are done side by side, in no fixed order, need names of their own.
        function: What to do, ``def`` or ``async def``.
        *args: Its arguments; they must be the same whenever the step is tried.
        **kwargs: The same by name.

    Returns:
        What the function returned, now or before.

    Raises:
        StepMismatchError: The step was done with other arguments before.
        StepResultError: The step was done, and its result cannot be saved, so it cannot be given again.
        UnsavableValueError: The arguments cannot be saved; nothing was done.
        CheckpointError: The store failed; the step may have had its effect.

    Example:
        >>> from anabranch.compose import END, START, Graph, current_step, step
        >>> def charge(amount: int) -> str:
        ...     return f"charged {amount}"
        >>> async def pay(amount: int) -> str:
        ...     return await step("charge", charge, amount)
        >>> graph = Graph[int, str]()
        >>> graph.add_edge(START, graph.add_node("pay", pay))
        >>> graph.add_edge("pay", END)
        >>> graph.compile().invoke_sync(12)
        'charged 12'
    """
    part = current_part.get()
    if part is None:
        return await _call(Step(name, _key_without_record(name)), function, args, kwargs)
    number = part.number(f"step {name}")
    label = part.prefix + numbered(name, number + 1)
    place = "/".join(part.address)
    given = _arguments(args, kwargs)
    codec = _result_codec(function)
    found = part.get("steps", label)
    if isinstance(found, dict):
        if found["arguments"] != given:
            raise StepMismatchError(place, label, found["arguments"], given)
        if "lost" in found:
            raise StepResultError(place, label, str(found["lost"]))
        return codec.decode(found["result"])
    part.record.check_open()
    result = await _call(Step(label, _key(part, label)), function, args, kwargs)
    where = f"step {label!r} at {place!r}"
    try:
        part.put("steps", label, {"arguments": given, "result": codec.encode(result)})
    except UnsavableValueError as error:  # the effect has been had, and must not be had again
        part.put("steps", label, {"arguments": given, "lost": str(error)})
        await part.record.commit(where)
        raise StepResultError(place, label, str(error)) from error
    await part.record.commit(where)
    return result


def current_step() -> Step:
    """Give the durable step that the code which asks is part of.

    Returns:
        Its name, and its key for the outside world.

    Raises:
        RuntimeError: If it is called outside of a step.

    Example:
        >>> from anabranch.compose import END, START, Graph, step
        >>> async def name(word: str) -> str:
        ...     return await step("name", lambda: current_step().name)
        >>> graph = Graph[str, str]()
        >>> graph.add_edge(START, graph.add_node("name", name))
        >>> graph.add_edge("name", END)
        >>> graph.compile().invoke_sync("tides")
        'name'
    """
    found = _step.get()
    if found is None:
        raise RuntimeError("current_step() was called outside of a step; call it inside what step(…) calls")
    return found


async def _call(now: Step, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    token, inside = _step.set(now), inside_step.set(f"{now.name}/")
    try:
        made = function(*args, **kwargs)
        return await made if hasattr(made, "__await__") else made
    finally:
        inside_step.reset(inside)
        _step.reset(token)


def _arguments(args: Any, kwargs: Any) -> Json:
    """Say the arguments in plain data, by which another call is told apart."""
    return [[_plain(value) for value in args], {name: _plain(value) for name, value in sorted(kwargs.items())}]


def _plain(value: Any) -> Json:
    try:
        return codec_for(Any).encode(value)
    except UnsavableValueError:
        kind = class_of(value)
        try:
            return {kind.__qualname__: codec_for(kind).encode(value)}
        except UnsavableTypeError as error:
            raise UnsavableValueError("an argument of the step", error.why) from error


def _result_codec(function: Callable[..., Any]) -> Codec:
    try:
        hints = resolve_hints(function)
    except (NameError, TypeError, AttributeError):
        hints = {}
    return codec_for(hints.get("return", Any))


def _key(part: Part, label: str) -> str:
    return _digest(part.record.id, *part.address, label)


class _Place:
    """Where steps are counted in a run that nobody keeps: a node's visit, or a tool call."""

    def __init__(self) -> None:
        self.token = uuid4().hex
        self.attempt = 1
        self.counts: Counter[str] = Counter()


_place: ContextVar[_Place | None] = ContextVar("anabranch_step_place", default=None)


def _key_without_record(name: str) -> str:
    """Make a key that no other step has, but the same one at another attempt of the node."""
    place, frame = _place.get(), current_frame.get()
    if place is None:
        place = _Place()
        _place.set(place)
    if frame is not None and frame[2] != place.attempt:
        place.attempt = frame[2]
        place.counts.clear()
    place.counts[name] += 1
    return _digest(place.token, name, str(place.counts[name]))


def _digest(*parts: str) -> str:
    made = blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        made.update(len(data).to_bytes(4, "big") + data)
    return made.hexdigest()
