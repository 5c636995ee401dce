"""Answers are of the type that was asked for, also in another process."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from anabranch.compose import END, START, AnswerTypeError, Approval, Graph, Interrupted, MemoryStore, interrupt

pytestmark = pytest.mark.anyio


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
