"""The events that go with a change of state: rows for the outbox, made by the transaction that makes the change.

An event without a handler is a record. Those of groups, and failures, are always kept; the start and end of runs and
steps only where a handler asks for them, since their own rows say as much, and whoever lists events merges them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from soliplex.ingester.lib.models import LifeCycleEvent
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.wf.definitions import EventHandler
from soliplex.ingester.lib.wf.errors import DefinitionError
from soliplex.ingester.lib.wf.registry import Registry
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.stored import stored

ONLY_WITH_HANDLER: Final = frozenset(
    {LifeCycleEvent.ITEM_START, LifeCycleEvent.ITEM_END, LifeCycleEvent.STEP_START, LifeCycleEvent.STEP_END}
)

AT_THE_START: Final = (LifeCycleEvent.GROUP_START, LifeCycleEvent.ITEM_START, LifeCycleEvent.STEP_START)
MOST_LISTENERS: Final = 100


def listeners_at_the_start(registry: Registry) -> list[dict[str, Any]] | None:
    """Every handler of a start, for a statement that finds out by itself what it starts. None: too many to send."""
    found = [
        {"workflow": workflow.id, "event": event, "place": place, "handler": handler.name, "retries": handler.retries}
        for workflow in registry.listening_workflows()
        for event in AT_THE_START
        for place, handler in enumerate(workflow.handlers_for(event))
    ]
    return found if len(found) <= MOST_LISTENERS else None


class Outbox:
    """Collects the events of one transaction."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._rows: list[dict[str, Any]] = []
        self._known: dict[tuple[str, str], tuple[EventHandler, ...]] = {}

    def add(
        self,
        event: LifeCycleEvent,
        *,
        workflow_id: str,
        group_id: int,
        run_id: int | None = None,
        step_id: int | None = None,
        message: str | None = None,
    ) -> None:
        handlers = self._handlers(workflow_id, event)
        if not handlers and event in ONLY_WITH_HANDLER:
            return
        row = {"event": event, "group": group_id, "run": run_id, "step": step_id, "message": message, "retries": 1}
        if handlers:
            self._rows += [row | {"handler": handler.name, "retries": handler.retries} for handler in handlers]
        else:
            self._rows.append(row)

    def wants(self, workflow_ids: Iterable[str], event: LifeCycleEvent) -> bool:
        return any(self._handlers(workflow_id, event) for workflow_id in workflow_ids)

    def write(self, now: Any) -> Script[bool]:
        """Insert the rows; says whether there is a handler to call."""
        if self._rows:
            yield SQL.insert_events(events=Json(self._rows), now=now)
        return any("handler" in row for row in self._rows)

    def _handlers(self, workflow_id: str, event: LifeCycleEvent) -> tuple[EventHandler, ...]:
        known = self._known.get((workflow_id, event))
        if known is None:
            known = self._known[workflow_id, event] = self._look_up(workflow_id, event)
        return known

    def _look_up(self, workflow_id: str, event: LifeCycleEvent) -> tuple[EventHandler, ...]:
        try:
            workflow = self._registry.find_workflow(workflow_id) or stored().listening(workflow_id)
        except DefinitionError:
            workflow = None
        # If the definition is gone, what it asked for cannot be known, and the run must end all the same.
        return workflow.handlers_for(event) if workflow is not None else ()
