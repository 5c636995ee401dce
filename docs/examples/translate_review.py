"""Translate and review: one model translates, another one reviews, until there is nothing left to complain of.

The two models are scripted by small functions, so this runs offline; give `build` two real ones instead.
Run it with `python docs/examples/translate_review.py README.md`; see it with
`anabranch draw docs/examples/translate_review.py:graph`.
"""

from __future__ import annotations

import re
import sys
from itertools import repeat
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from anabranch.compose import START, Graph, current_state
from anabranch.compose.testing import ScriptedModel
from anabranch.schema import ChatModel, Message

MOST_ROUNDS = 3


class Work(BaseModel):
    """What is known of the text so far."""

    text: str = ""
    translation: str = ""
    remarks: list[str] = []
    rounds: int = 0


def brief(text: str) -> list[Message]:
    """Ask for a translation, and pass on what the reviewer said of the last one."""
    with current_state(Work) as work:
        work.text = work.text or text
        work.rounds += 1
        asked = [Message.system("Translate into German."), Message.user(work.text)]
        if work.remarks:
            asked += [Message.assistant(work.translation), Message.user("\n".join(work.remarks))]
        return asked


def submit(translation: Message) -> list[Message]:
    """Ask for a review of both texts."""
    with current_state(Work) as work:
        work.translation = translation.text
        task = Message.system("Review the translation: one remark a line, or APPROVED.")
        return [task, Message.user(f"{work.text}\n---\n{work.translation}")]


def judge(review: Message) -> str:
    """Keep the remarks, and give the translation."""
    with current_state(Work) as work:
        work.remarks = [] if review.text == "APPROVED" else review.text.splitlines()
        return work.translation


def choose(_: str) -> Literal["brief", "end"]:
    """Try again while there are remarks and rounds left."""
    with current_state(Work) as work:
        return "brief" if work.remarks and work.rounds < MOST_ROUNDS else "end"


def build(translator: ChatModel, reviewer: ChatModel) -> Graph[str, str]:
    """Join the two models to a loop."""
    loop = Graph[str, str](state=Work, name="translate_review")
    loop.add_edge(START, loop.add_node("brief", brief))
    loop.add_edge("brief", loop.add_node("translate", translator))
    loop.add_edge("translate", loop.add_node("submit", submit))
    loop.add_edge("submit", loop.add_node("review", reviewer))
    loop.add_edge("review", loop.add_node("judge", judge))
    loop.add_branch("judge", choose)
    return loop


WORDS = {"a": "ein", "and": "und", "is": "ist", "it": "es", "of": "von", "or": "oder", "that": "der", "the": "der"}
TERMS = {"graph": "Graph", "graphs": "Graphen", "stream": "Strom", "streams": "Ströme", "river": "Fluss"}


def translate(messages: list[Message]) -> str:
    """Stand in for a translator that learns its terms only from the reviewer."""
    glossary = WORDS | dict(re.findall(r"'(\w+)' is '(\w+)'", messages[-1].text))
    return re.sub(r"\w+", lambda word: glossary.get(word[0].lower(), word[0]), messages[1].text)


def review(messages: list[Message]) -> str:
    """Stand in for a reviewer that knows the terms of the trade."""
    _, _, translation = messages[-1].text.partition("\n---\n")
    missing = [term for term in TERMS if re.search(rf"\b{term}\b", translation)]
    return "\n".join(f"{term!r} is {TERMS[term]!r}" for term in missing) or "APPROVED"


graph = build(ScriptedModel(repeat(translate)), ScriptedModel(repeat(review))).compile(max_steps=5 * MOST_ROUNDS)

if __name__ == "__main__":
    page = Path(sys.argv[1] if len(sys.argv) > 1 else "README.md").read_text(encoding="utf-8")
    motto = next(line for line in page.splitlines() if line.startswith("*"))
    print(graph.invoke_sync(motto))
