"""Events for whoever LISTENs in PostgreSQL."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from soliplex.ingester import ConfigurationError, Database, Executor, Flow, PermanentError
from soliplex.ingester.goals.announcing import announced
from soliplex.ingester.lib.wf.feed import ChangeFeed
from soliplex.ingester.lib.wf.presence import connection_arguments
from tests.support.engine import registry_in_use

CHANNEL = "events of a test"


@pytest.mark.parametrize("database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
async def test_who_listens_in_postgresql_is_told_each_event_once_though_several_servers_could(database: None) -> None:
    flow, told = Flow("told", max_attempts=1), asyncio.Queue[dict[str, Any]]()

    @flow.step
    async def only() -> None:
        raise PermanentError("no" * 5_000)

    connection = await asyncpg.connect(**connection_arguments(Database.url()))
    await connection.add_listener(CHANNEL, lambda *heard: told.put_nowait(json.loads(str(heard[-1]))))
    first, second = ChangeFeed(), ChangeFeed()
    with registry_in_use():
        async with announced(CHANNEL, first), announced(CHANNEL, second), asyncio.timeout(300):
            while not await _is_heard(told):  # until one of the two follows
                await flow.start()
                await Executor.execute_pending_tasks()
            run_id = await flow.start()
            await Executor.execute_pending_tasks()
            of_run: list[dict[str, Any]] = []
            while not of_run or of_run[-1]["kind"] != "execution_failed":
                of_run += [event for event in [await told.get()] if event["run_id"] == run_id]
            assert not await _is_heard(told), "nor from the other one"
    await connection.close()
    kinds = ["execution_started", "task_started", "task_failed", "execution_failed"]
    assert [event["kind"] for event in of_run] == kinds
    assert of_run[2]["message"].startswith("nono")
    assert len(of_run[2]["message"]) <= 1_000


async def _is_heard(told: asyncio.Queue[dict[str, Any]]) -> bool:
    """Whether something is told within two looks of a feed."""
    try:
        await asyncio.wait_for(told.get(), 1)
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_without_postgresql_there_is_no_channel(database: None) -> None:
    with pytest.raises(ConfigurationError, match=r"ORCHESTRATOR_NOTIFICATIONS_CHANNEL.*SQLite has no channels"):
        async with announced(CHANNEL, ChangeFeed()):
            pass
