"""Services that are away for a while, on real sockets: refused, then 503, then silent, then back.

Steps wait in ERROR, each time for longer; nothing is lost, and nobody has to do anything. The worker's clock is the
test's: no test waits for a back-off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.parsing.serve import DoclingServeParser
from soliplex.ingester.lib.parsing.serve.servers import PAUSES, Servers
from soliplex.ingester.lib.rag.locking import rag_path
from soliplex.ingester.lib.rag.opening import open_rag
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.wf.operations.groups import anything_left
from soliplex.ingester.lib.wf.runner import Worker, WorkerConfig
from soliplex.ingester.lib.workflow import parsing
from tests.support.docling_serve import FakeDoclingServe
from tests.support.embedding_server import Failure, embedding_server
from tests.support.engine import rows_of
from tests.support.faults import eventually
from tests.support.files import pdf
from tests.support.pipelines import outcomes, registry_with, start
from tests.support.serving import free_port

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

EMBEDDED = """
  parse: {{parser: fast}}
  chunk: {{chunk_size: 64}}
  embed: {{provider: {provider}, model: a-model}}
  store: {{data_dir: library}}
"""
PARSED = """
  parse: {parser: docling-serve}
  chunk: {chunk_size: 64}
  embed: {provider: wordllama}
  store: {data_dir: library}
"""
DOCUMENTS = 3
TEXTS = {f"{number}.md": f"# Note {number}\n\nThis is note number {number}.\n".encode() for number in range(DOCUMENTS)}
PAGES = {f"{number}.pdf": pdf(f"This is document number {number}.") for number in range(DOCUMENTS)}
BREAKER_CLOSES = PAUSES.longest


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self._now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self._now

    def seconds(self) -> float:
        return self._now.timestamp()

    def pass_by(self, duration: timedelta) -> None:
        self._now += duration


class Waiting(NamedTuple):
    """A step that waits for its next attempt."""

    status: str
    retry: int
    message: str
    until: str


class Scene:
    """A worker on the test's clock, and steps of one name that fail and wait."""

    def __init__(self, time: Time, step: str) -> None:
        self._time = time
        self._step = step
        self._attempts = 0
        self.wait = timedelta()
        """Until the last of the steps is tried again."""

    async def attempt_fails(self, words: str, more: timedelta = timedelta()) -> None:
        """Let the time of the next attempt come, and see all steps fail it with these words."""
        self._time.pass_by(self.wait + more)
        self._attempts += 1
        await eventually(self._have_tried, f"attempt {self._attempts} at {self._step} fails: {words}")
        waiting = await self._waiting()
        assert {each.status for each in waiting} == {"ERROR"}, waiting
        assert all(words in each.message and "\n" not in each.message for each in waiting), waiting
        until = max(datetime.fromisoformat(each.until).replace(tzinfo=UTC) for each in waiting)
        self.wait = until - self._time()

    async def _have_tried(self) -> bool:
        return [each.retry for each in await self._waiting()] == [self._attempts] * DOCUMENTS

    async def _waiting(self) -> list[Waiting]:
        rows = await rows_of(
            """SELECT status, retry, status_message, available_at FROM runstep
                WHERE workflow_step_name = :step AND available_at IS NOT NULL""",
            step=self._step,
        )
        return [Waiting(*row) for row in rows]


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the database, which reads the settings."""
    monkeypatch.setenv("EMBED_HTTP_TIMEOUT_SECONDS", "0.3")
    monkeypatch.setenv("OPENAI_API_KEY", "any")


@pytest.fixture
async def worker(impatient: None, database: type[Database], time: Time) -> AsyncIterator[Worker]:
    worker = Worker(WorkerConfig(poll_interval=0.05), clock=time)
    await worker.start()
    yield worker
    await worker.stop()
    use_registry(None)


async def assert_all_is_there(batch_id: int, time: Time) -> None:
    """As time goes by: of a server that may be well again, one document at a time makes sure."""

    async def has_ended() -> bool:
        time.pass_by(timedelta(seconds=5))
        return not await anything_left()

    await eventually(has_ended, "all documents are through")
    ended = await outcomes(batch_id)
    assert [(each.status, each.step) for each in ended.values()] == [("COMPLETED", "store")] * DOCUMENTS, ended
    async with open_rag(rag_path("library"), None, read_only=True) as rag:
        assert await rag.count_documents() == DOCUMENTS
    done = await rows_of("SELECT action, count(*) FROM documenturihistory GROUP BY action")
    assert dict(done) == dict.fromkeys(("created", "parsed", "chunked", "embedded", "ingested"), DOCUMENTS)


@pytest.mark.parametrize("provider", ["ollama", "openai"])
async def test_documents_wait_for_an_embedding_server(
    worker: Worker, time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    port = free_port()
    monkeypatch.setenv("OLLAMA_BASE_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("EMBED_LLM_URL", f"http://127.0.0.1:{port}/v1")
    get_settings.cache_clear()
    use_registry(registry_with(tmp_path / "params", EMBEDDED.format(provider=provider)))
    batch_id, scene = await start(TEXTS, "batch"), Scene(time, "embed")

    waits: list[timedelta] = []
    for _ in range(5):
        await scene.attempt_fails("cannot be reached")
        waits.append(scene.wait)
    assert all(second > first * 1.5 for first, second in pairwise(waits)), waits
    async with embedding_server(port) as server:
        server.failures = [Failure(503, "starting")] * (DOCUMENTS + 1)
        await scene.attempt_fails("answered 503")
        server.failures = []
        server.silence = asyncio.Event()
        await scene.attempt_fails("did not answer within 0.3 seconds")
        server.silence.set()
        await assert_all_is_there(batch_id, time)


async def test_documents_wait_for_docling_serve(
    worker: Worker, time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    parser = parse_by(monkeypatch, time, f"http://127.0.0.1:{port}/v1")
    use_registry(registry_with(tmp_path / "params", PARSED))
    batch_id, scene = await start(PAGES, "batch_split"), Scene(time, "parse")

    await scene.attempt_fails("it cannot be reached")
    async with FakeDoclingServe(port) as server:
        server.fail_with = 503
        await scene.attempt_fails("docling-serve", more=BREAKER_CLOSES)
        server.fail_with, server.hold = None, asyncio.Event()
        parser._timeout = 0.3
        await scene.attempt_fails("docling-serve", more=BREAKER_CLOSES)
        parser._timeout = 60
        server.hold.set()
        await assert_all_is_there(batch_id, time)


async def test_one_of_two_docling_serves_takes_all(
    worker: Worker, time: Time, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FakeDoclingServe() as server:
        dead = f"http://127.0.0.1:{free_port()}/v1"
        parse_by(monkeypatch, time, dead, server.url)
        use_registry(registry_with(tmp_path / "params", PARSED))
        await assert_all_is_there(await start(PAGES, "batch_split"), time)
        assert len(server.submitted) == DOCUMENTS
        assert await rows_of("SELECT id FROM runstep WHERE retry > 0") == []


def parse_by(monkeypatch: pytest.MonkeyPatch, time: Time, *urls: str) -> DoclingServeParser:
    """Have documents parsed on these servers, whose breakers go by the test's clock."""
    parser = DoclingServeParser(urls, timeout=60, servers=Servers(urls, clock=time.seconds))
    monkeypatch.setattr(parsing, "parser_named", lambda _name: parser)
    return parser
