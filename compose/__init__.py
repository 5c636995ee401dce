"""The engine: typed graphs over values and streams, checked before they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..schema._lazy import lazy_exports

if TYPE_CHECKING:
    from ._chain import (
        Chain,
        ChainOptions,
    )
    from ._control import (
        RunControl,
    )
    from ._draw import (
        draw_mermaid,
    )
    from ._events import (
        Custom,
        Event,
        InterruptAnswered,
        InterruptRequested,
        MessageDelta,
        NodeChunk,
        NodeEnded,
        NodeFailed,
        NodeStarted,
        RunEnded,
        RunFailed,
        RunPaused,
        RunStarted,
        ToolDelta,
        ToolEnded,
        ToolEvent,
        ToolFailed,
        ToolStarted,
    )
    from ._field_mapping import (
        FieldMapping,
        field,
    )
    from ._graph import (
        Graph,
        Node,
        NodeOptions,
    )
    from ._info import (
        BranchInfo,
        EdgeInfo,
        GraphInfo,
        MappingInfo,
        NodeInfo,
    )
    from ._interrupt import (
        Approval,
        Breakpoint,
        Interrupt,
        interrupt,
    )
    from ._interrupted import (
        Interrupted,
    )
    from ._kept_runs import (
        Checkpoint,
        Done,
        Paused,
    )
    from ._keys import (
        END,
        START,
        End,
        Start,
        Trigger,
    )
    from ._lambda import (
        Lambda,
    )
    from ._map import (
        Map,
    )
    from ._merge import (
        MergeRegistry,
        register_merge,
    )
    from ._observe import (
        Callbacks,
        RunInfo,
        emit,
    )
    from ._options import (
        RunOptions,
    )
    from ._runnable import (
        Runnable,
    )
    from ._spec import (
        Retry,
    )
    from ._state import (
        current_state,
    )
    from ._step import (
        Step,
        current_step,
        step,
    )
    from ._store import (
        CheckpointStore,
        LogEntry,
        LogHead,
        LogVersion,
        StoredLog,
    )
    from ._store_memory import (
        MemoryStore,
    )
    from ._store_sqlite import (
        SqliteStore,
    )
    from ._tool_call import (
        AnyMiddleware,
        ArgumentMiddleware,
        Middleware,
        NextCall,
    )
    from ._tool_context import (
        CurrentCall,
        current_context,
        current_tool_call,
    )
    from ._tool_graph import (
        graph_tool,
    )
    from ._tool_ids import (
        with_call_ids,
    )
    from ._tool_memory import (
        ToolRecord,
        audit_log,
        cache_results,
    )
    from ._tool_middlewares import (
        limit_rate,
        limit_time,
        retry_calls,
        tell_errors,
        truncate_results,
    )
    from ._tool_repair import (
        RepairArguments,
    )
    from ._tool_set import (
        ErrorPolicies,
        ErrorPolicy,
        FailureKind,
        ToolAlias,
    )
    from ._tools_node import (
        ToolsNode,
        current_tools,
    )
    from ._tools_options import (
        ToolsOptions,
    )
    from ._workflow import (
        Workflow,
        WorkflowNode,
    )
    from .errors import (
        AnswersMissingError,
        AnswerTypeError,
        CheckpointError,
        DamagedRecordError,
        DurableError,
        GraphChangedError,
        GraphCompileError,
        GraphRunError,
        GraphWarning,
        InterruptError,
        LimitExceeded,
        MergeError,
        MissingKeyError,
        NodeError,
        NodeTimeoutError,
        Problem,
        ResumeError,
        RunConflict,
        RunFinishedError,
        RunOptionsError,
        RunStalledError,
        StateError,
        StepLimitExceeded,
        StepMismatchError,
        StoreError,
        ToolCallCutError,
        ToolFailedError,
        ToolTimeoutError,
        UnknownInterruptError,
        UnknownRunError,
        UnknownTargetError,
        UnknownToolError,
        UnsavableTypeError,
        UnsavableValueError,
        ValueTypeError,
        VersionConflict,
    )

__all__ = (
    "END",
    "START",
    "AnswerTypeError",
    "AnswersMissingError",
    "AnyMiddleware",
    "Approval",
    "ArgumentMiddleware",
    "BranchInfo",
    "Breakpoint",
    "Callbacks",
    "Chain",
    "ChainOptions",
    "Checkpoint",
    "CheckpointError",
    "CheckpointStore",
    "CurrentCall",
    "Custom",
    "DamagedRecordError",
    "Done",
    "DurableError",
    "EdgeInfo",
    "End",
    "ErrorPolicies",
    "ErrorPolicy",
    "Event",
    "FailureKind",
    "FieldMapping",
    "Graph",
    "GraphChangedError",
    "GraphCompileError",
    "GraphInfo",
    "GraphRunError",
    "GraphWarning",
    "Interrupt",
    "InterruptAnswered",
    "InterruptError",
    "InterruptRequested",
    "Interrupted",
    "Lambda",
    "LimitExceeded",
    "LogEntry",
    "LogHead",
    "LogVersion",
    "Map",
    "MappingInfo",
    "MemoryStore",
    "MergeError",
    "MergeRegistry",
    "MessageDelta",
    "Middleware",
    "MissingKeyError",
    "NextCall",
    "Node",
    "NodeChunk",
    "NodeEnded",
    "NodeError",
    "NodeFailed",
    "NodeInfo",
    "NodeOptions",
    "NodeStarted",
    "NodeTimeoutError",
    "Paused",
    "Problem",
    "RepairArguments",
    "ResumeError",
    "Retry",
    "RunConflict",
    "RunControl",
    "RunEnded",
    "RunFailed",
    "RunFinishedError",
    "RunInfo",
    "RunOptions",
    "RunOptionsError",
    "RunPaused",
    "RunStalledError",
    "RunStarted",
    "Runnable",
    "SqliteStore",
    "Start",
    "StateError",
    "Step",
    "StepLimitExceeded",
    "StepMismatchError",
    "StoreError",
    "StoredLog",
    "ToolAlias",
    "ToolCallCutError",
    "ToolDelta",
    "ToolEnded",
    "ToolEvent",
    "ToolFailed",
    "ToolFailedError",
    "ToolRecord",
    "ToolStarted",
    "ToolTimeoutError",
    "ToolsNode",
    "ToolsOptions",
    "Trigger",
    "UnknownInterruptError",
    "UnknownRunError",
    "UnknownTargetError",
    "UnknownToolError",
    "UnsavableTypeError",
    "UnsavableValueError",
    "ValueTypeError",
    "VersionConflict",
    "Workflow",
    "WorkflowNode",
    "audit_log",
    "cache_results",
    "current_context",
    "current_state",
    "current_step",
    "current_tool_call",
    "current_tools",
    "draw_mermaid",
    "emit",
    "field",
    "graph_tool",
    "interrupt",
    "limit_rate",
    "limit_time",
    "register_merge",
    "retry_calls",
    "step",
    "tell_errors",
    "truncate_results",
    "with_call_ids",
)

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "_chain": (
            "Chain",
            "ChainOptions",
        ),
        "_control": ("RunControl",),
        "_draw": ("draw_mermaid",),
        "_events": (
            "Custom",
            "Event",
            "InterruptAnswered",
            "InterruptRequested",
            "MessageDelta",
            "NodeChunk",
            "NodeEnded",
            "NodeFailed",
            "NodeStarted",
            "RunEnded",
            "RunFailed",
            "RunPaused",
            "RunStarted",
            "ToolDelta",
            "ToolEnded",
            "ToolEvent",
            "ToolFailed",
            "ToolStarted",
        ),
        "_field_mapping": (
            "FieldMapping",
            "field",
        ),
        "_graph": (
            "Graph",
            "Node",
            "NodeOptions",
        ),
        "_info": (
            "BranchInfo",
            "EdgeInfo",
            "GraphInfo",
            "MappingInfo",
            "NodeInfo",
        ),
        "_interrupt": (
            "Approval",
            "Breakpoint",
            "Interrupt",
            "interrupt",
        ),
        "_interrupted": ("Interrupted",),
        "_kept_runs": (
            "Checkpoint",
            "Done",
            "Paused",
        ),
        "_keys": (
            "END",
            "End",
            "START",
            "Start",
            "Trigger",
        ),
        "_lambda": ("Lambda",),
        "_map": ("Map",),
        "_merge": (
            "MergeRegistry",
            "register_merge",
        ),
        "_observe": (
            "Callbacks",
            "RunInfo",
            "emit",
        ),
        "_options": ("RunOptions",),
        "_runnable": ("Runnable",),
        "_spec": ("Retry",),
        "_state": ("current_state",),
        "_step": (
            "Step",
            "current_step",
            "step",
        ),
        "_store": (
            "CheckpointStore",
            "LogEntry",
            "LogHead",
            "LogVersion",
            "StoredLog",
        ),
        "_store_memory": ("MemoryStore",),
        "_store_sqlite": ("SqliteStore",),
        "_tool_call": (
            "AnyMiddleware",
            "ArgumentMiddleware",
            "Middleware",
            "NextCall",
        ),
        "_tool_context": (
            "CurrentCall",
            "current_context",
            "current_tool_call",
        ),
        "_tool_graph": ("graph_tool",),
        "_tool_ids": ("with_call_ids",),
        "_tool_memory": (
            "ToolRecord",
            "audit_log",
            "cache_results",
        ),
        "_tool_middlewares": (
            "limit_rate",
            "limit_time",
            "retry_calls",
            "tell_errors",
            "truncate_results",
        ),
        "_tool_repair": ("RepairArguments",),
        "_tool_set": (
            "ErrorPolicies",
            "ErrorPolicy",
            "FailureKind",
            "ToolAlias",
        ),
        "_tools_node": (
            "ToolsNode",
            "current_tools",
        ),
        "_tools_options": ("ToolsOptions",),
        "_workflow": (
            "Workflow",
            "WorkflowNode",
        ),
        "errors": (
            "AnswerTypeError",
            "AnswersMissingError",
            "CheckpointError",
            "DamagedRecordError",
            "DurableError",
            "GraphChangedError",
            "GraphCompileError",
            "GraphRunError",
            "GraphWarning",
            "InterruptError",
            "LimitExceeded",
            "MergeError",
            "MissingKeyError",
            "NodeError",
            "NodeTimeoutError",
            "Problem",
            "ResumeError",
            "RunConflict",
            "RunFinishedError",
            "RunOptionsError",
            "RunStalledError",
            "StateError",
            "StepLimitExceeded",
            "StepMismatchError",
            "StoreError",
            "ToolCallCutError",
            "ToolFailedError",
            "ToolTimeoutError",
            "UnknownInterruptError",
            "UnknownRunError",
            "UnknownTargetError",
            "UnknownToolError",
            "UnsavableTypeError",
            "UnsavableValueError",
            "ValueTypeError",
            "VersionConflict",
        ),
    },
)
