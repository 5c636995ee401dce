"""D1 and D5 over generated graphs: whichever save fails or is cancelled, the run goes on to the same end."""

from __future__ import annotations

from copy import copy
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.compose import CheckpointError, MemoryStore, UnknownRunError
from anabranch.compose._record import Keeping
from anabranch.compose._store import LogHead
from anabranch.compose.errors import GraphRunError, RunFinishedError, StoreError
from anabranch.compose.testing import GraphCase, graphs

pytestmark = pytest.mark.anyio


class Faulty(MemoryStore):
    """A store whose n-th save fails, or in which the run is cancelled before or after that."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__()
        self.at = at
        self.what = what
        self.scope = anyio.CancelScope()

    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        self.at -= 1
        if self.at == 0 and self.what == "fails":
            raise StoreError("the store", "saving", "it is full")
        if self.at == 0 and self.what == "cancelled before":
            self.scope.cancel()
            await anyio.lowlevel.checkpoint()
        await super().save(head, data, snapshot=snapshot, expected=expected)
        if self.at == 0 and self.what == "cancelled after":
            self.scope.cancel()
            await anyio.lowlevel.checkpoint()


@given(
    graphs(nesting=2),
    st.sampled_from(["fails", "cancelled before", "cancelled after"]),
    st.integers(1, 12),
    st.booleans(),
    st.booleans(),
)
async def test_a_run_that_stopped_at_any_save_goes_on_to_the_same_end(  # noqa: C901
    case: GraphCase, what: str, at: int, streams: bool, streams_again: bool
) -> None:
    app: Any = copy(case.compile())
    try:
        wanted: Any = await app.invoke(case.input)
    except GraphRunError as error:
        wanted = type(error)
    store = Faulty(at, what)
    app._keeping = Keeping(store, "step", "tested", None, None, None, frozenset(), frozenset())

    async def begin(streams: bool) -> Any:
        if not streams:
            return await app.invoke(case.input, run="r")
        async with app.stream(case.input, run="r") as reader:
            return await reader.concat(of=app.plan.output)

    async def go_on() -> Any:
        try:
            if not streams_again:
                return await app.resume("r")
            async with app.resume_stream("r") as reader:
                return await reader.concat(of=app.plan.output)
        except UnknownRunError:
            return await begin(streams_again)
        except RunFinishedError:
            return await app.output("r")

    got: Any = None
    try:
        with store.scope:
            try:
                got = await begin(streams)
            except CheckpointError:
                got = await go_on()
        if store.scope.cancelled_caught:
            got = await go_on()
    except GraphRunError as error:
        got = type(error)
    assert got == wanted
