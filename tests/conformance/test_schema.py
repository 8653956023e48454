"""The schema refuses impossible rows and changes of status, whatever writes them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from soliplex.ingester.lib.enums import Standing
from soliplex.ingester.lib.models import (
    FINAL_STATUSES,
    VALID_TRANSITIONS,
    ArtifactType,
    Database,
    DefinitionKind,
    HistoryAction,
    Isolation,
    LifeCycleEvent,
    ResourceLockKind,
    RunStatus,
    SegmentStatus,
    WebhookStatus,
    metadata,
)
from tests.support.engine import Driver, linear, rows_of, scalar

NOW: Final = datetime(2030, 1, 1, tzinfo=UTC)
PAIRS: Final = [(before, after) for before, after in itertools.product(RunStatus, RunStatus) if before != after]


def columns_of(status: RunStatus) -> dict[str, Any]:
    """What a step in this status looks like, so that nothing but the change itself can be refused."""
    return {
        "status": status,
        "lease_token": "lease" if status is RunStatus.RUNNING else None,
        "completed_date": NOW if status in FINAL_STATUSES else None,
        "available_at": None,
        "remaining_deps": 0,
        "remaining_tasks": 0,
    }


async def change(step_id: int, values: Mapping[str, Any]) -> None:
    steps = metadata.tables["runstep"]
    async with Database.engine().begin() as connection:
        await connection.execute(steps.update().where(steps.c.id == step_id).values(**values))


async def a_row_of(table: str) -> dict[str, Any]:
    """A row that is there already, without its number."""
    async with Database.engine().connect() as connection:
        found = await connection.execute(metadata.tables[table].select().order_by(sa.text("1")).limit(1))
    return {name: value for name, value in found.mappings().one().items() if name != "id"}


async def insert(table: str, values: Mapping[str, Any]) -> None:
    async with Database.engine().begin() as connection:
        await connection.execute(metadata.tables[table].insert().values(**values))


async def new_step(driver: Driver) -> int:
    created = await driver.start(linear("a", retries=2), 1)
    return (await driver.steps_of(*created.run_ids))[0].id or 0


# Every status can be reached by changes that are allowed: the way there, from PENDING.
WAY_TO: Final[dict[RunStatus, list[RunStatus]]] = {
    RunStatus.PENDING: [],
    RunStatus.RUNNING: [RunStatus.RUNNING],
    RunStatus.COMPLETED: [RunStatus.RUNNING, RunStatus.COMPLETED],
    RunStatus.ERROR: [RunStatus.RUNNING, RunStatus.ERROR],
    RunStatus.FAILED: [RunStatus.RUNNING, RunStatus.ERROR, RunStatus.FAILED],
    RunStatus.CANCELLED: [RunStatus.CANCELLED],
}


async def test_a_step_makes_the_valid_changes_of_status_and_no_others(database: type[Database]) -> None:
    driver = Driver()
    allowed: set[tuple[RunStatus, RunStatus]] = set()
    for before, after in PAIRS:
        step_id = await new_step(driver)
        for status in WAY_TO[before]:
            await change(step_id, columns_of(status))
        try:
            await change(step_id, columns_of(after))
        except IntegrityError:
            assert await scalar("SELECT status FROM runstep WHERE id = :id", id=step_id) == before
        else:
            allowed.add((before, after))
    assert allowed == VALID_TRANSITIONS


async def test_a_step_may_be_written_again_with_the_status_it_has(database: type[Database]) -> None:
    driver = Driver()
    for status in RunStatus:
        step_id = await new_step(driver)
        for on_the_way in WAY_TO[status]:
            await change(step_id, columns_of(on_the_way))
        await change(step_id, columns_of(status) | {"status_message": "again"})


def test_the_valid_changes_are_those_the_product_promises() -> None:
    promised = {
        ("PENDING", "RUNNING"),
        ("RUNNING", "COMPLETED"),
        ("RUNNING", "ERROR"),
        ("RUNNING", "PENDING"),
        ("ERROR", "RUNNING"),
        ("ERROR", "FAILED"),
        ("PENDING", "CANCELLED"),
    }
    assert promised <= VALID_TRANSITIONS
    assert {before for before, _ in VALID_TRANSITIONS if before is RunStatus.COMPLETED} == set()
    assert ("FAILED", "RUNNING") not in VALID_TRANSITIONS


RUNNING = columns_of(RunStatus.RUNNING)
IMPOSSIBLE: Final[list[tuple[str, str, dict[str, Any]]]] = [
    ("runstep", "status_is_known", {"status": sa.literal("LOST")}),
    ("runstep", "isolation_is_known", {"isolation": sa.literal("nowhere")}),
    ("runstep", "retry_stays_within_retries", {"retries": 0}),
    ("runstep", "retry_stays_within_retries", {"retry": -1}),
    ("runstep", "retry_stays_within_retries", {"retry": 3}),
    ("runstep", "counters_count_down", {"remaining_deps": -1}),
    ("runstep", "counters_count_down", {"remaining_tasks": -1}),
    ("runstep", "only_a_running_step_is_leased", {"lease_token": "x"}),
    ("runstep", "a_running_step_is_leased_or_waits_for_its_tasks", RUNNING | {"lease_token": None}),
    ("runstep", "a_running_step_waits_for_nothing", RUNNING | {"remaining_deps": 1}),
    ("runstep", "only_a_waiting_step_has_a_time", RUNNING | {"available_at": NOW}),
    ("runstep", "completed_date_only_when_final", {"completed_date": NOW}),
    ("runstep", "completed_date_only_when_final", columns_of(RunStatus.CANCELLED) | {"completed_date": None}),
    ("runstep", "a_task_has_a_parent_and_an_index", {"item_index": 0}),
    ("workflowrun", "status_is_known", {"status": sa.literal("LOST")}),
    ("workflowrun", "remaining_steps_counts_down", {"remaining_steps": -1}),
    ("workflowrun", "failed_steps_is_not_negative", {"failed_steps": -1}),
    ("workflowrun", "completed_date_only_when_final", {"completed_date": NOW}),
    ("workflowrun", "completed_date_only_when_final", {"status": "FAILED", "remaining_steps": 0}),
    ("workflowrun", "ends_with_its_last_step", {"status": "FAILED", "completed_date": NOW}),
    ("rungroup", "status_is_known", {"status": sa.literal("LOST")}),
    ("rungroup", "remaining_runs_counts_down", {"remaining_runs": 2}),
    ("rungroup", "remaining_runs_counts_down", {"remaining_runs": -1}),
    ("rungroup", "completed_date_only_when_final", {"completed_date": NOW}),
    ("lifecyclehistory", "event_is_known", {"event": sa.literal("lost")}),
    ("lifecyclehistory", "status_is_known", {"status": sa.literal("LOST"), "completed_date": None}),
    ("lifecyclehistory", "only_a_running_delivery_is_leased", {"lease_token": "x"}),
    ("lifecyclehistory", "only_a_running_delivery_is_leased", {"status": "RUNNING", "completed_date": None}),
    ("lifecyclehistory", "completed_date_only_when_final", {"completed_date": None}),
    ("resourcelock", "holder_kind_is_known", {"holder_kind": sa.literal("thief")}),
    ("runstepdependency", "a_step_does_not_wait_for_itself", {"depends_on_id": 7, "step_id": 7}),
]


async def fill() -> None:
    """One row in every table of the engine."""
    driver = Driver()
    await driver.start(linear("a", "b", retries=2), 1, resource_keys={"a": "db"})
    step = await driver.claim_one()
    await change(step.id, columns_of(RunStatus.PENDING))


async def test_each_constraint_refuses_its_impossible_row(database: type[Database]) -> None:
    await fill()
    for table, constraint, values in IMPOSSIBLE:
        row = await a_row_of(table)
        with pytest.raises(IntegrityError) as caught:
            await insert(table, {**row, **values})
        assert f"{table}_{constraint}" in str(caught.value), (table, constraint, values)


async def test_rows_that_are_not_impossible_are_taken(database: type[Database]) -> None:
    await fill()
    for table in ("rungroup", "workflowrun", "runstep", "lifecyclehistory"):
        await insert(table, await a_row_of(table))


ENGINE: Final = ("rungroup", "workflowrun", "runstep", "runstepdependency", "lifecyclehistory", "resourcelock")


def test_every_constraint_of_the_engine_has_its_impossible_row() -> None:
    tried = {(table, name) for table, name, _ in IMPOSSIBLE}
    declared = {
        (table, str(constraint.name).removeprefix(f"{table}_"))
        for table in ENGINE
        for constraint in metadata.tables[table].constraints
        if isinstance(constraint, sa.CheckConstraint)
    }
    assert declared == tried


ENUMS: Final[dict[tuple[str, str], type[StrEnum]]] = {
    ("rungroup", "status"): RunStatus,
    ("workflowrun", "status"): RunStatus,
    ("runstep", "status"): RunStatus,
    ("runstep", "isolation"): Isolation,
    ("lifecyclehistory", "event"): LifeCycleEvent,
    ("lifecyclehistory", "status"): RunStatus,
    ("resourcelock", "holder_kind"): ResourceLockKind,
    ("documenturihistory", "action"): HistoryAction,
    ("documentbytes", "artifact_type"): ArtifactType,
    ("definition", "kind"): DefinitionKind,
    ("stepprofile", "status"): RunStatus,
    ("webhookmessage", "status"): WebhookStatus,
    ("segment", "status"): SegmentStatus,
    ("flowoptimization", "standing"): Standing,
}


async def checks_in_the_database() -> dict[str, str]:
    """The text of every CHECK as the database knows it, by table; each constraint's name stands before it."""
    if Database.is_postgres():
        query = """SELECT c.relname, string_agg(conname || ' ' || pg_get_constraintdef(k.oid), E'\\n')
                     FROM pg_constraint k JOIN pg_class c ON c.oid = conrelid WHERE contype = 'c' GROUP BY 1"""
    else:
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
    return dict(await rows_of(query))


async def test_the_database_knows_the_same_values_as_the_enums(database: type[Database]) -> None:
    checks = await checks_in_the_database()
    for (table, column), enum in ENUMS.items():
        (check,) = [line for line in checks[table].splitlines() if re.search(rf"_{column}_is_known\b", line)]
        assert set(re.findall(r"'(\w+)'", check)) == {member.value for member in enum}, (table, column)


def test_every_column_of_an_enum_is_checked() -> None:
    from soliplex.ingester.lib.models.columns import EnumText

    columns = {
        (table.name, column.name)
        for table in metadata.tables.values()
        for column in table.columns
        if isinstance(column.type, EnumText)
    }
    assert columns <= ENUMS.keys()


async def test_foreign_keys_are_enforced(database: type[Database]) -> None:
    await fill()
    for statement in ("DELETE FROM rungroup", "DELETE FROM workflowrun", "DELETE FROM stepconfig"):
        with pytest.raises(IntegrityError):
            async with Database.engine().begin() as connection:
                await connection.exec_driver_sql(statement)


async def test_two_tasks_of_a_map_cannot_have_the_same_place(database: type[Database]) -> None:
    await fill()
    task = await a_row_of("runstep") | {"parent_step_id": await scalar("SELECT min(id) FROM runstep"), "item_index": 0}
    await insert("runstep", task)
    with pytest.raises(IntegrityError):
        await insert("runstep", task)
