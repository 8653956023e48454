"""How the databases run the queries of the views: by index, however many rows the tables hold."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any, Final

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.models import Database, DocumentBatch, RunStatus
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.views import Interval, Paging, changes
from tests.conftest import BOTH
from tests.support.databases import PostgresServer
from tests.support.engine import START, Driver, errored, registry_in_use, workflow
from tests.support.plans import plans_recorded

NOW: Final = START + timedelta(hours=1)
BATCHES: Final = 10
OLD_GROUPS: Final = 30
"""Many: else most groups would be open ones, and to read every run would be the best way to find theirs."""
GROUP: Final = OLD_GROUPS + 3
"""That of the third batch."""


async def fill() -> None:
    """A long history, and beside it ten batches whose steps are in every status."""
    driver = Driver()
    async with Database.session() as session:
        session.add_all(DocumentBatch(name=f"b{number}", source="shelf") for number in range(BATCHES))
    old = workflow({"a": {}}, workflow_id="old")
    for _ in range(OLD_GROUPS):
        await driver.start(old, 15_000 // OLD_GROUPS)
        await driver.drain(limit=3_000)
    driver.pass_time(timedelta(minutes=30))
    flow = workflow({key: {"retries": 3} for key in "abcde"})
    for batch_id in range(1, BATCHES + 1):
        runs = [ops.NewRun(doc_id=f"sha256-{number}") for number in range(100)]
        await ops.create_run_group(flow, None, runs, batch_id=batch_id, now=driver.now())
    for _ in range(5):
        await driver.complete(*await driver.claim(400))
    trouble = await driver.claim(100)
    await driver.finish(*(errored(step, delay=timedelta(hours=2)) for step in trouble[:50]))
    await driver.finish(*(errored(step, permanent=True) for step in trouble[50:]))
    for number in range(5):
        await driver.claim(10, worker_id=f"worker-{number}")


async def fill_and_close(url: str) -> None:
    await Database.initialize(url)
    with registry_in_use():
        await fill()
    if Database.is_postgres():
        async with Database.engine().connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            await connection.exec_driver_sql("VACUUM ANALYZE")
    await Database.close()


@pytest.fixture(scope="module", params=BOTH)
def filled_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("views") / "filled.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        url = f"sqlite+aiosqlite:///{path}"
        asyncio.run(fill_and_close(url))
        yield url
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        with server.copy_of(request.getfixturevalue("postgres_template")) as url:
            asyncio.run(fill_and_close(url))
            yield url


@pytest.fixture
async def filled(filled_url: str) -> AsyncIterator[None]:
    await Database.initialize(filled_url)
    yield
    await Database.close()


SECOND: Final = Paging(2, 20)
VIEWS: Final[dict[str, Callable[[], Awaitable[Any]]]] = {
    "all runs": lambda: views.list_runs(paging=SECOND),
    "all runs, the oldest first": lambda: views.list_runs(oldest_first=True, paging=SECOND),
    "runs of a group, the oldest first": lambda: views.list_runs(run_group_id=GROUP, oldest_first=True, paging=SECOND),
    "runs of a batch": lambda: views.list_runs(batch_id=3, paging=SECOND),
    "runs of a group": lambda: views.list_runs(run_group_id=GROUP, paging=SECOND),
    "completed runs": lambda: views.list_runs(status=RunStatus.COMPLETED, paging=SECOND),
    "failed runs of a batch": lambda: views.list_runs(status=RunStatus.FAILED, batch_id=9),
    "runs of a document": lambda: views.list_runs(doc_id="sha256-7"),
    "a run": lambda: views.get_run_with_steps(15_100),
    "a life": lambda: views.lifecycle_of_run(15_100),
    "groups": lambda: views.list_run_groups(status=RunStatus.RUNNING),
    "stats of a group": lambda: views.run_group_stats(GROUP),
    "running steps": lambda: documents.running_steps(now=NOW),
    "recent runs": lambda: documents.recent_runs(Interval.MINUTE, now=NOW),
    "workers": lambda: views.list_workers(now=NOW),
    "locks": views.list_locks,
    "durations": lambda: views.step_durations(GROUP),
    "step stats": lambda: views.step_stats(GROUP),
    "step counts": lambda: views.step_counts(GROUP),
    "waiting events": lambda: views.count_waiting_events(GROUP),
    "throughput": lambda: views.throughput(Interval.MINUTE, now=NOW),
    "rates": lambda: views.step_rates(interval=Interval.MINUTE, now=NOW),
    "rates of a batch": lambda: views.step_rates(batch_id=3),
    "batch times": documents.batch_times,
    "changed runs": lambda: changes.changed_runs([GROUP, GROUP + 1], NOW - timedelta(minutes=1)),
    "changed runs, and those that go on": lambda: changes.changed_runs([GROUP], NOW, or_running=True),
    "steps in flight": changes.steps_in_flight,
    "steps in flight of a group": lambda: changes.steps_in_flight([GROUP]),
    "steps of runs": lambda: changes.begun_steps_of_runs([15_100, 15_101], NOW - timedelta(minutes=1)),
    "attempts of a run": lambda: views.attempts_of_run(15_100),
    "throughput by type": lambda: views.throughput_by_type(Interval.MINUTE, now=NOW),
    "failures by cause": views.failures_by_cause,
    "failures of a group by cause": lambda: views.failures_by_cause(run_group_id=GROUP),
    "what is left of a group": lambda: views.eta_of_group(GROUP, now=NOW),
    "tasks of a step": lambda: views.tasks_of_step(15_100),
    "a signal": lambda: views.standing_of_signal(1, "k"),
    "steps of a batch": lambda: views.list_steps(batch_id=3, paging=SECOND),
    **{
        f"{status} steps": lambda status=status: views.list_steps(status=status, paging=SECOND)
        for status in RunStatus
        if status is not RunStatus.COMPLETED
    },
    **{
        f"{status} steps of a batch": lambda status=status: views.list_steps(status=status, batch_id=3)
        for status in RunStatus
    },
}


@pytest.mark.parametrize("name", VIEWS)
async def test_a_view_goes_by_indexes(filled: None, name: str) -> None:
    async with plans_recorded() as plans:
        await VIEWS[name]()
    assert plans
    assert not plans.table_scans, plans.table_scans[0]
