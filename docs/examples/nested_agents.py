"""Agents within an agent: a desk that calculates nothing and reads nothing itself, but knows whom to ask.

Each specialist is a tool of the desk. What they do is part of the desk's run: one stream of events, one place to stop.
Run it with `python docs/examples/nested_agents.py "What is 12 * 31?"`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from anabranch.compose import RunEnded, ToolStarted
from anabranch.flow import ReactAgent
from anabranch.flow.models import OfflineModel
from anabranch.flow.tools import calculator, file_tools
from anabranch.schema import ChatModel


def build(model: ChatModel, folder: str | Path) -> ReactAgent:
    """Make the desk and its two specialists."""
    reckoner = ReactAgent(model, tools=[calculator], name="reckoner", max_rounds=3)
    librarian = ReactAgent(model, tools=file_tools(folder), name="librarian", max_rounds=5)
    return ReactAgent(
        model,
        tools=[
            reckoner.as_tool("reckon", "Calculate an arithmetic expression.", argument="expression"),
            librarian.as_tool("search_pages", "Search the pages of the folder for an answer.", argument="query"),
        ],
        system_prompt="Ask the specialists. Answer from what they say.",
        name="desk",
    )


async def main(question: str) -> None:
    """Ask the desk, and show who was asked in turn."""
    desk = build(OfflineModel(notice=False), "docs")
    async with desk.events(question) as events:
        async for event in events:
            if isinstance(event, ToolStarted):
                print(f"{event.path}: {event.tool} {event.arguments}")
            elif isinstance(event, RunEnded) and not event.path:
                print(event.output.text)


if __name__ == "__main__":
    anyio.run(main, " ".join(sys.argv[1:]) or "What is (312 * 46) + 2280?")
