"""Attempts: each that fails is a row, written with the failure; those that succeed leave none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf import views
from soliplex.ingester.lib.wf.views import Paging
from tests.support.engine import Driver, completed, errored, expanded, linear, parked, scalar, workflow


async def count() -> int:
    return await scalar("SELECT count(*) FROM stepattempt")


async def test_every_failed_attempt_is_a_row_with_worker_times_and_cause(driver: Driver) -> None:
    created = await driver.start(linear("a", retries=3))
    for number in (1, 2):
        step = await driver.claim_one(worker_id=f"worker-{number}")
        meta = {"error_type": "OSError", "traceback": f"Traceback {number}"}
        await driver.finish(replace(errored(step, f"boom {number}"), meta=meta))
    await driver.complete(await driver.claim_one())

    page = await views.attempts_of_run(created.run_ids[0])

    assert page.total == 2
    assert [(each.attempt, each.worker_id, each.error_type, each.message, each.traceback) for each in page.items] == [
        (1, "worker-1", "OSError", "boom 1", "Traceback 1"),
        (2, "worker-2", "OSError", "boom 2", "Traceback 2"),
    ]
    first = page.items[0]
    assert (first.step_name, first.item_index) == ("a", None)
    assert first.start_date is not None
    assert first.start_date < first.end_date
    assert first.duration == pytest.approx(0.001)


async def test_success_release_and_waiting_leave_no_attempt(driver: Driver) -> None:
    await driver.start(linear("a"), 3)
    one, two, three = await driver.claim(3)
    await driver.finish(completed(one), parked(two, awaits="k"))
    await ops.release_step(three.id, three.lease, now=driver.now())
    assert await count() == 0


async def test_a_late_failure_leaves_no_attempt(driver: Driver) -> None:
    await driver.start(linear("a"))
    step = await driver.claim_one()
    await driver.finish(completed(step))
    await driver.finish(errored(step))
    assert await count() == 0


async def test_a_failure_that_comes_under_two_leases_is_one_attempt(driver: Driver) -> None:
    await driver.start(linear("a", retries=5))
    step = await driver.claim_one()
    await driver.finish(replace(errored(step), lease="another's"), errored(step))
    assert await count() == 1


async def test_attempts_of_tasks_say_which_item_they_were_about(driver: Driver) -> None:
    created = await driver.start(workflow({"m": {"map": True}}), [ops.NewRun(input=[1, 2])])
    await driver.finish(expanded(await driver.claim_one(), [1, 2]))
    _, second = await driver.claim(2)
    await driver.fail(second)
    page = await views.attempts_of_run(created.run_ids[0])
    assert [(each.step_name, each.item_index) for each in page.items] == [("m", 1)]


async def test_attempts_are_paged_and_a_run_that_is_not_there_is_named(driver: Driver) -> None:
    created = await driver.start(linear("a", retries=5))
    for _ in range(4):
        await driver.finish(errored(await driver.claim_one()))
    page = await views.attempts_of_run(created.run_ids[0], paging=Paging(2, 3))
    assert ([each.attempt for each in page.items], page.total) == ([4], 4)
    with pytest.raises(NotFoundError, match="workflow run 77"):
        await views.attempts_of_run(77)


async def test_deleting_a_group_deletes_its_attempts(driver: Driver) -> None:
    kept, deleted = await driver.start(linear("a")), await driver.start(linear("a"))
    await driver.fail(*await driver.claim(2))
    await ops.delete_run_group(deleted.group_id)
    assert await count() == 1
    assert (await views.attempts_of_run(kept.run_ids[0])).total == 1
