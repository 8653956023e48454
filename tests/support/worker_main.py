"""A worker as a process of its own, for tests that stop, kill and mislead it.

    python -m tests.support.worker_main URL ORDERS      one worker
    python -m tests.support.worker_main                 a nursery: forks a worker for each line on standard input
    python -m tests.support.worker_main --commands      a nursery of `si-cli` commands (see `command_main`)

ORDERS is JSON, the fields of `Orders`. What happens is told on standard output, a line for each: `started`, `reached
POINT`, `COUNTER N`, `stopping`, `stopped`. SIGINT and SIGTERM stop the worker gracefully.

Most of a worker's start are its imports, a second long. The nursery makes them once. A line on its input is the JSON of
a `Birth`; when the input ends, what it has forked dies with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, NamedTuple, NoReturn

# Before pydantic, as in conftest.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "logfire-plugin")

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.transactions import Script
from soliplex.ingester.lib.webhooks import settling
from soliplex.ingester.lib.wf import runner
from soliplex.ingester.lib.wf.catalog import use_registry
from soliplex.ingester.lib.wf.execution import now_in_utc
from soliplex.ingester.lib.wf.operations import claim, finish, pruning, signals
from soliplex.ingester.lib.wf.runner import Worker, WorkerConfig
from tests.faults.workflows import make_registry
from tests.support import command_main
from tests.support.forked import die_with_parent

TOLD: Final = frozenset({"lease_lost", "worker_reaped", "step_reset_by_reaper", "step_released", "claim_error"})
"""The counters that are told."""
INSIDE: Final = {
    "inside_claim": (claim, "claim_keyed", "claim_ready_keyed"),
    "inside_finish": (finish, "finish_script", "complete_steps"),
    "inside_parking": (finish, "park", "park_steps"),
    "inside_signals": (signals, "_deliver", "resume_steps"),
    "inside_pruning": (pruning, "_delete_runs", "delete_steps_of_runs"),
    "inside_settling": (settling, "_settle", "settle_messages"),
}
"""Points within a transaction: the script, and the statement after which the fault strikes."""
type Fault = Literal["die", "hang", "stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """How a worker works, and what befalls it."""

    worker_id: str
    consumers: Mapping[str, int] = field(default_factory=lambda: {"*": 2})
    batch_size: int = 20
    checkin_interval: float = 0.2
    checkin_timeout: float = 600
    liveness_interval: float = 0.2
    lock_ttl: float = 300
    stop_timeout: float = 10
    clock_offset: float = 0
    """Seconds by which its clock is ahead."""
    prunes_after: float | None = None
    """Seconds for which it keeps what has ended; it looks for what is older all the time."""
    fault_at: str | None = None
    """Where the fault strikes: a point (see `soliplex.ingester.lib.wf.probes`), or one of `INSIDE`."""
    fault: Fault = "die"

    def config(self) -> WorkerConfig:
        return WorkerConfig(
            consumers=self.consumers,
            batch_size=self.batch_size,
            checkin_interval=self.checkin_interval,
            checkin_timeout=self.checkin_timeout,
            liveness_interval=self.liveness_interval,
            lock_ttl=self.lock_ttl,
            processes=2,
            memory_limit_mib=256,
            retention=pruning.Retention(
                ended=None if self.prunes_after is None else timedelta(seconds=self.prunes_after)
            ),
        )

    def now(self) -> datetime:
        return now_in_utc() + timedelta(seconds=self.clock_offset)


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


class SpokenMetrics:
    """Tells what is counted."""

    def incr(self, name: str, value: int = 1, **labels: str) -> None:
        del labels
        if name in TOLD:
            say(f"{name} {value}")

    def observe(self, name: str, value: float, **labels: str) -> None:
        del name, value, labels


class FaultAt:
    """Strikes at one point."""

    def __init__(self, point: str, fault: Fault) -> None:
        self._point = point
        self._fault = fault
        if point in INSIDE:
            self._go_inside(*INSIDE[point])

    async def reach(self, point: str) -> None:
        if point == self._point:
            self._strike()
            await asyncio.Event().wait()

    def _strike(self) -> None:
        say(f"reached {self._point}")
        if self._fault != "hang":
            os.kill(os.getpid(), signal.SIGKILL if self._fault == "die" else signal.SIGSTOP)

    def _go_inside(self, module: ModuleType, name: str, statement: str) -> None:
        """Strike within the transactions of a script, after a statement."""
        original = getattr(module, name)

        def struck(*arguments: Any, **options: Any) -> Script[Any]:
            script = original(*arguments, **options)
            rows = None
            while True:
                try:
                    call = script.send(rows)
                except StopIteration as done:
                    return done.value
                rows = yield call
                if call.statement.name == statement:
                    self._strike()

        setattr(module, name, struck)


async def work(url: str, orders: Orders) -> None:
    use_registry(make_registry())
    if orders.prunes_after is not None:
        setattr(runner, "PRUNE_EVERY", 0.05)  # noqa: B010  a constant, for all but this
    await Database.initialize(url)
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    worker = Worker(
        orders.config(),
        metrics=SpokenMetrics(),
        worker_id=orders.worker_id,
        clock=orders.now,
        probe=FaultAt(orders.fault_at, orders.fault) if orders.fault_at else None,
    )
    await worker.start()
    say("started")
    await stopping.wait()
    say("stopping")
    await worker.stop(orders.stop_timeout)
    say("stopped")
    await Database.close()


def run(url: str, orders: Orders) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(work(url, orders))


class Birth(NamedTuple):
    """What a worker of the nursery is given: the last three are paths of files to write to."""

    url: str
    orders: dict[str, Any]
    environment: dict[str, str]
    stdout: str
    stderr: str
    report: str
    """Gets the worker's process id and, in the end, its exit code."""
    command: Sequence[str] = ()
    """What to run in place of a worker with orders: a command of `si-cli`."""


def run_nursery() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if os.fork() == 0:
            _keep(Birth(*json.loads(line)))


def _keep(birth: Birth) -> NoReturn:
    """Start the worker, and wait for its end to tell of it."""
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        _become_worker(birth)
    with Path(birth.report).open("w", buffering=1) as report:
        report.write(f"{pid}\n")
        _, status = os.waitpid(pid, 0)
        report.write(f"{os.waitstatus_to_exitcode(status)}\n")
    os._exit(0)


def _become_worker(birth: Birth) -> NoReturn:
    die_with_parent()
    for path, target in ((birth.stdout, 1), (birth.stderr, 2)):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(file, target)
        os.close(file)
    os.environ.clear()
    os.environ.update(birth.environment)
    if birth.command:
        command_main.run(birth.command)
    else:
        run(birth.url, Orders(**birth.orders))
    sys.exit()


if __name__ == "__main__":
    if sys.argv[1:] == ["--commands"]:
        command_main.prepare()
        run_nursery()
    elif len(sys.argv) == 1:
        run_nursery()
    else:
        run(sys.argv[1], Orders(**json.loads(sys.argv[2])))
