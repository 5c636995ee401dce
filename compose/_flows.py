"""Whether what one node gives fits what another takes, and how it is tested when it only may.

Two things are finer here than a comparison of two types. What goes under an ``output_key`` is a dict with one known
key, so it is compared with what the target wants under that key. And a stream is tested chunk by chunk by what a
*chunk* of the wanted type can be: half of a ``Literal`` is a string, part of a ``TypedDict`` lacks keys; there the
whole is tested when the stream has ended, so that stream mode says what value mode says.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import GenericAlias, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from typing_extensions import is_typeddict  # it knows those of typing, too

from ._fields import FieldError, read_form
from ._plan import Check
from ._spec import NodeSpec
from ._types import Fit, checker, fits, type_name


def flow_fits(given: Any, wanted: Any, source: NodeSpec | None) -> Fit:
    """Say whether an output fits an input; the source is the node that gives it, or None for the graph's input."""
    if source is None or source.output_key is None:
        return fits(given, wanted)
    origin = get_origin(wanted) or wanted
    if is_typeddict(origin):
        try:
            under_key = read_form(wanted, (source.output_key,))
        except FieldError:
            return Fit.NEVER
        return Fit.NEVER if fits(source.output, under_key) is Fit.NEVER else Fit.MAY
    arguments = get_args(wanted)
    if isinstance(origin, type) and issubclass(origin, Mapping) and len(arguments) == 2:
        return fits(dict[str, source.output], wanted)  # type: ignore[name-defined]  # pyright: ignore[reportInvalidTypeArguments]
    return fits(given, wanted)


def check_for(where: str, wanted: Any) -> Check:
    """Make the run-time test of a value or stream that may be of a type."""
    accepts = checker(wanted)
    loose = chunk_form(wanted)
    whole = loose != wanted
    return Check(accepts, type_name(wanted), where, checker(loose) if whole else accepts, whole)


def chunk_form(form: Any) -> Any:
    """Give the type of what can be a chunk of a stream whose whole has a type."""
    origin: Any = get_origin(form)
    if origin is Literal:
        return _union([type(value) for value in get_args(form)])
    if origin is Annotated:
        return chunk_form(get_args(form)[0])
    if is_typeddict(origin or form):
        return dict[str, Any]
    if origin in (Union, UnionType):
        return _union([chunk_form(a) for a in get_args(form)])
    if origin in (list, dict, set, frozenset):
        given = get_args(form)
        loose = tuple(chunk_form(a) for a in given)
        return form if loose == given else GenericAlias(origin, loose)
    return form


def _union(forms: list[Any]) -> Any:
    return Union[tuple(forms)]  # noqa: UP007 - made at run time
