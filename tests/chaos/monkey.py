"""Things that go wrong, chosen by dice.

The most telling moments are those between two commits of one store. The monkey needs no help from the program to find
them: a commit of LanceDB changes the folder of a table's versions, which can be watched. When that happens it stops
all who may be storing, asks the database who is, and lets the others go on.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from soliplex.ingester.lib.wf.links import TROUBLES_OF_THE_DATABASE
from tests.chaos.installation import LEASE, Installation, Process
from tests.support.engine import rows_of

TABLES: Final = ("document_meta", "documents", "document_items", "chunks")
WATCHED: Final = 3.0
"""Seconds to wait for a commit, before something else is done."""


class Monkey:
    """Does one thing after the other to an installation, and counts them."""

    def __init__(self, installation: Installation, dice: random.Random) -> None:
        self.done: Counter[str] = Counter()
        self.events: list[str] = []
        self._installation = installation
        self._dice = dice
        self._began = time.monotonic()
        self._faults: dict[Callable[[], Awaitable[None]], int] = {
            self._kill_between_commits: 5,
            self._stop_between_commits: 5,
            self._kill_during_creation: 2,
            self._kill_any: 3,
            self._stop_any: 3,
            self._end_any: 1,
            self._interrupt_database: 1,
        }
        if installation.disk.can_be_full:
            self._faults[self._fill_disk] = 1

    async def work(self, until: asyncio.Event) -> None:
        """Do harm until the event is set; then wait until all of it is over."""
        self._began = time.monotonic()
        # Each once, so that a short run is not without one of them for long; then by dice.
        faults, weights = list(self._faults), list(self._faults.values())
        first = self._dice.sample(faults, k=len(faults))
        under_way: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as tasks:
            while not until.is_set():
                self._installation.fill_slots()
                fault = first.pop() if first else self._dice.choices(faults, weights)[0]
                task = tasks.create_task(self._alone(fault))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                await asyncio.sleep(self._dice.uniform(0.3, 1.5))
                while len(under_way) > 2:
                    await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)

    async def _alone(self, fault: Callable[[], Awaitable[None]]) -> None:
        # While the database is away, there is trouble enough.
        with suppress(*TROUBLES_OF_THE_DATABASE):
            await fault()

    def _note(self, what: str, of: str = "") -> None:
        self.done[what] += 1
        self.events.append(f"{time.monotonic() - self._began:7.2f} s  {what} {of}".rstrip())

    async def _kill_between_commits(self) -> None:
        for process, table in await self._caught_storing():
            process.strike(signal.SIGKILL)
            self._note("kills between commits", f"{process.id} after {table}")

    async def _stop_between_commits(self) -> None:
        caught = await self._caught_storing()
        for process, table in caught:
            self._note("stops between commits", f"{process.id} after {table}")
        await self._hold([process for process, _ in caught])

    async def _kill_during_creation(self) -> None:
        tables = self._dice.randint(0, len(TABLES))
        if not await asyncio.to_thread(_database_appears, self._installation.lancedb, tables):
            return
        for process in await self._storing_now():
            process.strike(signal.SIGKILL)
            self._note("kills during creation", f"{process.id} with {tables} tables")

    async def _kill_any(self) -> None:
        if processes := self._free():
            process = self._dice.choice(processes)
            process.strike(signal.SIGKILL)
            self._note("kills", process.id)

    async def _stop_any(self) -> None:
        if processes := self._free():
            process = self._dice.choice(processes)
            process.strike(signal.SIGSTOP)
            self._note("stops longer than the lease", process.id)
            await self._hold([process])

    async def _end_any(self) -> None:
        if processes := self._free():
            process = self._dice.choice(processes)
            process.strike(signal.SIGTERM)
            self._note("asked to end", process.id)

    async def _interrupt_database(self) -> None:
        seconds = self._dice.uniform(0, 3)
        if await asyncio.to_thread(self._installation.database.interrupt, seconds):
            self._note("database interruptions", f"of {seconds:.1f} s, until now")

    async def _fill_disk(self) -> None:
        seconds = self._dice.uniform(0.5, 3)
        if await asyncio.to_thread(self._installation.disk.fill, seconds):
            self._note("full disks", f"for {seconds:.1f} s, until now")

    def _free(self) -> list[Process]:
        """Those that nothing is being done to."""
        return [process for process in self._installation.processes() if not process.is_stopped]

    async def _caught_storing(self) -> list[tuple[Process, str]]:
        """Processes stopped right after a commit of theirs to a table, with its name."""
        table = self._dice.choice(TABLES)
        folders = list(self._installation.lancedb.glob(f"*/{table}.lance/_versions"))
        if not folders or not await asyncio.to_thread(_changes, folders):
            return []
        return [(process, table) for process in await self._storing_now()]

    async def _storing_now(self) -> list[Process]:
        """Stop all who may be storing; those who are stay so, the others go on."""
        suspects = [process for process in self._free() if process in self._installation.processes(storing=True)]
        for process in suspects:
            process.strike(signal.SIGSTOP)
            process.is_stopped = True
        try:
            rows = await rows_of(
                "SELECT DISTINCT worker_id FROM runstep WHERE step_type = 'store' AND status = 'RUNNING'"
            )
            storing = {int(worker_id.split("-")[-2]) for (worker_id,) in rows if worker_id}
        except TROUBLES_OF_THE_DATABASE:
            storing = set[int]()
        caught = [process for process in suspects if process.is_alive and process.pid in storing]
        for process in suspects:
            if process not in caught:
                self._go_on(process)
        return caught

    async def _hold(self, processes: list[Process]) -> None:
        """Leave them stopped for longer than others wait for them."""
        for process in processes:
            process.is_stopped = True
        if processes:
            await asyncio.sleep(LEASE + self._dice.uniform(0.5, 2.5))
        for process in processes:
            self._go_on(process)

    def _go_on(self, process: Process) -> None:
        process.is_stopped = False
        process.strike(signal.SIGCONT)


def _changes(folders: list[Path]) -> bool:
    """Wait until something happens in one of the folders."""
    before = [_changed_at(folder) for folder in folders]
    deadline = time.monotonic() + WATCHED
    while time.monotonic() < deadline:
        if [_changed_at(folder) for folder in folders] != before:
            return True
        time.sleep(0.001)
    return False


def _changed_at(folder: Path) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116  a thousand times a second
    except FileNotFoundError:
        return 0


def _database_appears(lancedb: Path, tables: int) -> bool:
    """Wait until there is a new RAG database that has so many tables."""
    before = set(_names(lancedb))
    deadline = time.monotonic() + WATCHED
    while time.monotonic() < deadline:
        for name in set(_names(lancedb)) - before:
            if sum(each.endswith(".lance") for each in _names(lancedb / name)) >= tables:
                return True
        time.sleep(0.001)
    return False


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  a thousand times a second
    except (FileNotFoundError, NotADirectoryError):
        return []
