"""How much of the text of a group's PDFs came through, as their parse steps tell."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlmodel import col, func

from soliplex.ingester.lib.answers import DocumentCoverage, GroupCoverage
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.models import Database, RunStep, WorkflowRun
from soliplex.ingester.lib.operations.documents_of_runs import documents_of
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.views.expressions import JsonNumber


async def group_coverage(run_group_id: int, *, limit: int = 10) -> GroupCoverage:
    """What the parse steps of a group tell of the text layers they compared with."""
    await views.get_run_group(run_group_id)
    coverage, words, missing = map(_told, ("coverage", "words", "missing_words"))
    of_group = (
        sa.select(WorkflowRun, coverage.label("coverage"), missing.label("missing"))
        .join(RunStep, col(RunStep.workflow_run_id) == col(WorkflowRun.id))
        .where(col(WorkflowRun.run_group_id) == run_group_id, coverage.is_not(None))
    )
    totals: Any = of_group.with_only_columns(func.count(), func.sum(words), func.sum(missing))
    lowest: Any = of_group.where(missing > 0).order_by(coverage, col(WorkflowRun.id)).limit(limit)
    async with Database.session(read_only=True) as session:
        documents, all_words, all_missing = (await session.exec(totals)).one()
        rows = list((await session.exec(lowest)).all())
    known = await documents_of([row[0] for row in rows])
    return GroupCoverage(
        documents=documents,
        words=int(all_words or 0),
        missing_words=int(all_missing or 0),
        coverage=1 - all_missing / all_words if all_words else None,
        lowest=[
            DocumentCoverage(run.id, known[run.id].uri if run.id in known else None, share, int(count))
            for run, share, count in rows
        ],
        warns_below=get_settings().parse_coverage_warning,
    )


def _told(name: str) -> sa.ColumnElement[float]:
    return JsonNumber(RunStep.output, sa.literal(name))
