"""The engine's tables: groups, runs, steps, their edges, events, workers and locks.

A `runstep` row is the one unit of work. It can be claimed when it is *ready*:

    status is PENDING or ERROR, remaining_deps = 0, remaining_tasks = 0 and available_at IS NULL

`available_at` is set only while a step waits for its time; the claim clears it when that time has come, so the indexes
that the claim walks hold rows that can be taken now and nothing else: neither blocked, delayed, running nor finished
ones.

A step that waits for a signal is PENDING, names the signal's key in `awaits`, and its `available_at` is the moment at
which it stops waiting (`NEVER`, if it waits for ever). So the index of ready steps never holds a step that waits.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from pydantic import computed_field
from sqlalchemy import event
from sqlmodel import Field

from soliplex.ingester.lib.enums import (
    VALID_TRANSITIONS,
    DefinitionKind,
    Isolation,
    LifeCycleEvent,
    ResourceLockKind,
    RunStatus,
)
from soliplex.ingester.lib.models.base import Table
from soliplex.ingester.lib.models.columns import (
    IDS_ARE_NEVER_REUSED,
    JSON,
    EnumText,
    UtcDateTime,
    one_of,
    partial_index,
    utcnow,
)
from soliplex.ingester.lib.models.documents import seconds_between

NEVER: Final = datetime(9999, 1, 1, tzinfo=UTC)
"""The `available_at` of a step that waits for a signal without a limit of time."""
FINAL = "status IN ('COMPLETED', 'FAILED', 'CANCELLED')"
READY = "status IN ('PENDING', 'ERROR') AND remaining_deps = 0 AND remaining_tasks = 0 AND available_at IS NULL"
UPDATED_OFTEN: Final = {
    "autovacuum_vacuum_scale_factor": 0,
    "autovacuum_vacuum_threshold": 20_000,
    "autovacuum_vacuum_insert_scale_factor": 0,
    "autovacuum_vacuum_insert_threshold": 200_000,
    "autovacuum_analyze_scale_factor": 0,
    "autovacuum_analyze_threshold": 100_000,
    "autovacuum_vacuum_cost_delay": 0,
}
"""For tables whose rows are changed again and again: PostgreSQL cleans up after so many changes, at full speed, however
large the table has become. A share of the table, as is usual, would let millions of dead entries pile up at the head
of the ready index once the history is long."""
BigId = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite numbers rows by itself only for INTEGER


class RunGroup(Table, table=True):
    """Runs that were started together."""

    __table_args__ = (
        sa.CheckConstraint(one_of("status", RunStatus), name="status_is_known"),
        sa.CheckConstraint("remaining_runs BETWEEN 0 AND total_runs", name="remaining_runs_counts_down"),
        sa.CheckConstraint(f"(completed_date IS NOT NULL) = ({FINAL})", name="completed_date_only_when_final"),
        sa.Index("ix_rungroup_batch_id", "batch_id", "id"),
        sa.Index("ix_rungroup_status", "status", "id"),
        partial_index(
            "ix_rungroup_completed_date", "status", "completed_date", "id", where="completed_date IS NOT NULL"
        ),
        # Every group of results may update the row: room on the page keeps those updates off the indexes.
        partial_index("ix_rungroup_delete_requested_at", "id", where="delete_requested_at IS NOT NULL"),
        IDS_ARE_NEVER_REUSED | {"postgresql_with": {"fillfactor": 50} | UPDATED_OFTEN},
    )

    id: int | None = Field(default=None, primary_key=True)
    name: str | None = None
    workflow_definition_id: str
    param_definition_id: str
    batch_id: int | None = Field(default=None, foreign_key="documentbatch.id")
    created_date: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    start_date: datetime | None = Field(default=None, sa_type=UtcDateTime)
    completed_date: datetime | None = Field(default=None, sa_type=UtcDateTime)
    status: RunStatus = Field(default=RunStatus.PENDING, sa_type=EnumText(RunStatus))
    status_date: datetime | None = Field(default=None, sa_type=UtcDateTime)
    status_message: str | None = None
    status_meta: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    total_runs: int = 0
    remaining_runs: int = 0
    failed_runs: int = 0
    cancelled_runs: int = 0
    cancel_requested_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    delete_requested_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    """Since when the group is being deleted, some runs at a time."""


KNOWN_TO_ALL: Final = "kind = 'params' OR has_events"
"""Definitions that every process reads when they appear; others are read when they are needed."""
TROUBLED_RUNS: Final = "failed_steps > 0 OR cancel_requested_at IS NOT NULL"
"""The condition of an index that holds all runs that are FAILED or CANCELLED, and few others."""


class WorkflowRun(Table, table=True):
    """One execution of a workflow, for one document or one input."""

    __table_args__ = (
        sa.CheckConstraint(one_of("status", RunStatus), name="status_is_known"),
        sa.CheckConstraint("remaining_steps >= 0", name="remaining_steps_counts_down"),
        sa.CheckConstraint("failed_steps >= 0", name="failed_steps_is_not_negative"),
        sa.CheckConstraint(f"(completed_date IS NOT NULL) = ({FINAL})", name="completed_date_only_when_final"),
        sa.CheckConstraint(f"NOT ({FINAL}) OR remaining_steps = 0", name="ends_with_its_last_step"),
        sa.Index("ix_workflowrun_run_group_id", "run_group_id", "id"),
        sa.Index("ix_workflowrun_batch_id", "batch_id", "id"),
        sa.Index("ix_workflowrun_doc_id", "doc_id"),
        partial_index("ix_workflowrun_troubled", "batch_id", "id", where=TROUBLED_RUNS),
        partial_index(
            "ix_workflowrun_run_key", "workflow_definition_id", "run_key", where="run_key IS NOT NULL", unique=True
        ),
        partial_index("ix_workflowrun_deadline", "deadline", where="deadline IS NOT NULL AND completed_date IS NULL"),
        partial_index(
            "ix_workflowrun_parent_step_id",
            "parent_step_id",
            where="parent_step_id IS NOT NULL AND completed_date IS NULL",
        ),
        # No index holds what changes with every step or start: on a page with room those updates touch none.
        IDS_ARE_NEVER_REUSED | {"postgresql_with": {"fillfactor": 60} | UPDATED_OFTEN},
    )

    id: int | None = Field(default=None, primary_key=True, sa_type=BigId)
    workflow_definition_id: str
    run_group_id: int = Field(foreign_key="rungroup.id")
    batch_id: int | None = Field(default=None, foreign_key="documentbatch.id")
    doc_id: str | None = None
    priority: int = 0
    created_date: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    start_date: datetime | None = Field(default=None, sa_type=UtcDateTime)
    completed_date: datetime | None = Field(default=None, sa_type=UtcDateTime)
    status: RunStatus = Field(default=RunStatus.PENDING, sa_type=EnumText(RunStatus))
    status_date: datetime | None = Field(default=None, sa_type=UtcDateTime)
    status_message: str | None = None
    status_meta: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    run_params: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    input: Any = Field(default=None, sa_type=JSON, nullable=True)
    output: Any = Field(default=None, sa_type=JSON, nullable=True)
    remaining_steps: int = 0
    failed_steps: int = 0
    queue_key: int = Field(default=0, sa_type=sa.BigInteger)
    cancel_requested_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    run_key: str | None = None
    """A name that the starter gave the run: a second run of the workflow with the same one is not started."""
    deadline: datetime | None = Field(default=None, sa_type=UtcDateTime)
    """The moment at which the run fails if it has not ended."""
    parent_step_id: int | None = Field(default=None, sa_type=sa.BigInteger)
    """The step, of another run, that waits for the end of this one."""
    definition_id: int | None = Field(default=None, sa_type=sa.BigInteger)
    """The stored version of the workflow that the run keeps to. None: the files say what the workflow is."""

    @computed_field
    @property
    def duration(self) -> float | None:
        """Seconds from the first step's start to the end of the run."""
        return seconds_between(self.start_date, self.completed_date)


class RunStep(Table, table=True):
    """One step of a run, or one task of a map step: the unit of work that is claimed and finished."""

    __table_args__ = (
        sa.CheckConstraint(one_of("status", RunStatus), name="status_is_known"),
        sa.CheckConstraint(f"isolation IS NULL OR {one_of('isolation', Isolation)}", name="isolation_is_known"),
        sa.CheckConstraint("retries >= 1 AND retry BETWEEN 0 AND retries", name="retry_stays_within_retries"),
        sa.CheckConstraint("remaining_deps >= 0 AND remaining_tasks >= 0", name="counters_count_down"),
        sa.CheckConstraint("lease_token IS NULL OR status = 'RUNNING'", name="only_a_running_step_is_leased"),
        sa.CheckConstraint(
            "status <> 'RUNNING' OR lease_token IS NOT NULL OR remaining_tasks > 0",
            name="a_running_step_is_leased_or_waits_for_its_tasks",
        ),
        sa.CheckConstraint("status <> 'RUNNING' OR remaining_deps = 0", name="a_running_step_waits_for_nothing"),
        sa.CheckConstraint(
            "available_at IS NULL OR status IN ('PENDING', 'ERROR')", name="only_a_waiting_step_has_a_time"
        ),
        sa.CheckConstraint(f"(completed_date IS NOT NULL) = ({FINAL})", name="completed_date_only_when_final"),
        sa.CheckConstraint("(parent_step_id IS NULL) = (item_index IS NULL)", name="a_task_has_a_parent_and_an_index"),
        sa.Index("ix_runstep_workflow_run_id", "workflow_run_id", "workflow_step_number"),
        partial_index(
            "ix_runstep_ready",
            "step_type",
            "priority DESC",
            "queue_key",
            "id",
            where=f"{READY} AND resource_key IS NULL",
        ),
        partial_index(
            "ix_runstep_ready_keyed",
            "step_type",
            "resource_key",
            "priority DESC",
            "queue_key",
            "id",
            where=f"{READY} AND resource_key IS NOT NULL",
        ),
        partial_index("ix_runstep_available_at", "available_at", where="available_at IS NOT NULL"),
        partial_index("ix_runstep_running", "worker_id", "queue_key", where="status = 'RUNNING'"),
        partial_index("ix_runstep_troubled", "status", "id", where="status IN ('ERROR', 'FAILED', 'CANCELLED')"),
        partial_index(
            "ix_runstep_parent_step_id", "parent_step_id", "item_index", where="parent_step_id IS NOT NULL", unique=True
        ),
        partial_index("ix_runstep_resource_key", "resource_key", where="resource_key IS NOT NULL"),
        partial_index("ix_runstep_awaits", "awaits", "id", where="awaits IS NOT NULL"),
        IDS_ARE_NEVER_REUSED | {"postgresql_with": {"fillfactor": 70} | UPDATED_OFTEN},
    )

    id: int | None = Field(default=None, primary_key=True, sa_type=BigId)
    workflow_run_id: int = Field(foreign_key="workflowrun.id", sa_type=BigId)
    workflow_step_number: int
    workflow_step_name: str
    step_config_id: int = Field(foreign_key="stepconfig.id")
    step_type: str
    is_last_step: bool = False
    created_date: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    priority: int = 0
    queue_key: int = Field(default=0, sa_type=sa.BigInteger)
    start_date: datetime | None = Field(default=None, sa_type=UtcDateTime)
    status_date: datetime | None = Field(default=None, sa_type=UtcDateTime)
    completed_date: datetime | None = Field(default=None, sa_type=UtcDateTime)
    available_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    retry: int = 0
    retries: int = 1
    status: RunStatus = Field(default=RunStatus.PENDING, sa_type=EnumText(RunStatus))
    status_message: str | None = None
    status_meta: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    worker_id: str | None = None
    lease_token: str | None = None
    resource_key: str | None = None
    parent_step_id: int | None = Field(default=None, foreign_key="runstep.id", sa_type=BigId)
    item_index: int | None = None
    remaining_deps: int = 0
    remaining_tasks: int = 0
    timeout_seconds: float | None = None
    isolation: Isolation | None = Field(default=None, sa_type=EnumText(Isolation))
    optional: bool = False
    input: Any = Field(default=None, sa_type=JSON, nullable=True)
    output: Any = Field(default=None, sa_type=JSON, nullable=True)
    state: Any = Field(default=None, sa_type=JSON, nullable=True)
    """What the handler asked to be given back at its next call."""
    awaits: str | None = None
    """The key of the signal that the step waits for."""
    answer: Any = Field(default=None, sa_type=JSON, nullable=True)
    """The payload of the signal that ended the step's last wait."""
    repeats: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """How often the handler asked to be called again."""
    max_failures: int | None = None
    """How many tasks of a map step may fail before the step does. None: the step fails with its first task."""
    failed_tasks: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Of a map step: how many of its tasks have failed so far."""
    gather: bool = Field(default=True, sa_column_kwargs={"server_default": sa.true()})
    """Of a map step: whether its output is the list of what its tasks gave."""
    progress: dict[str, Any] | None = Field(default=None, sa_type=JSON, nullable=True)
    """How far the handler says it has come: `fraction`, `text`, and `at`. One from before `start_date` is of an earlier
    attempt."""

    @computed_field
    @property
    def duration(self) -> float | None:
        """Seconds the step took."""
        return seconds_between(self.start_date, self.completed_date)


class Definition(Table, table=True):
    """A version of a workflow or a parameter set that all processes share.

    Rows are only added, and the newest that is no draft is in use. Deleting one adds a version without content: runs
    that were started with an earlier version keep it.
    """

    __table_args__ = (
        sa.CheckConstraint(one_of("kind", DefinitionKind), name="kind_is_known"),
        sa.CheckConstraint("version >= 1", name="versions_count_from_one"),
        sa.CheckConstraint("content IS NOT NULL OR NOT is_draft", name="a_draft_has_content"),
        sa.UniqueConstraint("kind", "slug", "version"),
        partial_index("ix_definition_known_to_all", "id", where=KNOWN_TO_ALL),
        IDS_ARE_NEVER_REUSED,
    )

    id: int | None = Field(default=None, primary_key=True, sa_type=BigId)
    kind: DefinitionKind = Field(sa_type=EnumText(DefinitionKind))
    slug: str
    version: int
    hash: str
    """SHA-256 of the content."""
    content: str | None = None
    """A workflow as JSON, a parameter set as YAML. None: deleted with this version."""
    is_draft: bool = False
    has_events: bool = False
    """Of a workflow: whether it handles lifecycle events. Every worker knows these."""
    created_date: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)


class Schedule(Table, table=True):
    """A workflow that is started again and again, at the times that a cron expression gives."""

    __table_args__ = (
        sa.UniqueConstraint("name"),
        partial_index("ix_schedule_next_due_at", "next_due_at", where="next_due_at IS NOT NULL"),
        IDS_ARE_NEVER_REUSED,
    )

    id: int | None = Field(default=None, primary_key=True)
    name: str
    workflow_id: str
    param_id: str | None = None
    cron: str
    time_zone: str = "UTC"
    input: Any = Field(default=None, sa_type=JSON, nullable=True)
    priority: int = 0
    deadline_seconds: float | None = None
    """How long a run may take."""
    catch_up: bool = True
    """Whether a run is started late, once, where due times were missed."""
    created_date: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    next_due_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    """None: paused."""
    last_due_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_run_id: int | None = Field(default=None, sa_type=sa.BigInteger)
    missed: int = 0
    """Due times at which nothing was started: no worker was there."""
    status_message: str | None = None
    """Why the last start did not succeed."""


class StepProfile(Table, table=True):
    """How steps of pruned runs went: counts by step, day, outcome and duration."""

    __table_args__ = (sa.CheckConstraint(one_of("status", RunStatus), name="status_is_known"),)

    workflow_id: str = Field(primary_key=True)
    step_name: str = Field(primary_key=True)
    step_type: str = Field(primary_key=True)
    day: str = Field(primary_key=True)
    """The day in UTC, as 2030-12-31."""
    status: RunStatus = Field(primary_key=True, sa_type=EnumText(RunStatus))
    bucket: int = Field(primary_key=True)
    """Which bound of PROFILE_BOUNDS is the first that the duration does not exceed. -1: it never began."""
    steps: int = Field(default=0, sa_type=sa.BigInteger)
    attempts: int = Field(default=0, sa_type=sa.BigInteger)
    """Failed attempts."""
    seconds: float = 0.0
    """All durations together."""


PROFILE_BOUNDS: Final = tuple(round(0.001 * 2**power, 3) for power in range(28))
"""Seconds: from a millisecond to a day and a half, each twice the one before."""


class Signal(Table, table=True):
    """A message under a key, for the one step that waits for that key, or will.

    A new one has yet to be compared with the steps that wait. One that is not new was compared, and nobody waited: the
    next step that waits for its key takes it.
    """

    __table_args__ = (
        sa.Index("ix_signal_key", "key", "id"),
        partial_index("ix_signal_new", "id", where="is_new"),
        IDS_ARE_NEVER_REUSED,
    )

    id: int | None = Field(default=None, primary_key=True, sa_type=BigId)
    key: str
    payload: Any = Field(default=None, sa_type=JSON, nullable=True)
    created_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    is_new: bool = True


class StepAttempt(Table, table=True):
    """An attempt of a step that failed. Those that succeed leave no row."""

    __table_args__ = (
        sa.Index("ix_stepattempt_step_id", "step_id", "id"),
        IDS_ARE_NEVER_REUSED,
    )

    id: int | None = Field(default=None, primary_key=True, sa_type=BigId)
    step_id: int = Field(sa_type=sa.BigInteger)
    attempt: int
    """Counted from 1 for each call of the handler."""
    worker_id: str | None = None
    start_date: datetime | None = Field(default=None, sa_type=UtcDateTime)
    end_date: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    error_type: str | None = None
    message: str | None = None
    traceback: str | None = None

    @computed_field
    @property
    def duration(self) -> float | None:
        """Seconds the attempt took."""
        return seconds_between(self.start_date, self.end_date)


class RunStepDependency(Table, table=True):
    """An edge of a run's graph: `step_id` waits for `depends_on_id`.

    No foreign keys: both ends are rows of the same run, written and deleted with it in one transaction, and checking
    them would be a large part of the cost of creating a run.
    """

    __table_args__ = (
        sa.CheckConstraint("step_id <> depends_on_id", name="a_step_does_not_wait_for_itself"),
        sa.Index("ix_runstepdependency_step_id", "step_id"),
    )

    depends_on_id: int = Field(primary_key=True, sa_type=sa.BigInteger)
    step_id: int = Field(primary_key=True, sa_type=sa.BigInteger)


class StepConfig(Table, table=True):
    """The configuration of a step together with all that came before it: the key under which artifacts are shared."""

    __table_args__ = (sa.UniqueConstraint("step_type", "cuml_hash"), IDS_ARE_NEVER_REUSED)

    id: int | None = Field(default=None, primary_key=True)
    created_date: datetime | None = Field(default_factory=utcnow, sa_type=UtcDateTime)
    step_type: str
    config_json: dict[str, Any] | None = Field(default=None, sa_type=JSON, nullable=True)
    cuml_config_json: str | None = None
    cuml_hash: str
    """SHA-256 of cuml_config_json: a long text does not fit into an index."""


class ConfigSet(Table, table=True):
    """A parameter set as it was when it was used."""

    __table_args__ = (sa.UniqueConstraint("yaml_id", "yaml_hash"), IDS_ARE_NEVER_REUSED)

    id: int | None = Field(default=None, primary_key=True)
    yaml_id: str
    yaml_contents: str
    yaml_hash: str
    created_date: datetime | None = Field(default_factory=utcnow, sa_type=UtcDateTime)


class ConfigSetItem(Table, table=True):
    """Which step configurations a parameter set gave rise to."""

    __table_args__ = (sa.Index("ix_configsetitem_config_id", "config_id"),)

    config_set_id: int = Field(primary_key=True, foreign_key="configset.id")
    config_id: int = Field(primary_key=True, foreign_key="stepconfig.id")


class LifecycleHistory(Table, table=True):
    """An event in the life of a group, run or step; with a handler to call, also the work of calling it.

    The row is written by the transaction that changes the state (an outbox). Without a handler it is a record,
    COMPLETED from the start; with one it is PENDING until a worker has called the handler.
    """

    __table_args__ = (
        sa.CheckConstraint(one_of("event", LifeCycleEvent), name="event_is_known"),
        sa.CheckConstraint(one_of("status", RunStatus), name="status_is_known"),
        sa.CheckConstraint(
            "(lease_token IS NOT NULL) = (status = 'RUNNING')", name="only_a_running_delivery_is_leased"
        ),
        sa.CheckConstraint(f"(completed_date IS NOT NULL) = ({FINAL})", name="completed_date_only_when_final"),
        sa.Index("ix_lifecyclehistory_run_group_id", "run_group_id", "id"),
        sa.Index("ix_lifecyclehistory_workflow_run_id", "workflow_run_id", "id"),
        partial_index("ix_lifecyclehistory_waiting", "available_at", "id", where="status IN ('PENDING', 'ERROR')"),
        partial_index("ix_lifecyclehistory_running", "worker_id", where="status = 'RUNNING'"),
        IDS_ARE_NEVER_REUSED,
    )

    id: int | None = Field(default=None, primary_key=True, sa_type=BigId)
    event: LifeCycleEvent = Field(sa_type=EnumText(LifeCycleEvent))
    handler_name: str | None = None
    run_group_id: int = Field(foreign_key="rungroup.id")
    workflow_run_id: int | None = Field(default=None, foreign_key="workflowrun.id", sa_type=BigId)
    step_id: int | None = Field(default=None, sa_type=sa.BigInteger)
    start_date: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    completed_date: datetime | None = Field(default=None, sa_type=UtcDateTime)
    status: RunStatus = Field(default=RunStatus.PENDING, sa_type=EnumText(RunStatus))
    status_date: datetime | None = Field(default=None, sa_type=UtcDateTime)
    status_message: str | None = None
    status_meta: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    retry: int = 0
    retries: int = 1
    available_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    worker_id: str | None = None
    lease_token: str | None = None


class WorkerCheckin(Table, table=True):
    """A worker that is alive, or was when it last said so."""

    __table_args__ = (sa.Index("ix_workercheckin_last_checkin", "last_checkin"),)

    id: str = Field(primary_key=True)
    first_checkin: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    last_checkin: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    hostname: str | None = None
    pid: int | None = None
    worker_meta: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)


class ResourceLock(Table, table=True):
    """Exclusive use of a named resource, by a worker or by a direct caller."""

    __table_args__ = (
        sa.CheckConstraint(one_of("holder_kind", ResourceLockKind), name="holder_kind_is_known"),
        sa.Index("ix_resourcelock_expires_at", "expires_at"),
        sa.Index("ix_resourcelock_holder_id", "holder_id"),
    )

    resource_key: str = Field(primary_key=True)
    holder_id: str
    holder_kind: ResourceLockKind = Field(sa_type=EnumText(ResourceLockKind))
    step_id: int | None = Field(default=None, sa_type=sa.BigInteger)
    acquired_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    expires_at: datetime = Field(sa_type=UtcDateTime)
    holder_meta: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)


class ResourceWaiter(Table, table=True):
    """One who waits for a resource that another holds. Who came first is served first."""

    __table_args__ = (
        sa.UniqueConstraint("resource_key", "holder_id"),
        sa.Index("ix_resourcewaiter_resource_key", "resource_key", "id"),
        IDS_ARE_NEVER_REUSED,
    )

    id: int | None = Field(default=None, primary_key=True, sa_type=BigId)
    resource_key: str
    holder_id: str
    since: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)
    expires_at: datetime = Field(sa_type=UtcDateTime)
    """One who does not ask again until then has given up, or died."""


class ResourceFence(Table, table=True):
    """The token of whoever held the lock of a resource last. It only grows, and outlives the lock."""

    __table_args__ = (sa.CheckConstraint("token > 0", name="token_is_positive"),)

    resource_key: str = Field(primary_key=True)
    token: int = Field(sa_type=sa.BigInteger)
    holder_id: str
    taken_at: datetime = Field(default_factory=utcnow, sa_type=UtcDateTime)


def _forbidden(old: str, new: str) -> str:
    allowed = " OR ".join(f"({old} = '{before}' AND {new} = '{after}')" for before, after in sorted(VALID_TRANSITIONS))
    return f"{old} <> {new} AND NOT ({allowed})"


# The condition stands in WHEN, so the function is entered only to refuse. AFTER: before an update, PostgreSQL would
# lock every row once more, only to show it to the condition.
_REFUSE = """
CREATE FUNCTION refuse_status_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a step cannot go from % to %', OLD.status, NEW.status USING ERRCODE = 'check_violation';
END $$
"""
_TRIGGER_POSTGRES = f"""
CREATE TRIGGER runstep_status_changes_are_valid AFTER UPDATE OF status ON runstep
FOR EACH ROW WHEN ({_forbidden("OLD.status", "NEW.status")}) EXECUTE FUNCTION refuse_status_change()
"""
_TRIGGER_SQLITE = f"""
CREATE TRIGGER runstep_status_changes_are_valid BEFORE UPDATE OF status ON runstep
WHEN {_forbidden("OLD.status", "NEW.status")}
BEGIN SELECT RAISE(ABORT, 'a step cannot make this change of status'); END
"""
STATUS_TRIGGER_POSTGRES = (_REFUSE, _TRIGGER_POSTGRES)
STATUS_TRIGGER_SQLITE = (_TRIGGER_SQLITE,)


def _attach_trigger() -> None:
    table: sa.Table = RunStep.__table__  # pyright: ignore[reportAttributeAccessIssue]  SQLModel adds it at run time
    for statement in STATUS_TRIGGER_POSTGRES:
        event.listen(table, "after_create", sa.DDL(statement.replace("%", "%%")).execute_if(dialect="postgresql"))
    event.listen(
        table, "after_drop", sa.DDL("DROP FUNCTION IF EXISTS refuse_status_change()").execute_if(dialect="postgresql")
    )
    for statement in STATUS_TRIGGER_SQLITE:
        event.listen(table, "after_create", sa.DDL(statement).execute_if(dialect="sqlite"))


_attach_trigger()
