"""Views of runs and steps, in the shape that users of other engines of workflows query.

Revision 0013, after 0012.
"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

VIEWS = {
    "workflow_runs": """
SELECT id, workflow_definition_id AS workflow_slug, CASE status WHEN 'COMPLETED' THEN 'completed' WHEN 'FAILED' THEN 'failed'
            WHEN 'CANCELLED' THEN 'cancelled' ELSE 'started' END AS status, input, output, remaining_steps,
       created_date AS created_at, coalesce(start_date, created_date) AS started_at,
       CASE WHEN status = 'COMPLETED' THEN completed_date END AS completed_at,
       CASE WHEN status IN ('FAILED', 'CANCELLED') THEN completed_date END AS failed_at
  FROM workflowrun""",
    "workflow_step_states": """
SELECT s.id, s.workflow_run_id, s.workflow_step_name AS step_name,
       CASE s.status WHEN 'COMPLETED' THEN 'done' WHEN 'FAILED' THEN 'failed' WHEN 'CANCELLED' THEN 'failed'
            WHEN 'RUNNING' THEN 'started' ELSE 'pending' END AS status,
       coalesce(s.input, r.input) AS input, s.output, CASE WHEN s.status IN ('ERROR', 'FAILED') THEN s.status_message END AS error_message, s.retry + 1 AS attempt,
       s.created_date AS enqueued_at
  FROM runstep s JOIN workflowrun r ON r.id = s.workflow_run_id WHERE s.parent_step_id IS NULL""",
    "workflow_step_tasks": """
SELECT s.id, s.parent_step_id AS step_state_id, s.item_index, s.input AS item_value,
       CASE s.status WHEN 'COMPLETED' THEN 'done' WHEN 'FAILED' THEN 'failed' WHEN 'CANCELLED' THEN 'failed'
            WHEN 'RUNNING' THEN 'started' ELSE 'pending' END AS status, s.output
  FROM runstep s WHERE s.parent_step_id IS NOT NULL""",
    "workflow_step_dependencies": """
SELECT CAST(e.depends_on_id AS text) || '-' || CAST(e.step_id AS text) AS id, b.workflow_run_id,
       a.workflow_step_name AS from_step_name, b.workflow_step_name AS to_step_name
  FROM runstepdependency e JOIN runstep a ON a.id = e.depends_on_id JOIN runstep b ON b.id = e.step_id""",
    "step_states": """
SELECT s.id, s.workflow_run_id AS run_id, s.workflow_step_name AS step_slug,
       CASE s.status WHEN 'COMPLETED' THEN 'completed' WHEN 'FAILED' THEN 'failed' WHEN 'CANCELLED' THEN 'failed'
            WHEN 'RUNNING' THEN 'started' ELSE 'created' END AS status, s.remaining_deps, s.remaining_tasks,
       s.output, CASE WHEN s.status IN ('ERROR', 'FAILED') THEN s.status_message END AS error_message, s.created_date AS created_at, s.start_date AS started_at,
       CASE WHEN s.status = 'COMPLETED' THEN s.completed_date END AS completed_at, CASE WHEN s.status IN ('FAILED', 'CANCELLED') THEN s.completed_date END AS failed_at
  FROM runstep s WHERE s.parent_step_id IS NULL""",
    "step_tasks": """
SELECT s.id, s.workflow_run_id AS run_id, s.workflow_step_name AS step_slug, coalesce(s.item_index, 0) AS task_index,
       CASE s.status WHEN 'COMPLETED' THEN 'completed' WHEN 'FAILED' THEN 'failed' WHEN 'CANCELLED' THEN 'failed'
            WHEN 'RUNNING' THEN 'started' ELSE 'queued' END AS status, s.retry + 1 AS attempts_count, s.output,
       CASE WHEN s.status IN ('ERROR', 'FAILED') THEN s.status_message END AS error_message, s.created_date AS queued_at, s.start_date AS started_at,
       CASE WHEN s.status = 'COMPLETED' THEN s.completed_date END AS completed_at, CASE WHEN s.status IN ('FAILED', 'CANCELLED') THEN s.completed_date END AS failed_at
  FROM runstep s WHERE NOT EXISTS (SELECT 1 FROM runstep t WHERE t.parent_step_id = s.id)""",
    "step_dependencies": """
SELECT b.workflow_run_id AS run_id, b.workflow_step_name AS step_slug, a.workflow_step_name AS depends_on_step
  FROM runstepdependency e JOIN runstep a ON a.id = e.depends_on_id JOIN runstep b ON b.id = e.step_id""",
}


def upgrade() -> None:
    for name, query in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS{query}")


def downgrade() -> None:
    for name in VIEWS:
        op.execute(f"DROP VIEW {name}")
