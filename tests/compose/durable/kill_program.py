# ruff: noqa: T201 - it tells its caller
"""A program that runs graphs in forked processes, kills them, goes on in others, and tells what came out wrong.

``kill_program.py sqlite|postgres PLACE BACKEND points|random COUNT SEED`` prints a line per fault and at last how many
processes were killed. A process kills itself at the n-th point (before and after each save, before and after each
effect, at the end of each node), for every n, or is killed at a random moment; then another one goes on with the run,
and may be killed as well. What was done is in files, which is all that the next process knows beside the store.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import anyio
from pydantic import BaseModel

from anabranch.compose import END, START, Graph, Map, MemoryStore, Runnable, ToolsNode, current_step, graph_tool, step
from anabranch.compose._store import CheckpointStore, LogHead, LogKind, LogStatus, LogVersion, StoredLog
from anabranch.compose._store_postgres import PostgresStore
from anabranch.compose._store_sqlite import SqliteStore
from anabranch.compose.errors import RunFinishedError, UnknownRunError
from anabranch.schema import Message, ToolCall, tool


class World:
    """What a process does outside of itself, and where it dies."""

    folder = Path()
    dies_at = 0
    passed = 0

    @classmethod
    def point(cls) -> None:
        """Die here, if it is this point's turn."""
        cls.passed += 1
        if cls.passed == cls.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    @classmethod
    def log(cls, line: str) -> None:
        """Add a line to what the next process can read, in one piece."""
        with open(cls.folder / "log", "ab", buffering=0) as file:
            file.write(f"{line}\n".encode())


class DyingStore(CheckpointStore):
    """A store at whose saves the process may die."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store

    async def save(self, head: LogHead, data: bytes, *, snapshot: bool, expected: int) -> None:
        World.point()
        await self._store.save(head, data, snapshot=snapshot, expected=expected)
        World.point()

    async def load(self, id: str, *, version: int | None = None) -> StoredLog | None:
        return await self._store.load(id, version=version)

    async def versions(self, id: str) -> Sequence[LogVersion]:
        return await self._store.versions(id)

    async def heads(
        self,
        *,
        kind: LogKind | None = None,
        thread: str | None = None,
        status: LogStatus | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Sequence[LogHead]:
        return await self._store.heads(kind=kind, thread=thread, status=status, limit=limit, after=after)

    async def delete(self, id: str) -> bool:
        return await self._store.delete(id)

    async def expire(self, now: float) -> int:
        return await self._store.expire(now)

    async def aclose(self) -> None:
        await self._store.aclose()


def effect(label: str) -> str:
    """Have an effect, unless it was had already: the key tells."""
    World.point()
    try:
        (World.folder / "effects" / current_step().key).symlink_to(label)  # with what is in it, in one piece
    except FileExistsError:
        World.log(f"again {label}")
    World.point()
    return f"<{label}>"


async def work(label: str) -> str:
    """Do what every node here does."""
    World.log(f"begin {label}")
    made = await step("effect", effect, label)
    await anyio.lowlevel.checkpoint()
    World.log(f"end {label}")
    World.point()
    return made


# -- the graphs: each with its input, its output, and who comes before whom -----------------------------------------


class Count(BaseModel):
    """A state."""

    rounds: int = 0
    seen: list[str] = []


Trigger = Literal["any", "all"]
Case = tuple[Runnable[Any, Any], Any, Any, dict[str, list[str]]]
"""A graph, its input, its output, and of each piece of work those that are saved when it begins."""


def named(label: str) -> Callable[[str], Any]:
    async def node(text: str) -> str:
        return text + await work(label)

    return node


def keyed(label: str) -> Callable[[str], Any]:
    async def node(text: str) -> dict[str, str]:
        return {label: text + await work(label)}

    return node


def same(parts: dict[str, str]) -> dict[str, str]:
    return parts


def chain(store: CheckpointStore, trigger: Trigger) -> Case:
    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("a", named("a")))
    graph.add_edge("a", graph.add_node("b", named("b")))
    graph.add_edge("b", graph.add_node("c", named("c")))
    graph.add_edge("c", END)
    app = graph.compile(trigger=trigger, store=store)
    return app, "x", "x<a><b><c>", {"b": ["a"], "c": ["a", "b"]}


def loop(store: CheckpointStore, trigger: Trigger) -> Case:
    def note(text: str, state: Count) -> str:
        state.rounds += 1
        state.seen.append(text[-1:])
        return f"{text}{state.rounds}"

    async def turn(text: str) -> str:
        return text + await work(f"turn{text[-1]}")

    def again(text: str, state: Count) -> str:
        state.seen.append("post")
        return text if state.rounds < 4 else f"{text}! {state.seen}"

    async def go_on(text: str) -> Literal["turn", "end"]:
        return "end" if "!" in text else "turn"

    graph = Graph[str, str](state=Count)
    graph.add_edge(START, graph.add_node("turn", turn, pre=note, post=again))
    graph.add_branch("turn", go_on)
    app = graph.compile(store=store)
    seen = ["x", "post", ">", "post", ">", "post", ">", "post"]
    output = f"x1<turn1>2<turn2>3<turn3>4<turn4>! {seen}"
    return app, "x", output, {"turn2": ["turn1"], "turn3": ["turn1", "turn2"], "turn4": ["turn1", "turn2", "turn3"]}


def fan(store: CheckpointStore, trigger: Trigger) -> Case:
    async def join(parts: dict[str, str]) -> dict[str, str]:
        await work("join")
        return parts

    graph = Graph[str, dict[str, str]]()
    for label in "abc":
        graph.add_edge(START, graph.add_node(label, keyed(label)))
        if label != "c":
            graph.add_edge(label, "join")
    graph.add_node("join", join, input=dict[str, str], trigger="all")
    graph.add_edge("c", graph.add_node("d", same))
    graph.add_edge("d", "join")
    graph.add_edge("join", END)
    app = graph.compile(trigger=trigger, store=store)
    return app, "x", {"a": "x<a>", "b": "x<b>", "c": "x<c>"}, {"join": ["a", "b", "c"]}


def nested(store: CheckpointStore, trigger: Trigger) -> Case:
    def note(text: str, state: Count) -> str:
        state.rounds += 1
        return f"{text}{state.rounds}"

    innermost = Graph[str, str](state=Count)
    innermost.add_edge(START, innermost.add_node("a", named("a"), pre=note))
    innermost.add_edge("a", innermost.add_node("b", named("b"), pre=note))
    innermost.add_edge("b", END)
    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("innermost", innermost))
    inner.add_edge("innermost", inner.add_node("c", named("c")))
    inner.add_edge("c", END)

    async def calls(text: str) -> str:
        return await inside.invoke(text) + await work("after")

    graph = Graph[str, str]()
    graph.add_edge(START, graph.add_node("first", inner))
    inside_graph = Graph[str, str]()
    inside_graph.add_edge(START, inside_graph.add_node("i", named("i")))
    inside_graph.add_edge("i", inside_graph.add_node("j", named("j")))
    inside_graph.add_edge("j", END)
    inside = inside_graph.compile()
    graph.add_edge("first", graph.add_node("calls", calls))
    graph.add_edge("calls", END)
    app = graph.compile(trigger=trigger, store=store)
    before = {"b": ["a"], "c": ["a", "b"], "i": ["a", "b", "c"], "j": ["a", "b", "c", "i"], "after": ["i", "j", "c"]}
    return app, "x", "x1<a>2<b><c><i><j><after>", before


def mapped(store: CheckpointStore, trigger: Trigger) -> Case:
    async def item(number: int) -> str:
        return await work(f"item{number}")

    async def last(parts: list[str]) -> str:
        return "".join(parts) + await work("last")

    graph = Graph[list[int], str]()
    graph.add_edge(START, graph.add_node("each", Map(item, concurrency=1 if trigger == "any" else 3)))
    graph.add_edge("each", graph.add_node("last", last))
    graph.add_edge("last", END)
    app = graph.compile(trigger=trigger, store=store)
    before = {"last": ["item0", "item1", "item2", "item3"]}
    if trigger == "any":
        before |= {"item1": ["item0"], "item2": ["item0", "item1"], "item3": ["item1", "item2"]}
    return app, [0, 1, 2, 3], "<item0><item1><item2><item3><last>", before


def tools(store: CheckpointStore, trigger: Trigger) -> Case:
    @tool
    async def charge(name: str) -> str:
        """Charge somebody.

        Args:
            name: Whom.
        """
        return await work(name)

    inner = Graph[str, str]()
    inner.add_edge(START, inner.add_node("a", named("a")))
    inner.add_edge("a", inner.add_node("b", named("b")))
    inner.add_edge("b", END)

    async def joined(messages: list[Message]) -> str:
        return "".join(message.text for message in messages) + await work("last")

    ready = [charge, graph_tool(inner.compile(), "ask", "Ask.")]
    graph = Graph[Message, str]()
    graph.add_edge(START, graph.add_node("tools", ToolsNode(ready, sequential=trigger == "any")))
    graph.add_edge("tools", graph.add_node("last", joined))
    graph.add_edge("last", END)
    calls = [
        ToolCall(id="1", name="charge", arguments='{"name": "one"}'),
        ToolCall(id="2", name="ask", arguments='{"input": "x"}'),
        ToolCall(id="3", name="charge", arguments='{"name": "two"}'),
    ]
    before = {"last": ["one", "two", "a", "b"], "b": ["a"]}
    if trigger == "any":
        before |= {"two": ["one", "a", "b"], "a": ["one"]}
    app = graph.compile(trigger=trigger, store=store)
    return app, Message.assistant("", tool_calls=calls), "<one>x<a><b><two><last>", before


def branches(store: CheckpointStore, trigger: Trigger) -> Case:
    async def which(text: str) -> list[Literal["a", "b", "c"]]:
        return ["a", "c"]

    async def more(parts: dict[str, str]) -> Literal["d", "end"]:
        return "d"

    async def last(parts: dict[str, str]) -> dict[str, str]:
        return {**parts, "d": await work("d")}

    graph = Graph[str, dict[str, str]]()
    graph.add_edge(START, graph.add_node("first", named("first")))
    for label in "abc":
        graph.add_node(label, keyed(label))
    graph.add_branch("first", which)
    graph.add_node("join", same, trigger="all")
    for label in "abc":
        graph.add_edge(label, "join")
    graph.add_node("d", last)
    graph.add_branch("join", more)
    graph.add_edge("d", END)
    app = graph.compile(trigger=trigger, store=store)
    output = {"a": "x<first><a>", "c": "x<first><c>", "d": "<d>"}
    return app, "x", output, {"a": ["first"], "c": ["first"], "d": ["first", "a", "c"]}


CASES: list[tuple[Callable[[CheckpointStore, Trigger], Case], Trigger]] = [
    *((make, trigger) for make in (chain, fan, nested, mapped, tools, branches) for trigger in ("any", "all")),
    (loop, "any"),
]  # fmt: skip


# -- running, killing and going on ----------------------------------------------------------------------------------


class Killer:
    """Runs graphs in processes of their own."""

    def __init__(self, kind: str, place: str, backend: str) -> None:
        self.kind, self.place, self.backend = kind, place, backend
        self.killed = 0
        self.runs = 0
        self.faults = 0

    def store(self) -> CheckpointStore:
        """Give the store; only in the process that uses it."""
        made = SqliteStore(self.place, synchronous="normal") if self.kind == "sqlite" else PostgresStore(self.place)
        return DyingStore(made)

    def warm_up(self) -> None:
        """Import and compute what every process needs, and make the tables; no thread may be running after it."""

        async def go() -> None:
            for make, trigger in CASES:
                app, given, _, _ = make(MemoryStore(), trigger)
                await app.invoke(given)

        World.folder = Path(tempfile.mkdtemp())
        (World.folder / "effects").mkdir()
        anyio.run(go, backend=self.backend)
        shutil.rmtree(World.folder)
        self.killing(chain, "any", [])
        gc.freeze()

    def child(self, work: Callable[[], Any], kill_after: float | None = None) -> int:
        """Do something in a process of its own, which may be killed; give 0, or the signal that it died of."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                work()
                code = 0
            except BaseException:  # noqa: BLE001 - whatever it is, the caller tells
                traceback.print_exc(file=sys.stdout)
                sys.stdout.flush()
            finally:
                os._exit(code)
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            self.killed += 1
            return os.WTERMSIG(status)
        if os.WEXITSTATUS(status):
            self.faults += 1
        return 0

    def attempt(self, make: Any, trigger: Trigger, run: str, dies_at: int) -> None:
        """Begin a run, or go on with it, and say in a file what came out."""
        World.dies_at, World.passed = dies_at, 0

        async def go() -> None:
            async with self.store() as store:
                app, given, _, _ = make(store, trigger)
                try:
                    output = await app.resume(run)
                except UnknownRunError:
                    output = await app.invoke(given, run=run)
                except RunFinishedError:
                    output = await app.output(run)
            (World.folder / "output").write_text(repr(output))

        anyio.run(go, backend=self.backend)

    def killing(self, make: Any, trigger: Trigger, deaths: Sequence[int | float]) -> bool:
        """Kill a run again and again, and let it end; give whether the first process was killed."""
        self.runs += 1
        World.folder = Path(tempfile.mkdtemp())
        (World.folder / "effects").mkdir()
        run = f"{make.__name__}-{trigger}-{World.folder.name}"
        died = 0
        for death in deaths:
            at, after = (death, None) if isinstance(death, int) else (0, death)
            died = self.child(lambda at=at: self.attempt(make, trigger, run, at), after) or died  # type: ignore[misc]
        if self.child(lambda: self.attempt(make, trigger, run, 0)):
            self.tell(make, trigger, deaths, "the last process was killed")
        self.check(make, trigger, deaths)
        shutil.rmtree(World.folder)
        return died != 0

    def check(self, make: Any, trigger: Trigger, deaths: Sequence[int | float]) -> None:
        """Tell of everything that is not as it should be."""
        _, _, output, before = make(SqliteStore("unused"), trigger)
        found = World.folder / "output"
        if not found.exists() or found.read_text() != repr(output):
            self.tell(make, trigger, deaths, f"it gave {found.read_text() if found.exists() else 'nothing'}")
        effects = Counter(str(file.readlink()) for file in (World.folder / "effects").iterdir())
        labels = {*before, *(label for labels in before.values() for label in labels)}
        if effects != Counter(labels):
            self.tell(make, trigger, deaths, f"the effects are {effects}")
        saved: set[str] = set()
        for line in self.log_lines():
            what, label = line.split()
            if what == "begin":
                if label in saved:
                    self.tell(make, trigger, deaths, f"{label} was saved and ran again")
                saved.update(before.get(label, ()))

    def tell(self, make: Any, trigger: Trigger, deaths: Sequence[int | float], what: str) -> None:
        """Tell of a fault."""
        self.faults += 1
        print(f"{make.__name__} {trigger} {deaths}: {what}; {self.log_lines()}", flush=True)

    def log_lines(self) -> list[str]:
        """Give what the processes have told."""
        file = World.folder / "log"
        return file.read_text().splitlines() if file.exists() else []


def main(kind: str, place: str, backend: str, what: str, count: str, seed: str) -> None:
    """Do what the module says."""
    killer = Killer(kind, place, backend)
    choice = random.Random(int(seed))
    killer.warm_up()
    if what == "points":
        for make, trigger in CASES:
            at = 1 + choice.randrange(int(count))
            while killer.killing(make, trigger, [at]):
                at += int(count)
    else:
        for _ in range(int(count)):
            make, trigger = choice.choice(CASES)
            moments = choice.randint(1, 3)
            killer.killing(
                make,
                trigger,
                [choice.choice((choice.uniform(0.002, 0.06), choice.randint(1, 12))) for _ in range(moments)],
            )
    print(f"{killer.faults} faults, {killer.runs} runs, {killer.killed} killed")


if __name__ == "__main__":
    main(*sys.argv[1:])
