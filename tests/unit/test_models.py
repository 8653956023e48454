"""The models: values of their own, and rows of scripts turned into them."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy.dialects import postgresql, sqlite

from soliplex.ingester.lib import models
from soliplex.ingester.lib.models import (
    FINAL_STATUSES,
    ArtifactType,
    Database,
    DocumentBatch,
    Isolation,
    LifeCycleEvent,
    NotInitializedError,
    ResourceLockKind,
    RunStatus,
    WorkflowRun,
    WorkflowStepType,
    get_session,
)
from soliplex.ingester.lib.models.columns import EnumText, UtcDateTime, from_sqlite_text, to_sqlite_text
from soliplex.ingester.lib.wf.work import ClaimedStep

MOMENT = datetime(2030, 5, 6, 7, 8, 9, 120, tzinfo=UTC)
DIALECTS = [sqlite.dialect(), postgresql.dialect()]


def test_the_package_exports_what_it_says() -> None:
    assert [name for name in models.__all__ if not hasattr(models, name)] == []


def test_enums_have_the_values_clients_know() -> None:
    assert [status.value for status in RunStatus] == ["PENDING", "RUNNING", "COMPLETED", "ERROR", "FAILED", "CANCELLED"]
    assert {kind.value for kind in WorkflowStepType} == {
        "ingest", "validate", "parse", "chunk", "embed", "store", "enrich", "route",
    }  # fmt: skip
    assert {kind.name: kind.value for kind in ArtifactType}.items() >= {
        "DOC": "document",
        "PARSED_MD": "parsed_markdown",
        "PARSED_JSON": "parsed_json",
        "CHUNKS": "chunks",
        "EMBEDDINGS": "embeddings",
        "RAG": "rag",
    }.items()
    assert {event.value for event in LifeCycleEvent} == {
        "group_start", "group_end", "item_start", "item_end", "item_failed", "step_start", "step_end", "step_failed",
    }  # fmt: skip
    assert {kind.value for kind in ResourceLockKind} == {"worker", "cli", "web", "lifecycle"}


def test_a_status_is_final_when_nothing_follows_by_itself() -> None:
    assert {status for status in RunStatus if status.is_final} == FINAL_STATUSES
    assert RunStatus.ERROR not in FINAL_STATUSES


@pytest.mark.parametrize("dialect", DIALECTS, ids=["sqlite", "postgres"])
def test_a_moment_comes_back_aware_and_in_utc(dialect: Any) -> None:
    kind = UtcDateTime()
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=-7)))
    stored = kind.process_bind_param(elsewhere, dialect)
    assert stored == ("2030-05-06 07:08:09.000120" if dialect.name == "sqlite" else MOMENT)
    assert kind.process_result_value(stored, dialect) == MOMENT
    assert kind.process_bind_param(None, dialect) is None
    assert kind.process_result_value(None, dialect) is None


@pytest.mark.parametrize("dialect", DIALECTS, ids=["sqlite", "postgres"])
def test_a_naive_moment_is_refused(dialect: Any) -> None:
    with pytest.raises(ValueError, match=r"naive datetime .* give it a timezone"):
        UtcDateTime().process_bind_param(MOMENT.replace(tzinfo=None), dialect)


def test_moments_as_text_are_in_the_order_of_time() -> None:
    moments = [MOMENT, MOMENT + timedelta(microseconds=1), MOMENT.replace(microsecond=0), MOMENT + timedelta(days=365)]
    texts = [to_sqlite_text(moment) for moment in moments]
    assert sorted(texts) == [to_sqlite_text(moment) for moment in sorted(moments)]
    assert {len(text) for text in texts} == {26}
    assert [from_sqlite_text(text) for text in texts] == moments


def test_a_value_of_an_enum_comes_back_as_its_member_and_others_are_refused() -> None:
    kind = EnumText(RunStatus)
    dialect: Any = DIALECTS[0]
    assert kind.process_bind_param("FAILED", dialect) == "FAILED"
    assert kind.process_result_value("FAILED", dialect) is RunStatus.FAILED
    assert kind.process_bind_param(None, dialect) is None
    assert kind.process_result_value(None, dialect) is None
    with pytest.raises(ValueError, match="LOST"):
        kind.process_bind_param("LOST", dialect)


def test_a_duration_is_known_when_both_ends_are() -> None:
    run = WorkflowRun(workflow_definition_id="w", run_group_id=1, start_date=MOMENT)
    assert run.duration is None
    run.completed_date = MOMENT + timedelta(seconds=90)
    assert run.duration == 90
    assert DocumentBatch(name="b", source="s").duration is None
    assert run.model_dump()["duration"] == 90


def row(**values: Any) -> sqlite3.Row:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    columns = ", ".join(f":{name} AS {name}" for name in values)
    try:
        return connection.execute(f"SELECT {columns}", values).fetchone()
    finally:
        connection.close()


def claimed(row: Any, run: Any) -> ClaimedStep:
    return ClaimedStep(
        id=row["id"],
        run_id=run["id"],
        name="a",
        type="a",
        lease="lease",
        resource_key=None,
        parent_id=None,
        timeout=None,
        workflow_id="flow",
        group_id=1,
        worker_id="me",
        claimed_at=MOMENT,
        row=row,
        run=run,
    )


def test_a_claimed_step_becomes_a_model_that_can_be_read_changed_and_written_out() -> None:
    found = row(
        id=4,
        retry=1,
        isolation="process",
        optional=0,
        is_last_step=1,
        created_date="2030-05-06 07:08:09.000120",
        status_meta='{"a": 1}',
        input='"text"',
    )
    step = claimed(found, row(id=7, input="[1]")).run_step()
    assert (step.id, step.status, step.isolation, step.retry) == (4, RunStatus.RUNNING, Isolation.PROCESS, 1)
    assert step.status.is_final is False
    assert (step.optional, step.is_last_step, step.created_date) == (False, True, MOMENT)
    assert (step.worker_id, step.lease_token, step.start_date) == ("me", "lease", MOMENT)
    assert (step.status_meta, step.input, step.available_at, step.output) == ({"a": 1}, "text", None, None)
    step.status_message = "changed by a handler"
    assert step.status_message == "changed by a handler"
    assert step.model_dump(include={"id", "status"}) == {"id": 4, "status": RunStatus.RUNNING}
    assert repr(step)


def test_a_claimed_step_becomes_a_model_in_a_process_that_has_used_no_model_before() -> None:
    code = (
        "from soliplex.ingester.lib.wf.work import ClaimedStep\n"
        "row = {'id': 1, 'status_meta': '{}'}\n"
        "step = ClaimedStep(1, 1, 'a', 'a', 'lease', None, None, None, 'w', 1, 'me', None, row, row)\n"
        "print(step.run_step().status.value)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "RUNNING\n"


async def test_a_database_that_is_not_open_says_how_to_open_it() -> None:
    for use in (Database.engine, Database.path, Database.is_postgres):
        with pytest.raises(NotInitializedError, match=r"await Database\.initialize\(\) first"):
            use()
    with pytest.raises(NotInitializedError):
        async with get_session():
            pass
    await Database.close()


def test_tables_have_the_names_clients_know() -> None:
    assert set(models.metadata.tables) >= {
        "document", "documentbatch", "documentbytes", "documenturi", "documenturihistory", "rungroup", "workflowrun",
        "runstep", "stepconfig", "configset", "configsetitem", "lifecyclehistory", "workercheckin", "resourcelock",
    }  # fmt: skip
