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
import contextlib
import functools
import gc
import inspect
import os
import signal
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Awaitable, Callable, Generator, Iterator
from pathlib import Path
from types import AsyncGeneratorType, CodeType
from typing import TYPE_CHECKING, Any

import anyio
import hypothesis
import looptime
import pytest
import trio.testing

if TYPE_CHECKING:
    from postgres_server import Server

hypothesis.settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    phases=set(hypothesis.Phase) - {hypothesis.Phase.explain},
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile("ci"), max_examples=40)
hypothesis.settings.register_profile(
    "nightly", hypothesis.settings.get_profile("ci"), derandomize=False, max_examples=5_000
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
hypothesis.settings.load_profile(PROFILE)
if PROFILE == "nightly":
    os.environ.setdefault("PYTEST_TIMEOUT", "3600")  # thousands of examples need longer than a test has by day

Backend = tuple[str, dict[str, Any]]
AsyncTest = Callable[..., Awaitable[None]]

LONG_COLLECTION = 0.005  # seconds


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    """Run each async test on asyncio and on trio; in virtual time where the test is marked so."""
    virtual = request.node.get_closest_marker("virtual_time") is not None
    if request.param == "trio":
        return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)} if virtual else {}
    return "asyncio", {"debug": PROFILE != "quick", **({"loop_factory": looptime.new_event_loop} if virtual else {})}


def pytest_configure() -> None:
    """Let Ctrl-C work: some tests send it to programs, which inherit what a shell's background job ignores."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Keep the collector off all that imports and collection made, so that a full collection takes 1 ms."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def npm_peer() -> Callable[[Path], Path]:
    """Give what installs the npm packages that a ``package.json`` names, and gives the folder they are in."""
    from peers import install_peer  # not there for the smoke tests of the built wheel

    return install_peer


@pytest.fixture(scope="session", autouse=True)
def nothing_leaks_at_last() -> Iterator[None]:
    """Let the collector look at everything when the last test is over, which is blamed for what it finds."""
    yield
    gc.unfreeze()
    gc.collect()


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
    collect_rubbish()  # what finalizers raise now, pytest reports as an error of this test
    running = [t.name for t in started if t.is_alive()]
    assert not running, f"threads left running by this test: {running}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Start a PostgreSQL server, installed first where it is missing; the tests that use it share a worker."""
    from postgres_server import PostgresMissingError, Server

    try:
        server = Server()
    except PostgresMissingError as error:
        pytest.skip(str(error))
    try:
        server.start()
        yield server
    finally:
        server.remove()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that use PostgreSQL on one worker of xdist, so that there is one server."""
    for item in items:
        if "postgres" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("postgres"))


def collect_rubbish() -> None:
    """Collect all rubbish, and when that takes long keep the collector off what has survived.

    What tests import lazily would otherwise be looked through again after each of thousands of tests.
    """
    started = time.perf_counter()
    gc.collect()
    if time.perf_counter() - started > LONG_COLLECTION:
        gc.freeze()


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
    given = getattr(pyfuncitem.obj, "hypothesis", None)
    owner, name = (pyfuncitem, "obj") if given is None else (given, "inner_test")
    current = getattr(owner, name)
    original = test = getattr(current, "_anyio_original_func", current)  # anyio's plugin replaces it for each backend
    if not inspect.iscoroutinefunction(test):
        return (yield)
    if pyfuncitem.get_closest_marker("may_leak") is None:
        test = leaving_nothing_behind(test)
    setattr(owner, name, in_limited_time(test, seconds_for(pyfuncitem)))
    try:
        return (yield)
    finally:
        setattr(owner, name, original)


def seconds_for(item: pytest.Function) -> float:
    """Give an async test less time than pytest-timeout does, so that it can still be cancelled on a busy machine.

    An alarm in the middle of the cancellation could leave trio's runner waiting without end.
    """
    marker = item.get_closest_marker("timeout")
    given = [*marker.args, marker.kwargs.get("timeout")] if marker is not None else []
    given += [item.config.getoption("timeout"), os.environ.get("PYTEST_TIMEOUT"), item.config.getini("timeout")]
    seconds = next(float(value) for value in given if value is not None)
    return max(seconds - max(0.1 * seconds, 2.0), 0.1 * seconds) if seconds else threading.TIMEOUT_MAX


def in_limited_time(test: AsyncTest, seconds: float) -> AsyncTest:
    """Wrap an async test: it is cancelled when its time is up, and says where it was.

    The alarm of pytest-timeout goes off in the main thread, outside the event loop of trio's runner, which
    would then wait for the test without end. The time is that of the whole test, of all examples of a property.
    """
    end = time.monotonic() + seconds

    @functools.wraps(test)
    async def limited(*args: Any, **kwargs: Any) -> None:
        where = ""
        with anyio.CancelScope() as scope, cancelling_after(end - time.monotonic(), scope):
            try:
                await test(*args, **kwargs)
            except BaseException as error:
                where = "".join(traceback.format_exception(error)) if scope.cancel_called else ""
                raise
        assert not scope.cancelled_caught, f"this test was cancelled after {seconds} s\n{where}"

    return limited


@contextlib.contextmanager
def cancelling_after(seconds: float, scope: anyio.CancelScope) -> Generator[None]:
    """Cancel the scope after so many seconds of real time, whatever the clock of the event loop says."""
    try:
        call_soon: Callable[..., object] = asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        call_soon = trio.lowlevel.current_trio_token().run_sync_soon
    timer = threading.Timer(seconds, call_soon, [scope.cancel])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def leaving_nothing_behind(test: AsyncTest) -> AsyncTest:
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
