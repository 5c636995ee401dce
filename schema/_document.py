"""Documents: a text with an id and typed metadata."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast, overload

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from typing_extensions import TypeForm, override

from ._frozen import EMPTY, Extra, Value, freeze_mapping
from ._near import did_you_mean
from .errors import DocumentError

__all__ = ("Document",)

T = TypeVar("T")
D = TypeVar("D")

_SHOWN = 40
# Where what has an accessor of its own stands in the metadata.
_SCORE, _SOURCE, _SUB_INDEXES = "_score", "_source", "_sub_indexes"
_DENSE, _SPARSE = "_dense_vector", "_sparse_vector"


class Document(Value, frozen=True):
    """A piece of text to store and to find again.

    Metadata is a read-only JSON object, so that a document can be shared and stored. What retrieval needs (score,
    source, vectors) stands there too, under keys that start with an underscore, and has accessors of its own.

    Example:
        >>> page = Document(id="p1", content="Tides.", metadata={"year": 1921}).with_score(1)
        >>> page.score, page.get("year", int), page.get("author", str, "unknown")
        (1.0, 1921, 'unknown')
        >>> print(page)
        Tides.
    """

    id: str = ""
    content: str = ""
    metadata: Extra = EMPTY
    """What is known of the text: a read-only JSON object, copied when the document is made."""

    @property
    def score(self) -> float | None:
        """How well the document fits the query that found it; ``None`` where it was not found by one."""
        return self.get(_SCORE, float)

    @property
    def source(self) -> str | None:
        """Where the text is from, such as a path or an address."""
        return self.get(_SOURCE, str)

    @property
    def sub_indexes(self) -> list[str]:
        """The parts of an index that the document belongs to."""
        return self.get(_SUB_INDEXES, list[str], list[str]())

    @property
    def dense_vector(self) -> list[float] | None:
        """The embedding of the text."""
        return self.get(_DENSE, list[float])

    @property
    def sparse_vector(self) -> dict[int, float] | None:
        """The weights of the few dimensions that are not zero."""
        vector = self.get(_SPARSE, dict[str, float])
        if vector is None:
            return None
        try:
            return {int(dimension): weight for dimension, weight in vector.items()}
        except ValueError as error:
            raise self._wrong(_SPARSE, dict[int, float]) from error

    @overload
    def get(self, key: str, kind: TypeForm[T], /) -> T | None: ...
    @overload
    def get(self, key: str, kind: TypeForm[T], default: D, /) -> T | D: ...
    def get(self, key: str, kind: TypeForm[Any], default: Any = None, /) -> Any:
        """Read a value of the metadata as what it should be.

        Args:
            key: The key.
            kind: The type: ``str``, ``float`` (takes whole numbers too), ``list[str]``, ``datetime.date`` (from
                text in ISO 8601), a pydantic model and so on. Numbers in texts are not converted.
            default: What to give where there is no such key.

        Raises:
            DocumentError: The value is of another type; the text names the key and both types.
        """
        if key not in self.metadata:
            return default
        value = self.metadata[key]
        if kind is str and type(value) is str:
            return value
        try:
            return _adapter(kind).validate_json(to_json(value), strict=True)
        except ValidationError as error:
            raise self._wrong(key, kind) from error

    def require(self, key: str, kind: TypeForm[T], /) -> T:
        """Read a value of the metadata that has to be there.

        Args:
            key: The key.
            kind: The type, as for :meth:`get`.

        Raises:
            DocumentError: There is no such key, or the value is of another type.
        """
        if key not in self.metadata:
            keys = ", ".join(map(repr, self.metadata)) or "no metadata"
            near = did_you_mean(key, self.metadata)
            raise DocumentError(f"{self._name()} has no metadata {key!r}; it has {keys}{near}")
        return cast("T", self.get(key, kind))

    def with_id(self, id: str) -> Document:
        """Give a copy with another id."""
        return self.model_copy(update={"id": id})

    def with_content(self, content: str) -> Document:
        """Give a copy with another text."""
        return self.model_copy(update={"content": content})

    def with_metadata(self, metadata: Mapping[str, Any] = EMPTY, /, **values: Any) -> Document:
        """Give a copy with values added to its metadata or put in the place of others.

        Raises:
            ValueError: A value is no JSON value.
        """
        return self.model_copy(update={"metadata": freeze_mapping({**self.metadata, **metadata, **values})})

    def with_score(self, score: float) -> Document:
        """Give a copy with a score."""
        return self.with_metadata({_SCORE: score})

    def with_source(self, source: str) -> Document:
        """Give a copy that says where it is from."""
        return self.with_metadata({_SOURCE: source})

    def with_sub_indexes(self, names: Sequence[str]) -> Document:
        """Give a copy that belongs to these parts of an index."""
        return self.with_metadata({_SUB_INDEXES: list(names)})

    def with_dense_vector(self, vector: Sequence[float]) -> Document:
        """Give a copy with an embedding."""
        return self.with_metadata({_DENSE: list(vector)})

    def with_sparse_vector(self, vector: Mapping[int, float]) -> Document:
        """Give a copy with weights by dimension."""
        return self.with_metadata({_SPARSE: {str(dimension): weight for dimension, weight in vector.items()}})

    def _wrong(self, key: str, kind: object) -> DocumentError:
        value: object = self.metadata[key]
        got = type(value).__name__
        got = {"FrozenDict": "dict", "FrozenList": "list"}.get(got, got)
        shown = repr(value)
        shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"
        wanted = kind.__name__ if type(kind) is type else kind
        return DocumentError(f"{self._name()}: metadata {key!r} is of type {got} ({shown}), not {wanted}")

    def _name(self) -> str:
        return f"document {self.id!r}" if self.id else "a document without id"

    @override
    def __str__(self) -> str:
        return self.content


def _adapter(kind: Any) -> TypeAdapter[Any]:
    try:
        return _cached_adapter(kind)
    except TypeError:  # not hashable, such as Annotated with a list
        return TypeAdapter(kind)


@functools.lru_cache(maxsize=256)
def _cached_adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
