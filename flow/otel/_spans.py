"""Spans of a run, made of its events.

Parents are found by path: the innermost open span around a path is its parent, whatever task or context an event comes
from. Spans begin and end in whatever context the event comes in, so a context is never detached by a token; who leaves
puts the one around it back, if its own is still the current one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from opentelemetry._logs import LoggerProvider
from opentelemetry.context import Context, attach, get_current
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, Status, StatusCode, TracerProvider, get_tracer, set_span_in_context
from opentelemetry.util.genai.handler import TelemetryHandler  # pyright: ignore[reportMissingTypeStubs]
from opentelemetry.util.genai.invocation import (  # pyright: ignore[reportMissingTypeStubs]
    GenAIInvocation,
    InferenceInvocation,
    ToolInvocation,
)

from ... import __version__
from ...compose import (
    Event,
    InterruptAnswered,
    InterruptRequested,
    MessageDelta,
    NodeEnded,
    NodeFailed,
    NodeStarted,
    RunEnded,
    RunFailed,
    RunInfo,
    RunPaused,
    RunStarted,
    ToolEnded,
    ToolFailed,
    ToolStarted,
)
from ...schema import Message
from .._watched import asked_model, model_name
from ._content import input_messages, output_messages, plain_value

SCOPE = "anabranch"
Attributes = dict[str, Any]


@dataclass(eq=False)
class Open:
    """A span that has begun; an invocation is what the conventions' library makes it of."""

    kind: str
    attempt: int
    span: Span
    context: Context
    around: Context
    invocation: GenAIInvocation | None

    def end(self, error: BaseException | None, attributes: Attributes) -> None:
        """End it."""
        if get_current() is self.context:
            attach(self.around)
        invocation = self.invocation
        if invocation is None:
            self.span.set_attributes(attributes)
            if error is not None:
                self.span.set_attribute("error.type", _type_of(error))
                self.span.set_status(Status(StatusCode.ERROR, str(error)))
            self.span.end()
            return
        invocation.attributes.update(attributes)
        if error is None:
            invocation.stop()
        else:
            invocation.fail(error)


class Spans:
    """The open spans of all runs."""

    def __init__(
        self, tracers: TracerProvider | None, meters: MeterProvider | None, loggers: LoggerProvider | None
    ) -> None:
        self._tracer = get_tracer(SCOPE, __version__, tracers)
        self._handler = TelemetryHandler(
            tracer_provider=tracers,
            meter_provider=meters,
            logger_provider=loggers,
            instrumentation_scope_name=SCOPE,
            instrumentation_scope_version=__version__,
        )
        self._captures = self._handler.should_capture_content()
        self._runs: dict[str, dict[str, list[Open]]] = {}
        """By the id of the run and by path; the innermost last."""

    def add(self, info: RunInfo, event: Event) -> None:
        """Begin or end a span, or note something on one."""
        match event:
            case RunStarted() | NodeStarted() | ToolStarted():
                self._begin(info, event)
            case RunPaused():
                self.stop(event.run, "", "paused")
            case RunEnded() | RunFailed() | NodeEnded() | NodeFailed() | ToolEnded() | ToolFailed():
                self._end(event)
            case _:
                self._note(event)

    def stop(self, run: str, path: str, reason: str) -> None:
        """End what ends before its end: no error, and no success."""
        opened = self._find(run, path, None)
        if opened is not None:
            self._over(run, path, opened, None, {"anabranch.stopped": reason}, reason)

    # -- begin -------------------------------------------------------------------------------------------------

    def _begin(self, info: RunInfo, event: RunStarted | NodeStarted | ToolStarted) -> None:
        path = _path(event)
        around = self._around(event.run, path, itself=isinstance(event, RunStarted))
        match event:
            case ToolStarted():
                made: GenAIInvocation | Span = self._tool(event, around)
            case NodeStarted(component="model"):
                made = self._model(info, event, around)
            case NodeStarted():
                made = self._tracer.start_span(f"node {info.name}", context=around)
            case _:
                made = self._graph(info, around)
        attributes = _about(info, path)
        if isinstance(made, GenAIInvocation):
            made.suspend()
            made.attributes.update(attributes)
            opened = Open(_kind(event), event.attempt, made.span, made.context, around, made)
        else:
            made.set_attributes(attributes)
            opened = Open(_kind(event), event.attempt, made, set_span_in_context(made, around), around, None)
        self._runs.setdefault(event.run, {}).setdefault(path, []).append(opened)
        if not isinstance(event, RunStarted):
            attach(opened.context)  # the context is the node's or the call's own

    def _graph(self, info: RunInfo, around: Context) -> GenAIInvocation:
        from ..react import AgentState

        if getattr(info.target, "state", None) is AgentState:
            return self._handler.invoke_local_agent(agent_name=info.name, context=around)
        return self._handler.workflow(info.name, context=around)

    def _model(self, info: RunInfo, event: NodeStarted, around: Context) -> GenAIInvocation:
        asked = asked_model(info)
        provider = getattr(asked, "provider", None) or type(asked).__name__
        made = self._handler.inference(provider, request_model=model_name(info), context=around)
        if self._captures:
            made.input_messages = input_messages(event.input)
        return made

    def _tool(self, event: ToolStarted, around: Context) -> GenAIInvocation:
        made = self._handler.tool(event.tool, tool_type="function", context=around)
        made.tool_call_id = event.call_id
        if self._captures:
            made.arguments = plain_value(event.arguments)
        return made

    # -- end ---------------------------------------------------------------------------------------------------

    def _end(self, event: Event) -> None:
        path = _path(event)
        opened = self._find(event.run, path, _kind(event), event.attempt)
        if opened is None:
            return
        error: BaseException | None = None
        attributes: Attributes = {}
        match event:
            case NodeEnded(output=Message() as message) if isinstance(opened.invocation, InferenceInvocation):
                self._answered(opened.invocation, message)
            case ToolEnded(result=result) if self._captures and isinstance(opened.invocation, ToolInvocation):
                opened.invocation.tool_result = plain_value(result)
            case NodeFailed(will_retry=will_retry):
                error = event.error
                attributes = {"anabranch.will_retry": True} if will_retry else {}
            case RunFailed() | ToolFailed():
                error = event.error
            case _:
                pass
        self._over(event.run, path, opened, error, attributes, "cancelled")

    def _answered(self, invocation: InferenceInvocation, message: Message) -> None:
        model, id = message.extra.get("model"), message.extra.get("id")
        invocation.response_model_name = model if isinstance(model, str) else None
        invocation.response_id = id if isinstance(id, str) else None
        if message.finish_reason is not None:
            invocation.finish_reasons = [message.finish_reason]
        usage = message.usage
        if usage is not None:
            invocation.input_tokens = usage.input_tokens
            invocation.output_tokens = usage.output_tokens
            invocation.cache_read_input_tokens = usage.cached_tokens or None
            invocation.cache_write_input_tokens = usage.cache_write_tokens or None
            invocation.thinking_tokens = usage.reasoning_tokens or None
        if self._captures:
            invocation.output_messages = output_messages(message)

    def _over(
        self, run: str, path: str, opened: Open, error: BaseException | None, attributes: Attributes, reason: str
    ) -> None:
        """End a span, and before it what is still open inside it."""
        spans = self._runs.get(run, {})
        inside = f"{path}/" if path else ""
        for other in [p for p in reversed(spans) if p != path and p.startswith(inside)]:
            for left in reversed(spans.pop(other)):
                left.end(None, {"anabranch.stopped": reason})
        opened.end(error, attributes)
        spans[path].remove(opened)
        if not spans[path]:
            del spans[path]
        if not spans:
            self._runs.pop(run, None)

    # -- between -----------------------------------------------------------------------------------------------

    def _note(self, event: Event) -> None:
        opened = self._find(event.run, event.path, None)
        if opened is None:
            return
        match event:
            case MessageDelta() if isinstance(opened.invocation, InferenceInvocation):
                opened.invocation.record_stream_chunk()
            case InterruptRequested(interrupt=question):
                opened.span.add_event("anabranch.interrupt.requested", {"anabranch.interrupt.id": question.id})
            case InterruptAnswered(interrupt=question):
                opened.span.add_event("anabranch.interrupt.answered", {"anabranch.interrupt.id": question.id})
            case _:
                pass

    def _find(self, run: str, path: str, kind: str | None, attempt: int | None = None) -> Open | None:
        found = self._runs.get(run, {}).get(path, [])
        return next((o for o in found if kind in (None, o.kind) and attempt in (None, o.attempt)), None)

    def _around(self, run: str, path: str, *, itself: bool) -> Context:
        """Give the context of what is around a path; a graph may stand for a tool call with its very path."""
        spans = self._runs.get(run, {})
        for place in ([path] if itself else []) + list(_above(path)):
            if spans.get(place):
                return spans[place][-1].context
        return get_current()


def _path(event: Event) -> str:
    match event:
        case ToolStarted() | ToolEnded() | ToolFailed():
            return f"{event.path}/{event.position}"
        case _:
            return event.path


def _kind(event: Event) -> str:
    match event:
        case ToolStarted() | ToolEnded() | ToolFailed():
            return "tool"
        case RunStarted() | RunEnded() | RunFailed():
            return "graph"
        case _:
            return "node"


def _above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


def _about(info: RunInfo, path: str) -> Attributes:
    attributes: Attributes = {
        "anabranch.run.id": info.run,
        "anabranch.path": path,
        "anabranch.component": info.component,
    }
    if info.attempt > 1:
        attributes["anabranch.attempt"] = info.attempt
    if info.tags:
        attributes["anabranch.tags"] = list(info.tags)
    simple = {name: value for name, value in info.metadata.items() if isinstance(value, str | bool | int | float)}
    return attributes | {f"anabranch.metadata.{name}": value for name, value in simple.items()}


def _type_of(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
