"""Laws of field mappings: whatever is put together of whatever, in value and in stream mode, is as if written by hand.

Types are generated: dicts, typed dicts, models, dataclasses and named tuples in each other. Each leaf is filled by a
static value, or by a part of what some node streams in some chunks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, make_dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, create_model
from typing_extensions import TypedDict  # pydantic takes no other one before Python 3.12

from anabranch.compose import START, FieldMapping, Workflow, field
from anabranch.compose.testing import assert_paradigms_agree
from anabranch.compose.testing.pieces import split
from anabranch.schema import StreamReader

pytestmark = pytest.mark.anyio

NAMES = ("a", "b")

half_as_many = settings(max_examples=settings.default.max_examples // 2)  # type: ignore[union-attr]


@dataclass(frozen=True)
class Leaf:
    """A text that a node sends, under which path, or that is static."""

    text: str
    sends: tuple[str, ...] | None
    chunk: int

    form = str

    def make(self) -> Any:
        return self.text


@dataclass
class Made:
    """A type with fields."""

    kind: str
    parts: dict[str, Leaf | Made]

    def make(self) -> Any:
        parts = {name: part.make() for name, part in self.parts.items()}
        return parts if self.kind == "dict" else self.form(**parts)

    @cached_property
    def form(self) -> Any:
        forms: Any = {name: part.form for name, part in self.parts.items()}
        match self.kind:
            case "typed":
                return TypedDict("Typed", forms)  # type: ignore[operator]
            case "model":
                fields: Any = {name: (form, ...) for name, form in forms.items()}
                return create_model("Model", **fields)
            case "dataclass":
                return make_dataclass("Data", list(forms.items()))
            case "tuple":
                return NamedTuple("Tuple", list(forms.items()))
            case _:
                return dict[str, Any]


leaves = st.builds(
    Leaf,
    st.text("xyz", max_size=4),
    st.sampled_from([(), ("k",), ("k", "l"), None]),
    st.integers(0, 2),
)
kinds = st.sampled_from(["dict", "typed", "model", "dataclass", "tuple"])


def made(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Made]:
    return st.builds(Made, kinds, st.dictionaries(st.sampled_from(NAMES), parts, min_size=1))


targets = made(st.recursive(leaves, made, max_leaves=4))


def plain(value: Any) -> Any:
    """Take a value apart, so that values of different classes of one shape compare."""
    parts = parts_of(value)
    return value if parts is None else {name: plain(part) for name, part in parts.items()}


def parts_of(value: Any) -> dict[str, Any] | None:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    if isinstance(value, BaseModel):
        return dict(value)
    if hasattr(value, "_asdict"):
        return cast("dict[str, Any]", value._asdict())
    fields: Any = getattr(value, "__dataclass_fields__", None)
    return None if fields is None else {name: getattr(value, name) for name in fields}


def by_hand(target: Leaf | Made) -> Any:
    if isinstance(target, Leaf):
        return target.text
    return {name: by_hand(part) for name, part in target.parts.items()}


def sender(leaf: Leaf, sends: tuple[str, ...]) -> tuple[Callable[..., Any], Any]:
    """Give a node that streams a leaf's text, wrapped so that the path leads to it, and its type."""
    whole: Any = leaf.text
    form: Any = str
    for name in reversed(sends):
        whole, form = {name: whole}, dict[str, form]

    async def stream(reader: StreamReader[str]) -> AsyncIterator[Any]:
        async for _ in reader:
            pass
        for chunk in list(split(whole, leaf.chunk)) or [whole]:
            yield chunk

    return stream, form


def fill(workflow: Workflow[str, Any], target: Leaf | Made, path: tuple[str, ...]) -> None:
    if isinstance(target, Made):
        for name, part in target.parts.items():
            fill(workflow, part, (*path, name))
    elif target.sends is None:
        workflow.end.static(path, target.text)
    else:
        node, form = sender(target, target.sends)
        key = "-".join(path)
        workflow.add_node(key, node, output=form).input(START)
        workflow.end.input(key, FieldMapping(target.sends, path))


@half_as_many
@given(targets)
async def test_what_is_put_together_is_what_one_writes_by_hand(target: Made) -> None:
    workflow = Workflow[str, Any](output=target.form)
    workflow.end.after(START)
    fill(workflow, target, ())
    output = await assert_paradigms_agree(workflow.compile(), "go", chunks=["g", "o"])
    assert plain(output) == by_hand(target)


@half_as_many
@given(targets, targets)
async def test_parts_of_one_type_become_parts_of_another(source: Made, target: Made) -> None:
    """Each leaf of the target takes the first leaf of the source; a run gives what reading and writing by hand do."""
    path, text = first_leaf(source, ())
    graph = Workflow[str, Any](output=target.form)
    graph.add_node("source", source.make, output=source.form).after(START)
    graph.end.input("source", *(field(path, to=to) for to in leaf_paths(target, ())))
    output = await assert_paradigms_agree(graph.compile(), "go")
    assert plain(output) == replaced(target, text)


def first_leaf(target: Leaf | Made, path: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    if isinstance(target, Leaf):
        return path, target.text
    name, part = next(iter(target.parts.items()))
    return first_leaf(part, (*path, name))


def leaf_paths(target: Leaf | Made, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    if isinstance(target, Leaf):
        return [path]
    return [found for name, part in target.parts.items() for found in leaf_paths(part, (*path, name))]


def replaced(target: Leaf | Made, text: str) -> Any:
    if isinstance(target, Leaf):
        return text
    return {name: replaced(part, text) for name, part in target.parts.items()}
