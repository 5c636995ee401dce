"""A router between models: a branch sends each question to the model that is good enough for it.

Sums go to an agent with a calculator, long questions to the large model, the rest to the small one; when the large
model fails, the small one answers. The small and the large model are scripted, so this runs offline.
Run it with `python docs/examples/model_router.py "What is 12 * 31?"`.
"""

from __future__ import annotations

import re
import sys
from itertools import repeat
from typing import Literal

from anabranch.compose import END, START, Graph
from anabranch.compose.testing import ScriptedModel
from anabranch.flow import ReactAgent
from anabranch.flow.models import OfflineModel
from anabranch.flow.tools import calculator
from anabranch.schema import ChatModel, Message

SUM = re.compile(r"\d\s*[-+*/^]+\s*\d")
LONG = 200  # characters from which on a question is worth the large model


def route(messages: list[Message]) -> Literal["sums", "large", "small"]:
    """Choose by the last message."""
    text = messages[-1].text
    if SUM.search(text):
        return "sums"
    return "large" if len(text) >= LONG else "small"


def build(small: ChatModel, large: ChatModel, calculating: ChatModel) -> Graph[list[Message], Message]:
    """Join the three ways to answer."""
    router = Graph[list[Message], Message](name="router")
    router.add_branch(START, route)
    router.add_node("sums", ReactAgent(calculating, tools=[calculator], name="sums").graph)
    router.add_node("large", ReactAgent(large, fallback=small, name="large").graph)
    router.add_node("small", small)
    for key in ("sums", "large", "small"):
        router.add_edge(key, END)
    return router


small_model = ScriptedModel(repeat("The small model says: it depends."))
large_model = ScriptedModel(repeat("The large model says: let us look at this from all sides."))
graph = build(small_model, large_model, OfflineModel(notice=False)).compile()

if __name__ == "__main__":
    asked = " ".join(sys.argv[1:]) or "What is (312 * 46) + 2280?"
    print(graph.invoke_sync([Message.user(asked)]).text)
