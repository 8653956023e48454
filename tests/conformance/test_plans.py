"""How the databases run the engine's statements: by index, never by reading a table through or sorting what waits.

The tables are filled as they are in use: thousands of steps that wait, run, are delayed, blocked and done. The planner
may choose a sequential scan wherever it thinks it better; it must not think so.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest
import sqlalchemy as sa

from soliplex.ingester.lib.models import Database, Payload, ResourceLockKind
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import PostgresLink
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.sql import SQL
from tests.conftest import BOTH
from tests.support.databases import PostgresServer
from tests.support.engine import (
    START,
    Driver,
    assert_consistent,
    completed,
    errored,
    expanded,
    linear,
    parked,
    registry_in_use,
    scalar,
    workflow,
)

NOW: Final = START + timedelta(hours=1)
IDS: Final = [101, 102, 2101]
BY_NAME: Final = {statement.name: statement for statement in SQL}


async def fill() -> None:
    """Some thirty thousand steps in every state, with the events, locks and workers that go with them."""
    driver = Driver()
    big = workflow({key: {"retries": 3} for key in "abcde"}, events={"item_end": ["tell"]})
    await driver.start(big, 3_000)
    for _ in range(10):
        await driver.finish(*(completed(step, {"n": 1}) for step in await driver.claim(400)))
    while deliveries := await ops.claim_events("teller", 500, now=driver.now()):
        for delivery in deliveries[:5]:
            await ops.complete_event(delivery, now=driver.now())
    trouble = await driver.claim(300)
    await driver.finish(*(errored(step, delay=timedelta(hours=2)) for step in trouble[:150]))
    await driver.finish(*(errored(step, permanent=True) for step in trouble[150:]))
    done = workflow({"a": {}}, workflow_id="done")
    await driver.start(done, 12_000, priority=1)
    for _ in range(2):
        await driver.complete(*await driver.claim(4_000))
    wide = workflow({"m": {"map": True}}, workflow_id="wide")
    await driver.start(wide, 1)
    (step,) = await driver.claim(1, types=["m"])
    await driver.finish(expanded(step, range(2_000)))
    store = workflow({"store": {}}, workflow_id="store")
    for number in range(60):
        await driver.start(store, 30, resource_keys={"store": f"key-{number:02}"})
    for number in range(20):
        worker = f"worker-{number}"
        await ops.check_in(worker, now=driver.now())
        await driver.claim(5, worker_id=worker)
        key = f"other-{number}"
        await ops.acquire_resource_lock(key, key, ResourceLockKind.WEB, ttl=timedelta(days=1), now=driver.now())
    await fill_with_waiting_steps(driver)
    await fill_with_payloads()
    assert await scalar("SELECT count(*) FROM runstep") > 30_000


async def fill_with_waiting_steps(driver: Driver) -> None:
    """Steps that wait, signals that nobody waits for, a few new ones, and runs with a deadline."""
    waiting = workflow({"waiting": {}}, workflow_id="waiting")
    await driver.start(waiting, 3_000, priority=2)
    steps = await driver.claim(3_000, types=["waiting"])
    await driver.finish(*(parked(step, awaits=f"key-{step.id}") for step in steps))
    for number in range(1_000):
        await driver.signal(f"nobody-{number}")
    await driver.deliver()
    for step in steps[:20]:
        await driver.signal(f"key-{step.id}")
    for number in range(50):
        late = driver.now() + timedelta(days=1)
        await ops.start_run(waiting, run=ops.NewRun(key=f"k-{number}"), deadline=late, now=driver.now())


async def fill_with_payloads() -> None:
    """Payloads of runs and states of steps, as rows alone: large ones would take long."""
    async with Database.session() as session:
        session.add_all(Payload(workflow_run_id=n, step_id=n, is_state=n % 2 == 0, content="[]") for n in range(4_000))
        await session.commit()


async def fill_and_close(url: str) -> None:
    await Database.initialize(url)
    with registry_in_use():
        await fill()
        await assert_consistent()
    if Database.is_postgres():
        async with Database.engine().connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            await connection.exec_driver_sql("VACUUM ANALYZE")
    await Database.close()


class Planner:
    """Tells how a database would run a statement."""

    database: str

    def plans(self, name: str, parameters: dict[str, Any]) -> list[str]:
        """One plan for every way in which the engine may come to run the statement."""
        raise NotImplementedError


class SqlitePlanner(Planner):
    database = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path

    def plans(self, name: str, parameters: dict[str, Any]) -> list[str]:
        connection = sqlite3.connect(self.path)
        given = {key: value.text() if isinstance(value, Json) else str(value) for key, value in parameters.items()}
        try:
            rows = connection.execute(f"EXPLAIN QUERY PLAN {BY_NAME[name].sqlite}", given).fetchall()
        finally:
            connection.close()
        return ["\n".join(row[3] for row in rows)]


class PostgresPlanner(Planner):
    database = "postgres"

    def __init__(self, url: str) -> None:
        self.url = sa.make_url(url)

    def plans(self, name: str, parameters: dict[str, Any]) -> list[str]:
        return asyncio.run(self._plans(name, parameters))

    async def _plans(self, name: str, parameters: dict[str, Any]) -> list[str]:
        connection = await asyncpg.connect(
            user=self.url.username,
            password=self.url.password,
            host=str(self.url.query.get("host") or self.url.host),
            port=self.url.port,
            database=self.url.database,
        )
        statement = BY_NAME[name]
        values = ", ".join(literal(parameters[key]) for key in statement.postgres_order)
        try:
            await connection.execute(f"PREPARE it AS {statement.postgres}")
            execute = f"EXECUTE it({values})" if values else "EXECUTE it"
            plans: list[str] = []
            # The plan for these values, and the one for any values that a prepared statement ends up with.
            for mode in ("force_custom_plan", "force_generic_plan"):
                await connection.execute(f"SET plan_cache_mode = {mode}")
                rows = await connection.fetch(f"EXPLAIN {execute}")
                plans.append("\n".join(row[0] for row in rows))
            return plans
        finally:
            await connection.close()


def literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool() | int():
            return str(value)
        case Json():
            return literal(value.text())
        case datetime():
            return f"'{value.isoformat()}'"
        case list():
            return literal("{" + ",".join(str(each) for each in value) + "}")
        case _:
            return "'" + str(value).replace("'", "''") + "'"


@pytest.fixture(scope="module", params=BOTH)
def planner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("plans") / "filled.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        asyncio.run(fill_and_close(f"sqlite+aiosqlite:///{path}"))
        yield SqlitePlanner(path)
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        with server.copy_of(request.getfixturevalue("postgres_template")) as url:
            asyncio.run(fill_and_close(url))
            yield PostgresPlanner(url)


@dataclass(frozen=True)
class Hot:
    """A statement that is run all the time, and the index it is made for."""

    index: str = ""
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    sorts: bool = False
    """It may put a handful of rows into order."""
    on: str = "either"
    """The database it is for."""


RESULTS: Final = Json([{"id": step, "lease": "x", "message": "m", "tasks": 2, "output": 1} for step in IDS])
WORKER: Final = {"worker_id": "worker-3", "lease": "x", "now": NOW, "limit": 100}
NEW_RUNS: Final = {
    "workflow_id": "w",
    "batch_id": None,
    "priority": 0,
    "now": NOW,
    "runs": Json([{}]),
    "steps": 1,
    "templates": Json([]),
    "edges": Json([]),
    "channel": "c",
    "ready_types": "",
    "start_at": None,
    "deadline": None,
    "definition_id": None,
}
HOT: Final[dict[str, Hot]] = {
    # claiming
    "promote_due_steps": Hot("ix_runstep_available_at", {"now": NOW}),
    "look_for_work": Hot("ix_runstep_ready"),
    "next_free_key": Hot(
        "ix_runstep_ready_keyed", {"step_type": "store", "after": "key-07", "now": NOW, "waiter": "w"}
    ),
    "claim_ready": Hot("ix_runstep_ready", WORKER | {"step_type": "b"}),
    "claim_and_start": Hot(
        "ix_runstep_ready",
        WORKER | {"types": ["a", "b"], "listeners": Json([]), "known_definitions": 0},
        sorts=True,
        on="postgres",
    ),
    "claim_ready_keyed": Hot("ix_runstep_ready_keyed", WORKER | {"step_type": "store", "resource_key": "key-09"}),
    "claimed_runs": Hot("workflowrun", {"ids": IDS}),
    "runs_by_id": Hot("workflowrun", {"ids": IDS}),
    "start_runs": Hot("workflowrun", {"ids": IDS, "now": NOW}),
    "insert_runs": Hot("ix_runstep_running", NEW_RUNS | {"group_id": 3}, sorts=True, on="sqlite"),
    "insert_runs_with_steps": Hot("ix_runstep_running", NEW_RUNS | {"group_id": 3}, sorts=True, on="postgres"),
    "insert_group_with_runs": Hot(
        "ix_runstep_running", NEW_RUNS | {"name": "g", "param_id": "p", "total": 1}, sorts=True, on="postgres"
    ),
    # finishing
    "lock_runs": Hot("workflowrun", {"ids": IDS}, sorts=True),
    "run_ids_of_steps": Hot("runstep", {"ids": IDS}, sorts=True),
    "complete_steps": Hot("runstep", {"results": RESULTS, "now": NOW}),
    "error_steps": Hot("runstep", {"results": RESULTS, "now": NOW}),
    "release_steps": Hot("runstep", {"results": RESULTS, "now": NOW}),
    "fail_steps": Hot("", {"ids": IDS, "now": NOW}),
    "release_dependents": Hot("runstepdependency", {"ids": IDS}, sorts=True),
    "claim_dependents": Hot(
        "runstepdependency",
        {"ids": IDS, "types": ["a", "b"], "strange_runs": IDS, "worker_id": "w", "lease": "x", "now": NOW},
        sorts=True,
    ),
    "cancel_waiting_steps": Hot("ix_runstep_workflow_run_id", {"ids": IDS, "now": NOW}),
    "cancel_waiting_tasks": Hot("ix_runstep_parent_step_id", {"ids": IDS, "now": NOW}),
    "mark_runs_stopping": Hot("workflowrun", {"ids": IDS, "now": NOW}),
    "advance_runs": Hot("workflowrun", {"runs": Json([{"id": 7, "ended": 1, "failed": 0}]), "now": NOW}),
    "advance_runs_by_one": Hot("workflowrun", {"ids": IDS, "now": NOW}),
    "gather_run_outputs": Hot("ix_runstep_workflow_run_id", {"ids": IDS}),
    "drop_locks_of_leases": Hot("ix_runstep_running", {"leases": ["x", "y"]}),
    # maps
    "await_tasks": Hot("runstep", {"results": RESULTS}),
    "expand_maps": Hot("runstep", {"maps": Json([{"id": 7, "first": 0, "items": [1, 2]}]), "now": NOW}),
    "parents_by_id": Hot("runstep", {"ids": IDS}),
    "advance_parents": Hot("runstep", {"parents": Json([{"id": 7, "remaining": 1, "failed": 0}])}),
    "count_tasks": Hot("ix_runstep_parent_step_id", {"ids": IDS}, sorts=True),
    "complete_parents": Hot(
        "ix_runstep_parent_step_id", {"parents": Json([{"id": 7, "failed": 0}]), "now": NOW}, sorts=True
    ),
    "outputs_of_dependencies": Hot("ix_runstepdependency_step_id", {"ids": IDS}),
    "output_of_step": Hot("ix_runstep_workflow_run_id", {"run_id": 7, "name": "a"}),
    "outputs_by_name": Hot("ix_runstep_workflow_run_id", {"run_ids": IDS, "names": ["a"]}, sorts=True),
    "payloads_by_id": Hot("payload", {"ids": IDS}),
    "delete_older_states": Hot("ix_payload_state_of_step", {"step_id": 7, "before": 9}),
    "some_payloads_of_runs": Hot("ix_payload_workflow_run_id", {"ids": IDS, "limit": 10}, sorts=True),
    # workers
    "steps_held": Hot("ix_runstep_running", {"worker_id": "worker-3"}),
    "running_steps_of_workers": Hot("ix_runstep_running", {"ids": ["worker-3", "worker-4"]}),
    "workers_without_checkin": Hot("ix_runstep_running", {"worker_id": "worker-3"}, sorts=True),
    "release_events_of_workers": Hot("ix_lifecyclehistory_running", {"ids": ["teller"], "now": NOW}),
    # waiting, deadlines and keys
    "park_steps": Hot("runstep", {"results": RESULTS, "now": NOW}),
    "any_new_signal": Hot("ix_signal_new"),
    "pair_new_signals": Hot("ix_runstep_awaits", {"limit": 500}, sorts=True),
    "pair_parked_steps": Hot("ix_runstep_awaits", {"keys": ["k"], "ids": IDS}, sorts=True),
    "resume_steps": Hot("", {"pairs": Json([{"signal_id": 1, "step_id": 7}]), "now": NOW}),
    "overdue_runs": Hot("ix_workflowrun_deadline", {"now": NOW, "limit": 100}, sorts=True),
    "run_by_key": Hot("ix_workflowrun_run_key", {"workflow_id": "w", "run_key": "k"}),
    "insert_attempts": Hot("runstep", {"results": RESULTS, "ids": IDS, "now": NOW}),
    # events and locks
    "claim_events": Hot("ix_lifecyclehistory_waiting", WORKER),
    "next_event_due": Hot("ix_lifecyclehistory_waiting"),
    "complete_event": Hot("lifecyclehistory", {"event_id": 7, "lease": "x", "now": NOW}),
    "sweep_locks": Hot("", {"now": NOW}),
    # what operators ask
    "queue_depths": Hot("ix_runstep_ready", {"most": 100}),
    "moments_of_steps": Hot("runstep", {"ids": IDS}),
    "running_steps_by_type": Hot("ix_runstep_running", sorts=True),
    "count_waiting_steps": Hot("ix_runstep_available_at", {"most": 100}, sorts=True),
    "waiting_steps": Hot("ix_runstep_available_at", {"most": 100, "reason": None, "limit": 10}, sorts=True),
    "steps_waiting_for_locks": Hot("ix_runstep_ready_keyed", {"most": 100, "locks": 10, "now": NOW}, sorts=True),
    "count_signals": Hot("", {"most": 100}),
    "nodes_of_run": Hot("ix_runstep_workflow_run_id", {"run_id": 7, "now": NOW}, sorts=True),
    "edges_of_steps": Hot("ix_runstepdependency_step_id", {"ids": IDS}),
    "subflows_of_steps": Hot("ix_workflowrun_parent_step_id", {"ids": IDS}),
    "count_tasks_by_status": Hot("ix_runstep_parent_step_id", {"ids": IDS}, sorts=True),
    # groups and runs as a whole
    "flag_runs_of_group": Hot("ix_workflowrun_run_group_id", {"group_id": 3, "now": NOW}, sorts=True),
    "count_steps_of_run": Hot("ix_runstep_workflow_run_id", {"run_id": 7}),
    "reset_ended_steps": Hot("ix_runstep_workflow_run_id", {"ids": IDS, "now": NOW}),
    "recount_dependencies": Hot("ix_runstep_workflow_run_id", {"ids": IDS}),
    "recount_tasks": Hot("ix_runstep_workflow_run_id", {"ids": IDS, "now": NOW}),
    "reopen_runs": Hot("ix_runstep_workflow_run_id", {"ids": IDS, "now": NOW}),
    "runs_not_waited_for": Hot("workflowrun", {"ids": IDS}, sorts=True),
    "leases_of_runs": Hot("", {"ids": IDS}, sorts=True),
}

_LARGE: Final = "payload|runstep|workflowrun|lifecyclehistory|runstepdependency"
# What SQLite reads through by name: lists given as a parameter, and tables that a statement makes for itself.
_SMALL_IN_SQLITE: Final = re.compile(
    r"SCAN (x|m|t|e|item|kind|front|plain|keyed|walk|edge|fresh|n|p|json_each|l|resourcelock|\(subquery-\d+\))(\s|$)"
    r"|SCAN (counted|looked_at|held|w)(\s|$)"
    r"|VIRTUAL TABLE|CONSTANT ROW"
)
_PARTIAL_IN_SQLITE: Final = re.compile(
    r"USING (COVERING )?INDEX ix_runstep_(ready|ready_keyed|running|available_at)\b|INDEX ix_signal_(new|key)\b"
)


def reads_a_table_through(plan: str) -> bool:
    if re.search(rf"Seq Scan on ({_LARGE})\b", plan):
        return True
    scans = [line for line in plan.splitlines() if line.startswith("SCAN ")]
    return any(not _SMALL_IN_SQLITE.search(line) and not _PARTIAL_IN_SQLITE.search(line) for line in scans)


def sorts(plan: str) -> bool:
    return bool(re.search(r"\bSort\b|TEMP B-TREE FOR (?!DISTINCT)", plan))


def uses(plan: str, index: str) -> bool:
    """Whether the plan goes by the index; the name of a table stands for its primary key."""
    if index.startswith("ix_"):
        return index in plan
    return f"pk_{index}" in plan or bool(re.search(r"SEARCH \w+ USING (INTEGER PRIMARY KEY|(COVERING )?INDEX)", plan))


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_goes_by_its_index(planner: Planner, name: str) -> None:
    hot = HOT[name]
    plans = planner.plans(name, hot.parameters) if hot.on in {"either", planner.database} else []
    for plan in plans:
        assert not reads_a_table_through(plan), plan
        assert not hot.index or uses(plan, hot.index), plan
        assert hot.sorts or not sorts(plan), plan


def test_every_statement_of_the_claim_and_the_finish_is_looked_at() -> None:
    """A statement that is added to the engine's hot files must be added here, or named as one that costs nothing."""
    folder = Path(__file__).parents[2] / "src/soliplex/ingester/lib/wf/sql"
    named = {
        name
        for file in ("claim", "finish", "events", "maps")
        for path in folder.glob(f"*/{file}.sql")
        for name in re.findall(r"^-- :name (\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    of_one_row_or_few = {
        "start_groups",
        "advance_groups",
        "insert_events",
        "error_event",
        "postpone_event",
        "release_event",
        "error_parents",
        "release_parents",
        "cancel_parents",
    }
    assert named - HOT.keys() == of_one_row_or_few


_READ: Final = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'runstep'"


async def rows_read_by_a_claim(driver: Driver) -> int:
    """What a claim costs: rows read on PostgreSQL, instructions of its machine on SQLite."""
    pool = ops.Pool()
    if not Database.is_postgres():
        return await _instructions(driver, pool)

    async with Database.engine().connect() as connection:
        raw: Any = await connection.get_raw_connection()
        async with raw.driver_connection.transaction():
            before = await raw.driver_connection.fetchval(_READ)
            claim = await ops.claim_steps("me", pool, 10, link=PostgresLink(raw.driver_connection), now=driver.now())
            assert claim.steps == []
            return await raw.driver_connection.fetchval(_READ) - before


async def _instructions(driver: Driver, pool: ops.Pool) -> int:
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    async with Database.link() as link:
        connection: sqlite3.Connection = getattr(link, "_connection")  # noqa: B009
        connection.set_progress_handler(count, 1)
        claim = await ops.claim_steps("me", pool, 10, link=link, now=driver.now())
        connection.set_progress_handler(None, 0)
    assert claim.steps == []
    return counted


async def test_steps_that_wait_for_a_held_key_cost_a_claim_nothing(driver: Driver) -> None:
    flow = linear("store")
    await ops.acquire_resource_lock("busy", "cli:1", ResourceLockKind.CLI, ttl=timedelta(days=1), now=driver.now())
    await driver.start(flow, 50, resource_keys={"store": "busy"})
    behind_few = await rows_read_by_a_claim(driver)
    await driver.start(flow, 20_000, resource_keys={"store": "busy"})
    if Database.is_postgres():
        async with Database.engine().begin() as connection:
            await connection.exec_driver_sql("ANALYZE runstep")
    behind_many = await rows_read_by_a_claim(driver)
    # A B-tree of twenty thousand is two levels deeper than one of fifty; nothing else may grow.
    assert behind_many <= behind_few * 1.5 + 50


async def test_steps_that_are_blocked_delayed_running_or_done_cost_a_claim_nothing(driver: Driver) -> None:
    flow = linear("a", "b", retries=2)
    await driver.start(flow, 30)
    await driver.finish(*(errored(step, delay=timedelta(days=1)) for step in await driver.claim(10)))
    await driver.claim(20)
    among_few = await rows_read_by_a_claim(driver)
    await driver.start(flow, 3_000)
    steps = await driver.claim(3_000)
    await driver.finish(*(errored(step, delay=timedelta(days=1)) for step in steps[:1_000]))
    await driver.finish(*(errored(step, permanent=True) for step in steps[1_000:2_000]))
    if Database.is_postgres():
        async with Database.engine().connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            await connection.exec_driver_sql("VACUUM ANALYZE runstep")
    among_many = await rows_read_by_a_claim(driver)
    assert among_many <= among_few * 1.5 + 50
