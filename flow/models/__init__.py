"""Chat models: the offline one, and the adapters of providers.

The adapters are loaded when they are first asked for, and their providers' clients when a model is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._named import model_named
from ._offline import OfflineModel
from .errors import (
    AccessDenied,
    BadRequest,
    ContextTooLong,
    MalformedResponse,
    MissingKey,
    ModelError,
    RateLimited,
    Refused,
    TimedOut,
    Unavailable,
)

if TYPE_CHECKING:
    from ._anthropic import AnthropicChat
    from ._openai import OpenAIChat, OpenAIResponses

__all__ = (
    "AccessDenied",
    "AnthropicChat",
    "BadRequest",
    "ContextTooLong",
    "MalformedResponse",
    "MissingKey",
    "ModelError",
    "OfflineModel",
    "OpenAIChat",
    "OpenAIResponses",
    "RateLimited",
    "Refused",
    "TimedOut",
    "Unavailable",
    "model_named",
)


if not TYPE_CHECKING:  # a checker would take any name for one that is exported

    def __getattr__(name: str) -> Any:
        """Load an adapter when it is asked for."""
        if name == "AnthropicChat":
            from ._anthropic import AnthropicChat

            return AnthropicChat
        if name in ("OpenAIChat", "OpenAIResponses"):
            from . import _openai

            return getattr(_openai, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
