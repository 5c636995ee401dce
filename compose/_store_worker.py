"""Threads for work that blocks, awaited from any event loop and never abandoned half-way.

What a store writes has been decided when the caller goes on (rule S3 of :mod:`._store`), so a wait here cannot be
cancelled, neither by a scope nor by ``task.cancel()``: the cancellation is delivered when the work is done. One
worker serves several event loops at once. Its threads are daemons that hold no reference to it, so they end when the
store is closed, dropped, or the process ends; after a fork the child starts afresh.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, Protocol, TypeVar, cast

from ._crew import on_asyncio

Outcome = tuple[Any, BaseException | None]
Deliver = Callable[[Outcome], None]


class Resource(Protocol):
    """What one thread works with, such as a connection; nobody else touches it."""

    def close(self) -> None:
        """Give it back, without raising."""
        ...


R = TypeVar("R", bound=Resource)
T = TypeVar("T")


class Threads(Generic[R]):
    """The threads of a worker, from the first job to the closing."""

    def __init__(self, name: str, make: Callable[[], R], count: int) -> None:
        self.pid = os.getpid()
        self._name = name
        self._make = make
        self._count = count
        self._queue: SimpleQueue[tuple[Callable[[R], Any], Deliver] | None] = SimpleQueue()
        self._lock = Lock()
        self._unfinished = 0
        self._started = 0
        self._closed = False
        self._tell_end: Deliver

    def submit(self, job: Callable[[R], Any], deliver: Deliver) -> bool:
        """Have a job done, by a new thread if all are busy; give False if the threads are to end."""
        with self._lock:
            if self._closed:
                return False
            self._unfinished += 1
            if self._started < min(self._unfinished, self._count):
                self._started += 1
                Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
            self._queue.put((job, deliver))
        return True

    def end(self, deliver: Deliver = lambda outcome: None) -> None:
        """Let each thread end when everything submitted is done, and the last one tell."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._tell_end = deliver
            nothing_started = self._started == 0
            for _ in range(self._started):
                self._queue.put(None)
        if nothing_started:
            deliver((None, None))

    def _work(self) -> None:
        resource = self._make()
        while (item := self._queue.get()) is not None:
            job, deliver = item
            outcome: Outcome
            try:
                outcome = (job(resource), None)
            except BaseException as error:
                outcome = (None, error)
            with self._lock:
                self._unfinished -= 1
            deliver(outcome)
            del item, job, deliver, outcome  # an idle thread keeps nothing alive
        resource.close()
        with self._lock:
            self._started -= 1
            is_last = self._started == 0
        if is_last:
            self._tell_end((None, None))


class Worker(Generic[R]):
    """Does jobs in threads that are started when they are needed, each with a resource of its own.

    Args:
        name: What the threads are called.
        make: Makes the resource of a thread, inside it. It may not fail and may not refer to the worker's owner.
        count: At most so many threads.
    """

    def __init__(self, name: str, make: Callable[[], R], count: int = 1) -> None:
        self._make_threads: Callable[[], Threads[R]] = partial(Threads, name, make, count)
        self._lock = Lock()
        self._threads: list[Threads[R]] = []  # one at most; a list, since the finalizer must not refer to the worker
        self._pid = os.getpid()
        weakref.finalize(self, _end, self._threads)

    async def do(self, job: Callable[[R], T]) -> T:
        """Do a job in a thread and give what it returns, or raise what it raises.

        Who is cancelled before or meanwhile learns it when the job is done.
        """
        value, error = await _delivered(lambda deliver: self._submit(job, deliver))
        if error is not None:
            try:
                raise error
            finally:
                del error
        return value  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """Wait until everything submitted is done, close the resources and end the threads."""
        with self._lock_here():
            threads = self._threads.pop() if self._threads else None
        if threads is not None:
            await _delivered(threads.end)

    def _submit(self, job: Callable[[R], Any], deliver: Deliver) -> None:
        while True:
            with self._lock_here():
                if not self._threads:
                    self._threads.append(self._make_threads())
                threads = self._threads[0]
            if threads.submit(job, deliver):
                return

    def _lock_here(self) -> Lock:
        """Give the lock; in a process forked off a new one, and no threads, since those stayed behind.

        The resources that the threads held are never touched there, nor closed.
        """
        if self._pid != (pid := os.getpid()):
            self._pid, self._lock = pid, Lock()
            self._threads.clear()
        return self._lock


def _end(running: list[Threads[Any]]) -> None:
    for threads in running:
        if threads.pid == os.getpid():
            threads.end()


async def _delivered(begin: Callable[[Deliver], None]) -> Outcome:
    """Begin something that delivers its outcome from another thread, and wait for that, whatever is cancelled."""
    if on_asyncio():
        from ._store_worker_asyncio import delivered

        return cast(Outcome, await delivered(begin))
    import trio
    from outcome import Value

    token = trio.lowlevel.current_trio_token()
    task = trio.lowlevel.current_task()

    def deliver(outcome: Outcome) -> None:
        with suppress(trio.RunFinishedError):  # nobody waits any more
            token.run_sync_soon(trio.lowlevel.reschedule, task, Value(outcome))

    begin(deliver)
    outcome: Outcome = await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
    await trio.lowlevel.checkpoint_if_cancelled()
    return outcome
