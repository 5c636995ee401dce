"""The engine: typed graphs over values and streams, checked before they run."""

from __future__ import annotations

from ._chain import Chain, ChainOptions
from ._draw import draw_mermaid
from ._events import (
    Custom,
    Event,
    MessageDelta,
    NodeChunk,
    NodeEnded,
    NodeFailed,
    NodeStarted,
    RunEnded,
    RunFailed,
    RunStarted,
    ToolDelta,
    ToolEnded,
    ToolEvent,
    ToolFailed,
    ToolStarted,
)
from ._field_mapping import FieldMapping, field
from ._graph import Graph, Node, NodeOptions
from ._info import BranchInfo, EdgeInfo, GraphInfo, NodeInfo
from ._keys import END, START, End, Start, Trigger
from ._lambda import Lambda
from ._map import Map
from ._merge import MergeRegistry, register_merge
from ._observe import Callbacks, RunInfo, emit
from ._options import RunOptions
from ._runnable import Runnable
from ._spec import Retry
from ._state import current_state
from ._workflow import Workflow, WorkflowNode
from .errors import (
    GraphCompileError,
    GraphRunError,
    GraphWarning,
    MergeError,
    MissingKeyError,
    NodeError,
    NodeTimeoutError,
    Problem,
    RunOptionsError,
    RunStalledError,
    StateError,
    StepLimitExceeded,
    UnknownTargetError,
    ValueTypeError,
)

__all__ = (
    "END",
    "START",
    "BranchInfo",
    "Callbacks",
    "Chain",
    "ChainOptions",
    "Custom",
    "EdgeInfo",
    "End",
    "Event",
    "FieldMapping",
    "Graph",
    "GraphCompileError",
    "GraphInfo",
    "GraphRunError",
    "GraphWarning",
    "Lambda",
    "Map",
    "MergeError",
    "MergeRegistry",
    "MessageDelta",
    "MissingKeyError",
    "Node",
    "NodeChunk",
    "NodeEnded",
    "NodeError",
    "NodeFailed",
    "NodeInfo",
    "NodeOptions",
    "NodeStarted",
    "NodeTimeoutError",
    "Problem",
    "Retry",
    "RunEnded",
    "RunFailed",
    "RunInfo",
    "RunOptions",
    "RunOptionsError",
    "RunStalledError",
    "RunStarted",
    "Runnable",
    "Start",
    "StateError",
    "StepLimitExceeded",
    "ToolDelta",
    "ToolEnded",
    "ToolEvent",
    "ToolFailed",
    "ToolStarted",
    "Trigger",
    "UnknownTargetError",
    "ValueTypeError",
    "Workflow",
    "WorkflowNode",
    "current_state",
    "draw_mermaid",
    "emit",
    "field",
    "register_merge",
)
