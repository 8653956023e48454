"""Soliplex Ingester: documents in, a searchable knowledge base out, through durable workflows.

The front door: what programs and handlers import, they import from here. Importing this package imports nothing else,
so that `si-cli --help` answers at once; a name is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from soliplex.ingester.goals.composer import WorkflowComposer
    from soliplex.ingester.goals.decomposers import HybridDecomposer, LlmDecomposer
    from soliplex.ingester.goals.errors import GoalError
    from soliplex.ingester.goals.notifications import OrchestratorNotifications
    from soliplex.ingester.goals.optimizer.optimizer import OrchestratorOptimizer, Recommendations
    from soliplex.ingester.goals.orchestrator import GoalResult, Orchestrator
    from soliplex.ingester.goals.rules import RuleDecomposer
    from soliplex.ingester.installation.ingester import Ingester, NotOpenError, NotStoredAgainError
    from soliplex.ingester.installation.remote_installation import RemoteError
    from soliplex.ingester.installation.stages import Stage, Watcher
    from soliplex.ingester.installation.summary import Summary
    from soliplex.ingester.installation.values import Failure
    from soliplex.ingester.lib.answers import Hit, KnownSource, RolledBack, SearchKind, StoredVersion, VersionDiff
    from soliplex.ingester.lib.chunking import ChunkOptions, chunk
    from soliplex.ingester.lib.config import Settings, load_settings
    from soliplex.ingester.lib.embedding import EmbedOptions, open_embedder
    from soliplex.ingester.lib.errors import (
        ConfigurationError,
        ConflictError,
        IngesterError,
        InvalidInputError,
        NotFoundError,
    )
    from soliplex.ingester.lib.models import ArtifactType, Database, Document, RunGroup, RunStep, WorkflowRun
    from soliplex.ingester.lib.operations.fetches import Fetch, start_fetches
    from soliplex.ingester.lib.storage import find_strays, get_artifacts
    from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
    from soliplex.ingester.lib.wf.errors import PermanentError, WorkerLost
    from soliplex.ingester.lib.wf.extensions import own_pool
    from soliplex.ingester.lib.wf.feed import ChangeFeed, Follower
    from soliplex.ingester.lib.wf.flows import (
        Executor,
        Flow,
        FlowBuilder,
        Run,
        RunFailed,
        StepOfRun,
        Workflow,
        list_schedules,
        schedule,
        unschedule,
    )
    from soliplex.ingester.lib.wf.handlers import StepContext, Weights, batch_handler, provide
    from soliplex.ingester.lib.wf.isolation import stop_requested
    from soliplex.ingester.lib.wf.metrics import PrometheusMetrics
    from soliplex.ingester.lib.wf.operations import send_signal, start_run
    from soliplex.ingester.lib.wf.runner import Worker, WorkerConfig, at_work
    from soliplex.ingester.lib.wf.waiting import Again, Subflow, Wait
    from soliplex.ingester.lib.wf.work import ClaimedStep
    from soliplex.ingester.lib.workflow import store_artifact
    from soliplex.ingester.server import create_app

__all__ = [
    "Again",
    "ArtifactType",
    "ChangeFeed",
    "ChunkOptions",
    "ClaimedStep",
    "ConfigurationError",
    "ConflictError",
    "Database",
    "Document",
    "EmbedOptions",
    "Executor",
    "Failure",
    "Fetch",
    "Flow",
    "FlowBuilder",
    "Follower",
    "GoalError",
    "GoalResult",
    "Hit",
    "HybridDecomposer",
    "Ingester",
    "IngesterError",
    "InvalidInputError",
    "KnownSource",
    "LlmDecomposer",
    "NotFoundError",
    "NotOpenError",
    "NotStoredAgainError",
    "Orchestrator",
    "OrchestratorNotifications",
    "OrchestratorOptimizer",
    "PermanentError",
    "PrometheusMetrics",
    "Recommendations",
    "RemoteError",
    "RolledBack",
    "RuleDecomposer",
    "Run",
    "RunFailed",
    "RunGroup",
    "RunStep",
    "SearchKind",
    "Settings",
    "Stage",
    "StepContext",
    "StepOfRun",
    "StoredVersion",
    "Subflow",
    "Summary",
    "VersionDiff",
    "Wait",
    "Watcher",
    "Weights",
    "Worker",
    "WorkerConfig",
    "WorkerLost",
    "Workflow",
    "WorkflowComposer",
    "WorkflowDefinition",
    "WorkflowRun",
    "__version__",
    "at_work",
    "batch_handler",
    "chunk",
    "create_app",
    "find_strays",
    "get_artifacts",
    "list_schedules",
    "load_settings",
    "open_embedder",
    "own_pool",
    "provide",
    "schedule",
    "send_signal",
    "start_fetches",
    "start_run",
    "stop_requested",
    "store_artifact",
    "unschedule",
]

__version__: str

# Where each name comes from, as the imports above say it to those who check types; a test holds the two equal.
_ORIGINS = {
    "goals.composer": ("WorkflowComposer",),
    "goals.decomposers": ("HybridDecomposer", "LlmDecomposer"),
    "goals.errors": ("GoalError",),
    "goals.notifications": ("OrchestratorNotifications",),
    "goals.optimizer.optimizer": ("OrchestratorOptimizer", "Recommendations"),
    "goals.orchestrator": ("GoalResult", "Orchestrator"),
    "goals.rules": ("RuleDecomposer",),
    "installation.ingester": ("Ingester", "NotOpenError", "NotStoredAgainError"),
    "installation.remote_installation": ("RemoteError",),
    "installation.stages": ("Stage", "Watcher"),
    "installation.summary": ("Summary",),
    "installation.values": ("Failure",),
    "lib.answers": ("Hit", "KnownSource", "RolledBack", "SearchKind", "StoredVersion", "VersionDiff"),
    "lib.chunking": ("ChunkOptions", "chunk"),
    "lib.config": ("Settings", "load_settings"),
    "lib.embedding": ("EmbedOptions", "open_embedder"),
    "lib.errors": ("ConfigurationError", "ConflictError", "IngesterError", "InvalidInputError", "NotFoundError"),
    "lib.models": ("ArtifactType", "Database", "Document", "RunGroup", "RunStep", "WorkflowRun"),
    "lib.operations.fetches": ("Fetch", "start_fetches"),
    "lib.storage": ("find_strays", "get_artifacts"),
    "lib.wf.definitions": ("WorkflowDefinition",),
    "lib.wf.errors": ("PermanentError", "WorkerLost"),
    "lib.wf.extensions": ("own_pool",),
    "lib.wf.feed": ("ChangeFeed", "Follower"),
    "lib.wf.flows": (
        "Executor",
        "Flow",
        "FlowBuilder",
        "Run",
        "RunFailed",
        "StepOfRun",
        "Workflow",
        "list_schedules",
        "schedule",
        "unschedule",
    ),
    "lib.wf.handlers": ("StepContext", "Weights", "batch_handler", "provide"),
    "lib.wf.isolation": ("stop_requested",),
    "lib.wf.metrics": ("PrometheusMetrics",),
    "lib.wf.operations": ("send_signal", "start_run"),
    "lib.wf.runner": ("Worker", "WorkerConfig", "at_work"),
    "lib.wf.waiting": ("Again", "Subflow", "Wait"),
    "lib.wf.work": ("ClaimedStep",),
    "lib.workflow": ("store_artifact",),
    "server": ("create_app",),
}
_MODULE_OF = {name: f"{__name__}.{module}" for module, names in _ORIGINS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _installed_version()
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  only who asks for a name pays for it

    # Kept as a global of this module: Python then finds the name without asking this function again.
    found = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__


def _installed_version() -> str:
    from importlib import metadata  # noqa: PLC0415 - reads files, for --version and the server's title alone

    try:
        return metadata.version("soliplex-ingester")
    except metadata.PackageNotFoundError:
        return "0+not-installed"
