"""The tables, their enums, and the database they live in.

Owns the schema and the connections. Knows no HTTP, no command line, and nothing of what workflows do.
"""

from __future__ import annotations

from soliplex.ingester.lib.enums import (
    FINAL_STATUSES,
    VALID_TRANSITIONS,
    ArtifactType,
    DefinitionKind,
    HistoryAction,
    Isolation,
    LifeCycleEvent,
    ResourceLockKind,
    RunStatus,
    Scope,
    SegmentStatus,
    Standing,
    WebhookStatus,
    WorkflowStepType,
)
from soliplex.ingester.lib.models.access import ApiKey, AuditEntry, BrowserSession
from soliplex.ingester.lib.models.base import Table, loaded, metadata
from soliplex.ingester.lib.models.database import Database, NotInitializedError, get_engine, get_session
from soliplex.ingester.lib.models.documents import (
    Document,
    DocumentBatch,
    DocumentBytes,
    DocumentRemoval,
    DocumentURI,
    DocumentURIHistory,
    SyncState,
)
from soliplex.ingester.lib.models.embeddings import CachedEmbedding
from soliplex.ingester.lib.models.flow_views import VIEWS
from soliplex.ingester.lib.models.learning import FlowOptimization, FlowPattern, KnownDecomposition
from soliplex.ingester.lib.models.payloads import Payload
from soliplex.ingester.lib.models.responses import DocumentInfo, PaginatedResponse, WorkflowRunWithDetails
from soliplex.ingester.lib.models.segments import Segment
from soliplex.ingester.lib.models.task_queues import TaskQueue
from soliplex.ingester.lib.models.webhooks import WebhookMessage
from soliplex.ingester.lib.models.workflows import (
    ConfigSet,
    ConfigSetItem,
    Definition,
    LifecycleHistory,
    ResourceFence,
    ResourceLock,
    ResourceWaiter,
    RunGroup,
    RunStep,
    RunStepDependency,
    Schedule,
    Signal,
    StepAttempt,
    StepConfig,
    StepProfile,
    WorkerCheckin,
    WorkflowRun,
)

__all__ = [
    "FINAL_STATUSES",
    "VALID_TRANSITIONS",
    "VIEWS",
    "ApiKey",
    "ArtifactType",
    "AuditEntry",
    "BrowserSession",
    "CachedEmbedding",
    "ConfigSet",
    "ConfigSetItem",
    "Database",
    "Definition",
    "DefinitionKind",
    "Document",
    "DocumentBatch",
    "DocumentBytes",
    "DocumentInfo",
    "DocumentRemoval",
    "DocumentURI",
    "DocumentURIHistory",
    "FlowOptimization",
    "FlowPattern",
    "HistoryAction",
    "Isolation",
    "KnownDecomposition",
    "LifeCycleEvent",
    "LifecycleHistory",
    "NotInitializedError",
    "PaginatedResponse",
    "Payload",
    "ResourceFence",
    "ResourceLock",
    "ResourceLockKind",
    "ResourceWaiter",
    "RunGroup",
    "RunStatus",
    "RunStep",
    "RunStepDependency",
    "Schedule",
    "Scope",
    "Segment",
    "SegmentStatus",
    "Signal",
    "Standing",
    "StepAttempt",
    "StepConfig",
    "StepProfile",
    "SyncState",
    "Table",
    "TaskQueue",
    "WebhookMessage",
    "WebhookStatus",
    "WorkerCheckin",
    "WorkflowRun",
    "WorkflowRunWithDetails",
    "WorkflowStepType",
    "get_engine",
    "get_session",
    "loaded",
    "metadata",
]
