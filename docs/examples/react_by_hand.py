"""The ReAct loop written out: a model, its tools, a branch between them, and the history as state.

Run it with `python docs/examples/react_by_hand.py "What is (312 * 46) + 2280?"`; see it with
`anabranch draw docs/examples/react_by_hand.py:graph`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel

from anabranch.compose import START, Graph, ToolsNode
from anabranch.flow.models import OfflineModel
from anabranch.flow.tools import calculator, current_time, file_tools
from anabranch.schema import ChatModel, Message, StreamReader, Tool


class History(BaseModel):
    """What was said in this run."""

    messages: list[Message] = []


def remember(new: list[Message], history: History) -> list[Message]:
    """Before the model: add the question or the tools' results, and show it everything."""
    history.messages += new
    return list(history.messages)


def remember_calls(message: Message, history: History) -> Message:
    """Before the tools: add the message that calls them."""
    history.messages.append(message)
    return message


async def choose(message: StreamReader[Message]) -> Literal["tools", "end"]:
    """Go to the tools as soon as one is called; a message without a call is the answer."""
    async for chunk in message:
        if chunk.tool_calls:
            return "tools"
    return "end"


def build(model: ChatModel, tools: Sequence[Tool]) -> Graph[list[Message], Message]:
    """Join model and tools to a loop."""
    loop = Graph[list[Message], Message](state=History)
    chat = loop.add_node("chat", model.with_tools([tool.info for tool in tools]), pre=remember)
    act = loop.add_node("tools", ToolsNode(tools), pre=remember_calls)
    loop.add_edge(START, chat)
    loop.add_branch(chat, choose)
    loop.add_edge(act, chat)
    return loop


graph = build(OfflineModel(), [calculator, current_time, *file_tools(".")]).compile(name="react_by_hand")

if __name__ == "__main__":
    question = Message.user(" ".join(sys.argv[1:]) or "What is (312 * 46) + 2280?")
    with graph.stream_sync([question]) as chunks:
        for chunk in chunks:
            sys.stdout.write(chunk.text)
    sys.stdout.write("\n")
