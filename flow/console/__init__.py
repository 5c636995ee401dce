"""Watching a run on a terminal: a live tree of its nodes, models, tools and errors, with time, tokens and cost."""

from __future__ import annotations

from ._console import Console
from ._prices import Price

__all__ = ("Console", "Price")
