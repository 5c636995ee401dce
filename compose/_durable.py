"""The scheduler of durable runs: the rules of either trigger, with a record of every step.

Between tasks everything is a value, since a value is what can be kept: what a node streams is put together when the
node is done. Only the last node before END streams to the caller live. What each task has reached is noted as it is
reached, and written before anything that builds on it begins; so whoever goes on with a run, after a pause or a crash,
does nothing again that was done.

A task that stops at a question stays open. The others go on: in rounds until the step ends, else for as long as
anything can run. Then the run stops with everything that it waits for.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Collection, Sequence
from contextvars import Context, copy_context
from typing import Any, TypeVar

from ..schema import NO_VALUE, StreamReader
from ._context import within, work_in
from ._crew import Crew, Outcome, make_crew
from ._ended import Ended, Live
from ._execute import call_plain, count_step, execute, failure, finish_plain, finished, prepared
from ._frontier import EagerFrontier, Frontier, RoundsFrontier
from ._interrupted import Interrupted, is_pause, real_error
from ._packets import STREAMS, VALUES, Packet
from ._plan import NodePlan
from ._route import choose, deliveries, gathered
from ._run import Run
from ._scope import Phase, Scope, Task
from ._streams import boxed, chunks_to_value
from .errors import DurableError, RunStalledError

T = TypeVar("T")


class DurableRun:
    """One run of a graph that is kept."""

    def __init__(self, run: Run, scope: Scope) -> None:
        self.run = run
        """Runs the bodies of nodes, in the mode that the caller chose."""
        self.values = run if not run.packets.streaming else run.in_mode(VALUES)
        """Does everything between them."""
        self.scope = scope
        self.record = scope.record
        self.plan = run.plan
        self.frontier: Frontier = RoundsFrontier(run.plan) if run.plan.trigger == "any" else EagerFrontier(run.plan)
        self.crew: Crew | None = None
        self.working: set[str] = set()
        self.stopped: set[str] = set()
        """The tasks that stopped in this process."""
        self.control = run.root.control

    async def go(self, packet: Packet) -> Packet:
        try:
            if self.scope.fresh:
                value = await self._whole(self.plan.nodes[self.plan.start], packet)
                self.scope.begin()
                self.scope.follow(self.run)
                await self._begin(self.plan.nodes[self.plan.start], value)
            else:
                if packet is not None:
                    await self.run.packets.drop(packet)
                with self.scope.reading():
                    ended_before = self.scope.ended()
                if ended_before is not None:
                    return self._packet(ended_before[0])
                self._restore()
            ended = await self._until_end()
            if not ended.live:
                await self._close()
                return ended.packet
            if self.crew is not None:
                await self.crew.close()
            return self._until_read(ended.packet)
        except BaseException as error:
            try:
                await self._close(keep=not isinstance(error, DurableError))
            except DurableError as second:
                if not is_pause(error):
                    error.add_note(f"and this could not be saved: {second}")
                    raise error from error.__cause__
                raise
            raise

    def _until_read(self, reader: StreamReader[Any]) -> StreamReader[Any]:
        """Follow the state until the output has been read: the last node still runs meanwhile."""

        async def chunks() -> AsyncGenerator[Any, None]:
            try:
                async with reader:
                    async for chunk in reader:
                        yield chunk
            finally:
                self.scope.leave()

        return StreamReader._from_generator(chunks(), feeds=(reader,))  # pyright: ignore[reportPrivateUsage]

    async def _begin(self, start: NodePlan, value: Any) -> None:
        if not start.branches:
            await self._send(start, value, None)
            return
        task = self.scope.open_task(start, {}, 0)  # a condition may ask, and is asked again then
        task.phase, task.value = "done", value

    async def _close(self, *, keep: bool = False) -> None:
        """End what is at work, and note what the state has come to."""
        try:
            if self.crew is not None:
                await self.crew.close()
        finally:
            try:
                if keep and not self.scope.fresh:
                    self._keep_done()
            finally:
                self.scope.leave()

    def _keep_done(self) -> None:
        """Note what is done and was not sent on when the run stops, so that it is not done again."""
        outcomes = () if self.crew is None else self.crew.take_outcomes()
        for slot, made, error in outcomes:
            task = self.scope.tasks.get(str(slot))
            if task is not None and error is None and not isinstance(made, Live):
                self._done(task, made)
        for task in self.scope.tasks.values():
            if task.phase in ("ran", "done") and task.noted and task.get(task.phase, "value") is None:
                self.scope.advance(task, task.phase, task.value)
        self.frontier.write(self.scope)

    def _restore(self) -> None:
        scope = self.scope
        scope.follow(self.run)
        with scope.reading():
            scope.restore_tasks()
            self.frontier.read(scope)
            steps = {name: int(task["step"]) for name, task in scope.tree["tasks"].items()}
        over = [scope.tasks[name].node.index for name, step in steps.items() if step > self.values.max_steps]
        self.values.steps = min(max(steps.values(), default=0), self.values.max_steps)
        if over:
            count_step(self.values, over)

    async def _until_end(self) -> Ended:
        while True:
            if self.record.failure is not None:
                raise self.record.failure  # a node has swallowed it
            await (self._settle() if self.control is None else self._in_time(self._settle()))
            ended = await self._advance()
            if ended is not None:
                return ended
            startable = self._startable()
            if not startable and not self.working:
                raise Interrupted(self.record.id)
            await self.record.step_done(self._where)
            if self.frontier.in_rounds and any(task.phase == "ready" for task in startable):
                startable = await self._in_time(self._prepare(startable))
            if not startable and not self.working:
                continue
            if len(startable) == 1 and not self.working and self.control is None:
                live = await self._run_in_place(startable[0])
            else:
                await self._start(startable)
                live = await self._news()
            if live is not None:
                return Ended(live.reader, live=True)

    def _where(self) -> str:
        tasks = ", ".join(repr(self.run.path(task.node)) for task in self.scope.tasks.values())
        return f"the step before {tasks}" if tasks else f"the end of graph {'/'.join(self.scope.address)!r}"

    # -- what is ready -----------------------------------------------------------------------------------------

    async def _advance(self) -> Ended | None:
        """Make tasks of the nodes that are ready; give the output if END is."""
        scope = self.scope
        if self.frontier.in_rounds and scope.tasks:
            return None  # the step is not over
        ready = self.frontier.take_ready()
        if ready and ready[0][0] == self.plan.end:
            if len(scope.path) > 1:
                self.frontier.write(scope)  # the node around it may be saved before it has ended
                if self.run.parent is None:
                    await self.record.step_done(self._where)  # what the node that called this graph does is another one
            value = await gathered(self.values, self.plan.nodes[self.plan.end], ready[0][1])
            scope.note_end(ready[0][1], value)
            return Ended(self._packet(value))
        if not ready and not scope.tasks:
            last = [self.plan.nodes[i].key for i in (self.values.trail or [()])[-1]]
            raise self.run.fail(RunStalledError(self.run.graph_path, self.frontier.waiting_for(), last or ["start"]))
        step = self.values.steps
        for target, sent in ready:
            step += not self.frontier.in_rounds
            scope.open_task(self.plan.nodes[target], sent, step + self.frontier.in_rounds)
        self.frontier.write(scope)
        counted = [target for target, _ in ready]
        for nodes in [counted] if self.frontier.in_rounds else [[target] for target in counted]:
            count_step(self.values, nodes)
        return None

    def _startable(self) -> list[Task]:
        if self.control is not None and self.control.pausing:
            return []
        found: list[Task] = []
        waits = False
        for task in self.scope.tasks.values():
            has_handler = self.frontier.in_rounds and task.phase == "ready" and task.node.pre is not None
            if self._may_start(task) and not (waits and has_handler):
                found.append(task)
            elif has_handler:
                waits = True  # handlers before nodes run in the order of the nodes
        return found

    def _may_start(self, task: Task) -> bool:
        if task.name in self.working or task.name in self.stopped or task.phase == "done" or task.blocked:
            return False
        if self.frontier.in_rounds and task.phase == "ran":
            return False  # what comes after it runs when the step is over
        return not self._breaks(task, "before")

    async def _prepare(self, tasks: Sequence[Task]) -> list[Task]:
        """Run the handlers before the nodes of a step, in the order of the nodes; give those that may go on."""
        found: list[Task] = []
        waits = False
        for task in tasks:
            if task.phase != "ready" or task.node.pre is None:
                found.append(task)
            elif not waits:
                try:
                    await self._prepared(task, self._context(task, "before "))
                except BaseException as error:
                    await self._failed(task, error)
                    waits = True
                else:
                    found.append(task)
        return found

    async def _prepared(self, task: Task, context: Context) -> Any:
        """Give a node's input as its body takes it."""
        node, values = task.node, self.values
        if task.phase == "prepared":
            return task.value
        value = await gathered(values, node, task.sent)
        if node.pre is None:
            return value if node.input_key is None else values.packets.pick(values, node, value)
        task.stage = "before "
        value = await prepared(values, node, context, value)
        task.stage = ""
        self.scope.advance(task, "prepared", value)
        return task.value

    def _breaks(self, task: Task, when: str) -> bool:
        """Stop before or after a node, if the graph was compiled so and it was not done for this task already."""
        points = self.record.keeping.before if when == "before" else self.record.keeping.after
        if not points or self.run.path(task.node) not in points or task.get("asked", when) is not None:
            return False
        if when == "before" and task.phase != "ready":
            return False
        task.hold(when)
        return True

    # -- tasks -------------------------------------------------------------------------------------------------

    async def _run_in_place(self, task: Task) -> Live | None:
        self.working.add(task.name)
        try:
            made = await self._perform(task)
        except BaseException as error:
            await self._failed(task, error)
            return None
        finally:
            self.working.discard(task.name)
        if isinstance(made, Live):
            return made
        self._done(task, made)
        return None

    async def _start(self, tasks: Sequence[Task]) -> None:
        if self.crew is None:
            self.crew = make_crew()
            await self.crew.open()
        for task in tasks:
            self.working.add(task.name)
            self.crew.start(int(task.name), self._perform(task), copy_context())

    async def _news(self) -> Live | None:
        """Wait until a task has ended, or the time of a pause is up."""
        assert self.crew is not None, "something is at work"
        news: Sequence[Outcome] = ()
        try:
            news = await self._in_time(self.crew.news())
        except Interrupted:
            await self.crew.close()
            news = self.crew.take_outcomes()
            self.crew = None
            self.working.clear()
        errors: list[tuple[Task, BaseException]] = []
        for slot, made, error in news:
            task = self.scope.tasks[str(slot)]
            self.working.discard(task.name)
            if error is not None:
                errors.append((task, error))
            elif isinstance(made, Live):
                return made  # it was alone
            else:
                self._done(task, made)
        for task, error in errors:
            await self._failed(task, error)
        return None

    async def _in_time(self, work: Awaitable[T]) -> T:
        """Wait for something, until the time of a pause is up; the outermost graph keeps it for all.

        Raises:
            Interrupted: When it is up.
        """
        if self.control is None or self.run.parent is not None:
            return await work
        with self.control.deadline() as scope:
            return await work
        assert scope.cancelled_caught, "nothing else leads here"
        raise Interrupted(self.record.id)

    async def _failed(self, task: Task, error: BaseException) -> None:
        if self.record.failure is not None:
            raise self.record.failure
        error = real_error(error, self.record.id)
        if not is_pause(error):
            raise failure(self.run, task.node, error)
        self.stopped.add(task.name)
        task.block()

    def _done(self, task: Task, value: Any) -> None:
        """Note that the body of a task has run, or, where nodes are not in step, that all of it is done."""
        phase: Phase = "ran" if self.frontier.in_rounds else "done"
        task.phase, task.value = phase, value
        alone = len(self.scope.tasks) == 1 and task.node.post is None
        if self._breaks(task, "after") if phase == "done" else not alone:
            self.scope.advance(task, phase, value)

    async def _settle(self) -> None:
        """Send on what is done."""
        tasks = tuple(self.scope.tasks.values())
        if not self.frontier.in_rounds:
            for task in tasks:
                if task.phase == "done" and not self._waits(task):
                    await self._deliver(task)
            return
        if any(task.phase not in ("ran", "done") for task in tasks):
            return  # the step is not over
        for task in tasks:
            if task.phase == "ran" and (self._waits(task) or not await self._finish(task)):
                return  # handlers after nodes run in the order of the nodes
        if not any(map(self._waits, tasks)):
            for task in tasks:
                await self._deliver(task)

    def _waits(self, task: Task) -> bool:
        return task.blocked or task.name in self.stopped

    async def _finish(self, task: Task) -> bool:
        """Do what comes after the body; tell whether it came to its end."""
        node = task.node
        try:
            value = await finished(self.values, node, self._context(task, "after "), task.value)
        except BaseException as error:
            await self._failed(task, error)
            return False
        task.phase, task.value = "done", value
        if self._breaks(task, "after") or len(self.scope.tasks) > 1:
            self.scope.advance(task, "done", value)
        return True

    async def _deliver(self, task: Task) -> None:
        task.stage = "branch "
        try:
            await self._send(task.node, task.value, task.known)
        except BaseException as error:
            await self._failed(task, error)  # a condition asks
            self.scope.advance(task, "done", task.value)
        else:
            self.scope.close_task(task)

    async def _send(self, node: NodePlan, value: Any, known: Collection[int] | None) -> None:
        self.scope.note_output(node, value)
        await self.frontier.send(self.values, node, value, known)

    async def _perform(self, task: Task) -> Any:
        """Run a task from the phase that it has reached; give what it makes, or a live stream of it."""
        node = task.node
        context = self._context(task, "")
        value = task.value
        if task.phase != "ran":
            value = await self._run_body(task, context, await self._prepared(task, context))
            if isinstance(value, Live):
                return value
            if task.waits:  # the node has swallowed the pause
                raise Interrupted(self.record.id, task.unanswered)
            if self.frontier.in_rounds:
                return value
            if node.post is not None:
                self.scope.advance(task, "ran", value)
        task.stage = "after "
        return await finished(self.values, node, context, value)

    def _context(self, task: Task, stage: str) -> Context:
        """Give the context in which a task runs, and note what of it runs."""
        task.stage = stage
        if task.context is None:
            task.context = self.run.context(task.node)
        return task.context

    async def _run_body(self, task: Task, context: Context, value: Any) -> Any:
        node, run = task.node, self.run
        if not run.packets.streaming:
            if not node.plain or run.bodies:
                return await within(context, execute(run, node, value))
            made = call_plain(run, node, context, value)
            work = work_in(made)
            return made if work is None else await within(context, finish_plain(run, node, work))
        reader: StreamReader[Any] = await within(context, execute(run, node, boxed(value)))
        return await self._flow(task, reader) if self._may_flow(task) else await self._gives(node, reader)

    async def _gives(self, node: NodePlan, reader: StreamReader[Any]) -> Any:
        return await chunks_to_value(self.run, node, reader, node.gives)

    # -- streaming to the caller -------------------------------------------------------------------------------

    def _may_flow(self, task: Task) -> bool:
        """Whether what a node streams may be all that is still to come, and goes to END."""
        node = task.node
        ways = [e.target for e in node.edges if e.data] + [t for b in node.branches for t in b.targets]
        return (
            self.plan.end in ways
            and len(node.edges) + len(node.branches) == 1
            and node.post is None
            and len(self.scope.tasks) == 1
            and self.run.path(node) not in self.record.keeping.after
            and self.frontier.is_alone(node)
        )

    async def _flow(self, task: Task, reader: StreamReader[Any]) -> Any:
        node, run = task.node, self.run
        if len(self.scope.path) > 1:
            reader = self._noted_at_its_end(task, reader)
        if node.branches:
            question, reader = reader.copy(2)
            (branch,) = node.branches
            asked = question if node.output_key is None else STREAMS.wrap(run, node, question)
            task.stage = "branch "
            try:
                ends = await choose(run, node, branch, asked)
            except BaseException as error:
                if is_pause(error) or isinstance(error, Exception):
                    self.scope.advance(task, "ran", await self._gives(node, reader))  # the condition is asked again
                else:
                    await reader.aclose()
                raise
            if list(ends) != [self.plan.end]:
                task.known = ends
                return await self._gives(node, reader)
            task.known = ends
        if node.output_key is not None:
            reader = STREAMS.wrap(run, node, reader)
        for target, live, _, data, packet in await deliveries(run, node, reader, task.known):
            if live and data and target == self.plan.end:
                reader = await gathered(run, self.plan.nodes[target], {node.index: packet})
        return Live(reader)

    def _noted_at_its_end(self, task: Task, reader: StreamReader[Any]) -> StreamReader[Any]:
        """Note what a node has streamed out of this graph when it has, as the node around it may go on for long."""
        chunks: list[Any] = []

        def tap(chunk: Any) -> Any:
            chunks.append(chunk)
            return chunk

        async def ended() -> Any:
            value = await self._gives(task.node, StreamReader.from_iterable(chunks))
            if self.record.at(task.path) is not None:
                self.scope.note(task, "ran", value)
                if self.run.parent is None:
                    await self.record.step_done(self._where)
            return NO_VALUE

        return reader.convert(tap, on_end=ended)

    async def _whole(self, node: NodePlan, packet: Packet) -> Any:
        if not self.run.packets.streaming:
            return packet
        return await chunks_to_value(self.run, node, packet, node.output)

    def _packet(self, value: Any) -> Packet:
        return boxed(value) if self.run.packets.streaming else value


async def run_durably(run: Run, packet: Packet) -> Packet:
    """Run a graph whose run is kept, or go on with it."""
    assert run.scope is not None, "a run that is kept has a record"
    return await DurableRun(run, run.scope).go(packet)
