"""This installation: its database and its storage are used directly, and a worker in this process does the work."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final

from soliplex.ingester.installation.file_pieces import pieces_of
from soliplex.ingester.installation.local_files import LocalFile
from soliplex.ingester.installation.overview import MOST_GROUPS, MOST_ROWS, UNDER_WAY, Overview, Told
from soliplex.ingester.installation.values import (
    Changes,
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
)
from soliplex.ingester.lib import access, operations, webhooks
from soliplex.ingester.lib.access import audited
from soliplex.ingester.lib.access.audit import local_user
from soliplex.ingester.lib.answers import (
    Accepted,
    AuditRecord,
    CreatedKey,
    GroupCoverage,
    Hit,
    Job,
    JobSegment,
    Key,
    KnownSource,
    Redelivered,
    RolledBack,
    StoredVersion,
    VersionDiff,
    Waiting,
    Webhook,
    WebhookDetails,
)
from soliplex.ingester.lib.errors import ConflictError, InvalidInputError
from soliplex.ingester.lib.meanwhile import meanwhile
from soliplex.ingester.lib.models import Database, RunGroup, RunStatus, Scope, WebhookStatus
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.operations import NewDocument
from soliplex.ingester.lib.operations.fetches import Fetch, start_fetches
from soliplex.ingester.lib.operations.versions import is_known
from soliplex.ingester.lib.search import Scope as SearchScope
from soliplex.ingester.lib.search import search_documents
from soliplex.ingester.lib.storage import DocumentTooLargeError, get_artifacts
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.answers import FailedAttempt, GroupEta, SentSignal
from soliplex.ingester.lib.wf.feed import ChangeFeed, Follower
from soliplex.ingester.lib.wf.operations import retry_run_group, send_signal
from soliplex.ingester.lib.wf.operations.definitions import chosen_definitions
from soliplex.ingester.lib.wf.runner import Worker, WorkerConfig, at_work
from soliplex.ingester.lib.wiring import Wiring, in_its_wiring
from soliplex.ingester.segmenter.jobs import views as jobs
from soliplex.ingester.segmenter.jobs.changing import cancel_job, delete_job
from soliplex.ingester.segmenter.jobs.job_options import (
    BadFieldError,
    UnsupportedTypeError,
    check_options,
    check_receiver,
    read_options,
)
from soliplex.ingester.segmenter.jobs.new_jobs import Sender, start_job

LOOKS_EVERY: Final = 0.15
"""Seconds between looks at how far a group is: here, a look costs little."""


@asynccontextmanager
async def open_local(wiring: Wiring) -> AsyncGenerator[LocalInstallation]:
    """This installation, for the time of the block."""
    async with wiring.around(_open_database(wiring)):
        yield LocalInstallation(wiring)


@asynccontextmanager
async def _open_database(wiring: Wiring) -> AsyncGenerator[None]:
    await Database.initialize(wiring.settings.doc_db_url)
    try:
        yield
    finally:
        await Database.close()


@in_its_wiring
class LocalInstallation:
    """This installation. The database is open."""

    is_here = True

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self._settings = wiring.settings

    async def check(self, work: Work) -> None:
        await chosen_definitions(work.workflow_id, work.param_id)

    async def standings(self, source: str, hashes: Mapping[str, str]) -> dict[str, Standing]:
        status = await operations.source_status(source, hashes)
        return {uri: Standing(row["status"]) for uri, row in status.status.items()}

    async def metadata(self, doc_hash: str) -> Mapping[str, Any]:
        return (await operations.document_info(doc_hash)).document.doc_meta

    async def unread(self, kinds: Collection[str], work: Work) -> Mapping[str, str]:
        return await operations.unread_kinds(sorted(kinds), workflow_id=work.workflow_id, param_id=work.param_id)

    async def uris_below(self, source: str, beginning: str) -> list[str]:
        found: list[str] = []
        while some := await operations.uris_below(source, beginning, after=found[-1] if found else ""):
            found += some
        return found

    async def delete(self, source: str, uris: Sequence[str]) -> int:
        async with audited("delete documents", source=source, uris=uris, count=len(uris)):
            return (await operations.delete_uris(source, uris)).document_uris

    async def unfinished_batch(self, source: str, name: str) -> int | None:
        return await operations.unfinished_batch(source, name)

    async def create_batch(self, source: str, name: str) -> int:
        return await operations.create_batch(source, name)

    async def upload(
        self, file: LocalFile, *, source: str, batch_id: int, work: Work, sent: Callable[[int], None]
    ) -> None:
        del work  # a document has no priority of its own; its run has
        new = NewDocument(uri=file.uri, source=source, batch_id=batch_id, meta=file.meta)
        try:
            await operations.upload_document(
                pieces_of(file.bytes_at, sent), new, limit=self._settings.upload_size_limit
            )
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
        # Whoever waits for the end of this ingestion is told at once of a handler that this process cannot import.
        with self.wiring.bound():
            worker = Worker(WorkerConfig.from_settings(self._settings, step_patience=0))
        async with at_work(worker, stop_timeout=self._settings.worker_stop_timeout_seconds):
            yield

    @asynccontextmanager
    async def changes(self, group_id: int) -> AsyncGenerator[Changes]:
        feed, changes = ChangeFeed(), Changes(are_told=True, looks_every=LOOKS_EVERY)
        try:
            async with meanwhile(_note_changes(feed, group_id, changes)):
                yield changes
        finally:
            await feed.close()

    async def has_workers(self) -> bool:
        return True  # a worker of this process works for as long as somebody watches

    async def start_job(self, file: LocalFile, options: Mapping[str, str]) -> Accepted:
        chosen = read_options(options)
        check_options(chosen, self._settings)
        await check_receiver(chosen, self._settings)
        limit = int(self._settings.max_file_size_limit)
        try:
            received = await get_artifacts().receive(pieces_of(file.bytes_at), limit=limit, hold=True)
            return await start_job(received, filename=file.path.name, options=chosen, sender=Sender())
        except (DocumentTooLargeError, UnsupportedTypeError, BadFieldError) as error:
            raise FileRefusedError(str(error)) from error

    async def job(self, job_id: str) -> Job:
        return await jobs.get_job(job_id)

    async def cancel_job(self, job_id: str) -> None:
        with suppress(ConflictError):  # it has ended
            async with audited("cancel job", job=job_id):
                await cancel_job(job_id)

    async def delete_job(self, job_id: str) -> None:
        async with audited("delete job", job=job_id):
            await delete_job(job_id)

    async def articles(self, document_id: int) -> list[JobSegment]:
        return (await jobs.list_segments(document_id)).segments

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

    async def overview(self) -> Overview:
        workers = await views.list_workers(paging=views.Paging(1, MOST_ROWS))
        locks = await views.list_locks(paging=views.Paging(1, MOST_ROWS))
        groups, count = await self._active_groups()
        return Told(
            at=utcnow(),
            queues=[asdict(each) for each in await views.queue_depths()],
            throughput=[asdict(each) for each in await views.throughput_by_type(views.Interval.MINUTE)],
            workers=([asdict(each) for each in workers.items], workers.total),
            locks=([each.model_dump() for each in locks.items], locks.total),
            groups=([each.model_dump() for each in groups], count),
            etas={each.id or 0: await views.eta_of_group(each.id or 0) for each in groups},
            causes=[asdict(each) for each in (await views.failures_by_cause(interval=views.Interval.DAY)).causes],
        ).overview()

    async def _active_groups(self) -> tuple[list[RunGroup], int]:
        paging = views.Paging(1, MOST_GROUPS)
        pages = [await views.list_run_groups(status=status, paging=paging) for status in UNDER_WAY]
        return [group for page in pages for group in page.items][:MOST_GROUPS], sum(page.total for page in pages)

    async def coverage(self, group_id: int) -> GroupCoverage:
        return await operations.group_coverage(group_id)

    async def retry(self, group_id: int, *, hard: bool) -> Retried:
        async with audited("retry", run_group_id=group_id, hard=hard):
            retried = await retry_run_group(group_id, hard=hard)
        return Retried(retried.reset_runs, retried.reset_steps)

    async def eta(self, group_id: int) -> GroupEta | None:
        return await views.eta_of_group(group_id)

    async def attempts(self, run_id: int, limit: int) -> tuple[Sequence[FailedAttempt], int]:
        page = await views.attempts_of_run(run_id, paging=views.Paging(1, limit))
        return page.items, page.total

    async def signal(self, key: str, payload: Any) -> SentSignal:
        return await views.standing_of_signal(await send_signal(key, payload), key)

    async def webhooks(
        self, *, status: WebhookStatus | None, stream: str | None, limit: int
    ) -> tuple[Sequence[Webhook], int]:
        page = await webhooks.list_webhooks(status=status, stream=stream, paging=views.Paging(1, limit))
        return page.items, page.total

    async def webhook(self, message_id: int) -> WebhookDetails:
        return await webhooks.get_webhook(message_id)

    async def redeliver(self, message_id: int) -> Redelivered:
        async with audited("redeliver webhook", webhook=message_id):
            return await webhooks.redeliver(message_id, self.wiring.settings)

    async def redeliver_dead(self, since: datetime | None) -> Redelivered:
        async with audited("redeliver dead letters", since=since):
            return await webhooks.redeliver_dead(self.wiring.settings, since=since)

    async def create_key(self, name: str, scopes: Collection[Scope], *, expires_in_days: float | None) -> CreatedKey:
        lifetime = None if expires_in_days is None else timedelta(days=expires_in_days)
        async with audited("create key", name=name, scopes=[str(each) for each in scopes]):
            return await access.create_key(name, scopes, created_by=local_user(), expires_in=lifetime)

    async def keys(self, *, revoked: bool, limit: int) -> tuple[Sequence[Key], int]:
        page = await access.list_keys(revoked=revoked, paging=views.Paging(1, limit))
        return page.items, page.total

    async def revoke_key(self, name: str) -> Key:
        async with audited("revoke key", name=name):
            return await access.revoke_key(name)

    async def audit(self, *, actor: str | None, action: str | None, limit: int) -> tuple[Sequence[AuditRecord], int]:
        page = await access.list_audit(actor=actor, action=action, paging=views.Paging(1, limit))
        return page.items, page.total

    async def search(self, question: Question) -> list[Hit]:
        scope = SearchScope(
            source=question.source,
            batch_id=question.batch_id,
            uri_prefix=question.uri_prefix,
            metadata=dict(question.meta),
        )
        return await search_documents(
            question.text,
            database=question.db,
            kind=question.kind,
            limit=question.limit,
            scope=scope,
            min_score=question.min_score,
        )

    async def knows(self, uri: str, source: str) -> bool:
        return await is_known(uri, source)

    async def find(self, text: str, limit: int) -> list[tuple[str, str]]:
        page = await operations.find_documents(text, paging=views.Paging(1, limit))
        return [(each.uri, each.source) for each in page.items]

    async def sources(self) -> list[KnownSource]:
        return await operations.list_sources()

    async def text(self, uri: str, source: str, version: int | None) -> str:
        blocks = await operations.version_text(uri, source, version)
        return b"".join([block async for block in blocks]).decode()

    async def versions(self, uri: str, source: str, limit: int) -> tuple[Sequence[StoredVersion], int]:
        page = await operations.list_versions(uri, source, paging=views.Paging(1, limit))
        return page.items, page.total

    async def diff(
        self, uri: str, source: str, from_version: int | None, to_version: int | None, *, context: int
    ) -> VersionDiff:
        return await operations.diff_versions(uri, source, from_version, to_version, context=context)

    async def roll_back(self, uri: str, source: str, version: int, work: Work) -> RolledBack:
        async with audited("roll back", uri=uri, source=source, version=version):
            return await operations.roll_back(
                uri, source, version, workflow_id=work.workflow_id, param_id=work.param_id, priority=work.priority
            )

    async def loads(self, group_id: int) -> Mapping[str, str]:
        group = await views.get_run_group(group_id)
        return await operations.loaded_first(group.workflow_definition_id, group.param_definition_id)

    async def progress(self, group_id: int) -> GroupProgress:
        group = await views.get_run_group(group_id)
        steps = await views.step_counts(group_id)
        # The worker of this process must not leave before the handlers of the group's events were called.
        waiting = await views.count_waiting_events(group_id) if group.status.is_final else 0
        return GroupProgress(
            status=group.status,
            total=group.total_runs,
            completed=group.total_runs - group.remaining_runs - group.failed_runs - group.cancelled_runs,
            failed=group.failed_runs,
            cancelled=group.cancelled_runs,
            stages=tuple(
                StageProgress(
                    name=step.name,
                    total=step.total,
                    completed=step.counts[RunStatus.COMPLETED],
                    failed=step.counts[RunStatus.FAILED],
                    cancelled=step.counts[RunStatus.CANCELLED],
                    running=step.counts[RunStatus.RUNNING],
                )
                for step in steps
            ),
            waiting_events=waiting,
        )

    async def failures(self, group_id: int, limit: int) -> list[Failure]:
        return [Failure.of(asdict(each)) for each in await operations.failures_of_group(group_id, most=limit)]

    async def reasons_to_wait(self, group_id: int, limit: int) -> list[Waiting]:
        return await operations.reasons_to_wait(group_id, most=limit)

    async def with_nothing_to_index(self, group_id: int, limit: int) -> list[str]:
        return await operations.with_nothing_to_index(group_id, most=limit)

    async def failed(self, source: str, beginning: str, limit: int) -> list[Failure]:
        found = await operations.failures_of_source(source, beginning, most=limit)
        return [Failure.of(asdict(each)) for each in found]


async def _note_changes(feed: ChangeFeed, group_id: int, changes: Changes) -> None:
    try:
        async with feed.following(Follower(run_group_id=group_id)) as follower:
            changes.happened.set()  # the feed does not tell of changes before its first look
            while await follower.next() is not None:
                changes.happened.set()
    finally:
        changes.are_told = False
        changes.happened.set()
