from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.flow.models._provider_events import EventDecoder, ServerEvent

TEXT = st.text(
    alphabet=st.characters(exclude_characters="\r\n", categories=("L", "N", "P", "Z", "Sm", "So", "Cc")), max_size=20
)
EVENTS = st.lists(st.tuples(st.sampled_from(["", "ping", "message_start"]), st.lists(TEXT, min_size=1, max_size=3)))


def decode(data: bytes, cuts: list[int]) -> list[ServerEvent]:
    decoder, found, start = EventDecoder(), list[ServerEvent](), 0
    for end in sorted({min(cut, len(data)) for cut in cuts} | {len(data)}):
        found += decoder.feed(data[start:end])
        start = end
    return found + decoder.end()


@given(EVENTS, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 400), max_size=30), st.booleans())
def test_events_are_the_same_however_they_are_cut(
    events: list[tuple[str, list[str]]], line_end: str, cuts: list[int], is_finished: bool
) -> None:
    lines: list[str] = []
    for name, data in events:
        lines += [": a comment", "id: 7", *([f"event: {name}"] if name else [])]
        lines += [*(f"data: {piece}" for piece in data), ""]
    text = "".join(line + line_end for line in lines)
    if not is_finished:
        text = text.removesuffix(line_end)
    assert decode(text.encode(), cuts) == [ServerEvent(name, "\n".join(data)) for name, data in events]


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data:x\n\n", [("", "x")]),
        (b"data\n\n", [("", "")]),
        (b"\xef\xbb\xbfdata: x\n\n", [("", "x")]),
        (b"event: a\n\ndata: x\n\n", [("", "x")]),
        (b"data: x", [("", "x")]),
        (b"retry: 10\nfoo: bar\n\n", []),
        (b"data: \xff\n\n", [("", "\ufffd")]),
    ],
)
def test_the_rules_of_the_format_hold_at_its_edges(data: bytes, events: list[tuple[str, str]]) -> None:
    assert decode(data, []) == events


def test_a_long_line_in_many_pieces_costs_no_more_than_its_length() -> None:
    decoder = EventDecoder()
    decoder.feed(b"data: ")
    for _ in range(20_000):
        assert decoder.feed(b"x" * 100) == []
    ((_, data),) = decoder.feed(b"\n\n")
    assert len(data) == 2_000_000
