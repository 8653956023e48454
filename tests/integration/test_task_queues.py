"""Steps that are sent to queues of pgmq, with workers that know nothing but SQL: psql, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from soliplex.ingester import Executor, Flow, FlowBuilder, Run, WorkflowDefinition
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf import outside
from soliplex.ingester.lib.wf.errors import DefinitionError
from soliplex.ingester.lib.wf.operations import task_queues
from soliplex.ingester.lib.wf.task_queues import install_pgmq
from tests.support.engine import assert_consistent, registry_in_use, rows_of
from tests.support.psql import psql, start_psql
from tests.support.working import until, working

ON_POSTGRES = pytest.mark.parametrize(
    "database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
ARGUMENTS = "(message ->> 'step_state_id')::bigint, (message ->> 'step_task_id')::bigint"
SHOUTS = f"SELECT complete_task({ARGUMENTS}, to_jsonb(upper(task_input({ARGUMENTS}) ->> 'item')))"
"""What a worker of the queue does with a message."""


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    with registry_in_use():
        yield


def page_flow(**facts: Any) -> WorkflowDefinition:
    step = {"name": "scan", "type": "task", "command": "scan", "queue": "pages", **facts}
    return WorkflowDefinition.parse({"id": "pages", "title": "Pages", "steps": [step]})


shouting = WorkflowDefinition.parse(
    {
        "id": "shouting",
        "title": "Shouting",
        "steps": [
            {"name": "words", "type": "task", "command": "tests.support.flow_functions.words"},
            {"name": "shout", "type": "map", "command": "shout", "dependencies": ["words"], "queue": "shouts"},
            {
                "name": "largest",
                "type": "task",
                "command": "tests.support.flow_functions.last_of",
                "dependencies": ["shout"],
            },
        ],
    }
)


async def sent(run_id: int, name: str = "scan") -> int:
    """The id of a step of the run, once its message can be read."""

    async def found() -> int | None:
        query = """SELECT id FROM runstep WHERE workflow_run_id = :run AND workflow_step_name = :name
                      AND awaits IS NOT NULL"""
        rows = await rows_of(query, run=run_id, name=name)
        return rows[0][0] if rows else None

    await until(found)
    step_id = await found()
    assert step_id is not None
    return step_id


async def ended(run_id: int) -> Run:
    return await Executor.wait(run_id, timeout=60)


@ON_POSTGRES
async def test_a_worker_in_plain_psql_executes_the_tasks_of_a_queue(database: None, database_url: str) -> None:
    run_id = await Executor.start_workflow(shouting, {"text": "to be or not"})
    async with working():
        await until(lambda: rows_of("SELECT 1 FROM taskqueue WHERE name = 'shouts'"))
        worker = await start_psql(database_url, f"{SHOUTS} FROM pgmq.read('shouts', 30, 2)\n\\watch 0.02\n")
        try:
            run = await ended(run_id)
        finally:
            worker.kill()
            await worker.communicate()
    assert run.output == {"largest": "NOT"}
    assert next(step.output for step in run.steps if step.name == "shout") == ["TO", "BE", "OR", "NOT"]
    assert await rows_of("SELECT count(*) FROM pgmq.q_shouts") == [(0,)]
    assert await rows_of("SELECT count(*) FROM signal") == [(0,)]
    await assert_consistent()


@ON_POSTGRES
async def test_a_message_has_the_shape_that_its_workers_know(database: None, database_url: str) -> None:
    run_id = await Executor.start_workflow(page_flow(max_attempts=2), {"page": 7})
    async with working():
        step_id = await sent(run_id)
        (message, headers), *others = await rows_of("SELECT message, headers FROM pgmq.read('pages', 30, 5)")
        assert not others
        assert message == {
            "workflow_run_id": run_id,
            "step_name": "scan",
            "step_state_id": step_id,
            "step_task_id": None,
            "is_map_task": False,
        }
        assert headers == {"command": "scan"}
        assert await psql(database_url, f"SELECT task_input({step_id}, NULL)") == ('{"page": 7}', "")
        (step,) = (await Executor.status(run_id)).steps
        assert (step.status, step.attempt) == ("pending", 0)
        assert (await psql(database_url, f"SELECT complete_task({step_id}, NULL, '5')")) == ("t", "")
        assert (await ended(run_id)).output == {"scan": 5}


@ON_POSTGRES
async def test_who_is_late_or_finishes_twice_changes_nothing_and_is_told(database: None, database_url: str) -> None:
    run_id = await Executor.start_workflow(page_flow(), {"page": 7})
    async with working():
        step_id = await sent(run_id)
        script = f"SELECT complete_task({step_id}, NULL, '1'); SELECT complete_task({step_id}, NULL, '2')"
        printed, told = await psql(database_url, f"BEGIN; {script}; COMMIT;")
        assert printed.split() == ["t", "f"]
        assert f"task {step_id} waits for no worker: it was finished, cancelled or sent anew" in told
        assert (await ended(run_id)).output == {"scan": 1}
        for call in (
            f"fail_task({step_id}, NULL, 'late')",
            f"complete_task({step_id}, 1, '3')",
            "fail_task(0, NULL, '')",
        ):
            printed, told = await psql(database_url, f"SELECT {call};")
            assert (printed, "nothing was changed" in told) == ("f", True)
    assert (await Executor.status(run_id)).output == {"scan": 1}
    assert await rows_of("SELECT count(*) FROM signal") == [(0,)]


@ON_POSTGRES
async def test_a_failed_attempt_is_tried_again_until_there_are_none_left(database: None, database_url: str) -> None:
    run_id = await Executor.start_workflow(page_flow(max_attempts=2), {"page": 7})
    async with working():
        step_id = await sent(run_id)
        assert (await psql(database_url, f"SELECT fail_task({step_id}, NULL, 'torn page')"))[0] == "t"
        await until(lambda: rows_of("SELECT 1 FROM runstep WHERE status = 'ERROR' AND retry = 1"))
        await rows_of("UPDATE runstep SET available_at = now() RETURNING id")  # the pause is over
        await until(lambda: rows_of("SELECT 1 FROM runstep WHERE retry = 1 AND awaits IS NOT NULL"))
        assert (await psql(database_url, f"SELECT fail_task({step_id}, NULL, 'torn again')"))[0] == "t"
        run = await ended(run_id)
        assert (run.status, run.error) == ("failed", "step 'scan' failed: torn again")
        assert await rows_of("SELECT attempt, message FROM stepattempt ORDER BY id") == [
            (1, "torn page"),
            (2, "torn again"),
        ]
        await Executor.retry(run_id)
        await sent(run_id)
        assert (await psql(database_url, f"SELECT complete_task({step_id}, NULL, NULL)"))[0] == "t"
        assert (await ended(run_id)).output == {"scan": None}


@ON_POSTGRES
async def test_what_a_dead_worker_held_comes_back_and_fails_when_its_attempts_are_used_up(
    database: None, database_url: str
) -> None:
    """The worker is killed while it holds the message; nobody tells the engine."""
    run_id = await Executor.start_workflow(page_flow(max_attempts=2), {"page": 7})
    lost_at_last = await Executor.start_workflow(page_flow(max_attempts=1), {"page": 8})
    async with working():
        first, last = await sent(run_id), await sent(lost_at_last)
        worker = await start_psql(
            database_url, "SELECT msg_id FROM pgmq.read('pages', 3600, 2);\nSELECT pg_sleep(600);\n"
        )
        await until(lambda: rows_of("SELECT 1 FROM pgmq.q_pages WHERE read_ct = 1 LIMIT 1"))
        worker.kill()
        await worker.communicate()
        assert await rows_of("SELECT * FROM pgmq.read('pages', 30, 2)") == []
        await rows_of("SELECT pgmq.set_vt('pages', msg_id, 0) FROM pgmq.q_pages")  # the visibility timeout is over
        run = await ended(lost_at_last)
        assert run.error is not None
        assert "lost: read 1 times, never finished" in run.error
        ((again,),) = await rows_of("SELECT message FROM pgmq.read('pages', 30, 2)")
        archived = await rows_of("SELECT message ->> 'step_state_id' FROM pgmq.a_pages")
        assert (again["step_state_id"], archived) == (first, [(str(last),)])
        assert last not in (first, None)
        assert (await psql(database_url, f"SELECT complete_task({first}, NULL, '\"read\"')"))[0] == "t"
        assert (await ended(run_id)).output == {"scan": "read"}
    assert (await psql(database_url, f"SELECT complete_task({last}, NULL, '1')"))[0] == "f"


@ON_POSTGRES
async def test_a_message_that_somebody_deletes_by_hand_is_a_failed_attempt(database: None) -> None:
    run_id = await Executor.start_workflow(page_flow(max_attempts=1))
    async with working(step_patience=0):
        await sent(run_id)
        await rows_of("SELECT pgmq.purge_queue('pages')")
        assert "its message is gone from the queue" in str((await ended(run_id)).error)


@ON_POSTGRES
async def test_a_run_that_is_cancelled_or_overdue_takes_its_messages_back(database: None, database_url: str) -> None:
    cancelled = await Executor.start_workflow(page_flow())
    overdue = await Executor.start_workflow(page_flow(), deadline=utcnow() + timedelta(hours=1))
    deleted = await ops.start_run(page_flow())
    async with working():
        steps = [await sent(run_id) for run_id in (cancelled, overdue, deleted.run_id)]
        assert (await Executor.cancel(cancelled)).status == "cancelled"
        await ops.end_overdue_runs(now=utcnow() + timedelta(hours=2))
        assert (await Executor.status(overdue)).status == "failed"
        await ops.delete_run_group(deleted.group_id)
        assert await rows_of("SELECT count(*) FROM pgmq.q_pages") == [(0,)]
        assert await rows_of("SELECT count(*) FROM pgmq.a_pages") == [(3,)]
        for step_id in steps:
            assert (await psql(database_url, f"SELECT complete_task({step_id}, NULL, '1')"))[0] == "f"
    await assert_consistent()


@ON_POSTGRES
async def test_a_map_of_a_thousand_is_sent_in_a_few_statements(
    database: None, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []
    send = task_queues.send_tasks

    def noting(results: Any) -> Any:
        counted.append(len(results))
        return send(results)

    monkeypatch.setattr("soliplex.ingester.lib.wf.operations.parking.send_tasks", noting)
    run_id = await Executor.start_workflow(shouting, {"text": " ".join(f"w{number}" for number in range(1000))})
    async with working(batch_size=500):
        await until(lambda: rows_of("SELECT 1 FROM pg_class WHERE relname = 'q_shouts'"))
        await until(lambda: rows_of("SELECT 1 WHERE (SELECT count(*) FROM pgmq.q_shouts) = 1000"))
        assert sum(counted) == 1000
        assert len(counted) <= 40
        assert (await psql(database_url, f"SELECT count(*) FROM ({SHOUTS} FROM pgmq.read('shouts', 30, 1000)) AS x"))[
            0
        ] == "1000"
        assert (await ended(run_id)).output == {"largest": "W999"}
    await assert_consistent()


@ON_POSTGRES
async def test_pgmq_is_installed_once_however_many_ask_for_it(database: None, database_url: str) -> None:
    """Others may have used the queue before, and their messages are left alone."""
    runs = [await Executor.start_workflow(page_flow(max_attempts=1)) for _ in range(2)]
    assert await rows_of("SELECT to_regnamespace('pgmq')") == [(None,)]
    async with working(), working():
        for run_id in runs:
            await sent(run_id)
        await rows_of("SELECT pgmq.send('pages', '{\"of\": \"others\"}')")
        await rows_of("SELECT msg_id FROM pgmq.read('pages', 0, 1, '{\"of\": \"others\"}')")
        for number in range(2):
            await psql(
                database_url,
                f"{SHOUTS.replace('item', 'page')} FROM pgmq.q_pages WHERE message ? 'step_name' LIMIT {number + 1}",
            )
        assert [(await ended(run_id)).status for run_id in runs] == ["completed"] * 2
    assert await rows_of("SELECT message FROM pgmq.q_pages") == [({"of": "others"},)]


@ON_POSTGRES
async def test_outputs_are_checked_like_any_other_and_large_ones_stand_aside(database: None, database_url: str) -> None:
    run_id = await Executor.start_workflow(page_flow(), {"text": "x" * 100_000})
    async with working():
        step_id = await sent(run_id)
        with pytest.raises(AssertionError, match='output: has the key ":payload", which is kept for references'):
            await psql(database_url, f"SELECT complete_task({step_id}, NULL, '{{\":payload\": 1}}')")
        large = f"SELECT complete_task({step_id}, NULL, task_input({step_id}, NULL) -> 'text')"
        assert (await psql(database_url, large))[0] == "t"
        assert (await ended(run_id)).output == {"scan": "x" * 100_000}
        assert "payload" in str(await rows_of("SELECT output FROM runstep"))


@ON_POSTGRES
async def test_a_worker_without_the_package_leaves_the_step_to_others_and_says_why(
    database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pgmq.install", None)
    run_id = await Executor.start_workflow(page_flow())
    async with working(step_patience=0):
        run = await ended(run_id)
    assert run.error is not None
    assert 'the database has no pgmq; run CREATE EXTENSION pgmq, or install "soliplex-ingester[pgmq]"' in run.error


@ON_POSTGRES
async def test_workers_that_need_pgmq_at_the_same_moment_all_find_it_installed(database: None) -> None:
    """Each of their connections remembers from before that there is none."""
    async with AsyncExitStack() as stack:
        for _ in range(3):
            connection = await stack.enter_async_context(Database.engine().connect())
            assert await connection.scalar(sa.text("SELECT to_regclass('pgmq.meta')")) is None
    await asyncio.gather(*(install_pgmq() for _ in range(3)))
    assert await rows_of("SELECT count(*) FROM pgmq.meta") == [(0,)]


@pytest.mark.parametrize("database_url", [pytest.param("sqlite", marks=pytest.mark.sqlite)], indirect=True)
async def test_where_there_is_no_pgmq_the_same_flow_runs_on_the_queue_that_there_is(database: None) -> None:
    """A command that names a function is executed by our workers, any other by workers outside."""
    flow = Flow("local")

    @flow.step(queue="pages")
    def double(number: int) -> int:
        return number * 2

    local, scanned = await flow.start({"number": 4}), await Executor.start_workflow(page_flow(), {"page": 7})
    assert await Executor.execute_pending_tasks() == 1
    assert (await Executor.status(local)).output == {"double": 8}
    claimed = await outside.claim_tasks("scanner", ["@pages"])
    (task,) = claimed.tasks
    assert (task.step, task.input, task.parameters) == ("scan", {"page": 7}, {"command": "scan"})
    await outside.complete_task(task.id, claimed.lease, "read")
    assert (await Executor.status(scanned)).output == {"scan": "read"}


@pytest.mark.parametrize("name", ["Pages", "a b", "1st", "x" * 48, "a;drop table", "", 7])
async def test_a_queue_of_an_invalid_name_is_refused_with_the_field(name: object) -> None:
    with pytest.raises(DefinitionError, match=r"steps\[0\]\.queue: is "):
        page_flow(queue=name)


async def test_flows_made_in_code_and_step_by_step_name_queues_too(database: None) -> None:
    await FlowBuilder.create_flow("built")
    built = await FlowBuilder.add_step("built", "scan", queue="pages")
    assert built.steps[0].queue == "pages"
    with pytest.raises(DefinitionError, match="queue: is 'No'"):
        await FlowBuilder.add_step("built", "other", queue="No")


@ON_POSTGRES
async def test_the_queries_of_the_documentation_run(database: None, database_url: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "howto" / "task-queues.md").read_text("utf-8")
    worker, _, queries = re.findall(r"^```text\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    (definition,) = re.findall(r"^```json\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    flow = WorkflowDefinition.parse(
        json.loads(definition.replace("my_package.pages", "tests.support.flow_functions.words"))
    )
    run_id = await Executor.start_workflow(flow, {"text": "to be"})
    async with working():
        await until(lambda: rows_of("SELECT 1 FROM runstep WHERE awaits LIKE ':queue:scans:%' HAVING count(*) = 2"))
        assert (await psql(database_url, queries))[0].splitlines()[0] == "2|2"
        assert (await psql(database_url, worker.replace("\\watch 1", ";")))[0].split() == ["t", "t"]
        assert (await ended(run_id)).output == {"ocr": ["TO", "BE"]}
    (step,) = await rows_of("SELECT avg(completed_at - started_at) FROM step_tasks WHERE step_slug = 'ocr'")
    assert step[0] > timedelta()
