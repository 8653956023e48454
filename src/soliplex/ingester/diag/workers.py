"""`si-diag worker`."""

from __future__ import annotations

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.output import AsJson, print_rows

_COLUMNS = {
    "worker": "id",
    "host": "hostname",
    "process": "pid",
    "slots": "slots",
    "running steps": "running_steps",
    "since": "first_checkin",
    "last heard of": "last_checkin",
}


async def list_workers(*, as_json: AsJson = False) -> None:
    """List the workers that have checked in, with the number of steps each runs."""
    from soliplex.ingester.lib.wf import views

    async with open_database():
        page = await views.list_workers(paging=views.FIRST_ROWS)
    print_rows(page.items, _COLUMNS, as_json=as_json, nothing="no workers are running")
