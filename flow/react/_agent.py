"""``ReactAgent``: a model that calls tools until it has an answer, as a graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import TypeForm, TypeVar, Unpack

from ...compose import AnyMiddleware, ToolsNode, graph_tool
from ...schema import ChatModel, Tool
from ._build import Parts, build_graph
from ._decide import ToolCallChecker
from ._direct import names_of
from ._output import Output, OutputMode
from ._prompt import HistoryFunction, Limits, SystemPrompt
from ._runs import AgentKeepOptions, AgentRuns
from ._threads import Threads

if TYPE_CHECKING:
    from ...compose import Graph, Runnable
    from ...compose._body import Body
    from ...compose._compile_keep import KeepOptions
    from ...schema import Message

OutputT = TypeVar("OutputT", default=Any)


class ReactAgent(Threads[OutputT]):
    """A model that reasons and acts: it calls tools, sees their results, and goes on until it has an answer.

    It is a graph with the nodes ``chat``, ``tools`` and ``direct_return``; its state is the history. What a tool does
    wrong is told to the model. Messages and settings that it is given are never changed.

    Args:
        model: The chat model. One that promises ``tool_calls_first = True`` is judged by its first chunk, so that its
            answers stream at once; of any other an answer is known as such at its end.
        tools: The tools, or a :class:`~anabranch.compose.ToolsNode` where more is to be said about them.
        system_prompt: What goes in front of the history that the model sees, unless that begins with a system message:
            a text, a message, or a function (sync or async) that makes one of the history.
        max_rounds: How often the model may be asked in one run.
        message_modifier: Changes what the model sees, for each call anew: gets a copy of the history, gives messages.
        message_rewriter: Changes the history itself before each model call, for example to shorten it.
        return_directly: Names of tools whose result is the answer, if they succeed.
        tool_call_checker: Decides, from a copy of the model's stream, whether there are tool calls to run.
        middlewares: Stand around every tool call, the first one outermost.
        fallback: A model, or several, to ask when the model fails before any of its answer is out. Reasoning counts
            as answer; what only tells of usage does not.
        fallback_on: After which errors.
        max_tool_calls: How many tool calls one run may make, not counting those that give a typed answer.
        max_tokens: How many tokens the model may take in one run; noticed before the next model call.
        output: What the answer has to be: a pydantic model, a dataclass, any type that pydantic knows. The model is
            told what is wrong with an answer that does not fit.
        output_mode: Whether the model gives such an answer as the arguments of a tool, ``final_answer`` (``"tool"``),
            or as JSON in its text, because it is told to (``"text"``) or because its provider holds it to the schema
            (``"schema"``: the model has ``with_output``).
        output_retries: How often the model is told so about a text.
        name: What drawings, callbacks and errors call the agent.
        **keep: How runs are kept. ``store`` is where: a run can pause then and go on in another process, and
            ``thread=`` names conversations. ``durability``, ``interrupt_before``, ``interrupt_after``,
            ``expire_after``, ``redact``, ``migrate`` and ``answers`` are those of
            :meth:`Graph.compile <anabranch.compose.Graph.compile>`. ``busy`` says what a turn does while another turn
            of its conversation is under way: ``"conflict"`` (an error, the default) or ``"queue"`` (it waits).
            ``waiting`` says what a new message does while the last turn has not ended, because it waits for an
            answer, has failed or was cut off: ``"reject"`` (an error, the default), ``"cancel"`` (that turn is given
            up, and its open calls are answered as cancelled) or ``"queue"`` (the message is kept, and is the next
            turn).

    Raises:
        ValueError: A limit is not positive, or a name in ``return_directly`` is no tool's.
        ToolDefinitionError: Something among the tools is none, or two have the same name.
        TypeError: ``None`` stands where a model should.

    Example:
        >>> from anabranch.compose.testing import ScriptedModel
        >>> from anabranch.schema import ToolCall, tool
        >>> @tool
        ... async def add(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> calls = Message.assistant(tool_calls=[ToolCall(id="c1", name="add", arguments='{"a": 2, "b": 3}')])
        >>> agent = ReactAgent(ScriptedModel([calls, "It is 5."]), tools=[add])
        >>> (await agent.generate("What is 2 + 3?")).text
        'It is 5.'
    """

    def __init__(  # noqa: PLR0913  (one for each thing that can be set)
        self,
        model: ChatModel,
        tools: Sequence[Tool] | ToolsNode = (),
        *,
        system_prompt: SystemPrompt | None = None,
        max_rounds: int = 12,
        message_modifier: HistoryFunction | None = None,
        message_rewriter: HistoryFunction | None = None,
        return_directly: Collection[str] = (),
        tool_call_checker: ToolCallChecker | None = None,
        middlewares: Sequence[AnyMiddleware] = (),
        fallback: ChatModel | Sequence[ChatModel] = (),
        fallback_on: tuple[type[Exception], ...] = (Exception,),
        max_tool_calls: int | None = None,
        max_tokens: int | None = None,
        output: TypeForm[OutputT] | None = None,
        output_mode: OutputMode = "tool",
        output_retries: int = 2,
        name: str = "agent",
        **keep: Unpack[AgentKeepOptions],
    ) -> None:
        node = tools if isinstance(tools, ToolsNode) else ToolsNode(tools)
        node = node.with_middlewares(*middlewares) if middlewares else node
        self._output = None if output is None else Output(output, output_mode, output_retries)
        directly = names_of(node, return_directly)
        final = "" if self._output is None or self._output.tool is None else self._output.tool.info.name
        if self._output is not None and self._output.tool is not None:
            node = node.with_tools(self._output.tool)
            directly |= {final}
        models = (model, *(fallback if isinstance(fallback, Sequence) else (fallback,)))
        if None in cast("Sequence[object]", models):
            raise TypeError(f"the agent {name!r} needs a model where None is given; without a fallback, leave it out")
        parts = Parts(
            models=self._bound(models),
            fallback_on=fallback_on,
            tools=node,
            return_directly=directly,
            system_prompt=system_prompt,
            rewriter=message_rewriter,
            modifier=message_modifier,
            checker=tool_call_checker,
            limits=Limits(max_rounds, max_tool_calls, max_tokens, final),
            output=self._output,
            name=name,
        )
        self.name = name
        self.graph: Graph[list[Message], Message] = build_graph(parts)
        """The agent as a graph, to be nested in another."""
        self.runnable: Runnable[list[Message], Message] = self.graph.compile()
        busy, waiting = keep.pop("busy", "conflict"), keep.pop("waiting", "reject")
        kept = self.graph.compile(**cast("KeepOptions", keep)) if keep else self.runnable
        self._runs = AgentRuns(kept, busy, waiting)

    def __repr__(self) -> str:
        return f"<agent {self.name!r}>"

    def as_node(self) -> Body:
        """Give the body of a node that is this agent."""
        return self.runnable.as_node()

    def as_tool(self, name: str, description: str, *, argument: str = "request", timeout: float | None = None) -> Tool:
        """Give this agent to another one as a tool; it is asked in words and knows nothing of the other's history.

        It runs as a part of the other's run: with its events and its context, and streaming where that streams.

        Args:
            name: By what the other's model calls it.
            description: What it can do and when to ask it.
            argument: The name of the argument that holds the request.
            timeout: After how many seconds to give up.

        Returns:
            The tool.
        """
        return graph_tool(self.runnable, name, description, argument=argument, timeout=timeout)

    def _bound(self, models: Sequence[ChatModel]) -> tuple[ChatModel, ...]:
        return tuple(models) if self._output is None else tuple(map(self._output.bound, models))
