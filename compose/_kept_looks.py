"""What can be asked of runs in a store, and copying them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from ._plan import Plan

if TYPE_CHECKING:
    from ._interrupt import Interrupt
    from ._record import Keeping, Record

OutputT = TypeVar("OutputT")

RunStatus = Literal["running", "paused", "done", "failed"]
"""How a run stands: begun and not ended (by somebody who is at work, or has died), waiting, ended, failed."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One version of a run."""

    version: int
    """From 1."""
    created: float
    """When it was written, in seconds since 1970."""
    size: int
    """How many bytes it took."""
    steps: int
    """How many steps the outermost graph had begun, while it had not ended."""
    next: tuple[str, ...]
    """The nodes of the outermost graph that were to run next, or were at work."""
    interrupts: tuple[Interrupt, ...]
    """What the run waited for."""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """What is known of a run in a store without reading it."""

    id: str
    """Its id."""
    status: RunStatus
    """How it stands."""
    thread: str | None
    """The conversation that it belongs to."""
    version: int
    """How many versions there are."""
    created: float
    """When it was begun, in seconds since 1970."""
    updated: float
    """When it was last written."""
    is_ours: bool
    """Whether the graph that was asked can go on with it."""


class KeptLooks(Generic[OutputT]):
    """The part of a :class:`Runnable` that looks at runs in a store."""

    plan: Plan
    _keeping: Keeping | None

    async def runs(
        self,
        *,
        thread: str | None = None,
        status: RunStatus | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Sequence[KeptRun]:
        """List runs of the store, in the order of their ids; those of other graphs too.

        Args:
            thread: Only those of this conversation.
            status: Only those that stand like this.
            limit: At most so many.
            after: Only ids behind this one, for the next page.

        Returns:
            What is known of each without reading it.
        """
        keeping = self._kept()
        heads = await keeping.store.heads(kind="run", thread=thread, status=status, limit=limit, after=after)
        return [
            KeptRun(
                head.id,
                cast("RunStatus", head.status),
                head.thread,
                head.version,
                head.created,
                head.updated,
                head.graph == keeping.graph,
            )
            for head in heads
        ]

    async def pending(self, run: str) -> tuple[Interrupt, ...]:
        """Give everything that a run waits for.

        Args:
            run: The id of the run.

        Returns:
            The interrupts. Of a question that another process asked with a model of its own as the payload, the
            payload is the dict of its fields.

        Raises:
            UnknownRunError: If there is no such run.
        """
        from . import _keep

        record = await self._looked_up(run)
        return tuple(_keep.pending(record))

    async def output(self, run: str) -> OutputT:
        """Give the output of a run that has ended.

        Args:
            run: The id of the run.

        Returns:
            The output.

        Raises:
            UnknownRunError: If there is no such run.
            ResumeError: If it has not ended.
        """
        from ._keep import stored_output
        from .errors import ResumeError

        found = stored_output(await self._looked_up(run), self.plan)
        if found is None:
            raise ResumeError(run, "it has not ended; resume it")
        output: OutputT = found[0]
        return output

    async def state(self, run: str, version: int | None = None) -> Any:
        """Give the state of the outermost graph of a run.

        Args:
            run: The id of the run.
            version: Which version of it; the newest if it is left out.

        Returns:
            The state, or None if the graph has none or the run had not begun.

        Raises:
            UnknownRunError: If there is no such run, or no such version.
        """
        from ._keep import GRAPH, reading
        from ._scope import codecs_of

        record = await self._looked_up(run, version)
        path = (*GRAPH, "state")
        if self.plan.state is None or record.at(path) is None:
            return None
        with reading(record):
            return codecs_of(self.plan).state.decode(record.at(path))

    async def history(self, run: str) -> Sequence[Checkpoint]:
        """Give all versions of a run, the oldest first.

        Args:
            run: The id of the run.

        Returns:
            What each of them says.

        Raises:
            UnknownRunError: If there is no such run.
        """
        from . import _keep

        await self._looked_up(run)
        found: list[Checkpoint] = []
        for version, _, size, created in await self._kept().store.versions(run):
            record = await self._looked_up(run, version)
            tasks: dict[str, Any] = record.at((*_keep.GRAPH, "tasks")) or {}
            steps = max((task["step"] for task in tasks.values()), default=0)
            nodes = tuple(task["node"] for task in tasks.values())
            found.append(Checkpoint(version, created, size, steps, nodes, tuple(_keep.pending(record))))
        return found

    async def fork(self, run: str, version: int | None = None, *, new: str | None = None) -> str:
        """Copy a version of a run, to go on from there in another way: ``resume`` the copy.

        Args:
            run: The id of the run.
            version: Which version of it; the newest if it is left out.
            new: The id of the copy; made up if it is left out.

        Returns:
            The id of the copy.

        Raises:
            UnknownRunError: If there is no such run, or no such version.
            RunConflict: If there is a run with the new id.
        """
        from . import _keep

        old = await self._looked_up(run, version)
        record = await _keep.new_record(self._kept(), new, old.thread)
        record.doc = {key: tree for key, tree in old.doc.items() if key not in ("output", "error", "delivered")}
        record.doc["run"] = record.id
        record.doc["forked"] = [run, version or old.kept.version]
        await record.commit("the copy", "paused", owner=None)
        return record.id

    async def delete(self, run: str) -> bool:
        """Delete a run, at whatever point it is.

        Args:
            run: The id of the run.

        Returns:
            Whether there was one.
        """
        return await self._kept().store.delete(run)

    # -- what these share -------------------------------------------------------------------------------------------

    def _kept(self) -> Keeping:
        if self._keeping is None:
            raise RuntimeError("this graph keeps no runs; compile it with store=…")
        return self._keeping

    async def _looked_up(self, run: str, version: int | None = None) -> Record:
        from . import _keep
        from ._record import Record, adopt

        keeping = self._kept()
        log = await _keep.load(keeping, run, version)
        record = Record(keeping, run, log.head.thread, "")
        adopt(record, log, _keep.current_document(keeping, log))
        return record
