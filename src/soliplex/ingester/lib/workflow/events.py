"""The handler of lifecycle events that the shipped workflow files name: it writes them to the log."""

from __future__ import annotations

import logging
from typing import Any

from soliplex.ingester.lib.models import LifeCycleEvent, RunGroup

_log = logging.getLogger(__name__)


async def log_event(
    event: LifeCycleEvent,
    run_group: RunGroup,
    workflow_run_id: int | None = None,
    step_id: int | None = None,
    error: str | None = None,
    message: str = "",
    **parameters: Any,
) -> None:
    """Write an event to the log, with the message of the workflow file."""
    about = {"workflow_run_id": workflow_run_id, "step_id": step_id, "error": error}
    known = {name: value for name, value in about.items() if value is not None}
    extra = {name: value for name, value in parameters.items() if isinstance(value, str | int | float | bool)}
    text = f"{message} ({event} of run group {run_group.id})" if message else f"{event} of run group {run_group.id}"
    _log.info("%s", text, extra={**extra, **known, "run_group_id": run_group.id, "lifecycle_event": str(event)})
