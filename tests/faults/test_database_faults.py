"""The database goes away under the workers: restarted, connections cut, locked by somebody else."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf import operations as ops
from tests.support.databases import make_postgres_template, server_folder
from tests.support.engine import rows_of, scalar
from tests.support.faults import Fleet, Nursery, OwnServer, ServerControlError, own_server

RUNS = 60


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    with server_folder() as folder, own_server(folder) as server:
        yield server


@pytest.fixture(scope="module")
def template(server: OwnServer) -> str:
    return make_postgres_template(server)


@pytest.fixture
async def restartable(nursery: Nursery, server: OwnServer, template: str, folder: Path) -> AsyncIterator[Fleet]:
    """A fleet on a database of a server that nobody else uses."""
    name = server.new_name()
    await asyncio.to_thread(server.run, f"CREATE DATABASE {name} TEMPLATE {template}")
    url = server.url_of(name)
    await Database.initialize(url)
    fleet = Fleet(nursery, url, folder)
    try:
        yield fleet
    finally:
        await fleet.close()
        await Database.close()


@pytest.mark.postgres
async def test_workers_outlive_restarts_of_the_server(restartable: Fleet, server: OwnServer) -> None:
    fleet = restartable
    await fleet.create("load", RUNS)
    await fleet.create("line", 10, resource_keys={"first": "shelf"})
    workers = [await fleet.start(name) for name in ("one", "two")]
    for done in (RUNS // 2, RUNS * 2):
        await fleet.calls(done)
        await asyncio.to_thread(server.crash)
        await asyncio.to_thread(server.start)
    await fleet.everything_ends()
    await _assert_all_completed()
    assert not any(worker.has_said("worker_reaped") for worker in workers), "a worker was given up that lived"


@pytest.mark.postgres
def test_a_server_that_is_away_is_not_crashed_again(server: OwnServer) -> None:
    """Faults chosen by dice overlap: one of them crashes the server while another still waits to start it again."""
    with server.away() as first, server.away() as second:
        assert (first, second) == (True, False)
    with server.away() as again:
        assert again
    server.run("SELECT 1")


@pytest.mark.postgres
def test_a_server_that_cannot_be_crashed_says_what_it_did_last(server: OwnServer) -> None:
    with server.away(), pytest.raises(ServerControlError) as caught:
        server.crash()
    assert "postmaster.pid does not exist" in str(caught.value)
    assert "received immediate shutdown request" in str(caught.value)


@pytest.mark.postgres
def test_a_server_is_closed_only_after_whoever_crashed_it_has_started_it() -> None:
    """Or a server is left over that nobody will stop: a run that breaks off does not wait for its threads."""
    left, may_return = threading.Event(), threading.Event()

    def leave(server: OwnServer) -> None:
        with server.away():
            left.set()
            may_return.wait()

    with ThreadPoolExecutor() as threads, server_folder() as folder, ExitStack() as stack:
        server = stack.enter_context(own_server(folder))
        stack.callback(may_return.set)
        leaving = threads.submit(leave, server)
        left.wait()
        closing = threads.submit(server.close)
        with pytest.raises(TimeoutError):
            closing.result(timeout=0.5)
        may_return.set()
        closing.result()
        leaving.result()
        assert not (folder / "postmaster.pid").exists()
        with server.away() as is_away:
            assert not is_away


@pytest.mark.slow
@pytest.mark.postgres
async def test_a_worker_can_be_stopped_while_the_server_is_away(restartable: Fleet, server: OwnServer) -> None:
    fleet = restartable
    await fleet.create("waiting", 4)
    worker = await fleet.start("one", stop_timeout=1)
    await fleet.calls(2, "wait")
    await asyncio.to_thread(server.crash)
    worker.signal(signal.SIGTERM)
    await worker.ends(0)
    await asyncio.to_thread(server.start)
    fleet.let_go()
    async with fleet.helper():
        await fleet.everything_ends()
    await _assert_all_completed()


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_workers_outlive_cut_connections(fleet: Fleet) -> None:
    await fleet.create("load", RUNS)
    await fleet.create("line", 10, resource_keys={"first": "shelf"})
    await fleet.start("one")
    for done in range(10, RUNS * 3, 17):
        await fleet.calls(done)
        await _cut_all_other_connections(fleet)
    await fleet.everything_ends()
    await _assert_all_completed()


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_a_worker_whose_connections_were_cut_is_noticed_when_it_dies(fleet: Fleet) -> None:
    await fleet.create("waiting")
    victim = await fleet.start()
    await fleet.calls(1, "wait")
    for _ in range(3):
        await _cut_all_other_connections(fleet)
    victim.signal(signal.SIGKILL)
    await victim.ends(-signal.SIGKILL)
    fleet.let_go()
    async with fleet.helper():
        await fleet.everything_ends()


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_a_worker_that_reconnects_late_is_not_given_up(fleet: Fleet) -> None:
    """All lose their connections at once, as when the server restarts, and one is slower than the others."""
    await fleet.create("waiting")
    late = await fleet.start("late")
    await fleet.calls(1, "wait")
    async with fleet.helper(liveness_interval=0.05) as counted:
        late.signal(signal.SIGSTOP)
        await _cut_all_other_connections(fleet)
        await asyncio.sleep(1)
        late.signal(signal.SIGCONT)
        fleet.let_go()
        await fleet.everything_ends()
        assert counted.counts["worker_reaped"] == 0


@pytest.mark.sqlite
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_workers_outlive_a_lock_that_somebody_holds_too_long(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQLITE_BUSY_TIMEOUT_SECONDS", "0.1")
    await fleet.create("load", RUNS)
    worker = await fleet.start("one")
    path = Database.path()
    assert path is not None
    for done in (RUNS // 2, RUNS):
        await fleet.calls(done)
        other = sqlite3.connect(path, isolation_level=None, timeout=30)
        other.execute("BEGIN IMMEDIATE")
        await asyncio.sleep(1)
        other.close()
    await fleet.everything_ends()
    assert worker.has_said("claim_error")
    await _assert_all_completed()


@pytest.mark.parametrize("point", ["before_handler", "before_delivery"])
async def test_what_a_worker_holds_that_is_not_checked_in_is_done_by_another(fleet: Fleet, point: str) -> None:
    """As one that left while it could not reach the database, but for its last word."""
    await fleet.create("line")
    victim = await fleet.launch("victim", fault_at=point)
    await victim.ends(-signal.SIGKILL)
    await ops.check_out("victim")
    async with fleet.helper(checkin_timeout=1):
        await fleet.everything_ends()


async def _cut_all_other_connections(fleet: Fleet) -> None:
    """Cut them, and wait until a worker is there again."""
    cut = await rows_of("""SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity
                            WHERE datname = current_database() AND pid <> pg_backend_pid()""")
    assert cut
    query = f"""SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                 WHERE datname = current_database() AND locktype = 'advisory' AND granted
                   AND pid NOT IN ({", ".join(str(pid) for pid, _ in cut)})"""

    async def is_there() -> bool:
        return await scalar(query) > 0

    await fleet.eventually(is_there, "a worker takes its lock again")


async def _assert_all_completed() -> None:
    for table in ("runstep", "lifecyclehistory"):
        assert await rows_of(f"SELECT * FROM {table} WHERE status <> 'COMPLETED' OR retry > 0") == []
