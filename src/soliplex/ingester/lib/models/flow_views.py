"""Runs and steps as views, in the shape that users of other engines of workflows query: read-only, on both databases.

Two sets of names: `workflow_*`, as its tables are described, and `step_*`, as its monitoring queries name them.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy import event

from soliplex.ingester.lib.models.base import metadata

_STATUS_OF_RUN: Final = """CASE status WHEN 'COMPLETED' THEN 'completed' WHEN 'FAILED' THEN 'failed'
            WHEN 'CANCELLED' THEN 'cancelled' ELSE 'started' END"""
_ENDED: Final = "CASE WHEN s.status = 'COMPLETED' THEN s.completed_date END"
_FAILED: Final = "CASE WHEN s.status IN ('FAILED', 'CANCELLED') THEN s.completed_date END"
_ERROR: Final = "CASE WHEN s.status IN ('ERROR', 'FAILED') THEN s.status_message END"


def _status_of_step(*, waiting: str, completed: str) -> str:
    return f"""CASE s.status WHEN 'COMPLETED' THEN '{completed}' WHEN 'FAILED' THEN 'failed'
            WHEN 'CANCELLED' THEN 'failed' WHEN 'RUNNING' THEN 'started' ELSE '{waiting}' END"""


VIEWS: Final[dict[str, str]] = {
    "workflow_runs": f"""
SELECT id, workflow_definition_id AS workflow_slug, {_STATUS_OF_RUN} AS status, input, output, remaining_steps,
       created_date AS created_at, coalesce(start_date, created_date) AS started_at,
       CASE WHEN status = 'COMPLETED' THEN completed_date END AS completed_at,
       CASE WHEN status IN ('FAILED', 'CANCELLED') THEN completed_date END AS failed_at
  FROM workflowrun""",
    "workflow_step_states": f"""
SELECT s.id, s.workflow_run_id, s.workflow_step_name AS step_name,
       {_status_of_step(waiting="pending", completed="done")} AS status,
       coalesce(s.input, r.input) AS input, s.output, {_ERROR} AS error_message, s.retry + 1 AS attempt,
       s.created_date AS enqueued_at
  FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id WHERE s.parent_step_id IS NULL""",
    "workflow_step_tasks": f"""
SELECT s.id, s.parent_step_id AS step_state_id, s.item_index, s.input AS item_value,
       {_status_of_step(waiting="pending", completed="done")} AS status, s.output
  FROM runstep s WHERE s.parent_step_id IS NOT NULL""",
    "workflow_step_dependencies": """
SELECT CAST(e.depends_on_id AS text) || '-' || CAST(e.step_id AS text) AS id, b.workflow_run_id,
       a.workflow_step_name AS from_step_name, b.workflow_step_name AS to_step_name
  FROM runstepdependency e JOIN runstep a ON a.id = e.depends_on_id JOIN runstep b ON b.id = e.step_id""",
    "step_states": f"""
SELECT s.id, s.workflow_run_id AS run_id, s.workflow_step_name AS step_slug,
       {_status_of_step(waiting="created", completed="completed")} AS status, s.remaining_deps, s.remaining_tasks,
       s.output, {_ERROR} AS error_message, s.created_date AS created_at, s.start_date AS started_at,
       {_ENDED} AS completed_at, {_FAILED} AS failed_at
  FROM runstep s WHERE s.parent_step_id IS NULL""",
    "step_tasks": f"""
SELECT s.id, s.workflow_run_id AS run_id, s.workflow_step_name AS step_slug, coalesce(s.item_index, 0) AS task_index,
       {_status_of_step(waiting="queued", completed="completed")} AS status, s.retry + 1 AS attempts_count, s.output,
       {_ERROR} AS error_message, s.created_date AS queued_at, s.start_date AS started_at,
       {_ENDED} AS completed_at, {_FAILED} AS failed_at
  FROM runstep s WHERE NOT EXISTS (SELECT 1 FROM runstep t WHERE t.parent_step_id = s.id)""",
    "step_dependencies": """
SELECT b.workflow_run_id AS run_id, b.workflow_step_name AS step_slug, a.workflow_step_name AS depends_on_step
  FROM runstepdependency e JOIN runstep a ON a.id = e.depends_on_id JOIN runstep b ON b.id = e.step_id""",
}


# PostgreSQL writes through a view of one table to the table; SQLite writes to no view.
_REFUSE: Final = """
CREATE FUNCTION refuse_view_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% only shows runs and steps: to change them, use si-cli or the HTTP API', TG_TABLE_NAME
          USING ERRCODE = 'object_not_in_prerequisite_state';
END $$
"""


def guard_statements() -> list[str]:
    """What makes the views read-only on PostgreSQL."""
    return [
        _REFUSE,
        *(
            f"CREATE TRIGGER {name}_is_read_only INSTEAD OF INSERT OR UPDATE OR DELETE ON {name} "
            "FOR EACH ROW EXECUTE FUNCTION refuse_view_change()"
            for name in VIEWS
        ),
    ]


def create_statements() -> list[str]:
    return [f"CREATE VIEW {name} AS{query}" for name, query in VIEWS.items()]


def drop_statements() -> list[str]:
    return [f"DROP VIEW IF EXISTS {name}" for name in VIEWS]


for _statement in create_statements():
    event.listen(metadata, "after_create", sa.DDL(_statement.replace("%", "%%")))
for _statement in guard_statements():
    event.listen(metadata, "after_create", sa.DDL(_statement.replace("%", "%%")).execute_if(dialect="postgresql"))
for _statement in drop_statements():
    event.listen(metadata, "before_drop", sa.DDL(_statement))
event.listen(
    metadata,
    "before_drop",
    sa.DDL("DROP FUNCTION IF EXISTS refuse_view_change()").execute_if(dialect="postgresql"),
)
