"""What tokens cost, by a table that the user gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...schema import Usage

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """What a model's tokens cost, per million of them.

    Example:
        >>> Price(2.5, 10).cost(Usage(input_tokens=1_000_000, output_tokens=100_000))
        3.5
    """

    input: float
    """Per million tokens that the model reads."""
    output: float
    """Per million tokens that it writes, reasoning included."""
    cached: float | None = None
    """Per million tokens that come from the provider's cache; as ``input`` where it is None."""

    def cost(self, usage: Usage) -> float:
        """Give what the tokens of a report cost.

        Args:
            usage: The report.

        Returns:
            The sum, in the currency of the price.
        """
        cached = usage.cached_tokens if self.cached is not None else 0
        read = (usage.input_tokens - cached) * self.input + cached * (self.cached or 0)
        return (read + usage.output_tokens * self.output) / MILLION


Prices = Mapping[str, Price | tuple[float, float]]
"""Prices by the names of models; a pair is what input and output cost."""


def table_of(prices: Prices) -> Mapping[str, Price]:
    """Check a user's table.

    Raises:
        TypeError: If what stands for a model is no price.
    """
    table: dict[str, Price] = {}
    for name, price in prices.items():
        match price:
            case Price():
                table[name] = price
            case (float() | int() as read, float() | int() as written):
                table[name] = Price(read, written)
            case _:
                raise TypeError(
                    f"prices={{{name!r}: {price!r}}}: give Price(input, output) per million tokens, or a pair"
                )
    return table


def find_price(table: Mapping[str, Price], model: str | None) -> Price | None:
    """Give a model's price: that of the longest name that its own begins with, since providers put dates behind."""
    if model is None:
        return None
    names = [name for name in table if model.startswith(name)]
    return table[max(names, key=len)] if names else None
