"""The errors that :mod:`anabranch.schema` raises, all below :class:`AnabranchError`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from typing_extensions import override

if TYPE_CHECKING:
    from ._history import HistoryProblem


class AnabranchError(Exception):
    """The base of every error that anabranch raises on its own account."""


class StreamError(AnabranchError):
    """A stream was used in a way that cannot work."""


class ConcatError(StreamError, ValueError):
    """Chunks of one stream do not make one value."""


class EmptyStreamError(ConcatError):
    """A stream without a chunk was asked for its value, and its type has no neutral element."""


class MessageError(AnabranchError, ValueError):
    """A message is not what its role allows."""


class HistoryError(MessageError):
    """A history breaks the grammar of calls and answers; ``problems`` has every breach."""

    def __init__(self, problems: Iterable[HistoryProblem]) -> None:
        self.problems: tuple[HistoryProblem, ...] = tuple(problems)
        texts = [problem.text for problem in self.problems]
        more = f"; and {len(texts) - 5} more" if len(texts) > 5 else ""
        super().__init__(f"{'; '.join(texts[:5])}{more}; repair_history() gives a history that a provider accepts")

    @override
    def __reduce__(self) -> tuple[type[HistoryError], tuple[tuple[HistoryProblem, ...]]]:
        return type(self), (self.problems,)


class TemplateError(AnabranchError, ValueError):
    """A template is malformed, or a variable that it needs is missing or not allowed."""


class ToolDefinitionError(AnabranchError, TypeError):
    """A function or type cannot be described as a tool."""


class ToolArgumentsError(AnabranchError, ValueError):
    """A tool call's arguments are no JSON object or do not fit; the text is written for the model."""


class ToolResultError(AnabranchError, TypeError):
    """A tool gave a value that cannot become the content of a message."""


class ParseError(AnabranchError, ValueError):
    """A message does not hold the value that was asked of it."""


class DocumentError(AnabranchError, ValueError):
    """A document's metadata holds something else than what was asked for."""


class MissingExtraError(AnabranchError, ImportError):
    """An optional package is not installed; the text names the extra that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f'this needs the package {package!r}, which is not installed; run: pip install "anabranch[{extra}]"'
        )
        self.package = package
        self.extra = extra
