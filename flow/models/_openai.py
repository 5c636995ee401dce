"""Chat models that are reached by OpenAI's client: its two protocols, and the servers that speak the first."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from ...schema import Message, ModelOptions, NamedTool, ToolChoice
from ...schema.errors import MissingExtraError
from ._openai_items import input_items, response_tool
from ._openai_messages import chat_messages, chat_tool
from ._openai_output import ResponseReader
from ._openai_reply import ChatReader
from ._provider import ProviderModel, Reader
from ._provider_client import Clients, http_client, kept_settings
from ._provider_errors import Origin
from .errors import MissingKey

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ("OpenAIChat", "OpenAIResponses")

_NO_KEY = "none"  # what a server of one's own is given; it looks at no key


class _OpenAIModel(ProviderModel):
    """What the two protocols have in common: the client."""

    provider: ClassVar[str] = "openai"

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: AsyncOpenAI | None = None,
        max_retries: int | None = None,
        timeout: float | None = None,
        tool_calls_first: bool = False,
        **defaults: Any,
    ) -> None:
        sdk = _import_openai()
        settings = kept_settings(max_retries=max_retries, timeout=timeout)
        if client is not None:
            clients = Clients(lambda: client, client.with_options(**settings) if settings else client)
        else:
            clients = Clients(lambda: _make_client(sdk, type(self).__name__, api_key, base_url, settings))
        self._is_openai = _is_openai(str(clients.first.base_url))
        super().__init__(sdk, clients, model, tool_calls_first, defaults)


class OpenAIChat(_OpenAIModel):
    """A chat model behind OpenAI's chat completions, or any server that speaks the same protocol.

    The key is ``OPENAI_API_KEY`` and the server ``OPENAI_BASE_URL`` unless given. A server of one's own (Ollama, vLLM,
    llama.cpp) needs no key.

    Args:
        model: The model's name.
        api_key: The key.
        base_url: The server, such as ``http://localhost:11434/v1``.
        client: A client of your own, such as ``AsyncAzureOpenAI``, in place of key and server; you close it.
        max_retries: How often the client tries again after a failure that may pass; 2 if not given.
        timeout: For how many seconds the client waits; 600 if not given.
        tool_calls_first: Whether this model never writes text before its tool calls.
        **defaults: How to answer where the options do not say: fields of :class:`ModelOptions`, and any parameter of
            the provider by its own name, such as ``reasoning_effort="low"``.

    Raises:
        MissingKey: There is no key.
        MissingExtraError: The package ``openai`` is not installed.

    Example:
        >>> model = OpenAIChat("gpt-5.2", api_key="sk-...", temperature=0)
        >>> local = OpenAIChat("qwen3", base_url="http://localhost:11434/v1")
        >>> model, local
        (OpenAIChat('gpt-5.2'), OpenAIChat('qwen3'))
    """

    _required: ClassVar[frozenset[str]] = frozenset(("model", "messages"))

    @override
    def _endpoint(self, client: Any) -> Any:
        return client.chat.completions

    @override
    def _reader(self, origin: Origin, headers: Mapping[str, str]) -> Reader:
        return ChatReader(origin, headers)

    @override
    def _request(self, messages: Sequence[Message], options: ModelOptions) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": options.model or self.model,
            "messages": chat_messages(messages),
            "temperature": options.temperature,
            "top_p": options.top_p,
            "seed": options.seed,
            "stop": list(options.stop) if options.stop else None,
            # Other servers know only the old name, and OpenAI's newer models only the new one.
            "max_completion_tokens" if self._is_openai else "max_tokens": options.max_tokens,
            "tools": [chat_tool(tool) for tool in self._tools] or None,
            "tool_choice": self._tool_choice(self._choice_for(options)),
        }
        if self._output is not None:
            output = self._output
            form: dict[str, Any] = {"name": output.name, "schema": output.schema, "strict": output.strict}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        return body

    @override
    def _streamed(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"stream_options": {"include_usage": True}, **body}

    def _tool_choice(self, choice: ToolChoice | None) -> Any:
        if isinstance(choice, NamedTool):
            return {"type": "function", "function": {"name": choice.name}}
        return choice


class OpenAIResponses(_OpenAIModel):
    """A chat model behind OpenAI's responses.

    Reasoning, and whatever else the model puts out beside text and tool calls (searches, code, MCP calls), is kept as
    it came and sent back with the history, so nothing has to be stored at the provider (``store=False``).

    Args:
        model: The model's name.
        api_key: The key; ``OPENAI_API_KEY`` if not given.
        base_url: The server; ``OPENAI_BASE_URL`` if not given.
        client: A client of your own in place of both; you close it.
        max_retries: How often the client tries again after a failure that may pass; 2 if not given.
        timeout: For how many seconds the client waits; 600 if not given.
        tool_calls_first: Whether this model never writes text before its tool calls.
        **defaults: How to answer where the options do not say: fields of :class:`ModelOptions`, and any parameter of
            the provider by its own name, such as ``reasoning={"effort": "low"}``.

    Raises:
        MissingKey: There is no key.
        MissingExtraError: The package ``openai`` is not installed.

    Example:
        >>> OpenAIResponses("gpt-5.2", api_key="sk-...", store=False, tools=[{"type": "web_search"}])
        OpenAIResponses('gpt-5.2')
    """

    _required: ClassVar[frozenset[str]] = frozenset(("model", "input"))

    @override
    def _endpoint(self, client: Any) -> Any:
        return client.responses

    @override
    def _reader(self, origin: Origin, headers: Mapping[str, str]) -> Reader:
        return ResponseReader(origin, headers)

    @override
    def _request(self, messages: Sequence[Message], options: ModelOptions) -> dict[str, Any]:
        stored = options.extra.get("store", True) is not False
        body: dict[str, Any] = {
            "model": options.model or self.model,
            "input": input_items(messages, stored=stored),
            "temperature": options.temperature,
            "top_p": options.top_p,
            "max_output_tokens": options.max_tokens,
            "tools": [response_tool(tool) for tool in self._tools] or None,
            "tool_choice": self._tool_choice(self._choice_for(options)),
        }
        if self._output is not None:
            output = self._output
            form = {"type": "json_schema", "name": output.name, "schema": output.schema, "strict": output.strict}
            body["text"] = {"format": form}
        return body

    def _tool_choice(self, choice: ToolChoice | None) -> Any:
        return {"type": "function", "name": choice.name} if isinstance(choice, NamedTool) else choice


def _import_openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise MissingExtraError("openai", "openai") from error
    return openai


def _make_client(sdk: Any, name: str, api_key: str | None, base_url: str | None, settings: Mapping[str, Any]) -> Any:
    if base_url or os.environ.get("OPENAI_BASE_URL"):
        api_key = api_key or os.environ.get("OPENAI_API_KEY") or _NO_KEY
    try:
        return sdk.AsyncOpenAI(api_key=api_key, base_url=base_url, http_client=http_client(sdk, settings), **settings)
    except sdk.OpenAIError as error:
        raise MissingKey(
            f"{name} has no key: set OPENAI_API_KEY, or pass api_key=; for a server of your own, "
            "set OPENAI_BASE_URL, or pass base_url="
        ) from error


def _is_openai(base_url: str) -> bool:
    """Whether this is OpenAI itself, or its models at Azure, and not only a server that speaks like it."""
    host = base_url.partition("://")[2].partition("/")[0].partition(":")[0]
    return host.endswith((".openai.com", ".openai.azure.com", ".cognitiveservices.azure.com"))
