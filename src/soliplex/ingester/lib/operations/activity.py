"""What is going on, with the documents it is about: the steps that run now, and the runs that began or ended lately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final

from soliplex.ingester.lib.models import DocumentInfo, RunStatus
from soliplex.ingester.lib.operations.documents_of_runs import About, documents_by_run
from soliplex.ingester.lib.pieces import ROWS, in_pieces
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.views import FIRST_PAGE, Interval, Page, Paging, RunActivity

_OF_RUNS: Final = tuple(field.name for field in fields(RunActivity))


@dataclass(frozen=True, slots=True)
class Activity(RunActivity):
    """A run at the step it has come to, and where its document lives."""

    doc_uri: str | None
    source: str | None


async def running_steps(*, paging: Paging = FIRST_PAGE, now: datetime | None = None) -> Page[Activity]:
    """The steps that run now, the longest-running first."""
    page = await views.running_steps(paging=paging, now=now)
    return page.with_items(await _with_documents(page.items))


async def recent_runs(
    interval: Interval, *, status: RunStatus | None = None, paging: Paging = FIRST_PAGE, now: datetime | None = None
) -> Page[Activity]:
    """The runs that began or ended within the interval, those that changed last first, at the step each has come to."""
    page = await views.recent_runs(interval, status=status, paging=paging, now=now)
    return page.with_items(await _with_documents(page.items))


async def _with_documents(activities: Sequence[RunActivity]) -> list[Activity]:
    about = {
        each.workflow_run_id: About(each.doc_hash, each.batch_id) for each in activities if each.doc_hash is not None
    }
    documents = await documents_by_run(about)
    found: list[Activity] = []
    async for some in in_pieces(activities, ROWS):
        found += [_at(each, documents.get(each.workflow_run_id, DocumentInfo())) for each in some]
    return found


def _at(activity: RunActivity, document: DocumentInfo) -> Activity:
    known = {name: getattr(activity, name) for name in _OF_RUNS}  # `asdict` would copy each value, too
    return Activity(**known, doc_uri=document.uri, source=document.source)
