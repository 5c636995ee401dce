"""The limits that a model's fields state, such as ``Field(gt=0)``: what the model would not take is not saved.

Validators that a model's author has written are not run: a record must not start anybody's code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pydantic.fields import FieldInfo

from ._codec_json import Json
from ._codec_part import Part, Refused

Check = Callable[[Any], bool]

_CHECKS: dict[str, Callable[[Any], Check]] = {
    "gt": lambda limit: lambda value: value > limit,
    "ge": lambda limit: lambda value: value >= limit,
    "lt": lambda limit: lambda value: value < limit,
    "le": lambda limit: lambda value: value <= limit,
    "multiple_of": lambda limit: lambda value: isinstance(value, float) or value % limit == 0,
    "min_length": lambda limit: lambda value: len(value) >= limit,
    "max_length": lambda limit: lambda value: len(value) <= limit,
}


def with_limits(part: Part, metadata: Iterable[Any]) -> Part:
    """Give a part that takes only what keeps within the limits among what stands in ``Annotated``."""
    checks = list(_found(metadata))
    if not checks:
        return part
    encode, decode = part.encode, part.decode

    def check(value: Any) -> None:
        if value is None:
            return
        for said, fits in checks:
            try:
                kept = fits(value)
            except Exception:
                raise Refused(f"it cannot be compared with the limit {said}") from None
            if not kept:
                raise Refused(f"{value!r:.60} is not within the limit {said} of the field")

    def encode_checked(value: Any) -> Json:
        check(value)
        return encode(value)

    def decode_checked(tree: Any) -> Any:
        value = decode(tree)
        check(value)
        return value

    return replace(part, encode=encode_checked, decode=decode_checked, check=check)


def _found(metadata: Iterable[Any]) -> Iterable[tuple[str, Check]]:
    for entry in metadata:
        if isinstance(entry, FieldInfo):
            yield from _found(entry.metadata)
        if type(entry).__module__ != "annotated_types":
            continue
        for name, make in _CHECKS.items():
            limit = getattr(entry, name, None)
            if limit is not None:
                yield f"{name}={limit!r}", make(limit)
