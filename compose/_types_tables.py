"""What the standard library's generic classes are, seen as their bases.

They carry no ``__orig_bases__``, so nothing at run time says that ``dict[K, V]`` is a ``Collection[K]``.
"""

from __future__ import annotations

import collections
import contextlib
from collections import abc
from typing import Any, TypeVar

from pydantic import BaseModel

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")


def _of(cls: Any, *args: Any) -> Any:
    """``cls[args]``, as type checkers do not accept it outside an annotation."""
    return cls[args]


_ONE = (K,)
_TWO = (K, V)
_THREE = (K, V, W)
BASES: dict[Any, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    abc.Container: (_ONE, ()),
    abc.Iterable: (_ONE, ()),
    abc.Iterator: (_ONE, (_of(abc.Iterable, K),)),
    abc.Reversible: (_ONE, (_of(abc.Iterable, K),)),
    abc.Collection: (_ONE, (abc.Sized, _of(abc.Iterable, K), _of(abc.Container, K))),
    abc.Sequence: (_ONE, (_of(abc.Reversible, K), _of(abc.Collection, K))),
    abc.MutableSequence: (_ONE, (_of(abc.Sequence, K),)),
    abc.Set: (_ONE, (_of(abc.Collection, K),)),
    abc.MutableSet: (_ONE, (_of(abc.Set, K),)),
    abc.Mapping: (_TWO, (_of(abc.Collection, K),)),
    abc.MutableMapping: (_TWO, (_of(abc.Mapping, K, V),)),
    abc.KeysView: (_ONE, (_of(abc.Set, K),)),
    abc.ItemsView: (_TWO, (_of(abc.Set, _of(tuple, K, V)),)),
    abc.ValuesView: (_ONE, (_of(abc.Collection, K),)),
    abc.Generator: (_THREE, (_of(abc.Iterator, K),)),
    abc.Awaitable: (_ONE, ()),
    abc.Coroutine: (_THREE, (_of(abc.Awaitable, W),)),
    abc.AsyncIterable: (_ONE, ()),
    abc.AsyncIterator: (_ONE, (_of(abc.AsyncIterable, K),)),
    abc.AsyncGenerator: (_TWO, (_of(abc.AsyncIterator, K),)),
    list: (_ONE, (_of(abc.MutableSequence, K),)),
    collections.deque: (_ONE, (_of(abc.MutableSequence, K),)),
    set: (_ONE, (_of(abc.MutableSet, K),)),
    frozenset: (_ONE, (_of(abc.Set, K),)),
    dict: (_TWO, (_of(abc.MutableMapping, K, V), _of(abc.Reversible, K))),
    collections.defaultdict: (_TWO, (_of(dict, K, V),)),
    collections.OrderedDict: (_TWO, (_of(dict, K, V),)),
    collections.Counter: (_ONE, (_of(dict, K, int),)),
    collections.ChainMap: (_TWO, (_of(abc.MutableMapping, K, V),)),
    str: ((), (_of(abc.Sequence, str),)),
    bytes: ((), (_of(abc.Sequence, int),)),
    bytearray: ((), (_of(abc.MutableSequence, int),)),
    memoryview: ((), (_of(abc.Sequence, int),)),
    range: ((), (_of(abc.Sequence, int),)),
    contextlib.AbstractContextManager: (_TWO, ()),
    contextlib.AbstractAsyncContextManager: (_TWO, ()),
    BaseModel: ((), (_of(abc.Iterable, tuple[str, Any]),)),
}
"""Class to its parameters and its bases in terms of them."""

TAKES: dict[type, frozenset[int]] = {
    abc.Generator: frozenset({1}),
    abc.Coroutine: frozenset({1}),
    abc.AsyncGenerator: frozenset({1}),
}
"""The places of parameters that a class takes in and does not give out; all others it gives out."""

FAMILIES: tuple[type, ...] = (abc.Sequence, abc.Mapping, abc.Set, abc.Iterator, abc.AsyncIterable)
"""No object is of two of these at once, though nothing in Python forbids it."""

ELEMENTS: tuple[type, ...] = (list, tuple, dict, set, frozenset, collections.deque)
"""What may be iterated to look at its elements: it has them all, and gives them again."""
