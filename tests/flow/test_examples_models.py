"""The examples in docs/examples that have models: retrieval, a router, agents within an agent."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from anabranch.compose.testing import ScriptedModel
from anabranch.flow.models import OfflineModel
from anabranch.schema import Message

DOCS = Path(__file__).parents[2] / "docs"

if not (DOCS / "examples").is_dir():
    pytest.skip("the examples are not here", allow_module_level=True)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", DOCS / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


rag_docs: Any = load("rag_docs")
model_router: Any = load("model_router")
nested_agents: Any = load("nested_agents")


class ByWords:
    """An embedder for tests: which of three words are in a text."""

    async def embed(self, texts: Any, /) -> list[list[float]]:
        return [[float(word in text.lower()) for word in ("forty", "short", "long")] for text in texts]


@pytest.mark.anyio
async def test_the_model_is_given_the_passages_that_were_found_and_the_question(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Short\n\n# A section of forty\n\n## " + "Long. " * 40)
    retriever = await rag_docs.FolderRetriever.over(tmp_path, ByWords())
    model = ScriptedModel(["Forty."])
    answer = await rag_docs.build(retriever, model).compile(trigger="all").invoke("What is forty?")
    assert answer.text == "Forty."
    (asked,) = model.calls
    assert asked[0].text.index("[page.md#2]") < asked[0].text.index("[page.md#1]") < asked[0].text.index("[page.md#3]")
    assert asked[1] == Message.user("What is forty?")


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("question", "pages"),
    [
        ("Who closes a stream that nobody reads?", {"streams.md"}),
        ("What happens when an MCP server crashes?", {"mcp.md"}),
        ("How does a run go on after a crash of the process?", {"durability.md", "pausing.md"}),
    ],
)
async def test_a_real_embedding_model_finds_the_page_that_answers(question: str, pages: set[str]) -> None:
    pytest.importorskip("wordllama")
    retriever = await rag_docs.FolderRetriever.over(DOCS, rag_docs.WordLlamaEmbedder())
    found = await retriever.retrieve(question)
    assert pages & {document.id.partition("#")[0] for document in found}
    assert all(document.score > 0.2 for document in found)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("question", "answer"),
    [("What is 6 * 7?", "6 * 7 = 42"), ("What is a lock?", "small"), ("Why? " * 50, "large")],
)
async def test_each_question_goes_to_the_model_that_is_good_enough(question: str, answer: str) -> None:
    router = model_router.build(ScriptedModel(["small"]), ScriptedModel(["large"]), OfflineModel(notice=False))
    assert (await router.compile().invoke([Message.user(question)])).text == answer


@pytest.mark.anyio
async def test_the_small_model_answers_when_the_large_one_fails() -> None:
    router = model_router.build(ScriptedModel(["small"]), ScriptedModel([OSError()]), OfflineModel(notice=False))
    assert (await router.compile().invoke([Message.user("Why? " * 50)])).text == "small"


@pytest.mark.anyio
async def test_the_desk_asks_its_specialists_and_shows_who_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    await nested_agents.main("What is 6 * 7?")
    out = capsys.readouterr().out
    assert "tools: reckon " in out
    assert "tools/0/tools: calculator " in out
    assert out.splitlines()[-1].endswith("42")


@pytest.mark.anyio
async def test_the_librarian_reads_only_its_folder(tmp_path: Path) -> None:
    (tmp_path / "locks.md").write_text("# Locks\n\nA lock is a chamber that lifts boats.\n")
    desk = nested_agents.build(OfflineModel(notice=False), tmp_path)
    assert "A lock is a chamber" in (await desk.generate("What is a lock?")).text
