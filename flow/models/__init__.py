"""Chat models."""

from __future__ import annotations

from ._offline import OfflineModel

__all__ = ("OfflineModel",)
