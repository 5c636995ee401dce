"""The errors that :mod:`anabranch.compose` raises, all below :class:`~anabranch.schema.AnabranchError`.

Errors carry data and build their own text: what happened, where (the node path), and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..schema._near import did_you_mean
from ..schema.errors import AnabranchError

if TYPE_CHECKING:
    from ..schema import Message


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a graph, found before it runs."""

    kind: str
    """A short stable name of the kind of fault, such as ``"unknown-node"``."""
    text: str
    """What is wrong, where, and what to do."""
    node: str | None = None
    """The key of the node concerned, with the keys of the graphs around it, or None."""

    def __str__(self) -> str:
        return self.text


class GraphWarning(UserWarning):
    """A graph is valid, and yet probably does something else than its author expects."""


class GraphCompileError(AnabranchError, ValueError):
    """A graph cannot be compiled; :attr:`problems` holds everything that is wrong with it."""

    def __init__(self, name: str, problems: Sequence[Problem]) -> None:
        self.name = name
        self.problems: tuple[Problem, ...] = tuple(problems)
        count = len(self.problems)
        head = f"{name} cannot be compiled: {count} problem{'s' if count != 1 else ''}"
        super().__init__("\n".join([head, *(f"  {i}. {p.text}" for i, p in enumerate(self.problems, 1))]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.problems)


class GraphRunError(AnabranchError):
    """A run failed; :attr:`path` says where (``"agent/tools"``, or ``""`` for the graph itself)."""

    path: str = ""


class NodeError(GraphRunError):
    """A function of the user's raised inside a run; the original is the ``__cause__``.

    Attributes:
        path: The node's path from the outermost graph, such as ``"agent/tools"``.
        where: What raised: ``"node"``, or for example ``"pre-handler"``, ``"branch 'good_enough'"``.
    """

    def __init__(self, path: str, where: str, cause: BaseException) -> None:
        self.path = path
        self.where = where
        subject = f"node {path!r}" if where == "node" else f"{where} of node {path!r}"
        super().__init__(f"{subject} failed: {type(cause).__name__}: {cause}")
        self.__cause__: BaseException | None = cause

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.where, self.__cause__)


class NodeTimeoutError(GraphRunError, TimeoutError):
    """A node took longer than its ``timeout``."""

    def __init__(self, path: str, seconds: float) -> None:
        self.path = path
        self.seconds = seconds
        super().__init__(
            f"node {path!r} took longer than its timeout of {seconds:g} s; give it more time or make it faster"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.seconds)


class ValueTypeError(GraphRunError, TypeError):
    """A value that passed an edge (or went into the graph) is not of the type wanted there."""

    def __init__(self, path: str, edge: str, wanted: str, got: str) -> None:
        self.path = path
        self.edge = edge
        self.wanted = wanted
        self.got = got
        super().__init__(
            f"{edge}: wanted {wanted}, got {got}; give what is wanted there, or declare a type that takes it"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.edge, self.wanted, self.got)


class MergeError(GraphRunError):
    """The values of several senders to one node do not merge."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        super().__init__(f"cannot merge what was sent to node {path!r}: {text}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.text)


class MissingKeyError(GraphRunError, KeyError):
    """A node's ``input_key`` is not in the value that it got."""

    def __init__(self, path: str, key: str, present: Sequence[str]) -> None:
        self.path = path
        self.key = key
        self.present: tuple[str, ...] = tuple(present)
        super().__init__(path, key, self.present)

    def __str__(self) -> str:
        there = ", ".join(map(repr, self.present)) or "no key at all"
        hint = did_you_mean(self.key, self.present)
        return f"node {self.path!r} takes the key {self.key!r}, and its input has {there}{hint or '; send that key'}"


class UnknownTargetError(GraphRunError, LookupError):
    """A branch chose something that is not one of its ends."""

    def __init__(self, path: str, branch: str, chosen: object, ends: Sequence[str]) -> None:
        self.path = path
        self.branch = branch
        self.chosen = chosen
        self.ends: tuple[str, ...] = tuple(ends)
        super().__init__(
            f"branch {branch!r} of node {path!r} chose {chosen!r}, which is not one of its ends: "
            f"{', '.join(map(repr, self.ends))}{did_you_mean(chosen, ends)}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.branch, self.chosen, self.ends)


class StepLimitExceeded(GraphRunError):
    """A run took more steps than ``max_steps`` allows.

    Attributes:
        limit: The limit.
        trail: The keys of the nodes that ran, one tuple for each step.
        next_nodes: The keys of the nodes that would have run next.
        state: The run's state as it was, or None for a graph without state.
    """

    def __init__(
        self,
        path: str,
        limit: int,
        trail: Sequence[tuple[str, ...]],
        next_nodes: Sequence[str],
        state: Any = None,
    ) -> None:
        self.path = path
        self.limit = limit
        self.trail: tuple[tuple[str, ...], ...] = tuple(trail)
        self.next_nodes: tuple[str, ...] = tuple(next_nodes)
        self.state = state
        shown = [" + ".join(step) for step in self.trail[-10:]]
        more = "… -> " if len(self.trail) > len(shown) else ""
        where = f"graph {path!r}" if path else "the graph"
        super().__init__(
            f"{where} took {limit} steps without reaching the end: {more}{' -> '.join(shown)}; "
            f"next would be {', '.join(map(repr, self.next_nodes))}; "
            "check the loop's exit, or raise max_steps (compile(max_steps=…) or RunOptions(max_steps=…))"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.limit, self.trail, self.next_nodes, self.state)


class RunStalledError(GraphRunError):
    """A run can make no more progress and has not reached the end; :attr:`waiting` says who waits for what."""

    def __init__(self, path: str, waiting: Sequence[str], last: Sequence[str]) -> None:
        self.path = path
        self.waiting: tuple[str, ...] = tuple(waiting)
        self.last: tuple[str, ...] = tuple(last)
        where = f"graph {path!r}" if path else "the graph"
        after = f" after {', '.join(map(repr, self.last))}" if self.last else ""
        text = "; ".join(self.waiting) or "nothing is left to run"
        what = "let a branch or an edge lead on to END from there"
        super().__init__(f"{where} stopped{after} without reaching the end: {text}; {what}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.waiting, self.last)


class RunOptionsError(GraphRunError, ValueError):
    """The options of a run do not fit the graph; nothing has run."""


class InterruptError(GraphRunError):
    """A question of a node or tool cannot be asked, or its answer is not of the type wanted."""


class StateError(GraphRunError):
    """State was asked for where there is none, entered twice, or held across an await."""


class LimitExceeded(GraphRunError):
    """The base of limits that nodes keep by themselves, such as an agent's rounds; the engine passes it on as it is."""


class UnknownToolError(AnabranchError, LookupError):
    """A model called a tool that there is not; the text is written for the model."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        self.known: tuple[str, ...] = tuple(known)
        super().__init__(name, self.known)

    def __str__(self) -> str:
        there = f"the tools are: {', '.join(self.known)}" if self.known else "there are no tools: answer without them"
        near = did_you_mean(self.name, self.known)
        return f"There is no tool {self.name!r}{near}{'' if near else ';'} {there}."


class ToolTimeoutError(AnabranchError, TimeoutError):
    """A tool took longer than its ``timeout``; the text is written for the model."""

    def __init__(self, name: str, seconds: float) -> None:
        self.name = name
        self.seconds = seconds
        super().__init__(name, seconds)

    def __str__(self) -> str:
        return (
            f"The tool {self.name!r} took longer than {self.seconds:g} s and was stopped; there is no result. "
            "Ask for less, or go on without it."
        )


class ToolCallCutError(AnabranchError, ValueError):
    """The model's token limit cut a tool call off; it was not run, and the text is written for the model."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)

    def __str__(self) -> str:
        return (
            f"The call of {self.name!r} was cut off by the token limit before its arguments were complete, so it was "
            "not run. Call it again with shorter arguments, or in several smaller calls."
        )


class ToolFailedError(NodeError):
    """A tool call failed whose policy is ``"raise"``; the original is the ``__cause__``.

    Attributes:
        path: The path of the node that ran the call.
        tool: The tool's name, as it was called.
        call_id: The id of the call.
        position: The place of the call in its message, from 0.
        results: The tool messages of the other calls of the message, by their place; None where there is none.
    """

    def __init__(
        self,
        path: str,
        tool: str,
        call_id: str,
        position: int,
        cause: BaseException,
        results: Sequence[Message | None] = (),
    ) -> None:
        self.tool = tool
        self.call_id = call_id
        self.position = position
        self.results: tuple[Message | None, ...] = tuple(results)
        super().__init__(path, f"tool {tool!r} (call {call_id!r})", cause)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.tool, self.call_id, self.position, self.__cause__, self.results)


class DamagedRecordError(AnabranchError, ValueError):
    """What is stored is not what was written: changed, cut, from a newer format or of another type.

    Attributes:
        path: Which record, or which place in it.
        why: What is wrong there.
    """

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"{path or 'the record'} is damaged: {why}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.why)


class StoreError(AnabranchError):
    """A store could not do what it was asked; what the driver raised, if it did, is the ``__cause__``.

    Attributes:
        store: Which store.
        what: What was being done.
        why: What stood in the way, and what to do.
    """

    def __init__(self, store: str, what: str, why: str) -> None:
        self.store = store
        self.what = what
        self.why = why
        super().__init__(f"{store}: {what} failed: {why}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.what, self.why)


class VersionConflict(StoreError):
    """A log has another version than a save expected: somebody else has written it. Nothing was written.

    Attributes:
        id: The log's id.
        expected: The version that the save expected; 0 stands for no log.
        found: The version that the log has; 0 stands for no log.
    """

    def __init__(self, store: str, id: str, expected: int, found: int) -> None:
        self.id = id
        self.expected = expected
        self.found = found
        super().__init__(store, f"saving version {expected + 1} of log {id!r}", f"it is at version {found}")
        text = f"log {id!r} is at version {found}, not at {expected} as expected"
        self.args: tuple[Any, ...] = (f"{store}: {text}: it was written elsewhere meanwhile; load it again",)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self.id, self.expected, self.found)


class UnsavableTypeError(AnabranchError, TypeError):
    """Values of a type cannot be saved so that they come back as they were.

    Attributes:
        path: Where the type stands in the one that was asked about, such as ``"jobs[].lock"``; empty for itself.
        form: The type that was asked about, by name.
        why: What is in the way, and what to do.
    """

    def __init__(self, path: str, form: str, why: str) -> None:
        self.path = path
        self.form = form
        self.why = why
        super().__init__(f"{form} cannot be saved: {f'{path}: ' if path else ''}{why}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.form, self.why)


class UnsavableValueError(AnabranchError, ValueError):
    """A value cannot be saved so that it comes back as it was.

    Attributes:
        path: Where in the value, such as ``"messages[3].extra['x']"``; empty for the value itself.
        why: What is in the way, and what to do.
    """

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"{path or 'the value'} cannot be saved: {why}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.why)


class DurableError(GraphRunError):
    """A run that is kept cannot go on; it is not a fault of a node, and no node's path is put in front of it."""


class CheckpointError(DurableError):
    """A step could not be saved, so the run stopped; what was saved before is as it was, and the run can be resumed.

    Attributes:
        run: The id of the run.
        step: What was to be saved.
    """

    def __init__(self, run: str, step: str, cause: BaseException) -> None:
        self.run = run
        self.step = step
        super().__init__(f"run {run!r} stopped, since {step} could not be saved: {cause}")
        self.__cause__: BaseException | None = cause

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.run, self.step, self.__cause__)


class _AboutRun(AnabranchError):
    """What is wrong with a run, and what to do; :attr:`run` is its id, :attr:`why` the rest."""

    def __init__(self, run: str, why: str) -> None:
        self.run = run
        self.why = why
        super().__init__(f"run {run!r}: {why}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.run, self.why)


class RunConflict(_AboutRun, DurableError):
    """Somebody else is at work on this run, or has been; nothing was lost, and nothing was saved here."""


class StepMismatchError(DurableError):
    """A durable step was done with other arguments before; :attr:`before` and :attr:`now` are both of them."""

    def __init__(self, path: str, name: str, before: Any, now: Any) -> None:
        self.path = path
        self.name = name
        self.before = before
        self.now = now
        super().__init__(
            f"step {name!r} at {path!r} was done with {before} and is called with {now} now; a node that is resumed "
            "has to do the same steps in the same way (give another name to what is another step)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.name, self.before, self.now)


class StepResultError(DurableError):
    """The step :attr:`name` at :attr:`path` was done, and its result cannot be saved; it is not done again."""

    def __init__(self, path: str, name: str, why: str) -> None:
        self.path = path
        self.name = name
        self.why = why
        super().__init__(
            f"step {name!r} at {path!r} has had its effect, and its result cannot be saved: {why}; let it return plain "
            "data or what its annotation says, and give the step another name if it is to be done again"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.name, self.why)


class ResumeError(_AboutRun):
    """A run cannot be resumed as asked; nothing has run."""


class UnknownRunError(ResumeError):
    """There is no such run in the store."""


class RunFinishedError(ResumeError):
    """The run has its output already."""


class GraphChangedError(ResumeError):
    """The run was made by another graph than the one that is to go on with it."""


class AnswersMissingError(ResumeError):
    """The run waits for answers, and none was given."""


class UnknownInterruptError(ResumeError):
    """An answer was given to something that the run does not wait for."""


class AnswerTypeError(InterruptError):
    """An answer is of another type than the question asks for.

    Attributes:
        id: The id of the interrupt.
        wanted: The type that the answer must have.
        got: The type that it has.
    """

    def __init__(self, id: str, wanted: str, got: str) -> None:
        self.id = id
        self.wanted = wanted
        self.got = got
        super().__init__(f"the answer to {id!r} must be {wanted}, got {got}; give an answer of that type")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.id, self.wanted, self.got)
