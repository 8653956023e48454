"""What passes between the worker and the operations: claimed steps on the way out, results on the way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import configure_mappers

from soliplex.ingester.lib.models import Isolation, RunStatus, RunStep, WorkflowRun
from soliplex.ingester.lib.models.transactions import Row, datetime_of, json_of


@dataclass(slots=True, eq=False)
class ClaimedStep:
    """A step this worker holds, with the run it belongs to."""

    id: int
    run_id: int
    name: str
    type: str
    lease: str
    resource_key: str | None
    parent_id: int | None
    timeout: float | None
    workflow_id: str
    group_id: int
    row: Row
    run: Row

    @property
    def retry(self) -> int:
        return self.row["retry"]

    @property
    def input(self) -> Any:
        return json_of(self.row, "input")

    def run_step(self) -> RunStep:
        """The row as the model handlers know."""
        return detached(RunStep, self.row)

    def workflow_run(self) -> WorkflowRun:
        return detached(WorkflowRun, self.run)


_DATETIMES = frozenset(
    {
        "created_date",
        "start_date",
        "status_date",
        "completed_date",
        "available_at",
        "cancel_requested_at",
    }
)
_JSONS = frozenset({"status_meta", "run_params", "input", "output"})
_BOOLEANS = frozenset({"is_last_step", "optional"})
_ENUMS = {"status": RunStatus, "isolation": Isolation}


def detached[M: (RunStep, WorkflowRun)](model: type[M], row: Row) -> M:
    """A model as it would come out of a session that is closed. The constructor takes forty times as long."""
    maker = _maker(model)
    instance = maker.new_instance()
    values = {**maker.defaults, **{name: _value(row, name) for name in row.keys()}}  # noqa: SIM118  rows iterate over values
    instance.__dict__.update(values)
    object.__setattr__(instance, "__pydantic_fields_set__", set(values))
    return instance


def _value(row: Row, name: str) -> Any:
    if name in _DATETIMES:
        return datetime_of(row, name)
    if name in _JSONS:
        return json_of(row, name)
    if name in _BOOLEANS:
        return bool(row[name])
    kind = _ENUMS.get(name)
    return row[name] if kind is None or row[name] is None else kind(row[name])


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes instances of a model that may be read and assigned to like any other."""

    new_instance: Callable[[], Any]
    defaults: Mapping[str, Any]


_makers: dict[type, _Maker] = {}


def _maker(model: type[RunStep | WorkflowRun]) -> _Maker:
    if model not in _makers:
        configure_mappers()  # nothing else in this process may have used them yet
        _makers[model] = _Maker(sa.inspect(model).class_manager.new_instance, dict.fromkeys(model.model_fields))
    return _makers[model]


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The handler returned."""

    step_id: int
    run_id: int
    lease: str
    output: Any = None
    message: str | None = None
    meta: Mapping[str, Any] | None = None
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Errored:
    """The attempt failed. Permanent: there is no use in another one."""

    step_id: int
    run_id: int
    lease: str
    message: str
    permanent: bool = False
    delay: timedelta = timedelta()
    meta: Mapping[str, Any] | None = None
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The step goes back untouched: the worker stops, or the run was cancelled, in which case it ends CANCELLED."""

    step_id: int
    run_id: int
    lease: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expanded:
    """A map step has become one task for each item."""

    step_id: int
    run_id: int
    lease: str
    items: list[Any] = field(default_factory=list[Any])


type Result = Completed | Errored | Released | Expanded
