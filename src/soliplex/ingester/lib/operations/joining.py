"""Giving a document another run in a group that is under way: its workflow sent it on, or a step fetched it just now.

The run joins the same group, so that whoever waits for the group waits for this run, too, and can retry it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.operations.workflow_starts import newest_place, plan_start, run_params
from soliplex.ingester.lib.wf.operations.runs import NewRun, add_runs, hold_group
from soliplex.ingester.lib.wf.wakeup import work_is_ready


async def join_group(
    group_id: int,
    doc_hash: str,
    *,
    workflow_id: str | None,
    param_id: str | None,
    batch_id: int | None,
    priority: int = 0,
    more_params: Mapping[str, Any] | None = None,
) -> int:
    """The document's run of this workflow in this group, which is started where there is none yet.

    A step may be repeated after it did its work, and two places may hold the same content: either way there is one run.
    """
    start = await plan_start(workflow_id, param_id, batch_id=batch_id, priority=priority, now=None)

    def script() -> Script[int]:
        # The document first, then the group: the order in which others take these locks.
        if not (yield SQL.lock_document(hash=doc_hash)):
            raise NotFoundError("document", doc_hash)
        yield from hold_group(group_id)
        found = yield SQL.run_in_group(group_id=group_id, hash=doc_hash, workflow_id=start.workflow.id)
        if found:
            return found[0]["id"]
        place = yield from newest_place(doc_hash)
        params = run_params(start, place.source, more_params)
        return (yield from add_runs(start, group_id, [NewRun(doc_id=doc_hash, params=params)]))[0]

    run_id = await Database.transact(script())
    work_is_ready()
    return run_id
