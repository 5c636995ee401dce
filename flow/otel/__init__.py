"""Telling OpenTelemetry of a run: spans and metrics by its conventions for generative AI."""

from __future__ import annotations

from ._telemetry import Telemetry

__all__ = ("Telemetry",)
