"""The examples in docs/examples that are about graphs: a loop, a map, a stream, properties."""

from __future__ import annotations

import importlib.util
import sys
from itertools import pairwise, repeat
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.compose.testing import ScriptedModel, assert_paradigms_agree

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"

if not EXAMPLES.is_dir():
    pytest.skip("the examples are not here", allow_module_level=True)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


translate_review: Any = load("translate_review")
map_files: Any = load("map_files")
redact_stream: Any = load("redact_stream")
property_test: Any = load("property_test")


@pytest.mark.anyio
async def test_a_translation_is_made_again_until_the_reviewer_has_no_remarks() -> None:
    translator, reviewer = (
        ScriptedModel(repeat(translate_review.translate)),
        ScriptedModel(repeat(translate_review.review)),
    )
    app = translate_review.build(translator, reviewer).compile()
    assert await app.invoke("the stream is a river") == "der Strom ist ein Fluss"
    assert [len(asked) for asked in translator.calls] == [2, 4]
    assert translator.calls[1][-1].text == "'stream' is 'Strom'\n'river' is 'Fluss'"


@pytest.mark.anyio
async def test_a_translation_that_never_pleases_comes_out_after_the_last_round() -> None:
    translator, reviewer = ScriptedModel(repeat("Nein.")), ScriptedModel(repeat("No."))
    assert await translate_review.build(translator, reviewer).compile(max_steps=15).invoke("No.") == "Nein."
    assert len(reviewer.calls) == translate_review.MOST_ROUNDS


@pytest.mark.anyio
async def test_all_modules_of_a_folder_are_summed_up_and_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"m{number:02}.py").write_text('def f():\n    "Do."\n')
    (tmp_path / "m07.py").write_text("def f(:\n")
    found = (await map_files.graph.invoke(str(tmp_path))).splitlines()
    assert found[0] == "19 modules, 38 lines, 19 of 19 public functions documented"
    assert len(found) == 2
    assert found[1].startswith("node_1/7: invalid syntax")


def test_the_library_itself_can_be_looked_into() -> None:
    found = map_files.graph.invoke_sync(str(ROOT / "schema"))
    assert " 0 modules" not in found
    assert "\n" not in found


TEXT = st.lists(st.sampled_from(["ebb@flow.example", "sk-12ab", "tide", " ", "\n", "@", "sk-"])).map("".join)


@pytest.mark.anyio
@given(TEXT, st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
async def test_secrets_are_hidden_wherever_chunks_end(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)) | {0, len(text)})
    chunks = [text[start:end] for start, end in pairwise(cuts)]
    assert await assert_paradigms_agree(redact_stream.graph, text, chunks=chunks or [""]) == redact_stream.redact(text)


@pytest.mark.anyio
async def test_a_file_is_redacted_while_it_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log.txt").write_text("mail ebb@flow.example now\n" * 20)
    await redact_stream.main(str(tmp_path / "log.txt"))
    assert capsys.readouterr().out == "mail [hidden] now\n" * 20


@pytest.mark.parametrize("name", [name for name in dir(property_test) if name.startswith("test_")])
@pytest.mark.timeout(120)
def test_the_properties_of_the_bill_hold(name: str) -> None:
    getattr(property_test, name)()


def test_a_bill_is_right() -> None:
    order = property_test.Order(prices=[300, 200, 500], express=True)
    assert property_test.app.invoke_sync(order).total == 1000 - 200 + 1900
