"""An agent that edits the text files of a folder, each edit behind an approval, and survives being killed.

Run it with `python docs/examples/edit_files.py FOLDER lock "sluice lock"`: it finds the files, asks before each edit,
saves itself and exits with status 3. The same with `--answer yes` (or `no`) makes the edits. Kill it in the middle and
run it again: it goes on, and every edit is made once, although a second one would show here ("sluice sluice lock").
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import anyio

from anabranch.compose import Approval, Interrupt, Paused, SqliteStore, current_step, step
from anabranch.flow.react import ReactAgent
from anabranch.flow.tools import Decision, confirm_risky
from anabranch.schema import NO_OPTIONS, ChatModel, Message, ModelOptions, Tool, ToolCall, ToolChoice, ToolInfo, tool

WAITS = 3


def editing_tools(folder: Path, notes: Path) -> list[Tool]:
    """Make the tools: one that looks, and one that changes files."""

    @tool
    def find_text(text: str) -> list[str]:
        """Find the text files of the folder in which a text occurs.

        Args:
            text: The text.
        """
        paths = sorted(path for path in folder.rglob("*.md") if text in path.read_text(encoding="utf-8"))
        return [path.relative_to(folder).as_posix() for path in paths]

    def replace(path: str, old: str, new: str) -> str:
        """Change one file so that doing it again does no harm: the new text is noted first, under the step's key."""
        noted, file = notes / current_step().key, folder / path
        if not file.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{path!r} is not in the folder")
        if not noted.exists():
            write(noted, file.read_text(encoding="utf-8").replace(old, new))
        write(file, noted.read_text(encoding="utf-8"))
        print(f"edited {path}", file=sys.stderr, flush=True)
        return f"edited {path}"

    @tool(risk="destructive")
    async def replace_text(path: str, old: str, new: str) -> str:
        """Replace a text in a file of the folder wherever it occurs.

        Args:
            path: The file, as `find_text` gives it.
            old: The text that is there.
            new: The text to put in its place.
        """
        return await step("replace", replace, path, old, new)

    return [find_text, replace_text]


def write(path: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    aside = path.with_name(f".{path.name}.new")
    aside.write_text(text, encoding="utf-8")
    os.replace(aside, path)


class Clerk:
    """Stands for a language model: it looks for the text, changes each file where it is, and says what was done."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def with_tools(self, tools: Sequence[ToolInfo], choice: ToolChoice = "auto") -> Clerk:
        """Give a model that knows these tools."""
        return self

    async def generate(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS) -> Message:
        """Answer what was said last."""
        results = [message for message in messages if message.role == "tool"]
        if not results:
            return Message.assistant("I look for it.", tool_calls=[self._call(0, "find_text", text=self.old)])
        if len(results) == 1:
            paths = [str(path) for path in json.loads(results[0].text)]
            calls = [
                self._call(number, "replace_text", path=path, old=self.old, new=self.new)
                for number, path in enumerate(paths, 1)
            ]
            return (
                Message.assistant("I change these.", tool_calls=calls) if calls else Message.assistant("None has it.")
            )
        edited = sum(result.text.startswith("edited") for result in results)
        return Message.assistant(f"I have changed {edited} of {len(results) - 1} files.")

    async def stream(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS) -> AsyncIterator[Message]:
        """Answer in one chunk."""
        yield await self.generate(messages, options)

    def _call(self, number: int, name: str, **arguments: str) -> ToolCall:
        return ToolCall(id=f"c{number}", name=name, arguments=json.dumps(arguments))


def make_agent(model: ChatModel, folder: Path, store: SqliteStore) -> ReactAgent:
    """Make the agent; what it keeps is in `.edits` beside the files."""
    tools = editing_tools(folder, folder / ".edits")
    return ReactAgent(model, tools=tools, middlewares=[confirm_risky()], store=store, answers=[bool, Decision])


def described(question: Interrupt) -> str:
    """Say what is asked."""
    asked = question.payload
    return f"{asked.action} {getattr(asked, 'arguments', '')}" if isinstance(asked, Approval) else str(asked)


async def main(folder: Path, old: str, new: str, run: str, answer: bool | None) -> int:
    """Begin the run, or go on with it; give the exit status."""
    (folder / ".edits").mkdir(exist_ok=True)
    async with SqliteStore(folder / ".edits" / "runs.db") as store:
        agent = make_agent(Clerk(old, new), folder, store)
        known = {one.id: one.status for one in await agent.runs()}
        if run not in known:
            outcome = await agent.start(f"Replace {old!r} by {new!r} in all files.", run=run)
        elif known[run] == "done":
            print((await agent.output(run)).text)
            return 0
        else:
            asked = await agent.pending(run)
            if asked and answer is None:
                outcome = Paused(run, asked)
            else:
                outcome = await agent.proceed(run, {one.id: answer for one in asked})
        if isinstance(outcome, Paused):
            for question in outcome.interrupts:
                print(f"{question.id}: {described(question)}")
            print("say --answer yes or --answer no")
            return WAITS
        print(outcome.value.text)
        return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--run", default="edits", help="the id of the run")
    parser.add_argument("--answer", choices=["yes", "no"], help="to all that is asked")
    given = parser.parse_args()
    answer = None if given.answer is None else given.answer == "yes"
    sys.exit(anyio.run(main, given.folder, given.old, given.new, given.run, answer))
