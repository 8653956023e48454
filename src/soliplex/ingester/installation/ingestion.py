"""The ingestion itself, stage by stage: look for files, compare them with what is stored, upload, process.

Whatever it is doing when it is told to stop, it stops between two files or two looks; what is under way may finish. The
same order, carried out again, takes up the batch that was left unfinished.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import batched, islice
from pathlib import Path
from typing import Final

from soliplex.ingester.installation.following import GroupFollower
from soliplex.ingester.installation.forecast import Forecast, ForecastFile, forecast
from soliplex.ingester.installation.interruptible import Interruptible, Stopped
from soliplex.ingester.installation.local_files import (
    Finding,
    LeftOut,
    LocalFile,
    Unreadable,
    Why,
    encodable,
    fingerprint,
    printable,
    reason_of,
    walk,
)
from soliplex.ingester.installation.missing import Missing, delete_missing, find_missing
from soliplex.ingester.installation.order import Order
from soliplex.ingester.installation.protocol import Target
from soliplex.ingester.installation.sidecars import with_metadata
from soliplex.ingester.installation.stages import Stage, Watcher
from soliplex.ingester.installation.summary import Summary
from soliplex.ingester.installation.survey import Survey
from soliplex.ingester.installation.unpacking import is_archive, unpacked
from soliplex.ingester.installation.values import Failure, FileRefusedError, GroupProgress, Standing
from soliplex.ingester.lib.scratch import own_folder
from soliplex.ingester.lib.validation.checking import has_more_to_say, kind_of

FINDINGS_AT_ONCE: Final = 500
COMPARED_AT_ONCE: Final = 5_000
"""Files whose standing is asked for in one call."""
TOLD_AT_ONCE: Final = 10
"""Failures that are told as they happen; of more, the summary tells."""
FAILURES_READ: Final = 1_000


class Ingestion:
    """Carries out one order."""

    def __init__(self, order: Order, target: Target, watcher: Watcher, stopping: asyncio.Event) -> None:
        self._order = order
        self._target = target
        self._watcher = watcher
        self._interruptible = Interruptible(stopping)
        self._hashes: dict[str, str] = {}
        self._sent: dict[Path, int] = {}
        self._unreadable: list[str] = []
        self._described_wrongly: list[Path] = []
        self._left_alone: set[str] = set()
        """URIs of files that are unchanged and not to be ingested again."""
        self._told_failures: set[str] = set()
        self._unpacked = Path()
        """Where the files of archives are, for the time of the ingestion."""
        self.summary = Summary(waited=order.wait, is_dry_run=order.dry_run, deletes_missing=order.delete_missing)

    async def run(self) -> Summary:
        began = time.perf_counter()
        # In a folder that goes even if this process is killed: archives may unpack to gigabytes.
        own = await asyncio.to_thread(own_folder)
        with tempfile.TemporaryDirectory(prefix="unpacked-", dir=own, ignore_cleanup_errors=True) as folder:
            self._unpacked = Path(folder)
            try:
                await self._stages()
            except Stopped:
                self.summary.stopped = True
        self.summary.seconds = time.perf_counter() - began
        return self.summary

    async def _stages(self) -> None:
        await self._target.check(self._order.work)
        files = await self._look()
        chosen = await self._compare(files)
        await self._find_missing(files)
        await self._find_failed()
        self.summary.to_upload = len(chosen)
        if self._order.dry_run:
            self.summary.would_upload = [file.path for file in chosen]
            self.summary.uploaded_bytes = sum(file.size for file in chosen)
            self.summary.forecast = await self._forecast(chosen)
            return
        batch_id = await self._batch(needed=bool(chosen))
        if batch_id is not None and chosen:
            await self._upload(chosen, batch_id)
        if batch_id is not None and (self.summary.uploaded or self.summary.resumed):
            await self._process(batch_id)
        if self._order.retry_failed and self.summary.failed_before:
            await self._retry()

    async def _look(self) -> list[LocalFile]:
        stage = Stage(name="Looking")
        findings = walk(self._order.paths, self._order.rules)
        files: list[LocalFile] = []
        while found := await asyncio.to_thread(_take, findings):
            looked_into = await asyncio.to_thread(lambda findings=found: list(self._with_members(findings)))
            taken = [file for finding in looked_into if (file := self._sort(finding))]
            files.extend(await self._described(taken))
            stage.done, stage.failed = len(files), self.summary.files_failed
            stage.left_out = self.summary.left_out.total()
            self._watcher.show(stage)
            self._interruptible.check()
        self.summary.found = stage.total = len(files) + self.summary.files_failed
        self._watcher.end(stage)
        return files

    def _with_members(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """The findings, with the files in archives in place of these."""
        for finding in findings:
            self._interruptible.check()
            if isinstance(finding, LocalFile) and is_archive(finding.path, finding.path.name):
                yield from unpacked(finding.path, self._unpacked, self._order.rules)
            else:
                yield finding

    async def _described(self, files: list[LocalFile]) -> list[LocalFile]:
        """The files with the metadata of their sidecars. The sidecars themselves are left out."""
        described = await asyncio.to_thread(lambda: list(with_metadata(files)))
        for each in described:
            if isinstance(each, Unreadable):
                self._fail(each.path, "metadata", each.reason)
                self._described_wrongly.append(each.path)
        self.summary.sidecars += sum(isinstance(each, Path) for each in described)
        return [each for each in described if isinstance(each, LocalFile)]

    async def _with_new_metadata(self, files: list[LocalFile], standings: dict[str, Standing]) -> None:
        """A file whose sidecar says something new counts as changed, whatever its content."""

        async def look(file: LocalFile) -> None:
            if file.meta and standings.get(file.uri) is Standing.UNCHANGED:
                known = await self._target.metadata(self._hashes[file.uri])
                if any(name not in known or known[name] != value for name, value in file.meta.items()):
                    standings[file.uri] = Standing.CHANGED

        await self._each(files, look)

    def _sort(self, finding: Finding) -> LocalFile | None:
        match finding:
            case LocalFile():
                return finding
            case LeftOut(_, why):
                self.summary.left_out[why] += 1
            case Unreadable(path, reason):
                self._unreadable.append(f"{printable(path)}: {reason}")
                self._fail(path, "look", reason)
        return None

    async def _compare(self, files: list[LocalFile]) -> list[LocalFile]:
        """The files that are to be uploaded."""
        stage = Stage(name="Comparing", total=len(files), total_weight=sum(file.size for file in files))
        chosen: list[LocalFile] = []
        for part in batched(files, COMPARED_AT_ONCE):
            hashes: dict[str, str] = {}

            async def read(file: LocalFile, hashes: dict[str, str] = hashes) -> None:
                try:
                    hashes[file.uri] = await asyncio.to_thread(fingerprint, file.bytes_at)
                    stage.done += 1
                except OSError as error:
                    self._fail(file.path, "read", reason_of(error))
                    stage.failed += 1
                stage.weight += file.size
                self._watcher.show(stage)

            await self._each(part, read)
            self._hashes |= hashes
            standings = await self._target.standings(self._order.source, hashes)
            await self._with_new_metadata(list(part), standings)
            compared = await self._readable([file for file in part if file.uri in standings], standings)
            chosen_now = [file for file in compared if self._is_chosen(standings[file.uri])]
            self._left_alone |= {file.uri for file in compared} - {file.uri for file in chosen_now}
            chosen.extend(chosen_now)
        if files:
            self._watcher.end(stage)
        return chosen

    async def _readable(self, files: list[LocalFile], standings: Mapping[str, Standing]) -> list[LocalFile]:
        """The files that are unchanged, and those of the others that are of kinds that can be read."""
        kinds: dict[str, str] = {}

        async def look(file: LocalFile) -> None:
            if standings[file.uri] is Standing.UNCHANGED:
                return
            try:
                kind = await asyncio.to_thread(kind_of, file.bytes_at, file.path.name)
            except OSError:
                return  # the file cannot be read: the upload will say why
            if not has_more_to_say(kind, file.path.name):
                kinds[file.uri] = kind

        await self._each(files, look)
        unread = await self._target.unread(set(kinds.values()), self._order.work)
        for file in files:
            kind = kinds.get(file.uri)
            if kind is not None and kind in unread:
                self.summary.unread.setdefault(unread[kind], []).append(file.uri)
                self.summary.left_out[Why.KIND] += 1
                self.summary.found -= 1
        return [file for file in files if kinds.get(file.uri) not in unread]

    async def _find_missing(self, files: list[LocalFile]) -> None:
        order = self._order
        there = [*files, *(LocalFile(path, 0) for path in self._described_wrongly)]
        missing = await find_missing(self._target, order.source, order.paths, order.rules, there)
        missing.obstacles[:0] = self._unreadable
        self.summary.missing = missing

    async def _find_failed(self) -> None:
        """Which of the files that are left alone could not be processed before."""
        if not self._left_alone:
            return
        beginning = os.path.commonpath(self._left_alone)
        failed = await self._target.failed(self._order.source, beginning, FAILURES_READ)
        self.summary.failed_before = [each for each in failed if each.uri in self._left_alone]

    async def _retry(self) -> None:
        """Put back what failed before, and follow it."""
        groups = sorted({each.run_group_id for each in self.summary.failed_before if each.run_group_id is not None})
        for group_id in groups:
            await self._target.retry(group_id, hard=False)
        self.summary.retried, self.summary.failed_before = self.summary.failed_before, []
        if self._order.wait:
            for group_id in groups:
                await self._follow(group_id, await self._target.progress(group_id), is_more=True)

    def _is_chosen(self, standing: Standing) -> bool:
        match standing:
            case Standing.NEW:
                self.summary.new += 1
            case Standing.CHANGED:
                self.summary.changed += 1
            case Standing.UNCHANGED:
                self.summary.unchanged += 1
                return self._order.again
        return True

    async def _forecast(self, files: list[LocalFile]) -> Forecast:
        """What the files would come to. Those of the same content are one document."""
        documents = list({self._hashes[file.uri]: file for file in files}.values())
        stage = Stage(name="Counting", total=len(documents))
        found: list[ForecastFile] = []
        async with Survey() as survey:

            async def look(file: LocalFile) -> None:
                try:
                    found.append(await survey.look_into(file))
                    stage.done += 1
                except OSError as error:
                    self._fail(file.path, "read", reason_of(error))
                    stage.failed += 1
                self._watcher.show(stage)

            await self._each(documents, look)
        if documents:
            self._watcher.end(stage)
        return forecast(found, await self._target.rates(self._order.work), loads_models=self._target.is_here)

    async def _batch(self, *, needed: bool) -> int | None:
        """The batch that was left unfinished, or a new one if there is anything to put into it."""
        source, name = self._order.source, self._order.name
        batch_id = await self._target.unfinished_batch(source, name)
        self.summary.resumed = batch_id is not None
        if batch_id is None and needed:
            batch_id = await self._target.create_batch(source, name)
        self.summary.batch_id = batch_id
        return batch_id

    async def _upload(self, files: list[LocalFile], batch_id: int) -> None:
        stage = Stage(name="Uploading", total=len(files), total_weight=sum(file.size for file in files))

        async def upload(file: LocalFile) -> None:
            try:
                await self._upload_one(file, batch_id, stage)
            except FileRefusedError as error:
                self._fail(file.path, "upload", str(error))
                stage.failed += 1
            else:
                stage.done += 1
                self.summary.uploaded += 1
                self.summary.uploaded_bytes += file.size
            self._sent[file.path] = file.size
            self._watcher.show(stage)

        self._watcher.show(stage)
        await self._each(files, upload)
        stage.taken_bytes = self.summary.uploaded_bytes
        self._watcher.end(stage)

    async def _upload_one(self, file: LocalFile, batch_id: int, stage: Stage) -> None:
        def sent(count: int) -> None:
            before = self._sent.get(file.path, 0)
            self._sent[file.path] = count
            stage.weight += count - before
            self._watcher.show(stage)

        await self._target.upload(file, source=self._order.source, batch_id=batch_id, work=self._order.work, sent=sent)

    async def _process(self, batch_id: int) -> None:
        started = await self._target.start_workflows(batch_id, self._order.work)
        self.summary.started = started.new_runs
        self.summary.run_group_id = started.group_id
        progress = await self._target.progress(started.group_id)
        if progress.is_over and not started.new_runs:
            return  # the batch had been worked off before: nothing came of this call
        self.summary.progress = progress
        if self._order.wait:
            await self._follow(started.group_id, progress)

    async def _follow(self, group_id: int, before: GroupProgress, *, is_more: bool = False) -> None:
        """Follow a group to its end. `is_more`: it was retried, and what it had completed before does not count."""
        follower = GroupFollower(self._target, group_id, self._watcher, self._interruptible)
        follower.show(before)
        try:
            async with self._target.working():
                await follower.follow(lambda progress: self._tell_failures(group_id, progress))
        finally:
            # Once more: what was under way when we were told to stop has ended meanwhile.
            progress = await self._target.progress(group_id)
            follower.show(progress)
            is_new = not (is_more or self.summary.resumed)
            progress = progress.without_routed(self.summary.started if is_new else before.total)
            self._note(progress.since(before) if is_more else progress, is_more=is_more)
            if progress.completed:
                await self._note_shortcomings(
                    group_id, only={each.uri for each in self.summary.retried} if is_more else None
                )
            failures = await self._target.failures(group_id, FAILURES_READ) if progress.failed else []
            self.summary.failures += failures
            told = {failure.uri for failure in failures}
            self.summary.failed_before = [each for each in self.summary.failed_before if each.uri not in told]

    async def _note_shortcomings(self, group_id: int, *, only: set[str] | None) -> None:
        """What was completed, and is not as people may expect. `only` these URIs were processed by this call."""
        blank = await self._target.with_nothing_to_index(group_id, FAILURES_READ)
        self.summary.nothing_to_index += [uri for uri in blank if only is None or uri in only]
        coverage = await self._target.coverage(group_id)
        self.summary.read_in_part += [
            each for each in coverage.read_in_part if each.uri is not None and (only is None or each.uri in only)
        ]

    def _note(self, progress: GroupProgress, *, is_more: bool) -> None:
        sofar = self.summary.progress
        self.summary.progress = sofar.plus(progress) if sofar and is_more else progress

    async def _tell_failures(self, group_id: int, progress: GroupProgress) -> None:
        told = self._told_failures
        if progress.failed <= len(told) or len(told) >= TOLD_AT_ONCE:
            return
        for failure in await self._target.failures(group_id, TOLD_AT_ONCE):
            if failure.uri not in told:
                told.add(failure.uri)
                self._watcher.failed(failure)

    def _fail(self, path: Path, stage: str, reason: str) -> None:
        failure = Failure(encodable(path), stage, reason)
        self.summary.files_failed += 1
        self.summary.failures.append(failure)
        if self.summary.files_failed <= TOLD_AT_ONCE:
            self._watcher.failed(failure)

    async def _each[T](self, items: Iterable[T], do: Callable[[T], Awaitable[None]]) -> None:
        """Await the work on each item, several at once, until the ingestion is told to stop."""
        await self._interruptible.each(items, do, at_once=self._order.uploads_at_once)


async def delete_gone(
    order: Order, target: Target, summary: Summary, *, refusal: Callable[[Missing], str | None] | None = None
) -> None:
    """Carry out what an order says of files that are gone, after its ingestion.

    `refusal` says why the files are not to be deleted, or None; by default `Missing.doubt` decides. It is not asked
    where the order forces the deletion.
    """
    missing = summary.missing
    if not order.delete_missing or not missing.uris or summary.stopped:
        return
    if not order.force:
        summary.not_deleted = (refusal(missing) if refusal else missing.doubt) or ""
    if not summary.not_deleted and not order.dry_run:
        summary.deleted = await delete_missing(target, order.source, missing.uris, order.paths, order.rules)


def _take(findings: Iterator[Finding]) -> list[Finding]:
    return list(islice(findings, FINDINGS_AT_ONCE))
