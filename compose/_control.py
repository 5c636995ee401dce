"""Pause a run from outside."""

from __future__ import annotations

import math
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
from anyio import CancelScope, from_thread
from anyio.lowlevel import EventLoopToken, current_token

from ._interrupted import Interrupted

if TYPE_CHECKING:
    from ..schema import StreamReader


class RunControl:
    """Pauses a durable run from outside: ``RunOptions(control=control)``, then ``control.pause(grace=2.0)``.

    Asking twice is harmless; the earlier deadline counts. What finishes in time counts; what does not, runs again from
    its input when the run is resumed. The whole tree of nested graphs has one deadline.

    Example:
        >>> from anabranch.compose import END, START, Graph, Interrupted, MemoryStore, RunOptions
        >>> graph = Graph[str, str]()
        >>> graph.add_edge(START, graph.add_node("shout", str.upper, input=str, output=str))
        >>> graph.add_edge("shout", END)
        >>> app, control = graph.compile(store=MemoryStore()), RunControl()
        >>> control.pause()
        >>> try:
        ...     await app.invoke("tides", RunOptions(control=control), run="r1")
        ... except Interrupted as paused:
        ...     print(paused)
        run 'r1' was paused; go on with resume('r1')
        >>> await app.resume("r1")
        'TIDES'
    """

    def __init__(self) -> None:
        self._grace: float | None = None
        self._scope: CancelScope | None = None
        self._token: EventLoopToken | None = None
        self._thread: int | None = None
        self._end = math.inf

    @property
    def pausing(self) -> bool:
        """Whether a pause was asked for."""
        return self._grace is not None

    def pause(self, grace: float = 0.0) -> None:
        """Ask for a pause: nothing new begins, and what is at work gets a time to finish.

        It may be called from any thread, also before the run begins.

        Args:
            grace: Seconds.

        Raises:
            ValueError: If it is less than 0.
        """
        if not grace >= 0:
            raise ValueError(f"pause(grace={grace!r}): give seconds, 0 or more")
        if self._grace is None or grace < self._grace:
            self._grace = grace
        if self._token is None:
            return
        if threading.get_ident() == self._thread:
            self._apply()
        else:
            with suppress(RuntimeError):  # its event loop has ended, and so has the run
                from_thread.run_sync(self._apply, token=self._token)

    def deadline(self) -> CancelScope:
        """Give the scope around a wait; called by the run, in its own task."""
        self._token, self._thread = current_token(), threading.get_ident()
        self._scope = CancelScope(deadline=self._end)
        self._apply()
        return self._scope

    async def receive(self, reader: StreamReader[Any], run: str) -> Any:
        """Give the next chunk of a run's output, unless the time of a pause is up before.

        Raises:
            Interrupted: If so.
            EndOfStream: If there is none.
        """
        with self.deadline() as scope:
            return await reader.receive()
        assert scope.cancelled_caught, "nothing else leads here"
        raise Interrupted(run)

    def _apply(self, *_: Any) -> None:
        if self._grace is None or self._scope is None:
            return
        self._end = min(self._end, anyio.current_time() + self._grace)
        self._scope.deadline = self._end
