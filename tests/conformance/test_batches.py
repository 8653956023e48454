"""A batch is complete when the last of its run groups has ended."""

from __future__ import annotations

import asyncio
from datetime import datetime

from soliplex.ingester.lib.models import Database, DocumentBatch
from soliplex.ingester.lib.operations.forgetting import forget_runs_of_documents
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.operations.runs import Created
from tests.support.engine import Driver, linear


async def new_batch() -> int:
    async with Database.session() as session:
        batch = DocumentBatch(name="reports", source="shelf")
        session.add(batch)
        await session.flush()
        assert batch.id is not None
        return batch.id


async def completed_date(batch_id: int) -> datetime | None:
    async with Database.session(read_only=True) as session:
        return (await session.get_one(DocumentBatch, batch_id)).completed_date


async def start(driver: Driver, flow: WorkflowDefinition, batch_id: int, runs: int = 1) -> Created:
    new = [ops.NewRun(input={"n": number}) for number in range(runs)]
    return await ops.create_run_group(flow, None, new, batch_id=batch_id, now=driver.now())


async def test_a_batch_is_complete_with_its_last_group(driver: Driver) -> None:
    batch_id, other = await new_batch(), await new_batch()
    flow = linear("a")
    await start(driver, flow, batch_id)
    await start(driver, flow, batch_id)
    await start(driver, flow, other)
    await driver.complete(await driver.claim_one())
    assert await completed_date(batch_id) is None
    await driver.complete(await driver.claim_one())
    await driver.complete(await driver.claim_one())
    ends = [await completed_date(batch_id), await completed_date(other)]
    assert all(ends)
    assert driver.moment in ends


async def test_a_failure_completes_a_batch_too(driver: Driver) -> None:
    batch_id = await new_batch()
    await start(driver, linear("a", "b"), batch_id)
    await driver.fail(await driver.claim_one())
    assert await completed_date(batch_id) == driver.moment


async def test_new_runs_and_retried_ones_open_a_batch_again(driver: Driver) -> None:
    batch_id = await new_batch()
    created = await start(driver, linear("a"), batch_id)
    await driver.fail(await driver.claim_one())
    await ops.retry_run_group(created.group_id, now=driver.now())
    assert await completed_date(batch_id) is None
    await driver.drain()
    assert await completed_date(batch_id) is not None
    await start(driver, linear("a"), batch_id)
    assert await completed_date(batch_id) is None
    await driver.drain()
    assert await completed_date(batch_id) is not None


async def test_runs_that_join_a_group_that_has_ended_open_its_batch_again(driver: Driver) -> None:
    batch_id, flow = await new_batch(), linear("a")
    created = await start(driver, flow, batch_id)
    await driver.drain()
    assert await completed_date(batch_id) is not None
    await ops.create_runs(created.group_id, flow, None, [ops.NewRun()], batch_id=batch_id, now=driver.now())
    assert await completed_date(batch_id) is None
    await ops.create_runs(created.group_id, flow, None, [ops.NewRun()], batch_id=batch_id, now=driver.now())
    await driver.complete(await driver.claim_one())
    assert await completed_date(batch_id) is None
    await driver.complete(await driver.claim_one())
    assert await completed_date(batch_id) == driver.moment


async def test_groups_that_end_at_once_complete_their_batch(postgres_driver: Driver) -> None:
    driver = postgres_driver
    batch_id = await new_batch()
    flow = linear("a")
    for _ in range(12):
        await start(driver, flow, batch_id)
    steps = await driver.claim()
    await asyncio.gather(*(driver.complete(step) for step in steps))
    assert await completed_date(batch_id) is not None


async def test_a_batch_is_complete_when_its_last_unfinished_runs_are_deleted(driver: Driver) -> None:
    batch_id = await new_batch()
    flow = linear("a")
    new = [ops.NewRun(doc_id="sha256-kept"), ops.NewRun(doc_id="sha256-gone")]
    await ops.create_run_group(flow, None, new, batch_id=batch_id, now=driver.now())
    first, second = await driver.claim()
    await driver.complete(first)
    assert await completed_date(batch_id) is None
    await Database.transact(forget_runs_of_documents([second.run["doc_id"]], driver.now()))
    assert await completed_date(batch_id) == driver.moment
