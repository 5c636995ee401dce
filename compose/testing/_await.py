"""One line that every caller of a user's function needs."""

from __future__ import annotations

from typing import Any

__all__ = ()


async def awaited(result: Any) -> Any:
    """Give what a function of the user's gave, awaited if it is to be awaited."""
    return await result if hasattr(result, "__await__") else result
