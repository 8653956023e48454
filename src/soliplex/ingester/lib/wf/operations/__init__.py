"""The persistence seam of the engine, by verb: whatever changes a group, run, step, lock or worker goes through here.

Each operation is one transaction, written as a script (`soliplex.ingester.lib.models.transactions`) and run on either
database. Knows no handlers, no documents, no HTTP.
"""

from __future__ import annotations

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.wf.operations.claim import Claim, Pool, claim_next_step, claim_steps
from soliplex.ingester.lib.wf.operations.deadlines import cancel_run_at_once, end_overdue_runs
from soliplex.ingester.lib.wf.operations.definitions import (
    StoredVersion,
    all_workflows,
    definition_versions,
    delete_definition,
    find_workflow,
    learn_definitions,
    load_versions,
    pin,
    save_parameters,
    save_workflow,
)
from soliplex.ingester.lib.wf.operations.deliveries import (
    Delivery,
    claim_events,
    complete_event,
    error_event,
    next_event_due,
    release_event,
)
from soliplex.ingester.lib.wf.operations.finish import (
    Finished,
    Following,
    complete_step,
    error_step,
    finish_steps,
    release_step,
)
from soliplex.ingester.lib.wf.operations.groups import (
    cancel_run,
    cancel_run_group,
    recompute_run_status,
    retry_run,
    retry_run_group,
    try_complete_run_group,
)
from soliplex.ingester.lib.wf.operations.locks import (
    acquire_resource_lock,
    force_release_resource_lock,
    refresh_resource_lock,
    release_resource_lock,
    stop_waiting,
    sweep_expired_resource_locks,
    take_fence,
)
from soliplex.ingester.lib.wf.operations.pruning import (
    DeletedGroups,
    Retention,
    delete_run_group,
    groups_to_prune,
    prune_history,
    prune_signals,
    resume_deletions,
)
from soliplex.ingester.lib.wf.operations.runs import NewRun, StartedRun, create_run_group, create_runs, start_run
from soliplex.ingester.lib.wf.operations.schedules import (
    add_schedule,
    find_schedule,
    list_schedules,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    start_due_schedules,
)
from soliplex.ingester.lib.wf.operations.signals import deliver_signals, send_signal
from soliplex.ingester.lib.wf.operations.subflows import cancel_orphaned_runs
from soliplex.ingester.lib.wf.operations.workers import (
    Reaped,
    check_in,
    check_out,
    give_back_all,
    give_back_leases,
    last_checkins,
    other_workers,
    reap_dead_workers,
    reap_workers,
    steps_held,
    steps_to_stop,
)

__all__ = [
    "Claim",
    "DeletedGroups",
    "Delivery",
    "Finished",
    "Following",
    "NewRun",
    "NotFoundError",
    "Pool",
    "Reaped",
    "Retention",
    "StartedRun",
    "StoredVersion",
    "acquire_resource_lock",
    "add_schedule",
    "all_workflows",
    "cancel_orphaned_runs",
    "cancel_run",
    "cancel_run_at_once",
    "cancel_run_group",
    "check_in",
    "check_out",
    "claim_events",
    "claim_next_step",
    "claim_steps",
    "complete_event",
    "complete_step",
    "create_run_group",
    "create_runs",
    "definition_versions",
    "delete_definition",
    "delete_run_group",
    "deliver_signals",
    "end_overdue_runs",
    "error_event",
    "error_step",
    "find_schedule",
    "find_workflow",
    "finish_steps",
    "force_release_resource_lock",
    "give_back_all",
    "give_back_leases",
    "groups_to_prune",
    "last_checkins",
    "learn_definitions",
    "list_schedules",
    "load_versions",
    "next_event_due",
    "other_workers",
    "pause_schedule",
    "pin",
    "prune_history",
    "prune_signals",
    "reap_dead_workers",
    "reap_workers",
    "recompute_run_status",
    "refresh_resource_lock",
    "release_event",
    "release_resource_lock",
    "release_step",
    "remove_schedule",
    "resume_deletions",
    "resume_schedule",
    "retry_run",
    "retry_run_group",
    "save_parameters",
    "save_workflow",
    "send_signal",
    "start_due_schedules",
    "start_run",
    "steps_held",
    "steps_to_stop",
    "stop_waiting",
    "sweep_expired_resource_locks",
    "take_fence",
    "try_complete_run_group",
]
