"""What every test of the project runs under: both backends, bounded time, and nothing left behind.

A test fails when it leaves something open, also when all its assertions hold:

* an unclosed stream, socket or file (``ResourceWarning``) and a coroutine that was never awaited: warnings
  are errors, the rubbish is collected right after the test, and what a finalizer raises is a failure;
* an asyncio task that still runs when the test function has returned;
* an async generator that was started and neither finished nor closed;
* a thread that is not a daemon.

``@pytest.mark.may_leak`` switches the second and the third rule off, for tests of leaks.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import os
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable, Generator, Iterator
from types import AsyncGeneratorType, CodeType
from typing import Any

import hypothesis
import looptime
import pytest
import trio.testing

hypothesis.settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    phases=set(hypothesis.Phase) - {hypothesis.Phase.explain},
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "nightly", hypothesis.settings.get_profile("ci"), derandomize=False, max_examples=5_000
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
if os.environ.get("HYPOTHESIS_PROFILE") == "nightly":
    os.environ.setdefault("PYTEST_TIMEOUT", "3600")  # thousands of examples need longer than a test has by day

Backend = tuple[str, dict[str, Any]]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    """Run each async test on asyncio and on trio; in virtual time where the test is marked so."""
    virtual = request.node.get_closest_marker("virtual_time") is not None
    if request.param == "trio":
        return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)} if virtual else {}
    return "asyncio", {"debug": True, **({"loop_factory": looptime.new_event_loop} if virtual else {})}


def pytest_collection_finish() -> None:
    """Keep the collector off all that imports and collection made, so that a full collection takes 1 ms."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    """Make leaks that only show at garbage collection, and threads left running, failures of their test."""
    before = set(threading.enumerate())
    yield
    started = [t for t in threading.enumerate() if t not in before and not t.daemon]
    for thread in started:
        thread.join(timeout=1.0)  # worker threads are told to stop, but not waited for, when a loop closes
    # The traceback of a failed test must not carry its rubbish over into the next one.
    for name in ("last_exc", "last_value", "last_traceback"):
        setattr(sys, name, None)
    gc.collect()  # what finalizers raise now, pytest reports as an error of this test
    running = [t.name for t in started if t.is_alive()]
    assert not running, f"threads left running by this test: {running}"


@pytest.fixture
def run_code() -> Iterator[Callable[[CodeType, dict[str, Any]], None]]:
    """Run compiled examples of docs and docstrings; those of one test that ``await`` share an event loop."""
    with asyncio.Runner(debug=True) as runner:

        def run(code: CodeType, namespace: dict[str, Any]) -> None:
            outcome = eval(code, namespace)
            if code.co_flags & inspect.CO_COROUTINE:
                runner.run(outcome)

        yield run


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Guard async test functions, and each example of those that Hypothesis runs."""
    if pyfuncitem.get_closest_marker("may_leak") is not None:
        return (yield)
    given = getattr(pyfuncitem.obj, "hypothesis", None)
    owner, name = (pyfuncitem, "obj") if given is None else (given, "inner_test")
    current = getattr(owner, name)
    test = getattr(current, "_anyio_original_func", current)  # anyio's plugin replaces it for each backend
    if not inspect.iscoroutinefunction(test):
        return (yield)
    setattr(owner, name, leaving_nothing_behind(test))
    try:
        return (yield)
    finally:
        setattr(owner, name, test)


def leaving_nothing_behind(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Wrap an async test: it fails if tasks or async generators that it started outlive it."""

    @functools.wraps(test)
    async def guarded(*args: Any, **kwargs: Any) -> None:
        tasks_before = running_tasks()
        with watching_generators() as open_generators:
            await test(*args, **kwargs)
            tasks = [repr(task) for task in running_tasks() - tasks_before]
            generators = open_generators()
        assert not tasks, f"tasks left running by this test: {tasks}"
        assert not generators, f"async generators left open by this test: {generators}"

    return guarded


def running_tasks() -> set[asyncio.Task[Any]]:
    """Give the tasks of the asyncio loop; on trio nothing can outlive its nursery."""
    try:
        return asyncio.all_tasks()
    except RuntimeError:
        return set()


class watching_generators:
    """Note the async generators that are started inside the ``with`` block."""

    def __enter__(self) -> Callable[[], list[str]]:
        self._started: list[weakref.ref[AsyncGeneratorType[Any, Any]]] = []
        self._dropped: list[str] = []
        self._outer = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(self._on_start, self._on_drop)
        return self._open

    def __exit__(self, *exc_info: object) -> None:
        sys.set_asyncgen_hooks(*self._outer)

    def _open(self) -> list[str]:
        alive = [generator for ref in self._started if (generator := ref()) is not None]
        return self._dropped + [g.__qualname__ for g in alive if g.ag_frame is not None]

    def _on_start(self, generator: Any) -> None:
        self._started.append(weakref.ref(generator))
        if self._outer.firstiter is not None:
            self._outer.firstiter(generator)

    def _on_drop(self, generator: Any) -> None:
        self._dropped.append(generator.__qualname__)
        if self._outer.finalizer is not None:
            self._outer.finalizer(generator)
