"""What the interpreter finds out about one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import GraphRunError, NodeError

__all__ = ("Failure", "Interpretation")


@dataclass(frozen=True)
class Failure:
    """One way in which a run may fail."""

    kind: type[GraphRunError]
    """The class of the error."""
    path: str
    """The path of the node or graph that it names."""
    cause: BaseException | None = None
    """What a function of the user's raised, for a :class:`~anabranch.compose.NodeError`."""

    def __str__(self) -> str:
        at = f" at {self.path!r}" if self.path else ""
        return f"{self.kind.__name__}{at}" + ("" if self.cause is None else f" ({self.cause!r})")

    def matches(self, error: BaseException) -> bool:
        """Tell whether an error that a run raised is this one."""
        if type(error) is not self.kind or getattr(error, "path", "") != self.path:
            return False
        if not isinstance(error, NodeError) or self.cause is None:
            return True
        return type(error.__cause__) is type(self.cause) and str(error.__cause__) == str(self.cause)


@dataclass
class Interpretation:
    """What :func:`interpret` found: the output or the ways to fail, and what ran.

    Attributes:
        failures: Empty if the run has an output. Otherwise the errors it may fail with: where several nodes fail at the
            same time, any of them may come first.
        runs: By path (``"agent/tools"``), what each node was given, in order, each time it ran.
        steps: With ``trigger="any"``, the keys of the nodes of each superstep; of the outermost graph.
        skipped: With ``trigger="all"``, the keys of the nodes that did not run; of the outermost graph.
        after: With ``trigger="all"``, for each key the nodes that must have ended before it may start.
        state: The state of the outermost graph, as it was left.
    """

    failures: tuple[Failure, ...] = ()
    runs: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    steps: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    skipped: set[str] = field(default_factory=set[str])
    after: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    state: Any = None
    _output: Any = None

    @property
    def output(self) -> Any:
        """The run's output.

        Raises:
            LookupError: If it has none, because the run fails.
        """
        if self.failures:
            raise LookupError(f"the run has no output, it fails: {' or '.join(map(str, self.failures))}")
        return self._output

    def count(self, path: str) -> int:
        """Say how many times a node ran."""
        return len(self.runs.get(path, ()))

    @property
    def counts(self) -> Mapping[str, int]:
        """How many times each node ran, by path; those that never ran are left out."""
        return {path: len(given) for path, given in sorted(self.runs.items())}
