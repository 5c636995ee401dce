"""The pages of docs/ as a site: all of them in it, the law table true; building it is a check of its own."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LAWS = [f"{letter}{n}" for letter, count in (("S", 9), ("E", 12), ("H", 6), ("D", 5)) for n in range(1, count + 1)]

if not (ROOT / "mkdocs.yml").is_file():
    pytest.skip("the settings of the site are not here", allow_module_level=True)


def test_every_page_is_in_the_navigation_once_and_the_index_leads_to_it() -> None:
    pages = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    assert sorted(re.findall(r"[\w/-]+\.md", navigation)) == pages
    linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", (DOCS / "index.md").read_text(encoding="utf-8")))
    assert linked == set(pages) - {"index.md"}


def test_every_law_has_tests_that_exist() -> None:
    rows = re.findall(
        r"^\| ([A-Z]\d+) \| .* \| (.*) \|$", (DOCS / "inside.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert [law for law, _ in rows] == LAWS
    for law, cell in rows:
        files = re.findall(r"`(tests/[^`]+)`", cell)
        assert files, law
        assert [name for name in files if not (ROOT / name).is_file()] == [], law


def test_every_example_is_on_the_page_of_examples() -> None:
    text = (DOCS / "examples.md").read_text(encoding="utf-8")
    assert [
        path.name for path in sorted((DOCS / "examples").glob("*.py")) if f"(examples/{path.name})" not in text
    ] == []


def test_every_package_has_a_page_of_its_names() -> None:
    source = ROOT / "src" / "anabranch"
    folders = [found.parent for part in ("schema", "compose", "flow") for found in (source / part).rglob("__init__.py")]
    names = {folder.relative_to(source).as_posix().replace("/", "-") for folder in folders} - {"flow-cli"}
    assert {page.stem for page in (DOCS / "api").glob("*.md")} == {name for name in names if "_" not in name}
    for page in (DOCS / "api").glob("*.md"):
        assert f"::: anabranch.{page.stem.replace('-', '.')}\n" in page.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.timeout(180)
@pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="in the main development environment")
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Start\n\n[nowhere](nowhere.md)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: x\ndocs_dir: docs\nsite_dir: site\n")
    command = [sys.executable, str(ROOT / "scripts" / "build_site.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "nowhere.md" in done.stdout
