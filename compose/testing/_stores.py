"""What every store must do, as checks that any implementation can be run through on asyncio and on trio."""

from __future__ import annotations

from ._store_case import OpenStore, StoreCase
from ._store_races import CASES as RACES
from ._store_rules import CASES as RULES

__all__ = ("StoreCase", "check_store", "store_cases")


def store_cases() -> tuple[StoreCase, ...]:
    """Give everything that a store must do, one case for each test of a parametrized one.

    Example:
        >>> import pytest
        >>> @pytest.mark.anyio
        ... @pytest.mark.parametrize("case", store_cases(), ids=str)
        ... async def test_my_store(case):
        ...     await case.check(lambda: MyStore("some place"))
    """
    return (*RULES, *RACES)


async def check_store(open_store: OpenStore) -> None:
    """Check that a store keeps the rules of :class:`~anabranch.compose.CheckpointStore`, one after the other.

    It may hold other logs; they are left alone, save those that were to expire in 1970.

    Args:
        open_store: Opens the store, each time on the same data. It is called several times; what it gives is used in
            ``async with``, also two at a time.

    Raises:
        AssertionError: If the store breaks a rule; a note says which.

    Example:
        >>> store = MemoryStore()
        >>> await check_store(lambda: store)
    """
    for case in store_cases():
        await case.check(open_store)
