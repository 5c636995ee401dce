"""Arguments that are almost JSON, read as what was meant."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

from pydantic_core import from_json

_FENCE = re.compile(r"\A\s*```[\w+-]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")


class RepairArguments:
    """Reads arguments that are almost a JSON object; give it to a node among its middlewares.

    Mended are: a fenced block around the object, words before and after it, trailing commas, Python's way of writing
    (``{'a': True}``), and an object that was written as a JSON text. What is cut off is not completed, and what cannot
    be read stays as it is: then the model is told.

    Args:
        by_package: Whether other faults are mended by the package ``json-repair`` (extra ``repair``), as a last resort;
            what it gives is a guess.

    Raises:
        MissingExtraError: ``by_package`` is asked for and the package is not installed.

    Example:
        >>> RepairArguments().handle_arguments("search", "{'query': 'tides', 'exact': True,}")
        '{"query": "tides", "exact": true}'
    """

    def __init__(self, *, by_package: bool = False) -> None:
        self._guess: Callable[[str], str] | None = None
        if by_package:
            from ..schema._parser import _repairer  # pyright: ignore[reportPrivateUsage]

            self._guess = _repairer()

    def handle_arguments(self, name: str, text: str) -> str:
        """Mend the arguments of a call.

        Args:
            name: The tool's name.
            text: The arguments as the model wrote them.

        Returns:
            A JSON object as text; where it cannot be made, the text as it is.
        """
        if _object(text) is not None or not text.strip():
            return text
        for candidate in self._candidates(text):
            found = _object(candidate)
            if found is not None:
                return json.dumps(found, ensure_ascii=False)
        return text

    def _candidates(self, text: str) -> Iterator[str]:
        fenced = _FENCE.match(text)
        inner = fenced[1] if fenced else text
        start, end = inner.find("{"), inner.rfind("}")
        if start >= 0 and end > start:
            inner = inner[start : end + 1]
        yield inner
        yield _TRAILING_COMMA.sub(r"\1", inner)
        try:
            value: Any = ast.literal_eval(inner)
            yield json.dumps(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            pass
        try:
            written: Any = from_json(text)
            if isinstance(written, str):
                yield written
        except ValueError:
            pass
        if self._guess is not None and inner.rstrip().endswith("}"):
            yield self._guess(inner)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value: object = from_json(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
