"""What those who watch a run find out about it."""

from __future__ import annotations

from typing import Any

from ..compose import RunInfo


def asked_model(info: RunInfo) -> Any:
    """Give the model that a node asks; an agent has its own in front of the ones that it was given."""
    return (*getattr(info.target, "_models", ()), info.target)[0]


def model_name(info: RunInfo) -> str | None:
    """Give the provider's name of the model that a node asks, if it says so."""
    name = getattr(asked_model(info), "model", None)
    return name if isinstance(name, str) else None
