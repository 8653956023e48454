"""`si-diag lock`."""

from __future__ import annotations

from typing import Annotated

import typer

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.output import AsJson, echo, print_json, print_rows
from soliplex.ingester.lib.errors import NotFoundError

_COLUMNS = {
    "resource": "resource_key",
    "kind": "holder_kind",
    "holder": "holder_id",
    "step": "step_id",
    "acquired": "acquired_at",
    "expires": "expires_at",
}


async def list_locks(*, as_json: AsJson = False) -> None:
    """List the locks that are held."""
    from soliplex.ingester.lib.wf import views

    async with open_database():
        page = await views.list_locks(paging=views.FIRST_ROWS)
    print_rows(page.items, _COLUMNS, as_json=as_json, nothing="no locks are held")


async def release_lock(
    resource_key: Annotated[str, typer.Argument(metavar="RESOURCE", help="Its key, as `lock list` shows it.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Break a lock, whoever holds it.

    Only for one whose holder is gone: two writers at once can damage a RAG database. The break is logged.
    """
    from soliplex.ingester.lib.access import audited
    from soliplex.ingester.lib.wf.operations import force_release_resource_lock

    async with open_database(), audited("release lock", resource=resource_key):
        lock = await force_release_resource_lock(resource_key, requested_by="si-diag lock release")
    if lock is None:
        raise NotFoundError("resource lock", resource_key)
    if as_json:
        print_json(lock)
    else:
        echo(f"released {lock.resource_key}, which {lock.holder_kind} {lock.holder_id} held")
