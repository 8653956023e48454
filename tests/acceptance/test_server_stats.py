"""`/api/v1/stats`, `/workers` and `/locks`: figures, over HTTP."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from soliplex.ingester.lib.models import ResourceLockKind
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.catalog import get_registry
from tests.support.engine import Driver, linear

S = "/api/v1/stats"


@pytest.fixture
async def group_id(client: httpx.AsyncClient) -> int:
    """A group of two runs of one step, one of them completed and one failed, both within the last minute."""
    driver = Driver(moment=utcnow() - timedelta(seconds=10))
    created = await driver.start(linear("parse"), 2)
    get_registry().unregister("flow")
    first, second = await driver.claim(2)
    driver.pass_time(timedelta(seconds=3))
    await driver.complete(first, output={"pages": 6})
    await driver.fail(second)
    return created.group_id


async def test_the_figures_of_a_group(client: httpx.AsyncClient, group_id: int) -> None:
    (parse,) = (await client.get(f"{S}/durations", params={"run_group_id": group_id})).json()
    assert parse.keys() == {
        "step_type",
        "count",
        "longest",
        "shortest",
        "average",
        "pages",
        "pages_per_min",
        "total_duration",
        "wall_clock_time",
    }
    assert (parse["step_type"], parse["count"], parse["pages"]) == ("parse", 2, 6)
    stats = (await client.get(f"{S}/step-stats", params={"run_group_id": group_id})).json()
    assert [(row["workflow_step_name"], row["status"], row["count"]) for row in stats] == [
        ("parse", "COMPLETED", 1),
        ("parse", "FAILED", 1),
    ]
    whole = (await client.get(f"{S}/run-group-details/{group_id}")).json()
    assert whole["run_group"]["id"] == whole["stats"]["run_group_id"] == group_id
    assert (whole["durations"], whole["step_stats"]) == ([parse], stats)


async def test_what_was_done_lately(client: httpx.AsyncClient, group_id: int) -> None:
    done = (await client.get(f"{S}/throughput", params={"interval": "minute"})).json()
    assert (done["completed"], done["failed"]) == (1, 1)
    assert sum(bucket["completed"] for bucket in done["buckets"]) == 1
    for query in ({}, {"run_group_id": group_id}):
        (rates,) = (await client.get(f"{S}/rates", params=query)).json()
        assert (rates["success_rate"], rates["failure_rate"]) == (0.5, 0.5)
    assert (await client.get(f"{S}/batches")).json() == []
    assert (await client.get(f"{S}/batches", params={"page": 1})).json()["total"] == 0


@pytest.mark.parametrize("path", ["durations?run_group_id=7", "step-stats?run_group_id=7", "run-group-details/7"])
async def test_a_group_that_does_not_exist_has_no_figures(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(f"{S}/{path}")).status_code == 404


async def test_workers_and_locks_are_shown(client: httpx.AsyncClient) -> None:
    await ops.check_in("w1", meta={"consumers": {"*": 4}})
    await ops.acquire_resource_lock("rag:/x", "web:1", ResourceLockKind.WEB, meta={"why": "vacuum"})
    (worker,) = (await client.get("/api/v1/workers")).json()
    assert (worker["id"], worker["slots"], worker["utilization"]) == ("w1", 4, 0.0)
    assert (await client.get(f"{S}/workers")).json()["slots"] == 4
    (lock,) = (await client.get("/api/v1/locks")).json()
    assert (lock["resource_key"], lock["holder_kind"], lock["holder_meta"]) == ("rag:/x", "web", {"why": "vacuum"})
    assert (await client.get("/api/v1/locks", params={"page": 2})).json()["items"] == []
