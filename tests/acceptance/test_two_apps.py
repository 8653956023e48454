"""Two applications with two settings in one process: each has its own database, stores, definitions and worker."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import sqlalchemy as sa
import uvicorn
from fastapi import FastAPI

from soliplex.ingester.installation.values import Question, Work
from soliplex.ingester.installation.which_installation import open_installation
from soliplex.ingester.lib import webhooks
from soliplex.ingester.lib.config import Settings, load_settings
from soliplex.ingester.lib.errors import IngesterError, NotFoundError
from soliplex.ingester.lib.llm import open_chat
from soliplex.ingester.lib.models import Database, NotInitializedError
from soliplex.ingester.lib.search import SearchKind
from soliplex.ingester.lib.wf.feed import ChangeFeed, Follower
from soliplex.ingester.lib.wf.runner import Worker
from soliplex.ingester.server import create_app
from tests.support.databases import PostgresServer
from tests.support.documents import hash_of
from tests.support.engine import assert_consistent, rows_of
from tests.support.faults import eventually
from tests.support.http import client_of

ROOT: Final = Path(__file__).parents[2]
A: Final = "/api/v1"
NAMES: Final = ("garden", "kitchen")
TEXTS: Final = {
    "garden": b"# Bees\n\nOn the first warm day the bees leave the hive.\n",
    "kitchen": b"# Bread\n\nSourdough needs rye flour, water and five days of patience.\n",
}
TELL: Final = """
id: tell
name: Tell where a step runs
item_steps:
  validate: {method: tests.support.wired_handlers.on_the_loop}
  parse: {method: tests.support.wired_handlers.in_a_thread}
  chunk: {method: tests.support.wired_handlers.in_a_process, isolation: process}
"""
PARAMS: Final = """
id: own
name: Of the {name}
config:
  parse: {{parser: fast}}
  embed: {{provider: wordllama}}
  store: {{data_dir: library}}
"""
LIMITS: Final = {"garden": 1_000, "kitchen": 2_000}


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two applications, with a client that has its key."""

    name: str
    app: FastAPI
    client: httpx.AsyncClient

    @property
    def settings(self) -> Settings:
        return self.app.state.settings

    async def rows(self, statement: str, **parameters: Any) -> list[Any]:
        with self.app.state.wiring.bound():
            return await rows_of(statement, **parameters)

    async def new_batch(self) -> int:
        answer = await self.client.post(f"{A}/batch/", data={"source": "shelf", "name": self.name})
        assert answer.status_code == 201, answer.text
        return answer.json()["batch_id"]

    async def send(self, batch_id: int, uri: str, content: bytes) -> httpx.Response:
        data = {"source_uri": uri, "source": "shelf", "batch_id": str(batch_id)}
        return await self.client.post(f"{A}/document/ingest-document", data=data, files={"file": ("a.md", content)})

    async def start(self, batch_id: int, workflow_id: str) -> None:
        data = {"batch_id": str(batch_id), "workflow_definition_id": workflow_id, "param_id": "own"}
        answer = await self.client.post(f"{A}/batch/start-workflows", data=data)
        assert answer.status_code == 201, answer.text

    async def has_ended(self, batch_id: int) -> bool:
        rows = await self.rows("SELECT completed_date FROM documentbatch WHERE id = :id", id=batch_id)
        return rows[0][0] is not None

    async def hashes(self) -> set[str]:
        return {row[0] for row in await self.rows("SELECT hash FROM document")}


@pytest.fixture(params=["sqlite sqlite", "sqlite postgres", pytest.param("postgres postgres", marks=pytest.mark.slow)])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    with ExitStack() as stack:
        yield [
            _database(kind, request, tmp_path / f"{number}.db", stack) for number, kind in enumerate(_kinds(request))
        ]


def _kinds(request: pytest.FixtureRequest) -> list[str]:
    return request.param.split()


def _database(kind: str, request: pytest.FixtureRequest, path: Path, stack: ExitStack) -> str:
    if kind == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        return f"sqlite+aiosqlite:///{path}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return stack.enter_context(server.copy_of(request.getfixturevalue("postgres_template")))


def settings_of(name: str, url: str, folder: Path) -> Settings:
    data, params, workflows = folder / name, folder / f"{name}-params", folder / f"{name}-workflows"
    params.mkdir()
    (params / "own.yaml").write_text(PARAMS.format(name=name))
    (params / f"{name}.yaml").write_text(PARAMS.format(name=name).replace("id: own", f"id: {name}"))
    shutil.copytree(ROOT / "config" / "workflows", workflows)
    (workflows / "tell.yaml").write_text(TELL)
    return load_settings(
        data_dir=data,
        doc_db_url=url,
        lancedb_dir=str(folder / f"{name}-lancedb"),
        param_dir=params,
        user_param_dir=folder / f"{name}-user-params",
        workflow_dir=workflows,
        api_key_enabled=True,
        api_key=f"the key of the {name}",
        upload_size_limit=LIMITS[name],
        default_param_id="own",
        isolation_processes=1,
        worker_poll_interval_seconds=0.2,
        flow_modules=["tests.support"] if name == "garden" else [],
        llm_backend="openai" if name == "kitchen" else None,
        openai_base_url="http://127.0.0.1:9/v1" if name == "kitchen" else None,
    )


def folders_in(folder: str) -> list[str]:
    return [path.name for path in Path(folder).iterdir() if path.is_dir()]


@pytest.fixture
async def sides(urls: list[str], tmp_path: Path) -> AsyncIterator[list[Side]]:
    async with AsyncExitStack() as stack:
        found: list[Side] = []
        for name, url in zip(NAMES, urls, strict=True):
            app = create_app(settings_of(name, url, tmp_path))
            await stack.enter_async_context(app.router.lifespan_context(app))
            headers = {"Authorization": f"Bearer the key of the {name}"}
            found.append(Side(name, app, await stack.enter_async_context(client_of(app, headers=headers))))
        yield found


async def test_what_is_uploaded_to_one_is_not_seen_in_the_other(sides: list[Side]) -> None:
    batches = [await side.new_batch() for side in sides]

    async def send(number: int, side: Side, batch_id: int) -> None:
        answer = await side.send(batch_id, f"/{number}.md", f"{side.name} {number}".encode())
        assert answer.status_code == 201, answer.text

    # Uploads that arrive together are recorded together: those of one application, and no others.
    await asyncio.gather(
        *(send(number, *each) for number in range(40) for each in zip(sides, batches, strict=True)),
    )
    for side, batch_id in zip(sides, batches, strict=True):
        expected = {hash_of(f"{side.name} {number}".encode()) for number in range(40)}
        assert await side.hashes() == expected
        listed = await side.client.get(f"{A}/document/", params={"batch_id": batch_id})
        assert len(listed.json()) == 40
        stored = {path.name for path in (side.settings.file_store_dir / "raw").rglob("*") if path.is_file()}
        assert stored == expected


async def test_each_has_its_key_its_limits_and_its_definitions(sides: list[Side]) -> None:
    garden, kitchen = sides
    for side, other in ((garden, kitchen), (kitchen, garden)):
        with_the_others_key = {"Authorization": f"Bearer the key of the {other.name}"}
        assert (await side.client.get(f"{A}/batch/", headers=with_the_others_key)).status_code == 401
        found = (await side.client.get(f"{A}/workflow/param-sets")).json()
        assert {each["id"] for each in found} == {"own", side.name}
    saved = await garden.client.post(
        f"{A}/workflow/param-sets", data={"yaml_content": "id: mine\nname: Mine\nconfig: {}"}
    )
    assert saved.status_code == 201, saved.text
    assert (await garden.client.get(f"{A}/workflow/param-sets/mine")).status_code == 200
    assert (await kitchen.client.get(f"{A}/workflow/param-sets/mine")).status_code == 404
    content = b"x" * 1_500
    statuses = [(await side.send(await side.new_batch(), "/large.md", content)).status_code for side in sides]
    assert statuses == [413, 201]


async def test_steps_run_in_the_wiring_of_their_worker_wherever_they_run(sides: list[Side]) -> None:
    batches = [await side.new_batch() for side in sides]
    for number in range(6):
        for side, batch_id in zip(sides, batches, strict=True):
            await side.send(batch_id, f"/{number}.md", f"{number}".encode())
    await asyncio.gather(*(side.start(batch_id, "tell") for side, batch_id in zip(sides, batches, strict=True)))
    for side, batch_id in zip(sides, batches, strict=True):
        await eventually(
            lambda side=side, batch_id=batch_id: side.has_ended(batch_id), "the batch has ended", within=300
        )
        told = await side.rows("SELECT workflow_step_name, status, CAST(output AS text), worker_id FROM runstep")
        assert len(told) == 18
        worker: Worker = side.app.state.worker
        settings = {"data_dir": str(side.settings.data_dir), "lancedb_dir": side.settings.lancedb_dir}
        opened = {"database": sa.make_url(side.settings.doc_db_url).database, "sets": sorted(["own", side.name])}
        for step, status, output, worker_id in told:
            assert (status, worker_id) in {("COMPLETED", worker.id), ("COMPLETED", None)}
            assert json.loads(output) == settings | (opened if step != "chunk" else {})
        assert [row[0] for row in await side.rows("SELECT id FROM workercheckin")] == [worker.id]
        with side.app.state.wiring.bound():
            await assert_consistent()


async def test_documents_of_each_go_into_its_own_rag_database_and_are_found_there_alone(sides: list[Side]) -> None:
    batches = [await side.new_batch() for side in sides]
    for side, batch_id in zip(sides, batches, strict=True):
        assert (await side.send(batch_id, "/page.md", TEXTS[side.name])).status_code == 201
    await asyncio.gather(*(side.start(batch_id, "batch") for side, batch_id in zip(sides, batches, strict=True)))
    for side, batch_id in zip(sides, batches, strict=True):
        await eventually(
            lambda side=side, batch_id=batch_id: side.has_ended(batch_id), "the batch has ended", within=300
        )
    for question in ("when do bees leave the hive", "how long does sourdough take"):
        answers = await asyncio.gather(*(side.client.get(f"{A}/search", params={"q": question}) for side in sides))
        for side, answer in zip(sides, answers, strict=True):
            assert answer.status_code == 200, answer.text
            assert {hit["doc_hash"] for hit in answer.json()["results"]} == {hash_of(TEXTS[side.name])}
    for side in sides:
        assert folders_in(side.settings.lancedb_dir) == ["library"]


async def test_what_stands_outside_of_both_sees_neither(sides: list[Side]) -> None:
    with pytest.raises(NotInitializedError):
        Database.engine()
    for side in sides:
        assert (await side.client.get("/health/ready")).json()["status"] == "ready"


async def test_one_that_stops_leaves_the_other_at_work(urls: list[str], tmp_path: Path) -> None:
    garden, kitchen = (create_app(settings_of(name, url, tmp_path)) for name, url in zip(NAMES, urls, strict=True))
    headers = {"Authorization": "Bearer the key of the kitchen"}
    async with kitchen.router.lifespan_context(kitchen), client_of(kitchen, headers=headers) as client:
        async with garden.router.lifespan_context(garden):
            pass
        side = Side("kitchen", kitchen, client)
        batch_id = await side.new_batch()
        assert (await side.send(batch_id, "/page.md", b"bread")).status_code == 201
        await side.start(batch_id, "tell")
        await eventually(lambda: side.has_ended(batch_id), "the batch has ended", within=300)


async def test_a_signal_is_told_to_those_that_live_and_to_whoever_was_told_before(tmp_path: Path) -> None:
    told: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    try:
        apps = [create_app(load_settings(data_dir=tmp_path / name), with_worker=False) for name in NAMES]
        lives = [app.router.lifespan_context(app) for app in apps]
        for life in lives:
            await life.__aenter__()
        await lives[0].__aexit__(None, None, None)
        feed: ChangeFeed = apps[1].state.feed
        with apps[1].state.wiring.bound():
            async with feed.following(Follower()) as follower:
                signal.raise_signal(signal.SIGTERM)
                assert told == [signal.SIGTERM]
                assert await follower.next() is None, "the stream ends"
        await lives[1].__aexit__(None, None, None)
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_connections_have_the_limits_of_the_application_they_lead_to(tmp_path: Path) -> None:
    from soliplex.ingester.server.connections import BoundedConnection

    found: list[int] = []
    for name, limit in (("garden", 5_000), ("kitchen", 9_000)):
        app = create_app(
            load_settings(data_dir=tmp_path / name, request_head_limit=limit, trusted_hosts=["localhost"]),
            with_worker=False,
        )
        async with app.router.lifespan_context(app) as state:
            config = uvicorn.Config(app, log_config=None)
            config.load()
            connection = BoundedConnection(
                config=config, server_state=uvicorn.Server(config).server_state, app_state=dict(state or {})
            )
            found.append(connection._limit)  # pyright: ignore[reportPrivateUsage]  there is no other way to see it
    assert found == [5_000, 9_000]


async def test_two_installations_are_asked_in_turn_and_answer_for_themselves(urls: list[str], tmp_path: Path) -> None:
    garden, kitchen = (settings_of(name, url, tmp_path) for name, url in zip(NAMES, urls, strict=True))
    async with open_installation(settings=garden) as first, open_installation(settings=kitchen) as second:
        batch_id = await first.create_batch("shelf", "one")
        assert await first.unfinished_batch("shelf", "one") == batch_id
        assert await second.unfinished_batch("shelf", "one") is None
        await second.check(Work(workflow_id="tell", param_id="kitchen"))
        with pytest.raises(IngesterError, match="kitchen"):
            await first.check(Work(workflow_id="tell", param_id="kitchen"))
        async with first.working(), second.working():
            assert (await first.groups(10), await second.groups(10)) == (([], 0), ([], 0))
        with pytest.raises(NotFoundError, match="library"):
            await second.search(Question(text="bees", kind=SearchKind.TEXT, limit=3, db="library"))


async def test_keys_audits_flows_goals_webhooks_and_jobs_of_one_are_not_known_to_the_other(sides: list[Side]) -> None:
    garden, kitchen = sides
    made = await garden.client.post(f"{A}/keys", json={"name": "gardener", "scopes": ["read"]})
    assert made.status_code == 201, made.text
    named = {"Authorization": f"Bearer {made.json()['key']}"}
    assert (await garden.client.get(f"{A}/batch/", headers=named)).status_code == 200
    assert (await kitchen.client.get(f"{A}/batch/", headers=named)).status_code == 401
    step = {"name": "tell", "type": "task", "command": "tests.support.wired_handlers.on_the_loop"}
    flow = {"slug": "tell-flow", "definition": {"title": "Tell", "version": "1", "steps": [step]}}
    statuses = [(await side.client.post(f"{A}/flows/", json=flow)).status_code for side in sides]
    assert statuses == [201, 400], "FLOW_MODULES of the kitchen names no module"
    goal = {"goal": "search for bees"}
    started = await garden.client.post(f"{A}/goals/", json=goal)
    assert started.status_code == 201, started.text
    job = await garden.client.post("/jobs", files={"uploadfile": ("a.md", b"# Bees\n\nThe bees leave the hive.\n")})
    assert job.is_success, job.text
    await send_webhook(garden)
    expected = {path: [1, 0] for path in ("/keys", "/flows/", "/goals/", "/webhooks", "/segmenter/jobs/")}
    for path, counts in {**expected, "/audit": [3, 1]}.items():
        found = [await side.client.get(f"{A}{path}") for side in sides]
        assert [answer.status_code for answer in found] == [200, 200], path
        assert [_count(answer.json()) for answer in found] == counts, path
    with_model = [side.app.state.wiring.made(open_chat) is not None for side in sides]
    assert with_model == [False, True], "only the settings of the kitchen name a language model"


def _count(answer: Any) -> int:
    listed = answer if isinstance(answer, list) else next(it for it in answer.values() if isinstance(it, list))
    return len(listed)


async def send_webhook(side: Side) -> None:
    message = webhooks.NewMessage(url="http://127.0.0.1:9/hook", stream="one", event_type="told", body={})
    with side.app.state.wiring.bound():
        await webhooks.send_webhook(message, side.settings)
