# pyright: reportPrivateUsage=false
"""D4: whatever is in a store, reading it gives the run as it was or a typed error, before anything runs."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from anabranch.compose import (
    END,
    START,
    DamagedRecordError,
    Graph,
    GraphChangedError,
    Interrupted,
    Map,
    MemoryStore,
    Runnable,
    interrupt,
    step,
)
from anabranch.compose._record import seal, unseal
from anabranch.compose._store import LogEntry, LogHead
from anabranch.compose.errors import ResumeError
from anabranch.schema import AnabranchError

pytestmark = pytest.mark.anyio


class Notes(BaseModel):
    """A state."""

    seen: list[str] = []
    rounds: int = 0


ran: list[str] = []


def graph_of(store: MemoryStore, trigger: Any = "any", key: str = "ask") -> Runnable[Any, Any]:
    """A graph that pauses at three places: in a nested graph with a state, in an item of a map, and in a node."""

    def note(text: str, state: Notes) -> str:
        ran.append("note")
        state.seen.append(text)
        return text

    async def ask(text: str) -> str:
        ran.append("ask")
        await step("effect", str.upper, text)
        return text + await interrupt({"what": text}, answer=str)

    async def item(number: int) -> str:
        ran.append("item")
        return await interrupt(number, answer=str) if number else "0"

    def numbers(text: str) -> list[int]:
        return [0, 1]

    inner = Graph[str, str](state=Notes)
    inner.add_edge(START, inner.add_node("first", ask, pre=note))
    inner.add_edge("first", END)
    each = Graph[str, str]()
    each.add_edge(START, each.add_node("numbers", numbers))
    each.add_edge("numbers", each.add_node("each", Map(item)))
    each.add_edge("each", each.add_node("joined", "".join, input=list[str], output=str))
    each.add_edge("joined", END)
    graph = Graph[str, dict[str, str]](state=Notes)
    for name, node in (("inner", inner), ("items", each), (key, ask)):
        graph.add_edge(START, graph.add_node(name, node, output_key=name))
        graph.add_edge(name, "end")
    return graph.compile(trigger=trigger, store=store)


async def paused(store: MemoryStore, run: str = "r", trigger: Any = "any") -> dict[str, str]:
    with pytest.raises(Interrupted) as caught:
        await graph_of(store, trigger).invoke("x", run=run)
    ran.clear()
    return {one.id: "!" for one in caught.value.interrupts}


def head_of(store: MemoryStore, run: str = "r") -> LogHead:
    return store._logs[run][0]


def entries_of(store: MemoryStore, run: str = "r") -> list[LogEntry]:
    return store._logs[run][1]


def document(store: MemoryStore) -> dict[str, Any]:
    """Make a document of one snapshot of what is stored."""
    from anabranch.compose._record import read_document
    from anabranch.compose._store import checked_log

    entries = entries_of(store)
    first = max(place for place, entry in enumerate(entries) if entry.snapshot)
    return read_document(checked_log(head_of(store), entries[first:], len(entries)))


def put(store: MemoryStore, tree: Any, run: str = "r") -> None:
    """Store a document with the right checksum, as somebody could who can write to the database."""
    data = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
    entry = LogEntry(1, True, seal(data, run, 1), 1.0)
    store._logs[run] = replace(head_of(store), version=1), [entry]


async def refused(store: MemoryStore, answers: dict[str, str], trigger: Any = "any") -> AnabranchError:
    version = head_of(store).version
    with pytest.raises((DamagedRecordError, ResumeError)) as caught:
        await graph_of(store, trigger).resume("r", answers)
    assert not ran, "something ran"
    assert head_of(store).version == version, "something was written"
    return caught.value


async def test_it_goes_on_where_nothing_was_touched() -> None:
    for trigger in ("any", "all"):
        store = MemoryStore()
        answers = await paused(store, trigger=trigger)
        put(store, document(store))
        assert await graph_of(store, trigger).resume("r", answers) == {"inner": "x!", "items": "0!", "ask": "x!"}


async def test_bytes_that_were_changed_cut_or_added() -> None:
    choice = random.Random(1)
    store = MemoryStore()
    answers = await paused(store)
    entries = entries_of(store)
    first = max(place for place, entry in enumerate(entries) if entry.snapshot)
    for _ in range(60):
        place = choice.randrange(first, len(entries))
        whole, at = entries[place], choice.randrange(len(entries[place].data))
        for data in (
            whole.data[:at],
            whole.data[:at] + bytes([whole.data[at] ^ 1 << choice.randrange(8)]) + whole.data[at + 1 :],
            whole.data + b" ",
            whole.data[:at] + whole.data[at + 1 :],
        ):
            entries[place] = replace(whole, data=data)
            error = await refused(store, answers)
            assert isinstance(error, DamagedRecordError)
            assert "'r'" in str(error)
        entries[place] = whole
    assert await graph_of(store).resume("r", answers)


async def test_entries_that_were_swapped_between_versions_and_runs() -> None:
    store = MemoryStore()
    answers = await paused(store)
    await paused(store, "other")
    entries, others = entries_of(store), entries_of(store, "other")
    first = max(place for place, entry in enumerate(entries) if entry.snapshot)
    for place in range(first, len(entries)):
        for stranger in (others[place], *(entry for entry in entries if entry.version != place + 1)):
            mine = entries[place]
            entries[place] = replace(mine, data=stranger.data)
            assert isinstance(await refused(store, answers), DamagedRecordError)
            entries[place] = mine
    store._logs["r"] = replace(head_of(store, "other"), id="r"), list(others)
    assert isinstance(await refused(store, answers), DamagedRecordError)


async def test_a_newer_format_and_another_graph() -> None:
    store = MemoryStore()
    answers = await paused(store)
    put(store, document(store) | {"format": 2})
    assert "newer version of the library" in str(await refused(store, answers))
    store = MemoryStore()
    answers = await paused(store)
    with pytest.raises(GraphChangedError):
        await graph_of(store, key="renamed").resume("r", answers)
    with pytest.raises(GraphChangedError):
        await graph_of(store, trigger="all").resume("r", answers)
    assert not ran


def places(at: Any) -> list[Any]:
    """Give the keys or the numbers under which there is something."""
    if isinstance(at, dict):
        return list(cast("dict[str, Any]", at))
    return list(range(len(at))) if isinstance(at, list) else []  # pyright: ignore[reportUnknownArgumentType]


def changed(tree: Any, choice: random.Random) -> Any:
    """Change something somewhere in a tree."""
    holders: list[tuple[Any, Any]] = []

    def walk(at: Any) -> None:
        keys: list[Any] = places(at)
        for key in keys:
            holders.append((at, key))
            walk(at[key])

    walk(tree)
    holder, key = choice.choice(holders)
    strange: list[Callable[[], Any]] = [
        lambda: None, lambda: -1, lambda: 10**400, lambda: "nobody", list, dict, lambda: [[[]]],
        lambda: {"!": "os.system", "value": "echo"}, lambda: float("nan"), lambda: True, lambda: {"node": "nobody"},
    ]  # fmt: skip
    if choice.random() < 0.2 and isinstance(holder, dict):
        named = cast("dict[str, Any]", holder)
        named[choice.choice(["nobody", "0", "-1", "graph", "parts", ""])] = named.pop(key)
    elif choice.random() < 0.2:
        del holder[key]
    else:
        holder[key] = choice.choice(strange)()
    return tree


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("trigger", ["any", "all"])
async def test_any_other_structure_with_the_right_checksum(trigger: Any) -> None:
    choice = random.Random(2)
    store = MemoryStore()
    answers = await paused(store, trigger=trigger)
    good = json.dumps(document(store))
    app = graph_of(store, trigger)
    refusals = 0
    for _ in range(int(os.environ.get("HOSTILE", "400"))):
        tree = changed(json.loads(good), choice)
        put(store, json.dumps(tree).encode())
        ran.clear()
        told = json.dumps(tree)
        try:
            await app.resume("r", answers)
        except (DamagedRecordError, ResumeError):
            assert not ran, told
            assert head_of(store).version == 1, told
            refusals += 1
        except AnabranchError as error:  # the graph and the node found it: what a node journals is its own
            cause: BaseException = error
            while cause.__cause__ is not None:
                cause = cause.__cause__
            assert isinstance(cause, AnabranchError), (told, cause)
        except Interrupted:
            pass
    assert refusals > 200


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b'{"format": 1, "run": "r"' + b', "a": 1' * 1000,
        b"[" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"format": 1, "run": "r", "graph": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"format": 1, "run": "r", "graph": {"out": {}, "tasks": {"1": []}}}',
        b'{"format": 1, "run": "r", "graph": {"out": {}, "tasks": {"1": {"node": "nobody"}}}}',
        b'{"format": 1, "run": "r", "graph": {"out": {}, "tasks": {"x": {"node": "ask", "step": 1, "sent": {}}}}}',
        b'{"format": 1, "run": "other", "graph": {"out": {}, "tasks": {}}}',
        b'{"format": true, "run": "r", "graph": {"out": {}, "tasks": {}}}',
        b'{"format": 1, "run": "r", "graph": 1e999}',
    ],
    ids=lambda data: repr(data[:24]),
)
async def test_documents_that_are_none(data: bytes) -> None:
    store = MemoryStore()
    answers = await paused(store)
    put(store, data)
    assert isinstance(await refused(store, answers), DamagedRecordError)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_record_of_100_mb() -> None:
    store = MemoryStore()
    answers = await paused(store)
    put(store, b'{"format": 1, "run": "r", "graph": "' + b"x" * 100_000_000 + b'"}')
    assert isinstance(await refused(store, answers), DamagedRecordError)


AUDITED = """
import json, sys
import anyio
sys.path.insert(0, sys.argv[1])
import test_hostile_records as tests
from anabranch.compose import MemoryStore
from anabranch.compose.errors import AnabranchError

async def main():
    store = tests.MemoryStore()
    answers = await tests.paused(store)
    good = json.dumps(tests.document(store))
    app = tests.graph_of(store)
    try:
        await app.resume("r", answers)
        tests.put(store, json.dumps({"format": 1}).encode())
        await app.resume("r", answers)
    except AnabranchError:
        pass
    seen = []
    watching = True
    def hook(event, args):
        if watching and (event == "import" or event in ("exec", "compile", "os.system", "subprocess.Popen", "open",
                "pickle.find_class", "marshal.loads", "code.__new__", "ctypes.dlopen", "socket.connect")):
            seen.append((event, str(args)[:80]))
    evil = ["os.system", "posix.system", "subprocess.Popen", "builtins.eval", "antigravity", "this.nothing"]
    texts = []
    for name in evil:
        for shape in ({"!": name, "value": ["echo"]}, ["class", name], {"class": name, "args": ["echo"]},
                      {"__reduce__": [name, ["echo"]]}, {"lc": 1, "type": "constructor", "id": name.split("."),
                      "kwargs": {}}, {"py/object": name}, {"$type": name}):
            for at in ("answer_type", "payload", "id", "result", "state", "out", "sent", "node"):
                tree = json.loads(good)
                def walk(part):
                    if isinstance(part, dict):
                        for key in part:
                            if key == at:
                                part[key] = shape
                            else:
                                walk(part[key])
                walk(tree)
                texts.append(json.dumps(tree).encode())
    sys.addaudithook(hook)
    for text in texts:
        tests.put(store, text)
        for work in (app.pending, app.state, app.resume):
            try:
                await work("r")
            except (AnabranchError, tests.Interrupted):
                pass
    watching = False
    print(len(texts), sorted(set(seen)))

anyio.run(main)
"""


def test_reading_imports_and_runs_nothing_that_a_record_names() -> None:
    folder = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", AUDITED, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(" ", 1)[1].strip() == "[]", done.stdout


async def test_the_checksum_is_over_the_place_too() -> None:
    data = seal(b"{}", "r", 1)
    assert unseal(data, "r", 1) == b"{}"
    for run, version in (("r", 2), ("s", 1), ("1 r", 1)):
        with pytest.raises(DamagedRecordError):
            unseal(data, run, version)
