"""An installation that may be hurt: its folder, its disk, its database and its processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import httpx

from soliplex.ingester.lib.config import get_settings
from soliplex.ingester.lib.models import Database
from tests.support.databases import folder_in_memory, make_postgres_template, make_sqlite_template, server_folder
from tests.support.faults import Nursery, OwnServer, WorkerProcess, eventually, own_server
from tests.support.serving import free_port
from tests.support.worker_main import Birth

ROOT: Final = Path(__file__).parents[2]
LEASE: Final = 4.0
"""Seconds without a word after which a worker counts as dead, and a lock as free."""
SETTINGS: Final = {
    "WORKER_CHECKIN_INTERVAL": "1",
    "WORKER_CHECKIN_TIMEOUT": str(LEASE),
    "RESOURCE_LOCK_TTL_SECONDS": str(LEASE),
    "WORKER_LIVENESS_INTERVAL_SECONDS": "0.3",
    "WORKER_STOP_TIMEOUT_SECONDS": "3",
    "WORKER_POLL_INTERVAL_SECONDS": "0.5",
    "RETRY_FIRST_DELAY_SECONDS": "0.3",
    "RETRY_LONGEST_DELAY_SECONDS": "2",
    "RATE_LIMIT_INGEST": "1000000/minute",
    "FILE_STORE_RESERVE": "0",  # or uploads would be refused long before the disk is full
    "SQLITE_BUSY_TIMEOUT_SECONDS": "10",
    "PYDANTIC_DISABLE_PLUGINS": "logfire-plugin",
    "LOGFIRE_IGNORE_NO_CONFIG": "1",
}
PARAMS: Final = """id: {name}
name: {name}
config:
  parse: {{parser: fast}}
  chunk: {{chunk_size: 32}}
  embed: {{provider: wordllama}}
  store: {{data_dir: {name}}}
"""
DISK_SIZE: Final = 4 << 30
PATIENCE: Final = 300.0
"""Seconds for what takes a few of them, on a machine that is busy with other things."""


class Disk:
    """Where an installation keeps its data. Where mounting is permitted it is a disk of its own, and can be full."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.can_be_full = _succeeds("mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "chaos", str(folder))
        self._filling = threading.Lock()

    def fill(self, seconds: float) -> bool:
        """Leave no room for so long: the limit of a file system in memory can be moved.

        False where that did not happen: others were quicker and had filled it, or wrote more at this moment.
        """
        if not self._filling.acquire(blocking=False):
            return False
        try:
            status = os.statvfs(self._folder)
            used = (status.f_blocks - status.f_bfree) * status.f_frsize
            is_full = self._resize(used + 16 * 1024)
            if is_full:
                time.sleep(seconds)
            return is_full
        finally:
            self.free()
            self._filling.release()

    def free(self) -> bool:
        return self._resize(DISK_SIZE)

    def _resize(self, size: int) -> bool:
        return _succeeds("mount", "-o", f"remount,size={size}", str(self._folder))


def have_mounts_of_its_own() -> None:
    """Let what this process mounts be seen by itself and its children only, and vanish with them."""
    with suppress(OSError, AttributeError):  # not permitted, or not on Linux: then nothing can be mounted either
        os.unshare(os.CLONE_NEWNS)
        _succeeds("mount", "--make-rprivate", "/")


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class TroubledDatabase(Protocol):
    """The database of an installation, which goes away for a while."""

    @property
    def url(self) -> str: ...

    def interrupt(self, seconds: float) -> bool:
        """Be away for so long. False where that did not happen, since it was away already."""
        ...

    def log(self) -> str:
        """What the database has told of itself."""
        ...


class SqliteFile:
    """A SQLite database. Nobody can restart it, but somebody can lock it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = f"sqlite+aiosqlite:///{path}"
        make_sqlite_template(path)

    def interrupt(self, seconds: float) -> bool:
        holding = (
            "import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30);"
            "c.execute('BEGIN EXCLUSIVE'); time.sleep(float(sys.argv[2])); c.execute('ROLLBACK')"
        )
        return _succeeds(sys.executable, "-c", holding, str(self._path), str(seconds))

    def log(self) -> str:
        return ""


class PostgresDatabase:
    """A PostgreSQL server of its own, which is crashed and started again."""

    def __init__(self, server: OwnServer) -> None:
        self._server = server
        self.url = server.url_of(make_postgres_template(server))

    def interrupt(self, seconds: float) -> bool:
        with self._server.away() as is_away:
            if is_away:
                time.sleep(seconds)
        return is_away

    def log(self) -> str:
        return self._server.program.log.read_text(errors="replace")


class Process(WorkerProcess):
    """A `si-cli` command in a process of its own."""

    def __init__(self, nursery: Nursery, folder: Path, *command: str) -> None:
        folder.mkdir()
        self.id = folder.name
        self._stdout, self._stderr, self._report = (folder / name for name in ("stdout", "stderr", "report"))
        paths = map(str, (self._stdout, self._stderr, self._report))
        nursery.bear(Birth("", {}, dict(os.environ), *paths, command=command))
        self.is_stopped = False

    @property
    def is_alive(self) -> bool:
        return self.is_born() and self.exit_code is None

    def strike(self, number: signal.Signals) -> None:
        """Send a signal, if there is anybody to get it."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                self.signal(number)


@dataclass
class Slot:
    """A place that is never empty for long: what should run there, and what does."""

    kind: str
    port: int | None = None
    process: Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def works(self) -> bool:
        """Whether the server answers, or the worker says that it runs."""
        assert self.process is not None
        if self.port is None:
            return self.process.has_said("worker ")
        async with httpx.AsyncClient() as client:
            with suppress(httpx.TransportError):
                return (await client.get(f"{self.url}/health")).is_success
        return False

    def command(self) -> list[str]:
        if self.port is None:
            return ["worker"]
        worker = "--worker" if self.kind == "server with worker" else "--no-worker"
        return ["serve", "--port", str(self.port), worker]


@dataclass
class Installation:
    """Everything that a run needs, and what is known of its processes."""

    folder: Path
    disk: Disk
    database: TroubledDatabase
    nursery: Nursery
    slots: list[Slot] = field(default_factory=list[Slot])
    ends: Counter[str] = field(default_factory=Counter[str])
    """How often processes ended, by kind and exit code."""
    odd_ends: list[str] = field(default_factory=list[str])
    """What processes said that ended by themselves."""
    born: int = 0

    @property
    def lancedb(self) -> Path:
        return self.folder / "data" / "lancedb"

    def define(self, data_dir: str) -> str:
        """A parameter set that stores into this RAG database; gives its id."""
        (self.folder / "params" / f"{data_dir}.yaml").write_text(PARAMS.format(name=data_dir))
        return data_dir

    def processes(self, *, storing: bool = False) -> list[Process]:
        """Those that live, all or those with a worker."""
        return [
            slot.process
            for slot in self.slots
            if slot.process is not None and slot.process.is_alive and (not storing or slot.kind != "server")
        ]

    def process_of(self, pid: int) -> Process | None:
        return next((each for each in self.processes() if each.pid == pid), None)

    def servers(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.port is not None]

    async def open(self, *kinds: str) -> None:
        """Have these processes from now on; returns when they work."""
        self.slots = [Slot(kind, None if kind == "worker" else free_port()) for kind in kinds]
        self.fill_slots()
        for slot in self.slots:
            assert slot.process is not None
            await eventually(slot.works, f"{slot.process.id} works", within=PATIENCE, workers=[slot.process])

    def fill_slots(self) -> None:
        """Start anew what has ended."""
        for slot in self.slots:
            if slot.process is not None and slot.process.exit_code is None:
                continue
            if slot.process is not None:
                self._note_end(slot, slot.process)
            self.born += 1
            name = f"{self.born:03}-{slot.kind.replace(' ', '-')}"
            slot.process = Process(self.nursery, self.folder / "processes" / name, *slot.command())

    async def close(self) -> None:
        """End all processes: gracefully those that can be, in the time that they have for it."""
        processes = [slot.process for slot in self.slots if slot.process is not None]
        for process in processes:
            process.strike(signal.SIGCONT)
            process.strike(signal.SIGTERM)
        with suppress(AssertionError):  # whoever does not end in time is killed
            await eventually(lambda: not any(each.is_alive for each in processes), "all processes end", within=120)
        for process in processes:
            await process.kill()
        self.slots = []

    def _note_end(self, slot: Slot, process: Process) -> None:
        self.ends[f"{slot.kind} {process.exit_code}"] += 1
        if process.exit_code not in {0, -signal.SIGKILL, -signal.SIGTERM}:
            self.odd_ends.append(f"{process.id} ended with {process.exit_code}:\n{process.account()}")


@asynccontextmanager
async def installation(kind: str, nursery: Nursery, kept: Path) -> AsyncGenerator[Installation]:
    """A fresh installation on a database of this kind. `kept` gets its files if the block fails."""
    with ExitStack() as stack:
        base = stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-", dir=folder_in_memory()))
        folder = Path(base)
        for name in ("data", "params", "processes"):
            (folder / name).mkdir()
        disk = Disk(folder / "data")
        if disk.can_be_full:
            stack.callback(_succeeds, "umount", "-l", str(folder / "data"))
        if kind == "sqlite":
            database = await asyncio.to_thread(SqliteFile, folder / "data" / "documents.db")
        else:
            opening = own_server(stack.enter_context(server_folder()))
            server = await asyncio.to_thread(stack.enter_context, opening)
            database = await asyncio.to_thread(PostgresDatabase, server)
        os.environ.update(_settings(folder, database.url))
        get_settings.cache_clear()
        await Database.initialize(database.url)
        made = Installation(folder, disk, database, nursery)
        try:
            yield made
        except BaseException:
            shutil.copytree(folder, kept, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))
            (kept / "database.log").write_text(database.log())
            raise
        finally:
            await made.close()
            await Database.close()


def _settings(folder: Path, url: str) -> dict[str, str]:
    return {
        **SETTINGS,
        "DATA_DIR": str(folder / "data"),
        "DOC_DB_URL": url,
        "WORKFLOW_DIR": str(ROOT / "config" / "workflows"),
        "PARAM_DIR": str(folder / "params"),
        "USER_PARAM_DIR": str(folder / "user_params"),
        "DEFAULT_WORKFLOW_ID": "batch",
    }
