"""The whole schema, as it was first released.

Revision 0001, after nothing.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from soliplex.ingester.lib.models.columns import JSON, UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")

STATUS_TRIGGER_POSTGRES = (
    "\nCREATE FUNCTION refuse_status_change() RETURNS trigger LANGUAGE plpgsql AS $$\nBEGIN\n    RAISE EXCEPTION 'a step cannot go from % to %', OLD.status, NEW.status USING ERRCODE = 'check_violation';\nEND $$\n",
    "\nCREATE TRIGGER runstep_status_changes_are_valid AFTER UPDATE OF status ON runstep\nFOR EACH ROW WHEN (OLD.status <> NEW.status AND NOT ((OLD.status = 'CANCELLED' AND NEW.status = 'PENDING') OR (OLD.status = 'ERROR' AND NEW.status = 'CANCELLED') OR (OLD.status = 'ERROR' AND NEW.status = 'FAILED') OR (OLD.status = 'ERROR' AND NEW.status = 'PENDING') OR (OLD.status = 'ERROR' AND NEW.status = 'RUNNING') OR (OLD.status = 'FAILED' AND NEW.status = 'PENDING') OR (OLD.status = 'PENDING' AND NEW.status = 'CANCELLED') OR (OLD.status = 'PENDING' AND NEW.status = 'RUNNING') OR (OLD.status = 'RUNNING' AND NEW.status = 'COMPLETED') OR (OLD.status = 'RUNNING' AND NEW.status = 'ERROR') OR (OLD.status = 'RUNNING' AND NEW.status = 'PENDING'))) EXECUTE FUNCTION refuse_status_change()\n",
)
STATUS_TRIGGER_SQLITE = (
    "\nCREATE TRIGGER runstep_status_changes_are_valid BEFORE UPDATE OF status ON runstep\nWHEN OLD.status <> NEW.status AND NOT ((OLD.status = 'CANCELLED' AND NEW.status = 'PENDING') OR (OLD.status = 'ERROR' AND NEW.status = 'CANCELLED') OR (OLD.status = 'ERROR' AND NEW.status = 'FAILED') OR (OLD.status = 'ERROR' AND NEW.status = 'PENDING') OR (OLD.status = 'ERROR' AND NEW.status = 'RUNNING') OR (OLD.status = 'FAILED' AND NEW.status = 'PENDING') OR (OLD.status = 'PENDING' AND NEW.status = 'CANCELLED') OR (OLD.status = 'PENDING' AND NEW.status = 'RUNNING') OR (OLD.status = 'RUNNING' AND NEW.status = 'COMPLETED') OR (OLD.status = 'RUNNING' AND NEW.status = 'ERROR') OR (OLD.status = 'RUNNING' AND NEW.status = 'PENDING'))\nBEGIN SELECT RAISE(ABORT, 'a step cannot make this change of status'); END\n",
)


def upgrade() -> None:
    op.create_table(
        "configset",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("yaml_id", sa.String(), nullable=False),
        sa.Column("yaml_contents", sa.String(), nullable=False),
        sa.Column("yaml_hash", sa.String(), nullable=False),
        sa.Column("created_date", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_configset")),
        sa.UniqueConstraint("yaml_id", "yaml_hash", name=op.f("uq_configset_yaml_id_yaml_hash")),
    )
    op.create_table(
        "document",
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("mime_type", sa.String(), nullable=False),
        sa.Column("file_size", sa.BigInteger(), nullable=True),
        sa.Column("doc_meta", JSON, nullable=False),
        sa.CheckConstraint("hash LIKE 'sha256-%'", name=op.f("document_hash_names_its_algorithm")),
        sa.CheckConstraint("file_size >= 0", name=op.f("document_file_size_is_not_negative")),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_document")),
    )
    op.create_table(
        "documentbatch",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("start_date", UtcDateTime(), nullable=False),
        sa.Column("completed_date", UtcDateTime(), nullable=True),
        sa.Column("batch_params", JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_documentbatch")),
    )
    op.create_index("ix_documentbatch_source", "documentbatch", ["source"], unique=False)
    op.create_table(
        "documentbytes",
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("artifact_type", sa.String(), nullable=False),
        sa.Column("storage_root", sa.String(), nullable=False),
        sa.Column("file_size", sa.BigInteger(), nullable=True),
        sa.Column("file_bytes", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint(
            "artifact_type IN ('document', 'parsed_markdown', 'parsed_json', 'chunks', 'embeddings', 'rag', 'custom')",
            name=op.f("documentbytes_artifact_type_is_known"),
        ),
        sa.CheckConstraint("file_size >= 0", name=op.f("documentbytes_file_size_is_not_negative")),
        sa.PrimaryKeyConstraint("hash", "artifact_type", "storage_root", name=op.f("pk_documentbytes")),
    )
    op.create_table(
        "resourcelock",
        sa.Column("resource_key", sa.String(), nullable=False),
        sa.Column("holder_id", sa.String(), nullable=False),
        sa.Column("holder_kind", sa.String(), nullable=False),
        sa.Column("step_id", sa.BigInteger(), nullable=True),
        sa.Column("acquired_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("holder_meta", JSON, nullable=False),
        sa.CheckConstraint(
            "holder_kind IN ('worker', 'cli', 'web', 'lifecycle')", name=op.f("resourcelock_holder_kind_is_known")
        ),
        sa.PrimaryKeyConstraint("resource_key", name=op.f("pk_resourcelock")),
    )
    op.create_index("ix_resourcelock_expires_at", "resourcelock", ["expires_at"], unique=False)
    op.create_index("ix_resourcelock_holder_id", "resourcelock", ["holder_id"], unique=False)
    op.create_table(
        "runstepdependency",
        sa.Column("depends_on_id", sa.BigInteger(), nullable=False),
        sa.Column("step_id", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("step_id <> depends_on_id", name=op.f("runstepdependency_a_step_does_not_wait_for_itself")),
        sa.PrimaryKeyConstraint("depends_on_id", "step_id", name=op.f("pk_runstepdependency")),
    )
    op.create_index("ix_runstepdependency_step_id", "runstepdependency", ["step_id"], unique=False)
    op.create_table(
        "stepconfig",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("created_date", UtcDateTime(), nullable=True),
        sa.Column("step_type", sa.String(), nullable=False),
        sa.Column("config_json", JSON, nullable=True),
        sa.Column("cuml_config_json", sa.String(), nullable=True),
        sa.Column("cuml_hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stepconfig")),
        sa.UniqueConstraint("step_type", "cuml_hash", name=op.f("uq_stepconfig_step_type_cuml_hash")),
    )
    op.create_table(
        "workercheckin",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("first_checkin", UtcDateTime(), nullable=False),
        sa.Column("last_checkin", UtcDateTime(), nullable=False),
        sa.Column("hostname", sa.String(), nullable=True),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("worker_meta", JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workercheckin")),
    )
    op.create_index("ix_workercheckin_last_checkin", "workercheckin", ["last_checkin"], unique=False)
    op.create_table(
        "configsetitem",
        sa.Column("config_set_id", sa.Integer(), nullable=False),
        sa.Column("config_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["config_id"], ["stepconfig.id"], name=op.f("fk_configsetitem_config_id_stepconfig")),
        sa.ForeignKeyConstraint(
            ["config_set_id"], ["configset.id"], name=op.f("fk_configsetitem_config_set_id_configset")
        ),
        sa.PrimaryKeyConstraint("config_set_id", "config_id", name=op.f("pk_configsetitem")),
    )
    op.create_index("ix_configsetitem_config_id", "configsetitem", ["config_id"], unique=False)
    op.create_table(
        "documenturi",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("doc_hash", sa.String(), nullable=False),
        sa.Column("uri", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("batch_id", sa.Integer(), nullable=True),
        sa.CheckConstraint("version >= 1", name=op.f("documenturi_version_counts_from_one")),
        sa.ForeignKeyConstraint(["batch_id"], ["documentbatch.id"], name=op.f("fk_documenturi_batch_id_documentbatch")),
        sa.ForeignKeyConstraint(["doc_hash"], ["document.hash"], name=op.f("fk_documenturi_doc_hash_document")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_documenturi")),
        sa.UniqueConstraint("uri", "source", name=op.f("uq_documenturi_uri_source")),
    )
    op.create_index("ix_documenturi_batch_id", "documenturi", ["batch_id", "id"], unique=False)
    op.create_index("ix_documenturi_doc_hash", "documenturi", ["doc_hash"], unique=False)
    op.create_index("ix_documenturi_source", "documenturi", ["source", "uri"], unique=False)
    op.create_table(
        "rungroup",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("workflow_definition_id", sa.String(), nullable=False),
        sa.Column("param_definition_id", sa.String(), nullable=False),
        sa.Column("batch_id", sa.Integer(), nullable=True),
        sa.Column("created_date", UtcDateTime(), nullable=False),
        sa.Column("start_date", UtcDateTime(), nullable=True),
        sa.Column("completed_date", UtcDateTime(), nullable=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("status_date", UtcDateTime(), nullable=True),
        sa.Column("status_message", sa.String(), nullable=True),
        sa.Column("status_meta", JSON, nullable=False),
        sa.Column("total_runs", sa.Integer(), nullable=False),
        sa.Column("remaining_runs", sa.Integer(), nullable=False),
        sa.Column("failed_runs", sa.Integer(), nullable=False),
        sa.Column("cancelled_runs", sa.Integer(), nullable=False),
        sa.Column("cancel_requested_at", UtcDateTime(), nullable=True),
        sa.CheckConstraint(
            "(completed_date IS NOT NULL) = (status IN ('COMPLETED', 'FAILED', 'CANCELLED'))",
            name=op.f("rungroup_completed_date_only_when_final"),
        ),
        sa.CheckConstraint(
            "status IN ('PENDING', 'RUNNING', 'COMPLETED', 'ERROR', 'FAILED', 'CANCELLED')",
            name=op.f("rungroup_status_is_known"),
        ),
        sa.CheckConstraint("remaining_runs BETWEEN 0 AND total_runs", name=op.f("rungroup_remaining_runs_counts_down")),
        sa.ForeignKeyConstraint(["batch_id"], ["documentbatch.id"], name=op.f("fk_rungroup_batch_id_documentbatch")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rungroup")),
        postgresql_with={"fillfactor": 50},
    )
    op.create_index("ix_rungroup_batch_id", "rungroup", ["batch_id", "id"], unique=False)
    op.create_index("ix_rungroup_status", "rungroup", ["status", "id"], unique=False)
    op.create_table(
        "documenturihistory",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("doc_uri_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("process_date", UtcDateTime(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("batch_id", sa.Integer(), nullable=True),
        sa.Column("histmeta", JSON, nullable=False),
        sa.CheckConstraint(
            "action IN ('created', 'updated', 'deleted', 'parsed', 'chunked', 'embedded', 'ingested')",
            name=op.f("documenturihistory_action_is_known"),
        ),
        sa.CheckConstraint("version >= 1", name=op.f("documenturihistory_version_counts_from_one")),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["documentbatch.id"], name=op.f("fk_documenturihistory_batch_id_documentbatch")
        ),
        sa.ForeignKeyConstraint(
            ["doc_uri_id"], ["documenturi.id"], name=op.f("fk_documenturihistory_doc_uri_id_documenturi")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_documenturihistory")),
    )
    op.create_index("ix_documenturihistory_batch_id", "documenturihistory", ["batch_id"], unique=False)
    op.create_index("ix_documenturihistory_doc_uri_id", "documenturihistory", ["doc_uri_id", "version"], unique=False)
    op.create_index("ix_documenturihistory_hash", "documenturihistory", ["hash"], unique=False)
    op.create_table(
        "workflowrun",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("workflow_definition_id", sa.String(), nullable=False),
        sa.Column("run_group_id", sa.Integer(), nullable=False),
        sa.Column("batch_id", sa.Integer(), nullable=True),
        sa.Column("doc_id", sa.String(), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("created_date", UtcDateTime(), nullable=False),
        sa.Column("start_date", UtcDateTime(), nullable=True),
        sa.Column("completed_date", UtcDateTime(), nullable=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("status_date", UtcDateTime(), nullable=True),
        sa.Column("status_message", sa.String(), nullable=True),
        sa.Column("status_meta", JSON, nullable=False),
        sa.Column("run_params", JSON, nullable=False),
        sa.Column("input", JSON, nullable=True),
        sa.Column("output", JSON, nullable=True),
        sa.Column("remaining_steps", sa.Integer(), nullable=False),
        sa.Column("failed_steps", sa.Integer(), nullable=False),
        sa.Column("queue_key", sa.BigInteger(), nullable=False),
        sa.Column("cancel_requested_at", UtcDateTime(), nullable=True),
        sa.CheckConstraint(
            "(completed_date IS NOT NULL) = (status IN ('COMPLETED', 'FAILED', 'CANCELLED'))",
            name=op.f("workflowrun_completed_date_only_when_final"),
        ),
        sa.CheckConstraint(
            "NOT (status IN ('COMPLETED', 'FAILED', 'CANCELLED')) OR remaining_steps = 0",
            name=op.f("workflowrun_ends_with_its_last_step"),
        ),
        sa.CheckConstraint(
            "status IN ('PENDING', 'RUNNING', 'COMPLETED', 'ERROR', 'FAILED', 'CANCELLED')",
            name=op.f("workflowrun_status_is_known"),
        ),
        sa.CheckConstraint("failed_steps >= 0", name=op.f("workflowrun_failed_steps_is_not_negative")),
        sa.CheckConstraint("remaining_steps >= 0", name=op.f("workflowrun_remaining_steps_counts_down")),
        sa.ForeignKeyConstraint(["batch_id"], ["documentbatch.id"], name=op.f("fk_workflowrun_batch_id_documentbatch")),
        sa.ForeignKeyConstraint(["run_group_id"], ["rungroup.id"], name=op.f("fk_workflowrun_run_group_id_rungroup")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workflowrun")),
        postgresql_with={"fillfactor": 60},
    )
    op.create_index("ix_workflowrun_batch_id", "workflowrun", ["batch_id", "id"], unique=False)
    op.create_index("ix_workflowrun_doc_id", "workflowrun", ["doc_id"], unique=False)
    op.create_index("ix_workflowrun_run_group_id", "workflowrun", ["run_group_id", "id"], unique=False)
    op.create_index("ix_workflowrun_status", "workflowrun", ["status", "batch_id", "id"], unique=False)
    op.create_table(
        "lifecyclehistory",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("event", sa.String(), nullable=False),
        sa.Column("handler_name", sa.String(), nullable=True),
        sa.Column("run_group_id", sa.Integer(), nullable=False),
        sa.Column("workflow_run_id", BIG_ID, nullable=True),
        sa.Column("step_id", sa.BigInteger(), nullable=True),
        sa.Column("start_date", UtcDateTime(), nullable=False),
        sa.Column("completed_date", UtcDateTime(), nullable=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("status_date", UtcDateTime(), nullable=True),
        sa.Column("status_message", sa.String(), nullable=True),
        sa.Column("status_meta", JSON, nullable=False),
        sa.Column("retry", sa.Integer(), nullable=False),
        sa.Column("retries", sa.Integer(), nullable=False),
        sa.Column("available_at", UtcDateTime(), nullable=False),
        sa.Column("worker_id", sa.String(), nullable=True),
        sa.Column("lease_token", sa.String(), nullable=True),
        sa.CheckConstraint(
            "(completed_date IS NOT NULL) = (status IN ('COMPLETED', 'FAILED', 'CANCELLED'))",
            name=op.f("lifecyclehistory_completed_date_only_when_final"),
        ),
        sa.CheckConstraint(
            "(lease_token IS NOT NULL) = (status = 'RUNNING')",
            name=op.f("lifecyclehistory_only_a_running_delivery_is_leased"),
        ),
        sa.CheckConstraint(
            "event IN ('group_start', 'group_end', 'item_start', 'item_end', 'item_failed', 'step_start', 'step_end', 'step_failed')",
            name=op.f("lifecyclehistory_event_is_known"),
        ),
        sa.CheckConstraint(
            "status IN ('PENDING', 'RUNNING', 'COMPLETED', 'ERROR', 'FAILED', 'CANCELLED')",
            name=op.f("lifecyclehistory_status_is_known"),
        ),
        sa.ForeignKeyConstraint(
            ["run_group_id"], ["rungroup.id"], name=op.f("fk_lifecyclehistory_run_group_id_rungroup")
        ),
        sa.ForeignKeyConstraint(
            ["workflow_run_id"], ["workflowrun.id"], name=op.f("fk_lifecyclehistory_workflow_run_id_workflowrun")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lifecyclehistory")),
    )
    op.create_index("ix_lifecyclehistory_run_group_id", "lifecyclehistory", ["run_group_id", "id"], unique=False)
    op.create_index(
        "ix_lifecyclehistory_running",
        "lifecyclehistory",
        ["worker_id"],
        unique=False,
        postgresql_where=sa.text("status = 'RUNNING'"),
        sqlite_where=sa.text("status = 'RUNNING'"),
    )
    op.create_index(
        "ix_lifecyclehistory_waiting",
        "lifecyclehistory",
        ["available_at", "id"],
        unique=False,
        postgresql_where=sa.text("status IN ('PENDING', 'ERROR')"),
        sqlite_where=sa.text("status IN ('PENDING', 'ERROR')"),
    )
    op.create_index("ix_lifecyclehistory_workflow_run_id", "lifecyclehistory", ["workflow_run_id", "id"], unique=False)
    op.create_table(
        "runstep",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("workflow_run_id", BIG_ID, nullable=False),
        sa.Column("workflow_step_number", sa.Integer(), nullable=False),
        sa.Column("workflow_step_name", sa.String(), nullable=False),
        sa.Column("step_config_id", sa.Integer(), nullable=False),
        sa.Column("step_type", sa.String(), nullable=False),
        sa.Column("is_last_step", sa.Boolean(), nullable=False),
        sa.Column("created_date", UtcDateTime(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("queue_key", sa.BigInteger(), nullable=False),
        sa.Column("start_date", UtcDateTime(), nullable=True),
        sa.Column("status_date", UtcDateTime(), nullable=True),
        sa.Column("completed_date", UtcDateTime(), nullable=True),
        sa.Column("available_at", UtcDateTime(), nullable=True),
        sa.Column("retry", sa.Integer(), nullable=False),
        sa.Column("retries", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("status_message", sa.String(), nullable=True),
        sa.Column("status_meta", JSON, nullable=False),
        sa.Column("worker_id", sa.String(), nullable=True),
        sa.Column("lease_token", sa.String(), nullable=True),
        sa.Column("resource_key", sa.String(), nullable=True),
        sa.Column("parent_step_id", BIG_ID, nullable=True),
        sa.Column("item_index", sa.Integer(), nullable=True),
        sa.Column("remaining_deps", sa.Integer(), nullable=False),
        sa.Column("remaining_tasks", sa.Integer(), nullable=False),
        sa.Column("timeout_seconds", sa.Float(), nullable=True),
        sa.Column("isolation", sa.String(), nullable=True),
        sa.Column("optional", sa.Boolean(), nullable=False),
        sa.Column("input", JSON, nullable=True),
        sa.Column("output", JSON, nullable=True),
        sa.CheckConstraint(
            "(completed_date IS NOT NULL) = (status IN ('COMPLETED', 'FAILED', 'CANCELLED'))",
            name=op.f("runstep_completed_date_only_when_final"),
        ),
        sa.CheckConstraint(
            "available_at IS NULL OR status IN ('PENDING', 'ERROR')",
            name=op.f("runstep_only_a_waiting_step_has_a_time"),
        ),
        sa.CheckConstraint(
            "isolation IS NULL OR isolation IN ('inline', 'process', 'ray')", name=op.f("runstep_isolation_is_known")
        ),
        sa.CheckConstraint(
            "lease_token IS NULL OR status = 'RUNNING'", name=op.f("runstep_only_a_running_step_is_leased")
        ),
        sa.CheckConstraint(
            "status <> 'RUNNING' OR lease_token IS NOT NULL OR remaining_tasks > 0",
            name=op.f("runstep_a_running_step_is_leased_or_waits_for_its_tasks"),
        ),
        sa.CheckConstraint(
            "status <> 'RUNNING' OR remaining_deps = 0", name=op.f("runstep_a_running_step_waits_for_nothing")
        ),
        sa.CheckConstraint(
            "status IN ('PENDING', 'RUNNING', 'COMPLETED', 'ERROR', 'FAILED', 'CANCELLED')",
            name=op.f("runstep_status_is_known"),
        ),
        sa.CheckConstraint(
            "(parent_step_id IS NULL) = (item_index IS NULL)", name=op.f("runstep_a_task_has_a_parent_and_an_index")
        ),
        sa.CheckConstraint("remaining_deps >= 0 AND remaining_tasks >= 0", name=op.f("runstep_counters_count_down")),
        sa.CheckConstraint(
            "retries >= 1 AND retry BETWEEN 0 AND retries", name=op.f("runstep_retry_stays_within_retries")
        ),
        sa.ForeignKeyConstraint(["parent_step_id"], ["runstep.id"], name=op.f("fk_runstep_parent_step_id_runstep")),
        sa.ForeignKeyConstraint(
            ["step_config_id"], ["stepconfig.id"], name=op.f("fk_runstep_step_config_id_stepconfig")
        ),
        sa.ForeignKeyConstraint(
            ["workflow_run_id"], ["workflowrun.id"], name=op.f("fk_runstep_workflow_run_id_workflowrun")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runstep")),
        postgresql_with={"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02, "autovacuum_vacuum_cost_delay": 0},
    )
    op.create_index(
        "ix_runstep_available_at",
        "runstep",
        ["available_at"],
        unique=False,
        postgresql_where=sa.text("available_at IS NOT NULL"),
        sqlite_where=sa.text("available_at IS NOT NULL"),
    )
    op.create_index(
        "ix_runstep_parent_step_id",
        "runstep",
        ["parent_step_id", "item_index"],
        unique=True,
        postgresql_where=sa.text("parent_step_id IS NOT NULL"),
        sqlite_where=sa.text("parent_step_id IS NOT NULL"),
    )
    op.create_index(
        "ix_runstep_ready",
        "runstep",
        ["step_type", sa.literal_column("priority DESC"), "queue_key", "id"],
        unique=False,
        postgresql_where=sa.text(
            "status IN ('PENDING', 'ERROR') AND remaining_deps = 0 AND remaining_tasks = 0 AND available_at IS NULL AND resource_key IS NULL"
        ),
        sqlite_where=sa.text(
            "status IN ('PENDING', 'ERROR') AND remaining_deps = 0 AND remaining_tasks = 0 AND available_at IS NULL AND resource_key IS NULL"
        ),
    )
    op.create_index(
        "ix_runstep_ready_keyed",
        "runstep",
        ["step_type", "resource_key", sa.literal_column("priority DESC"), "queue_key", "id"],
        unique=False,
        postgresql_where=sa.text(
            "status IN ('PENDING', 'ERROR') AND remaining_deps = 0 AND remaining_tasks = 0 AND available_at IS NULL AND resource_key IS NOT NULL"
        ),
        sqlite_where=sa.text(
            "status IN ('PENDING', 'ERROR') AND remaining_deps = 0 AND remaining_tasks = 0 AND available_at IS NULL AND resource_key IS NOT NULL"
        ),
    )
    op.create_index(
        "ix_runstep_resource_key",
        "runstep",
        ["resource_key"],
        unique=False,
        postgresql_where=sa.text("resource_key IS NOT NULL"),
        sqlite_where=sa.text("resource_key IS NOT NULL"),
    )
    op.create_index(
        "ix_runstep_running",
        "runstep",
        ["worker_id", "queue_key"],
        unique=False,
        postgresql_where=sa.text("status = 'RUNNING'"),
        sqlite_where=sa.text("status = 'RUNNING'"),
    )
    op.create_index(
        "ix_runstep_troubled",
        "runstep",
        ["status", "id"],
        unique=False,
        postgresql_where=sa.text("status IN ('ERROR', 'FAILED', 'CANCELLED')"),
        sqlite_where=sa.text("status IN ('ERROR', 'FAILED', 'CANCELLED')"),
    )
    op.create_index("ix_runstep_workflow_run_id", "runstep", ["workflow_run_id", "workflow_step_number"], unique=False)
    on_postgres = op.get_bind().dialect.name == "postgresql"
    for statement in STATUS_TRIGGER_POSTGRES if on_postgres else STATUS_TRIGGER_SQLITE:
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    op.drop_index("ix_runstep_workflow_run_id", table_name="runstep")
    op.drop_index(
        "ix_runstep_troubled",
        table_name="runstep",
        postgresql_where=sa.text("status IN ('ERROR', 'FAILED', 'CANCELLED')"),
        sqlite_where=sa.text("status IN ('ERROR', 'FAILED', 'CANCELLED')"),
    )
    op.drop_index(
        "ix_runstep_running",
        table_name="runstep",
        postgresql_where=sa.text("status = 'RUNNING'"),
        sqlite_where=sa.text("status = 'RUNNING'"),
    )
    op.drop_index(
        "ix_runstep_resource_key",
        table_name="runstep",
        postgresql_where=sa.text("resource_key IS NOT NULL"),
        sqlite_where=sa.text("resource_key IS NOT NULL"),
    )
    op.drop_index(
        "ix_runstep_ready_keyed",
        table_name="runstep",
        postgresql_where=sa.text(
            "status IN ('PENDING', 'ERROR') AND remaining_deps = 0 AND remaining_tasks = 0 AND available_at IS NULL AND resource_key IS NOT NULL"
        ),
        sqlite_where=sa.text(
            "status IN ('PENDING', 'ERROR') AND remaining_deps = 0 AND remaining_tasks = 0 AND available_at IS NULL AND resource_key IS NOT NULL"
        ),
    )
    op.drop_index(
        "ix_runstep_ready",
        table_name="runstep",
        postgresql_where=sa.text(
            "status IN ('PENDING', 'ERROR') AND remaining_deps = 0 AND remaining_tasks = 0 AND available_at IS NULL AND resource_key IS NULL"
        ),
        sqlite_where=sa.text(
            "status IN ('PENDING', 'ERROR') AND remaining_deps = 0 AND remaining_tasks = 0 AND available_at IS NULL AND resource_key IS NULL"
        ),
    )
    op.drop_index(
        "ix_runstep_parent_step_id",
        table_name="runstep",
        postgresql_where=sa.text("parent_step_id IS NOT NULL"),
        sqlite_where=sa.text("parent_step_id IS NOT NULL"),
    )
    op.drop_index(
        "ix_runstep_available_at",
        table_name="runstep",
        postgresql_where=sa.text("available_at IS NOT NULL"),
        sqlite_where=sa.text("available_at IS NOT NULL"),
    )
    op.drop_table("runstep")
    op.drop_index("ix_lifecyclehistory_workflow_run_id", table_name="lifecyclehistory")
    op.drop_index(
        "ix_lifecyclehistory_waiting",
        table_name="lifecyclehistory",
        postgresql_where=sa.text("status IN ('PENDING', 'ERROR')"),
        sqlite_where=sa.text("status IN ('PENDING', 'ERROR')"),
    )
    op.drop_index(
        "ix_lifecyclehistory_running",
        table_name="lifecyclehistory",
        postgresql_where=sa.text("status = 'RUNNING'"),
        sqlite_where=sa.text("status = 'RUNNING'"),
    )
    op.drop_index("ix_lifecyclehistory_run_group_id", table_name="lifecyclehistory")
    op.drop_table("lifecyclehistory")
    op.drop_index("ix_workflowrun_status", table_name="workflowrun")
    op.drop_index("ix_workflowrun_run_group_id", table_name="workflowrun")
    op.drop_index("ix_workflowrun_doc_id", table_name="workflowrun")
    op.drop_index("ix_workflowrun_batch_id", table_name="workflowrun")
    op.drop_table("workflowrun")
    op.drop_index("ix_documenturihistory_hash", table_name="documenturihistory")
    op.drop_index("ix_documenturihistory_doc_uri_id", table_name="documenturihistory")
    op.drop_index("ix_documenturihistory_batch_id", table_name="documenturihistory")
    op.drop_table("documenturihistory")
    op.drop_index("ix_rungroup_status", table_name="rungroup")
    op.drop_index("ix_rungroup_batch_id", table_name="rungroup")
    op.drop_table("rungroup")
    op.drop_index("ix_documenturi_source", table_name="documenturi")
    op.drop_index("ix_documenturi_doc_hash", table_name="documenturi")
    op.drop_index("ix_documenturi_batch_id", table_name="documenturi")
    op.drop_table("documenturi")
    op.drop_index("ix_configsetitem_config_id", table_name="configsetitem")
    op.drop_table("configsetitem")
    op.drop_index("ix_workercheckin_last_checkin", table_name="workercheckin")
    op.drop_table("workercheckin")
    op.drop_table("stepconfig")
    op.drop_index("ix_runstepdependency_step_id", table_name="runstepdependency")
    op.drop_table("runstepdependency")
    op.drop_index("ix_resourcelock_holder_id", table_name="resourcelock")
    op.drop_index("ix_resourcelock_expires_at", table_name="resourcelock")
    op.drop_table("resourcelock")
    op.drop_table("documentbytes")
    op.drop_index("ix_documentbatch_source", table_name="documentbatch")
    op.drop_table("documentbatch")
    op.drop_table("document")
    op.drop_table("configset")
    if op.get_bind().dialect.name == "postgresql":
        op.get_bind().exec_driver_sql("DROP FUNCTION refuse_status_change()")
