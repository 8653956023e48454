"""The attempts at the steps of a run that failed."""

from __future__ import annotations

from sqlmodel import col, func, select

from soliplex.ingester.lib.models import RunStep, StepAttempt
from soliplex.ingester.lib.wf.answers import FailedAttempt
from soliplex.ingester.lib.wf.views.paging import FIRST_PAGE, Page, Paging, read_page
from soliplex.ingester.lib.wf.views.runs import get_run


async def attempts_of_run(run_id: int, *, paging: Paging = FIRST_PAGE) -> Page[FailedAttempt]:
    """The failed attempts at the steps of a run, in the order in which they ended."""
    await get_run(run_id)  # says so if there is no such run
    own = col(StepAttempt.step_id).in_(select(RunStep.id).where(RunStep.workflow_run_id == run_id))
    rows = paging.within(
        select(StepAttempt, RunStep.workflow_step_name, RunStep.item_index)
        .join(RunStep, col(RunStep.id) == col(StepAttempt.step_id))
        .where(own)
        .order_by(col(StepAttempt.id))
    )
    page = await read_page(rows, select(func.count()).select_from(StepAttempt).where(own), paging)
    return page.with_items([_attempt(*row) for row in page.items])


def _attempt(attempt: StepAttempt, step_name: str, item_index: int | None) -> FailedAttempt:
    assert attempt.id is not None
    return FailedAttempt(
        id=attempt.id,
        step_id=attempt.step_id,
        step_name=step_name,
        item_index=item_index,
        attempt=attempt.attempt,
        worker_id=attempt.worker_id,
        start_date=attempt.start_date,
        end_date=attempt.end_date,
        duration=attempt.duration,
        error_type=attempt.error_type,
        message=attempt.message,
        traceback=attempt.traceback,
    )
