"""What every test of the project runs under: both backends, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
import gc
import warnings

import pytest

BACKENDS = [pytest.param("asyncio", id="asyncio"), pytest.param("trio", id="trio")]


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run each async test on asyncio and on trio."""
    return str(request.param)


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    """Turn what only shows at garbage collection (unclosed streams, unawaited coroutines) into a failure."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    leaks = [str(w.message) for w in caught if issubclass(w.category, ResourceWarning)]
    assert not leaks, f"left open by this test: {leaks}"
