"""Documents on their way through the shipped workflow, by a worker in a process of its own.

The benchmark's process uploads and waits; all that a step does happens in the worker's process and in those it starts.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlmodel import col, select

from benchmarks import processes
from benchmarks.databases import Server, open_fresh, real_disk
from benchmarks.documents.covering import Read
from benchmarks.documents.instant import know_instant
from benchmarks.driving import status_of
from benchmarks.rows import SOURCE
from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.chunking import Chunk
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.models import ArtifactType, Database, DocumentURI, RunStatus, RunStep, WorkflowRun
from soliplex.ingester.lib.rag.locking import rag_path
from soliplex.ingester.lib.rag.opening import open_tables
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.wf.catalog import use_registry

ROOT: Final = Path(__file__).parents[2]
PARAMS: Final = Path(__file__).parent / "params"
WORKFLOW: Final = "batch"
PATIENCE: Final = 120.0
"""Seconds to wait for a worker to start."""
UPLOADS_AT_ONCE: Final = 8
_ENDED: Final = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})


@dataclass(frozen=True, slots=True)
class File:
    """A document to be."""

    uri: str
    content: bytes


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What became of one step of one document."""

    uri: str
    doc_hash: str
    config_id: int
    name: str
    status: RunStatus
    message: str | None
    error_type: str | None
    output: dict[str, Any]
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def has_clear_reason(self) -> bool:
        """Whether it failed in words written for a person; other errors are told by the name of their type."""
        return bool(self.message) and not self.message.startswith(f"{self.error_type}: ")


@dataclass(frozen=True, slots=True)
class Processed:
    """A batch that has gone through the workflow."""

    documents: int
    seconds: float
    """From the first upload until all is recorded and can be found."""
    processor_seconds: float
    """Of the worker and the processes it started."""
    steps: Sequence[StepRecord]

    @property
    def rate(self) -> float:
        return self.documents / self.seconds

    def of(self, name: str) -> list[StepRecord]:
        return [step for step in self.steps if step.name == name]

    def stage_rates(self) -> dict[str, float]:
        """For each stage, documents a second while it was at work: stages of several documents overlap."""
        names = dict.fromkeys(step.name for step in self.steps)
        return {name: len(steps) / _busy_seconds(steps) for name in names if (steps := self.of(name))}


def _busy_seconds(steps: Sequence[StepRecord]) -> float:
    """How long at least one of them was running."""
    spans = sorted((step.started_at, step.ended_at) for step in steps if step.started_at and step.ended_at)
    busy, end = 0.0, spans[0][0]
    for started_at, ended_at in spans:
        busy += max(0.0, (ended_at - max(started_at, end)).total_seconds())
        end = max(end, ended_at)
    return busy or 1e-3


class WorkerDiedError(RuntimeError):
    """The worker's process has ended, where it should not."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"the worker's process has ended with {code}")


class Ingester:
    """A database, a folder, and a worker on them."""

    def __init__(self, worker: asyncio.subprocess.Process, folder: Path) -> None:
        self._worker = worker
        self.folder = folder

    @property
    def pid(self) -> int:
        return self._worker.pid

    @property
    def is_alive(self) -> bool:
        return self._worker.returncode is None

    def processor_seconds(self) -> float:
        """Of the worker and all processes below it, those that have ended included."""
        return processes.processor_seconds(self.pid)

    async def process(self, files: Sequence[File], params: str, *, within: float = 600.0) -> Processed:
        """Upload the files and have them processed."""
        used, began = self.processor_seconds(), time.perf_counter()
        batch_id = await self.new_batch(params)
        await _upload(files, batch_id)
        group_id = await self.run(batch_id, params, within=within)
        seconds = time.perf_counter() - began
        return Processed(len(files), seconds, self.processor_seconds() - used, await _steps_of(group_id))

    async def process_within(self, files: Sequence[File], params: str, seconds: float) -> list[StepRecord]:
        """As `process`, but what has not ended by then is left as it is, and so is a worker that dies."""
        batch_id = await self.new_batch(params)
        await _upload(files, batch_id)
        group_id = await _start(batch_id, params, WORKFLOW)
        with suppress(TimeoutError, WorkerDiedError):
            await self._until_ended(group_id, seconds)
        return await _steps_of(group_id)

    async def markdown_of(self, files: Sequence[File], params: str) -> dict[str, str]:
        """What the documents were parsed to, by URI; nothing of those that failed."""
        done = await self.process(files, params)
        parsed = [step for step in done.of("parse") if step.status is RunStatus.COMPLETED]
        artifacts = get_artifacts()
        return {
            step.uri: (await artifacts.read(step.doc_hash, ArtifactType.PARSED_MD, step.config_id)).decode()
            for step in parsed
        }

    async def titles_of(self, files: Sequence[File], params: str, database: str) -> dict[str, str]:
        """Under which titles searches name the documents, by URI; nothing of those that failed."""
        await self.process(files, params)
        uris = {file.uri for file in files}
        async with open_tables(rag_path(database)) as tables:
            rows = await tables.documents.query().select(["uri", "title"]).to_list()
        return {row["uri"]: row["title"] for row in rows if row["uri"] in uris}

    async def read_of(self, files: Sequence[File], params: str) -> dict[str, Read]:
        """What the documents were parsed to and cut into, by URI; nothing of those that failed."""
        done = await self.process(files, params)
        ended = [step for step in done.steps if step.status is RunStatus.COMPLETED]
        artifacts = get_artifacts()
        found: dict[str, Read] = {}
        parsed = {step.uri: step for step in ended if step.name == "parse"}
        for step in ended:
            if step.name == "chunk":
                of = parsed[step.uri]
                markdown = await artifacts.read(of.doc_hash, ArtifactType.PARSED_MD, of.config_id)
                chunks = json.loads(await artifacts.read(step.doc_hash, ArtifactType.CHUNKS, step.config_id))
                found[step.uri] = Read(markdown.decode(), [Chunk.from_json(each) for each in chunks])
        return found

    async def new_batch(self, name: str) -> int:
        return await documents.create_batch(SOURCE, name)

    async def run(self, batch_id: int, params: str, *, workflow: str = WORKFLOW, within: float = 600.0) -> int:
        """Run a workflow for the documents of a batch, to its end; gives the id of the group."""
        group_id = await _start(batch_id, params, workflow)
        await self._until_ended(group_id, within)
        return group_id

    async def _until_ended(self, group_id: int, within: float) -> None:
        async with asyncio.timeout(within):
            while await status_of(group_id) not in _ENDED:
                if not self.is_alive:
                    raise WorkerDiedError(self._worker.returncode)
                await asyncio.sleep(0.02)


class SharedIngester:
    """One ingester for the measures that can share it: its worker takes seconds to load what it needs.

    The database is the process's own, so whoever needs another one closes this first.
    """

    def __init__(self) -> None:
        self._open: tuple[AsyncExitStack, Ingester] | None = None

    async def get(self, server: Server) -> Ingester:
        if self._open is None or not self._open[1].is_alive:
            await self.close()
            stack = AsyncExitStack()
            self._open = stack, await stack.enter_async_context(ingester(server))
        return self._open[1]

    async def close(self) -> None:
        if self._open is not None:
            (stack, _), self._open = self._open, None
            await stack.aclose()


@asynccontextmanager
async def ingester(server: Server) -> AsyncGenerator[Ingester]:
    """An ingester of default settings, with a fresh database and a folder of its own on a real disk."""
    know_instant()
    with tempfile.TemporaryDirectory(prefix="benchmark-files-", dir=real_disk(), ignore_cleanup_errors=True) as folder:
        async with open_fresh(server) as url:
            given = {"DATA_DIR": folder, "DOC_DB_URL": url, "PARAM_DIR": str(PARAMS), "LOG_LEVEL": "ERROR"}
            with _settings(given):
                async with _worker(Path(folder)) as process:
                    yield Ingester(process, Path(folder))


@contextmanager
def _settings(given: Mapping[str, str]) -> Generator[None]:
    """Settings of this process, and of those it starts, for the time of the block."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    _forget_settings()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        _forget_settings()


def _forget_settings() -> None:
    get_settings.cache_clear()
    use_registry(None)


@asynccontextmanager
async def _worker(folder: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    # Set in many container images; then every process would compile what it imports anew.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with (folder / "worker.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-u", "-m", "benchmarks.documents.worker"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            cwd=ROOT,
            env=environment,
        )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            said = (await process.stdout.readline()).decode()
        if "is running" not in said:
            raise RuntimeError(f"the worker did not start: {(folder / 'worker.log').read_text()[-500:]}")
        yield process
    finally:
        await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(PATIENCE):
            await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()


async def _start(batch_id: int, params: str, workflow: str) -> int:
    started = await documents.start_workflows(batch_id, workflow_id=workflow, param_id=params)
    assert started.run_group.id is not None
    return started.run_group.id


async def _upload(files: Sequence[File], batch_id: int) -> None:
    waiting = iter(files)

    async def send() -> None:
        for file in waiting:
            new = documents.NewDocument(uri=file.uri, source=SOURCE, batch_id=batch_id)
            await documents.upload_document(_blocks(file.content), new)

    async with asyncio.TaskGroup() as group:
        for _ in range(UPLOADS_AT_ONCE):
            group.create_task(send())


async def _blocks(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def count_cached() -> int:
    """How many texts were ever embedded here."""
    async with Database.engine().connect() as connection:
        return (await connection.execute(sa.text("SELECT count(*) FROM cachedembedding"))).scalar_one()


async def _steps_of(group_id: int) -> list[StepRecord]:
    query = (
        select(RunStep, DocumentURI)
        .join(WorkflowRun, col(WorkflowRun.id) == RunStep.workflow_run_id)
        .join(DocumentURI, col(DocumentURI.doc_hash) == WorkflowRun.doc_id)
        .where(WorkflowRun.run_group_id == group_id)
    )
    async with Database.session(read_only=True) as session:
        return [_record(step, place) for step, place in await session.exec(query)]


def _record(step: RunStep, place: DocumentURI) -> StepRecord:
    return StepRecord(
        uri=place.uri,
        doc_hash=place.doc_hash,
        config_id=step.step_config_id,
        name=step.workflow_step_name,
        status=step.status,
        message=step.status_message,
        error_type=step.status_meta.get("error_type"),
        output=step.output or {},
        started_at=step.start_date,
        ended_at=step.completed_date,
    )
