"""What a model call cost in tokens, and how such reports add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import field_validator

from ._frozen import EMPTY, Extra, Value, freeze_mapping
from .errors import ConcatError

if TYPE_CHECKING:
    from ._message import Message

__all__ = ("Usage", "UsageMode", "total_usage")

UsageMode = Literal["cumulative", "delta"]
"""How the reports of one stream relate: each tells the whole so far, or each tells what is new."""


class Usage(Value, frozen=True):
    """The tokens that a model call took.

    ``a + b`` adds two reports of *different* calls; :func:`total_usage` does so for a whole history. The
    reports of *one* call's stream are brought together by :func:`concat`, by their :attr:`mode`.

    Example:
        >>> Usage(input_tokens=10, output_tokens=2) + Usage(input_tokens=5, output_tokens=1)
        Usage(input_tokens=15, output_tokens=3)
    """

    input_tokens: int = 0
    """What the model read, cached tokens included."""
    output_tokens: int = 0
    """What the model wrote, reasoning included."""
    cached_tokens: int = 0
    """The part of the input that came from the provider's cache."""
    cache_write_tokens: int = 0
    """The part of the input that was written to the provider's cache."""
    reasoning_tokens: int = 0
    """The part of the output that was reasoning."""
    details: Extra = EMPTY
    """Further counts by name, as the provider gives them; whole numbers only."""
    mode: UsageMode = "cumulative"
    """Whether each report of a stream tells the whole so far (the largest counts) or what is new."""

    @field_validator("details")
    @classmethod
    def _check_details(cls, details: Mapping[str, object]) -> Mapping[str, object]:
        wrong = next((name for name, count in details.items() if not isinstance(count, int)), None)
        if wrong is not None:
            raise ValueError(f"the count {wrong!r} is {details[wrong]!r}, not a whole number")
        return details

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: object) -> Usage:
        """Add the usage of another call. The sum is a delta only if both were."""
        if not isinstance(other, Usage):
            return NotImplemented
        both_delta = self.mode == "delta" and other.mode == "delta"
        return _combine((self, other), sum, "delta" if both_delta else "cumulative")

    def __radd__(self, other: object) -> Usage:
        """Let ``sum(usages)`` start from 0."""
        return self if other == 0 else NotImplemented


def concat_usage(reports: Iterable[Usage]) -> Usage | None:
    """Bring the reports of one stream together: of cumulative ones the largest counts, of deltas the sum."""
    found = tuple(reports)
    if not found:
        return None
    mode = found[0].mode
    if any(report.mode != mode for report in found):
        raise ConcatError(
            "the chunks of one message report their usage in two ways, as 'cumulative' and as 'delta'; "
            "let the model that makes them use one Usage.mode"
        )
    return _combine(found, sum if mode == "delta" else max, mode)


def total_usage(messages: Iterable[Message]) -> Usage:
    """Add up what the messages of a history cost.

    Args:
        messages: Whole messages, not the chunks of one; those without a report count as nothing.

    Returns:
        The sum of their reports; a cumulative report counts with its final value.
    """
    return _combine([m.usage for m in messages if m.usage is not None], sum, "cumulative")


def _combine(reports: list[Usage] | tuple[Usage, ...], how: Callable[[Iterable[int]], int], mode: UsageMode) -> Usage:
    if not reports:
        return Usage(mode=mode)
    names = dict.fromkeys(name for report in reports for name in report.details)
    details: Mapping[str, int] = {name: how([r.details.get(name, 0) for r in reports]) for name in names}
    return Usage.model_construct(
        input_tokens=how([r.input_tokens for r in reports]),
        output_tokens=how([r.output_tokens for r in reports]),
        cached_tokens=how([r.cached_tokens for r in reports]),
        cache_write_tokens=how([r.cache_write_tokens for r in reports]),
        reasoning_tokens=how([r.reasoning_tokens for r in reports]),
        details=freeze_mapping(details),
        mode=mode,
    )
