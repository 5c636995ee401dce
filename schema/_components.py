"""What makes a chat model, a tool, a retriever: a class that has these methods is a component.

The protocols are small on purpose. A package that brings a model needs :mod:`anabranch.schema` alone. Options
are models of their own, so that one more of them breaks nobody; a component ignores what it has no use for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, runtime_checkable

from ._frozen import EMPTY, Extra, Value, freeze_mapping
from ._message import Message

if TYPE_CHECKING:
    from ._document import Document
    from ._tool import ToolInfo

__all__ = (
    "NO_OPTIONS",
    "ChatModel",
    "Embedder",
    "Indexer",
    "Loader",
    "ModelOptions",
    "NamedTool",
    "Retriever",
    "RetrieverOptions",
    "Tool",
    "ToolChoice",
    "Transformer",
)


class NamedTool(Value, frozen=True):
    """A tool that the model must call."""

    name: str


ToolChoice = Literal["auto", "none", "required"] | NamedTool
"""Whether the model may call tools, must not, must call one, or must call this one."""


class _Options(Value, frozen=True):
    extra: Extra = EMPTY
    """Whatever a provider has beyond these, by the provider's own names."""

    def __or__(self, other: Self) -> Self:
        """Lay other options over these: what is set there counts; ``extra`` is merged by key."""
        update = {name: value for name, value in other if value is not None and name != "extra"}
        return self.model_copy(update={**update, "extra": freeze_mapping({**self.extra, **other.extra})})


class ModelOptions(_Options, frozen=True):
    """How a chat model should answer; ``None`` leaves it to the model.

    Example:
        >>> (ModelOptions(temperature=0.7, seed=1) | ModelOptions(temperature=0.0)).temperature
        0.0
    """

    model: str | None = None
    """The model's name, where a component serves several."""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    """The most tokens to write."""
    stop: tuple[str, ...] | None = None
    """Texts at which to stop."""
    seed: int | None = None
    tool_choice: ToolChoice | None = None
    """Overrides the choice given to ``with_tools``."""


class RetrieverOptions(_Options, frozen=True):
    """What to retrieve; ``None`` leaves it to the retriever."""

    top_k: int | None = None
    """The most documents to give."""
    score_threshold: float | None = None
    """The least score that a document must have."""
    index: str | None = None
    """Where to look, where there are several indexes."""


NO_OPTIONS: ModelOptions = ModelOptions.model_construct(
    model=None,
    temperature=None,
    top_p=None,
    max_tokens=None,
    stop=None,
    seed=None,
    tool_choice=None,
    extra=EMPTY,
)
"""Options that leave everything to the model: the default value for an ``options`` parameter."""


@runtime_checkable
class ChatModel(Protocol):
    """A model that answers messages with a message.

    One of ``generate`` and ``stream`` is enough for a graph, which makes the other.
    """

    async def generate(self, messages: Sequence[Message], options: ModelOptions = ..., /) -> Message:
        """Answer with a whole message."""
        ...

    def stream(self, messages: Sequence[Message], options: ModelOptions = ..., /) -> AsyncIterator[Message]:
        """Answer with chunks; :func:`concat` makes the whole message of them."""
        ...

    def with_tools(self, tools: Sequence[ToolInfo], choice: ToolChoice = ..., /) -> ChatModel:
        """Give a new model that may call these tools; this one stays as it is."""
        ...


@runtime_checkable
class Tool(Protocol):
    """Something that a model can have run."""

    @property
    def info(self) -> ToolInfo:
        """What the model is told about the tool."""
        ...

    async def run(self, arguments: Mapping[str, Any], /) -> Any:
        """Run with these arguments, and give a value or a stream of chunks."""
        ...


@runtime_checkable
class Retriever(Protocol):
    """Finds documents that belong to a query."""

    async def retrieve(self, query: str, options: RetrieverOptions = ..., /) -> list[Document]:
        """Give the documents, the best first."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors."""

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        """Give a vector for each text, in their order."""
        ...


@runtime_checkable
class Indexer(Protocol):
    """Stores documents for later retrieval."""

    async def store(self, documents: Sequence[Document], /) -> list[str]:
        """Store the documents, and give their ids in their order."""
        ...


@runtime_checkable
class Loader(Protocol):
    """Reads documents from somewhere."""

    async def load(self, source: str, /) -> list[Document]:
        """Give the documents found at an address or a path."""
        ...


@runtime_checkable
class Transformer(Protocol):
    """Makes documents of documents: splits, filters, ranks."""

    async def transform(self, documents: Sequence[Document], /) -> list[Document]:
        """Give new documents; those given stay as they are."""
        ...
