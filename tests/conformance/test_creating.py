"""Starting groups and runs: one transaction, a handful of statements, configurations stored once."""

from __future__ import annotations

import asyncio

import pytest

from soliplex.ingester.lib.errors import ConflictError, NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.definitions import ParameterSet, parameter_set_from_yaml
from soliplex.ingester.lib.wf.operations import runs as runs_module
from tests.support.engine import Driver, assert_consistent, linear, rows_of, scalar, workflow
from tests.support.interleaving import recorded_statements

PARAMETERS = """
id: usual
config:
  parse: {format: markdown, pages: [1, 2]}
  store: {table: documents}
"""


def parameters(text: str = PARAMETERS) -> ParameterSet:
    return parameter_set_from_yaml(text)


async def test_a_group_has_its_runs_and_they_have_their_steps(driver: Driver) -> None:
    flow = workflow(
        {
            "parse": {"retries": 3, "timeout": "2m", "isolation": "process"},
            "store": {"optional": True, "type": "keep"},
        }
    )
    runs = [ops.NewRun(doc_id="sha256-1", params={"ocr": True}), ops.NewRun(input={"städte": [1, None, "x"]})]
    created = await ops.create_run_group(
        flow, parameters(), runs, name="Tuesday", priority=7, resource_keys={"store": "rag:/db"}, now=driver.now()
    )

    group = await driver.group(created.group_id)
    assert (group.name, group.workflow_definition_id, group.param_definition_id) == ("Tuesday", "flow", "usual")
    assert (group.status, group.total_runs, group.remaining_runs) == ("PENDING", 2, 2)
    assert group.created_date == driver.moment
    assert group.start_date is None
    first, second = [await driver.run(run_id) for run_id in created.run_ids]
    assert (first.doc_id, first.run_params, first.input) == ("sha256-1", {"ocr": True}, None)
    assert (second.doc_id, second.run_params, second.input) == (None, {}, {"städte": [1, None, "x"]})
    assert (first.status, first.priority, first.remaining_steps, second.queue_key) == ("PENDING", 7, 2, 1)
    parse, store = await driver.steps_of(created.run_ids[1])
    assert (parse.workflow_step_name, parse.step_type, parse.retries, parse.timeout_seconds) == (
        "parse",
        "parse",
        3,
        120,
    )
    assert (parse.isolation, parse.remaining_deps, parse.is_last_step, parse.optional) == ("process", 0, False, False)
    assert (store.step_type, store.resource_key, store.remaining_deps) == ("keep", "rag:/db", 1)
    assert (store.is_last_step, store.optional, store.priority, store.queue_key) == (True, True, 7, 1)
    edges = await rows_of("SELECT depends_on_id, step_id FROM runstepdependency WHERE step_id = :id", id=store.id)
    assert edges == [(parse.id, store.id)]


async def test_the_edges_of_a_graph_stay_within_each_run(driver: Driver) -> None:
    flow = workflow(
        {
            "read": {},
            "left": {"depends_on": ["read"]},
            "right": {"depends_on": ["read"]},
            "join": {"depends_on": ["left", "right"]},
        }
    )
    await driver.start(flow, 3)
    edges = await rows_of(
        "SELECT a.workflow_step_name, b.workflow_step_name, a.workflow_run_id - b.workflow_run_id"
        "  FROM runstepdependency e JOIN runstep a ON a.id = e.depends_on_id JOIN runstep b ON b.id = e.step_id"
    )
    of_one_run = [("read", "left", 0), ("read", "right", 0), ("left", "join", 0), ("right", "join", 0)]
    assert sorted(edges) == sorted(of_one_run * 3)


async def test_the_number_of_statements_does_not_depend_on_the_number_of_runs(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = linear("a", "b", "c")
    for _ in range(2):  # what the first stores, the second finds and remembers
        await driver.start(flow, 1)
    with recorded_statements(monkeypatch) as for_one:
        await driver.start(flow, 1)
    with recorded_statements(monkeypatch) as for_many:
        await driver.start(flow, 2_000)
    assert for_many == for_one
    assert len(for_one) <= 12
    assert await scalar("SELECT count(*) FROM runstep") == 2_003 * 3


async def test_equal_configurations_are_stored_once(driver: Driver) -> None:
    flow = workflow({"parse": {}, "chunk": {"parameters": {"size": 512}}, "store": {}})
    for _ in range(2):
        await driver.start(flow, 2, params=parameters())
    assert await scalar("SELECT count(*) FROM stepconfig") == 3
    assert await scalar("SELECT count(*) FROM configset") == 1
    assert await scalar("SELECT count(*) FROM configsetitem") == 3

    await driver.start(flow, 1, params=parameters(PARAMETERS.replace("documents", "others")))
    assert await scalar("SELECT count(*) FROM stepconfig WHERE step_type = 'parse'") == 1
    assert await scalar("SELECT count(*) FROM stepconfig WHERE step_type = 'store'") == 2
    assert await scalar("SELECT count(*) FROM configset WHERE yaml_id = 'usual'") == 2


async def test_a_step_configuration_tells_what_the_step_and_all_before_it_were_given(driver: Driver) -> None:
    created = await driver.start(workflow({"parse": {}, "store": {}}), 1, params=parameters())
    store = (await driver.steps_of(*created.run_ids))[1]
    cumulative = await scalar("SELECT cuml_config_json FROM stepconfig WHERE id = :id", id=store.step_config_id)
    assert cumulative == '{"parse":{"format":"markdown","pages":[1,2]},"store":{"table":"documents"}}'


async def test_a_group_without_runs_waits_for_them(driver: Driver) -> None:
    flow = linear("a")
    created = await driver.start(flow, 0)
    assert created.run_ids == []
    assert await ops.try_complete_run_group(created.group_id, now=driver.now()) is False
    group = await driver.group(created.group_id)
    assert (group.status, group.total_runs) == ("PENDING", 0)

    added = await ops.create_runs(created.group_id, flow, None, [ops.NewRun()], now=driver.now())
    assert await driver.drain() == ["a"]
    assert (await driver.run(added.run_ids[0])).status == "COMPLETED"
    assert (await driver.group(created.group_id)).status == "COMPLETED"


async def test_runs_that_join_a_group_that_has_ended_open_it_again(driver: Driver) -> None:
    flow = linear("a")
    created = await driver.start(flow, 1)
    await driver.drain()
    await ops.create_runs(created.group_id, flow, None, [ops.NewRun(), ops.NewRun()], now=driver.now())
    group = await driver.group(created.group_id)
    assert (group.status, group.completed_date, group.remaining_runs, group.total_runs) == ("PENDING", None, 2, 3)
    await assert_consistent()
    await driver.drain()
    assert (await driver.group(created.group_id)).status == "COMPLETED"
    assert [event.event for event in await driver.events("group_start", "group_end")] == [
        "group_start",
        "group_end",
    ] * 2


async def test_no_runs_join_a_group_that_does_not_exist_or_was_cancelled(driver: Driver) -> None:
    flow = linear("a")
    with pytest.raises(NotFoundError, match="run group 41 does not exist"):
        await ops.create_runs(41, flow, None, [ops.NewRun()])
    created = await driver.start(flow, 1)
    await ops.cancel_run_group(created.group_id, now=driver.now())
    with pytest.raises(ConflictError, match="was cancelled"):
        await ops.create_runs(created.group_id, flow, None, [ops.NewRun()])
    assert (await driver.group(created.group_id)).total_runs == 1


async def test_a_creation_that_fails_half_way_leaves_nothing(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(_: object) -> None:
        raise RuntimeError("after the steps, before the edges")

    monkeypatch.setattr(runs_module, "_edges", stumble)
    with pytest.raises(RuntimeError, match="before the edges"):
        await driver.start(linear("a", "b"), 5, params=parameters())
    for table in ("rungroup", "workflowrun", "runstep", "stepconfig", "configset"):
        assert await scalar(f"SELECT count(*) FROM {table}") == 0


async def test_an_empty_resource_key_is_no_key(driver: Driver) -> None:
    created = await driver.start(linear("a"), 1, resource_keys={"a": ""})
    assert (await driver.steps_of(*created.run_ids))[0].resource_key is None
    assert await driver.drain() == ["a"]


async def test_groups_are_created_at_once_without_disturbing_one_another(database: type[Database]) -> None:
    driver = Driver()
    here = workflow({"x": {"depends_on": []}, "y": {"depends_on": []}}, workflow_id="here")
    there = workflow({"y": {"depends_on": []}, "x": {"depends_on": []}}, workflow_id="there")
    await asyncio.gather(*(driver.start(flow, 20, params=parameters()) for flow in (here, there) * 4))
    assert await scalar("SELECT count(*) FROM stepconfig") == 2
    assert await scalar("SELECT count(*) FROM runstep") == 8 * 20 * 2
    await assert_consistent()
    assert len(await driver.drain()) == 320


async def test_a_run_of_very_many_steps_is_created_by_looking_each_edge_up(driver: Driver) -> None:
    """Where pairs of steps were looked up among the edges, this took minutes."""
    created = await driver.start(linear(*(f"s{number}" for number in range(1_000))))
    assert await scalar("SELECT count(*) FROM runstepdependency") == 999
    assert len(await driver.statuses(created.run_ids[0])) == 1_000
