"""What the adapters of all providers have in common: settings, tools, one call, one stream."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, cast

from pydantic import TypeAdapter

from ...schema import NO_OPTIONS, Message, ModelOptions, NamedTool, ToolChoice, ToolInfo
from ._provider_client import Clients
from ._provider_errors import Origin, translating
from ._provider_events import read_events
from .errors import MalformedResponse, Unavailable

__all__ = ()

JsonObject = Mapping[str, Any]

# Of `extra`: what is said to the client and not to the provider.
_FOR_THE_CLIENT = frozenset(("extra_headers", "extra_query", "timeout"))


@dataclass(frozen=True)
class OutputFormat:
    """The JSON that an answer has to be."""

    name: str
    schema: JsonObject
    strict: bool


class Reader(Protocol):
    """Makes messages of what a provider sends; one for each answer."""

    ended: bool
    """Whether what has been read is a whole answer."""

    def read(self, event: JsonObject) -> Iterable[Message]:
        """Give the chunks that an event of a stream makes."""
        ...

    def whole(self, body: JsonObject) -> Message:
        """Give the message that an answer in one piece makes: what the chunks of its stream would make."""
        ...


class ProviderModel(ABC):
    """The base of the adapters."""

    provider: ClassVar[str]
    """The name by which errors and opaque parts say whose they are."""
    _request_id_header: ClassVar[str] = "x-request-id"
    _required: ClassVar[frozenset[str]]
    """The parameters that the client wants by name."""

    def __init__(self, sdk: Any, clients: Clients, model: str, tool_calls_first: bool, defaults: JsonObject) -> None:
        if not model:
            raise ValueError(f"{type(self).__name__} needs the name of a model")
        known = {name: value for name, value in defaults.items() if name in ModelOptions.model_fields}
        extra = {name: value for name, value in defaults.items() if name not in known} | dict(known.pop("extra", {}))
        self.model = model
        """The model that is asked where the options name no other."""
        self.tool_calls_first = tool_calls_first
        """Whether the model promises that no text comes before its tool calls; an agent then decides at once."""
        self._sdk = sdk
        self._clients = clients
        self._defaults = ModelOptions(**known, extra=extra)
        self._tools: tuple[ToolInfo, ...] = ()
        self._choice: ToolChoice = "auto"
        self._output: OutputFormat | None = None

    def __repr__(self) -> str:
        tools = f", tools={[tool.name for tool in self._tools]}" if self._tools else ""
        return f"{type(self).__name__}({self.model!r}{tools})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections that were opened in this event loop. A client that you gave stays open."""
        await self._clients.aclose()

    def with_tools(self, tools: Sequence[ToolInfo], choice: ToolChoice = "auto") -> Self:
        """Make a model that may call these tools; this one stays as it is.

        Args:
            tools: What may be called.
            choice: Whether a tool may, must not or must be called, or which one must.

        Returns:
            The new model. It shares the connections of this one.
        """
        bound = copy(self)
        bound._tools = tuple(tools)
        bound._choice = choice
        return bound

    def with_output(self, output: Any, *, name: str = "answer", strict: bool = True) -> Self:
        """Make a model whose answers are JSON of a given shape; this one stays as it is.

        Args:
            output: A type that pydantic knows, such as a model, or a JSON schema. It is an object.
            name: What to call it.
            strict: Whether the provider holds the model to the schema, which is rewritten for that as in
                :meth:`ToolInfo.strict_parameters`; else the schema goes to the provider as it is.

        Returns:
            The new model; :class:`MessageParser` reads its answers.

        Raises:
            ToolDefinitionError: A part of the schema has no strict equivalent.
        """
        given = isinstance(output, Mapping)
        schema = cast("JsonObject", output) if given else TypeAdapter[Any](output).json_schema()
        if strict:
            schema = ToolInfo(name=name, parameters=schema).strict_parameters()
        bound = copy(self)
        bound._output = OutputFormat(name, schema, strict)
        return bound

    async def generate(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS) -> Message:
        """Answer with a whole message.

        Args:
            messages: The history.
            options: How to answer, over the defaults of this model; ``extra`` holds parameters by the provider's
                own names (``None`` leaves one out), and ``timeout``, ``extra_headers``, ``extra_query`` for its client.

        Returns:
            The answer.

        Raises:
            ModelError: The provider did not answer as it should; its subclasses say what to do.
            MessageError: A message holds what this provider does not take.
        """
        options = self._defaults | options
        origin = self._origin(options)
        request = self._call(self._request(messages, options), options)
        with translating(origin, messages):
            client = self._clients.current()
            endpoint = self._endpoint(client).with_raw_response
            answer = await endpoint.create(**{**self._settings_for_whole(client), **request})
            body = json.loads(answer.http_response.content)
        reader = self._reader(origin, answer.http_response.headers)
        (message,) = _reading(origin, lambda: (reader.whole(body),))
        return message

    async def stream(
        self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS
    ) -> AsyncGenerator[Message, None]:
        """Answer chunk by chunk.

        Whoever leaves the stream early closes it (``async with aclosing(model.stream(...))``, or a graph, which does
        so), and with it the connection.

        Args:
            messages: The history.
            options: How to answer, as in :meth:`generate`.

        Yields:
            Pieces of text, of reasoning and of tool calls as they come; at the end usage and finish reason.

        Raises:
            ModelError: The provider did not answer as it should, or broke off.
            MessageError: A message holds what this provider does not take.
        """
        options = self._defaults | options
        origin = self._origin(options)
        request = self._call(self._streamed(self._request(messages, options)), options)
        with translating(origin, messages):
            endpoint = self._endpoint(self._clients.current()).with_streaming_response
            async with endpoint.create(stream=True, **request) as answer:
                response = answer.http_response
                reader = self._reader(origin, response.headers)
                if response.headers.get("content-type", "").startswith("application/json"):  # it does not stream
                    body = json.loads(await response.aread())
                    for chunk in _reading(origin, lambda: (reader.whole(body),)):
                        yield chunk
                    return
                is_silent = True
                async with aclosing(read_events(response)) as events:
                    async for event in events:
                        is_silent = False
                        for chunk in _reading(origin, lambda event=event: reader.read(event)):
                            yield chunk
                if is_silent:
                    raise origin.error(MalformedResponse, _silence(response.headers.get("content-type", "")))
                if not reader.ended:
                    raise origin.error(Unavailable, "the connection broke off before the end of the answer")

    @abstractmethod
    def _request(self, messages: Sequence[Message], options: ModelOptions) -> dict[str, Any]:
        """Make the provider's request; ``None`` values are left out."""

    def _streamed(self, body: dict[str, Any]) -> dict[str, Any]:
        """Say what a request says only for a stream."""
        return body

    def _settings_for_whole(self, client: Any) -> dict[str, Any]:
        """Say what the client has to be told when it waits for an answer in one piece."""
        return {}

    @abstractmethod
    def _endpoint(self, client: Any) -> Any:
        """Give the resource of the client that has ``create``."""

    @abstractmethod
    def _reader(self, origin: Origin, headers: Mapping[str, str]) -> Reader:
        """Make what reads one answer."""

    def _origin(self, options: ModelOptions) -> Origin:
        return Origin(self.provider, options.model or self.model, self._sdk, self._request_id_header)

    def _call(self, body: dict[str, Any], options: ModelOptions) -> dict[str, Any]:
        """Make the arguments of the client's method.

        What it does not insist on goes beside them: clients differ in what they know, and so do servers.
        """
        body = _laid_over(body, options.extra)
        call = {key: value for key, value in body.items() if key in self._required}
        rest = {key: value for key, value in body.items() if key not in self._required}
        settings = {key: value for key, value in options.extra.items() if key in _FOR_THE_CLIENT}
        return {**call, "extra_body": rest, **settings}

    def _choice_for(self, options: ModelOptions) -> ToolChoice | None:
        """Give the choice of tools; nothing where the provider's default, or no tool, says it.

        Raises:
            ValueError: A tool must be called that is not there.
        """
        choice = options.tool_choice or self._choice
        if choice == "auto" or (not self._tools and "tools" not in options.extra):
            if choice == "required" or isinstance(choice, NamedTool):
                raise ValueError(f"{self!r} must call a tool and has none; give it some with with_tools(...)")
            return None
        if isinstance(choice, NamedTool) and "tools" not in options.extra:
            names = [tool.name for tool in self._tools]
            if choice.name not in names:
                raise ValueError(f"the tool {choice.name!r}, which must be called, is not among {names}")
        return choice


def _reading(origin: Origin, read: Any) -> Iterable[Message]:
    """Read a piece of an answer; one of an unexpected shape is the provider's error."""
    try:
        return tuple(read())
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        text = f"the answer does not fit the protocol: {type(error).__name__}: {error}"
        raise origin.error(MalformedResponse, text) from error


def _silence(content_type: str) -> str:
    """Say of what kind an answer is that should have been a stream and has no event."""
    if content_type.startswith("text/event-stream"):
        return "the connection broke off before the first event of the answer"
    return f"the answer is no stream of events, its content type is {content_type!r}"


def _laid_over(body: dict[str, Any], extra: JsonObject) -> dict[str, Any]:
    """Lay the provider's own parameters over a request: tools are added, objects merged by key."""
    for key, value in extra.items():
        known = body.get(key)
        if key in _FOR_THE_CLIENT:
            continue
        if key == "tools" and known:
            body[key] = [*known, *value]
        elif isinstance(known, dict) and isinstance(value, Mapping):
            body[key] = {**cast("dict[str, Any]", known), **cast("JsonObject", value)}
        else:
            body[key] = value
    return {key: value for key, value in body.items() if value is not None}
