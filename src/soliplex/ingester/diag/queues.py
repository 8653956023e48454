"""`si-diag status queues`, `waiting` and `failures`: what is ready, what waits and why, and what failed of what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.groups import rows_of
from soliplex.ingester.cli.output import AsJson, Limit, as_cell, counted, echo, print_json, print_rows

if TYPE_CHECKING:
    from soliplex.ingester.lib.wf.views import QueueDepth, WhatWaits

_QUEUES = {
    "type": "step_type",
    "ready": "ready",
    "running": "running",
    "workers": "workers",
    "oldest step": "oldest_step",
    "ready since": "ready_since",
}
_WAITING = {
    "step": "step_id",
    "run": "workflow_run_id",
    "name": "workflow_step_name",
    "waits for": "reason",
    "until": "until",
    "message": "message",
}
_CAUSES = {
    "failed": "failed",
    "tried again": "to_be_retried",
    "error": "error_type",
    "message": "message",
    "types": "step_types",
    "newest": "newest",
    "runs": "run_ids",
}


async def list_queues(*, as_json: AsJson = False) -> None:
    """Count the steps that are ready and those that run, by type."""
    from soliplex.ingester.lib.wf import views

    async with open_database():
        depths = await views.queue_depths()
    rows = depths if as_json else [_as_row(each) for each in depths]
    print_rows(rows, _QUEUES, as_json=as_json, nothing="nothing is ready or runs")


async def list_waiting(*, limit: Limit = 50, as_json: AsJson = False) -> None:
    """Show what waits, and why: for a signal, a time, a resource, or a worker that knows its workflow."""
    from soliplex.ingester.lib.wf import views

    async with open_database():
        found = await views.what_waits()
        steps = await views.waiting_steps(limit=rows_of(limit))
    if as_json:
        print_json({"summary": found, "steps": steps})
        return
    for line in _in_words(found):
        echo(line)
    print_rows(steps, _WAITING, as_json=False, nothing="no step waits for a signal, a time or a worker")


async def list_causes(
    *,
    group: Annotated[int | None, typer.Option("--group", min=1, help="Only of this run group.")] = None,
    as_json: AsJson = False,
) -> None:
    """List what steps failed of: those that say the same but for numbers, names and paths are counted together."""
    from soliplex.ingester.lib.wf import views

    async with open_database():
        found = await views.failures_by_cause(run_group_id=group)
    if as_json:
        print_json(found)
        return
    print_rows(found.causes, _CAUSES, as_json=False, nothing="no step has failed")
    if not found.is_exact:
        echo(f"the newest {found.looked_at:,} failures were looked at; there are more")


def _as_row(depth: QueueDepth) -> dict[str, Any]:
    return {
        "step_type": depth.step_type,
        "ready": depth.ready if depth.is_exact else f"{depth.ready:,} or more",
        "running": depth.running,
        "workers": depth.workers,
        "oldest_step": depth.oldest.step_id if depth.oldest else None,
        "ready_since": depth.oldest.ready_since if depth.oldest else None,
    }


def _in_words(found: WhatWaits) -> list[str]:
    more = "" if found.is_exact else " at least"
    lines = [f"{each.reason}:{more} {counted(each.steps, 'step')}" for each in found.reasons]
    for held in found.resources:
        since = f"{held.holder_kind} {held.holder_id} holds {held.resource_key} since {as_cell(held.acquired_at)}"
        lines.append(f"{since}; {counted(held.steps, 'step waits', 'steps wait')}")
    if found.signals:
        lines.append(f"{counted(found.signals, 'signal')} that no step has taken")
    return lines
