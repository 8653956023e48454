"""Workers are killed while steps are parked, resumed and pruned: nothing is lost, and nothing is counted twice."""

from __future__ import annotations

import json
import signal
from datetime import timedelta
from typing import Any

import pytest

from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf import runner
from soliplex.ingester.lib.wf.operations import pruning
from tests.support.engine import rows_of, scalar
from tests.support.faults import Fleet


def as_value(stored: Any) -> Any:
    """JSON is text in SQLite."""
    return json.loads(stored) if isinstance(stored, str) else stored


async def _all_are_parked() -> bool:
    return await scalar("SELECT count(*) FROM runstep WHERE awaits IS NOT NULL") == 3


@pytest.mark.parametrize("point", ["inside_parking", "after_finish", "inside_signals"])
async def test_a_signal_is_taken_once_whatever_worker_dies_where(fleet: Fleet, point: str) -> None:
    created = await fleet.create("asking", 3)
    victim = await fleet.launch("victim", fault_at=point)
    if point == "inside_signals":
        await fleet.eventually(_all_are_parked, "the steps wait")
    for run_id in created.run_ids:
        await ops.send_signal(f"go-{run_id}", {"for": run_id})
    await victim.ends(-signal.SIGKILL)
    assert victim.has_said(f"reached {point}")
    async with fleet.helper():
        await fleet.everything_ends()
    outputs = await rows_of("SELECT workflow_run_id, output FROM runstep WHERE workflow_step_name = 'ask' ORDER BY 1")
    assert [(run_id, as_value(output)) for run_id, output in outputs] == [
        (run_id, {"for": run_id}) for run_id in created.run_ids
    ]
    assert await scalar("SELECT count(*) FROM signal") == 0
    assert await rows_of("SELECT id FROM runstep WHERE retry > 0 OR status <> 'COMPLETED'") == []


async def test_pruning_that_was_killed_is_finished_and_every_step_is_counted_once(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "FORGOTTEN_AFTER", timedelta())
    monkeypatch.setattr(runner, "PRUNE_EVERY", 0.05)
    created = await fleet.create("line", 4)
    victim = await fleet.launch("victim", prunes_after=0, fault_at="inside_pruning")
    await victim.ends(-signal.SIGKILL)
    assert await scalar("SELECT count(*) FROM rungroup WHERE delete_requested_at IS NOT NULL") == 1
    async with fleet.helper():
        await fleet.eventually(_nothing_is_there, "what was begun is finished")
    assert await scalar("SELECT sum(steps) FROM stepprofile") == 3 * len(created.run_ids)


async def _nothing_is_there() -> bool:
    return await scalar("SELECT count(*) FROM rungroup") == 0
