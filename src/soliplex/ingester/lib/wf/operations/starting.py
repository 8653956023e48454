"""Starting runs as part of a larger transaction, which decides inside it what is to be run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from soliplex.ingester.lib.errors import ConflictError
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.wf.definitions import ParameterSet, WorkflowDefinition
from soliplex.ingester.lib.wf.operations import runs as of_runs
from soliplex.ingester.lib.wf.operations.runs import NewRun
from soliplex.ingester.lib.wf.sql import SQL


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What is to be run, and how urgently."""

    workflow: WorkflowDefinition
    params: ParameterSet
    batch_id: int | None
    priority: int
    resource_keys: Mapping[str, str]
    now: datetime


def new_group(start: Start, name: str | None) -> Script[int]:
    """Insert a group without runs."""
    rows = yield SQL.insert_group(
        name=name,
        workflow_id=start.workflow.id,
        param_id=start.params.id,
        batch_id=start.batch_id,
        runs=0,
        now=start.now,
    )
    return rows[0]["id"]


def hold_group(group_id: int) -> Script[None]:
    """Keep the group from ending or being cancelled until the transaction is over."""
    rows = yield SQL.lock_group(group_id=group_id)
    if rows[0]["cancel_requested_at"] is not None:
        raise ConflictError(f"run group {group_id} was cancelled: start a new one, or retry it first")


def add_runs(start: Start, group_id: int, runs: Sequence[NewRun]) -> Script[list[int]]:
    """Insert the runs with their steps; gives their ids in order."""
    plan = of_runs.Plan(start.workflow, start.params, start.batch_id, start.priority, start.resource_keys, start.now)
    return (yield from of_runs.add_runs(plan, group_id, runs))
