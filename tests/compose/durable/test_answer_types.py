"""Answers are of the type that was asked for, also in another process."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Annotated, Any

import pytest
from pydantic import Field
from typing_extensions import TypedDict

from anabranch.compose import (
    END,
    START,
    AnswerTypeError,
    Approval,
    Graph,
    Interrupted,
    MemoryStore,
    NodeError,
    interrupt,
)

pytestmark = pytest.mark.anyio


class Pair(TypedDict):
    left: int


PROGRAM = """
import sys, anyio
from pydantic import BaseModel
from anabranch.compose import END, START, Graph, Interrupted, SqliteStore, interrupt

class Choice(BaseModel):
    colour: str

async def ask(text: str) -> str:
    return (await interrupt("?", answer=Choice)).colour

async def main(place, what):
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", END)
    async with SqliteStore(place) as store:
        if what == "begin":
            try:
                await graph.compile(store=store).invoke("x", run="r")
            except Interrupted as paused:
                print(paused.interrupts[0].id)
            return
        app = graph.compile(store=store, answers=[Choice] if what == "told" else [])
        print([one.answer_type for one in await app.pending("r")])
        for answer in ({"color": "red"}, 3, {"colour": "red"}):
            try:
                print(await app.resume("r", {"ask/0": answer}))
            except Exception as error:
                print(type(error).__name__, len((await store.versions("r"))))

anyio.run(main, *sys.argv[1:])
"""


def program(*arguments: object) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_answers_are_tested_before_anything_runs_in_a_process_that_knows_their_type(tmp_path: Any) -> None:
    assert program(tmp_path / "runs.db", "begin") == ["ask/0"]
    found = program(tmp_path / "runs.db", "told")
    assert found[0] == "[<class '__main__.Choice'>]"
    assert found[1].split()[0] == "AnswerTypeError"
    assert found[1] == found[2], "nothing was written"
    assert found[3] == "red"


def test_and_when_the_node_asks_in_one_that_does_not(tmp_path: Any) -> None:
    program(tmp_path / "runs.db", "begin")
    found = program(tmp_path / "runs.db", "untold")
    assert found[0] == "[typing.Any]"
    assert found[1].startswith("NodeError")
    assert found[3] == "red"


async def test_an_answer_of_another_type_may_be_corrected() -> None:
    async def ask(text: str) -> int:
        return await interrupt(Approval(action="count"), answer=int)

    graph = Graph[str, int]()
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", END)
    app = graph.compile(store=MemoryStore())
    with pytest.raises(Interrupted):
        await app.invoke("x", run="r")
    with pytest.raises(AnswerTypeError):
        await app.resume("r", answer="three")
    assert await app.resume("r", answer=3) == 3


WRONG: list[tuple[Any, Any, Any]] = [
    (tuple[int, ...], ("a",), (1, 2)),
    (frozenset[int], frozenset({"a"}), frozenset({1})),
    (dict[str, list[int]], {"a": ["b"]}, {"a": [1]}),
    (int | None, "a", None),
    (Annotated[int, Field(ge=3)], 2, 3),
    (Pair, {"left": "a"}, {"left": 1}),
]


@pytest.mark.parametrize(("form", "wrong", "right"), WRONG, ids=lambda value: str(value)[:30])
async def test_a_wrong_answer_is_refused_before_anything_runs(form: Any, wrong: Any, right: Any) -> None:
    ran = 0

    async def ask(text: str) -> str:
        nonlocal ran
        ran += 1
        return repr(await interrupt("?", answer=form))

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", END)
    app = graph.compile(store=MemoryStore())
    with pytest.raises(Interrupted):
        await app.invoke("x", run="r")
    with pytest.raises(AnswerTypeError):
        await app.resume("r", answer=wrong)
    assert ran == 1
    assert await app.resume("r", answer=right) == repr(right)


@pytest.mark.parametrize("form", ["int", 5, threading.Lock], ids=str)
async def test_what_is_no_type_of_answers_is_refused_when_it_is_asked_with(form: Any) -> None:
    async def ask(text: str) -> str:
        return repr(await interrupt("?", answer=form))

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", END)
    with pytest.raises(NodeError, match="no type of answers"):
        await graph.compile(store=MemoryStore()).invoke("x", run="r")
