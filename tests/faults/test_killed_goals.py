"""A worker is killed in the middle of a goal: another goes on, and the goal is not taken apart again."""

from __future__ import annotations

import signal

from soliplex.ingester import Orchestrator
from tests.support.engine import rows_of
from tests.support.faults import Fleet
from tests.support.goal_functions import STEPS, decompose


async def test_a_goal_outlives_the_worker_that_took_it_apart(fleet: Fleet) -> None:
    run_id = await Orchestrator.start_goal("to be or not", decompose, STEPS)
    victim = await fleet.launch("victim", fault_at="after_finish")
    await victim.ends(-signal.SIGKILL)
    async with fleet.helper():
        await fleet.everything_ends()
    result = await Orchestrator.goal_status(run_id)
    assert (result.status, result.output) == ("completed", {"told": {"few": 4, "all": 4}})
    assert set(result.tasks.values()) == {"completed"}
    assert await rows_of("SELECT retry FROM runstep WHERE workflow_step_name = 'decompose'") == [(0,)]
