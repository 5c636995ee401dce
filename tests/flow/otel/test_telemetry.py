from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, get_current_span

from anabranch.compose import (
    END,
    START,
    Graph,
    Interrupted,
    Map,
    MemoryStore,
    NodeError,
    RunOptions,
    graph_tool,
    interrupt,
)
from anabranch.compose.testing import ScriptedModel
from anabranch.flow import ReactAgent
from anabranch.flow.otel import Telemetry
from anabranch.schema import NO_OPTIONS, Message, ModelOptions, ToolCall, Usage, tool

pytestmark = pytest.mark.anyio
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Recorder:
    """Spans as a test wants to see them."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.metrics = InMemoryMetricReader()
        self.meters = MeterProvider(metric_readers=[self.metrics], shutdown_on_exit=False)

    def options(self, **more: Any) -> RunOptions:
        telemetry = Telemetry(tracer_provider=self.provider, meter_provider=self.meters)
        return RunOptions(callbacks=[telemetry], **more)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def tree(self) -> list[tuple[str, str]]:
        """Give each span, by its end, and the one around it."""
        names = {span.context.span_id: span.name for span in self.spans if span.context is not None}
        return [(s.name, names[s.parent.span_id] if s.parent is not None else "") for s in self.spans]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    monkeypatch.delenv(CAPTURE, raising=False)
    made = Recorder()
    yield made
    made.provider.shutdown()
    made.meters.shutdown()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


class Model:
    """Answers by script, and says who it is, as an adapter does."""

    model, provider = "big", "acme"

    def __init__(self, answers: list[Any]) -> None:
        self._scripted = ScriptedModel(answers)

    async def generate(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS) -> Message:
        return await self._scripted.generate(messages, options)

    async def stream(self, messages: Sequence[Message], options: ModelOptions = NO_OPTIONS) -> AsyncIterator[Message]:
        async for chunk in self._scripted.stream(messages, options):
            yield chunk

    def with_tools(self, tools: object, choice: object = "auto") -> Model:
        return self


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    with_span = get_current_span()
    assert with_span.is_recording(), "a tool runs with its span as the current one"
    return a + b


def agent() -> ReactAgent[Any]:
    usage = Usage(input_tokens=10, output_tokens=2, cached_tokens=4)
    calls = [ToolCall(id=f"c{n}", name="add", arguments=f'{{"a": {n}, "b": 3}}') for n in (1, 2)]
    first = Message.assistant(tool_calls=calls, usage=usage, finish_reason="tool_calls", extra={"model": "big-1"})
    last = Message.assistant("Done.", usage=usage, finish_reason="stop")
    return ReactAgent(Model([first, last]), tools=[add], name="sums")


AGENT = [
    ("chat big", "invoke_agent sums"),
    ("execute_tool add", "node tools"),
    ("execute_tool add", "node tools"),
    ("node tools", "invoke_agent sums"),
    ("chat big", "invoke_agent sums"),
    ("invoke_agent sums", ""),
]


async def test_an_agents_run_has_a_span_for_each_part_below_the_right_one(recorder: Recorder) -> None:
    await agent().generate("1 + 3? 2 + 3?", recorder.options(tags=["t"], metadata={"user": 7, "more": []}))
    assert recorder.tree() == AGENT
    chat, call, whole = recorder.spans[0], recorder.spans[1], recorder.spans[-1]
    found = attributes(chat)
    assert {key: value for key, value in found.items() if key.startswith("gen_ai")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "acme",
        "gen_ai.request.model": "big",
        "gen_ai.response.model": "big-1",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.usage.cache_read.input_tokens": 4,
    }
    assert found["anabranch.path"] == "chat"
    assert found["anabranch.component"] == "model"
    assert found["anabranch.tags"] == ("t",)
    assert found["anabranch.metadata.user"] == 7
    assert attributes(call)["gen_ai.tool.call.id"] in ("c1", "c2")
    assert attributes(whole)["gen_ai.agent.name"] == "sums"


async def test_a_stream_run_has_the_same_spans_and_knows_its_first_chunk(recorder: Recorder) -> None:
    async with agent().stream("1 + 3? 2 + 3?", recorder.options()) as reader:
        assert "".join([chunk.text async for chunk in reader]) == "Done."
    assert sorted(recorder.tree()) == sorted(AGENT)
    assert "gen_ai.response.time_to_first_chunk" in attributes(recorder.spans[0])


async def test_content_is_recorded_only_where_the_environment_asks_for_it(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await agent().generate("a secret", recorder.options())
    assert not any("secret" in str(span.attributes) or "Done." in str(span.attributes) for span in recorder.spans)
    assert not any("gen_ai.tool.call.arguments" in attributes(span) for span in recorder.spans)
    recorder.exporter.clear()
    monkeypatch.setenv(CAPTURE, "SPAN_ONLY")
    await agent().generate("a secret", recorder.options())
    last = attributes(recorder.spans[-2])
    (call,) = [found for span in recorder.spans if (found := attributes(span)).get("gen_ai.tool.call.id") == "c1"]
    asked = json.loads(last["gen_ai.input.messages"])
    assert [message["role"] for message in asked] == ["user", "assistant", "tool", "tool"]
    assert asked[0]["parts"][0]["content"] == "a secret"
    assert "Done." in last["gen_ai.output.messages"]
    assert json.loads(call["gen_ai.tool.call.arguments"]) == {"a": 1, "b": 3}
    assert call["gen_ai.tool.call.result"] in (4, "4")


async def test_parallel_nested_and_mapped_nodes_hang_below_the_right_spans(recorder: Recorder) -> None:
    async def half(number: int) -> int:
        await anyio.lowlevel.checkpoint()
        with recorder.provider.get_tracer("mine").start_as_current_span(f"mine {number}"):
            return number // 2

    inner = Graph[list[int], list[int]](name="inner")
    inner.add_edge(START, inner.add_node("each", Map(half)))
    inner.add_edge("each", END)
    graph = Graph[list[int], dict[str, Any]](name="outer")
    for key in ("a", "b"):
        graph.add_edge(START, graph.add_node(key, inner, output_key=key))
        graph.add_edge(key, END)
    await graph.compile(trigger="all").invoke([1, 2], recorder.options())
    paths = {span.context.span_id: attributes(span).get("anabranch.path") for span in recorder.spans if span.context}
    parents = {
        attributes(span).get("anabranch.path", span.name): paths[span.parent.span_id]
        for span in recorder.spans
        if span.parent is not None
    }
    assert parents == {
        "a": "", "b": "", "a/each": "a", "b/each": "b",
        "a/each/0": "a/each", "a/each/1": "a/each", "b/each/0": "b/each", "b/each/1": "b/each",
        "mine 1": parents["mine 1"], "mine 2": parents["mine 2"],
    }  # fmt: skip
    assert (parents["mine 1"] or "")[1:] == "/each/0"
    assert (parents["mine 2"] or "")[1:] == "/each/1"


async def test_a_graph_that_is_a_tool_and_one_that_a_node_runs_are_below_what_ran_them(recorder: Recorder) -> None:
    inner = Graph[str, str](name="inner")
    inner.add_edge(START, inner.add_node("shout", str.upper, input=str, output=str))
    inner.add_edge("shout", END)
    loud = graph_tool(inner.compile(), "loud", "Say it loudly.")
    call = ToolCall(id="c1", name="loud", arguments='{"input": "x"}')
    models = Model([Message.assistant(tool_calls=[call]), "done"])
    telling = ReactAgent(models, tools=[loud])

    async def ask(text: str) -> str:
        return (await telling.generate(text, options)).text

    graph = Graph[str, str](name="outer")
    graph.add_edge(START, graph.add_node("ask", ask))
    graph.add_edge("ask", END)
    options = recorder.options()
    await graph.compile().invoke("x", options)
    assert recorder.tree() == [
        ("chat big", "invoke_agent agent"),
        ("node shout", "invoke_workflow inner"),
        ("invoke_workflow inner", "execute_tool loud"),
        ("execute_tool loud", "node tools"),
        ("node tools", "invoke_agent agent"),
        ("chat big", "invoke_agent agent"),
        ("invoke_agent agent", "node ask"),
        ("node ask", "invoke_workflow outer"),
        ("invoke_workflow outer", ""),
    ]


def line(node: Any, **options: Any) -> Graph[str, str]:
    graph = Graph[str, str](name="line")
    graph.add_node("work", node, **options)
    graph.add_edge(START, "work")
    graph.add_edge("work", END)
    return graph


async def test_an_error_is_on_the_span_of_its_node_and_on_those_around(recorder: Recorder) -> None:
    left = [OSError("net"), ValueError("no")]

    async def work(text: str) -> str:
        raise left.pop(0)

    with pytest.raises(NodeError):
        await line(work, retries=1).compile().invoke("x", recorder.options())
    first, second, whole = recorder.spans
    assert attributes(first)["error.type"] == "OSError"
    assert attributes(first)["anabranch.will_retry"] is True
    assert attributes(second)["anabranch.attempt"] == 2
    assert (second.status.status_code, second.status.description) == (StatusCode.ERROR, "no")
    assert attributes(whole)["error.type"].endswith("NodeError")


async def test_a_pause_ends_the_spans_without_an_error(recorder: Recorder) -> None:
    async def ask(text: str) -> str:
        return await interrupt(text, answer=str)

    app = line(ask).compile(store=MemoryStore())
    with pytest.raises(Interrupted):
        await app.invoke("x", recorder.options(), run="r1")
    assert await app.resume("r1", answer="y", options=recorder.options()) == "y"
    assert [attributes(span).get("anabranch.stopped") for span in recorder.spans] == ["paused", "paused", None, None]
    assert {attributes(span)["anabranch.run.id"] for span in recorder.spans} == {"r1"}
    assert [event.name for event in recorder.spans[0].events] == ["anabranch.interrupt.requested"]


async def test_no_span_stays_open_when_a_stream_is_left_or_a_run_cancelled(recorder: Recorder) -> None:
    async def words(text: str) -> AsyncIterator[str]:
        yield text
        yield text

    async def forever(text: str) -> str:
        scope.cancel()
        await anyio.sleep_forever()
        return text

    async with line(words).compile().stream("x", recorder.options()) as reader:
        await anext(reader)
    with anyio.CancelScope() as scope:
        await line(forever).compile().invoke("x", recorder.options())
    stopped = [attributes(span).get("anabranch.stopped") for span in recorder.spans]
    assert stopped == ["closed", "closed", "cancelled", "cancelled"]


async def test_the_callers_span_is_around_and_is_still_the_current_one_afterwards(recorder: Recorder) -> None:
    tracer = recorder.provider.get_tracer("mine")
    with tracer.start_as_current_span("mine") as mine:
        await line(str.upper, input=str, output=str).compile().invoke("x", recorder.options())
        assert get_current_span() is mine
        async with agent().stream("x", recorder.options()) as reader:
            assert get_current_span() is mine
            async for _ in reader:
                pass
        assert get_current_span() is mine
    assert ("invoke_workflow line", "mine") in recorder.tree()
    assert ("invoke_agent sums", "mine") in recorder.tree()


async def test_metrics_of_the_conventions_are_counted(recorder: Recorder) -> None:
    await agent().generate("x", recorder.options())
    data = recorder.metrics.get_metrics_data()
    assert data is not None
    names = {m.name for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"} <= names


async def test_runs_at_the_same_time_do_not_mix(recorder: Recorder) -> None:
    options = recorder.options()
    app = line(str.upper, input=str, output=str).compile()
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(app.invoke, "x", options)
    assert sorted(set(recorder.tree())) == [("invoke_workflow line", ""), ("node work", "invoke_workflow line")]
    traces = {span.context.trace_id for span in recorder.spans if span.context}
    assert len(traces) == 20


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from anabranch.schema import MissingExtraError

    monkeypatch.setitem(sys.modules, "anabranch.flow.otel._spans", None)
    with pytest.raises(MissingExtraError, match=r"anabranch\[otel\]"):
        Telemetry()
