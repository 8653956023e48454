"""Starting workflows: for a batch in one transaction, again for what is left, and for one document."""

from __future__ import annotations

import asyncio

import pytest

from soliplex.ingester.lib import operations as documents
from soliplex.ingester.lib.errors import ConflictError, InvalidInputError, NotFoundError
from soliplex.ingester.lib.operations.fetches import Fetch, start_fetches
from soliplex.ingester.lib.wf import operations as engine
from soliplex.ingester.lib.wf.errors import UnknownDefinitionError
from soliplex.ingester.lib.wf.views import get_run
from tests.support.documents import SOURCE, new_batch, upload, uploaded
from tests.support.engine import START, Driver, rows_of, scalar


async def start(batch_id: int, *, only_unparsed: bool = False, priority: int = 0) -> documents.Started:
    return await documents.start_workflows(
        batch_id,
        workflow_id="test_wf",
        param_id="test_base",
        only_unparsed=only_unparsed,
        priority=priority,
        now=START,
    )


async def doc_ids(run_ids: list[int]) -> list[str]:
    found = dict(await rows_of("SELECT id, doc_id FROM workflowrun"))
    return [found[run_id] for run_id in run_ids]


async def test_each_document_of_the_batch_gets_a_run(driver: Driver) -> None:
    batch_id, other = await new_batch("mine"), await new_batch("other")
    made = await uploaded(batch_id, "a", "b", "c")
    await upload("another place for a", b"content of a", batch_id)
    await uploaded(other, "d")
    started = await start(batch_id, priority=3)
    assert await doc_ids(started.run_ids) == [each.doc_hash for each in made]
    group = started.run_group
    assert (group.workflow_definition_id, group.param_definition_id, group.batch_id) == (
        "test_wf",
        "test_base",
        batch_id,
    )
    assert (group.name, group.total_runs, group.remaining_runs) == ("mine", 3, 3)
    assert await rows_of("SELECT DISTINCT batch_id, priority FROM workflowrun") == [(batch_id, 3)]
    assert len(await driver.drain()) == 15


async def test_a_batch_without_documents_has_a_group_that_has_ended_until_documents_join_it(driver: Driver) -> None:
    batch_id = await new_batch()
    started = await start(batch_id)
    group = started.run_group
    assert (started.run_ids, group.total_runs, group.status) == ([], 0, "COMPLETED")
    assert group.completed_date is not None
    assert (await documents.get_batch(batch_id)).completed_date is not None
    await uploaded(batch_id, "a")
    again = await start(batch_id, only_unparsed=True)
    assert (again.run_group.id, again.run_group.status, len(again.run_ids)) == (group.id, "PENDING", 1)
    assert (await documents.get_batch(batch_id)).completed_date is None
    await driver.drain()
    assert (await driver.group(group.id or 0)).status == "COMPLETED"


async def test_defaults_come_from_the_settings(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    started = await documents.start_workflows(await new_batch(), now=START)
    group = started.run_group
    assert (group.workflow_definition_id, group.param_definition_id) == ("batch_split", "default")


async def test_only_unparsed_takes_up_the_newest_group(driver: Driver) -> None:
    batch_id = await new_batch()
    await uploaded(batch_id, "a", "b")
    older = await start(batch_id)
    first = await start(batch_id)
    await driver.drain()
    (late,) = await uploaded(batch_id, "c")
    again = await start(batch_id, only_unparsed=True)
    assert again.run_group.id == first.run_group.id != older.run_group.id
    assert await doc_ids(again.run_ids) == [late.doc_hash]
    assert (again.run_group.total_runs, again.run_group.remaining_runs) == (3, 1)
    assert (await start(batch_id, only_unparsed=True)).run_ids == []
    await driver.drain()


async def test_only_unparsed_makes_a_group_where_there_is_none(driver: Driver) -> None:
    batch_id = await new_batch()
    await uploaded(batch_id, "a")
    await documents.start_workflows(batch_id, workflow_id="test_wf_fail", param_id="test_base", now=START)
    started = await start(batch_id, only_unparsed=True)
    assert (len(started.run_ids), started.run_group.workflow_definition_id) == (1, "test_wf")


async def test_changed_content_is_processed_again(driver: Driver) -> None:
    batch_id = await new_batch()
    await uploaded(batch_id, "a")
    await start(batch_id)
    await driver.drain()
    changed = await upload("a", b"changed", batch_id)
    again = await start(batch_id, only_unparsed=True)
    assert await doc_ids(again.run_ids) == [changed.doc_hash]


async def test_two_who_start_what_is_left_at_once_start_it_once(driver: Driver) -> None:
    batch_id = await new_batch()
    await uploaded(batch_id, *"abcdef")
    started = await asyncio.gather(*(start(batch_id, only_unparsed=True) for _ in range(6)))
    assert sorted(len(each.run_ids) for each in started) == [0, 0, 0, 0, 0, 6]
    assert len({each.run_group.id for each in started}) == 1


async def test_a_cancelled_group_is_not_taken_up(driver: Driver) -> None:
    batch_id = await new_batch()
    await uploaded(batch_id, "a")
    started = await start(batch_id)
    await engine.cancel_run_group(started.run_group.id or 0, now=driver.now())
    await uploaded(batch_id, "b")
    with pytest.raises(ConflictError, match="was cancelled"):
        await start(batch_id, only_unparsed=True)


async def test_unknown_definitions_are_named_and_nothing_is_started(driver: Driver) -> None:
    batch_id = await new_batch()
    with pytest.raises(UnknownDefinitionError, match="workflow 'test_wff'"):
        await documents.start_workflows(batch_id, workflow_id="test_wff")
    with pytest.raises(UnknownDefinitionError, match="parameter set 'nothing'"):
        await documents.start_workflows(batch_id, workflow_id="test_wf", param_id="nothing")
    with pytest.raises(InvalidInputError, match=r"^priority: must be between"):
        await documents.start_workflows(batch_id, workflow_id="test_wf", param_id="test_base", priority=2**31)
    assert await scalar("SELECT count(*) FROM rungroup") == 0


async def test_one_document_can_be_run_by_itself(driver: Driver) -> None:
    batch_id = await new_batch()
    (made,) = await uploaded(batch_id, "a")
    run, steps = await documents.start_document_workflow(
        made.doc_hash, workflow_id="test_wf", param_id="test_base", priority=2, now=START
    )
    assert (run.doc_id, run.batch_id, run.priority, run.status) == (made.doc_hash, batch_id, 2, "PENDING")
    assert [step.workflow_step_name for step in steps] == ["validate", "parse", "chunk", "embed", "store"]
    assert run.run_params == {"param_id": "test_base", "workflow_id": "test_wf", "source": SOURCE}


async def test_runs_say_by_what_and_for_which_source_they_were_started(driver: Driver) -> None:
    batch_id = await new_batch()
    await uploaded(batch_id, "a", "b")
    started = await start(batch_id)
    told = {"param_id": "test_base", "workflow_id": "test_wf", "source": SOURCE}
    assert [(await get_run(run_id)).run_params for run_id in started.run_ids] == [told, told]
    await upload("a", b"other content", batch_id)
    rolled = await documents.roll_back("a", SOURCE, 1)
    assert [(await get_run(each.workflow_run_id)).run_params for each in rolled.runs] == [told]
    fetching = await start_fetches(batch_id, [Fetch(uri="https://example.org/a", source="web")])
    (run_id,) = fetching.run_ids
    assert (await get_run(run_id)).run_params == {"param_id": "default", "workflow_id": "fetch", "source": "web"}


@pytest.mark.parametrize("doc_hash", ["sha256-unknown", "", "a\x00b"])
async def test_an_unknown_document_is_not_run(driver: Driver, doc_hash: str) -> None:
    with pytest.raises(NotFoundError, match=r"document .* does not exist"):
        await documents.start_document_workflow(doc_hash, workflow_id="test_wf", param_id="test_base")
    assert await scalar("SELECT count(*) FROM rungroup") == 0
