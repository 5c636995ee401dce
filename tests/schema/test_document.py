"""Documents and their typed metadata. Numbers are those of the reference's cases."""

from __future__ import annotations

import datetime
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from anabranch.schema._document import Document
from anabranch.schema.errors import DocumentError


class Author(BaseModel):
    name: str


page = Document(
    id="p1",
    content="Tides.",
    metadata={
        "year": 1921,
        "weight": 0.5,
        "title": "Tides",
        "tags": ["sea", "moon"],
        "printed": True,
        "day": "2026-01-02",
        "author": {"name": "Ann"},
        "nothing": None,
    },
)


def test_case_103_a_score_that_is_a_whole_number_is_a_number() -> None:
    document = Document(id="d", metadata={"_score": 1})
    assert document.score == 1.0
    assert isinstance(document.score, float)
    assert Document().score is None


@pytest.mark.parametrize(
    ("key", "kind", "value"),
    [
        ("year", int, 1921),
        ("year", float, 1921.0),
        ("weight", float, 0.5),
        ("title", str, "Tides"),
        ("tags", list[str], ["sea", "moon"]),
        ("tags", tuple[str, ...], ("sea", "moon")),
        ("tags", list[Literal["sea", "moon"]], ["sea", "moon"]),
        ("printed", bool, True),
        ("day", datetime.date, datetime.date(2026, 1, 2)),
        ("author", Author, Author(name="Ann")),
        ("author", dict[str, str], {"name": "Ann"}),
        ("nothing", type(None), None),
        ("year", Any, 1921),
    ],
)
def test_metadata_is_read_as_the_type_that_is_asked_for(key: str, kind: Any, value: Any) -> None:
    got = page.get(key, kind)
    assert got == value
    assert type(got) is type(value)
    assert page.require(key, kind) == value


@pytest.mark.parametrize(
    ("key", "kind", "message"),
    [
        ("year", str, r"document 'p1': metadata 'year' is of type int \(1921\), not str"),
        ("title", int, r"metadata 'title' is of type str \('Tides'\), not int"),
        ("weight", int, r"metadata 'weight' is of type float \(0.5\), not int"),
        ("printed", int, r"metadata 'printed' is of type bool \(True\), not int"),
        ("printed", float, "not float"),
        ("year", bool, "not bool"),
        ("tags", list[int], r"metadata 'tags' is of type list \(\['sea', 'moon'\]\), not list\[int\]"),
        ("tags", str, "is of type list"),
        ("author", str, r"is of type dict \(\{'name': 'Ann'\}\), not str"),
        ("nothing", str, r"is of type NoneType \(None\), not str"),
        ("title", datetime.date, "not date"),
    ],
)
def test_another_type_is_an_error_that_names_the_key_and_both_types(key: str, kind: Any, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        page.get(key, kind)
    with pytest.raises(DocumentError, match=message):
        page.get(key, kind, "default")
    with pytest.raises(DocumentError, match=message):
        page.require(key, kind)


def test_a_key_that_is_not_there_gives_the_default_or_is_an_error() -> None:
    assert page.get("isbn", str) is None
    assert page.get("isbn", str, "none") == "none"
    with pytest.raises(DocumentError, match="document 'p1' has no metadata 'isbn'; it has 'year', 'weight'"):
        page.require("isbn", str)
    with pytest.raises(DocumentError, match="a document without id has no metadata 'isbn'; it has no metadata"):
        Document().require("isbn", str)


def test_long_values_are_cut_in_the_error() -> None:
    with pytest.raises(DocumentError) as caught:
        Document(metadata={"_score": "x" * 1000}).score  # noqa: B018
    assert len(str(caught.value)) < 150


def test_copies_differ_in_one_thing_and_leave_the_document_as_it_is() -> None:
    before = page.model_dump_json()
    changed = (
        page.with_id("p2")
        .with_content("Moon.")
        .with_metadata({"odd key": 1}, year=1922)
        .with_score(2)
        .with_source("moon.md")
        .with_sub_indexes(["a", "b"])
        .with_dense_vector([1, 0.5])
        .with_sparse_vector({7: 1, 9: 0.25})
    )
    assert page.model_dump_json() == before
    assert (changed.id, changed.content, changed.source) == ("p2", "Moon.", "moon.md")
    assert (changed.get("year", int), changed.get("odd key", int), changed.get("title", str)) == (1922, 1, "Tides")
    assert (changed.score, changed.sub_indexes, changed.dense_vector) == (2.0, ["a", "b"], [1.0, 0.5])
    assert changed.sparse_vector == {7: 1.0, 9: 0.25}
    assert Document.model_validate_json(changed.model_dump_json()) == changed


def test_what_is_not_there_is_none_or_empty() -> None:
    nothing = Document()
    assert (nothing.source, nothing.dense_vector, nothing.sparse_vector, nothing.sub_indexes) == (None, None, None, [])
    nothing.sub_indexes.append("x")
    assert nothing.sub_indexes == []


def test_a_sparse_vector_has_numbers_as_keys() -> None:
    with pytest.raises(DocumentError, match=r"metadata '_sparse_vector' is of type dict .*, not dict\[int, float\]"):
        Document(metadata={"_sparse_vector": {"a": 1}}).sparse_vector  # noqa: B018


def test_a_document_cannot_be_changed_and_shares_nothing_with_its_maker() -> None:
    given = {"tags": ["a"]}
    document = Document(metadata=given)
    given["tags"].append("b")
    assert document.get("tags", list[str]) == ["a"]
    with pytest.raises(TypeError):
        cast("Any", document.metadata)["tags"] = []
    with pytest.raises(ValueError, match="frozen"):
        cast("Any", document).id = "x"
    assert hash(document) == hash(Document(metadata={"tags": ["a"]}))


def test_metadata_is_json() -> None:
    with pytest.raises(ValueError, match="which is no JSON value"):
        Document(metadata={"day": datetime.date(2026, 1, 2)})
    with pytest.raises(ValueError, match="which is no JSON value"):
        page.with_metadata(day=datetime.date(2026, 1, 2))


def test_a_document_prints_as_its_content() -> None:
    assert str(page) == f"{page}" == "Tides."
    assert repr(Document(id="a", content="b")) == "Document(id='a', content='b')"


scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text()
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=3))
def test_any_json_metadata_survives_and_is_read_as_it_is(metadata: dict[str, Any]) -> None:
    document = Document(metadata=metadata)
    assert Document.model_validate_json(document.model_dump_json()) == document
    for key, value in metadata.items():
        assert document.get(key, Any) == value
        assert document.with_metadata({key: 1}).get(key, int) == 1
