"""Runs and steps as views: queries that were written for another engine run as they are printed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from soliplex.ingester import Database, Executor
from tests.support.engine import registry_in_use, rows_of
from tests.support.flow_functions import lengths

ON_POSTGRES = pytest.mark.parametrize(
    "database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
"""The queries are written in its words."""
SLOW_TASKS = """
SELECT
step_slug,
COUNT(*) as task_count,
AVG(EXTRACT(EPOCH FROM (completed_at - started_at))) as avg_duration_s
FROM step_tasks
WHERE status = 'completed'
GROUP BY step_slug
ORDER BY avg_duration_s DESC
"""
STUCK_RUNS = """
SELECT
id, workflow_slug, started_at,
(NOW() - started_at) as duration
FROM workflow_runs
WHERE status = 'started'
AND started_at < NOW() - INTERVAL '1 hour'
ORDER BY started_at ASC
"""
GRAPH = """
WITH RECURSIVE deps AS (
SELECT run_id, step_slug, depends_on_step, ARRAY[step_slug] as path
FROM step_dependencies
WHERE run_id = :run_id
UNION ALL
SELECT d.run_id, d.step_slug, d.depends_on_step,
deps.path || d.step_slug
FROM step_dependencies d
JOIN deps ON d.depends_on_step = deps.step_slug
WHERE d.run_id = :run_id AND NOT d.step_slug = ANY(deps.path)
)
SELECT DISTINCT step_slug, depends_on_step, path
FROM deps
WHERE run_id = :run_id
ORDER BY step_slug, depends_on_step
"""


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    with registry_in_use():
        yield


async def executed() -> int:
    run_id = await lengths.start({"text": "to be or not"})
    await Executor.execute_pending_tasks()
    return run_id


async def column(query: str, **values: Any) -> list[Any]:
    return [row[0] for row in await rows_of(query, **values)]


async def test_a_run_is_seen_in_the_shape_of_its_tables(database: None) -> None:
    run_id = await executed()
    runs = await rows_of("SELECT id, workflow_slug, status, remaining_steps, failed_at FROM workflow_runs")
    assert runs == [(run_id, "lengths", "completed", 0, None)]
    states = await rows_of("SELECT step_name, status, attempt, error_message FROM workflow_step_states ORDER BY id")
    assert states == [("words", "done", 1, None), ("length", "done", 1, None), ("total", "done", 1, None)]
    tasks = "SELECT item_index FROM workflow_step_tasks WHERE status = 'done' ORDER BY item_index"
    assert await column(tasks) == [0, 1, 2, 3]
    edges = await rows_of("SELECT from_step_name, to_step_name FROM workflow_step_dependencies")
    assert set(edges) == {("words", "length"), ("words", "total"), ("length", "total")}
    assert await column("SELECT status FROM step_states") == ["completed"] * 3
    assert sorted(await column("SELECT step_slug FROM step_tasks")) == ["length"] * 4 + ["total", "words"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE workflow_runs SET workflow_slug = 'x'",
        "INSERT INTO workflow_runs (id) VALUES (99)",
        "DELETE FROM workflow_step_tasks",
        "UPDATE step_states SET remaining_deps = 7",
        "DELETE FROM step_tasks",
        "DELETE FROM step_dependencies",
    ],
)
async def test_nothing_is_written_through_a_view(database: None, statement: str) -> None:
    await executed()
    with pytest.raises(DBAPIError, match=r"only shows runs and steps|because it is a view"):
        async with Database.engine().begin() as connection:
            await connection.exec_driver_sql(statement)
    assert len(await rows_of("SELECT id FROM step_tasks")) == 6


@ON_POSTGRES
async def test_the_monitoring_queries_run_as_printed(database: None) -> None:
    run_id = await executed()
    slow = await rows_of(SLOW_TASKS)
    assert {(row[0], row[1]) for row in slow} == {("words", 1), ("length", 4), ("total", 1)}
    assert await rows_of(STUCK_RUNS) == []
    graph = await rows_of(GRAPH, run_id=run_id)
    assert {(row[0], row[1]) for row in graph} == {("length", "words"), ("total", "words"), ("total", "length")}
