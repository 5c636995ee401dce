"""Messages are cheap to make, and ten thousand chunks of one are quickly put together."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from anabranch.schema import Message, ToolCall, Usage, concat

CHUNKS = 10_000
MOST_SECONDS = 0.030


def cpu_seconds(work: Callable[[], object], repeat: int = 7) -> float:
    """Take the least CPU time of several runs."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


STREAMS: dict[str, Callable[[int], Message]] = {
    "text": lambda number: Message.assistant(f"word{number} "),
    "reasoning": lambda number: Message.assistant(reasoning=f"word{number} "),
    "tool calls": lambda number: Message.assistant(tool_calls=[ToolCall(index=number // 100, arguments='"a" ')]),
    "tool calls that repeat id and name": lambda number: Message.assistant(
        tool_calls=[ToolCall(index=0, id="c1", name="search", arguments="{a}"[number % 3])]
    ),
    "usage and extras": lambda number: Message.assistant("w", usage=Usage(output_tokens=number), extra={"n": number}),
}


@pytest.mark.benchmark
@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS.keys())
def test_ten_thousand_chunks_are_put_together_in_thirty_milliseconds(make: Callable[[int], Message]) -> None:
    chunks = [make(number) for number in range(CHUNKS)]
    assert cpu_seconds(lambda: concat(chunks)) <= MOST_SECONDS


@pytest.mark.benchmark
def test_chunks_of_text_take_at_most_thirty_times_as_long_as_joining_bare_text() -> None:
    texts = [f"word{number} " for number in range(CHUNKS)]
    chunks = [Message.assistant(text) for text in texts]

    def join_by_hand() -> str:
        whole: list[str] = []
        for text in texts:
            whole.append(text)
        return "".join(whole)

    assert cpu_seconds(lambda: concat(chunks)) <= 30 * cpu_seconds(join_by_hand)


@pytest.mark.benchmark
def test_making_a_message_takes_no_longer_than_validating_two() -> None:
    Message(role="user")  # pydantic builds the class now, not while it is measured

    def make() -> None:
        for _ in range(CHUNKS):
            Message.assistant("x")

    def validate() -> None:
        for _ in range(CHUNKS):
            Message(role="assistant", content="x")

    assert cpu_seconds(make) <= 2 * cpu_seconds(validate)
