"""Definitions in the database: stored in versions, pinned by runs, known to every process that needs them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from soliplex.ingester.lib.enums import DefinitionKind
from soliplex.ingester.lib.errors import NotFoundError
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.statements import Call
from soliplex.ingester.lib.models.transactions import Rows
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf import stored as stored_module
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.definitions import (
    EventHandler,
    StepDefinition,
    WorkflowDefinition,
    parameter_set_from_yaml,
    workflow_from_steps,
)
from soliplex.ingester.lib.wf.errors import CannotExecute, UnknownDefinitionError
from soliplex.ingester.lib.wf.execution import definition_of
from soliplex.ingester.lib.wf.stored import stored
from tests.support.engine import METHOD, Driver, linear, parked, rows_of, scalar, workflow


def as_another_process() -> None:
    """Forget what this process knows of the database, and what it has registered."""
    stored_module._by_database.clear()
    for each in get_registry().workflows():
        get_registry().unregister(each.id)


def made(workflow_id: str = "made", *, timeout: int = 5, events: bool = False) -> WorkflowDefinition:
    handlers = {"step_start": (EventHandler(name="tell", method=METHOD),)} if events else {}
    step = StepDefinition(key="a", method=METHOD, timeout=timedelta(seconds=timeout))
    return workflow_from_steps(workflow_id, [step], lifecycle_events=handlers)


async def test_a_workflow_made_in_code_is_stored_when_it_is_first_started(driver: Driver) -> None:
    flow = linear("a", "b")
    assert await scalar("SELECT count(*) FROM definition") == 0
    created = await driver.start(flow, 2)
    await driver.start(flow)
    assert await rows_of("SELECT kind, slug, version, is_draft FROM definition") == [("workflow", "flow", 1, False)]
    assert [(await driver.run(run_id)).definition_id for run_id in created.run_ids] == [1, 1]


async def test_starting_an_earlier_content_again_makes_no_new_version(driver: Driver) -> None:
    old, new = made(timeout=5), made(timeout=6)
    for each in (old, new, old, new):
        await driver.start(each)
    assert await rows_of("SELECT definition_id FROM workflowrun ORDER BY id") == [(1,), (2,), (1,), (2,)]
    assert [each.version for each in await ops.definition_versions(DefinitionKind.WORKFLOW, "made")] == [1, 2]


async def test_a_worker_that_never_heard_of_the_workflow_executes_its_steps(driver: Driver) -> None:
    await driver.start(made(timeout=42))
    as_another_process()
    steps = await driver.claim() or await driver.claim()  # the first one may have to learn first
    await ops.load_versions({step.run["definition_id"] for step in steps})
    assert [definition_of(step).timeout for step in steps] == [timedelta(seconds=42)]


async def test_a_version_that_cannot_be_read_gives_the_step_to_another_worker(driver: Driver) -> None:
    await driver.start(made())
    as_another_process()
    (step,) = await driver.claim() or await driver.claim()
    with pytest.raises(CannotExecute, match="cannot be read"):
        definition_of(step)


async def test_a_run_keeps_its_version_when_the_workflow_changes_or_goes(driver: Driver) -> None:
    await ops.save_workflow(made(timeout=1))
    await driver.start(await ops.find_workflow("made"))
    await ops.save_workflow(made(timeout=2))
    await driver.start(await ops.find_workflow("made"))
    await ops.delete_definition(DefinitionKind.WORKFLOW, "made")
    with pytest.raises(UnknownDefinitionError):
        await ops.find_workflow("made")
    steps = await driver.claim()
    assert [definition_of(step).timeout for step in steps] == [timedelta(seconds=1), timedelta(seconds=2)]
    versions = await ops.definition_versions(DefinitionKind.WORKFLOW, "made")
    assert [(each.version, each.is_deleted) for each in versions] == [(1, False), (2, False), (3, True)]


async def test_a_step_that_waits_goes_on_with_its_version_when_the_workflow_is_deleted_meanwhile(
    driver: Driver,
) -> None:
    await ops.save_workflow(made(timeout=1))
    await driver.start(await ops.find_workflow("made"))
    await driver.finish(parked(await driver.claim_one(), awaits="go on"))
    await ops.delete_definition(DefinitionKind.WORKFLOW, "made")
    as_another_process()
    await ops.send_signal("go on", now=driver.now())
    await ops.deliver_signals(now=driver.now())
    step = await driver.claim_one()
    await ops.load_versions([step.run["definition_id"]])
    assert definition_of(step).timeout == timedelta(seconds=1)


async def test_saving_the_same_twice_makes_one_version_and_going_back_makes_a_new_one(driver: Driver) -> None:
    saved = [(await ops.save_workflow(made(timeout=each))).version for each in (1, 1, 2, 1)]
    assert saved == [1, 1, 2, 3]
    assert (await ops.find_workflow("made")).step("a").timeout == timedelta(seconds=1)


async def test_a_draft_is_kept_and_not_in_use(driver: Driver) -> None:
    await ops.save_workflow(made(timeout=1))
    await ops.save_workflow(made(timeout=2), is_draft=True)
    assert (await ops.find_workflow("made")).step("a").timeout == timedelta(seconds=1)
    drafts = [each.is_draft for each in await ops.definition_versions(DefinitionKind.WORKFLOW, "made")]
    assert drafts == [False, True]


async def test_what_is_not_there_cannot_be_deleted(driver: Driver) -> None:
    with pytest.raises(NotFoundError, match="mine"):
        await ops.delete_definition(DefinitionKind.PARAMS, "mine")


async def test_events_of_a_workflow_that_another_process_made_find_their_handler(driver: Driver) -> None:
    await driver.start(made(events=True))
    as_another_process()
    steps = await driver.claim() or await driver.claim()
    await ops.load_versions({step.run["definition_id"] for step in steps})
    await driver.complete(*steps)
    assert await rows_of("SELECT handler_name FROM lifecyclehistory WHERE event = 'step_start'") == [("tell",)]


async def test_a_version_without_handlers_ends_the_calls_of_those_before_it(driver: Driver) -> None:
    await ops.save_workflow(made(events=True))
    await ops.save_workflow(made())
    as_another_process()
    await ops.learn_definitions()
    assert [each.lifecycle_events for each in stored().listening_workflows()] == [{}]


async def test_parameter_sets_are_known_to_every_process(driver: Driver) -> None:
    params = parameter_set_from_yaml("id: mine\nconfig: {a: {x: 1}}\n", origin="user")
    await ops.save_parameters(params)
    as_another_process()
    with pytest.raises(UnknownDefinitionError):
        get_registry().parameter_set("mine")
    await ops.learn_definitions()
    assert get_registry().parameter_set("mine") == params
    assert [each.id for each in get_registry().parameter_sets()] == ["mine"]
    await ops.delete_definition(DefinitionKind.PARAMS, "mine")
    assert get_registry().parameter_sets() == ()


async def test_a_look_for_new_definitions_is_one_statement_when_there_are_none(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ops.save_workflow(made(events=True))
    asked: list[str] = []
    read = Database.read

    async def listen(call: Call) -> Rows:
        asked.append(call.statement.name)
        return await read(call)

    monkeypatch.setattr(Database, "read", listen)
    await ops.learn_definitions()
    assert asked == ["last_definition"]


async def test_registered_workflows_are_found_before_stored_ones(driver: Driver) -> None:
    await ops.save_workflow(made("flow"))
    registered = workflow({"b": {}}, workflow_id="flow")
    assert await ops.find_workflow("flow") is registered


async def test_of_two_who_save_a_parameter_set_under_one_id_at_once_one_is_refused(driver: Driver) -> None:
    """Each has looked, and found the id free."""
    texts = [f"id: mine\nconfig: {{a: {{x: {number}}}}}\n" for number in range(4)]
    saving = [ops.save_parameters(parameter_set_from_yaml(text, origin="user")) for text in texts]
    saved = await asyncio.gather(*saving, return_exceptions=True)
    assert sorted(type(each).__name__ for each in saved) == ["ConflictError"] * 3 + ["StoredVersion"]
    await ops.delete_definition(DefinitionKind.PARAMS, "mine")
    await ops.save_parameters(parameter_set_from_yaml(texts[0], origin="user"))


async def test_all_workflows_are_those_that_are_registered_and_the_newest_that_are_stored(driver: Driver) -> None:
    await ops.save_workflow(made("b"))
    await ops.save_workflow(made("b", timeout=6))
    await ops.save_workflow(made("c"))
    await ops.save_workflow(made("d"), is_draft=True)
    await ops.delete_definition(DefinitionKind.WORKFLOW, "c")
    as_another_process()
    linear("a")
    found = {each.id: each.steps[0].timeout for each in await ops.all_workflows()}
    assert found == {"b": timedelta(seconds=6), "flow": None}
