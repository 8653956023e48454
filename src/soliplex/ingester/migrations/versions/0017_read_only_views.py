"""Views of runs and steps that nothing is written through.

Revision 0017, after 0016.
"""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

VIEWS = (
    "workflow_runs",
    "workflow_step_states",
    "workflow_step_tasks",
    "workflow_step_dependencies",
    "step_states",
    "step_tasks",
    "step_dependencies",
)
REFUSE = """
CREATE FUNCTION refuse_view_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% only shows runs and steps: to change them, use si-cli or the HTTP API', TG_TABLE_NAME
          USING ERRCODE = 'object_not_in_prerequisite_state';
END $$
"""


def upgrade() -> None:
    if op.get_context().dialect.name != "postgresql":
        return  # SQLite writes to no view
    op.execute(REFUSE)
    for name in VIEWS:
        op.execute(
            f"CREATE TRIGGER {name}_is_read_only INSTEAD OF INSERT OR UPDATE OR DELETE ON {name} "
            "FOR EACH ROW EXECUTE FUNCTION refuse_view_change()"
        )


def downgrade() -> None:
    if op.get_context().dialect.name != "postgresql":
        return
    for name in VIEWS:
        op.execute(f"DROP TRIGGER {name}_is_read_only ON {name}")
    op.execute("DROP FUNCTION refuse_view_change()")
