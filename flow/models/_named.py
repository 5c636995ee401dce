"""Chat models by the name that a person types."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...schema import ChatModel

__all__ = ("model_named",)

_PROVIDERS = ("openai", "openai-responses", "anthropic")


def model_named(name: str) -> ChatModel:
    """Make a chat model by its name: ``openai:NAME``, ``openai-responses:NAME``, ``anthropic:NAME`` or ``offline``.

    Keys and servers come from the usual environment variables: ``OPENAI_API_KEY``, ``OPENAI_BASE_URL``,
    ``ANTHROPIC_API_KEY``, ``ANTHROPIC_BASE_URL``.

    Args:
        name: The provider, a colon, and the provider's name of the model.

    Returns:
        The model.

    Raises:
        ValueError: There is no such provider, or the model's name is missing; the text is one line.
        MissingKey: There is no key; the text is one line that says where to put it.
        MissingExtraError: The provider's client is not installed.

    Example:
        >>> model_named("offline")
        OfflineModel(tools=[])
    """
    provider, _, model = name.partition(":")
    if name == "offline":
        from ._offline import OfflineModel

        return OfflineModel()
    if provider not in _PROVIDERS:
        choices = ["offline", *(f"{known}:NAME" for known in _PROVIDERS)]
        near = get_close_matches(provider, ["offline", *_PROVIDERS], n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there is: {', '.join(map(repr, choices))}"
        raise ValueError(f"there is no model {name!r}; {hint}")
    if not model:
        raise ValueError(f"{name!r} names no model; write {provider}:NAME with the provider's name of the model")
    if provider == "anthropic":
        from ._anthropic import AnthropicChat

        return AnthropicChat(model)
    from ._openai import OpenAIChat, OpenAIResponses

    return OpenAIChat(model) if provider == "openai" else OpenAIResponses(model)
