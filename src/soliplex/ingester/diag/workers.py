"""`si-diag worker`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.output import AsJson, print_rows

if TYPE_CHECKING:
    from soliplex.ingester.lib.wf.views import WorkerView

_COLUMNS = {
    "worker": "id",
    "host": "hostname",
    "process": "pid",
    "slots": "slots",
    "running steps": "running_steps",
    "MiB": "resident_mib",
    "MiB of its processes": "processes_resident_mib",
    "since": "first_checkin",
    "last heard of": "last_checkin",
}


async def list_workers(*, as_json: AsJson = False) -> None:
    """List the workers that have checked in, with the number of steps each runs and the memory it had then."""
    from soliplex.ingester.lib.wf import views

    async with open_database():
        page = await views.list_workers(paging=views.FIRST_ROWS)
    print_rows(
        [_with_memory(worker) for worker in page.items], _COLUMNS, as_json=as_json, nothing="no workers are running"
    )


def _with_memory(worker: WorkerView) -> dict[str, Any]:
    own, processes = worker.resident_bytes, worker.processes_resident_bytes
    return asdict(worker) | {
        "resident_mib": None if own is None else own >> 20,
        "processes_resident_mib": None if processes is None else processes >> 20,
    }
