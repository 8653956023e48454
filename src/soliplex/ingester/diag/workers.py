"""`si-diag worker`."""

from __future__ import annotations

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.output import AsJson, print_rows

_COLUMNS = {
    "worker": "id",
    "host": "hostname",
    "process": "pid",
    "running steps": "running_steps",
    "since": "first_checkin",
    "last heard of": "last_checkin",
}


async def list_workers(*, as_json: AsJson = False) -> None:
    """List the workers that have checked in, with the number of steps each runs."""
    from sqlmodel import col, func, select

    from soliplex.ingester.lib.models import Database, RunStatus, RunStep, WorkerCheckin

    running = (
        select(func.count())
        .where(RunStep.worker_id == WorkerCheckin.id, RunStep.status == RunStatus.RUNNING)
        .scalar_subquery()
    )
    async with open_database(), Database.session(read_only=True) as session:
        found = (await session.exec(select(WorkerCheckin, running).order_by(col(WorkerCheckin.first_checkin)))).all()
    rows = [{**worker.model_dump(), "running_steps": count} for worker, count in found]
    print_rows(rows, _COLUMNS, as_json=as_json, nothing="no workers are running")
