"""A worker on a real database: what it claims, executes, records, and gives back."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select

from soliplex.ingester.lib.models import (
    Database,
    LifecycleHistory,
    ResourceLock,
    RunGroup,
    RunStatus,
    RunStep,
    WorkerCheckin,
    WorkflowRun,
)
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition, parameter_set_from_mapping, workflow_from_mapping
from soliplex.ingester.lib.wf.execution import SEARCH
from soliplex.ingester.lib.wf.flows.runs import run_of
from soliplex.ingester.lib.wf.metrics import MemoryMetrics
from soliplex.ingester.lib.wf.retries import Backoff
from soliplex.ingester.lib.wf.runner import Worker, WorkerConfig, get_worker_id, start_worker, stop_worker
from soliplex.ingester.lib.wf.work import ClaimedStep, Expanded
from tests.support import handlers
from tests.support.engine import assert_consistent, registry_in_use, workflow

HANDLERS = "tests.support.handlers."


@pytest.fixture(autouse=True)
def fresh_handlers() -> Iterator[None]:
    handlers.reset()
    with registry_in_use():
        yield
    handlers.reset()


def flow(events: dict[str, Any] | None = None, id: str = "flow", **steps: Any) -> Any:  # noqa: A002  as in its file
    """A workflow whose steps are named after their handlers, unless they say otherwise."""
    made = {
        key: {"method": HANDLERS + (facts if isinstance(facts, str) else facts.pop("handler"))}
        | ({} if isinstance(facts, str) else facts)
        for key, facts in steps.items()
    }
    definition = workflow_from_mapping(
        {
            "id": id,
            "item_steps": made,
            "lifecycle_events": {
                event: [{"name": f"tell {event}", "method": HANDLERS + handler, "retries": 3}]
                for event, handler in (events or {}).items()
            },
        }
    )
    get_registry().register(definition)
    return definition


async def start(definition: Any, count: int = 1, **options: Any) -> int:
    runs = [ops.NewRun(doc_id=f"sha256-{number}") for number in range(count)]
    params = options.pop("params", None)
    return (await ops.create_run_group(definition, params, runs, **options)).group_id


@asynccontextmanager
async def working(metrics: MemoryMetrics | None = None, **config: Any) -> AsyncGenerator[Worker]:
    chosen: dict[str, Any] = {"consumers": {"*": 5}, "liveness_interval": 0.05, **config}
    worker = Worker(WorkerConfig(**chosen), metrics=metrics)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop(5)


async def until(condition: Callable[[], Awaitable[Any]], seconds: float = 30) -> Any:
    """Look until the condition holds; what it gives."""
    async with asyncio.timeout(seconds):
        while not (found := await condition()):  # noqa: ASYNC110  what is waited for happens in the database
            await asyncio.sleep(0.01)
    return found


async def group_of(group_id: int) -> RunGroup:
    async with Database.session(read_only=True) as session:
        found = await session.get(RunGroup, group_id)
    assert found is not None
    return found


async def ended(group_id: int) -> RunGroup:
    async def is_over() -> RunGroup | None:
        group = await group_of(group_id)
        return group if group.status.is_final else None

    return await until(is_over)


async def steps_of(group_id: int, name: str | None = None) -> list[RunStep]:
    query = (
        select(RunStep)
        .join(WorkflowRun, col(WorkflowRun.id) == col(RunStep.workflow_run_id))
        .where(WorkflowRun.run_group_id == group_id)
        .order_by(col(RunStep.id))
    )
    if name:
        query = query.where(RunStep.workflow_step_name == name)
    async with Database.session(read_only=True) as session:
        return list((await session.exec(query)).all())


async def test_a_group_of_many_runs_completes(database: type[Database]) -> None:
    metrics = MemoryMetrics()
    async with working(metrics):
        group = await ended(await start(flow(a="nothing", b="nothing", c="nothing"), 200))
    assert (group.status, group.remaining_runs) == (RunStatus.COMPLETED, 0)
    assert handlers.counts["nothing"] == 600
    assert metrics.counts["step_completed"] == metrics.counts["claim_success"] == 600
    assert metrics.observed["step_duration"] == 600
    await assert_consistent()


async def test_steps_that_were_executed_leave_the_memory_without_a_garbage_collection(database: type[Database]) -> None:
    group_id = await start(flow(a="nothing"), 50)
    gc.collect()
    gc.disable()
    try:
        async with working():
            await ended(group_id)
        assert sum(isinstance(each, ClaimedStep) for each in gc.get_objects()) < 25
    finally:
        gc.enable()


async def test_a_handler_gets_what_it_names(database: type[Database]) -> None:
    params = parameter_set_from_mapping({"id": "p", "config": {"b": {"colour": "red"}}})
    definition = flow(a={"handler": "documented", "parameters": {"k": 1}}, b="by_name", c="plain")
    async with working():
        group_id = await start(definition, params=params)
        assert (await ended(group_id)).status is RunStatus.COMPLETED
    documented, by_name, plain = await steps_of(group_id)
    assert documented.output == {"step": "a", "params": {"k": 1}, "run": documented.workflow_run_id}
    assert by_name.output == ["b", group_id, None, "red", 3]
    assert plain.output == {"doc": "sha256-0", "in_main_thread": False}
    run_step, run, _ = handlers.seen[0]
    assert (run_step.id, run_step.status, run.doc_id) == (documented.id, RunStatus.RUNNING, "sha256-0")
    assert run_step.created_date.tzinfo is not None


async def test_a_wish_that_cannot_be_met_fails_the_step_and_says_what_there_is(database: type[Database]) -> None:
    async with working():
        group_id = await start(flow(a={"handler": "unknown_wish", "retries": 3}))
        assert (await ended(group_id)).status is RunStatus.FAILED
    (step,) = await steps_of(group_id)
    assert step.status_message is not None
    assert "asks for moon" in step.status_message
    assert "workflow_run" in step.status_message
    assert step.retry == 1


@pytest.mark.parametrize("method", ["no.such.module.handler", "tests.support.handlers.no_such_function", "nodots"])
async def test_a_handler_that_no_worker_can_import_fails_its_step_in_the_end(
    database: type[Database], method: str
) -> None:
    definition = workflow({"a": {"method": f"x.{method}" if method == "nodots" else method, "retries": 3}})
    async with working(step_patience=0):
        group_id = await start(definition)
        await ended(group_id)
    (step,) = await steps_of(group_id)
    assert step.status is RunStatus.FAILED
    assert "cannot be imported" in (step.status_message or "")


def of_a_file(definition: WorkflowDefinition) -> WorkflowDefinition:
    """As if it were read from a file, which every worker needs to have: its runs are pinned to no stored version."""
    return replace(definition, source_path=Path("flow.yaml"))


async def test_steps_of_a_workflow_that_is_gone_say_what_they_wait_for_and_all_others_go_on(
    database: type[Database],
) -> None:
    """Its file was removed or renamed while its runs waited, and is put back."""
    gone, stays = of_a_file(flow(work="nothing", id="gone")), flow(work="nothing")
    lost, found = await start(gone, 3), await start(stays, 3)
    with registry_in_use():
        get_registry().register(stays)
        async with working():
            assert (await ended(found)).status == RunStatus.COMPLETED
            await until(lambda: _all_given_back(lost))
            get_registry().register(gone)
            assert (await ended(lost)).status == RunStatus.COMPLETED
    await assert_consistent()


async def _all_given_back(group_id: int) -> bool:
    expected = "waits for a worker that can execute it: workflow 'gone' does not exist"
    return all(expected in (step.status_message or "") for step in await steps_of(group_id))


async def test_steps_of_a_workflow_that_stays_away_fail_and_say_so(database: type[Database]) -> None:
    lost = await start(of_a_file(flow(work="nothing", id="gone")), 3)
    with registry_in_use():
        async with working(step_patience=0):
            assert (await ended(lost)).status == RunStatus.FAILED
    for step in await steps_of(lost):
        assert "'gone' does not exist" in (step.status_message or ""), step.status_message
        assert "put it in place, then retry the run" in (step.status_message or "")


async def test_a_step_that_one_worker_cannot_execute_is_executed_by_another(database: type[Database]) -> None:
    """The first knows nothing of the workflow; it gives the step back as often as it gets it."""
    definition = of_a_file(flow(work="nothing"))
    group_id = await start(definition)
    with registry_in_use():
        async with working(step_patience=3600):
            await until(lambda: _has_been_given_back(group_id))
    with registry_in_use() as registry:
        registry.register(definition)
        async with working(step_patience=0):
            assert (await ended(group_id)).status == RunStatus.COMPLETED


async def _has_been_given_back(group_id: int) -> bool:
    return any(SEARCH in step.status_meta for step in await steps_of(group_id))


async def test_a_passing_trouble_is_tried_again(database: type[Database]) -> None:
    metrics = MemoryMetrics()
    async with working(metrics):
        group_id = await start(flow(a={"handler": "flaky", "retries": 5, "backoff": "10ms"}))
        assert (await ended(group_id)).status is RunStatus.COMPLETED
    (step,) = await steps_of(group_id)
    assert (step.retry, step.output) == (2, "done")
    assert metrics.counts["step_error"] == 2


async def test_a_permanent_error_is_not_tried_again_and_cancels_the_rest(database: type[Database]) -> None:
    async with working():
        group_id = await start(flow(a={"handler": "hopeless", "retries": 5}, b="nothing"))
        group = await ended(group_id)
    first, second = await steps_of(group_id)
    assert handlers.counts["hopeless"] == 1
    assert (group.status, first.status, second.status) == (RunStatus.FAILED, RunStatus.FAILED, RunStatus.CANCELLED)
    assert first.status_message == "the file is encrypted"
    assert first.status_meta["error_type"] == "PermanentError"
    assert "hopeless" in first.status_meta["traceback"]
    await assert_consistent()


@pytest.mark.parametrize("handler", ["not_json", "not_a_number", "nul"])
async def test_a_result_that_cannot_be_stored_fails_its_step_alone(database: type[Database], handler: str) -> None:
    async with working():
        bad = await start(workflow({"a": {"method": HANDLERS + handler}}, workflow_id="bad"))
        good = await start(workflow({"a": {"method": HANDLERS + "nothing"}}, workflow_id="good"), 20)
        assert (await ended(bad)).status is RunStatus.FAILED
        assert (await ended(good)).status is RunStatus.COMPLETED
    (step,) = await steps_of(bad)
    assert "cannot be stored as JSON" in (step.status_message or "")


async def test_a_step_that_takes_too_long_costs_an_attempt(database: type[Database]) -> None:
    async with working():
        group_id = await start(flow(a={"handler": "forever", "timeout": "50ms", "retries": 2, "backoff": "1ms"}))
        assert (await ended(group_id)).status is RunStatus.FAILED
    (step,) = await steps_of(group_id)
    assert handlers.counts["forever"] == step.retry == 2
    assert "did not finish within 0.05 seconds" in (step.status_message or "")


async def test_a_map_step_fans_out_and_gathers_in_order(database: type[Database]) -> None:
    definition = flow(a="gives_list", b={"handler": "doubles", "map": True}, c="joins")
    async with working():
        group_id = await start(definition)
        assert (await ended(group_id)).status is RunStatus.COMPLETED
    (gathered,) = [step for step in await steps_of(group_id, "b") if step.parent_step_id is None]
    assert gathered.output == [[item, ["a", "item"]] for item in (1, "two", None, {"three": 3})]
    (joined,) = await steps_of(group_id, "c")
    assert joined.output == {"b": gathered.output}
    await assert_consistent()


async def test_a_map_over_something_that_is_no_list_fails_and_says_so(database: type[Database]) -> None:
    handlers.counts["flaky"] = 2
    async with working():
        group_id = await start(flow(a="flaky", b={"handler": "doubles", "map": True}))
        await ended(group_id)
    (step,) = await steps_of(group_id, "b")
    assert "the output of step 'a', which is not a list but str" in (step.status_message or "")


async def test_branches_run_beside_each_other_and_join(database: type[Database]) -> None:
    definition = flow(
        a="nothing",
        left={"handler": "gives_list", "depends_on": "a"},
        right={"handler": "gives_list", "depends_on": "a"},
        join={"handler": "joins", "depends_on": ["left", "right"]},
    )
    async with working():
        group_id = await start(definition)
        assert (await ended(group_id)).status is RunStatus.COMPLETED
    (joined,) = await steps_of(group_id, "join")
    assert sorted(joined.output) == ["left", "right"]


async def test_an_optional_step_may_fail(database: type[Database]) -> None:
    async with working():
        group_id = await start(flow(a={"handler": "hopeless", "optional": True}, b="nothing"))
        assert (await ended(group_id)).status is RunStatus.COMPLETED
    first, second = await steps_of(group_id)
    assert (first.status, second.status) == (RunStatus.FAILED, RunStatus.COMPLETED)


async def test_a_batch_handler_takes_many_and_one_bad_document_fails_alone(database: type[Database]) -> None:
    async with working(consumers={"a": 1}):
        group_id = await start(flow(a="in_batches"), 12)
        assert (await ended(group_id)).status is RunStatus.FAILED
    statuses = [step.status for step in await steps_of(group_id)]
    assert statuses.count(RunStatus.COMPLETED) == 11
    assert statuses.count(RunStatus.FAILED) == 1
    assert max(map(len, handlers.seen)) > 1
    assert all(len(batch) <= 10 for batch in handlers.seen)


async def test_steps_of_one_resource_and_of_different_workflows_get_each_its_own_handler(
    database: type[Database],
) -> None:
    keys = {"resource_keys": {"a": "rag:/db"}}
    one = await start(flow(id="one", a={"handler": "first_kind", "type": "store"}), 3, **keys)
    other = await start(flow(id="other", a={"handler": "second_kind", "type": "store"}), 3, **keys)
    async with working(consumers={"store": 1}):
        await asyncio.gather(ended(one), ended(other))
    assert [step.output for step in await steps_of(one)] == ["first"] * 3
    assert [step.output for step in await steps_of(other)] == ["second"] * 3


async def test_runs_that_keep_to_different_versions_of_a_workflow_share_no_call(database: type[Database]) -> None:
    groups: list[int] = []
    for handler in ("first_kind", "second_kind"):
        facts = {"id": "saved", "item_steps": {"a": {"method": HANDLERS + handler}}}
        await ops.save_workflow(workflow_from_mapping(facts))
        groups.append(await start(await ops.find_workflow("saved"), 3))
    async with working(consumers={"a": 1}):
        await asyncio.gather(*map(ended, groups))
    assert [[step.output for step in await steps_of(group)] for group in groups] == [["first"] * 3, ["second"] * 3]


async def test_a_map_step_shares_no_call_with_tasks_of_another_run(database: type[Database]) -> None:
    definition = flow(a={"handler": "first_kind", "map": True})
    runs = [ops.NewRun(input=[1, 2]) for _ in range(2)]
    begun = (await ops.create_run_group(definition, None, runs[:1], priority=0)).group_id
    claim = await ops.claim_steps("somebody", ops.Pool(), 1)
    step = claim.steps[0]
    await ops.finish_steps([Expanded(step_id=step.id, run_id=step.run_id, lease=step.lease, items=[1, 2])])
    fresh = (await ops.create_run_group(definition, None, runs[1:], priority=0)).group_id
    async with working(consumers={"a": 1}):
        await asyncio.gather(ended(begun), ended(fresh))
    for group in (begun, fresh):
        assert (await steps_of(group))[0].output == ["first", "first"]


async def test_steps_claimed_with_a_giant_complete_while_it_is_under_way(database: type[Database]) -> None:
    started, gate = handlers.gate(handlers.GIANT)
    group_id = await start(flow(a="by_weight"), 10)
    async with working(consumers={"a": 2}):
        await started.wait()
        giant, *others = await steps_of(group_id)
        for step in others:
            await until(lambda id_=step.id: _status_is(id_, RunStatus.COMPLETED))
        assert await _status_is(giant.id, RunStatus.RUNNING)
        gate.set()
        assert (await ended(group_id)).status is RunStatus.COMPLETED
    assert [call for call in handlers.seen if handlers.GIANT in call] == [[handlers.GIANT]]
    assert max(map(len, handlers.seen)) > 1
    await assert_consistent()


async def test_a_giant_whose_time_is_up_takes_no_attempt_from_steps_claimed_with_it(database: type[Database]) -> None:
    handlers.gate(handlers.GIANT)
    group_id = await start(flow(a={"handler": "by_weight", "retries": 1}), 5)
    async with working(consumers={"a": 1}, step_timeout=0.5):
        assert (await ended(group_id)).status is RunStatus.FAILED
    giant, *others = await steps_of(group_id)
    assert giant.status is RunStatus.FAILED
    assert {(step.status, step.retry) for step in others} == {(RunStatus.COMPLETED, 0)}


async def test_a_giant_under_a_lock_lets_the_others_go_first_and_frees_the_lock(database: type[Database]) -> None:
    started, gate = handlers.gate(handlers.GIANT)
    group_id = await start(flow(a="by_weight"), 10, resource_keys={"a": "rag:/db"})
    async with working(consumers={"a": 1}):
        await started.wait()
        for step in (await steps_of(group_id))[1:]:
            await until(lambda id_=step.id: _status_is(id_, RunStatus.COMPLETED))
        gate.set()
        assert (await ended(group_id)).status is RunStatus.COMPLETED
    async with Database.session(read_only=True) as session:
        assert (await session.exec(select(ResourceLock))).all() == []
    await assert_consistent()


async def test_what_is_cancelled_while_it_is_weighed_ends_so_and_the_rest_is_executed(
    database: type[Database],
) -> None:
    weighing, go_on = handlers.gate("weighing")
    definition = flow(a="by_weight")
    first = await start(definition, 3)
    async with working(consumers={"a": 1}):
        await weighing.wait()
        await ops.cancel_run_group(first)
        assert (await ended(first)).status is RunStatus.CANCELLED
        assert handlers.seen == []
        go_on.set()
        _, gate = handlers.gate(handlers.GIANT)
        gate.set()
        assert (await ended(await start(definition, 3))).status is RunStatus.COMPLETED
    await assert_consistent()


async def test_steps_that_cannot_be_weighed_go_alone(database: type[Database]) -> None:
    group_id = await start(flow(a="not_weighed"), 5)
    async with working(consumers={"a": 1}):
        assert (await ended(group_id)).status is RunStatus.COMPLETED
    assert list(map(len, handlers.seen)) == [1] * 5


async def test_a_handler_may_ask_how_long_it_may_take(database: type[Database]) -> None:
    definition = flow(a="tells_its_time", b={"handler": "tells_its_time", "timeout": 7})
    async with working(step_timeout=90):
        group_id = await start(definition)
        await ended(group_id)
    assert [step.output for step in await steps_of(group_id)] == [90, 7]


async def test_a_batch_handler_gets_what_it_wants_and_nothing_else_is_loaded(database: type[Database]) -> None:
    async with working():
        group_id = await start(flow(a="choosy"), 2)
        await ended(group_id)
    for step in await steps_of(group_id):
        assert step.output is not None
        assert {"run_step", "doc_hash", "run_group"} <= set(step.output)
        assert "workflow_run" not in step.output


async def test_a_batch_handler_that_returns_too_few_results_fails_its_steps(database: type[Database]) -> None:
    async with working():
        group_id = await start(flow(a="too_few"), 2)
        await ended(group_id)
    assert all("not a list of as many" in (step.status_message or "") for step in await steps_of(group_id))


async def test_steps_of_one_resource_run_under_its_lock_and_alone(database: type[Database]) -> None:
    async with working(), working():
        group_id = await start(flow(a="under_lock"), 30, resource_keys={"a": "rag:/db"})
        assert (await ended(group_id)).status is RunStatus.COMPLETED
    assert handlers.counts["most"] == 1
    assert handlers.seen == [True] * 30
    async with Database.session(read_only=True) as session:
        assert (await session.exec(select(ResourceLock))).all() == []


async def test_a_resource_that_is_given_back_wakes_those_that_wait_for_it(database: type[Database]) -> None:
    definition = flow(a="under_lock", b="nothing")
    async with working(poll_interval=600, batch_size=2), working(poll_interval=600, batch_size=2):
        group_id = await start(definition, 30, resource_keys={"a": "rag:/db"})
        assert (await ended(group_id)).status is RunStatus.COMPLETED


@asynccontextmanager
async def holding_many(monkeypatch: pytest.MonkeyPatch, **config: Any) -> AsyncGenerator[tuple[Any, int]]:
    """A worker with one slot that executes one step, in its turn, and holds many more of the same priority."""
    async with working(consumers={"*": 1}, **config):
        with monkeypatch.context() as patched:
            patched.setattr("soliplex.ingester.lib.wf.pools.HORIZON", 1e6)
            await ended(await start(flow(a="nothing"), 3))  # so that it takes them for short, however busy the machine
        definition = flow(a="in_turn", b="in_turn")
        group_id = await start(definition, 40)
        await until(lambda: at_least(40, group_id, RunStatus.RUNNING))
        await until(lambda: _is(len(handlers.turns) == 1))
        try:
            yield definition, group_id
        finally:
            for turn in handlers.turns:
                turn.set()


async def at_least(count: int, group_id: int, status: RunStatus, name: str | None = None) -> bool:
    return sum(step.status is status for step in await steps_of(group_id, name)) >= count


async def next_turn() -> tuple[int, str]:
    """Let the step under way end; gives the one that begins after it."""
    before = len(handlers.seen)
    handlers.turns[-1].set()
    await until(lambda: _is(len(handlers.seen) > before))
    return handlers.seen[-1]


async def _is(condition: bool) -> bool:
    return condition


@pytest.mark.parametrize("told_by", ["this process", "another process"])
async def test_an_urgent_document_overtakes_short_ones_that_the_worker_holds(
    database: type[Database], monkeypatch: pytest.MonkeyPatch, told_by: str
) -> None:
    async with holding_many(monkeypatch) as (definition, _):
        if told_by == "another process":
            monkeypatch.setattr("soliplex.ingester.lib.wf.operations.runs.work_is_ready", lambda: None)
        urgent = await start(definition, 1, priority=5)
        await until(lambda: at_least(1, urgent, RunStatus.RUNNING, "a"))
        assert await next_turn() == (urgent, "a")
        await next_turn()
        await until(lambda: at_least(1, urgent, RunStatus.RUNNING, "b"))
        assert await next_turn() == (urgent, "b")
    await assert_consistent()


async def test_what_many_urgent_documents_leave_no_room_for_goes_back(
    database: type[Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with holding_many(monkeypatch, batch_size=40) as (definition, group_id):
        urgent = await start(definition, 80, priority=5)
        await until(lambda: at_least(40, urgent, RunStatus.RUNNING))
        await until(lambda: at_least(40 + 39, group_id, RunStatus.PENDING))
        assert await next_turn() == (urgent, "a")
        assert [step.retry for step in await steps_of(group_id)] == [0] * 80
    await assert_consistent()


async def test_an_urgent_step_shares_no_call_with_others(
    database: type[Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with holding_many(monkeypatch) as (_, _):
        many = flow(c="in_batches")
        usual, urgent = await start(many, 15), await start(many, 3, priority=5)
        await until(lambda: at_least(3, urgent, RunStatus.RUNNING))
        seen = len(handlers.seen)
        handlers.turns[-1].set()
        await until(lambda: _is(len(handlers.seen) > seen))
        assert sorted(handlers.seen[seen]) == [step.id for step in await steps_of(urgent)]
        assert (await group_of(usual)).status is not RunStatus.COMPLETED


async def test_the_catch_all_pool_leaves_pinned_types_alone(database: type[Database]) -> None:
    started, gate = handlers.gate("sha256-0")
    definition = workflow(
        {
            "slow": {"method": HANDLERS + "waits"},
            "quick": {"method": HANDLERS + "nothing", "depends_on": []},
        }
    )
    async with working(consumers={"slow": 1, "*": 1}):
        group_id = await start(definition)
        await started.wait()
        (quick,) = await steps_of(group_id, "quick")
        await until(lambda: _status_is(quick.id, RunStatus.COMPLETED))
        gate.set()
        await ended(group_id)


async def _status_is(step_id: int | None, status: RunStatus) -> bool:
    async with Database.session(read_only=True) as session:
        step = await session.get(RunStep, step_id)
    assert step is not None
    return step.status is status


async def test_cancelling_a_run_stops_the_step_that_runs_and_frees_its_slot(database: type[Database]) -> None:
    started, _ = handlers.gate("sha256-0")
    async with working(consumers={"*": 1}):
        group_id = await start(flow(a="waits", b="nothing"))
        await started.wait()
        await ops.cancel_run_group(group_id)
        assert (await ended(group_id)).status is RunStatus.CANCELLED
        assert handlers.counts["cancelled"] == 1
        other = workflow({"a": {"method": HANDLERS + "nothing"}}, workflow_id="other")
        assert (await ended(await start(other))).status is RunStatus.COMPLETED
    assert {step.status for step in await steps_of(group_id)} == {RunStatus.CANCELLED}
    await assert_consistent()


async def test_a_worker_that_stops_lets_running_steps_finish_and_gives_the_rest_back(database: type[Database]) -> None:
    started, gate = handlers.gate("sha256-0")
    handlers.gate("sha256-1")
    worker = Worker(WorkerConfig(consumers={"*": 1}))
    await worker.start()
    group_id = await start(flow(a="waits"), 2)
    await started.wait()
    stopping = asyncio.create_task(worker.stop(30))
    gate.set()
    await stopping
    first, second = await steps_of(group_id)
    assert (first.status, second.status, second.lease_token) == (RunStatus.COMPLETED, RunStatus.PENDING, None)
    async with Database.session(read_only=True) as session:
        assert (await session.exec(select(WorkerCheckin))).all() == []
    await assert_consistent()


async def test_a_step_that_outlasts_the_stop_goes_back_at_once(database: type[Database]) -> None:
    started, _ = handlers.gate("sha256-0")
    metrics = MemoryMetrics()
    worker = Worker(WorkerConfig(consumers={"*": 1}), metrics=metrics)
    await worker.start()
    group_id = await start(flow(a="waits"))
    await started.wait()
    await worker.stop(0.01)
    (step,) = await steps_of(group_id)
    assert (step.status, step.retry, step.worker_id) == (RunStatus.PENDING, 0, None)
    assert metrics.counts["step_released"] == 1


async def test_events_reach_their_handlers(database: type[Database]) -> None:
    names = [
        "group_start",
        "item_start",
        "step_start",
        "step_end",
        "step_failed",
        "item_failed",
        "item_end",
        "group_end",
    ]
    definition = flow(dict.fromkeys(names, "on_event"), a="nothing", b="hopeless")
    async with working():
        group_id = await start(definition)
        await ended(group_id)
        await until(lambda: _no_event_waits(group_id))
    told = [event for event, *_ in handlers.seen]
    assert sorted(told) == sorted(
        [
            *("group_start", "item_start", "step_start", "step_end", "step_start"),
            *("step_failed", "item_failed", "group_end"),
        ]
    )
    failures = {event: error for event, _, _, error, _ in handlers.seen if event.endswith("failed")}
    assert failures["step_failed"] == "the file is encrypted"
    assert "step 'b' failed" in failures["item_failed"]


async def _no_event_waits(group_id: int) -> bool:
    async with Database.session(read_only=True) as session:
        found = await session.exec(select(LifecycleHistory).where(LifecycleHistory.run_group_id == group_id))
        return all(row.status.is_final for row in found.all())


async def test_an_event_whose_handler_fails_is_delivered_again(database: type[Database]) -> None:
    definition = flow({"group_end": "flaky_event"}, a="nothing")
    worker = Worker(WorkerConfig(consumers={"*": 1}))
    worker._bus._backoff = Backoff(first=timedelta(milliseconds=1))
    await worker.start()
    group_id = await start(definition)
    await ended(group_id)
    await until(lambda: _no_event_waits(group_id))
    await worker.stop(5)
    assert handlers.counts["group_end"] == 2


async def test_a_slow_event_handler_holds_no_step_up(database: type[Database]) -> None:
    started, gate = handlers.gate("event")
    definition = flow({"step_start": "slow_event"}, a="nothing", b="nothing")
    async with working():
        group_id = await start(definition, 20)
        await started.wait()
        assert (await ended(group_id)).status is RunStatus.COMPLETED
        gate.set()


async def test_two_workers_in_one_process_share_the_work(database: type[Database]) -> None:
    first, second = MemoryMetrics(), MemoryMetrics()
    async with working(first, batch_size=5), working(second, batch_size=5):
        assert (await ended(await start(flow(a="nothing", b="nothing"), 300))).status is RunStatus.COMPLETED
    assert first.counts["step_completed"] + second.counts["step_completed"] == 600
    await assert_consistent()


async def test_the_module_level_worker_starts_once_and_stops(database: type[Database]) -> None:
    assert get_worker_id() is None
    worker = await start_worker(WorkerConfig(consumers={"*": 1}))
    assert await start_worker() is worker
    assert get_worker_id() == worker.id
    assert (await ended(await start(flow(a="nothing")))).status is RunStatus.COMPLETED
    await stop_worker(5)
    assert get_worker_id() is None


async def test_the_default_pools_come_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCLING_CONCURRENCY", "7")
    monkeypatch.setenv("WORKER_TASK_COUNT", "2")
    assert WorkerConfig().consumers.items() >= {"parse": 7, "store": 2, "*": 2}.items()


async def test_progress_is_written_while_the_handler_works_and_wrong_progress_fails_its_step(
    database: type[Database],
) -> None:
    begun, go_on = handlers.gate("progress")
    async with working():
        group_id = await start(flow(a="progress_and_wait"))
        await asyncio.wait_for(begun.wait(), 120)
        (step,) = await until(lambda: _with_progress(group_id))
        assert (step.progress["fraction"], step.progress["text"]) == (0.5, "half")
        assert [each.progress for each in (await run_of(step.workflow_run_id)).steps] == [step.progress]
        go_on.set()
        await ended(group_id)
        assert [each.progress for each in await steps_of(group_id)] == [None], "it has come to its end"
        wrong = await start(flow(a="tells_nonsense", id="wrong"))
        await ended(wrong)
        apart = await start(flow(a={"handler": "tells_progress", "isolation": "process"}, id="apart"))
        await ended(apart)
    assert "give a number from 0 to 1" in str((await steps_of(wrong))[0].status_message)
    assert "process of its own" in str((await steps_of(apart))[0].status_message)


async def _with_progress(group_id: int) -> list[RunStep]:
    return [step for step in await steps_of(group_id) if step.progress is not None]
