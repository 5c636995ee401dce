"""H5 over generated graphs: pausing anywhere, in any mode, and resuming says the same as never pausing."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.compose.testing import GraphCase, assert_resumes_anywhere, graphs

pytestmark = pytest.mark.anyio


@given(graphs(nesting=2), st.sampled_from(["step", "pause"]), st.integers(0, 1000))
async def test_a_run_that_pauses_anywhere_says_the_same(
    case: GraphCase, durability: Literal["step", "pause"], seed: int
) -> None:
    app = case.compile()
    assert await assert_resumes_anywhere(app, case.input, durability=durability, points=6, seed=seed)
