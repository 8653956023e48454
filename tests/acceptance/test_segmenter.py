"""The segmenter as its clients meet it: real servers over HTTP, replicas, receivers of callbacks, killed processes."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks.webhooks import Webhook

from soliplex.ingester.segmenter.jobs.standing import TIMED_OUT
from tests.support.chat_server import ChatServer, Failure, Silence, chat_server
from tests.support.faults import eventually
from tests.support.receiver import CLOSES, Answer, Receiver, receiver
from tests.support.segmenting import THREE, ended, job_of, segmenting, segments_of, send, until
from tests.support.serving import Server

SECRET = "c2VjcmV0IG9mIHRoZSBzZWdtZW50ZXIgdGVzdHM="
STALLS = b"# STALL EVERYWHERE\n\nThis document keeps its reader in C.\n"
FINAL = {"COMPLETED", "FAILED", "CANCELED"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("segmenter")


@pytest.fixture(scope="module")
def back(folder: Path) -> Iterator[Server]:
    """A replica that works."""
    with segmenting(folder, afresh=True, WEBHOOK_SIGNING_SECRET=SECRET, ISOLATION_PROCESSES="1") as server:
        yield server


@pytest.fixture(scope="module")
def front(folder: Path, back: Server) -> Iterator[Server]:
    """A replica that clients talk to, and that does no work."""
    with segmenting(folder, "--no-worker", WEBHOOK_SIGNING_SECRET=SECRET) as server:
        yield server


@pytest.fixture
async def client(front: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=front.url, timeout=60) as client:
        yield client


@pytest.fixture
async def hooks() -> AsyncIterator[Receiver]:
    async with receiver() as hooks:
        yield hooks


def statuses(hooks: Receiver) -> list[str]:
    return [each.content["status"] for each in hooks.taken]


async def told_the_end(hooks: Receiver) -> dict[str, Any]:
    """The last message, once it has come."""
    await eventually(lambda: bool(FINAL & set(statuses(hooks))), "the end is told", within=300)
    return hooks.taken[-1].content


async def test_a_document_sent_to_one_replica_becomes_articles_on_another_at_both_addresses(
    client: httpx.AsyncClient, hooks: Receiver
) -> None:
    hooks.answers += [CLOSES, Answer(500)]
    accepted = await send(client, THREE, callbackurl=f"{hooks.url}/done", usetags='["ports", "cooking"]')
    assert accepted["success"] is True
    job = await ended(client, accepted["jobid"])
    assert (job["status"], job["progress"], job["documentid"]) == ("COMPLETED", 100, accepted["documentid"])
    articles = await segments_of(client, accepted["documentid"])
    assert {tuple(each["tags"]) for each in articles} == {("ports",)}

    last = await told_the_end(hooks)
    assert (last["status"], last["progress"]) == ("COMPLETED", 100)
    assert [each["id"] for each in last["segments"]] == [each["id"] for each in articles]
    assert last["segments"][0]["body"] == articles[0]["body"]
    assert statuses(hooks)[:-1] == ["PROCESSING"] * (len(hooks.taken) - 1)
    assert len(hooks.taken) >= 2
    before = [each["id"] for message in hooks.taken[:-1] for each in message.content["segments"]]
    assert len(before) == len(set(before)), "what is told as progress is told once"
    tried = [each.id for each in hooks.deliveries]
    assert tried[0] == tried[1] == tried[2], "a message that is sent again has the same id"
    for delivery in hooks.taken:
        Webhook(SECRET).verify(delivery.body, delivery.headers)

    for prefix in ("", "/api/v1/segmenter"):
        listed = (await client.get(f"{prefix}/jobs/")).json()["items"]
        assert accepted["jobid"] in {each["id"] for each in listed}
        assert (await client.get(f"{prefix}/documents/{accepted['documentid']}")).json()["status"] == "PROCESSED"
        assert (await client.get(f"{prefix}/segments/{articles[0]['id']}")).json() == articles[0]
        named = (await client.get(f"{prefix}/documents/", params={"id": [accepted["documentid"], 4711]})).json()
        assert [each["filename"] for each in named["items"]] == ["harbours.md"]
        text = await client.get(f"{prefix}/documents/{accepted['documentid']}/text")
        assert text.text.startswith("# Harbours")
        assert (await client.get(f"{prefix}/debug/health")).json()["status"] == "ok"
        assert (await client.get(f"{prefix}/debug/health_with_details")).json()["checks"]["database"]["status"] == "ok"
    metrics = (await client.get("/metrics")).text
    assert 'soliplex_segmenter_jobs{status="COMPLETED"}' in metrics
    stream = {"stream": f"segmenter:{accepted['jobid']}"}
    assert (await client.get("/api/v1/webhooks", params=stream)).json() != []
    assert (await client.delete(f"/jobs/{accepted['jobid']}")).status_code == 204
    assert (await client.get("/api/v1/webhooks", params=stream)).json() == []
    for path in (
        f"/jobs/{accepted['jobid']}",
        f"/documents/{accepted['documentid']}",
        f"/segments/{articles[0]['id']}",
    ):
        assert (await client.get(path)).status_code == 404


async def test_a_replica_cancels_what_the_worker_of_another_is_stuck_in_and_the_caller_is_told(
    client: httpx.AsyncClient, hooks: Receiver
) -> None:
    job_id = (await send(client, STALLS, callbackurl=hooks.url))["jobid"]
    await until(client, job_id, processing_stage="converting")
    answer = await client.patch(f"/jobs/{job_id}", json={"status": "CANCELED"})
    assert (answer.status_code, answer.json()["status"]) == (200, "CANCELED")
    assert (await client.patch(f"/jobs/{job_id}", json={"status": "CANCELED"})).status_code == 409
    assert (await told_the_end(hooks))["status"] == "CANCELED"
    # The only process that reads documents was stuck in C: it was ended, and another reads.
    other = (await send(client, THREE))["jobid"]
    assert (await ended(client, other))["status"] == "COMPLETED"


async def test_a_job_that_runs_is_stopped_and_gone_when_it_is_deleted(client: httpx.AsyncClient) -> None:
    accepted = await send(client, STALLS + b"Deleted.\n")
    await until(client, accepted["jobid"], processing_stage="converting")
    assert (await client.delete(f"/jobs/{accepted['jobid']}")).status_code == 204
    assert (await client.get(f"/jobs/{accepted['jobid']}")).status_code == 404
    assert (await client.get(f"/documents/{accepted['documentid']}/segments")).status_code == 404
    assert (await ended(client, (await send(client, THREE))["jobid"]))["status"] == "COMPLETED"


async def test_a_failed_job_says_all_about_it_and_its_caller_is_told(
    client: httpx.AsyncClient, hooks: Receiver
) -> None:
    accepted = await send(client, b"%PDF-1.4 and nothing else", "broken.pdf", callbackurl=hooks.url)
    job = await ended(client, accepted["jobid"])
    assert job["status"] == "FAILED"
    assert "Traceback" in job["errormessage"]
    assert await told_the_end(hooks) == {"status": "FAILED", "progress": job["progress"], "segments": []}
    failed = (await client.get("/jobs/", params={"status": "FAILED"})).json()["items"]
    assert accepted["jobid"] in {each["id"] for each in failed}
    answer = await client.post(f"/jobs/{accepted['jobid']}/retry")
    assert (answer.status_code, answer.json()["status"] in {"PENDING", "PROCESSING"}) == (200, True)
    assert (await ended(client, accepted["jobid"]))["status"] == "FAILED"


async def test_a_job_is_final_at_its_time_though_its_parser_is_stuck_in_c(
    client: httpx.AsyncClient, hooks: Receiver, folder: Path
) -> None:
    job_id = (await send(client, STALLS + b"For ever.\n", callbackurl=hooks.url))["jobid"]
    await until(client, job_id, processing_stage="converting")
    assert await seconds_until_it_is_over(folder, job_id) == pytest.approx(600, abs=30), "JOB_TIMEOUT_SECONDS"
    let_time_pass(folder, job_id)
    job = await ended(client, job_id)
    assert (job["status"], job["errormessage"]) == ("FAILED", TIMED_OUT)
    assert 0 <= seconds_beyond_its_time(folder, job_id) <= 5
    assert (await told_the_end(hooks))["status"] == "FAILED"
    assert (await ended(client, (await send(client, THREE))["jobid"]))["status"] == "COMPLETED"
    assert (await client.post(f"/jobs/{job_id}/retry")).status_code == 200
    await until(client, job_id, status="PROCESSING", processing_stage="converting")
    assert await seconds_until_it_is_over(folder, job_id) == pytest.approx(600, abs=30), "it has its time once more"
    assert (await client.delete(f"/jobs/{job_id}")).status_code == 204


async def test_a_job_is_final_at_its_time_though_its_worker_is_stopped(
    client: httpx.AsyncClient, folder: Path, back: Server
) -> None:
    job_id = (await send(client, STALLS + b"Stopped.\n"))["jobid"]
    await until(client, job_id, processing_stage="converting")
    await seconds_until_it_is_over(folder, job_id)
    await stopped(back, database_in(folder))
    try:
        # No other worker lives: the replica that is asked ends the job by itself.
        let_time_pass(folder, job_id)
        job = await ended(client, job_id)
    finally:
        back.signal(signal.SIGCONT)
    assert (job["status"], job["errormessage"]) == ("FAILED", TIMED_OUT)
    assert 0 <= seconds_beyond_its_time(folder, job_id) <= 5
    assert (await ended(client, (await send(client, THREE))["jobid"]))["status"] == "COMPLETED", "it works again"
    assert (await job_of(client, job_id))["status"] == "FAILED", "what it still did changed nothing"


def database_in(folder: Path) -> Path:
    return folder / "data" / "documents.db"


async def seconds_until_it_is_over(folder: Path, job_id: str) -> float:
    """How much time the job has left, once it has begun."""
    query = "SELECT deadline FROM workflowrun WHERE run_key = ?"
    found: list[str | None] = [None]

    def is_known() -> bool:
        with closing(sqlite3.connect(database_in(folder))) as connection:
            found[0] = connection.execute(query, [job_id]).fetchone()[0]
        return found[0] is not None

    await eventually(is_known, "the job has its time")
    return (datetime.fromisoformat(f"{found[0]}+00:00") - datetime.now(UTC)).total_seconds()


def seconds_beyond_its_time(folder: Path, job_id: str) -> float:
    """How long after its time was over the job ended, as the database tells."""
    query = "SELECT deadline, completed_date FROM workflowrun WHERE run_key = ?"
    with closing(sqlite3.connect(database_in(folder))) as connection:
        deadline, completed = map(datetime.fromisoformat, connection.execute(query, [job_id]).fetchone())
    return (completed - deadline).total_seconds()


def let_time_pass(folder: Path, job_id: str) -> None:
    """Until the job's time is over."""
    with closing(sqlite3.connect(database_in(folder), timeout=30)) as connection, connection:
        now = datetime.now(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
        connection.execute("UPDATE workflowrun SET deadline = ? WHERE run_key = ?", [now, job_id])


async def stopped(server: Server, database: Path) -> None:
    """Stop the process, and not while it holds the database, which it would then hold for ever."""

    async def stands_still_and_holds_nothing() -> bool:
        server.signal(signal.SIGSTOP)
        try:
            with closing(sqlite3.connect(database, timeout=0.2, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            server.signal(signal.SIGCONT)
            return False
        return True

    await eventually(stands_still_and_holds_nothing, "the server stands still")


async def test_an_article_that_cannot_be_tagged_fails_alone_and_a_killed_server_goes_on_where_it_was(
    tmp_path: Path, hooks: Receiver
) -> None:
    hooks.answer = lambda _delivery: Answer(503)
    async with chat_server() as model:
        model.answer = lambda question: Silence() if len(tagged(model)) > 2 else answers_of(question)
        settings = {
            "LLM_BACKEND": "openai",
            "OPENAI_BASE_URL": model.address,
            "OPENAI_API_KEY": "key",
            "WORKER_TASK_COUNT": "1",
            "LLM_MAX_RETRIES": "0",
        }
        with segmenting(tmp_path, afresh=True, **settings) as server:
            async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
                content = THREE.replace(b"Marseille", b"POISON")
                accepted = await send(client, content, callbackurl=hooks.url, maxtags="2")
                await eventually(lambda: len(hooks.deliveries) > 1, "progress was told in vain")
                await eventually(lambda: len(tagged(model)) > 2, "the third article is being tagged")
            server.stop(signal.SIGKILL)
        before = len(tagged(model))
        hooks.answer, model.answer = lambda _delivery: Answer(), answers_of
        with segmenting(tmp_path, afresh=True, **settings) as server:
            async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
                job = await ended(client, accepted["jobid"])
                articles = await segments_of(client, accepted["documentid"])
                last = await told_the_end(hooks)
    assert job["status"] == "COMPLETED"
    assert "1 of" in job["errormessage"]
    failed = [each for each in articles if each["status"] == "FAILED"]
    assert ["POISON" in each["body"] for each in failed] == [True]
    assert "language model" in failed[0]["errormessage"]
    assert {tuple(each["tags"]) for each in articles if each not in failed} == {("ships", "towns")}
    assert len(last["segments"]) == len(articles)
    ids = [each.id for each in hooks.deliveries]
    assert ids.index(hooks.taken[0].id) == 0, "the message that was tried before the kill is the first to arrive"
    assert set(tagged(model)[:2]).isdisjoint(tagged(model)[before:]), "what was done before the kill is not done again"


def answers_of(question: dict[str, Any]) -> str | Failure:
    text = str(question["messages"])
    if "ISO 639-1" in text:
        return '{"language": "en"}'
    return Failure(400) if "POISON" in text else '{"tags": ["ships", "towns"]}'


def tagged(model: ChatServer) -> list[str]:
    """The articles whose tags were asked for."""
    return [text for each in model.asked if "ISO 639-1" not in (text := str(each["messages"]))]
