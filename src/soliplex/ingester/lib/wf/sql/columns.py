"""The columns of steps and runs that claims read back, listed once for all statements that claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import sqlalchemy as sa

from soliplex.ingester.lib.models import RunStep, Table, WorkflowRun
from soliplex.ingester.lib.models.workflows import PROFILE_BOUNDS


def _columns(table: type[Table]) -> Mapping[str, sa.Column[Any]]:
    made: sa.Table = table.__table__  # pyright: ignore[reportAttributeAccessIssue]  SQLModel adds it at run time
    return {column.name: column for column in made.columns}


NOT_READ_BACK: Final = frozenset(
    {
        "status",
        "status_date",
        "status_message",
        "worker_id",
        "lease_token",
        "start_date",
        "completed_date",
        "available_at",
        "remaining_deps",
        "remaining_tasks",
        "output",
        "progress",
        "max_failures",
        "failed_tasks",
        "gather",
    }
)
"""Columns of a step that its claim sets, that are empty or zero in every step that can be claimed, that tell of an
earlier attempt, or that only map steps have: no handler is called for these."""

STEP_COLUMNS: Final = tuple(name for name in _columns(RunStep) if name not in NOT_READ_BACK)
"""What a claim reads of a step."""

RUN_COLUMNS: Final = (
    "id",
    "workflow_definition_id",
    "run_group_id",
    "batch_id",
    "doc_id",
    "status",
    "run_params",
    "input",
    "cancel_requested_at",
    "definition_id",
    "run_key",
    "created_date",
)
"""What a worker needs to know of the run of a step that it has claimed."""


def fragments() -> dict[str, str]:
    """The fragments of SQL that these lists become, for statements to include.

    `claim_and_start` answers with steps and with runs as rows of one shape: each row has the columns of a step, then
    the columns that only runs have. A column that a step or a run does not have is NULL.
    """
    of_runs_alone = tuple(name for name in RUN_COLUMNS if name not in STEP_COLUMNS)
    every = (*STEP_COLUMNS, *of_runs_alone)
    return {
        "claimed_columns": _read_back(RunStep, STEP_COLUMNS),
        "claimed_run_columns": _read_back(WorkflowRun, RUN_COLUMNS),
        "step_as_row": ", ".join((*STEP_COLUMNS, *(f"NULL AS {name}" for name in of_runs_alone))),
        "run_as_row": ", ".join(name if name in RUN_COLUMNS else "NULL" for name in every),
        "no_row": ", ".join("NULL" for _ in every),
        "profile_bucket": _profile_bucket(),
    }


def _profile_bucket() -> str:
    """Which bound of PROFILE_BOUNDS is the first that a duration does not exceed."""
    bounds = " ".join(f"WHEN x.seconds <= {bound} THEN {place}" for place, bound in enumerate(PROFILE_BOUNDS))
    return f"CASE WHEN x.seconds IS NULL THEN -1 {bounds} ELSE {len(PROFILE_BOUNDS)} END"


def _read_back(table: type[Table], names: Iterable[str]) -> str:
    """JSON is read as text: what nobody asks for need not be decoded."""
    columns = _columns(table)
    return ", ".join(f"CAST({name} AS text) AS {name}" if _is_json(columns[name]) else name for name in names)


def _is_json(column: sa.Column[Any]) -> bool:
    return isinstance(column.type, sa.JSON)
