"""Chat models that are reached by Anthropic's client."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from ...schema import NO_OPTIONS, Message, ModelOptions, NamedTool, ToolChoice, concat
from ...schema.errors import MissingExtraError
from ._anthropic_messages import anthropic_messages, anthropic_tool, split_system
from ._anthropic_reply import AnthropicReader
from ._provider import ProviderModel, Reader
from ._provider_client import Clients, http_client, kept_settings
from ._provider_errors import Origin
from .errors import MissingKey

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

__all__ = ("AnthropicChat",)

_MAX_TOKENS = 16_384
# The client refuses to wait for longer answers in one piece.
_MOST_IN_ONE_PIECE = 21_333
_NO_KEY = "none"


class AnthropicChat(ProviderModel):
    """A chat model behind Anthropic's messages.

    Thoughts are sent back with their seals, and whatever else the model puts out (the provider's own searches and
    their results) as it came. The key is ``ANTHROPIC_API_KEY`` and the server ``ANTHROPIC_BASE_URL`` unless given; the
    client's other ways to find credentials work too.

    Args:
        model: The model's name.
        api_key: The key.
        base_url: The server.
        client: A client of your own in place of both; you close it.
        max_retries: How often the client tries again after a failure that may pass; 2 if not given.
        timeout: For how many seconds the client waits; 600 if not given.
        tool_calls_first: Whether this model never writes text before its tool calls.
        **defaults: How to answer where the options do not say: fields of :class:`ModelOptions`, and any parameter of
            the provider by its own name, such as ``thinking={"type": "adaptive"}``. The provider insists on
            ``max_tokens``; it is 16384 if not given.

    Raises:
        MissingKey: There is no key.
        MissingExtraError: The package ``anthropic`` is not installed.

    Example:
        >>> AnthropicChat("claude-sonnet-5", api_key="sk-...", max_tokens=2000)
        AnthropicChat('claude-sonnet-5')
    """

    provider: ClassVar[str] = "anthropic"
    _request_id_header: ClassVar[str] = "request-id"
    _required: ClassVar[frozenset[str]] = frozenset(("model", "messages", "max_tokens"))

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: AsyncAnthropic | None = None,
        max_retries: int | None = None,
        timeout: float | None = None,
        tool_calls_first: bool = False,
        **defaults: Any,
    ) -> None:
        sdk = _import_anthropic()
        settings = kept_settings(max_retries=max_retries, timeout=timeout)
        if client is not None:
            clients = Clients(lambda: client, client.with_options(**settings) if settings else client)
        else:
            clients = Clients(lambda: _make_client(sdk, api_key, base_url, settings))
        super().__init__(sdk, clients, model, tool_calls_first, defaults)

    @override
    async def generate(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS) -> Message:
        """Answer with a whole message; one that may become very long is streamed, as the provider wants it.

        Args:
            messages: The history.
            options: How to answer, over the defaults of this model, as in :meth:`stream`.

        Returns:
            The answer.

        Raises:
            ModelError: The provider did not answer as it should; its subclasses say what to do.
            MessageError: A message holds what this provider does not take.
        """
        if ((self._defaults | options).max_tokens or _MAX_TOKENS) > _MOST_IN_ONE_PIECE:
            return concat([chunk async for chunk in self.stream(messages, options)])
        return await super().generate(messages, options)

    @override
    def _settings_for_whole(self, client: Any) -> dict[str, Any]:
        return {"timeout": client.timeout}  # else it refuses to wait for some models

    @override
    def _endpoint(self, client: Any) -> Any:
        return client.messages

    @override
    def _reader(self, origin: Origin, headers: Mapping[str, str]) -> Reader:
        return AnthropicReader(origin, headers)

    @override
    def _request(self, messages: Sequence[Message], options: ModelOptions) -> dict[str, Any]:
        system, others = split_system(messages)
        body: dict[str, Any] = {
            "model": options.model or self.model,
            "max_tokens": options.max_tokens or _MAX_TOKENS,
            "system": system,
            "messages": anthropic_messages(others, len(messages) - len(others)),
            "temperature": options.temperature,
            "top_p": options.top_p,
            "stop_sequences": list(options.stop) if options.stop else None,
            "tools": [anthropic_tool(tool) for tool in self._tools] or None,
            "tool_choice": self._tool_choice(self._choice_for(options)),
        }
        if self._output is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": self._output.schema}}
        return body

    def _tool_choice(self, choice: ToolChoice | None) -> Any:
        if choice is None:
            return None
        if isinstance(choice, NamedTool):
            return {"type": "tool", "name": choice.name}
        return {"type": "any" if choice == "required" else choice}


def _import_anthropic() -> Any:
    try:
        import anthropic
    except ImportError as error:
        raise MissingExtraError("anthropic", "anthropic") from error
    return anthropic


def _make_client(sdk: Any, api_key: str | None, base_url: str | None, settings: Mapping[str, Any]) -> Any:
    http, failed = http_client(sdk, settings), None
    try:
        client = sdk.AsyncAnthropic(api_key=api_key, base_url=base_url, http_client=http, **settings)
        if client.api_key or client.auth_token or client.credentials is not None:
            return client
    except sdk.AnthropicError as error:  # of the other places where the client looks for credentials
        failed = error
    if base_url or os.environ.get("ANTHROPIC_BASE_URL"):
        return sdk.AsyncAnthropic(api_key=_NO_KEY, base_url=base_url, http_client=http, **settings)
    raise MissingKey("AnthropicChat has no key: set ANTHROPIC_API_KEY, or pass api_key=") from failed
