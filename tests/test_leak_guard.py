"""The guard of ``conftest.py`` is tested on small suites that leak in every way it knows."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
CONFTEST = (HERE / "conftest.py").read_text(encoding="utf-8")
PYPROJECT = (HERE.parent / "pyproject.toml").read_text(encoding="utf-8")
HEADER = """
import asyncio, contextlib, gc, threading, warnings
import anyio, pytest
from hypothesis import given, strategies as st

class Dropped:
    def __del__(self):
        warnings.warn("a stream was dropped", ResourceWarning)

async def numbers():
    yield 1
    yield 2

"""

LEAKS = {
    "a resource warning": """
        def test_leak():
            Dropped()
        """,
    "a resource warning at garbage collection": """
        def test_leak():
            cycle = [Dropped()]
            cycle.append(cycle)
        """,
    "a coroutine that is never awaited": """
        def test_leak():
            anyio.sleep(0)
        """,
    "a thread": """
        held = threading.Event()
        def test_leak():
            threading.Thread(target=held.wait, args=(1.2,)).start()
        """,
    "a plain warning": """
        def test_leak():
            warnings.warn("old", DeprecationWarning)
        """,
}
ASYNC_LEAKS = {
    "a dropped async generator": """
        @pytest.mark.anyio
        async def test_leak():
            async for number in numbers():
                break
        """,
    "an async generator that something still refers to": """
        kept = numbers()
        @pytest.mark.anyio
        async def test_leak():
            global kept
            kept = numbers()
            await anext(kept)
        """,
    "a generator in one example of a property": """
        @pytest.mark.anyio
        @given(number=st.integers())
        async def test_leak(number):
            if number > 100:
                await anext(numbers())
        """,
    "a resource warning in an async test": """
        @pytest.mark.anyio
        async def test_leak():
            Dropped()
        """,
}


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """Give an empty suite with this project's own settings."""
    # Most of these run inside this process, whose heap is to stay out of the collector's sight.
    pytester.makeconftest(CONFTEST.replace("    gc.unfreeze()\n", ""))
    pytester.makepyprojecttoml(PYPROJECT)
    return pytester


def outcomes(suite: pytest.Pytester, source: str, *, apart: bool = False) -> dict[str, int]:
    lines = source.splitlines()
    margin = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    file = suite.makepyfile(HEADER + "\n".join(line[margin:] for line in lines))
    arguments = ["-p", "no:cacheprovider", "-p", "no:xdist", str(file)]
    run = suite.runpytest_subprocess(*arguments, timeout=50) if apart else suite.runpytest(*arguments)
    return run.parseoutcomes()


@pytest.mark.parametrize("source", LEAKS.values(), ids=LEAKS)
def test_a_leak_fails_its_test(suite: pytest.Pytester, source: str) -> None:
    found = outcomes(suite, source)
    assert found.get("failed", 0) + found.get("errors", 0) == 1


@pytest.mark.parametrize("source", ASYNC_LEAKS.values(), ids=ASYNC_LEAKS)
def test_a_leak_of_an_async_test_fails_it_on_both_backends(suite: pytest.Pytester, source: str) -> None:
    found = outcomes(suite, source)
    assert max(found.get("failed", 0), found.get("errors", 0)) == 2


def test_a_task_that_outlives_its_test_fails_it(suite: pytest.Pytester) -> None:
    source = """
        @pytest.mark.anyio
        async def test_leak(anyio_backend_name):
            if anyio_backend_name == "asyncio":
                test_leak.task = asyncio.create_task(asyncio.Event().wait())
        """
    assert outcomes(suite, source) == {"failed": 1, "passed": 1}


def test_a_failed_test_does_not_leak_into_the_next_one(suite: pytest.Pytester) -> None:
    source = """
        def test_first():
            kept = Dropped()
            assert kept is None
        def test_second():
            pass
        """
    # Inside this process pytester's own records would keep the object alive.
    assert outcomes(suite, source, apart=True) == {"failed": 1, "errors": 1, "passed": 1}


def test_what_is_closed_is_no_leak(suite: pytest.Pytester) -> None:
    source = """
        @pytest.mark.anyio
        async def test_closed():
            async with contextlib.aclosing(numbers()) as items, anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.sleep, 0)
                await anext(items)
            assert [item async for item in numbers()] == [1, 2]
            await anyio.to_thread.run_sync(lambda: None)
        def test_expected():
            with pytest.warns(ResourceWarning):
                Dropped()
        """
    assert outcomes(suite, source) == {"passed": 3}


def test_a_marked_test_may_leak(suite: pytest.Pytester) -> None:
    source = """
        @pytest.mark.anyio
        @pytest.mark.may_leak
        async def test_dropped(anyio_backend_name):
            if anyio_backend_name == "asyncio":
                await anext(numbers())
        """
    assert outcomes(suite, source) == {"passed": 2}


def test_an_hour_of_virtual_time_passes_at_once(suite: pytest.Pytester) -> None:
    source = """
        @pytest.mark.anyio
        @pytest.mark.virtual_time
        @pytest.mark.timeout(10)
        async def test_patience():
            before = anyio.current_time()
            with pytest.raises(TimeoutError), anyio.fail_after(3600):
                await anyio.Event().wait()
            assert 3600 <= anyio.current_time() - before < 3601
        """
    assert outcomes(suite, source) == {"passed": 2}


def test_a_test_that_hangs_is_stopped_and_the_next_one_runs(suite: pytest.Pytester) -> None:
    source = """
        async def hang():
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.Event().wait)
                await anyio.Event().wait()
        @pytest.mark.anyio
        @pytest.mark.timeout(2.5)
        async def test_hang():
            await hang()
        @pytest.mark.anyio
        @pytest.mark.timeout(2.5)
        @pytest.mark.virtual_time
        async def test_hang_in_virtual_time():
            await hang()
        @pytest.mark.anyio
        @pytest.mark.timeout(2.5)
        @given(number=st.integers())
        async def test_hang_in_an_example(number):
            await hang()
        def test_next():
            pass
        """
    # In a process of its own: one whose alarm goes off in the wrong place would take this one with it.
    assert outcomes(suite, source, apart=True) == {"failed": 6, "passed": 1}


def test_what_outlives_a_long_collection_and_leaks_later_is_said_at_the_end(suite: pytest.Pytester) -> None:
    suite.makeconftest(CONFTEST.replace("LONG_COLLECTION = 0.005", "LONG_COLLECTION = 0"))
    source = """
        kept = []
        def test_first():
            cycle = [Dropped()]
            cycle.append(cycle)
            kept.append(cycle)
        def test_second():
            kept.clear()
        def test_third():
            pass
        """
    assert outcomes(suite, source, apart=True) == {"errors": 1, "passed": 3}
