from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from anabranch.compose import END, START, Approval, Graph, Interrupted, Map, MemoryStore, RunOptions, emit, interrupt
from anabranch.compose.testing import ScriptedModel
from anabranch.flow import ReactAgent
from anabranch.flow.console import Console, Price
from anabranch.schema import Message, ToolCall, Usage, tool

pytestmark = pytest.mark.anyio


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def ticking() -> Callable[[], float]:
    """Give a clock that goes on by a second whenever somebody looks."""
    now = iter(range(10_000))
    return lambda: float(next(now))


def still() -> float:
    return 0.0


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def calculating() -> ReactAgent[object]:
    call = ToolCall(id="c1", name="add", arguments='{"a": 2, "b": 3}')
    first = Message.assistant(
        "Let me add.",
        tool_calls=[call],
        usage=Usage(input_tokens=1000, output_tokens=20),
        extra={"model": "big-2026-01-01"},
    )
    last = Message.assistant("It is 5.", usage=Usage(input_tokens=2000, output_tokens=10), extra={"model": "small"})
    return ReactAgent(ScriptedModel([first, last]), tools=[add], name="sums")


def line(app: Any, key: str = "work") -> Graph[str, str]:
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node(key, app, input=str, output=str))
    graph.add_edge(key, END)
    return graph


async def test_an_agents_run_has_a_line_for_all_that_begins_and_ends(out: io.StringIO) -> None:
    console = Console(file=out, prices={"big": (3, 10), "small": Price(1, 2)}, clock=still)
    await calculating().generate("2 + 3?", RunOptions(callbacks=[console]))
    assert out.getvalue().splitlines() == [
        "sums: started",
        "chat: started",
        "chat: done, 0 ms, 1,000 + 20 tokens, $0.0032: Let me add.",
        "tools: started",
        "tools/add: started: (a=2, b=3)",
        "tools/add: done, 0 ms: (a=2, b=3) -> 5",
        "tools: done, 0 ms",
        "chat: started",
        "chat: done, 0 ms, 2,000 + 10 tokens, $0.0020: It is 5.",
        "sums: done, 0 ms, 3,000 + 30 tokens, $0.0052",
    ]


async def test_the_events_of_a_run_show_the_same(out: io.StringIO) -> None:
    console = Console(file=out, clock=still)
    async with calculating().events("2 + 3?") as events:
        async for event in events:
            console.show(event)
    assert out.getvalue().splitlines()[-1] == "run: done, 0 ms, 3,000 + 30 tokens"
    assert "tools/add: done, 0 ms: (a=2, b=3) -> 5" in out.getvalue().splitlines()


async def test_attempts_and_errors_have_lines_without_control_characters(out: io.StringIO) -> None:
    left = [OSError("net\x1b[31m\nworks"), ValueError("no")]

    async def work(text: str) -> str:
        raise left.pop(0)

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("work", work, retries=1))
    graph.add_edge("work", END)
    with pytest.raises(Exception, match="no"):
        await graph.compile().invoke("x", RunOptions(callbacks=[Console(file=out, clock=still)]))
    assert out.getvalue().splitlines() == [
        "graph: started",
        "work: started",
        "work: failed, 0 ms: OSError: net [31m works; trying again",
        "work (attempt 2): started",
        "work (attempt 2): failed, 0 ms: ValueError: no",
        "graph: failed, 0 ms",
    ]


async def test_a_map_shows_how_far_it_is_and_what_went_wrong(out: io.StringIO) -> None:
    async def half(number: int) -> int:
        if number == 13:
            raise ValueError("odd luck")
        return number // 2

    graph = Graph[list[int], list[object]]()
    graph.add_edge(START, graph.add_node("each", Map(half, concurrency=1, on_error="collect")))
    graph.add_edge("each", END)
    options = RunOptions(callbacks=[Console(file=out, clock=still)])
    await graph.compile().invoke(list(range(40)), options)
    assert out.getvalue().splitlines() == [
        "graph: started",
        "each: started, 0/40 items, 0 ms",
        "each: running, 10/40 items, 0 ms",
        "each/13: failed, 0 ms: ValueError: odd luck",
        "each: running, 15/40 items, 0 ms",
        "each: running, 19/40 items, 0 ms",
        "each: running, 23/40 items, 0 ms",
        "each: running, 27/40 items, 0 ms",
        "each: running, 31/40 items, 0 ms",
        "each: running, 35/40 items, 0 ms",
        "each: running, 39/40 items, 0 ms",
        "each: done, 40/40 items, 0 ms",
        "graph: done, 0 ms",
    ]


async def delete(path: str) -> str:
    sure = await interrupt(Approval(action="delete", target=path), answer=bool)
    return "deleted" if sure else "kept"


async def test_a_question_that_is_answered_at_once_has_two_lines(out: io.StringIO) -> None:
    options = RunOptions(callbacks=[Console(file=out, clock=still)], on_interrupt=lambda question: True)
    await line(delete).compile().invoke("a.txt", options)
    asked, answered = out.getvalue().splitlines()[2:4]
    assert asked.startswith("work: waiting: asks work/0: Approval(")
    assert answered == "work: answered: True"


async def test_a_run_that_pauses_says_so(out: io.StringIO) -> None:
    app = line(delete).compile(store=MemoryStore())
    with pytest.raises(Interrupted):
        await app.invoke("a.txt", RunOptions(callbacks=[Console(file=out, clock=still)]), run="r1")
    lines = out.getvalue().splitlines()
    assert lines[-2].startswith("work: paused, 0 ms: asks work/0")
    assert lines[-1] == "graph: paused, 0 ms"


async def test_nested_graphs_and_what_nodes_say_are_shown(out: io.StringIO) -> None:
    async def shout(text: str) -> str:
        emit("half way")
        return text.upper()

    await line(line(shout), "inner").compile().invoke("x", RunOptions(callbacks=[Console(file=out, clock=still)]))
    assert [text.partition(",")[0] for text in out.getvalue().splitlines()] == [
        "graph: started",
        "inner: started",
        "inner/work: started",
        "inner/work: half way",
        "inner/work: done",
        "inner: done",
        "graph: done",
    ]


async def test_a_stream_that_is_not_read_to_its_end_ends_the_tree() -> None:
    out = Terminal()
    async with calculating().stream("2 + 3?", RunOptions(callbacks=[Console(file=out, clock=still)])) as reader:
        await anext(reader)
    assert out.getvalue().splitlines()[-1:] != []
    assert "\x1b[?25h" in out.getvalue(), "the cursor is back"


async def test_a_terminal_gets_a_tree_which_stays(ticking: Callable[[], float]) -> None:
    out = Terminal()
    console = Console(file=out, clock=ticking, prices={"big": (3, 10)}, refresh_per_second=0.01)
    await calculating().generate("2 + 3?", RunOptions(callbacks=[console]))
    left = out.getvalue().rpartition("\x1b[?25h")[2]
    assert "└─ " in left
    assert "[big-2026-01-01]" in left
    assert "(a=2, b=3) -> 5" in left
    assert "$0.0032 and more" in left


async def test_a_terminal_that_cannot_show_lines_gets_plain_ones() -> None:
    class Old(Terminal):
        encoding = "ascii"

    out = Old()
    await line(str.upper).compile().invoke("x", RunOptions(callbacks=[Console(file=out, clock=still)]))
    assert "`- " in out.getvalue()
    assert out.getvalue().isascii()


async def test_runs_at_the_same_time_are_told_apart(out: io.StringIO) -> None:
    console = Console(file=out, clock=still)

    async def ask(text: str) -> str:
        return await line(str.upper, "inside").compile().invoke(text, RunOptions(callbacks=[console]))

    assert await line(ask).compile().invoke("x", RunOptions(callbacks=[console])) == "X"
    assert [text.partition(":")[0] for text in out.getvalue().splitlines()] == [
        "graph", "work", "graph", "inside", "inside", "graph", "work", "graph",
    ]  # fmt: skip


def test_a_price_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match=r"prices=\{'big': 3\}: give Price"):
        Console(prices={"big": 3})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
