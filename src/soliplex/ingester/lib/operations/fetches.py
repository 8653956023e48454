"""Documents that are fetched by a step: runs are started for addresses before anything is stored of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from soliplex.ingester.lib.errors import InvalidInputError
from soliplex.ingester.lib.fetching import see_scheme
from soliplex.ingester.lib.models import Database, WorkflowStepType
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.operations.batches import get_batch
from soliplex.ingester.lib.operations.workflow_starts import Started, plan_start, run_params
from soliplex.ingester.lib.storable import checked_meta, checked_name, checked_uri
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.operations.runs import NewRun, add_runs, new_group
from soliplex.ingester.lib.wf.views import get_run_group
from soliplex.ingester.lib.wf.wakeup import work_is_ready

FETCH_WORKFLOW: Final = "fetch"
MOST_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """A document to be fetched, from an address of a scheme that `lib/fetching` knows."""

    uri: str
    source: str
    source_uri: str | None = None
    """Where the document is said to live; the address itself, without a password in it, unless given."""
    mime_type: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def as_input(self) -> dict[str, Any]:
        """What the ingest step is given; InvalidInputError for what it could never fetch or store."""
        address = checked_uri(self.uri, "uri")
        see_scheme(address, "uri")
        told = {
            "uri": address,
            "source": checked_name("source", self.source),
            "source_uri": checked_uri(self.source_uri or without_password(address)),
            "mime_type": checked_name("mime_type", self.mime_type) if self.mime_type else None,
            "doc_meta": checked_meta("doc_meta", self.meta),
        }
        return {name: value for name, value in told.items() if value}


async def start_fetches(
    batch_id: int,
    fetches: Sequence[Fetch],
    *,
    workflow_id: str | None = None,
    param_id: str | None = None,
    priority: int = 0,
) -> Started:
    """Start a run for each address, whose ingest step fetches the document and sends it on its way."""
    if not 0 < len(fetches) <= MOST_AT_ONCE:
        raise InvalidInputError("uris", f"must be between 1 and {MOST_AT_ONCE:,} addresses")
    batch = await get_batch(batch_id)
    start = await plan_start(workflow_id or FETCH_WORKFLOW, param_id, batch_id=batch_id, priority=priority, now=None)
    see_that_it_ingests(start.workflow)
    runs = [NewRun(input=fetch.as_input(), params=run_params(start, fetch.source)) for fetch in fetches]

    def script() -> Script[tuple[int, list[int]]]:
        group_id = yield from new_group(start, batch.name)
        return group_id, (yield from add_runs(start, group_id, runs))

    group_id, run_ids = await Database.transact(script())
    work_is_ready()
    return Started(await get_run_group(group_id), run_ids)


def see_that_it_ingests(workflow: WorkflowDefinition) -> None:
    """Refuse a workflow that could do nothing with an address."""
    if not any(step.type == WorkflowStepType.INGEST for step in workflow.first_steps):
        problem = f"{workflow.id!r} does not begin with an ingest step; use {FETCH_WORKFLOW!r}, or add one to it"
        raise InvalidInputError("workflow_definition_id", problem)


def without_password(uri: str) -> str:
    """The address as it may be shown: without user name and password."""
    parts = urlsplit(uri)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if "@" in parts.netloc else uri
