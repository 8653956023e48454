"""The clock of one worker is wrong by ten minutes."""

from __future__ import annotations

import pytest

from tests.support.faults import Fleet

TEN_MINUTES = 600.0


@pytest.mark.parametrize("offset", [TEN_MINUTES, -TEN_MINUTES], ids=["ahead", "behind"])
async def test_workers_let_one_another_work_though_their_clocks_differ(fleet: Fleet, offset: float) -> None:
    """Only the process has a pool for what takes long, only the helper for the rest: neither can stand in."""
    slow = await fleet.create("slow", 2)
    line = await fleet.create("line", 4)
    timing = {"checkin_timeout": 1.2, "checkin_interval": 0.1}
    await fleet.start("right", consumers={"take_long": 2}, **timing)
    async with fleet.helper("wrong", consumers={"first": 2, "second": 2, "third": 2}, clock_offset=offset, **timing):
        await fleet.everything_ends()

    executions = fleet.journal.executions()
    assert executions.keys() == {(run, "take_long") for run in slow.run_ids} | {
        (run, step) for run in line.run_ids for step in ("first", "second", "third")
    }
    assert set(executions.values()) == {1}, "a worker was given up that was at work"


@pytest.mark.parametrize("offset", [TEN_MINUTES, -TEN_MINUTES], ids=["ahead", "behind"])
async def test_a_resource_has_one_user_though_clocks_differ(fleet: Fleet, offset: float) -> None:
    await fleet.create("line", 30, resource_keys={"first": "shelf"})
    common = {"consumers": {"*": 2}, "batch_size": 2}
    await fleet.start("right", **common)
    async with fleet.helper("wrong", clock_offset=offset, **common):
        await fleet.everything_ends()
    assert set(fleet.journal.executions().values()) == {1}
