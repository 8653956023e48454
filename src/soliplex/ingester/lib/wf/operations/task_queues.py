"""Steps as tasks in queues of pgmq: sending them, taking them back, and noticing those that workers have lost.

A task waits like any step that waits for a signal; its key names the message, so whoever holds an older message of the
step has no key to it. Sending is part of the transaction that parks the step, and one statement for each queue, however
many tasks there are. `lib/models/task_queues.py` has the functions with which workers finish tasks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from soliplex.ingester.lib.models import Database
from soliplex.ingester.lib.models.columns import utcnow
from soliplex.ingester.lib.models.statements import Json
from soliplex.ingester.lib.models.transactions import Row, Script
from soliplex.ingester.lib.wf.definitions import StepDefinition
from soliplex.ingester.lib.wf.sql import SQL
from soliplex.ingester.lib.wf.wakeup import SIGNALS, work_is_ready
from soliplex.ingester.lib.wf.work import Parked

QUEUED: Final = "queue"
"""The type of steps that are sent to a queue of pgmq: any worker can send them."""
AT_ONCE: Final = 500
"""Tasks that one statement ends."""
_OF_A_QUEUE: Final = ":queue:"


def type_of(step: StepDefinition) -> str:
    """The type under which the step is claimed. Where there is no pgmq, its queue changes nothing."""
    return QUEUED if is_sent(step) else step.type


def is_sent(step: StepDefinition) -> bool:
    """Whether the step is sent to a queue of pgmq."""
    return step.queue is not None and Database.is_postgres()


def is_of_a_queue(key: str) -> bool:
    """Whether it is the key of a task."""
    return key.startswith(_OF_A_QUEUE)


def send_tasks(results: Iterable[Parked]) -> Script[dict[int, str]]:
    """Send steps that are still held under their lease; gives the key of each, by its id."""
    by_queue: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        assert result.task is not None
        facts = {"id": result.step_id, "lease": result.lease, "headers": result.task.headers}
        by_queue[result.task.queue].append(facts)
    keys: dict[int, str] = {}
    for queue in sorted(by_queue):
        for row in (yield SQL.postgres.send_tasks(queue=queue, tasks=Json(by_queue[queue]))):
            keys[row["id"]] = f"{_OF_A_QUEUE}{queue}:{row['msg_id']}"
    return keys


def withdraw_tasks(rows: Sequence[Row]) -> Script[None]:
    """Take messages out of their queues: their steps, which are held, are to wait for them no longer."""
    by_queue: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows:
        queue, message = row["awaits"].removeprefix(_OF_A_QUEUE).split(":")
        by_queue[queue].append(int(message))
    for queue in sorted(by_queue):
        yield SQL.postgres.archive_messages(queue=queue, ids=sorted(by_queue[queue]))


async def fail_lost_tasks(patience: timedelta, *, now: datetime | None = None) -> int:
    """End the attempts of tasks that no worker will finish, in all queues; gives how many."""
    lost = 0
    for row in await Database.read(SQL.task_queues()):
        lost += await Database.transact(_fail_lost(row["name"], patience, now or utcnow()))
    if lost:
        work_is_ready([SIGNALS])
    return lost


def _fail_lost(queue: str, patience: timedelta, now: datetime) -> Script[int]:
    rows = yield SQL.postgres.fail_lost_tasks(queue=queue, now=now, patience=patience, most=AT_ONCE)
    return rows[0]["lost"]


def open_queue(queue: str, now: datetime) -> Script[bool]:
    """Make the queue unless it is there. False: there is no pgmq."""
    rows = yield SQL.postgres.look_for_queue(queue=queue)
    if rows[0]["has_pgmq"] and not rows[0]["is_there"]:
        yield SQL.postgres.open_task_queue(queue=queue, now=now)
    return rows[0]["has_pgmq"]
