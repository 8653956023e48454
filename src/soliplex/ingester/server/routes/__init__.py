"""The routes, one file per resource. A new resource is a file with a `router`, and a line in ROUTERS."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from soliplex.ingester.server.routes import (
    access,
    batch,
    definitions,
    document,
    downloads,
    events,
    fetches,
    flows,
    goals,
    lancedb,
    locks,
    optimizing,
    queues,
    run_groups,
    runs,
    search,
    segmenter,
    signals,
    source_status,
    stats,
    sync_state,
    tasks,
    uploads,
    versions,
    webhooks,
    workers,
)

ROUTERS: Final[tuple[APIRouter, ...]] = (
    uploads.router,  # first, since it is asked most: a request is compared with one router after the other
    source_status.router,
    batch.router,
    fetches.router,
    versions.router,  # before `/document/{doc_hash}`, which would take its paths for hashes
    document.router,
    sync_state.router,
    downloads.router,
    definitions.router,
    run_groups.router,
    queues.router,
    runs.router,
    stats.router,
    lancedb.router,
    search.router,
    signals.router,
    webhooks.router,
    events.router,
    workers.router,
    tasks.router,
    flows.router,
    optimizing.router,
    goals.router,
    locks.router,
    segmenter.prefixed,
    access.router,
)

ROOT_ROUTERS: Final = (segmenter.router,)
"""Those whose clients know them at the server's root as well as under the prefix; documented is the second."""

TAGS: Final = [
    {"name": "batch", "description": "Documents that come in together."},
    {"name": "document", "description": "Documents, where they live, and what became of them."},
    {"name": "source-status", "description": "What a client has against what is stored."},
    {"name": "sync-state", "description": "How far clients have followed their sources."},
    {"name": "tasks", "description": "Steps for workers outside, in any language."},
    {"name": "workflow", "description": "Definitions, parameter sets, run groups, runs and steps."},
    {"name": "flows", "description": "Graphs of work that clients define, their runs and schedules."},
    {"name": "goals", "description": "Sentences that become flows, and are executed."},
    {"name": "signals", "description": "Messages to steps that wait."},
    {"name": "webhooks", "description": "Messages to receivers outside, and what became of them."},
    {"name": "stats", "description": "Throughput, rates, durations, utilization."},
    {"name": "lancedb", "description": "The databases that are searched."},
    {"name": "search", "description": "Questions to what was ingested."},
    {"name": "segmenter", "description": "Documents into tagged articles; the same routes are at the root."},
    {"name": "events", "description": "What changes, as it changes."},
    {"name": "workers", "description": "Who works."},
    {"name": "locks", "description": "Who holds what."},
    {"name": "access", "description": "Named keys, sessions of browsers, and the audit log."},
    {"name": "operation", "description": "Health and metrics."},
]
