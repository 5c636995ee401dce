"""The engine: typed graphs over values and streams, checked before they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..schema._lazy import lazy_exports
from ._exports import EXPORTS

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
    from ._kept_looks import (
        Checkpoint,
        KeptRun,
    )
    from ._kept_runs import (
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
        LogKind,
        LogStatus,
        LogVersion,
        StoredLog,
    )
    from ._store_memory import (
        MemoryStore,
    )
    from ._store_postgres import (
        PostgresStore,
    )
    from ._store_sealed import (
        SealedStore,
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
        StepResultError,
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
    "KeptRun",
    "Lambda",
    "LimitExceeded",
    "LogEntry",
    "LogHead",
    "LogKind",
    "LogStatus",
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
    "PostgresStore",
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
    "SealedStore",
    "SqliteStore",
    "Start",
    "StateError",
    "Step",
    "StepLimitExceeded",
    "StepMismatchError",
    "StepResultError",
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

if not TYPE_CHECKING:  # they would take any name for an exported one
    __getattr__, __dir__ = lazy_exports(__name__, EXPORTS)
