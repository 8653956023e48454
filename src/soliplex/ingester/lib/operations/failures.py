"""Documents that could not be processed: at which step, why, and whether trying again can help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlmodel import col, select

from soliplex.ingester.lib.answers import Waiting
from soliplex.ingester.lib.models import Database, RunStatus, RunStep, WorkflowRun
from soliplex.ingester.lib.operations.documents_of_runs import documents_of
from soliplex.ingester.lib.operations.sql import SQL
from soliplex.ingester.lib.parsing.errors import HarmfulDocumentError, ParseFailedError, UnsupportedFormatError
from soliplex.ingester.lib.storable import checked_integer, checked_name, see_storable_text
from soliplex.ingester.lib.validation import InvalidDocumentError
from soliplex.ingester.lib.wf import views

MOST_FAILURES: Final = 1_000
HOPELESS: Final = frozenset(
    kind.__qualname__
    for kind in (
        InvalidDocumentError,
        UnsupportedFormatError,
        ParseFailedError,
        HarmfulDocumentError,
    )
)
"""Errors that say something about the document, which has to change first. Others may not come again: a key or a
parameter that was wrong is put right, and then the same document passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRun:
    """A run that failed or was cancelled, and what it was about."""

    uri: str
    """The URI of the run's document; the address, where no document was fetched."""
    workflow_run_id: int
    run_group_id: int
    stage: str
    """The step that failed."""
    reason: str
    can_retry: bool
    """Whether trying again can help, with the document as it is."""


async def failures_of_group(run_group_id: int, *, most: int = MOST_FAILURES) -> list[FailedRun]:
    """The runs of a group that failed, the newest first."""
    page = await views.list_runs(
        run_group_id=run_group_id, status=RunStatus.FAILED, paging=views.Paging(rows_per_page=most)
    )
    documents = await documents_of(page.items)
    uris: dict[int | None, str | None] = {run_id: document.uri for run_id, document in documents.items()}
    return await _explained(page.items, uris)


async def reasons_to_wait(run_group_id: int, *, most: int = MOST_FAILURES) -> list[Waiting]:
    """Why steps of a group wait: an attempt has failed, or no worker can execute them. The most frequent first."""
    rows = await Database.read(SQL.reasons_to_wait(group_id=run_group_id, most=most))
    return [Waiting(row["stage"], row["reason"], row["steps"]) for row in rows]


async def with_nothing_to_index(run_group_id: int, *, most: int = MOST_FAILURES) -> list[str]:
    """The URIs of a group's documents that were processed and hold no text, so that no search finds them."""
    rows = await Database.read(SQL.runs_with_nothing_to_index(group_id=run_group_id, most=most))
    query = select(WorkflowRun).where(col(WorkflowRun.id).in_({row["id"] for row in rows}))
    async with Database.session(read_only=True) as session:
        runs = list(await session.exec(query))
    documents = await documents_of(runs)
    return sorted((documents[run.id].uri if run.id in documents else None) or str(run.doc_id) for run in runs)


async def failures_of_source(source: str, beginning: str = "", *, most: int = MOST_FAILURES) -> list[FailedRun]:
    """The documents of a source whose last run failed or was cancelled, the newest first, by `beginning` of URI."""
    see_storable_text("uri_prefix", beginning)
    call = SQL.failed_documents(
        source=checked_name("source", source), beginning=beginning, most=checked_integer("limit", most, least=1)
    )
    rows = await Database.read(call)
    query = select(WorkflowRun).where(col(WorkflowRun.id).in_({row["run_id"] for row in rows}))
    async with Database.session(read_only=True) as session:
        runs = {run.id: run for run in await session.exec(query)}
    explained = {each.workflow_run_id: each for each in await _explained(list(runs.values()), {})}
    return [replace(explained[row["run_id"]], uri=row["uri"]) for row in rows if row["run_id"] in explained]


async def _explained(runs: Sequence[WorkflowRun], uris: Mapping[int | None, str | None]) -> list[FailedRun]:
    steps = await views.steps_of_runs(run.id for run in runs if run.id is not None)
    return [_failed(run, steps.get(run.id or 0, []), uris.get(run.id)) for run in runs]


def _failed(run: WorkflowRun, steps: Sequence[RunStep], uri: str | None) -> FailedRun:
    assert run.id is not None
    failed = next((step for step in steps if step.status is RunStatus.FAILED), None)
    said = (failed and failed.status_message) or run.status_message
    unsaid = "it was cancelled" if run.status is RunStatus.CANCELLED else "no reason was given"
    return FailedRun(
        uri=uri or run.doc_id or address_in(run.input) or f"run {run.id}",
        workflow_run_id=run.id,
        run_group_id=run.run_group_id,
        stage=failed.workflow_step_name if failed else "run",
        reason=said or unsaid,
        can_retry=failed is None or (failed.status_meta or {}).get("error_type") not in HOPELESS,
    )


def address_in(run_input: Any) -> str | None:
    """The address that a run was started for, if it was started for one, without what may be secret in it."""
    given = run_input.get("source_uri") if isinstance(run_input, dict) else None
    return given if isinstance(given, str) else None
