"""Learning from real runs: recommendations, versions that are tried, compared, and taken back."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from soliplex.ingester import ConflictError, Executor, InvalidInputError, Orchestrator, OrchestratorOptimizer
from soliplex.ingester.goals.optimizer.optimizer import Studies, settle_all
from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.enums import Standing
from soliplex.ingester.lib.wf.definitions import WorkflowDefinition
from soliplex.ingester.lib.wf.operations.definitions import find_workflow
from soliplex.ingester.lib.wf.views import graph_of_run
from soliplex.ingester.lib.wiring import current_wiring
from tests.support.engine import registry_in_use, rows_of
from tests.support.goal_functions import STEPS, decompose
from tests.support.optimizing import chain, record, recorded_before, retime, save

RUNS = 25


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    with registry_in_use():
        yield


@pytest.fixture
async def recorded(database: None) -> WorkflowDefinition:
    """A flow of which some runs are recorded one by one, and many more were pruned."""
    flow = chain()
    await save(flow)
    await retime(await record(flow.id, RUNS), 2.0)
    await recorded_before(flow.id, "once", 100)
    return await find_workflow(flow.id)


async def test_each_level_recommends_more_and_says_what_keeps_the_rest(recorded: WorkflowDefinition) -> None:
    basic = await OrchestratorOptimizer.get_recommendations("chain", "basic")
    assert {each.kind for each in basic.recommendations if each.is_applied} == {"timeout"}
    first = basic.recommendations[0]
    assert (first.kind, first.step, first.current, first.proposed) == ("timeout", "number", 300.0, 5.0)
    assert "99 of 100 calls took at most 0.005 s (25 calls)" in first.why
    assert first.confidence == round(RUNS / (RUNS + 10), 3)
    edge = next(each for each in basic.recommendations if each.kind == "redundant_edge")
    assert (edge.step, edge.current, edge.why_not) == ("twice", "number", "the level is basic; this needs aggressive")
    kept = await OrchestratorOptimizer.get_recommendations("chain", "aggressive")
    assert next(each.why_not for each in kept.recommendations if each.kind == "redundant_edge") == (
        "steps and edges are to stay as they are (preserve_structure)"
    )
    free = await OrchestratorOptimizer.get_recommendations("chain", "aggressive", preserve_structure=False)
    assert {each.kind for each in free.recommendations if each.is_applied} == {"timeout", "redundant_edge"}
    assert free.executions == RUNS + 100
    assert await rows_of("SELECT step, kind FROM flowpattern WHERE kind <> 'timeout'") == [("twice", "redundant_edge")]
    with pytest.raises(InvalidInputError, match="optimization_level: is 'most'; give one of basic"):
        await OrchestratorOptimizer.get_recommendations("chain", "most")  # pyright: ignore[reportArgumentType]


async def test_too_few_executions_leave_the_graph_alone(database: None) -> None:
    await save(chain("few"))
    await retime(await record("few", RUNS), 2.0)
    flow = await OrchestratorOptimizer.optimize_workflow("few", "aggressive", preserve_structure=False)
    assert flow.dependencies == chain().dependencies
    told = await OrchestratorOptimizer.get_recommendations("few", "aggressive", preserve_structure=False)
    assert "25 of 100 executions are recorded" in [each.why_not for each in told.recommendations]


async def test_an_optimized_flow_is_a_version_that_gives_the_same_and_is_merged_further(
    recorded: WorkflowDefinition,
) -> None:
    (before,) = await record("chain", 1)
    await retime([before], 2.0)
    tried = await OrchestratorOptimizer.apply_optimization("chain", "aggressive", preserve_structure=False)
    assert tried.standing is Standing.APPLIED
    with pytest.raises(ConflictError, match="is being compared"):
        await OrchestratorOptimizer.apply_optimization("chain", "aggressive", preserve_structure=False)
    await retime(await record("chain", RUNS), 1.5)
    told = await OrchestratorOptimizer.get_recommendations("chain", "aggressive", preserve_structure=False)
    assert (told.tried[0].standing, told.tried[0].measured_speedup) == (Standing.KEPT, pytest.approx(1.33, abs=0.01))
    assert [each.kind for each in told.recommendations if each.is_applied] == ["merge"]
    await OrchestratorOptimizer.apply_optimization("chain", "aggressive", preserve_structure=False)
    (after,) = await record("chain", 1)
    old, new = await Executor.status(before), await Executor.status(after)
    assert old.output == new.output == {"sums": 11}
    graphs = [await graph_of_run(run_id) for run_id in (before, after)]
    assert [[node.key for node in graph.nodes] for graph in graphs] == [
        ["number", "once", "twice", "sums"],
        ["number", "twice", "sums"],
    ]


async def test_what_made_runs_slower_is_taken_back_and_not_tried_again(recorded: WorkflowDefinition) -> None:
    await OrchestratorOptimizer.apply_optimization("chain", "basic")
    assert (await find_workflow("chain")).step("once").timeout != recorded.step("once").timeout
    await retime(await record("chain", RUNS), 4.0)
    await settle_all()
    told = await OrchestratorOptimizer.get_recommendations("chain", "basic")
    (tried,) = told.tried
    assert (tried.standing, tried.measured_speedup) == (Standing.TAKEN_BACK, pytest.approx(0.5, abs=0.01))
    assert tried.verdict is not None
    assert "4.05 s, before 2.0" in tried.verdict
    assert await find_workflow("chain") == recorded
    assert {each.why_not for each in told.recommendations if each.kind == "timeout"} == {"it was tried, and taken back"}
    with pytest.raises(InvalidInputError, match="has nothing to apply"):
        await OrchestratorOptimizer.apply_optimization("chain", "basic")


async def test_a_flow_that_was_defined_anew_meanwhile_is_left_to_its_author(recorded: WorkflowDefinition) -> None:
    await OrchestratorOptimizer.apply_optimization("chain", "basic")
    await save(chain())
    await settle_all()
    assert await rows_of("SELECT standing FROM flowoptimization") == [("superseded",)]
    assert await find_workflow("chain") == recorded


async def test_the_flow_of_a_goal_learns_by_itself(database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTRATOR_OPTIMIZATION_CONFIDENCE", "0.6")
    get_settings.cache_clear()
    ids = [await Orchestrator.start_goal("to be or not", decompose, STEPS) for _ in range(RUNS)]
    await Executor.execute_pending_tasks()
    slug = (await Orchestrator.goal_status(ids[0])).flow_slug
    assert slug is not None
    assert await rows_of("SELECT id FROM flowoptimization") == [], "there was nothing to learn from"
    later = time.monotonic() + 3600
    monkeypatch.setattr(current_wiring().kept(Studies), "clock", lambda: later)
    last = await Orchestrator.execute_goal("to be or not", decompose, STEPS, optimization_level="basic")
    assert (last.status, last.flow_slug) == ("completed", slug)
    assert await rows_of("SELECT slug, standing FROM flowoptimization") == [(slug, "applied")]
    assert last.flow_run_id is not None
    assert [node.retries for node in (await graph_of_run(last.flow_run_id)).nodes] == [3] * 5
    timeouts = await rows_of(
        "SELECT DISTINCT timeout_seconds FROM runstep WHERE workflow_run_id = :id", id=last.flow_run_id
    )
    assert max(timeouts) < (300.0,)
    monkeypatch.setenv("ORCHESTRATOR_OPTIMIZATION_ENABLED", "false")
    get_settings.cache_clear()
    plain = await Orchestrator.execute_goal("to be or not", decompose, STEPS)
    timeouts = await rows_of(
        "SELECT DISTINCT timeout_seconds FROM runstep WHERE workflow_run_id = :id", id=plain.flow_run_id
    )
    assert timeouts == [(300.0,)]
