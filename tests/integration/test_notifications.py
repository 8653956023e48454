"""Being told of runs and their steps, with a real worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from soliplex.ingester import Executor, Flow, InvalidInputError, Wait
from soliplex.ingester.goals.notifications import DECOMPOSE, GOAL_WORKFLOW, Event, OrchestratorNotifications
from soliplex.ingester.lib.enums import RunStatus
from soliplex.ingester.lib.wf.views import changes
from tests.support.engine import registry_in_use, workflow
from tests.support.flow_functions import Greeting
from tests.support.working import HANDLERS, working


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    with registry_in_use():
        yield


async def test_who_listens_is_told_of_runs_and_steps_in_their_order(database: None) -> None:
    told, ended, failures = list[Event](), asyncio.Event(), list[Event]()

    async def note(event: Event) -> None:
        told.append(event)
        if event.kind.startswith("execution_") and event.kind != "execution_started":
            ended.set()
            raise ValueError("a callback that fails is told of the next event all the same")

    ref = await OrchestratorNotifications.listen("all", note)
    other = await OrchestratorNotifications.listen("task_failed", failures.append)
    async with working():
        run_id = await Executor.start_workflow(Greeting, {"name": "Ada"})
        await asyncio.wait_for(ended.wait(), 300)
        ended.clear()
        bad = await Executor.start_workflow(Greeting, {"name": ""})
        await asyncio.wait_for(ended.wait(), 300)
    await OrchestratorNotifications.unlisten(ref)
    await OrchestratorNotifications.unlisten(other)
    good = [(event.kind, event.step) for event in told if event.run_id == run_id]
    assert sorted(good, key=str) == [
        ("execution_completed", None),
        ("execution_started", None),
        ("task_completed", "greet"),
        ("task_completed", "shout"),
        ("task_started", "greet"),
        ("task_started", "shout"),
    ]
    assert (good[0], good[-1]) == (("execution_started", None), ("execution_completed", None))
    assert good.index(("task_started", "greet")) < good.index(("task_completed", "greet"))
    assert [(event.run_id, event.step) for event in failures] == [(bad, "greet")]
    assert "nobody to greet" in (failures[0].message or "")


async def test_recent_events_are_told_the_newest_first(database: None) -> None:
    goal = workflow({DECOMPOSE: {"method": HANDLERS + "nothing"}}, workflow_id=GOAL_WORKFLOW)
    run_id = await Executor.start_workflow(goal)
    await Executor.execute_pending_tasks()
    recent = await OrchestratorNotifications.get_recent_events()
    assert [event.kind for event in recent if event.kind.startswith("dec")] == [
        "decomposition_completed",
        "decomposition_started",
    ]
    (ended,) = await OrchestratorNotifications.get_recent_events(kind="execution_completed", limit=1)
    assert (ended.run_id, ended.workflow_slug) == (run_id, GOAL_WORKFLOW)


async def test_recent_events_are_chosen_by_the_database_and_tell_of_old_runs_that_ended_lately(database: None) -> None:
    flow, asked = Flow("many"), Flow("asked")
    flow.map_step(name="one")(lambda item: 1 / item)
    asked.step(name="said")(lambda answer: answer or Wait("said"))
    old = await asked.start()
    run_id = await flow.start(list(range(1, 300)))
    await Executor.execute_pending_tasks()
    await asyncio.gather(*(asked.start() for _ in range(100)))
    await Executor.signal("said", "at last")
    await Executor.execute_pending_tasks()
    ended = await OrchestratorNotifications.get_recent_events(kind="execution_completed")
    assert [event.run_id for event in ended] == [old, run_id]
    newest = await OrchestratorNotifications.get_recent_events(kind="task_completed", limit=5)
    assert len(newest) == 5
    assert (newest[0].run_id, newest[0].step) == (old, "said")
    assert {event.run_id for event in newest[1:]} == {run_id}
    assert len(await changes.newest_steps_of_runs([run_id], RunStatus.COMPLETED, 7)) == 7


async def test_a_name_that_no_event_has_is_refused(database: None) -> None:
    with pytest.raises(InvalidInputError, match="name: is 'task_done'; give one of all, decomposition"):
        await OrchestratorNotifications.listen("task_done", print)
    with pytest.raises(InvalidInputError, match="kind: is 'task'"):
        await OrchestratorNotifications.get_recent_events(kind="task")
    with pytest.raises(InvalidInputError, match="limit: is 0"):
        await OrchestratorNotifications.get_recent_events(limit=0)
