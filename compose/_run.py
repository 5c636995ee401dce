"""One run of one graph: it owns the step counter, the state, the options in force and the streams, and locates errors.

A nested graph has a run of its own, whose parent is the run of the graph around it; all runs of one call share the
root's :class:`RunScope`, which closes every stream and task when the call is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ..schema import AnabranchError
from ._context import Frame, can_await, class_of, current_frame
from ._part import current_part
from ._plan import HandlerPlan, NodePlan, Plan
from ._state import StateCell, holding, not_holding
from .errors import DurableError, GraphRunError, LimitExceeded, NodeError

if TYPE_CHECKING:
    from ._body import Body
    from ._control import RunControl
    from ._observe import Observer
    from ._options import ResolvedOptions
    from ._packets import Packets
    from ._scope import Scope


class Run:
    """The run of one graph."""

    __slots__ = (
        "_id",
        "base",
        "bodies",
        "control",
        "max_steps",
        "observer",
        "options",
        "packets",
        "parent",
        "plan",
        "prefix",
        "root",
        "scope",
        "state",
        "steps",
        "trail",
        "wants_value",
    )

    def __init__(
        self,
        plan: Plan,
        packets: Packets,
        options: ResolvedOptions,
        parent: Run | None,
        prefix: str,
        scope: Scope | None = None,
    ) -> None:
        self.plan = plan
        self.packets = packets
        """How what travels along edges is handled: as values or as streams."""
        self.options = options
        self.parent = parent
        self.prefix = prefix
        """``""`` for the outermost graph, else the path of the node that this graph is, and a slash."""
        self.root: Run = self if parent is None else parent.root
        self._id: str | None = options.run_id if parent is None else None
        self.bodies: dict[int, Body] = options.bodies
        """Bodies with options of this run bound to them, by node."""
        self.max_steps = options.max_steps or plan.max_steps
        self.observer: Observer | None = options.observer
        self.wants_value = False
        """In stream mode: whether the output is wanted as one value, so that it need not be live."""
        self.steps = 0
        self.trail: list[Sequence[int]] = []
        """The nodes of each superstep so far."""
        self.state: StateCell | None = None
        self.base: Context = copy_context()
        """What every node's context is a copy of."""
        self.scope = scope
        """The record of this run, if it is kept."""
        self.control: RunControl | None = options.given.control if parent is None else None
        """By what the whole run can be paused from outside; only the root has it."""
        if plan.state is not None:
            self.state = StateCell(self._make_state() if scope is None or scope.fresh else scope.state())

    def _make_state(self) -> Any:
        assert self.plan.state is not None
        try:
            return self.plan.state()
        except Exception as error:
            raise self.located(self.graph_path, "the state factory", error) from error

    @property
    def id(self) -> str:
        """The id of the whole run, made when somebody asks."""
        root = self.root
        if root._id is None:
            root._id = uuid4().hex
        return root._id

    @property
    def graph_path(self) -> str:
        """The path of this graph, ``""`` for the outermost."""
        return self.prefix[:-1]

    def path(self, node: NodePlan) -> str:
        """Give a node's path from the outermost graph."""
        return self.prefix + node.key

    def context(self, node: NodePlan) -> Context:
        """Make the context in which a node runs."""
        context = self.base.copy()
        frame: Frame = (self, node, 1)
        context.run(current_frame.set, frame)
        if self.scope is not None:
            context.run(current_part.set, self.scope.part_of(node) or current_part.get())
        return context

    def in_mode(self, packets: Packets) -> Run:
        """Give a run that shares everything with this one, but handles its packets otherwise."""
        other = Run.__new__(Run)
        for name in Run.__slots__:
            setattr(other, name, getattr(self, name))
        other.packets = packets
        return other

    def fail(self, error: GraphRunError) -> GraphRunError:
        """Mark an error as one of this run's, so that it is not located again on its way out."""
        error.__dict__["_run"] = self.root
        return error

    def located(self, path: str, where: str, error: BaseException) -> AnabranchError:
        """Say where something raised: once, at the innermost place.

        An error of another run (a compiled graph that a node called) gets the node's path in front of its own.
        """
        if isinstance(error, GraphRunError) and error.__dict__.get("_run") is self.root:
            return error
        if isinstance(error, DurableError):
            return self.fail(error)
        if isinstance(error, LimitExceeded) and "_run" not in error.__dict__:
            error.path = path
            return self.fail(error)
        if isinstance(error, NodeError):
            return self.fail(NodeError(f"{path}/{error.path}", error.where, error.__cause__ or error))
        return self.fail(NodeError(path, where, error))

    async def call_nested(self, node: NodePlan, plan: Plan, packet: Any) -> Any:
        """Run a graph that is a node of this one, in the same mode, inside the node's context."""
        from ._schedule import run_plan

        options = self.options.below(node.key)
        part = current_part.get()
        scope = None if part is None else part.nested(plan)
        inner = Run(plan, self.packets, options, self, f"{self.prefix}{node.key}/", scope)
        return await run_plan(inner, packet)

    def start_handler(self, node: NodePlan, handler: HandlerPlan, cell: StateCell, value: Any) -> Any:
        """Call a state handler while nobody holds the state; give its result, or the coroutine that still makes it."""
        cell.take()
        token = holding(cell)
        try:
            result = handler.call(value, cell.value)
        except BaseException as error:
            not_holding(token)
            cell.give_back()
            if not isinstance(error, Exception):
                raise
            located = self.located(self.path(node), handler.where, error)
            raise located from located.__cause__
        if can_await(class_of(result)):
            return self._finish_handler(node, handler, cell, token, result)
        not_holding(token)
        cell.give_back()
        return result

    async def _finish_handler(
        self, node: NodePlan, handler: HandlerPlan, cell: StateCell, token: Any, result: Any
    ) -> Any:
        try:
            return await result
        except Exception as error:
            located = self.located(self.path(node), handler.where, error)
            raise located from located.__cause__
        finally:
            not_holding(token)
            cell.give_back()

    async def call_handler(self, node: NodePlan, handler: HandlerPlan, value: Any) -> Any:
        """Call a state handler while it alone holds the state."""
        cell = self.state
        assert cell is not None, "the compiler lets no handler into a graph without state"
        if cell.free:
            cell.take()
        else:
            await cell.acquire()
        token = holding(cell)
        try:
            result = handler.call(value, cell.value)
            return await result if hasattr(result, "__await__") else result
        except Exception as error:
            located = self.located(self.path(node), handler.where, error)
            raise located from located.__cause__
        finally:
            not_holding(token)
            cell.give_back()
