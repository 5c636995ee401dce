"""``Telemetry``: the callback handler that makes spans of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compose import Event, RunInfo
from ...schema.errors import MissingExtraError

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


class Telemetry:
    """Makes a span of every run, nested graph, node, model call and tool call, each below the one it belongs to.

    Names and attributes are those of OpenTelemetry's conventions for generative AI: ``invoke_workflow NAME`` for a
    graph, ``invoke_agent NAME`` for an agent, ``chat MODEL`` for a call of a model with its tokens, ``execute_tool
    NAME`` for a call of a tool, and their metrics. For other nodes there is no convention: their spans are named
    ``node KEY``. All have ``anabranch.run.id``, ``anabranch.path`` and ``anabranch.component``, further attempts
    ``anabranch.attempt``, tags and simple metadata of the run ``anabranch.tags`` and ``anabranch.metadata.NAME``.

    A node runs with its span as the current one, so that spans of one's own, and those of instrumented clients, come
    below it. One handler may watch any number of runs at once, with asyncio and with trio.

    What was said to models and tools, and what they answered, is recorded only where the environment asks for it:
    ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY``. It is read when the handler is made.

    Args:
        tracer_provider: Where the spans go; the global one by default.
        meter_provider: Where the metrics go.
        logger_provider: Where the events of the conventions go, if the environment asks for them.

    Raises:
        MissingExtraError: If OpenTelemetry is not installed.

    Example:
        >>> from anabranch.compose import END, START, Graph, RunOptions
        >>> from opentelemetry.sdk.trace import TracerProvider
        >>> from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        >>> from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        >>> exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
        >>> provider.add_span_processor(SimpleSpanProcessor(exporter))
        >>> graph = Graph[str, str](name="loud")
        >>> graph.add_edge(START, graph.add_node("shout", str.upper, input=str, output=str))
        >>> graph.add_edge("shout", END)
        >>> telemetry = Telemetry(tracer_provider=provider)
        >>> graph.compile().invoke_sync("tides", RunOptions(callbacks=[telemetry]))
        'TIDES'
        >>> [span.name for span in exporter.get_finished_spans()]
        ['node shout', 'invoke_workflow loud']
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
    ) -> None:
        try:
            from ._spans import Spans
        except ImportError as error:
            raise MissingExtraError("opentelemetry-util-genai", "otel") from error
        self._spans = Spans(tracer_provider, meter_provider, logger_provider)

    def on_event(self, info: RunInfo, event: Event) -> None:
        """Begin or end spans; called by the run.

        Args:
            info: Where the event comes from.
            event: What happened.
        """
        self._spans.add(info, event)

    def on_stop(self, info: RunInfo, reason: str) -> None:
        """End the span of what ends before its end; called by the run.

        Args:
            info: What ended.
            reason: Why; recorded as ``anabranch.stopped``.
        """
        self._spans.stop(info.run, info.path, reason)
