"""Lists of very many rows, and very many who follow along: whatever is asked, other requests get their turn.

The application of these tests is watched (`tests/support/loop_watch.py`): that nothing held its loop is part of each.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from weakref import WeakSet

import httpx
import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from sqlalchemy import event
from sqlalchemy.orm import InstanceState

from soliplex.ingester.lib.models import (
    Database,
    DocumentBatch,
    RunStatus,
    RunStep,
    WorkflowRun,
    WorkflowRunWithDetails,
)
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.pieces import ROWS
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf import outside, views
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.flows import Executor
from tests.support.engine import linear, registry_in_use
from tests.support.http import client_of, running_app

A = "/api/v1"
MANY = 10_000
"""The largest page."""
SEVERAL = ROWS + 7


@pytest.fixture
async def app(database: type[Database], database_url: str) -> AsyncIterator[FastAPI]:
    with registry_in_use():
        async with running_app(doc_db_url=database_url) as app:
            yield app
    use_registry(None)


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as client:
        yield client


async def begin(count: int) -> int:
    """A group of so many runs in a batch of its own, all of them at their first step; gives the batch."""
    batch = DocumentBatch(name="b", source="shelf")
    async with Database.session() as session:
        session.add(batch)
    runs = [ops.NewRun(doc_id=f"sha256-{number:064x}") for number in range(count)]
    await ops.create_run_group(linear("a", "b"), None, runs, batch_id=batch.id, now=utcnow())
    begun = {"status": RunStatus.RUNNING, "start_date": utcnow(), "status_date": utcnow()}
    async with Database.session() as session:
        await session.exec(sa.update(WorkflowRun).values(begun))
    assert batch.id is not None
    return batch.id


async def rows_of(client: httpx.AsyncClient, path: str, **asked: Any) -> Any:
    answer = await client.get(f"{A}{path}", params=asked, timeout=100)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/workflow/", {}),
        ("/workflow/status/recent", {"interval": "day"}),
        ("/workflow/steps", {"status": "PENDING"}),
    ],
    ids=["runs", "recent runs", "steps"],
)
async def test_the_largest_page_of_a_list_keeps_no_other_request_waiting(
    client: httpx.AsyncClient, path: str, asked: dict[str, Any]
) -> None:
    await begin(MANY)
    page = await rows_of(client, path, rows_per_page=MANY, **asked)
    assert len(page["items"]) == MANY


@pytest.fixture
def most_alive() -> Iterator[Callable[[], int]]:
    """How many steps that were read from the database have been alive at once."""
    alive: WeakSet[InstanceState[RunStep]] = WeakSet()  # a step cannot be hashed; its state lives as long as it
    most = 0

    def note(state: InstanceState[RunStep], _context: Any) -> None:
        nonlocal most
        alive.add(state)
        most = max(most, len(alive))

    event.listen(RunStep, "load", note, raw=True)
    yield lambda: most
    event.remove(RunStep, "load", note)


async def test_the_steps_of_the_largest_page_of_runs_are_let_go_while_it_is_written(
    client: httpx.AsyncClient, most_alive: Callable[[], int]
) -> None:
    """Hundreds of thousands of objects hold the loop when garbage is looked for among them, and when they go."""
    await begin(MANY)
    asked = {"include_steps": True, "include_doc_info": True}
    page = await rows_of(client, "/workflow/", rows_per_page=MANY, **asked)
    assert (len(page["items"]), {len(run["steps"]) for run in page["items"]}) == (MANY, {2})
    # What was read last, what is being written, what the driver has ready, and some that are about to go.
    assert 0 < most_alive() < 4 * ROWS


async def test_runs_with_details_say_the_same_as_the_rows(client: httpx.AsyncClient) -> None:
    batch_id = await begin(3)
    runs = (await views.list_runs(batch_id=batch_id)).items
    steps = await views.steps_of_runs([run.id or 0 for run in runs])
    for with_steps, with_documents in ((True, False), (False, True), (True, True)):
        asked = {"include_steps": with_steps, "include_doc_info": with_documents}
        details = [
            WorkflowRunWithDetails(workflow_run=run, steps=steps[run.id or 0] if with_steps else None) for run in runs
        ]
        expected = [each.model_dump(mode="json") for each in details]
        assert await rows_of(client, "/workflow/", batch_id=batch_id, **asked) == expected


async def test_a_page_that_is_written_in_pieces_is_the_same_as_one_that_is_not(client: httpx.AsyncClient) -> None:
    batch_id = await begin(SEVERAL)
    half = -(-SEVERAL // 2)
    for path, asked in (
        ("/workflow/", {"include_steps": True}),
        ("/workflow/runs", {"batch_id": batch_id}),
        ("/workflow/status/recent", {}),
        (f"/batch/{batch_id}/steps", {}),
    ):
        whole = await rows_of(client, path, page=1, rows_per_page=2 * half, **asked)
        parts = [await rows_of(client, path, page=page, rows_per_page=half, **asked) for page in (1, 2)]
        assert [_timeless(row) for row in whole["items"]] == [_timeless(row) for part in parts for row in part["items"]]
        counted = {"total": whole["total"], "page": 1, "rows_per_page": 2 * half}
        counted["total_pages"] = -(-whole["total"] // (2 * half))
        assert {key: value for key, value in whole.items() if key != "items"} == counted
        plain = await rows_of(client, path, **asked)
        assert [_timeless(row) for row in plain[: len(whole["items"])]] == [_timeless(row) for row in whole["items"]]


def _timeless(row: dict[str, Any]) -> dict[str, Any]:
    """What does not change from one request to the next."""
    return {name: value for name, value in row.items() if name != "elapsed_seconds"}


async def test_a_list_that_is_cut_off_still_says_where_the_rest_is(client: httpx.AsyncClient) -> None:
    batch_id = await begin(MANY + 1)
    answer = await client.get(f"{A}/workflow/runs", params={"batch_id": batch_id}, timeout=100)
    assert (len(answer.json()), answer.headers["X-Total-Count"]) == (MANY, str(MANY + 1))
    assert "page=2" in answer.headers["Link"]
    assert answer.headers["Content-Type"] == "application/json"


async def test_the_outputs_of_a_run_are_told_whatever_their_size(client: httpx.AsyncClient) -> None:
    steps = [{"name": f"s{number}", "type": "@large", "command": "look"} for number in range(12)]
    flow = WorkflowDefinition.parse({"title": "Large", "steps": steps})
    run_id = await Executor.start_workflow(flow, {"given": "x" * 100_000})
    output = [{"place": number, "text": 'a "word"'} for number in range(25_000)]
    claimed = await outside.claim_tasks("box", ["@large"], limit=len(steps))
    for task in claimed.tasks:
        await outside.complete_task(task.id, claimed.lease, output)
    run = await rows_of(client, f"/flows/runs/{run_id}")
    assert [(step["name"], step["output"] == output) for step in run["steps"]] == [(f"s{n}", True) for n in range(12)]
    assert run["output"] == {f"s{number}": output for number in range(12)}
    assert run["input"] == {"given": "x" * 100_000}
    as_value = await Executor.status(run_id)
    assert {name: run[name] for name in ("id", "status", "error", "workflow_slug")} == {
        "id": run_id,
        "status": as_value.status,
        "error": as_value.error,
        "workflow_slug": as_value.workflow_slug,
    }
