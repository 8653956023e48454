"""What is asked of an installation: one suite over every way to one, on each database."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, override

import httpx
import pytest
import sqlalchemy as sa
import uvicorn
from fastapi import FastAPI
from sqlmodel import select

from soliplex.ingester.installation.ingestion import Ingestion
from soliplex.ingester.installation.local_files import LocalFile, Rules, fingerprint
from soliplex.ingester.installation.local_installation import LocalInstallation
from soliplex.ingester.installation.order import Order
from soliplex.ingester.installation.protocol import Installation, Target
from soliplex.ingester.installation.remote_installation import open_remote
from soliplex.ingester.installation.stages import Unwatched
from soliplex.ingester.installation.values import FileRefusedError, Question, Retried, Standing, Work
from soliplex.ingester.lib.answers import JobStatus, KnownSource, Waiting
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.errors import ConflictError, IngesterError, InvalidInputError, NotFoundError
from soliplex.ingester.lib.models import ArtifactType, Database, RunStatus, RunStep, Signal, WebhookStatus
from soliplex.ingester.lib.operations import GroupCoverage
from soliplex.ingester.lib.rag import rag_path
from soliplex.ingester.lib.rag.fencing import SoleWriter
from soliplex.ingester.lib.rag.writing import write_documents
from soliplex.ingester.lib.search import SearchKind
from soliplex.ingester.lib.storage import get_artifacts
from soliplex.ingester.lib.webhooks import NewMessage, send_webhook
from soliplex.ingester.lib.wf.answers import SignalStanding
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.wf.operations import cancel_run, claim_next_step
from soliplex.ingester.lib.wf.runner import Worker
from soliplex.ingester.lib.wiring import current_wiring
from soliplex.ingester.server import create_app
from tests.integration.test_rag import IDENTITY, document
from tests.support.documents import hash_of
from tests.support.engine import rows_of

WORK: Final = Work(workflow_id="test_wf", param_id="test_base")
FAILING: Final = Work(workflow_id="test_wf_fail", param_id="test_base")


@pytest.fixture(params=["local", "remote"])
async def target(
    request: pytest.FixtureRequest, database: type[Database], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Installation]:
    monkeypatch.setenv("UPLOAD_SIZE_LIMIT", "1MB")
    get_settings.cache_clear()
    use_registry(None)
    if request.param == "local":
        yield LocalInstallation(current_wiring())
    else:
        async with serving(create_app(with_worker=False)) as url, open_remote(url, tell=pytest.fail) as remote:
            yield remote
    use_registry(None)


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncGenerator[str]:
    """The address of a server on this loop that serves the application."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        started = asyncio.Event()
        startup = server.startup

        async def start(sockets: list[socket.socket] | None = None) -> None:
            await startup(sockets)
            started.set()

        server.startup = start
        async with asyncio.TaskGroup() as group:
            group.create_task(server.serve([bound]))
            await started.wait()
            try:
                yield f"http://127.0.0.1:{bound.getsockname()[1]}"
            finally:
                server.should_exit = True


@asynccontextmanager
async def work_done() -> AsyncGenerator[None]:
    """A worker, as a server has one."""
    worker = Worker()
    await worker.start()
    try:
        yield
    finally:
        await worker.stop()


@pytest.fixture
def file(tmp_path: Path) -> LocalFile:
    return make_file(tmp_path, "a.md", "text")


def make_file(folder: Path, name: str, text: str) -> LocalFile:
    path = folder / name
    path.write_text(text)
    return LocalFile(path, len(text.encode()))


async def upload(target: Target, file: LocalFile, batch_id: int, *, source: str = "files") -> list[int]:
    sent: list[int] = []
    await target.upload(file, source=source, batch_id=batch_id, work=WORK, sent=sent.append)
    return sent


async def run_to_its_end(target: Target, group_id: int) -> None:
    async with target.working(), work_done():
        while not (await target.progress(group_id)).is_over:
            pass


async def test_known_workflows_and_parameters_are_accepted_and_others_named(target: Target) -> None:
    await target.check(Work())
    await target.check(WORK)
    with pytest.raises(NotFoundError, match="did you mean 'test_wf'"):
        await target.check(Work(workflow_id="test_fw"))
    with pytest.raises(NotFoundError, match="did you mean 'test_base'"):
        await target.check(Work(workflow_id="test_wf", param_id="test_bas"))


async def test_rates_tell_how_fast_documents_were_processed(target: Target, tmp_path: Path) -> None:
    assert (await target.rates(WORK))["rates"] == []
    batch_id = await target.create_batch("files", "docs")
    for name, text in {"a.md": "text", "b.md": "more text", "c.html": "<html></html>"}.items():
        await upload(target, make_file(tmp_path, name, text), batch_id)
    await run_to_its_end(target, (await target.start_workflows(batch_id, WORK)).group_id)
    rates = {(rate["mime_type"], rate["step_type"]): rate for rate in (await target.rates(WORK))["rates"]}
    steps = ("validate", "parse", "chunk", "embed", "store")
    assert rates.keys() == {(kind, step) for kind in ("text/markdown", "text/html") for step in steps}
    parse = rates["text/markdown", "parse"]
    assert (parse["documents"], parse["bytes"], parse["pages"], parse["chunks"]) == (2, 13, 2, 2)
    assert all(rate["seconds"] >= 0 for rate in rates.values())
    # Another workflow with the same parameters is the next best; other parameters say nothing.
    assert (await target.rates(FAILING))["rates"] == list(rates.values())
    assert (await target.rates(Work()))["rates"] == []


async def test_an_overview_tells_of_what_waits_runs_and_fails(target: Installation, tmp_path: Path) -> None:
    nothing = await target.overview()
    assert (nothing.steps, nothing.workers, nothing.locks, nothing.groups, nothing.causes) == ([], [], [], [], [])
    batch_id = await target.create_batch("files", "docs")
    await upload(target, make_file(tmp_path, "a.md", "text"), batch_id)
    failing = (await target.start_workflows(batch_id, FAILING)).group_id
    waiting = (await target.start_workflows(batch_id, WORK)).group_id

    before = await target.overview()
    assert [(each.step_type, each.ready, each.running, each.workers) for each in before.steps] == [
        ("validate", 2, 0, 0)
    ]
    assert before.steps[0].oldest_ready_seconds is not None
    assert {(each.id, each.total_runs, each.remaining_runs) for each in before.groups} == {
        (failing, 1, 1),
        (waiting, 1, 1),
    }
    assert {(each.seconds_left, each.reason) for each in before.groups} == {(None, "nothing has ended yet")}
    assert before.group_count == 2

    async with target.working(), work_done():
        while not all([(await target.progress(group)).is_over for group in (failing, waiting)]):
            pass
        at_work = await target.overview()
        while not at_work.steps:  # a busy server repeats the answer that it gave before
            at_work = await target.overview()
    assert at_work.worker_count == len(at_work.workers) >= 1
    assert all(worker.slots for worker in at_work.workers)
    after = {each.step_type: each for each in at_work.steps}
    assert (after["validate"].completed, after["validate"].workers) == (2, None)
    assert (at_work.groups, at_work.group_count) == ([], 0)
    (cause,) = at_work.causes
    assert (cause.failed, len(cause.run_ids), after[cause.step_types[0]].failed) == (1, 1, 1)


async def test_an_address_is_fetched_by_a_step_and_a_failure_names_it(target: Installation) -> None:
    batch_id = await target.create_batch("web", "addresses")
    forbidden = "file:///etc/passwd"
    started = await target.start_fetches(
        batch_id, [forbidden, forbidden], source="web", work=Work(param_id="test_base")
    )
    assert started.new_runs == 1
    await run_to_its_end(target, started.group_id)
    (failure,) = await target.failures(started.group_id, 10)
    assert (failure.uri, failure.stage) == (forbidden, "ingest")
    assert "is no file below a folder that documents may be read from" in failure.reason
    with pytest.raises(IngesterError, match="ftp scheme is not known"):
        await target.start_fetches(batch_id, ["ftp://a.org/b"], source="web", work=Work())


async def test_a_file_is_new_then_unchanged_then_changed(target: Target, file: LocalFile) -> None:
    async def standing() -> Standing:
        return (await target.standings("files", {file.uri: fingerprint(file.path)}))[file.uri]

    assert await standing() is Standing.NEW
    await upload(target, file, await target.create_batch("files", "docs"))
    assert await standing() is Standing.UNCHANGED
    file.path.write_text("other text")
    assert await standing() is Standing.CHANGED
    assert await target.standings("files", {}) == {}
    elsewhere = await target.standings("other source", {file.uri: fingerprint(file.path)})
    assert elsewhere == {file.uri: Standing.NEW}


async def test_kinds_that_the_work_cannot_read_are_told(target: Target) -> None:
    ours = Work(workflow_id="batch", param_id="default")
    kinds = {"text/markdown", "application/pdf", "video/mp4"}
    assert await target.unread(kinds, ours) == {"video/mp4": "no parser reads video/mp4"}
    assert await target.unread(kinds, WORK) == {}  # whose handler is not ours: who knows what it reads
    assert await target.unread(set(), ours) == {}


async def test_what_a_sidecar_says_is_known_of_the_document(target: Target, file: LocalFile) -> None:
    described = replace(file, meta={"author": "Zoë", "year": 1843})
    await upload(target, described, await target.create_batch("files", "docs"))
    known = await target.metadata(fingerprint(file.path))
    assert {**known, **described.meta} == known


async def test_known_uris_are_told_by_folder_and_deleted(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "soliplex.ingester.lib.operations.documents.uris_below.__kwdefaults__", {"after": "", "most": 2}
    )
    batch_id = await target.create_batch("files", "docs")
    names = ["a.md", "b%_.md", "sub/ü.md", "sub/line\nbreak.md", "sub2/c.md"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        await upload(target, make_file(tmp_path, name, f"text of {name}"), batch_id)
    await upload(target, make_file(tmp_path, "a.md", "text of a.md"), batch_id, source="other")
    root = tmp_path.as_posix()
    assert sorted(await target.uris_below("files", "")) == sorted(f"{root}/{name}" for name in names)
    below = await target.uris_below("files", f"{root}/sub/")
    assert sorted(below) == sorted([f"{root}/sub/ü.md", f"{root}/sub/line\nbreak.md"])
    assert await target.uris_below("files", f"{root}/b%") == [f"{root}/b%_.md"]
    assert await target.uris_below("nothing", "") == []

    assert await target.delete("files", [*below, f"{root}/a.md", f"{root}/never.md"]) == 3
    assert await target.delete("files", below) == 0
    assert sorted(await target.uris_below("files", "")) == [f"{root}/b%_.md", f"{root}/sub2/c.md"]
    assert await target.uris_below("other", "") == [f"{root}/a.md"]


async def test_sources_are_told_with_the_number_of_their_uris(target: Installation, tmp_path: Path) -> None:
    assert await target.sources() == []
    for source, names in {"web": ["a.md"], "files": ["a.md", "b.md"]}.items():
        batch_id = await target.create_batch(source, "docs")
        for name in names:
            await upload(target, make_file(tmp_path, name, f"text of {name}"), batch_id, source=source)
    assert await target.sources() == [KnownSource("files", 2), KnownSource("web", 1)]


async def test_the_text_of_any_version_is_read_as_it_was_parsed(target: Installation, tmp_path: Path) -> None:
    batch_id = await target.create_batch("files", "docs")
    for text in ("first — ä\r\n", "second 🐝"):
        file = make_file(tmp_path, "a.md", text)
        await upload(target, file, batch_id)
        await target.start_workflows(batch_id, WORK)
        with pytest.raises(IngesterError, match="has no text: it was never parsed"):
            await target.text(file.uri, "files", None)
        await _pretend_that_it_was_parsed(text)
    assert await target.text(file.uri, "files", None) == "second 🐝"
    assert await target.text(file.uri, "files", 1) == "first — ä\r\n"
    for version, source in ((3, "files"), (None, "web")):
        with pytest.raises(IngesterError, match=r"a\.md"):
            await target.text(file.uri, source, version)


async def test_names_of_all_kinds_come_back_as_they_were_sent(target: Target, tmp_path: Path) -> None:
    batch_id = await target.create_batch("files", "Zoë & Söhne, 100 %")
    names = ['quo"te.md', "per%20cent & plus+.md", "zoë 日本.md", "semi;colon='x'.md", "line\nbreak.md"]
    files = [make_file(tmp_path, name, f"text of {name}") for name in names]
    for file in files:
        await upload(target, file, batch_id)
    standings = await target.standings("files", {file.uri: fingerprint(file.path) for file in files})
    assert standings == {file.uri: Standing.UNCHANGED for file in files}


async def test_an_upload_tells_how_far_it_is(target: Target, tmp_path: Path) -> None:
    file = make_file(tmp_path, "large.md", "x" * 900_000)
    sent = await upload(target, file, await target.create_batch("files", "docs"))
    assert sent[-1] == 900_000
    assert sent == sorted(sent)


async def test_a_file_that_is_too_large_is_refused(target: Target, tmp_path: Path) -> None:
    file = make_file(tmp_path, "large.md", "x" * 1_000_001)
    with pytest.raises(FileRefusedError, match="1000000 bytes"):
        await upload(target, file, await target.create_batch("files", "docs"))


async def test_a_file_that_is_gone_is_refused(target: Target, file: LocalFile) -> None:
    batch_id = await target.create_batch("files", "docs")
    file.path.unlink()
    with pytest.raises(FileRefusedError, match="no such file"):
        await upload(target, file, batch_id)


async def test_a_missing_batch_is_no_fault_of_the_file(target: Target, file: LocalFile) -> None:
    with pytest.raises(IngesterError) as refused:
        await upload(target, file, 4711)
    assert not isinstance(refused.value, FileRefusedError)


async def test_a_batch_is_unfinished_until_its_runs_have_ended(target: Target, file: LocalFile) -> None:
    assert await target.unfinished_batch("files", "docs") is None
    batch_id = await target.create_batch("files", "docs")
    assert await target.unfinished_batch("files", "docs") == batch_id
    assert await target.unfinished_batch("files", "other") is None
    assert await target.unfinished_batch("other", "docs") is None
    await upload(target, file, batch_id)
    started = await target.start_workflows(batch_id, WORK)
    assert await target.unfinished_batch("files", "docs") == batch_id
    await run_to_its_end(target, started.group_id)
    assert await target.unfinished_batch("files", "docs") is None


async def test_starting_again_adds_runs_only_for_what_has_none(target: Target, tmp_path: Path) -> None:
    batch_id = await target.create_batch("files", "docs")
    await upload(target, make_file(tmp_path, "a.md", "a"), batch_id)
    first = await target.start_workflows(batch_id, WORK)
    await upload(target, make_file(tmp_path, "b.md", "b"), batch_id)
    second = await target.start_workflows(batch_id, WORK)
    third = await target.start_workflows(batch_id, WORK)
    assert (first.new_runs, second.new_runs, third.new_runs) == (1, 1, 0)
    assert first.group_id == second.group_id == third.group_id
    other = await target.start_workflows(batch_id, FAILING)
    assert other.new_runs == 2
    assert other.group_id != first.group_id


async def test_progress_counts_steps_in_the_order_of_the_workflow(target: Target, file: LocalFile) -> None:
    batch_id = await target.create_batch("files", "docs")
    await upload(target, file, batch_id)
    started = await target.start_workflows(batch_id, WORK)
    before = await target.progress(started.group_id)
    assert (before.is_over, before.total, before.completed) == (False, 1, 0)
    assert [stage.name for stage in before.stages] == ["validate", "parse", "chunk", "embed", "store"]
    assert {stage.ended for stage in before.stages} == {0}
    await run_to_its_end(target, started.group_id)
    after = await target.progress(started.group_id)
    assert (after.status, after.completed, after.failed) == (RunStatus.COMPLETED, 1, 0)
    assert {(stage.total, stage.completed) for stage in after.stages} == {(1, 1)}
    assert await target.failures(started.group_id, 10) == []


async def test_progress_counts_what_runs(target: Target, file: LocalFile) -> None:
    batch_id = await target.create_batch("files", "docs")
    await upload(target, file, batch_id)
    started = await target.start_workflows(batch_id, WORK)
    assert await claim_next_step("me", "a lease", ["validate"]) is not None
    progress = await target.progress(started.group_id)
    assert [stage.running for stage in progress.stages] == [1, 0, 0, 0, 0]


async def test_what_is_loaded_first_is_said_where_the_work_is_done_in_this_process(
    target: Target, file: LocalFile
) -> None:
    batch_id = await target.create_batch("files", "docs")
    await upload(target, file, batch_id)
    by_nothing = await target.start_workflows(batch_id, WORK)
    here = await target.start_workflows(batch_id, Work(workflow_id="batch", param_id="default"))
    assert await target.loads(by_nothing.group_id) == {}
    expected = {"parse": "loading the parser", "embed": "loading the model"} if target.is_here else {}
    assert await target.loads(here.group_id) == expected


async def test_steps_that_wait_to_be_tried_again_say_why(target: Installation, tmp_path: Path) -> None:
    batch_id = await target.create_batch("files", "docs")
    for number in range(3):
        await upload(target, make_file(tmp_path, f"{number}.md", f"text {number}"), batch_id)
    started = await target.start_workflows(batch_id, WORK)
    assert await target.reasons_to_wait(started.group_id, 10) == []
    async with Database.session() as session:
        steps = (await session.exec(select(RunStep).where(RunStep.workflow_step_name == "validate"))).all()
        for step, reason in zip(steps, ("away", "away", "slow"), strict=True):
            step.status_message = reason
            session.add(step)
        await session.commit()
    found = [Waiting("validate", "away", 2), Waiting("validate", "slow", 1)]
    assert await target.reasons_to_wait(started.group_id, 10) == found
    assert await target.reasons_to_wait(started.group_id, 1) == found[:1]


async def test_coverage_names_the_documents_that_were_not_read_whole(target: Installation, tmp_path: Path) -> None:
    batch_id = await target.create_batch("files", "docs")
    for number in range(3):
        await upload(target, make_file(tmp_path, f"{number}.md", f"text {number}"), batch_id)
    started = await target.start_workflows(batch_id, WORK)
    assert await target.coverage(started.group_id) == GroupCoverage(0, 0, 0, None, [])
    async with Database.session() as session:
        steps = (await session.exec(select(RunStep).where(RunStep.workflow_step_name == "parse"))).all()
        outputs = [
            {"coverage": 0.9, "words": 100, "missing_words": 10},
            {"coverage": 1.0, "words": 100, "missing_words": 0},
            {"pages": 3},
        ]
        for step, output in zip(steps, outputs, strict=True):
            step.output = output
            session.add(step)
        await session.commit()
    found = await target.coverage(started.group_id)
    assert [each.coverage for each in found.read_in_part] == [0.9]
    assert (found.documents, found.words, found.missing_words, found.coverage) == (2, 200, 10, 0.95)
    assert [(each.uri is not None, each.coverage, each.missing_words) for each in found.lowest] == [(True, 0.9, 10)]


async def test_failures_name_the_document_the_step_and_the_reason(target: Target, tmp_path: Path) -> None:
    batch_id = await target.create_batch("files", "docs")
    files = [make_file(tmp_path, f"{number}.md", f"text {number}") for number in range(3)]
    for file in files:
        await upload(target, file, batch_id)
    started = await target.start_workflows(batch_id, FAILING)
    await run_to_its_end(target, started.group_id)
    progress = await target.progress(started.group_id)
    assert (progress.status, progress.failed, progress.total) == (RunStatus.FAILED, 3, 3)
    assert {stage.name: (stage.failed, stage.cancelled) for stage in progress.stages if stage.completed == 0} == {
        "chunk": (3, 0),
        "embed": (0, 3),
        "store": (0, 3),
    }
    failures = await target.failures(started.group_id, 10)
    assert {failure.uri for failure in failures} == {file.uri for file in files}
    assert {(each.stage, each.reason) for each in failures} == {("chunk", "RuntimeError: this step always fails")}
    assert len(await target.failures(started.group_id, 2)) == 2


async def test_documents_of_a_source_that_failed_are_told_until_they_are_run_again(
    target: Installation, tmp_path: Path
) -> None:
    batch_id = await target.create_batch("files", "docs")
    a, b = (make_file(tmp_path, name, f"text of {name}") for name in ("a.md", "b.md"))
    await upload(target, a, batch_id)
    started = await target.start_workflows(batch_id, FAILING)
    assert await target.failed("files", tmp_path.as_posix(), 10) == []
    await run_to_its_end(target, started.group_id)
    (failure,) = await target.failed("files", tmp_path.as_posix(), 10)
    assert (failure.uri, failure.stage, failure.run_group_id) == (a.uri, "chunk", started.group_id)
    assert (failure.reason, failure.can_retry) == ("RuntimeError: this step always fails", True)
    assert await target.failed("files", b.uri, 10) == await target.failed("other", "", 10) == []
    await upload(target, b, batch_id)
    again = await target.start_workflows(batch_id, WORK)  # of both documents, and it succeeds
    await run_to_its_end(target, again.group_id)
    assert await target.failed("files", "", 10) == []


async def test_a_document_that_stays_as_it_is_is_not_worth_another_try(target: Installation, tmp_path: Path) -> None:
    batch_id = await target.create_batch("files", "docs")
    await upload(target, make_file(tmp_path, "a.pdf", "%PDF-1.7 and nothing more"), batch_id)
    started = await target.start_workflows(batch_id, Work(workflow_id="batch", param_id="default"))
    await run_to_its_end(target, started.group_id)
    (failure,) = await target.failures(started.group_id, 10)
    assert (failure.stage, failure.can_retry) == ("validate", False), failure
    assert await target.failed("files", "", 10) == [failure]


async def test_documents_without_text_are_told(target: Installation, tmp_path: Path) -> None:
    batch_id = await target.create_batch("files", "docs")
    await upload(target, make_file(tmp_path, "a.md", "text"), batch_id)
    started = await target.start_workflows(batch_id, WORK)
    await run_to_its_end(target, started.group_id)
    assert await target.with_nothing_to_index(started.group_id, 10) == []
    said = '{"chunks"\\: 0, "nothing_to_index"\\: true}'
    async with Database.session() as session:
        connection = await session.connection()
        await connection.execute(sa.text(f"UPDATE runstep SET output = '{said}' WHERE step_type = 'store'"))
    assert await target.with_nothing_to_index(started.group_id, 10) == [f"{tmp_path.as_posix()}/a.md"]


async def test_what_was_started_is_told_and_can_be_retried(target: Installation, file: LocalFile) -> None:
    assert await target.groups(10) == ([], 0)
    batch_id = await target.create_batch("files", "docs")
    await upload(target, file, batch_id)
    started = await target.start_workflows(batch_id, FAILING)
    await run_to_its_end(target, started.group_id)
    second = await target.start_workflows(batch_id, WORK)

    groups, total = await target.groups(1)
    assert ([group.id for group in groups], total) == ([second.group_id], 2)
    group = await target.group(started.group_id)
    assert (group.workflow_definition_id, group.batch_id, group.status) == ("test_wf_fail", batch_id, RunStatus.FAILED)
    assert (group.total_runs, group.failed_runs, group.completed_runs) == (1, 1, 0)
    assert group.completed_date is not None
    assert group.completed_date.tzinfo is not None

    assert await target.retry(started.group_id, hard=False) == Retried(1, 3)
    assert await target.retry(started.group_id, hard=False) == Retried(0, 0)
    assert await target.retry(started.group_id, hard=True) == Retried(1, 3)
    for missing in (target.group(4711), target.progress(4711), target.retry(4711, hard=False)):
        with pytest.raises(IngesterError, match="run group 4711 does not exist"):
            await missing


async def test_failed_attempts_at_the_steps_of_a_run_are_told(target: Installation, file: LocalFile) -> None:
    batch_id = await target.create_batch("files", "docs")
    await upload(target, file, batch_id)
    started = await target.start_workflows(batch_id, FAILING)
    await run_to_its_end(target, started.group_id)
    ((run_id,),) = await rows_of("SELECT id FROM workflowrun")
    (attempt,), total = await target.attempts(run_id, 1)
    assert (total, attempt.step_name, attempt.attempt, attempt.error_type) == (2, "chunk", 1, "RuntimeError")
    assert attempt.message == "RuntimeError: this step always fails"
    assert attempt.end_date.tzinfo is not None
    with pytest.raises(IngesterError, match="workflow run 4711 does not exist"):
        await target.attempts(4711, 10)


async def test_it_is_told_when_a_group_will_have_ended_or_why_that_is_unknown(
    target: Installation, file: LocalFile
) -> None:
    batch_id = await target.create_batch("files", "docs")
    await upload(target, file, batch_id)
    started = await target.start_workflows(batch_id, WORK)
    eta = await target.eta(started.group_id)
    assert eta is not None
    assert (eta.remaining_runs, eta.seconds, eta.reason) == (1, None, "nothing has ended yet")
    await run_to_its_end(target, started.group_id)
    eta = await target.eta(started.group_id)
    assert eta is not None
    assert (eta.seconds, eta.ends_at is not None) == (0.0, True)


async def test_a_signal_is_recorded_with_its_payload_and_its_standing_told(target: Installation) -> None:
    for key, payload in {"plain": None, "with/slashes and : blanks?": {"approved": [True, "ä"]}}.items():
        sent = await target.signal(key, payload)
        assert (sent.key, sent.standing, sent.has_workers) == (key, SignalStanding.KEPT, False)
        async with Database.session(read_only=True) as session:
            stored = await session.get_one(Signal, sent.id)
        assert (stored.key, stored.payload) == (key, payload)


@pytest.mark.parametrize(
    ("key", "payload", "problem"),
    [
        (":mine", 1, "key: is ':mine'; begin it with something else than a colon"),
        ("k" * 501, 1, "key: must be at most 500 bytes long"),
        ("k", "x" * (1 << 20), "payload: is larger than 1048576 bytes of JSON"),
        ("k", "x" * (10 << 20), "payload: is larger than 1048576 bytes of JSON"),
        ("k", "NUL \0", "payload: must not hold NUL"),
    ],
    ids=["colon", "long key", "large", "larger than any body", "NUL"],
)
async def test_a_signal_that_cannot_be_is_refused_by_field(
    target: Installation, key: str, payload: str, problem: str
) -> None:
    with pytest.raises(IngesterError, match=re.escape(problem)):
        await target.signal(key, payload)
    assert await rows_of("SELECT id FROM signal") == []


async def test_versions_are_told_compared_and_gone_back_to(target: Installation, tmp_path: Path) -> None:
    batch_id = await target.create_batch("files", "docs")
    for text in ("one line\n", "another line\n"):
        file = make_file(tmp_path, "a.md", text)
        await upload(target, file, batch_id)
        await run_to_its_end(target, (await target.start_workflows(batch_id, WORK)).group_id)
        await _pretend_that_it_was_parsed(text)
    assert (await target.knows(file.uri, "files"), await target.knows(file.uri, "web")) == (True, False)
    assert await target.find("A.M", 5) == [(file.uri, "files")]
    assert await target.find("nothing", 5) == []

    found, total = await target.versions(file.uri, "files", 1)
    assert ([(each.version, each.is_current, each.is_stored) for each in found], total) == ([(2, True, True)], 2)
    assert found[0].process_date.tzinfo is not None
    diff = await target.diff(file.uri, "files", None, None, context=0)
    assert (diff.from_version, diff.to_version, diff.text.added_lines, diff.text.removed_lines) == (1, 2, 1, 1)
    assert "+another line" in diff.text.unified

    done = await target.roll_back(file.uri, "files", 1, WORK)
    assert (done.version, done.is_changed, len(done.runs)) == (3, True, 1)
    await run_to_its_end(target, done.runs[0].run_group_id)
    assert not (await target.roll_back(file.uri, "files", 1, Work())).is_changed
    for wrong in (target.versions("/b", "files", 1), target.roll_back("/b", "files", 1, Work())):
        with pytest.raises(IngesterError, match="/b"):
            await wrong


async def _pretend_that_it_was_parsed(text: str) -> None:
    """What the steps of the test workflow do not make."""
    configs = dict(await rows_of("SELECT step_type, step_config_id FROM runstep"))
    doc_hash = hash_of(text.encode())
    await get_artifacts().write(doc_hash, ArtifactType.PARSED_MD, configs["parse"], text.encode())


async def test_a_question_is_asked_of_a_database(target: Installation) -> None:
    bees = document("bees", "when the bees leave the hive", source="garden", author="Ada")
    await write_documents(rag_path("library"), IDENTITY, [bees], fence=SoleWriter())
    scope: Any = {"source": "garden", "batch_id": 1, "uri_prefix": "/gar", "meta": {"author": "Ada"}}
    question = Question(text="bees", kind=SearchKind.TEXT, limit=3, db="library", **scope)
    (hit,) = await target.search(question)
    assert (hit.uri, hit.title, hit.headings) == ("/garden/bees.md", "Bees", ["Bees"])
    assert await target.search(replace(question, source="kitchen")) == []
    with pytest.raises(IngesterError, match="nothing"):
        await target.search(replace(question, db="nothing"))


async def test_who_follows_a_group_is_told_that_something_has_changed(target: Target, file: LocalFile) -> None:
    batch_id = await target.create_batch("files", "docs")
    await upload(target, file, batch_id)
    started = await target.start_workflows(batch_id, WORK)
    async with target.changes(started.group_id) as changes:
        await changes.happened.wait()
        assert changes.are_told
        while not (await target.progress(started.group_id)).is_over:
            changes.happened.clear()
            async with work_done():
                await changes.happened.wait()
    if isinstance(target, LocalInstallation):
        assert not changes.are_told


async def test_it_is_known_whether_anybody_works(target: Target) -> None:
    assert await target.has_workers() is isinstance(target, LocalInstallation)  # who works while it is watched
    async with work_done():
        assert await target.has_workers()


class _Counting(httpx.AsyncHTTPTransport):
    """Counts requests by path."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []
        self.listens = asyncio.Event()

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(request.url.path.removeprefix("/api/v1"))
        if "/events" in self.paths:
            self.listens.set()
        return await super().handle_async_request(request)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_who_waits_for_a_server_is_told_of_changes_and_asks_seldom(
    database: type[Database], file: LocalFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soliplex.ingester.installation.remote_installation.LOOKS_EVERY", 0.0)
    monkeypatch.setattr("soliplex.ingester.installation.following.LOOK_UNTOLD_EVERY", 600.0)
    get_settings.cache_clear()
    use_registry(None)
    counting = _Counting()
    async with (
        serving(create_app(with_worker=False)) as url,
        open_remote(url, tell=pytest.fail, transport=counting) as to,
    ):
        order = Order(paths=[file.path], rules=Rules(), source="files", batch_name="one", work=WORK)
        going = asyncio.create_task(Ingestion(order, to, Unwatched(), asyncio.Event()).run())
        await counting.listens.wait()
        async with work_done():
            summary = await going
    use_registry(None)
    assert (summary.has_failures, summary.progress and summary.progress.completed) == (False, 1)
    assert counting.paths.count("/events") == 1
    assert len(counting.paths) < 40, counting.paths


async def test_webhooks_are_listed_shown_and_redelivered(target: Installation) -> None:
    settings = get_settings()
    sent = [
        await send_webhook(
            NewMessage(stream=f"job-{number}", url="https://example.org", event_type="t", body=number), settings
        )
        for number in (1, 2)
    ]
    await cancel_run(sent[0].run_id)
    await cancel_run(sent[1].run_id)
    found, total = await target.webhooks(status=WebhookStatus.DEAD, stream=None, limit=1)
    assert ([each.id for each in found], total) == ([sent[1].id], 2)
    found, total = await target.webhooks(status=None, stream="job-1", limit=10)
    assert ([(each.id, each.status) for each in found], total) == ([(sent[0].id, WebhookStatus.DEAD)], 1)
    shown = await target.webhook(sent[0].id)
    assert (shown.webhook_id, shown.body, shown.tries) == (sent[0].webhook_id, "1", [])
    assert (await target.redeliver(sent[0].id)).webhooks == 1
    assert (await target.redeliver_dead(datetime.now(UTC) + timedelta(hours=1))).webhooks == 0
    assert (await target.redeliver_dead(None)).webhooks == 1
    with pytest.raises(ConflictError):
        await target.redeliver(sent[0].id)
    with pytest.raises(NotFoundError):
        await target.webhook(4711)


async def test_a_file_becomes_a_job_that_is_watched_cancelled_and_deleted(target: Installation, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nSome words.\n")
    (tmp_path / "b.zip").write_bytes(b"PK\x05\x06" + b"\x00" * 18)
    file, archive = (LocalFile(tmp_path / name, (tmp_path / name).stat().st_size) for name in ("a.md", "b.zip"))
    accepted = await target.start_job(file, {"maxsize": "900"})
    job = await target.job(accepted.jobid)
    assert (job.status, job.maxsize, job.documentid) == (JobStatus.NEW, 900, accepted.documentid)
    assert await target.articles(accepted.documentid) == []
    await target.cancel_job(accepted.jobid)
    await target.cancel_job(accepted.jobid)
    assert (await target.job(accepted.jobid)).status is JobStatus.CANCELED
    await target.delete_job(accepted.jobid)
    with pytest.raises(NotFoundError):
        await target.job(accepted.jobid)
    with pytest.raises(FileRefusedError, match="application/zip"):
        await target.start_job(archive, {})
    with pytest.raises(InvalidInputError, match="maxsize"):
        await target.start_job(file, {"maxsize": "0"})
