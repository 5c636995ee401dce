"""The signal that a run stops to be resumed later. It is no ``Exception``, so no ``except Exception`` swallows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ._interrupt import Interrupt


class Interrupted(BaseException):
    """A run was saved and has stopped; :meth:`Runnable.resume` goes on with it.

    Attributes:
        run: The id of the run.
        interrupts: Everything that the run waits for, each with its id, address, payload and answer type; empty if it
            was paused from outside.
    """

    def __init__(self, run: str, interrupts: Sequence[Interrupt] = ()) -> None:
        self.run = run
        self.interrupts: tuple[Interrupt, ...] = tuple(interrupts)
        super().__init__(run, self.interrupts)

    def __str__(self) -> str:
        if not self.interrupts:
            return f"run {self.run!r} was paused; go on with resume({self.run!r})"
        asked = ", ".join(repr(one.id) for one in self.interrupts)
        return f"run {self.run!r} waits for answers to {asked}; go on with resume({self.run!r}, {{id: answer}})"


def is_pause(error: BaseException) -> bool:
    """Tell whether what came out of user code is a pause, also inside the groups that task groups make."""
    if isinstance(error, Interrupted):
        return True
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_pause, _parts(error)))  # pyright: ignore[reportUnknownArgumentType]
    return False


def _parts(group: BaseExceptionGroup[BaseException]) -> Sequence[BaseException]:
    return group.exceptions


def real_error(error: BaseException, run: str) -> BaseException:
    """Give what counts of what came out of a node: an error beside a pause does, and a pause of another run is one."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        rest = group.split(Interrupted)[1]
        if rest is not None:
            return rest
        return next((made for one in group.exceptions if (made := real_error(one, run)) is not one), group)
    if isinstance(error, Interrupted) and error.run != run:
        from .errors import InterruptError

        made = InterruptError(
            f"a run of its own, {error.run!r}, has paused inside this node, which cannot wait for it; call the graph "
            "without run= to make it a part of this run, or take what start(…) gives"
        )
        made.__cause__ = error
        return made
    return error
