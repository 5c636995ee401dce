"""The data and the streams: messages, concatenation, streams, tools' descriptions, templates, documents.

Everything public is here; modules whose names begin with an underscore are not for import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import lazy_exports

if TYPE_CHECKING:
    from ._components import (
        NO_OPTIONS,
        ChatModel,
        Embedder,
        Indexer,
        Loader,
        ModelOptions,
        NamedTool,
        Retriever,
        RetrieverOptions,
        Tool,
        ToolChoice,
        Transformer,
    )
    from ._concat import (
        ConcatRegistry,
        concat,
        default_registry,
    )
    from ._concat_policy import (
        Append,
        First,
        Join,
        Last,
        Max,
        Merge,
        Min,
        Policy,
        Sum,
    )
    from ._document import (
        Document,
    )
    from ._history import (
        HistoryProblem,
        HistoryProblemKind,
        check_history,
        repair_history,
        require_valid_history,
    )
    from ._message import (
        Content,
        Message,
        Role,
        ToolCall,
    )
    from ._parser import (
        MessageParser,
    )
    from ._parts import (
        AudioPart,
        FilePart,
        ImagePart,
        MediaPart,
        Part,
        ProviderPart,
        ReasoningPart,
        ResultPart,
        TextPart,
        ToolResultPart,
        VideoPart,
    )
    from ._pipe import (
        Pipe,
        StreamWriter,
        pipe,
    )
    from ._repair import (
        repair_tool_calls,
    )
    from ._stream import (
        StreamReader,
        merge,
    )
    from ._stream_merge import (
        SourceEnd,
    )
    from ._stream_scope import (
        StreamScope,
        stream_scope,
    )
    from ._stream_source import (
        NO_VALUE,
        NoValue,
    )
    from ._template import (
        ChatTemplate,
        Placeholder,
        TemplateFormat,
    )
    from ._tool import (
        FunctionTool,
        Risk,
        ToolInfo,
        ToolOutput,
        ToolResult,
        tool,
        tool_text,
    )
    from ._usage import (
        Usage,
        UsageMode,
        total_usage,
    )
    from .errors import (
        AnabranchError,
        ConcatError,
        DocumentError,
        EmptyStreamError,
        HistoryError,
        MessageError,
        MissingExtraError,
        ParseError,
        StreamError,
        TemplateError,
        ToolArgumentsError,
        ToolDefinitionError,
        ToolResultError,
    )

__all__ = (
    "NO_OPTIONS",
    "NO_VALUE",
    "AnabranchError",
    "Append",
    "AudioPart",
    "ChatModel",
    "ChatTemplate",
    "ConcatError",
    "ConcatRegistry",
    "Content",
    "Document",
    "DocumentError",
    "Embedder",
    "EmptyStreamError",
    "FilePart",
    "First",
    "FunctionTool",
    "HistoryError",
    "HistoryProblem",
    "HistoryProblemKind",
    "ImagePart",
    "Indexer",
    "Join",
    "Last",
    "Loader",
    "Max",
    "MediaPart",
    "Merge",
    "Message",
    "MessageError",
    "MessageParser",
    "Min",
    "MissingExtraError",
    "ModelOptions",
    "NamedTool",
    "NoValue",
    "ParseError",
    "Part",
    "Pipe",
    "Placeholder",
    "Policy",
    "ProviderPart",
    "ReasoningPart",
    "ResultPart",
    "Retriever",
    "RetrieverOptions",
    "Risk",
    "Role",
    "SourceEnd",
    "StreamError",
    "StreamReader",
    "StreamScope",
    "StreamWriter",
    "Sum",
    "TemplateError",
    "TemplateFormat",
    "TextPart",
    "Tool",
    "ToolArgumentsError",
    "ToolCall",
    "ToolChoice",
    "ToolDefinitionError",
    "ToolInfo",
    "ToolOutput",
    "ToolResult",
    "ToolResultError",
    "ToolResultPart",
    "Transformer",
    "Usage",
    "UsageMode",
    "VideoPart",
    "check_history",
    "concat",
    "default_registry",
    "merge",
    "pipe",
    "repair_history",
    "repair_tool_calls",
    "require_valid_history",
    "stream_scope",
    "tool",
    "tool_text",
    "total_usage",
)

if not TYPE_CHECKING:  # a checker would take any name for one that is exported
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_components": (
                "ChatModel",
                "Embedder",
                "Indexer",
                "Loader",
                "ModelOptions",
                "NO_OPTIONS",
                "NamedTool",
                "Retriever",
                "RetrieverOptions",
                "Tool",
                "ToolChoice",
                "Transformer",
            ),
            "_concat": (
                "ConcatRegistry",
                "concat",
                "default_registry",
            ),
            "_concat_policy": (
                "Append",
                "First",
                "Join",
                "Last",
                "Max",
                "Merge",
                "Min",
                "Policy",
                "Sum",
            ),
            "_document": ("Document",),
            "_history": (
                "HistoryProblem",
                "HistoryProblemKind",
                "check_history",
                "repair_history",
                "require_valid_history",
            ),
            "_message": (
                "Content",
                "Message",
                "Role",
                "ToolCall",
            ),
            "_parser": ("MessageParser",),
            "_parts": (
                "AudioPart",
                "FilePart",
                "ImagePart",
                "MediaPart",
                "Part",
                "ProviderPart",
                "ReasoningPart",
                "ResultPart",
                "TextPart",
                "ToolResultPart",
                "VideoPart",
            ),
            "_pipe": (
                "Pipe",
                "StreamWriter",
                "pipe",
            ),
            "_repair": ("repair_tool_calls",),
            "_stream": (
                "StreamReader",
                "merge",
            ),
            "_stream_merge": ("SourceEnd",),
            "_stream_scope": (
                "StreamScope",
                "stream_scope",
            ),
            "_stream_source": (
                "NO_VALUE",
                "NoValue",
            ),
            "_template": (
                "ChatTemplate",
                "Placeholder",
                "TemplateFormat",
            ),
            "_tool": (
                "FunctionTool",
                "Risk",
                "ToolInfo",
                "ToolOutput",
                "ToolResult",
                "tool",
                "tool_text",
            ),
            "_usage": (
                "Usage",
                "UsageMode",
                "total_usage",
            ),
            "errors": (
                "AnabranchError",
                "ConcatError",
                "DocumentError",
                "EmptyStreamError",
                "HistoryError",
                "MessageError",
                "MissingExtraError",
                "ParseError",
                "StreamError",
                "TemplateError",
                "ToolArgumentsError",
                "ToolDefinitionError",
                "ToolResultError",
            ),
        },
    )
