"""`si-diag run-group`, `si-diag workflow` and `si-diag status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.groups import GroupId, page_of, print_attempts, print_groups
from soliplex.ingester.cli.output import AsJson, Limit, counted, echo, fields_of, print_facts, print_json, print_rows
from soliplex.ingester.cli.stats import Lately, interval_of
from soliplex.ingester.lib.enums import RunStatus

if TYPE_CHECKING:
    from soliplex.ingester.lib.operations import Activity
    from soliplex.ingester.lib.wf.views import Page

RunId = Annotated[int, typer.Argument(metavar="RUN", min=1, help="Id of a workflow run.")]
BatchId = Annotated[int | None, typer.Option("--batch", min=1, help="Only of this batch.")]
Status = Annotated[RunStatus | None, typer.Option("--status", case_sensitive=False, help="Only with this status.")]

_RUNS = {
    "run": "id",
    "workflow": "workflow_definition_id",
    "group": "run_group_id",
    "batch": "batch_id",
    "status": "status",
    "document": "doc_id",
    "created": "created_date",
    "seconds": "duration",
    "message": "status_message",
}
_STEPS = {
    "step": "id",
    "run": "workflow_run_id",
    "number": "workflow_step_number",
    "name": "workflow_step_name",
    "status": "status",
    "retry": "retry",
    "worker": "worker_id",
    "seconds": "duration",
    "message": "status_message",
}
_STEP_STATS = {
    "group": "name",
    "parameters": "param_definition_id",
    "step": "workflow_step_name",
    "status": "status",
    "count": "count",
    "pages": "pages",
}
_EVENTS = {
    "event": "event",
    "handler": "handler_name",
    "status": "status",
    "began": "start_date",
    "completed": "completed_date",
    "message": "status_message",
}
_ACTIVITY = {
    "run": "workflow_run_id",
    "group": "run_group_id",
    "status": "workflow_status",
    "step": "workflow_step_name",
    "document": "doc_uri",
    "worker": "worker_id",
    "began": "start_date",
    "seconds": "elapsed_seconds",
    "message": "status_message",
}


async def list_groups(*, batch: BatchId = None, limit: Limit = 50, as_json: AsJson = False) -> None:
    """List run groups, the newest first."""
    from soliplex.ingester.lib.operations import get_batch

    async with open_database():
        if batch is not None:
            await get_batch(batch)
        await print_groups(limit, as_json=as_json, batch_id=batch)


async def group_info(group_id: GroupId, *, as_json: AsJson = False) -> None:
    """Show a run group, and how many of its runs are in each status."""
    from soliplex.ingester.lib.wf import views

    async with open_database():
        group = await views.get_run_group(group_id)
        stats = await views.run_group_stats(group_id)
    counts = {str(status): count for status, count in stats.counts.items() if count or as_json}
    durations = {
        "average duration": stats.average_duration,
        "shortest duration": stats.min_duration,
        "longest duration": stats.max_duration,
    }
    if as_json:
        print_json({"run_group": group, "stats": stats})
    else:
        print_facts({**fields_of(group), "runs": counts, **durations}, as_json=False)


async def group_steps(group_id: GroupId, *, status: Status = None, limit: Limit = 50, as_json: AsJson = False) -> None:
    """List the steps of a run group, by run."""
    from soliplex.ingester.lib.wf import views

    async with open_database():
        await views.get_run_group(group_id)
        page = await views.list_steps(run_group_id=group_id, status=status, paging=page_of(limit))
    print_rows(page.items, _STEPS, as_json=as_json, nothing="no steps", total=page.total)


async def group_step_stats(group_id: GroupId, *, as_json: AsJson = False) -> None:
    """Count the steps of a run group by name and status."""
    from soliplex.ingester.lib.wf import views

    async with open_database():
        stats = await views.step_stats(group_id)
    print_rows(stats, _STEP_STATS, as_json=as_json, nothing="no steps")


async def list_runs(
    *,
    batch: BatchId = None,
    group: Annotated[int | None, typer.Option("--group", min=1, help="Only of this run group.")] = None,
    status: Status = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List workflow runs, the newest first."""
    from soliplex.ingester.lib.operations import get_batch
    from soliplex.ingester.lib.wf import views

    async with open_database():
        if batch is not None:
            await get_batch(batch)
        if group is not None:
            await views.get_run_group(group)
        page = await views.list_runs(batch_id=batch, run_group_id=group, status=status, paging=page_of(limit))
    print_rows(page.items, _RUNS, as_json=as_json, nothing="no workflow runs", total=page.total)


async def run_info(run_id: RunId, *, as_json: AsJson = False) -> None:
    """Show a workflow run, its document, its steps, their failed attempts and its events."""
    from soliplex.ingester.lib.operations import documents_of
    from soliplex.ingester.lib.wf import views

    async with open_database():
        found = await views.get_run_with_steps(run_id)
        documents = await documents_of([found.run])
        attempts = (await views.attempts_of_run(run_id, paging=views.FIRST_ROWS)).items
        events = await views.lifecycle_of_run(run_id)
    document = documents.get(run_id)
    if as_json:
        told = {"workflow_run": found.run, "steps": found.steps, "attempts": attempts, "document_info": document}
        print_json(told | {"lifecycle": events})
        return
    print_facts({**fields_of(found.run), "uri": document.uri if document else None}, as_json=False)
    print_rows(found.steps, _STEPS, as_json=False, nothing="no steps")
    if attempts:
        print_attempts(attempts, as_json=False)
    print_rows(events, _EVENTS, as_json=False, nothing="no events")


async def reset_run(
    run_id: RunId,
    *,
    hard: Annotated[bool, typer.Option("--hard", help="Put back all that is not completed, also what runs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put the failed and cancelled steps of a workflow run back."""
    from dataclasses import asdict

    from soliplex.ingester.lib.access import audited
    from soliplex.ingester.lib.wf import operations

    async with open_database(), audited("retry", workflow_run_id=run_id, hard=hard):
        retried = await operations.retry_run(run_id, hard=hard)
    if as_json:
        print_json({"workflow_run_id": run_id, **asdict(retried)})
    else:
        echo(f"{counted(retried.reset_steps, 'step')} of run {run_id} will be tried again")


async def running(*, limit: Limit = 50, as_json: AsJson = False) -> None:
    """List the steps that run now, the longest-running first."""
    from soliplex.ingester.lib import operations

    async with open_database():
        page = await operations.running_steps(paging=page_of(limit))
    _print_activity(page, as_json=as_json, nothing="nothing is running")


async def recent(
    interval: Lately = "hour", *, status: Status = None, limit: Limit = 50, as_json: AsJson = False
) -> None:
    """List the runs that began or ended lately."""
    from soliplex.ingester.lib import operations

    chosen = interval_of(interval)
    async with open_database():
        page = await operations.recent_runs(chosen, status=status, paging=page_of(limit))
    _print_activity(page, as_json=as_json, nothing=f"no run began or ended within the last {interval}")


def _print_activity(page: Page[Activity], *, as_json: bool, nothing: str) -> None:
    print_rows(page.items, _ACTIVITY, as_json=as_json, nothing=nothing, total=page.total)
