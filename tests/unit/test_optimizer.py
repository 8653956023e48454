"""What is concluded from how flows ran: pure functions over numbers and graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soliplex.ingester.goals.optimizer import chains, structure
from soliplex.ingester.goals.optimizer.comparing import compared
from soliplex.ingester.goals.optimizer.concurrency import best_at_once
from soliplex.ingester.goals.optimizer.flow_changes import Change, apply_changes, hash_of
from soliplex.ingester.goals.optimizer.measurements import Interval, RunFacts, StepStats
from soliplex.ingester.goals.optimizer.simulation import makespan
from soliplex.ingester.goals.optimizer.tuning import tuned
from soliplex.ingester.lib.enums import Standing
from soliplex.ingester.lib.wf import graph
from soliplex.ingester.lib.wf.definitions import workflow_from_steps
from soliplex.ingester.lib.wf.retries import Backoff
from tests.support.optimizing import chain, step

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, list[str]], set[tuple[str, str]]]:
    """Steps with what they depend on, and which edges carry data."""
    count = draw(st.integers(1, 12))
    pairs = [(low, high) for high in range(count) for low in range(high)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    found: dict[str, list[str]] = {f"s{place}": [] for place in range(count)}
    for low, high in edges:
        found[f"s{high}"].append(f"s{low}")
    named = [(f"s{low}", f"s{high}") for low, high in edges]
    return found, set(draw(st.lists(st.sampled_from(named), unique=True))) if named else set()


@given(graphs())
def test_without_redundant_edges_each_step_waits_for_the_same_steps_and_reads_the_same_data(
    made: tuple[dict[str, list[str]], set[tuple[str, str]]],
) -> None:
    edges, data = made
    redundant = structure.redundant_edges(edges, lambda needed, name: (needed, name) in data)
    left = {name: [each for each in needed if (each, name) not in redundant] for name, needed in edges.items()}
    assert {name: graph.ancestors_of(name, left) for name in left} == {
        name: graph.ancestors_of(name, edges) for name in edges
    }
    assert data <= {(needed, name) for name, all_needed in left.items() for needed in all_needed}
    kept = structure.redundant_edges(left, lambda needed, name: (needed, name) in data)
    assert not kept, "what is left holds no edge that could go"


@given(graphs(), st.integers(1, 4), st.data())
def test_no_run_is_worked_out_to_be_faster_than_its_longest_way_or_its_work_allow(
    made: tuple[dict[str, list[str]], set[tuple[str, str]]], slots: int, data: st.DataObject
) -> None:
    edges, _ = made
    seconds = {name: data.draw(st.floats(0.1, 5)) for name in edges}
    found = makespan(edges, {name: [value] for name, value in seconds.items()}, slots=slots)
    longest = max(structure.remaining_path(edges, seconds).values())
    assert found >= max(longest, sum(seconds.values()) / slots) - 1e-6
    assert found <= sum(seconds.values()) + 1e-6


def test_an_edge_that_carries_data_or_may_do_so_is_kept() -> None:
    flow = chain()
    carries = {
        (needed, each.key): structure.carries_data(flow, needed, each.key)
        for each in flow.steps
        for needed in each.depends_on
    }
    assert carries == {
        ("number", "once"): True,
        ("once", "twice"): True,
        ("number", "twice"): False,
        ("number", "sums"): True,
        ("twice", "sums"): True,
    }
    unknown = replace(flow.step("twice"), parameters={"function": "no.such.module:function"})
    elsewhere = workflow_from_steps("chain", [unknown if each.key == "twice" else each for each in flow.steps])
    assert structure.carries_data(elsewhere, "number", "twice"), "nobody can tell what the function reads"


def test_edges_are_removed_and_chains_merged_and_what_comes_out_stays() -> None:
    flow = chain()
    (edge,) = structure.redundant_edges(
        flow.dependencies, lambda needed, name: structure.carries_data(flow, needed, name)
    )
    assert edge == ("number", "twice")
    pruned = apply_changes(flow, [Change("redundant_edge", "twice", "number")])
    pairs = list(structure.mergeable_pairs(pruned, lambda key: True))
    assert pairs == [("once", "twice")], "number is read by two; sums waits for two"
    merged = apply_changes(pruned, [Change("merge", "twice", "once")])
    assert merged.dependencies == {"number": (), "twice": ("number",), "sums": ("number", "twice")}
    assert merged.step("twice").timeout == timedelta(seconds=600)
    assert [link["key"] for link in chains.links_of(merged.step("twice"))] == ["once", "twice"]
    assert [each.key for each in merged.leaf_steps] == [each.key for each in flow.leaf_steps]


@pytest.mark.parametrize(
    "special",
    [{"optional": True}, {"type": "other"}, {"map": True}, {"parameters": {}}],
    ids=["optional", "of another pool", "map", "function of one process"],
)
def test_a_step_that_is_more_than_a_call_is_not_merged(special: dict[str, Any]) -> None:
    steps = [step("number"), replace(step("once", None, "number"), **special)]
    assert not list(structure.mergeable_pairs(workflow_from_steps("two", steps), lambda key: True))


async def test_a_merged_step_goes_on_where_it_was_when_it_asked_to_be_called_again() -> None:
    first, second = step("number"), step("stepwise", None, "number")
    both = chains.merged(first, second)
    context = {"run_id": 1, "step_name": "stepwise"}
    again: Any = await chains.execute_chain({"n": 5}, None, None, both, context, {})
    assert again.state == {"done": [5], "state": 1}
    again = await chains.execute_chain({"n": 5}, again.state, None, both, context, {})
    assert again.state == {"done": [5], "state": 2}
    assert await chains.execute_chain({"n": 5}, again.state, None, both, context, {}) == 7


def test_what_is_on_the_longest_way_goes_first_and_nothing_goes_before_other_flows() -> None:
    edges: Mapping[str, Sequence[str]] = {"a": [], "b": [], "c": ["b"], "d": ["a", "c"]}
    found = structure.priorities(edges, {"a": 1, "b": 5, "c": 5, "d": 1})
    assert found["b"] == 0
    assert found["c"] > found["a"]
    assert max(found.values()) == 0


def _stats(**facts: Any) -> StepStats:
    durations = [0.1 + place / 1000 for place in range(100)]
    usual: dict[str, Any] = {"executions": 100, "durations": durations}
    return StepStats(step="s", **(usual | facts))


def _tuned(stats: StepStats, **facts: Any) -> dict[str, Any]:
    return {each.kind: each.proposed for each in tuned(step("s", "number", **facts), stats, 100)}


def test_a_timeout_leaves_room_and_is_proposed_from_enough_calls_alone() -> None:
    long = [float(place) for place in range(1, 101)]
    assert _tuned(_stats(durations=long), timeout=timedelta(hours=1)) == {"timeout": 300.0}
    assert _tuned(_stats()) == {"timeout": 5.0}, "never so short that a busy machine makes a step fail"
    assert _tuned(_stats(durations=long[:10], executions=10)) == {}
    assert _tuned(_stats(durations=long, is_repeated=True)) == {}, "only the last call is known"
    assert _tuned(_stats(durations=long), timeout=timedelta(seconds=120)) == {}, "longer only if some were stopped"
    assert _tuned(_stats(durations=long, timed_out=3), timeout=timedelta(seconds=120)) == {"timeout": 300.0}


def test_attempts_are_added_where_some_are_missing_and_taken_where_none_has_helped() -> None:
    some = _stats(
        retried=40, recovered=30, failed=10, failed_attempts=70, recovered_at_once=20, recovery_seconds=[2.0] * 30
    )
    assert _tuned(some, timeout=timedelta(seconds=5), retries=3)["attempts"] == 10
    never = _stats(retried=30, recovered=0, failed=30, failed_attempts=150)
    assert _tuned(never, timeout=timedelta(seconds=5), retries=5) == {"attempts": 2}
    few = _stats(retried=4, recovered=0, failed=4, failed_attempts=20)
    assert _tuned(few, timeout=timedelta(seconds=5), retries=5) == {}


def test_back_off_follows_how_long_recovery_took() -> None:
    waits = Backoff(timedelta(seconds=4), timedelta(minutes=1))
    facts: dict[str, Any] = {"timeout": timedelta(seconds=5), "backoff": waits}
    quick = _stats(retried=20, recovered=20, recovered_at_once=20, recovery_seconds=[4.0] * 20, failed_attempts=20)
    assert _tuned(quick, **facts)["backoff"]["first"] == 2.0
    slow = _stats(retried=20, recovered=20, recovered_at_once=5, recovery_seconds=[30.0] * 20, failed_attempts=60)
    assert _tuned(slow, **facts)["backoff"]["first"] == 30.0


def _intervals(at_once: int, seconds: float, rounds: int, run_id: int) -> list[Interval]:
    begins = [NOW + timedelta(hours=run_id, seconds=seconds * place) for place in range(rounds)]
    return [
        Interval(run_id, "s", begin, begin + timedelta(seconds=seconds)) for begin, _ in product(begins, range(at_once))
    ]


def test_more_at_once_than_the_machine_bears_is_told() -> None:
    """Two at once take as long as one; four take twice as long, as eight take four times as long."""
    intervals = [*_intervals(1, 1, 30, 1), *_intervals(2, 1, 30, 2), *_intervals(4, 2, 30, 3), *_intervals(8, 4, 30, 4)]
    found = best_at_once(intervals)
    assert found is not None
    assert found[0] == 2
    assert [round(each.work, 2) for each in found[1]] == [1, 2, 2, 2]
    free = best_at_once([*_intervals(1, 1, 30, 1), *_intervals(8, 1, 30, 2)])
    assert free is not None
    assert free[0] == 8
    assert best_at_once(_intervals(1, 1, 10, 1)) is None


def _runs(seconds: float, count: int, *, failed: int = 0) -> list[RunFacts]:
    return [RunFacts(place, seconds * (1 + place / 1000), place < failed, None, None) for place in range(count)]


@pytest.mark.parametrize(
    ("before", "after", "standing"),
    [
        (_runs(1, 20), _runs(0.8, 20), Standing.KEPT),
        (_runs(1, 20), _runs(1.5, 20), Standing.TAKEN_BACK),
        (_runs(1, 20), _runs(0.5, 20, failed=19), Standing.TAKEN_BACK),
        (_runs(1, 20), _runs(1, 20), Standing.APPLIED),
        (_runs(1, 20), _runs(1, 60), Standing.KEPT),
        (_runs(1, 20), _runs(9, 9), Standing.APPLIED),
        (_runs(1, 9), _runs(9, 20), Standing.APPLIED),
    ],
    ids=["faster", "slower", "failing", "the same so far", "the same for long", "too few after", "too few before"],
)
def test_what_made_things_worse_is_told_from_chance(
    before: list[RunFacts], after: list[RunFacts], standing: Standing
) -> None:
    assert compared(before, after).standing is standing


def test_a_flow_is_the_same_whatever_was_learned_of_it() -> None:
    flow = chain()
    learned = replace(flow, meta={"optimization": 3, "optimized_from": "x"})
    assert hash_of(learned) == hash_of(flow)
    assert hash_of(apply_changes(flow, [Change("timeout", "once", 9.0)])) != hash_of(flow)
