"""Components as nodes: a class that has the methods of a protocol of :mod:`anabranch.schema` is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import FunctionType
from typing import Any

from ..schema import Document, Message, ModelOptions, RetrieverOptions
from ._body import Body


@dataclass(frozen=True, slots=True)
class Kind:
    """How one protocol becomes a node."""

    component: str
    method: str
    input: Any
    output: Any
    options: Any = None


_KINDS = (
    Kind("retriever", "retrieve", str, list[Document], RetrieverOptions),
    Kind("embedder", "embed", Sequence[str], list[list[float]]),
    Kind("indexer", "store", Sequence[Document], list[str]),
    Kind("loader", "load", str, list[Document]),
    Kind("transformer", "transform", Sequence[Document], list[Document]),
)


def component_body(what: Any) -> Body | None:
    """Make the body of a node from a component, or give None for what is none."""
    return None if isinstance(what, (FunctionType, type, str)) else _component_body(what)


def _component_body(what: Any) -> Body | None:
    if hasattr(what, "with_tools") or (hasattr(what, "generate") and not callable(what)):
        return model_body(what)
    if hasattr(what, "info") and hasattr(what, "run"):
        return _tool_body(what)
    if hasattr(what, "variables") and hasattr(what, "format"):
        return _template_body(what)
    for kind in _KINDS:
        if hasattr(what, kind.method):
            return _with_options(kind, what)
    return None


def _tool_body(tool: Any) -> Body:
    return Body(Mapping[str, Any], Any, "tool", str(tool.info.name), invoke=tool.run, target=tool)


def _template_body(template: Any) -> Body:
    invoke = template.format
    return Body(Mapping[str, Any], list[Message], "template", _name(template), invoke=invoke, target=template)


def _name(what: Any) -> str:
    return str(getattr(what, "name", None) or type(what).__name__)


def _with_options(kind: Kind, what: Any) -> Body:
    method = getattr(what, kind.method)
    body = Body(kind.input, kind.output, kind.component, _name(what), invoke=method, target=what)
    if kind.options is None:
        return body

    def bind(options: Any) -> Body:
        return replace(body, invoke=partial(_call, method, options))

    return replace(body, options=kind.options, bind=bind)


def model_body(model: Any) -> Body:
    """Make the body of a chat model; it may have ``generate``, ``stream``, or both."""
    generate: Callable[..., Any] | None = getattr(model, "generate", None)
    stream: Callable[..., Any] | None = getattr(model, "stream", None)
    body = Body(
        Sequence[Message],
        Message,
        "model",
        _name(model),
        invoke=generate,
        stream=stream,
        options=ModelOptions,
        target=model,
    )

    def bind(options: Any) -> Body:
        return replace(
            body,
            invoke=None if generate is None else partial(_call, generate, options),
            stream=None if stream is None else partial(_call, stream, options),
        )

    return replace(body, bind=bind)


def _call(method: Callable[..., Any], options: Any, value: Any) -> Any:
    return method(value, options)
