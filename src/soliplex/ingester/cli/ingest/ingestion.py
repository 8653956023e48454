"""The ingestion itself, stage by stage: look for files, compare them with what is stored, upload, process.

Whatever it is doing when it is told to stop, it stops between two files or two looks; what is under way may finish. The
same order, carried out again, takes up the batch that was left unfinished.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import batched, islice
from pathlib import Path
from typing import Final

from soliplex.ingester.cli.ingest.display import Display, Stage
from soliplex.ingester.cli.ingest.files import (
    Finding,
    LeftOut,
    LocalFile,
    Rules,
    Unreadable,
    fingerprint,
    printable,
    reason_of,
    walk,
)
from soliplex.ingester.cli.ingest.forecast import Forecast, ForecastFile, forecast
from soliplex.ingester.cli.ingest.summary import Summary
from soliplex.ingester.cli.ingest.survey import Survey
from soliplex.ingester.cli.ingest.target import Failure, FileRefusedError, GroupProgress, Standing, Target, Work
from soliplex.ingester.cli.output import as_size

FINDINGS_AT_ONCE: Final = 500
COMPARED_AT_ONCE: Final = 5_000
"""Files whose standing is asked for in one call."""
LOOK_EVERY: Final = 0.15
LOOK_AT_LEAST_EVERY: Final = 2.0
"""Seconds between looks at a group: the longer a look takes, the rarer, since the database has better things to do."""
GRACE: Final = 10.0
"""Seconds that uploads under way are given when the ingestion is told to stop."""
TOLD_AT_ONCE: Final = 10
"""Failures that are told as they happen; of more, the summary tells."""
FAILURES_READ: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be ingested, and how."""

    paths: Sequence[Path]
    rules: Rules
    source: str
    batch_name: str
    work: Work
    again: bool = False
    """Also what is unchanged."""
    dry_run: bool = False
    wait: bool = True
    uploads_at_once: int = 8


class Ingestion:
    """Carries out one order."""

    def __init__(self, order: Order, target: Target, display: Display, stopping: asyncio.Event) -> None:
        self._order = order
        self._target = target
        self._display = display
        self._stopping = stopping
        self._hashes: dict[str, str] = {}
        self._sent: dict[Path, int] = {}
        self._ended_stages: set[str] = set()
        self._told_failures: set[str] = set()
        self.summary = Summary(waited=order.wait)

    async def run(self) -> Summary:
        began = time.perf_counter()
        try:
            await self._stages()
        except _Stopped:
            self.summary.stopped = True
        self.summary.seconds = time.perf_counter() - began
        return self.summary

    async def _stages(self) -> None:
        await self._target.check(self._order.work)
        chosen = await self._compare(await self._look())
        self.summary.to_upload = len(chosen)
        if self._order.dry_run:
            self.summary.would_upload = [file.path for file in chosen]
            self.summary.uploaded_bytes = sum(file.size for file in chosen)
            self.summary.forecast = await self._forecast(chosen)
            return
        batch_id = await self._batch(needed=bool(chosen))
        if batch_id is None:
            return
        if chosen:
            await self._upload(chosen, batch_id)
        if self.summary.uploaded or self.summary.resumed:
            await self._process(batch_id)

    async def _look(self) -> list[LocalFile]:
        stage = Stage(name="Looking")
        findings = walk(self._order.paths, self._order.rules)
        files: list[LocalFile] = []
        while found := await asyncio.to_thread(_take, findings):
            files.extend(file for finding in found if (file := self._sort(finding)))
            stage.done, stage.failed = len(files), self.summary.files_failed
            left_out = self.summary.left_out.total()
            stage.note = f"{left_out:,} left out" if left_out else ""
            self._display.show(stage)
            self._stop_if_told()
        self.summary.found = stage.total = len(files) + self.summary.files_failed
        self._display.end(stage)
        return files

    def _sort(self, finding: Finding) -> LocalFile | None:
        match finding:
            case LocalFile():
                return finding
            case LeftOut(_, why):
                self.summary.left_out[why] += 1
            case Unreadable(path, reason):
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
                    hashes[file.uri] = await asyncio.to_thread(fingerprint, file.path)
                    stage.done += 1
                except OSError as error:
                    self._fail(file.path, "read", reason_of(error))
                    stage.failed += 1
                stage.weight += file.size
                self._display.show(stage)

            await self._each(part, read)
            self._hashes |= hashes
            standings = await self._target.standings(self._order.source, hashes)
            chosen.extend(file for file in part if file.uri in standings and self._is_chosen(standings[file.uri]))
        if files:
            self._display.end(stage)
        return chosen

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
                self._display.show(stage)

            await self._each(documents, look)
        if documents:
            self._display.end(stage)
        return forecast(found, await self._target.rates(self._order.work), loads_models=self._target.is_here)

    async def _batch(self, *, needed: bool) -> int | None:
        """The batch that was left unfinished, or a new one if there is anything to put into it."""
        source, name = self._order.source, self._order.batch_name
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
            self._display.show(stage)

        self._display.show(stage)
        await self._each(files, upload)
        stage.note = as_size(self.summary.uploaded_bytes)
        self._display.end(stage)

    async def _upload_one(self, file: LocalFile, batch_id: int, stage: Stage) -> None:
        def sent(count: int) -> None:
            before = self._sent.get(file.path, 0)
            self._sent[file.path] = count
            stage.weight += count - before
            self._display.show(stage)

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
            self._show(progress)
            await self._follow(started.group_id)

    async def _follow(self, group_id: int) -> None:
        try:
            async with self._target.working():
                await self._watch(group_id)
        finally:
            # Once more: what was under way when we were told to stop has ended meanwhile.
            self.summary.progress = progress = await self._target.progress(group_id)
            self._show(progress)
            if progress.failed:
                self.summary.failures += await self._target.failures(group_id, FAILURES_READ)

    async def _watch(self, group_id: int) -> None:
        if not await self._target.has_workers():
            self._display.say("No worker is running there: `si-cli worker` starts one. Waiting.", "yellow")
        while True:
            asked = time.perf_counter()
            progress = await self._target.progress(group_id)
            self._show(progress)
            await self._tell_failures(group_id, progress)
            if progress.is_over:
                return
            took = time.perf_counter() - asked
            await self._pause(min(max(LOOK_EVERY, 5 * took), LOOK_AT_LEAST_EVERY))

    def _show(self, progress: GroupProgress) -> None:
        for each in progress.stages:
            stage = Stage(
                name=each.name,
                total=each.total,
                done=each.completed,
                failed=each.failed,
                skipped=each.cancelled,
            )
            if not stage.is_over:
                self._display.show(stage)
            elif each.name not in self._ended_stages:
                self._ended_stages.add(each.name)
                self._display.end(stage)

    async def _tell_failures(self, group_id: int, progress: GroupProgress) -> None:
        told = self._told_failures
        if progress.failed <= len(told) or len(told) >= TOLD_AT_ONCE:
            return
        for failure in await self._target.failures(group_id, TOLD_AT_ONCE):
            if failure.uri not in told:
                told.add(failure.uri)
                self._display.say(f"✗ {printable(Path(failure.uri))}: {failure.stage}: {failure.reason}", "red")

    def _fail(self, path: Path, stage: str, reason: str) -> None:
        self.summary.files_failed += 1
        self.summary.failures.append(Failure(printable(path), stage, reason))
        if self.summary.files_failed <= TOLD_AT_ONCE:
            self._display.say(f"✗ {printable(path)}: {reason}", "red")

    async def _each[T](self, items: Iterable[T], do: Callable[[T], Awaitable[None]]) -> None:
        """Do it to each, several at once, until told to stop."""
        waiting = iter(items)

        async def work() -> None:
            for item in waiting:
                if self._stopping.is_set():
                    return
                await do(item)

        try:
            async with self._until_grace_is_over(), asyncio.TaskGroup() as group:
                for _ in range(self._order.uploads_at_once):
                    group.create_task(work())
        except ExceptionGroup as errors:
            raise _first(errors) from None
        self._stop_if_told()

    @asynccontextmanager
    async def _until_grace_is_over(self) -> AsyncGenerator[None]:
        """Once we are told to stop, the block has a few more seconds."""

        async def shorten() -> None:
            await self._stopping.wait()
            limit.reschedule(asyncio.get_running_loop().time() + GRACE)

        try:
            async with asyncio.timeout(None) as limit:
                shortening = asyncio.create_task(shorten())
                try:
                    yield
                finally:
                    shortening.cancel()
        except TimeoutError:
            raise _Stopped from None

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
        raise _Stopped

    def _stop_if_told(self) -> None:
        if self._stopping.is_set():
            raise _Stopped


class _Stopped(Exception):  # noqa: N818  not an error: the order was to stop
    """We were told to stop."""


def _take(findings: Iterator[Finding]) -> list[Finding]:
    return list(islice(findings, FINDINGS_AT_ONCE))


def _first(errors: ExceptionGroup[Exception]) -> Exception:
    """What went wrong first: the others are what followed from it."""
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error
