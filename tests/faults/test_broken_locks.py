"""A worker's lock is broken by force while steps are executed under it."""

from __future__ import annotations

from soliplex.ingester.lib.models import ResourceLockKind
from soliplex.ingester.lib.wf import operations as ops
from tests.support.engine import rows_of
from tests.support.faults import Fleet


async def test_no_step_is_executed_under_a_lock_that_was_broken(fleet: Fleet) -> None:
    """One step is under way, and two wait for their turn under the same lock, when somebody else takes it."""
    await fleet.create("waiting", 3, resource_keys={"wait": "shelf"})
    worker = await fleet.start("worker", lock_ttl=0.4)
    await fleet.calls(1, "wait")
    await ops.force_release_resource_lock("shelf", requested_by="test")
    assert await ops.acquire_resource_lock("shelf", "test", ResourceLockKind.CLI)
    await worker.says("lease_lost 1")
    await fleet.eventually(_all_have_gone_back, "the steps go back")
    assert fleet.journal.executions().total() == 1

    await ops.release_resource_lock("shelf", "test")
    fleet.let_go()
    await fleet.everything_ends()


async def _all_have_gone_back() -> bool:
    return await rows_of("SELECT id FROM runstep WHERE status <> 'PENDING'") == []
