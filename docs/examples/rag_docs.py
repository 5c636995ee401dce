"""Answers from a folder: cut its pages into passages, find those nearest in meaning, and quote them to a model.

The embedding model is real and needs no network: its weights are in the package (`pip install wordllama`, 19 MB).
Run it with `python docs/examples/rag_docs.py "Who closes a stream that nobody reads?" docs`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio

from anabranch.compose import END, START, Graph
from anabranch.compose.testing import ScriptedModel
from anabranch.schema import ChatModel, Document, Embedder, Message, Retriever, RetrieverOptions

PROMPT = "Answer from these passages, and name the one that you used.\n\n{passages}"


class WordLlamaEmbedder:
    """An embedder: texts to vectors of length 1, by a table of 32,000 word pieces."""

    def __init__(self) -> None:
        package: Any = import_module("wordllama")
        folder = Path(package.__file__).parent  # where weights and tokenizer are; nothing is loaded from elsewhere
        self._model = package.WordLlama.load(cache_dir=folder, disable_download=True)

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        """Give a vector for each text."""
        vectors: list[list[float]] = self._model.embed(list(texts), norm=True).tolist()
        return vectors


def read_sections(folder: Path) -> list[Document]:
    """Cut the Markdown pages of a folder at their headings."""
    return [
        Document(id=f"{page.name}#{number}", content=section.strip())
        for page in sorted(folder.glob("*.md"))
        for number, section in enumerate(re.split(r"\n(?=#+ )", page.read_text(encoding="utf-8")), 1)
    ]


class FolderRetriever:
    """A retriever over the Markdown pages of a folder, one document for each section."""

    def __init__(self, embedder: Embedder, documents: Sequence[Document]) -> None:
        self._embedder = embedder
        self._documents = documents

    @classmethod
    async def over(cls, folder: Path, embedder: Embedder) -> FolderRetriever:
        """Read a folder and embed what is in it."""
        sections = await anyio.to_thread.run_sync(read_sections, folder)
        vectors = await embedder.embed([section.content for section in sections])
        pairs = zip(sections, vectors, strict=True)
        return cls(embedder, [section.with_dense_vector(vector) for section, vector in pairs])

    async def retrieve(self, query: str, options: RetrieverOptions = RetrieverOptions(), /) -> list[Document]:  # noqa: B008
        """Give the sections that are nearest in meaning, the nearest first."""
        (wanted,) = await self._embedder.embed([query])
        scored = [
            document.with_score(sum(a * b for a, b in zip(wanted, document.dense_vector or [], strict=True)))
            for document in self._documents
        ]
        return sorted(scored, key=lambda document: -(document.score or 0.0))[: options.top_k or 3]


def write_prompt(found: dict[str, Any]) -> list[Message]:
    """Put the question and the passages into the messages for the model."""
    passages = "\n\n".join(f"[{document.id}]\n{document.content}" for document in found["passages"])
    return [Message.system(PROMPT.format(passages=passages)), Message.user(found["question"])]


def build(retriever: Retriever, model: ChatModel) -> Graph[str, Message]:
    """Join question, retriever and model."""
    rag = Graph[str, Message](name="rag")
    question = rag.add_passthrough("question", output_key="question")
    retrieve = rag.add_node("retrieve", retriever, output_key="passages")
    prompt = rag.add_node("prompt", write_prompt)
    answer = rag.add_node("answer", model)
    for source in (question, retrieve):
        rag.add_edge(START, source)
        rag.add_edge(source, prompt)
    rag.add_edge(prompt, answer)
    rag.add_edge(answer, END)
    return rag


def quote(messages: list[Message]) -> str:
    """Stand in for a model: quote the first passage that it was given."""
    _, name, passage = re.split(r"\[([^]\n]+#\d+)\]\n", messages[0].text, maxsplit=2)[:3]
    return f"{name} says:\n{passage.split('[')[0].strip()}"


async def main(question: str, folder: str) -> None:
    """Ask one question. For a real answer put `OpenAIChat(...)` in the place of the scripted model."""
    retriever = await FolderRetriever.over(Path(folder), WordLlamaEmbedder())
    app = build(retriever, ScriptedModel([quote])).compile(trigger="all")
    print((await app.invoke(question)).text)


if __name__ == "__main__":
    asked = sys.argv[1] if len(sys.argv) > 1 else "Who closes a stream that nobody reads?"
    anyio.run(main, asked, sys.argv[2] if len(sys.argv) > 2 else "docs")
