"""Handlers of lifecycle events: one writes them to the log, one sends them to a receiver outside."""

from __future__ import annotations

import hashlib
import logging
from typing import Any

from soliplex.ingester.lib.models import LifeCycleEvent, RunGroup, RunStep
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.webhooks import NewMessage, send_webhook
from soliplex.ingester.lib.wiring import current_wiring

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


async def notify_webhook(
    event: LifeCycleEvent,
    event_id: int,
    run_group: RunGroup,
    url: str,
    secret: str | None = None,
    workflow_run_id: int | None = None,
    doc_hash: str | None = None,
    step_id: int | None = None,
    run_step: RunStep | None = None,
    error: str | None = None,
) -> None:
    """Send the event to a receiver. It is enqueued once, and arrives however often it takes (`lib/webhooks`).

    `secret` is the name of a key in WEBHOOK_SECRETS: a workflow file is no place for the key itself.
    """
    data = {
        "event_id": event_id,
        "run_group_id": run_group.id,
        "run_group_name": run_group.name,
        "workflow_id": run_group.workflow_definition_id,
        "batch_id": run_group.batch_id,
        "workflow_run_id": workflow_run_id,
        "doc_hash": doc_hash,
        "step_id": step_id,
        "step": None if run_step is None else run_step.workflow_step_name,
        "error": error,
    }
    receiver = hashlib.sha256(url.encode()).hexdigest()[:12]
    message = NewMessage(
        # Of its own for each receiver: one that is away keeps no other waiting.
        stream=f"run group {run_group.id} to {receiver}",
        url=url,
        event_type=str(event),
        body={"type": str(event), "timestamp": utcnow().isoformat(timespec="milliseconds"), "data": data},
        secret=secret,
        key=f"event {event_id}",
    )
    await send_webhook(message, current_wiring().settings)
