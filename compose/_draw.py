"""A compiled graph as Mermaid text: exactly the declared nodes, edges and branches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import Any, Literal, get_args

from ._info import BranchInfo, GraphInfo, NodeInfo
from ._keys import END, START
from ._runnable import Runnable

Direction = Literal["TD", "LR", "BT", "RL"]

LONGEST_LABEL = 100
"""Labels are cut after so many characters."""

_SHAPES = {"model": ("([", "])"), "tools": ("[[", "]]"), "passthrough": ("((", "))"), "tool": ("[[", "]]")}
_BREAKS = re.compile(r"[\s\x00-\x20\x7f-\x9f\ufeff]+")
_SPECIAL = re.compile(
    r"""["#<>&`*~|\\$%;:{}\[\]ﬂ¶\ud800-\udfff]"""  # what Mermaid, HTML or Markdown would take for something else
    r"""|(?<![^\W_])_|_(?![^\W_])"""  # emphasis: an underscore that is not inside a word
    r"""|^[-+=]|(?<=^\d)[.)]|(?<=^\d\d)[.)]"""  # the beginning of a list or a heading
    r"""|d(?=irection\s)"""  # a statement, wherever it stands in its line
)


def draw_mermaid(graph: Runnable[Any, Any], *, direction: Direction = "TD") -> str:
    """Draw a compiled graph as the text of a Mermaid flowchart.

    Nodes get made-up ids and quoted labels, so any key is safe. Nested graphs are subgraphs, and so is the graph that a
    :class:`Map` runs for each item. Branches are dashed lines labelled with what the condition returns (unless that is
    the name of the end itself); edges that carry only control or only data say so.

    Args:
        graph: The compiled graph.
        direction: Where it grows to: down, right, up or left.

    Returns:
        The text, ending in a newline.

    Raises:
        ValueError: If there is no such direction.

    Example:
        >>> from anabranch.compose import END, START, Graph, draw_mermaid
        >>> def shout(text: str) -> str:
        ...     return text.upper()
        >>> graph = Graph[str, str]()
        >>> graph.add_edge(START, graph.add_node("shout", shout))
        >>> graph.add_edge("shout", END)
        >>> print(draw_mermaid(graph.compile()), end="")
        flowchart TD
            n0(["start"])
            n1["shout"]
            n2(["end"])
            n0 --> n1
            n1 --> n2
    """
    if direction not in get_args(Direction):
        raise ValueError(f"direction={direction!r}: there are {', '.join(map(repr, get_args(Direction)))}")
    lines = [f"flowchart {direction}", *_Drawing().graph(graph.graph_info(), "    ")]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    text = _BREAKS.sub(" ", text).strip() or repr(text)
    if len(text) > LONGEST_LABEL:
        text = text[: LONGEST_LABEL - 1] + "…"
    return f'"{_SPECIAL.sub(_escaped, text)}"'


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"#{0xFFFD if 0xD800 <= code < 0xE000 else code};"


class _Drawing:
    def __init__(self) -> None:
        self._numbers = count()

    def _new_id(self) -> str:
        return f"n{next(self._numbers)}"

    def graph(self, info: GraphInfo, indent: str) -> Iterator[str]:
        """Draw the inside of a graph."""
        ids: dict[str, str] = {START.key: self._new_id()}
        yield f"{indent}{ids[START.key]}([{_quoted(START.key)}])"
        for node in info.nodes:
            ids[node.key] = self._new_id()
            yield from self._node(node, ids[node.key], indent)
        ids[END.key] = self._new_id()
        yield f"{indent}{ids[END.key]}([{_quoted(END.key)}])"
        for edge in info.edges:
            arrow = "-->" if edge.control and edge.data else _arrow("control" if edge.control else "data")
            yield f"{indent}{ids[edge.source]} {arrow} {ids[edge.target]}"
        for branch in info.branches:
            yield from self._branch(branch, ids, indent)

    def _node(self, node: NodeInfo, name: str, indent: str) -> Iterator[str]:
        if node.graph is None:
            opening, closing = _SHAPES.get(node.component, ("[", "]"))
            yield f"{indent}{name}{opening}{_quoted(node.name)}{closing}"
            return
        label = f"{node.name} (each item)" if node.component == "map" else node.name
        yield f"{indent}subgraph {name}[{_quoted(label)}]"
        yield from self.graph(node.graph, indent + "    ")
        yield f"{indent}end"

    def _branch(self, branch: BranchInfo, ids: dict[str, str], indent: str) -> Iterator[str]:
        for label, end in branch.ends.items():
            text = str(getattr(label, "value", label))
            note = "" if text == end else f"|{_quoted(text)}|"
            yield f"{indent}{ids[branch.source]} -.->{note} {ids[end]}"


def _arrow(only: Literal["control", "data"]) -> str:
    return '-. "control only" .->' if only == "control" else '-- "data only" -->'
