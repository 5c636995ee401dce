"""The four ways to run a graph, each from a whole input to a whole output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from .._runnable import Runnable

Paradigm = Literal["invoke", "stream", "collect", "transform"]
PARADIGMS: Final[tuple[Paradigm, ...]] = ("invoke", "stream", "collect", "transform")


async def run_paradigm(
    app: Runnable[Any, Any], input: Any, paradigm: Paradigm, chunks: Sequence[Any] | None = None
) -> Any:
    """Run a graph in one of its paradigms; streams are read to their end and concatenated."""
    given = [input] if chunks is None else chunks
    if paradigm == "invoke":
        return await app.invoke(input)
    if paradigm == "collect":
        return await app.collect(given)
    async with app.stream(input) if paradigm == "stream" else app.transform(given) as reader:
        return await reader.concat(of=app.plan.output)
