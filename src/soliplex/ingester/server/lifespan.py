"""The life of a server process: the database is opened, then the worker starts; at the end the worker stops first.

A signal to stop is passed on to answers that would otherwise never end (streams of events), since the server waits for
all answers before it lets the worker go.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from types import FrameType
from typing import Any, Final

from fastapi import FastAPI

from soliplex.ingester.lib.config import Settings
from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.operations import removals_tended
from soliplex.ingester.lib.operations.apart import kept_apart
from soliplex.ingester.lib.rag.readers import readers_kept
from soliplex.ingester.lib.wf.duties import Duties, Duty
from soliplex.ingester.lib.wf.feed import ChangeFeed
from soliplex.ingester.lib.wf.finisher import count_finished
from soliplex.ingester.lib.wf.metrics import PrometheusMetrics
from soliplex.ingester.lib.wf.operations import end_overdue_runs
from soliplex.ingester.lib.wf.runner import Worker, WorkerConfig
from soliplex.ingester.lib.wf.wakeup import work_is_ready
from soliplex.ingester.lib.wiring import Wiring
from soliplex.ingester.server.metrics import loop_delay_measured

_log = logging.getLogger(__name__)

LOOK_EVERY: Final = timedelta(seconds=1)
"""Between two looks for runs whose deadline has passed."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_lost: Final[list[Worker]] = []
"""Workers of this process that could not go on. They decide its exit code."""


type State = dict[str, Any]
"""What uvicorn is given by the lifespan, for each connection: `connections.py` reads the settings in it."""


def lifespan_of(wiring: Wiring, *, with_worker: bool) -> Callable[[FastAPI], AbstractAsyncContextManager[State]]:
    @asynccontextmanager
    async def live(app: FastAPI) -> AsyncGenerator[State]:
        async with wiring.around(_running(wiring.settings, with_worker=with_worker)) as (worker, feed):
            app.state.worker, app.state.feed = worker, feed
            yield {"settings": wiring.settings}

    return live


@asynccontextmanager
async def _running(settings: Settings, *, with_worker: bool) -> AsyncGenerator[tuple[Worker | None, ChangeFeed]]:
    async with (
        _open_database(settings),
        removals_tended(),
        readers_kept(),
        kept_apart(),
        loop_delay_measured(),
        _working(settings, with_worker=with_worker) as worker,
        _feeding() as feed,
        _announcing(settings, feed),
    ):
        yield worker, feed


@asynccontextmanager
async def _open_database(settings: Settings) -> AsyncGenerator[None]:
    """The database, open for as long as the server lives; one that was open already stays so."""
    if Database.is_open():
        yield
        return
    await Database.initialize(settings.doc_db_url)
    try:
        yield
    finally:
        await Database.close()


@asynccontextmanager
async def _working(settings: Settings, *, with_worker: bool) -> AsyncGenerator[Worker | None]:
    if not with_worker:
        async with _deadlines_kept():
            yield None
        return
    worker = Worker(WorkerConfig.from_settings(settings), metrics=PrometheusMetrics())
    worker.when_lost(lambda: _end_without(worker))
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop(settings.worker_stop_timeout_seconds)


@asynccontextmanager
async def _deadlines_kept() -> AsyncGenerator[None]:
    """End runs whose time is over, as a worker does: those of other processes may all be stopped."""
    duties, over = Duties("server"), asyncio.Event()

    async def look() -> None:
        while (finished := await end_overdue_runs()) is not None:
            count_finished(PrometheusMetrics(), finished)
            work_is_ready()
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), LOOK_EVERY.total_seconds())

    keeping = duties.start(Duty(name="deadlines", round=look, is_over=over.is_set))
    try:
        yield
    finally:
        over.set()
        await duties.end([keeping], LOOK_EVERY.total_seconds())


def _end_without(worker: Worker) -> None:
    """Stop the process, so that a supervisor starts another: without its worker, nobody would do what it accepts."""
    _log.critical("%s; the server stops", worker.lost)
    _lost.append(worker)
    signal.raise_signal(signal.SIGTERM)


def has_lost_a_worker() -> bool:
    """Whether this process stops because its worker cannot go on; then it must not end as if all were well."""
    return bool(_lost)


@asynccontextmanager
async def _feeding() -> AsyncGenerator[ChangeFeed]:
    """The feed of changes, which ends its streams when the process is told to stop."""
    feed = ChangeFeed()
    stopping = asyncio.Event()

    async def close_in_time() -> None:
        await stopping.wait()
        await feed.close()

    closing = asyncio.create_task(close_in_time())
    try:
        with _told_of_signals(stopping):
            yield feed
    finally:
        stopping.set()
        await closing


@asynccontextmanager
async def _announcing(settings: Settings, feed: ChangeFeed) -> AsyncGenerator[None]:
    """Events for whoever LISTENs, if the settings name a channel."""
    channel, is_on = settings.orchestrator_notifications_channel, settings.orchestrator_notifications_enabled
    if channel is None or not (is_on and settings.orchestrator_notifications_real_time):
        yield
        return
    from soliplex.ingester.goals.announcing import announced  # noqa: PLC0415  few servers do

    async with announced(channel, feed):
        yield


@contextmanager
def _told_of_signals(stopping: asyncio.Event) -> Generator[None]:
    """Set the event when the process is told to stop, and let the server's own handler do the rest."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {}
    is_over = False

    def tell(number: int, frame: FrameType | None) -> None:
        if not is_over:
            loop.call_soon_threadsafe(stopping.set)
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in SIGNALS:
        before[number] = signal.getsignal(number)
        signal.signal(number, tell)
    try:
        yield
    finally:
        is_over = True
        for number, handler in before.items():
            # Another application of this process, which began later and lives on, may have set its handler over ours.
            if signal.getsignal(number) is tell:
                signal.signal(number, handler)
