"""Which goals there are, the newest first, for those who look at lists."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from soliplex.ingester.goals.sql import SQL
from soliplex.ingester.lib.enums import RunStatus
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.transactions import Row, datetime_of, json_of
from soliplex.ingester.lib.wf.flows.runs import STATUSES
from soliplex.ingester.lib.wf.views.paging import FIRST_PAGE, Page, Paging

LONGEST_GOAL: Final = 500
"""Characters of a goal that a list tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGoal:
    """A goal in a list."""

    run_id: int
    goal: str
    """The beginning of its sentence."""
    status: str
    """started, completed, failed, cancelled."""
    error: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


async def list_goals(*, paging: Paging = FIRST_PAGE) -> Page[ListedGoal]:
    """Goals, the newest first."""
    total = (await Database.read(SQL.count_goals()))[0]["goals"]
    rows = await Database.read(SQL.goals(limit=paging.rows_per_page, offset=paging.offset))
    return Page([_listed(row) for row in rows], total, paging.page, paging.rows_per_page)


def _listed(row: Row) -> ListedGoal:
    status = STATUSES[RunStatus(row["status"])]
    created = datetime_of(row, "created_date")
    assert created is not None
    return ListedGoal(
        run_id=row["id"],
        goal=str(json_of(row, "input").get("goal", ""))[:LONGEST_GOAL],
        status=status,
        error=row["status_message"] if status in ("failed", "cancelled") else None,
        created_at=created,
        started_at=datetime_of(row, "start_date"),
        ended_at=datetime_of(row, "completed_date"),
    )
