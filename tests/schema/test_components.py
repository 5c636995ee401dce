"""A class that has the methods is a component; options lie over one another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from anabranch.schema import (
    NO_OPTIONS,
    ChatModel,
    Document,
    Embedder,
    Indexer,
    Loader,
    Message,
    ModelOptions,
    NamedTool,
    Retriever,
    RetrieverOptions,
    Tool,
    ToolChoice,
    ToolInfo,
    Transformer,
)


class Parrot:
    async def generate(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS) -> Message:
        return Message.assistant(messages[-1].text[: options.max_tokens])

    async def stream(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS) -> AsyncIterator[Message]:
        for letter in messages[-1].text[: options.max_tokens]:
            yield Message.assistant(letter)

    def with_tools(self, tools: Sequence[ToolInfo], choice: ToolChoice = "auto") -> Parrot:
        return self


class Shelf:
    info = ToolInfo(name="shelf", description="A shelf.")

    async def run(self, arguments: Mapping[str, Any]) -> str:
        return str(arguments)

    async def retrieve(self, query: str, options: RetrieverOptions | None = None) -> list[Document]:
        return []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[0.0] for _ in texts]

    async def store(self, documents: Sequence[Document]) -> list[str]:
        return []

    async def load(self, source: str) -> list[Document]:
        return []

    async def transform(self, documents: Sequence[Document]) -> list[Document]:
        return list(documents)


model: ChatModel = Parrot()
tool: Tool = Shelf()
retriever: Retriever = Shelf()
embedder: Embedder = Shelf()
indexer: Indexer = Shelf()
loader: Loader = Shelf()
transformer: Transformer = Shelf()


@pytest.mark.parametrize("protocol", [Tool, Retriever, Embedder, Indexer, Loader, Transformer])
def test_a_class_that_has_the_methods_is_a_component(protocol: Any) -> None:
    assert isinstance(Shelf(), protocol)
    assert not isinstance(Parrot(), protocol)


@pytest.mark.anyio
async def test_a_class_with_the_methods_is_a_chat_model() -> None:
    assert isinstance(model, ChatModel)
    assert (await model.generate([Message.user("hello")], ModelOptions(max_tokens=2))).text == "he"
    assert [chunk.text async for chunk in model.stream([Message.user("hi")])] == ["h", "i"]


def test_options_lie_over_one_another() -> None:
    base = ModelOptions(temperature=0.7, stop=("x",), extra={"a": 1, "b": 1})
    above = ModelOptions(temperature=0.0, tool_choice=NamedTool(name="f"), extra={"b": 2})
    assert base | above == ModelOptions(
        temperature=0.0, stop=("x",), tool_choice=NamedTool(name="f"), extra={"a": 1, "b": 2}
    )
    assert NO_OPTIONS | base == base == base | NO_OPTIONS
    assert RetrieverOptions(top_k=3) | RetrieverOptions(index="a") == RetrieverOptions(top_k=3, index="a")


def test_no_options_are_options_that_say_nothing() -> None:
    assert ModelOptions() == NO_OPTIONS
    assert ModelOptions.model_validate_json(NO_OPTIONS.model_dump_json()) == NO_OPTIONS
    assert ModelOptions.model_validate_json('{"tool_choice": {"name": "f"}}').tool_choice == NamedTool(name="f")
