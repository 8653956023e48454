"""Presence: how workers see within seconds that another one has died, and hear of work that others made ready.

A worker holds a lock for as long as its process lives. When the process ends, however it ends, the system frees the
lock; a peer that can take it knows. On PostgreSQL it is a session's advisory lock, on the connection that also listens
for NOTIFY; on SQLite it is a lock on a file beside the database, and the database file's own change counter takes the
place of NOTIFY.

A process that is stopped but not dead keeps its lock: the heartbeat's timeout is there for that.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

import asyncpg
import sqlalchemy as sa

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.wf.duties import Duties, Duty
from soliplex.ingester.lib.wf.links import TROUBLES_OF_THE_DATABASE
from soliplex.ingester.lib.wf.wakeup import WORK_CHANNEL

_log = logging.getLogger(__name__)

QUIET_BETWEEN_NOTIFIES: Final = 0.005
BETWEEN_CONNECTS: Final = 0.5
TIME_TO_RECONNECT: Final = 4 * BETWEEN_CONNECTS
BUSY_LOOK: Final = 0.001
IDLE_LOOK: Final = 0.01
IDLE_AFTER: Final = 30.0
"""Seconds between looks at SQLite's counter: idle for long, or busy, a worker looks less often."""
QUIET_WHILE_BUSY: Final = 0.05
"""Seconds between two rings of a busy worker: most changes are its own, and its pools know of those."""


class Presence(Protocol):
    """A worker's way to say that it lives, to see that others have died, and to hear of work that others made ready."""

    async def announce(self) -> None:
        """Take the lock that says this worker lives, and start to listen."""
        ...

    async def leave(self) -> None: ...

    async def dead_among(self, worker_ids: Sequence[str]) -> set[str]:
        """Which of these workers have ended."""
        ...

    def forget(self, worker_ids: Sequence[str]) -> None:
        """These workers have been reaped: clear what they left behind."""
        ...

    def tell_others(self) -> None:
        """Let workers of other processes know that there is work. Returns at once."""
        ...


type OnWork = Callable[[Collection[str] | None], None]
"""Called when there is work: of which types, if they are known."""


def presence_for(worker_id: str, on_work: OnWork, *, is_idle: Callable[[], bool], duties: Duties) -> Presence:
    path = Database.path()
    if path is None:
        return PostgresPresence(worker_id, Database.url(), on_work, duties)
    return SqlitePresence(worker_id, path, on_work, is_idle=is_idle, duties=duties)


_HASH: Final = "hashtextextended('soliplex-worker:' || {}, 0)"


class PostgresPresence:
    """A session of its own that holds the worker's advisory lock and listens; opened anew when it breaks."""

    def __init__(self, worker_id: str, url: sa.URL, on_work: OnWork, duties: Duties) -> None:
        self._worker_id = worker_id
        self._duties = duties
        self._url = url
        self._on_work = on_work
        self._connection: asyncpg.Connection[Any] | None = None
        self._pid = 0
        self._using = asyncio.Lock()
        self._notify = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._broken = asyncio.Event()
        self._judges_from = 0.0

    async def announce(self) -> None:
        await self._connect()
        self._tasks = [
            self._duties.start(Duty(name="presence", round=self._reconnect_when_broken)),
            self._duties.start(Duty(name="notify", round=self._notify_others)),
        ]

    async def leave(self) -> None:
        await self._duties.end(self._tasks)
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            with suppress(*TROUBLES_OF_THE_DATABASE):
                await connection.close(timeout=2)

    async def dead_among(self, worker_ids: Sequence[str]) -> set[str]:
        query = f"SELECT id FROM unnest($1::text[]) AS id WHERE pg_try_advisory_xact_lock({_HASH.format('id')})"
        connection = self._connection
        is_late = asyncio.get_running_loop().time() < self._judges_from
        if connection is None or connection.is_closed() or is_late:
            return set()  # without a connection nobody can be known to be dead
        async with self._using:
            return {row["id"] for row in await connection.fetch(query, list(worker_ids))}

    def forget(self, worker_ids: Sequence[str]) -> None:
        """Nothing to do: PostgreSQL freed the locks of these workers when their sessions ended."""

    def tell_others(self) -> None:
        self._notify.set()

    async def _connect(self) -> asyncpg.Connection[Any]:
        connection = await asyncpg.connect(**connection_arguments(self._url))
        try:
            await self._announce_on(connection)
        except BaseException:
            connection.terminate()  # otherwise the old session could hold the lock against the new one
            raise
        self._connection = connection
        return connection

    async def _announce_on(self, connection: asyncpg.Connection[Any]) -> None:
        await connection.execute("SET application_name = 'soliplex-worker'")
        await connection.execute("SET statement_timeout = '10s'")
        # This waits until no other session holds the lock of this worker id: the server may not have given up our old
        # one yet.
        await connection.fetchval(f"SELECT pg_advisory_lock({_HASH.format('$1::text')})", self._worker_id)
        self._pid = connection.get_server_pid()
        connection.add_termination_listener(self._lost)
        await connection.add_listener(WORK_CHANNEL, self._heard)

    def _lost(self, connection: Any) -> None:
        if connection is self._connection:  # and not a connection that was never used
            self._broken.set()

    def _heard(self, _connection: Any, pid: int, _channel: str, payload: Any) -> None:
        if pid != self._pid:
            self._on_work(_types_in(payload))

    async def _reconnect_when_broken(self) -> None:
        await self._broken.wait()
        self._connection = None
        try:
            connection = await self._connect()
        except TROUBLES_OF_THE_DATABASE as exc:
            _log.warning("worker %s cannot reach the database: %s", self._worker_id, exc)
            await asyncio.sleep(BETWEEN_CONNECTS)
            return
        self._broken.clear()
        if connection.is_closed():
            self._broken.set()  # the connection broke before anybody could be told
        # If the server itself went away, the other workers lost their locks as well, and take them again within a
        # moment: until then, none of them is judged dead.
        self._judges_from = asyncio.get_running_loop().time() + TIME_TO_RECONNECT
        self._on_work(None)  # notifications may have been missed meanwhile

    async def _notify_others(self) -> None:
        await self._notify.wait()
        self._notify.clear()
        connection = self._connection
        with suppress(*TROUBLES_OF_THE_DATABASE):  # the safety-net poll stands behind it
            if connection is not None and not connection.is_closed():
                async with self._using:
                    await connection.execute(f"NOTIFY {WORK_CHANNEL}")
        await asyncio.sleep(QUIET_BETWEEN_NOTIFIES)


def _types_in(payload: str) -> list[str] | None:
    """The types of steps that a notification tells of; None where it does not tell, or somebody else's words."""
    try:
        types = json.loads(payload)
    except ValueError:
        return None
    return types if isinstance(types, list) and all(isinstance(each, str) for each in types) else None


class Silences:
    """How long other workers have been silent, by this process's own clock.

    A check-in bears the time of the worker that made it, and clocks of two machines may differ by more than the silence
    that is allowed. So what counts is not how old a check-in is but for how long it has not changed.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._unchanged: dict[str, tuple[datetime, float]] = {}

    def note(self, checkins: Mapping[str, datetime], now: float) -> set[str]:
        """Take in the latest check-ins; gives the workers that have been silent for too long."""
        before = self._unchanged
        self._unchanged = {
            worker_id: before[worker_id] if worker_id in before and before[worker_id][0] == checkin else (checkin, now)
            for worker_id, checkin in checkins.items()
        }
        return {worker_id for worker_id, (_, since) in self._unchanged.items() if now - since > self._longest}


def connection_arguments(url: sa.URL) -> dict[str, Any]:
    """What asyncpg needs to connect where the engine does."""
    query = {name: value for name, value in url.query.items() if name != "host"}
    host = url.query.get("host") or url.host
    named = {"user": url.username, "password": url.password, "host": host, "port": url.port, "database": url.database}
    return {name: value for name, value in (named | query).items() if value is not None}


class SqlitePresence:
    """A locked file beside the database, and the database's change counter."""

    def __init__(
        self, worker_id: str, database: Path, on_work: OnWork, *, is_idle: Callable[[], bool], duties: Duties
    ) -> None:
        self._worker_id = worker_id
        self._duties = duties
        self._database = database
        self._folder = database.with_name(f"{database.name}-workers")
        self._on_work = on_work
        self._is_idle = is_idle
        self._file: int | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._connection: sqlite3.Connection | None = None
        self._seen = -1
        self._rang_at = 0.0

    async def announce(self) -> None:
        self._file = self._create_file()
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._rang_at = asyncio.get_running_loop().time()
        self._tasks = [self._duties.start(Duty(name="presence", round=self._look, at_end=self._close))]

    def _create_file(self) -> int:
        while True:
            self._folder.mkdir(exist_ok=True)
            # Not inherited by programs that are started: a lock must not outlive the worker in one of its children.
            with suppress(FileNotFoundError):  # the last worker that left took the folder with it
                return os.open(self._path(self._worker_id), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    async def leave(self) -> None:
        await self._duties.end(self._tasks)
        if self._file is not None:
            self._path(self._worker_id).unlink(missing_ok=True)
            os.close(self._file)
            self._file = None
            with suppress(OSError):  # other workers use the folder, or it is gone already
                self._folder.rmdir()

    async def dead_among(self, worker_ids: Sequence[str]) -> set[str]:
        return {worker_id for worker_id in worker_ids if self._is_dead(worker_id)}

    def forget(self, worker_ids: Sequence[str]) -> None:
        for worker_id in worker_ids:
            # A worker that was given up for its silence may live and come back: its lock must still tell of its end.
            if self._is_dead(worker_id):
                self._path(worker_id).unlink(missing_ok=True)

    def tell_others(self) -> None:
        """Nothing to do: the commit has told them, since it changed the database's counter."""

    def _path(self, worker_id: str) -> Path:
        return self._folder / f"{worker_id}.lock"

    def _is_dead(self, worker_id: str) -> bool:
        path = self._path(worker_id)
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False  # on another machine, or just leaving: the heartbeat decides
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            return True
        finally:
            os.close(file)

    async def _look(self) -> None:
        """Look once at the database's counter, after a pause."""
        now = asyncio.get_running_loop().time
        is_alert = self._is_idle() and now() - self._rang_at < IDLE_AFTER
        await asyncio.sleep(BUSY_LOOK if is_alert else IDLE_LOOK)
        if not self._is_idle() and now() - self._rang_at < QUIET_WHILE_BUSY:
            return
        version = self._version()
        if version != self._seen:
            self._seen, self._rang_at = version, now()
            self._on_work(None)

    async def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _version(self) -> int:
        # No thread is needed: reading the counter takes microseconds, and waits for no lock of a writer.
        if self._connection is None:
            self._connection = sqlite3.connect(f"file:{self._database}?mode=ro", uri=True, timeout=0)
        connection = self._connection
        try:
            return connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            return -1  # locked, while what a dead process left is cleared up: worth a look in any case
