"""Documents go into the database and the storage of this installation; a worker in this process processes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from sqlmodel import col, func, select

from soliplex.ingester.cli.database import open_database
from soliplex.ingester.cli.ingest.files import LocalFile
from soliplex.ingester.cli.ingest.reading import pieces_of
from soliplex.ingester.cli.ingest.target import (
    Failure,
    FileRefusedError,
    Group,
    GroupProgress,
    Question,
    Retried,
    StageProgress,
    Standing,
    Started,
    Work,
    address_in,
)
from soliplex.ingester.lib import operations
from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.models import (
    Database,
    DocumentBatch,
    LifecycleHistory,
    RunStatus,
    RunStep,
    WorkflowRun,
)
from soliplex.ingester.lib.operations import NewDocument, RolledBack, StoredVersion, VersionDiff
from soliplex.ingester.lib.operations.fetches import Fetch, start_fetches
from soliplex.ingester.lib.operations.versions import is_known
from soliplex.ingester.lib.search import Hit, Scope, search_documents
from soliplex.ingester.lib.storage import DocumentTooLargeError
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.operations import retry_run_group
from soliplex.ingester.lib.wf.runner import Worker


@asynccontextmanager
async def open_local(settings: Settings) -> AsyncGenerator[LocalTarget]:
    """This installation, for the time of the block."""
    async with open_database():
        yield LocalTarget(settings)


class LocalTarget:
    """This installation, as a place where documents go. The database is open."""

    is_here = True

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def check(self, work: Work) -> None:
        registry = get_registry()
        registry.workflow(work.workflow_id or self._settings.default_workflow_id)
        registry.parameter_set(work.param_id or self._settings.default_param_id)

    async def standings(self, source: str, hashes: Mapping[str, str]) -> dict[str, Standing]:
        status = await operations.source_status(source, hashes)
        return {uri: Standing(row["status"]) for uri, row in status.status.items()}

    async def unfinished_batch(self, source: str, name: str) -> int | None:
        newest = (
            select(DocumentBatch)
            .where(DocumentBatch.source == source, DocumentBatch.name == name)
            .order_by(col(DocumentBatch.id).desc())
            .limit(1)
        )
        async with Database.session(read_only=True) as session:
            batch = (await session.exec(newest)).first()
        return batch.id if batch and batch.completed_date is None else None

    async def create_batch(self, source: str, name: str) -> int:
        return await operations.create_batch(source, name)

    async def upload(
        self, file: LocalFile, *, source: str, batch_id: int, work: Work, sent: Callable[[int], None]
    ) -> None:
        del work  # a document has no priority of its own; its run has
        new = NewDocument(uri=file.uri, source=source, batch_id=batch_id)
        try:
            await operations.ingest_document(pieces_of(file.path, sent), new, limit=self._settings.upload_size_limit)
        except (DocumentTooLargeError, InvalidInputError) as error:
            raise FileRefusedError(str(error)) from error

    async def start_workflows(self, batch_id: int, work: Work) -> Started:
        started = await operations.start_workflows(
            batch_id,
            workflow_id=work.workflow_id,
            param_id=work.param_id,
            priority=work.priority,
            only_unparsed=True,
        )
        assert started.run_group.id is not None
        return Started(started.run_group.id, len(started.run_ids))

    async def rates(self, work: Work) -> Mapping[str, Any]:
        return asdict(await operations.processing_rates(work.workflow_id, work.param_id))

    @asynccontextmanager
    async def working(self) -> AsyncGenerator[None]:
        worker = Worker()
        await worker.start()
        try:
            yield
        finally:
            await worker.stop(self._settings.worker_stop_timeout_seconds)

    async def has_workers(self) -> bool:
        return True  # the one in this process, for as long as anybody watches

    async def start_fetches(self, batch_id: int, uris: Sequence[str], *, source: str, work: Work) -> Started:
        fetches = [Fetch(uri=uri, source=source) for uri in dict.fromkeys(uris)]
        started = await start_fetches(
            batch_id, fetches, workflow_id=work.workflow_id, param_id=work.param_id, priority=work.priority
        )
        assert started.run_group.id is not None
        return Started(started.run_group.id, len(started.run_ids))

    async def groups(self, limit: int) -> tuple[Sequence[Group], int]:
        page = await views.list_run_groups(paging=views.Paging(1, limit))
        return [Group.of(group.model_dump()) for group in page.items], page.total

    async def group(self, group_id: int) -> Group:
        return Group.of((await views.get_run_group(group_id)).model_dump())

    async def retry(self, group_id: int, *, hard: bool) -> Retried:
        retried = await retry_run_group(group_id, hard=hard)
        return Retried(retried.reset_runs, retried.reset_steps)

    async def search(self, question: Question) -> list[Hit]:
        scope = Scope(
            source=question.source,
            batch_id=question.batch_id,
            uri_prefix=question.uri_prefix,
            metadata=dict(question.meta),
        )
        return await search_documents(
            question.text, database=question.db, kind=question.kind, limit=question.limit, scope=scope
        )

    async def knows(self, uri: str, source: str) -> bool:
        return await is_known(uri, source)

    async def find(self, text: str, limit: int) -> list[tuple[str, str]]:
        page = await operations.find_documents(text, paging=views.Paging(1, limit))
        return [(each.uri, each.source) for each in page.items]

    async def versions(self, uri: str, source: str, limit: int) -> tuple[Sequence[StoredVersion], int]:
        page = await operations.list_versions(uri, source, paging=views.Paging(1, limit))
        return page.items, page.total

    async def diff(
        self, uri: str, source: str, from_version: int | None, to_version: int | None, *, context: int
    ) -> VersionDiff:
        return await operations.diff_versions(uri, source, from_version, to_version, context=context)

    async def roll_back(self, uri: str, source: str, version: int, work: Work) -> RolledBack:
        return await operations.roll_back(
            uri, source, version, workflow_id=work.workflow_id, param_id=work.param_id, priority=work.priority
        )

    async def progress(self, group_id: int) -> GroupProgress:
        group = await views.get_run_group(group_id)
        stages = await _stages(group_id)
        waiting = await _waiting_events(group_id) if group.status.is_final else 0
        return GroupProgress(
            status=group.status,
            total=group.total_runs,
            completed=group.total_runs - group.remaining_runs - group.failed_runs - group.cancelled_runs,
            failed=group.failed_runs,
            cancelled=group.cancelled_runs,
            stages=stages,
            waiting_events=waiting,
        )

    async def failures(self, group_id: int, limit: int) -> list[Failure]:
        page = await views.list_runs(
            run_group_id=group_id, status=RunStatus.FAILED, paging=views.Paging(rows_per_page=limit)
        )
        documents = await views.documents_of(page.items)
        steps = await views.steps_of_runs(run.id for run in page.items if run.id is not None)
        return [
            _failure(run, steps.get(run.id or 0, []), documents[run.id].uri if run.id in documents else None)
            for run in page.items
        ]


async def _stages(group_id: int) -> tuple[StageProgress, ...]:
    """How many steps of the group are in each status, by name, in the order of the workflow.

    As `views.step_stats`, without the pages, which are read from the outputs: this is asked several times a second.
    """
    name, number = col(RunStep.workflow_step_name), func.min(RunStep.workflow_step_number)
    query = (
        select(name, col(RunStep.status), func.count(), number)
        .join(WorkflowRun, col(WorkflowRun.id) == col(RunStep.workflow_run_id))
        .where(col(WorkflowRun.run_group_id) == group_id, col(RunStep.parent_step_id).is_(None))
        .group_by(name, col(RunStep.status))
        .order_by(number)
    )
    counts: dict[str, dict[RunStatus, int]] = {}
    async with Database.session(read_only=True) as session:
        for step, status, count, _ in await session.exec(query):
            counts.setdefault(step, defaultdict(int))[RunStatus(status)] += count
    return tuple(
        StageProgress(
            name=step,
            total=sum(count.values()),
            completed=count[RunStatus.COMPLETED],
            failed=count[RunStatus.FAILED],
            cancelled=count[RunStatus.CANCELLED],
        )
        for step, count in counts.items()
    )


async def _waiting_events(group_id: int) -> int:
    """Handlers of the group's events that have yet to be called: the worker must not leave before them."""
    query = (
        select(func.count())
        .select_from(LifecycleHistory)
        .where(
            LifecycleHistory.run_group_id == group_id,
            col(LifecycleHistory.status).in_([RunStatus.PENDING, RunStatus.RUNNING, RunStatus.ERROR]),
        )
    )
    async with Database.session(read_only=True) as session:
        return (await session.exec(query)).one()


def _failure(run: WorkflowRun, steps: list[RunStep], uri: str | None) -> Failure:
    failed = next((step for step in steps if step.status is RunStatus.FAILED), None)
    return Failure(
        uri=uri or run.doc_id or address_in(run.input) or f"run {run.id}",
        stage=failed.workflow_step_name if failed else "run",
        reason=(failed and failed.status_message) or run.status_message or "no reason was given",
    )
