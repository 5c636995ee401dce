"""The graph of an agent, made of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...compose import END, START, Graph, Lambda, ToolsNode
from ...schema import ChatModel, Message
from ._decide import ToolCallChecker, decide, decide_at_first, decide_whole, deciding_by
from ._direct import DirectReturn
from ._model import AgentModel
from ._output import Output
from ._prompt import BeforeModel, HistoryFunction, Limits, SystemPrompt
from ._state import AgentState


@dataclass(frozen=True, slots=True)
class Parts:
    """What an agent is made of."""

    models: tuple[ChatModel, ...]
    fallback_on: tuple[type[Exception], ...]
    tools: ToolsNode
    return_directly: frozenset[str]
    system_prompt: SystemPrompt | None
    rewriter: HistoryFunction | None
    modifier: HistoryFunction | None
    checker: ToolCallChecker | None
    limits: Limits
    output: Output[Any] | None
    name: str


def build_graph(parts: Parts) -> Graph[list[Message], Message]:
    """Join model, tools and what decides between them."""
    output = parts.output
    model = AgentModel(parts.models, parts.tools.infos, parts.fallback_on)
    prompt = "" if output is None else output.prompt
    before = BeforeModel(parts.system_prompt, prompt, parts.rewriter, parts.modifier, parts.limits)
    direct = DirectReturn(parts.tools, parts.return_directly)
    steps = 3 * parts.limits.max_rounds + 2  # each round is a model call, its tools or its correction, and one more
    graph = Graph[list[Message], Message](state=AgentState, name=parts.name, max_steps=steps)
    graph.add_node("chat", model, pre=before.prepare)
    graph.add_node(
        "tools", parts.tools if parts.tools.streams else parts.tools.at_once(), pre=parts.limits.before_tools
    )
    graph.add_node("direct_return", Lambda(invoke=direct.give, transform=direct.give_chunks))
    graph.add_edge(START, "chat")
    graph.add_branch("chat", _decision(parts), name="decide")
    graph.add_branch("tools", direct.after_tools)
    graph.add_edge("direct_return", END)
    if output is not None:
        graph.add_node("correct", output.correct)
        graph.add_edge("correct", "chat")
    return graph


def _decision(parts: Parts) -> Any:
    if parts.output is not None:
        return parts.output.decide
    if parts.checker is not None:
        return deciding_by(parts.checker)
    first = all(getattr(model, "tool_calls_first", False) is True for model in parts.models)
    return Lambda(invoke=decide_whole, collect=decide_at_first if first else decide)
