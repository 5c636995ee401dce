"""Drawings, as Mermaid's own parser reads them: exactly the declared nodes, edges and branches, whatever the labels."""

from __future__ import annotations

import json
import re
import subprocess
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.compose import (
    END,
    START,
    Chain,
    Graph,
    GraphInfo,
    GraphWarning,
    Map,
    Runnable,
    Workflow,
    draw_mermaid,
    field,
)
from anabranch.compose.testing import GraphCase, ScriptedModel, graphs
from anabranch.schema import Message

HERE = Path(__file__).parent / "mermaid"

pytestmark = [pytest.mark.once, pytest.mark.timeout(300), pytest.mark.xdist_group("mermaid")]

Drawn = dict[str, Any]
Parse = Callable[[Sequence[str]], list[Drawn]]


@pytest.fixture(scope="session")
def packages(npm_peer: Callable[[Path], Path]) -> Path:
    """Give the folder that Mermaid is installed in."""
    return npm_peer(HERE / "package.json")


@pytest.fixture(scope="session")
def parse(packages: Path) -> Parse:
    """Give what asks Mermaid's parser about many texts at once, in one process."""
    script = (HERE / "parse.mjs").read_text("utf-8")

    def parse_all(texts: Sequence[str]) -> list[Drawn]:
        command = ["node", "--input-type=module", "--eval", script]
        given = json.dumps(list(texts))
        done = subprocess.run(
            command, cwd=packages, input=given, capture_output=True, encoding="utf-8", check=False, timeout=240
        )
        assert done.returncode == 0, done.stderr
        found: list[Drawn] = json.loads(done.stdout)
        return found

    return parse_all


# -- what a drawing must be ----------------------------------------------------------------------------------------

SHAPES = {"model": "stadium", "tool": "subroutine", "tools": "subroutine", "passthrough": "circle"}


def label(text: str) -> str:
    """Say how a text is shown: in one line, and not too long."""
    shown = "".join(" " if c.isspace() or ord(c) < 32 or 127 <= ord(c) < 160 or c == "\ufeff" else c for c in text)
    shown = re.sub(" +", " ", shown).strip(" ") or repr(text)
    shown = shown if len(shown) <= 100 else f"{shown[:99]}…"
    return re.sub("[\ud800-\udfff]", "\ufffd", shown)


def assert_drawn(drawn: Drawn, info: GraphInfo) -> None:
    """Compare what the parser found with what the graph is."""
    assert "error" not in drawn, drawn
    groups = {group["id"]: group for group in drawn["groups"]}
    inside = {member for group in groups.values() for member in group["members"]}
    outside = [name for name in [n["id"] for n in drawn["nodes"]] + list(groups) if name not in inside]
    edges = Counter[tuple[str, str, str, str]]()
    _compare(drawn, info, outside, groups, edges)
    found = Counter((e["source"], e["target"], e["label"], e["stroke"]) for e in drawn["edges"])
    assert found == edges


def _compare(
    drawn: Drawn, info: GraphInfo, members: Sequence[str], groups: dict[str, Drawn], edges: Counter[Any]
) -> None:
    ordered = sorted(members, key=lambda name: int(name[1:]))  # made-up ids count up
    nodes = {node["id"]: node for node in drawn["nodes"]}
    ids = dict(zip(["start", *(node.key for node in info.nodes), "end"], ordered, strict=True))
    for key in ("start", "end"):
        assert (nodes[ids[key]]["label"], nodes[ids[key]]["shape"]) == (key, "stadium")
    for node in info.nodes:
        name = ids[node.key]
        if node.graph is None:
            assert nodes[name]["label"] == label(node.name)
            assert nodes[name]["shape"] == SHAPES.get(node.component, "square")
        else:
            assert groups[name]["label"] == label(node.name + (" (each item)" if node.component == "map" else ""))
            _compare(drawn, node.graph, groups[name]["members"], groups, edges)
    for edge in info.edges:
        only = "" if edge.control and edge.data else "control only" if edge.control else "data only"
        edges[ids[edge.source], ids[edge.target], only, "dotted" if only == "control only" else "normal"] += 1
    for branch in info.branches:
        for answer, end in branch.ends.items():
            text = str(getattr(answer, "value", answer))
            edges[ids[branch.source], ids[end], "" if text == end else label(text), "dotted"] += 1


def assert_all_drawn(parse: Parse, apps: Sequence[Runnable[Any, Any]]) -> None:
    for drawn, app in zip(parse([draw_mermaid(app) for app in apps]), apps, strict=True):
        assert_drawn(drawn, app.graph_info())


@pytest.fixture(autouse=True)
def without_warnings_of_shape() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        yield


# -- generated graphs ----------------------------------------------------------------------------------------------


def test_a_hundred_generated_graphs_are_drawn_as_they_were_declared(parse: Parse) -> None:
    apps: list[Runnable[Any, Any]] = []

    @settings(max_examples=max(120, settings.default.max_examples // 10))  # type: ignore[union-attr]
    @given(graphs(nesting=2))
    def collect(case: GraphCase) -> None:
        apps.append(case.compile())

    collect()
    assert len(apps) >= 100
    shapes = [draw_mermaid(app) for app in apps]
    assert len(set(shapes)) > 50
    assert any("subgraph" in text for text in shapes)
    assert any("-.->" in text for text in shapes)
    assert_all_drawn(parse, apps)


def shout(text: str) -> str:
    return text.upper()


def anything(value: Any) -> Any:
    return value


def with_labels(names: Sequence[str], answers: Sequence[str]) -> Runnable[Any, Any]:
    """Make a graph whose nodes have these names, as keys where that is possible, and a branch with these labels."""
    graph = Graph[Any, Any]()
    keys = [name if name not in ("", "start", "end") and "/" not in name else f"n{i}" for i, name in enumerate(names)]
    for key, name in zip(keys, names, strict=True):
        graph.add_node(key, anything, name=name)
    for one, other in zip(["start", *keys[:-1]], keys, strict=True):
        graph.add_edge(one, other)
    graph.add_branch(keys[-1], anything, dict.fromkeys([*answers, "out"], END))
    return graph.compile()


def test_any_text_may_be_a_key_a_name_or_an_answer(parse: Parse) -> None:
    apps: list[Runnable[Any, Any]] = []
    texts = st.text(max_size=30) | st.text('"#&;:%{}[]()|<>`*_~$\\-=+.1 xo\n', max_size=12)

    @settings(max_examples=settings.default.max_examples * 2)  # type: ignore[union-attr]
    @given(st.lists(texts, min_size=1, max_size=8, unique=True), st.lists(texts, max_size=4, unique=True))
    def collect(names: list[str], answers: list[str]) -> None:
        apps.append(with_labels(names, answers))

    collect()
    assert len(apps) >= settings.default.max_examples  # type: ignore[union-attr]
    assert_all_drawn(parse, apps)


ODD = [
    *("end", "start", "graph", "subgraph", "flowchart TD", "class", "click n0", "style x:#f00;", "classDef x:#35;"),
    *("direction LR", "a direction TB", "linkStyle 0", "default", "undefined", "accTitle: x", "title", "---"),
    *('"', "'", '"]', "a]b", "(a)", "{a}", "[[a]]", "((a))", "a|b", "a-->b", "a---b", "a & b", "a@{shape: x}", ":::x"),
    *("#", "#35;", "#quot;", "&amp;", "&#35;", ";", "%%", "%%{init: {'theme':'dark'}}%%", "$$x^2$$", "\\", "\\n"),
    *("<b>bold</b>", "<script>alert(1)</script>", "<br/>", "`code`", "**bold**", "_it_", "__init__", "a_b", "~~a~~"),
    *("1. list", "10) list", "- list", "+ list", "* list", "# head", "> quote", "=", "fa:fa-car", "http://a.b/c?d=e"),
    *("two\nlines", "a\r\nb", "tab\tbed", " ", "\n", "\x00\x1b", "\u2028", "\ud800", "ﬂ°°35¶ß", "ﬂ°lt¶ß"),
    *("日本語", "🙂", "Straße 5°", "e\u0301", "\u202eright", "\u200b", "x" * 5000, "x\n" * 200, "word " * 100),
]


def test_odd_labels_are_shown_as_they_are(parse: Parse) -> None:
    apps = [with_labels(ODD, ODD), *(with_labels([odd], [odd]) for odd in ODD)]
    assert_all_drawn(parse, apps)


def test_graphs_chains_workflows_models_and_maps_in_each_other(parse: Parse) -> None:
    def choose(text: str) -> Literal["a", "b", "end"]:
        return "a"

    def split(text: str) -> list[str]:
        return [text]

    def glue(texts: list[str]) -> str:
        return "".join(texts)

    chain = Chain[str, str](name="in a chain").append(shout).passthrough().append(shout, name="again")
    each = Chain[str, str]().append(split).append(Map(chain)).append(glue)
    workflow = Workflow[str, dict[str, Any]]()
    one = workflow.add_node("a", each).input(START)
    two = workflow.add_node("b", chain).after(one).input(START, control=False)
    workflow.end.input(one, field(to="x")).input(two, field(to="y"), control=False)
    looping = Graph[str, str](name="loop")
    for key in ("a", "b"):
        looping.add_node(key, chain)
    looping.add_edge(START, "a")
    looping.add_branch("a", choose)
    looping.add_branch("b", choose, name="second")
    looping.add_edge("b", "b")
    chat = Graph[list[Message], Message]()
    chat.add_edge(START, chat.add_node("model", ScriptedModel([Message.assistant("x")])))
    chat.add_edge("model", END)
    assert_all_drawn(parse, [workflow.compile(), looping.compile(), each.compile(), chain.compile(), chat.compile()])


# -- the text ------------------------------------------------------------------------------------------------------


def test_the_text_of_a_small_graph_is_what_it_says() -> None:
    def choose(text: str) -> Literal["b", "end"]:
        return "b"

    graph = Graph[str, str]()
    graph.add_node("a", shout)
    graph.add_node("b", shout, name='say "b"')
    graph.add_edge(START, "a")
    graph.add_branch("a", choose)
    graph.add_branch("b", anything, {"stop": END, "again": "a"})
    assert draw_mermaid(graph.compile(), direction="LR").splitlines() == [
        "flowchart LR",
        '    n0(["start"])',
        '    n1["a"]',
        '    n2["say #34;b#34;"]',
        '    n3(["end"])',
        "    n0 --> n1",
        "    n1 -.-> n2",
        "    n1 -.-> n3",
        '    n2 -.->|"stop"| n3',
        '    n2 -.->|"again"| n1',
    ]


def test_there_are_four_directions() -> None:
    app = Chain[str, str]().append(shout).compile()
    directions: list[Any] = ["TD", "LR", "BT", "RL"]
    for direction in directions:
        assert draw_mermaid(app, direction=direction).startswith(f"flowchart {direction}\n")
    wrong: Any = "XY"
    with pytest.raises(ValueError, match="direction='XY': there are 'TD', 'LR', 'BT', 'RL'"):
        draw_mermaid(app, direction=wrong)


def test_an_edge_that_was_not_declared_is_not_drawn_and_each_declared_one_is() -> None:
    """Pains Y5: a router whose ends are unknown cannot be compiled, so nothing has to be guessed."""
    graph = Graph[str, str]()
    graph.add_node("a", shout)
    graph.add_node("b", shout)
    graph.add_edge(START, "a")
    graph.add_branch("a", shout, ["b", END])
    graph.add_edge("b", END)
    lines = draw_mermaid(graph.compile()).splitlines()
    assert [line.strip() for line in lines if "->" in line] == ["n0 --> n1", "n2 --> n3", "n1 -.-> n2", "n1 -.-> n3"]
